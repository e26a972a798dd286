#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Affinity turns itself down where an engine's cache is not worth it, says so, and comes back.

load lib

HTTP=127.0.0.1:9099

# config [AFFINITY]
config() {
	cat <<TEXT
http: "$HTTP"
follow: {metrics: 200ms}
TEXT
	kv_config | sed "s/^    policy: .*/&\n    affinity: ${1:-auto}/"
}

setup_file() {
	kv_up 1 2 --blocks 20000
	config >"$KV_RUN/kvsteer.yaml"
	kv_gateway_with -c "$KV_RUN/kvsteer.yaml"
	kv_serves "$KV_V4"
}

teardown_file() { kv_down; }

page() { kv_in "$KV_ID-gw" curl -sS -m 2 "http://$HTTP/metrics"; }

# body NAME: a file with a completion request of 8,000 tokens
body() {
	local file=$BATS_TEST_TMPDIR/$1.json
	[ -e "$file" ] ||
		jq -nc --arg name "$1" '{model: "emulated", max_tokens: 1, prompt: ([range(8000)] | map("\($name)    "[:4]) | add)}' >"$file"
	echo "$file"
}

# served NAME [HEADER]: sends it, and tells which engine answered
served() {
	from 1 curl -fsS -m 20 -o "$BATS_TEST_TMPDIR/answer" -D - --data-binary "@$(body "$1")" -H 'Content-Type: application/json' \
		${2:+-H "$2"} "http://$KV_V4/v1/completions" | tr -d '\r' | sed -n 's/^x-engine: //p'
}

# at ENGINE [HEADERS]: a prompt that is held there, by name; with hints if HEADERS is "hinted"
at() {
	local i name
	for ((i = 0; i < 20; i++)); do
		name=$(printf '%s%s%d' "${2:0:1}" "${1#e}" $i)
		[ "$(served "$name" "${2:+KV-Prefix: $(hint 8192 "$name")}")" != "$1" ] || break
	done
	echo "$name"
}

# state ENGINE: what backend list says of its affinity
state() { kvs -j backend list | jq -r --arg b "$1" '.backends[] | select(.name == $b).affinity.state'; }

is_state() { [ "$(state "$1")" = "$2" ]; }

# asked_until STATE ENGINE NAME [HEADER]: a prompt, until the engine is judged so
asked_until() {
	local i
	for ((i = 0; i < 60; i++)); do
		served "$3" "${4:-}" >/dev/null
		! is_state "$2" "$1" || return 0
		[ -z "${4:-}" ] || sleep 0.05 # the counters are looked at now and then
	done
	die "$2 is not $1: $(kvs backend show "$2")"
}

# explained NAME
explained() { kvs "${@:2}" explain "$(body "$1")" --path /v1/completions; }

@test "not measured: nothing is said, and all of it counts" {
	kvs status | grep -E '^ *e1 .* not measured '
	kvs -j backend list | jq -e '[.backends[] | select(.service == "v4").affinity | .state == "full" and .counts and (.measured | not)] | all'
	kvs backend show e1 | grep 'affinity    what it is believed to hold counts: not measured'
	page | grep -qx 'kvsteer_backend_affinity{service="v4",backend="e1"} 1'
	! page | grep '^kvsteer_backend_affinity_worth_ratio{service="v4"' || false
}

