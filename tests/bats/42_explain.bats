#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# kvsteer explain: the backend that it names is the one that serves the same request next, and the
# reasons that it gives are those of the moment. It changes nothing.

load lib

setup_file() {
	# slow enough for a queue that lasts, fast enough for the rest
	kv_up 1 3 --blocks 20000 --rate 40000
	kv_config price >"$KV_RUN/kvsteer.yaml"
	echo "tenancy: {header: X-Tenant}" >>"$KV_RUN/kvsteer.yaml"
	kv_gateway_with -c "$KV_RUN/kvsteer.yaml"
	kv_serves "$KV_V4"
}

teardown_file() { kv_down; }

# policy P: the running agent takes it over
policy() {
	{
		kv_config "$1"
		echo "tenancy: {header: X-Tenant}"
	} >"$KV_RUN/kvsteer.yaml"
	kvs apply "$KV_RUN/kvsteer.yaml"
}

# body NAME TOKENS: a file with the body of a completion request
body() {
	local file=$BATS_TEST_TMPDIR/$1.json
	jq -nc --arg name "$1" --argjson tokens "$2" \
		'{model: "emulated", max_tokens: 1, prompt: ([range($tokens)] | map("\($name)    "[:4]) | add)}' >"$file"
	echo "$file"
}

# served FILE [HEADER…]: sends it, and tells which engine answered
served() {
	local file=$1 h fields=()
	shift
	for h in "$@"; do fields+=(-H "$h"); done
	from 1 curl -fsS -m 20 -o /dev/null -D - --data-binary "@$file" -H 'Content-Type: application/json' \
		"${fields[@]}" "http://$KV_V4/v1/completions" | tr -d '\r' | sed -n 's/^x-engine: //p'
}

# explained FILE [OPTION…]: the document
explained() {
	local file=$1
	shift
	kvs -j explain "$file" --path /v1/completions "$@"
}

# agree FILE HEADER OPTION…: what is named serves it; the document stays in $why
agree() {
	local file=$1 header=$2 named engine
	shift 2
	why=$(explained "$file" "$@")
	named=$(jq -r .choice <<<"$why")
	engine=$(served "$file" ${header:+"$header"})
	[ "$engine" = "$named" ] || die "named $named, served by $engine: $why"
}

# is FILTER: true of the last document
is() {
	jq -e "$1" <<<"$why" >/dev/null || die "not so: $1: $why"
}

@test "each policy: the one named serves it: by hint, by body, by session" {
	local p k file h
	for p in ttft sticky least hash round-robin price; do
		policy "$p"
		file=$(body "$p" 1000)
		h=$(hint 1024 "$p")
		for k in new again; do
			agree "$file" "KV-Prefix: $h" --hint "$h"
			is '.policy == "'"$p"'" and .lane == "express" and .prompt == "hint" and (.by_chance | not)'
			knows $k "$p"
		done
		agree "$file" "" # the agent hashes it
		is '.lane == "agent" and .prompt == "body"'
		served "$file" "X-Session-Id: $p" >/dev/null
		agree "$file" "X-Session-Id: $p" --session "$p"
		is '.lane == "express" and .prompt == "session"'
		knows again "$p"
	done
}

# knows WHEN POLICY: those that look at caches find it again at the one that had it
knows() {
	case $2 in
	least | hash | round-robin) ;;
	*) is "if \"$1\" == \"new\" then .best_tokens == 0 else .best_tokens > 900 and .choice == .deepest end" ;;
	esac
}

@test "nothing is known of a prompt, then all of it: match, holder, second" {
	local file
	policy price
	file=$(body fresh 2000)
	agree "$file" ""
	is '.best_tokens == 0 and .deepest == null and ([.rungs[].holders[]] == []) and .diverted == false'
	is '[.backends[].candidate] == [true, true, true] and .second != .choice'
	agree "$file" ""
	is '.best_tokens > 1900 and .deepest == .choice and .matched_tokens == .best_tokens and (.rungs[-1].holders[0].backend == .choice)'
	kvs explain "$file" --path /v1/completions >"$BATS_TEST_TMPDIR/text"
	grep -q "^goes to $(jq -r .choice <<<"$why"): the least price" "$BATS_TEST_TMPDIR/text"
	grep -q "^agent lane: " "$BATS_TEST_TMPDIR/text"
}

@test "a loaded holder is passed over: diverted, and by how much" {
	local file long holder h
	file=$(body short 8192)
	h=$(hint 8192 shared)
	holder=$(served "$file" "KV-Prefix: $h")
	# the same beginning, and two seconds to compute behind it
	long=$(body long 80000)
	served "$long" "KV-Prefix: $(python3 "$KV_TOOLS/hint.py" 80000 long shared 8192)" >"$BATS_TEST_TMPDIR/long" 3>&- &
	until_true 5 queued "$holder"
	agree "$file" "KV-Prefix: $h" --hint "$h"
	is '.diverted and .deepest == "'"$holder"'" and .choice != .deepest and .diverted_tokens == 8192 and .diverted_s > 0.5'
	is '.backends[] | select(.backend == "'"$holder"'") | .inflight_tokens > 70000 and .waiting_tokens > 8192 and .inflight_requests == 1'
	wait
	[ "$(cat "$BATS_TEST_TMPDIR/long")" = "$holder" ]
}

