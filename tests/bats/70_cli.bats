#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# bats file_tags=timed
# kvsteer: every verb as text and as JSON, with the agent up and down.

load lib

setup_file() {
	kv_up 1 2
	kv_gateway
	from 1 python3 "$KV_TOOLS/ask.py" --to "$KV_V4" --lane express --name known --n 3 >/dev/null
	from 1 python3 "$KV_TOOLS/ask.py" --to "$KV_V4" --lane session --name known --n 3 >/dev/null
	from 1 python3 "$KV_TOOLS/ask.py" --to "$KV_V4" --name known --n 3 >/dev/null
}

teardown_file() { kv_down; }

# json JQ-CONDITION VERB…: one line of JSON for which the condition holds
json() {
	local cond=$1
	shift
	run kvs -j "$@"
	echo "$output"
	[ "$status" = 0 ]
	[ "${#lines[@]}" = 1 ]
	jq -e "$cond" <<<"$output" >/dev/null
}

# text PATTERN VERB…
text() {
	local pattern=$1
	shift
	run kvs "$@"
	echo "$output"
	[ "$status" = 0 ]
	grep -qE "$pattern" <<<"$output"
}

# fails CODE PATTERN VERB…: one clear line
fails() {
	local code=$1 pattern=$2
	shift 2
	run kvs "$@"
	echo "$status: $output"
	[ "$status" = "$code" ]
	[ "${#lines[@]}" = 1 ]
	grep -qE "$pattern" <<<"$output"
	run kvs -j "$@"
	[ "$status" = "$code" ]
	jq -e '.error | length > 0' <<<"$output" >/dev/null
}

@test "status" {
	text 'kvsteerd' status
	json 'type == "object"' status
}

@test "service list and show" {
	text 'v4' service list
	text 'price' service show v4
	json '[.. | objects | .name? // empty] | contains(["v4", "v6"])' service list
	json '[.. | objects | select(.name? == "v4")] | first | .policy == "price" and .listen == ["10.71.1.1:8000"]' service show v4
	fails 1 'nope' service show nope
}

@test "backend list" {
	text 'e1 ' backend list
	json '[.. | objects | select(.name? == "e1")] | first | .state == "up" and .address == "10.72.1.2:8000" and .inflight_requests == 0' backend list
}

@test "prefix show and lookup" {
	text '.' prefix show
	json 'type == "object"' prefix show
	text 'e[12]' prefix lookup "$(hint 1024 known)"
	json '[.. | objects | .backend? // .name? // empty | strings | select(test("^e[12]$"))] | length > 0' prefix lookup "$(hint 1024 known)"
	json '.holders == []' prefix lookup "$(hint 1024 unknown)"
	fails 1 'KV-Prefix' prefix lookup nonsense
}

@test "session lookup" {
	text 'e[12]' session lookup known
	json '[.. | strings | select(test("^e[12]$"))] | length > 0' session lookup known
}

@test "counters" {
	text 'requests_express +[1-9]' counters
	json '[.. | objects | .requests_express? | numbers] | first > 0' counters
	# every counter of the contract is there
	local name
	for name in $(sed -n 's/^\tX(\([a-z_]*\),.*/\1/p' "$KV_ROOT/include/kvsteer/counters.h"); do
		counter "$name" >/dev/null || die "no counter $name"
	done
}

@test "check: a good file, a bad file" {
	kv_config >"$BATS_TEST_TMPDIR/good.yaml"
	run kvs check "$BATS_TEST_TMPDIR/good.yaml"
	[ "$status" = 0 ]
	sed 's/policy: price/policy: cheapest/' "$BATS_TEST_TMPDIR/good.yaml" >"$BATS_TEST_TMPDIR/bad.yaml"
	fails 1 'bad.yaml:[0-9]+: .*policy.*round-robin' check "$BATS_TEST_TMPDIR/bad.yaml"
	fails 1 'none.yaml' check "$BATS_TEST_TMPDIR/none.yaml"
}

@test "apply: nothing to do, a change, the same again" {
	kv_config >"$BATS_TEST_TMPDIR/a.yaml"
	text '.' apply "$BATS_TEST_TMPDIR/a.yaml"
	kv_config sticky >"$BATS_TEST_TMPDIR/a.yaml"
	text '.' apply "$BATS_TEST_TMPDIR/a.yaml"
	json '[.. | objects | select(.name? == "v4")] | first | .policy == "sticky"' service show v4
	json 'type == "object"' apply "$BATS_TEST_TMPDIR/a.yaml"
	kv_config price >"$BATS_TEST_TMPDIR/a.yaml"
	text '.' apply "$BATS_TEST_TMPDIR/a.yaml"
}

