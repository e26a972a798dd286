#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# answer_header: answers of the agent lane name backend and match in a line of their own; that is
# true, and no other byte is another. v4 has it, v6 has not.

load lib

setup_file() {
	export KV_NAMED=v4
	kv_up 1 3
	kv_gateway
}

teardown_file() { kv_down; }

LINE='KV-Steer: matched=[0-9]+, total=[0-9]+, backend="[-a-z0-9]+"'
BODY='{"model":"emulated","prompt":"some text","max_tokens":3}'

# ask ADDRESS [CURL OPTION…]: a completion; head in $head, body in $body
ask() {
	local to=$1
	shift
	from 1 curl -sSg -m 20 -D "$BATS_TEST_TMPDIR/head" -o "$BATS_TEST_TMPDIR/body" "$@" \
		"http://$to/v1/completions"
	head=$(tr -d '\r' <"$BATS_TEST_TMPDIR/head")
	body=$(cat "$BATS_TEST_TMPDIR/body")
}

# named: the line of $head is the second, and the only one
named() {
	[ "$(grep -nE "^$LINE\$" <<<"$head" | cut -d: -f1)" = 2 ] || die "not named: $head"
}

unnamed() { ! grep -qi '^kv-steer' <<<"$head" || die "named: $head"; }

# said KEY: what the line says
said() {
	sed -nE 's/^KV-Steer: (.*)$/\1/p' <<<"$head" | tr ',' '\n' | sed -nE "s/^ *$1=\"?([^\"]*)\"?\$/\1/p"
}

# served_by: the engine's own word
served_by() { sed -n 's/^x-engine: //p' <<<"$head"; }

@test "on and off, in both lanes" {
	ask "$KV_V4" -d "$BODY"
	named
	ask "$KV_V4" -d "$BODY" -H "KV-Prefix: $(hint 256 a)"
	unnamed
	ask "$KV_V6" -d "$BODY"
	unnamed
	kvs -j service show v4 | jq -e .answer_header
	kvs -j service show v6 | jq -e '.answer_header == false'
	[[ "$(kvs service show v4)" == *"KV-Steer     in answers of the agent lane"* ]]
}

# every CASE…: segments.py, all bytes but the line compared; each answer of the agent lane is named,
# and no other
every() {
	local before agent
	before=$(counter requests_agent)
	tool segments.py --to "$KV_V4" --named "$@" >"$BATS_TEST_TMPDIR/out" || die "$(cat "$BATS_TEST_TMPDIR/out")"
	agent=$(($(counter requests_agent) - before))
	echo "requests of the agent lane: $agent"
	cat "$BATS_TEST_TMPDIR/out"
	[ "$agent" -gt 0 ]
	[ "$(awk '/ named$/ { n += $(NF - 1) } END { print n }' "$BATS_TEST_TMPDIR/out")" = "$agent" ]
}

@test "both lanes, pipelined and not" { every pipelining keep-alive many; }
@test "every framing: length, chunked, until close, none; HEAD and 1xx; lent in mid-flight all the same" {
	local before
	before=$(counter lends_midflight)
	every --agent downloads small-chunks interim expect
	[ "$(counter lends_midflight)" -gt "$before" ]
}
@test "pipelined, half-closed, eight clients at a time" { every --agent pipelining half-close many; }
@test "HTTP/1.0" {
	ask "$KV_V4" -0 -d "$BODY"
	named
}

@test "what it says: as explain before, as trace after, as the engine serves" {
	local i long before
	long=$(jq -nc '{model: "emulated", max_tokens: 1, prompt: ([range(400)] | map("word ") | add)}')
	echo "$long" >"$BATS_TEST_TMPDIR/long.json"
	for i in 1 2; do
		before=$(kvs -j explain "$BATS_TEST_TMPDIR/long.json" --path /v1/completions --service v4)
		ask "$KV_V4" -d "$long"
		named
		echo "$head" "$before"
		[ "$(said backend)" = "$(served_by)" ]
		[ "$(said backend)" = "$(jq -r .choice <<<"$before")" ]
		[ "$(said total)" = "$(jq .total_tokens <<<"$before")" ]
		[ "$(said matched)" = "$(jq .matched_tokens <<<"$before")" ]
		until_true 5 traced
	done
	[ "$(said matched)" -gt 200 ]
	# the engine's template, and the rest of a block
	jq -e --argjson m "$(said matched)" --argjson t "$(said total)" '.usage |
		(.prompt_tokens - $t | -2 < . and . < 2) and
		(.prompt_tokens_details.cached_tokens - $m | -64 < . and . < 64)' <<<"$body"
}