queued() {
	kvs -j explain --hint "$(hint 64 none)" | jq -e --arg b "$1" '.backends[] | select(.backend == $b) | .inflight_tokens > 70000' >/dev/null
}

@test "a draining backend is no candidate, its match does not count; none left: none is named" {
	local file holder
	file=$(body drained 2000)
	agree "$file" ""
	holder=$(jq -r .choice <<<"$why")
	kvs backend drain "$holder"
	agree "$file" ""
	is '.best_tokens == 0 and .choice != "'"$holder"'" and .second != "'"$holder"'"'
	is '.backends[] | select(.backend == "'"$holder"'") | (.candidate | not) and (.reason | startswith("draining"))'
	is '[.rungs[].holders[] | .state] | unique == ["draining"]'
	for k in 1 2 3; do [ "e$k" = "$holder" ] || kvs backend drain "e$k"; done
	why=$(explained "$file")
	is '.choice == null and .second == null and [.backends[].candidate] == [false, false, false]'
	kvs explain "$file" | grep -q '^refused with status 503'
	for k in 1 2 3; do kvs backend undrain "e$k"; done
	until_true 5 all_up
}

all_up() {
	[ "$(kvs -j backend list | jq '[.backends[] | select(.state == "up")] | length')" = 6 ]
}

@test "p2c: by chance, and how likely each is" {
	local file
	file=$(body dice 100)
	policy p2c
	why=$(explained "$file")
	is '.by_chance and .choice != null and ([.backends[].chance] | add > 0.999 and add < 1.001 and min > 0.33)'
	kvs backend drain e2
	why=$(explained "$file")
	is '[.backends[] | select(.candidate) | .chance] == [0.5, 0.5]'
	kvs backend undrain e2
	policy price
}

@test "tenants: each has holders of its own" {
	local file
	file=$(body ours 2000)
	agree "$file" "X-Tenant: a" --as a
	agree "$file" "X-Tenant: a" --as a
	is '.best_tokens > 1900'
	why=$(explained "$file" --as b)
	is '.best_tokens == 0'
	why=$(explained "$file")
	is '.best_tokens == 0'
}

@test "what a client has hashed with options of its own is its hint" {
	local file value
	file=$(body lora 2000)
	value=$(kvs hash --path /v1/completions --lora one <"$file")
	served "$file" "$value"
	why=$(explained "$file" --lora one)
	is '.lane == "express" and .prompt == "hint" and .best_tokens > 1900'
	why=$(kvs -j explain <<<"$value")
	is '.lane == "express" and .best_tokens > 1900'
	why=$(explained "$file" --lora two)
	is '.best_tokens == 0'
}

@test "it changes nothing: no decision, no turn, nothing learned" {
	local file first before
	file=$(body idle 2000)
	policy round-robin
	before=$(kvs -j counters | jq -c '[.. | objects | .decisions?, .prefix_inserted?, .session_inserted? | numbers]')
	first=$(explained "$file" --session new | jq -r .choice)
	for _ in 1 2; do [ "$(explained "$file" --session new | jq -r .choice)" = "$first" ]; done
	[ "$(kvs -j counters | jq -c '[.. | objects | .decisions?, .prefix_inserted?, .session_inserted? | numbers]')" = "$before" ]
	[ "$(explained "$file" | jq .best_tokens)" = 0 ]
	policy price
}

# refuses CODE TEXT OPTION…: with this exit code, and a message that says so
refuses() {
	local code=0 want=$1 text=$2
	shift 2
	kvs explain "$@" </dev/null >"$BATS_TEST_TMPDIR/out" 2>&1 || code=$?
	[ $code = "$want" ] && grep -q -- "$text" "$BATS_TEST_TMPDIR/out" || die "exit $code: $(cat "$BATS_TEST_TMPDIR/out")"
}

@test "bad input: one line says what is wrong" {
	local file
	file=$(body big 10)
	refuses 1 'cannot read /none: No such file' /none
	refuses 1 'malformed KV-Prefix' --hint 'one;2'
	refuses 1 'service "x": there is none' --service x
	refuses 1 'refuse this request with status 400: malformed request target' "$file" --path completions
	refuses 1 'expected a tenant\|status 400: tenant header empty' --as '' --hint "$(hint 64 x)"
	refuses 2 'options of hash make a hint' --hint "$(hint 64 x)" --lora y
	refuses 2 'one argument too many' "$file" "$file"
	echo '{"prompt":"'"$(cat "$file")"'"' >"$BATS_TEST_TMPDIR/broken"
	kvs explain "$BATS_TEST_TMPDIR/broken" | grep -q 'its body does not count: '
}

@test "clean end" { kv_clean_end; }