@test "apply: what is learned and counted stays" {
	local before
	before=$(counter decisions)
	kv_config sticky >"$BATS_TEST_TMPDIR/a.yaml"
	kvs apply "$BATS_TEST_TMPDIR/a.yaml"
	text 'e[12]' session lookup known
	text 'e[12]' prefix lookup "$(hint 1024 known)"
	[ "$(counter decisions)" -ge "$before" ]
	kv_config price >"$BATS_TEST_TMPDIR/a.yaml"
	kvs apply "$BATS_TEST_TMPDIR/a.yaml"
}

@test "apply: a bad file is refused whole" {
	kv_config ttft | sed 's/name: e2-6,/nam: e2-6,/' >"$BATS_TEST_TMPDIR/bad.yaml"
	fails 1 'bad.yaml:[0-9]+: ' apply "$BATS_TEST_TMPDIR/bad.yaml"
	json '[.. | objects | select(.name? == "v4")] | first | .policy == "price"' service show v4
}

# asked NAME: of 30 requests it has one; each try asks about something new, for what was asked
# before stays where it is
asked() {
	ASKED=$((${ASKED:-0} + 1))
	from 1 python3 "$KV_TOOLS/ask.py" --to "$KV_V4" --names 30 --lane express --name "add-$ASKED" >"$BATS_TEST_TMPDIR/out"
	grep -q "^200 $1" "$BATS_TEST_TMPDIR/out"
}

@test "backend add, drain, remove" {
	kv_start "$KV_ID-e1" "$KV_RUN/extra.out" "$KV_OUT/kv-engine" --listen 10.72.1.2:8010 --name extra
	until_true 5 kv_in "$KV_ID-e1" curl -fsS -m 1 -o /dev/null http://10.72.1.2:8010/health
	kvs backend add v4 10.72.1.2:8010 --name extra
	json '[.. | objects | select(.name? == "extra")] | first | .state == "up"' backend list
	until_true 15 asked extra # it starts slowly
	fails 1 'extra' backend add v4 10.72.1.2:8010 --name extra
	kvs backend drain extra
	json '[.. | objects | select(.name? == "extra")] | first | .state == "draining"' backend list
	from 1 python3 "$KV_TOOLS/ask.py" --to "$KV_V4" --names 30 --lane express --name drained >"$BATS_TEST_TMPDIR/out"
	[ "$(grep -c '^200 e' "$BATS_TEST_TMPDIR/out")" = 30 ]
	run grep -c '^200 extra' "$BATS_TEST_TMPDIR/out"
	[ "$output" = 0 ]
	kvs backend remove extra
	until_true 10 forgotten extra
	fails 1 'nope' backend drain nope
	fails 1 'nope' backend remove nope
}

forgotten() {
	kvs -j backend list | jq -e --arg n "$1" '[.. | objects | select(.name? == $n)] | length == 0' >/dev/null
}

@test "hash: body and tokens give a header that the kernel takes" {
	local header before
	header=$(kvs hash <<<'{"model":"m","prompt":"'"$(printf 'word %.0s' {1..400})"'"}')
	[[ $header == KV-Prefix:\ 1\;* ]]
	before=$(counter hint_prefix)
	from 1 curl -fsS -m 5 -o /dev/null -H "$header" -d '{"prompt":"x"}' "http://$KV_V4/v1/completions"
	[ "$(counter hint_prefix)" -gt "$before" ]
	header=$(seq 1 200 | tr '\n' ' ' | kvs hash --tokens --block 16 --model m)
	[[ $header == KV-Prefix:\ 1\;200,* ]]
	fails 1 '.' hash --path /v1/chat/completions </dev/null
}

@test "help everywhere, wrong usage is code 2" {
	text 'usage: kvsteer' help
	text 'usage: kvsteer' --help
	for object in status service backend prefix session counters apply check hash; do
		text "kvsteer $object" $object help
		text "kvsteer $object" help $object
	done
	text '[0-9]' --version
	fails 2 'nonsense' nonsense
	fails 2 'nonsense' service nonsense
	fails 2 '.' service
	fails 2 '.' service show
	fails 2 'bogus' status --bogus
}

@test "another pin directory: said clearly" {
	run "$KV_BIN/kvsteer" --pin /sys/fs/bpf/nowhere status
	[ "$status" = 1 ]
	[[ $output == *nowhere* ]]
}

@test "agent down: reading verbs read, writing verbs say so" {
	kv_kill_gateway
	until_true 10 eval 'kvs status | grep -q DOWN'
	json 'type == "object"' status
	text 'DOWN' status
	text 'v4' service list
	text 'price' service show v4
	text 'e1 ' backend list
	text '.' prefix show
	text 'e[12]' prefix lookup "$(hint 1024 known)"
	text 'e[12]' session lookup known
	text 'requests_express' counters
	fails 1 'kvsteerd' backend drain e1
	fails 1 'kvsteerd' apply "$KV_RUN/kvsteer.yaml"
	kv_gateway
}

@test "clean end" { kv_clean_end; }