# The last record ends, and says the same.
traced() {
	kvs -j trace --last 1 | jq -e --arg b "$(said backend)" --argjson m "$(said matched)" --argjson t "$(said total)" \
		'.choice == $b and .matched_tokens == $m and .total_tokens == $t and .end == "done"'
}

@test "a request that is tried again: it names who has answered" {
	local full before
	before=$(counter agent_busy_passed_on)
	echo "$BODY" >"$BATS_TEST_TMPDIR/body.json"
	full=$(kvs -j explain "$BATS_TEST_TMPDIR/body.json" --path /v1/completions --service v4 | jq -r .choice)
	kv_fault "${full#e}" '{"status":503,"count":1}'
	ask "$KV_V4" -d "$BODY"
	kv_fault "${full#e}" '{}'
	echo "$head"
	[ "$(counter agent_busy_passed_on)" = $((before + 1)) ]
	[[ "$head" == "HTTP/1.1 200 "* ]]
	named
	[ "$(said backend)" = "$(served_by)" ]
	[ "$(said backend)" != "$full" ]
}

@test "an engine's error is named, the gateway's own answers are not" {
	local i
	for i in 1 2 3; do kv_fault $i '{"status":400}'; done
	ask "$KV_V4" -d "$BODY"
	[[ "$head" == "HTTP/1.1 400 "* ]]
	named
	for i in 1 2 3; do kv_fault $i '{"rst_before_headers":true}'; done
	ask "$KV_V4" -d "$BODY"
	[[ "$head" == "HTTP/1.1 502 "* ]]
	unnamed
	for i in 1 2 3; do kv_fault $i '{}'; done
	until_true 15 answers
}

answers() {
	ask "$KV_V4" -d "$BODY"
	[[ "$head" == "HTTP/1.1 200 "* ]]
}

@test "switched off and on again while running" {
	sed '/answer_header/d' "$KV_RUN/kvsteer.yaml" >"$BATS_TEST_TMPDIR/off.yaml"
	run kvs apply "$BATS_TEST_TMPDIR/off.yaml"
	[ "$status" = 0 ]
	[ "$output" = "service v4: answer_header true -> false" ]
	ask "$KV_V4" -d "$BODY"
	unnamed
	run kvs apply "$KV_RUN/kvsteer.yaml"
	[ "$output" = "service v4: answer_header false -> true" ]
	ask "$KV_V4" -d "$BODY"
	named
	sed 's/answer_header: true/answer_header: yes/' "$KV_RUN/kvsteer.yaml" >"$BATS_TEST_TMPDIR/bad.yaml"
	run kvs apply "$BATS_TEST_TMPDIR/bad.yaml"
	[ "$status" != 0 ]
	[[ "$output" == *'services[0].answer_header: found "yes": expected true or false'* ]]
}

# stream FILE: of the agent lane, for some seconds, in the background; its process in $streaming
stream() {
	from 1 curl -fsSN -m 60 -D "$1.head" -o "$1" -d '{}' -H 'Transfer-Encoding: chunked' \
		"http://$KV_V4/bytes/60000?framing=chunked&chunk=1000&delay_us=40000" 3>&- &
	streaming=$!
	until_true 10 kv_lent 1
}

# streamed FILE: it has come whole, and is named
streamed() {
	wait "$streaming" || die "stream broken: $?"
	from 1 curl -fsS -o "$1.direct" "http://10.72.1.2:8000/bytes/60000"
	cmp "$1" "$1.direct"
	head=$(tr -d '\r' <"$1.head")
	named
}

@test "the agent restarts in mid-answer, and dies: the answer goes on, and the next is named" {
	local agent
	stream "$BATS_TEST_TMPDIR/one"
	kvs restart
	streamed "$BATS_TEST_TMPDIR/one"
	stream "$BATS_TEST_TMPDIR/two"
	agent=$(agent_pid)
	kill -KILL "$agent"
	streamed "$BATS_TEST_TMPDIR/two"
	until_true 15 answers
	named
}

@test "two tenants' bytes, pipelined, early and late: none is another's" {
	from 1 "$KV_OUT/kv-traffic" -j -x -n 3000 -c 60 --seed 5 --timeout 30 --hinted 30 --pipeline 10 --early 10 \
		--answer-bytes 0-16384 "$KV_V4" "$KV_V6" >"$BATS_TEST_TMPDIR/json" || die "$(cat "$BATS_TEST_TMPDIR/json")"
	jq -c '{requests, ok, foreign_bytes, wrong_bytes, broken, engine_foreign}' "$BATS_TEST_TMPDIR/json"
}

@test "all is given back" {
	until_true 15 kv_at_rest || die "$(kv_under_way)"
	kv_lends_ended
}

@test "clean end" { kv_clean_end; }