@test "a cache that is off, by the answers' usage: down, for that engine alone" {
	local name other
	kv_fault 1 '{"no_cache":true}'
	name=$(at e1)
	other=$(at e2)
	asked_until down e1 "$name"
	is_state e2 full
	grep 'backend e1: affinity is turned down: of the last [0-9]* tokens predicted to be in its cache 0 % were: .*Prefix caching seems to be off' "$KV_GW_LOG"
	kvs status | grep -E '^ *e1 .* down 0% '
	kvs backend show e1 | grep 'affinity    its cache has not been worth it: 0 % of what was predicted was found'
	page | grep -qx 'kvsteer_backend_affinity{service="v4",backend="e1"} 0'
	page | grep -qx 'kvsteer_backend_affinity{service="v4",backend="e2"} 1'
	page | grep -qx 'kvsteer_backend_affinity_worth_ratio{service="v4",backend="e1"} 0'
	explained "$name" >"$BATS_TEST_TMPDIR/text"
	grep '^no match that counts: e1 is believed to hold 8000 tokens' "$BATS_TEST_TMPDIR/text"
	grep '  e1  *0  *8001 .*; believed 8000 there, but its cache has not been worth it: 0 % of what was predicted was found' "$BATS_TEST_TMPDIR/text"
	explained "$name" -j | jq -e '.best_tokens == 0 and (.backends[] | select(.backend == "e1") | .matched_tokens == 0 and .believed_tokens == 8000 and (.affinity_counts | not))'
	[ "$(served "$name")" = "$(explained "$name" -j | jq -r .choice)" ]
	kvs -j trace | tail -n 1 | jq -e '.matched_tokens == 0 and .own_tokens == 8001 and (.backends[] | select(.backend == "e1") | .matched_tokens == 0 and .believed_tokens > 7000)'
	kvs trace --why | grep 'e1.* holds [0-9.k]* (0% of it counts)'
	# what the other one holds counts as ever
	explained "$other" -j | jq -e '.choice == "e2" and .matched_tokens > 7000'
	[ "$(served "$other")" = e2 ]
}

@test "held: full, off, and auto again, with what has been measured" {
	local name
	name=$(at e2)
	config full >"$BATS_TEST_TMPDIR/full.yaml"
	[ "$(kvs apply "$BATS_TEST_TMPDIR/full.yaml" | head -n 1)" = "service v4: affinity auto -> full" ]
	kvs status | grep -E '^ *e1 .* held full 0% '
	kvs service show v4 | grep 'affinity     held full'
	config off >"$BATS_TEST_TMPDIR/off.yaml"
	kvs apply "$BATS_TEST_TMPDIR/off.yaml"
	kvs status | grep -E '^ *e2 .* off'
	explained "$name" | grep 'affinity is switched off'
	config on >"$BATS_TEST_TMPDIR/on.yaml"
	run kvs apply "$BATS_TEST_TMPDIR/on.yaml"
	[ "$status" != 0 ]
	[[ $output == *"expected auto, full or off"* ]]
	kvs apply "$KV_RUN/kvsteer.yaml"
	is_state e1 down
	is_state e2 full
}

@test "another agent goes on from what the one before has found" {
	local agent
	agent=$(agent_pid)
	kill -KILL "$agent"
	another() { [ "$(agent_pid)" != "$agent" ]; }
	until_true 10 another
	kv_serves "$KV_V4"
	is_state e1 down
	kvs backend show e1 | grep 'its cache has not been worth it: 0 % of what was predicted was found'
}

@test "the cache is on again: what costs nothing is tried, and affinity is back by degrees" {
	local name
	name=$(at e1)
	[ -n "$name" ]
	is_state e1 down
	kv_fault 1 '{}'
	asked_until part e1 "$name"
	kvs status | grep -E '^ *e1 .* part [2-7][0-9]% '
	kvs backend show e1 | grep 'affinity    it counts by the share found: [2-7][0-9] % of what was predicted was found'
	explained "$name" | grep '  e1 .*; believed 8000 there, but it counts by the share found: '
	explained "$name" -j | jq -e '.backends[] | select(.backend == "e1") | .affinity_counts and .matched_tokens == .believed_tokens * .affinity_counts_percent / 100'
	page | grep '^kvsteer_backend_affinity{service="v4",backend="e1"} 0\.[2-7]'
	asked_until full e1 "$name"
	grep 'backend e1: affinity is back: of the last [0-9]* tokens predicted to be in its cache [0-9]* % were' "$KV_GW_LOG"
	page | grep -qx 'kvsteer_backend_affinity{service="v4",backend="e1"} 1'
	[ "$(served "$name")" = e1 ]
	explained "$name" -j | jq -e '.matched_tokens > 7000'
}

@test "in the kernel's lane, by the engine's counters: down, and back" {
	local name h
	name=$(at e2 hinted)
	h="KV-Prefix: $(hint 8192 "$name")"
	kv_fault 2 '{"no_cache":true}'
	asked_until down e2 "$name" "$h"
	[ "$(grep -c 'backend e2: affinity is turned down' "$KV_GW_LOG")" = 1 ]
	kv_fault 2 '{}'
	asked_until full e2 "$name" "$h"
	grep 'backend e2: affinity is back' "$KV_GW_LOG"
	is_state e1 full
}

@test "clean end" {
	kv_clean_end
}
