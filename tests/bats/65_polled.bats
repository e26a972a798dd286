#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Engines that are asked for their KV events by HTTP, as TensorRT-LLM's trtllm-serve is.

load lib
load told

# polled_engine I [OPTION…]
polled_engine() {
	local i=$1
	shift
	kv_engine "$i" --model m --blocks 64 --block-size 32 --kv-events "e$i={\"form\":\"polled\"}" "$@"
}

setup_file() { told_up polled_engine '{poll: /kv_cache_events}'; }

teardown_file() { kv_down; }

# holds FIRST N LINES: "BACKEND TOKENS told|learned" of that prompt's holders, in blocks of 32
holds() {
	[ "$(kvs -j prefix lookup --model m --block 32 --tokens <<<"$(ids "$1" "$2")" |
		jq -r '.holders[] | select(.state == "live") | "\(.backend) \(.matched_tokens) \(if .told then "told" else "learned" end)"')" = "$3" ]
}

fault() { # I JSON
	from 1 curl -sf -m 5 -o /dev/null "http://10.72.$1.2:8000/events" -d "$2"
}

# The agent hashes prompts of tokens in the engines' blocks: it looks once a second what those are.
block_known() { kvs -j backend list | jq -e 'any(.backends[]; .told_block_tokens == 32)' >/dev/null; }

# said PATTERN: so many lines of the gateway's log
said() { grep -cE "$1" "$KV_GW_LOG" || true; }

is_said() { [ "$(said "$2")" -ge "$1" ]; } # N PATTERN

@test "what an engine was given by others is known, and requests go where it is" {
	direct 2 1000 160
	until_true 10 holds 1000 160 "e2 160 told"
	until_true 10 block_known
	for _ in 1 2 3; do [ "$(ask 1000 160)" = e2 ]; done
	direct 1 5000 160
	until_true 10 holds 5000 160 "e1 160 told"
	for _ in 1 2 3; do [ "$(ask 5000 160)" = e1 ]; done
}

@test "evicted blocks are forgotten" {
	direct 1 10000 64
	until_true 10 holds 10000 64 "e1 64 told"
	direct 1 20000 2048 # all of its 64 blocks
	until_true 10 holds 10000 64 ""
}

@test "events that were lost: what was told counts as learned, and what comes is told" {
	local gaps
	gaps=$(counter told_gaps)
	direct 2 30000 64
	until_true 10 holds 30000 64 "e2 64 told"
	fault 2 '{"skip":1}'
	direct 2 31000 64
	direct 2 32000 64
	until_true 10 holds 32000 64 "e2 64 told"
	holds 30000 64 "e2 64 learned"
	holds 31000 64 ""
	until_true 10 risen told_gaps $((gaps + 1))
	until_true 10 told_state e2 followed
}

@test "numbers that begin anew: another process, nothing of before" {
	direct 2 40000 64
	until_true 10 holds 40000 64 "e2 64 told"
	fault 2 '{"restart":true}'
	direct 2 41000 64
	until_true 10 holds 41000 64 "e2 64 told"
	holds 40000 64 ""
	until_true 10 is_said 1 'backend e2: was started again \(its KV events began anew\)'
	until_true 10 told_state e2 complete
}

@test "an answer of other bytes, errors, silence: one line each, requests go on, followed again" {
	local lines
	fault 1 '{"garbage":3}'
	until_true 10 is_said 1 'events of e1: an event has no number|events of e1: http://10.72.1.2:8000/kv_cache_events: '
	direct 1 50000 64
	until_true 15 holds 50000 64 "e1 64 told"
	kv_fault 2 '{"status":500}'
	until_true 10 is_said 1 'events of e2: http://10.72.2.2:8000/kv_cache_events: status 500'
	until_true 10 told_state e2 unsure
	[ -n "$(ask 60000 64)" ]
	kv_fault 2 '{}'
	until_true 15 told_state e2 complete
	direct 2 61000 64
	until_true 15 holds 61000 64 "e2 64 told"
	# of all failures of a kind one line
	[ "$(said 'kv_cache_events: status 500')" = 1 ]
}

@test "an engine that dies and comes back: nothing of before, all of after" {
	direct 1 70000 64
	until_true 10 holds 70000 64 "e1 64 told"
	kv_engine_dies 1
	until_true 20 told_state e1 unsure
	polled_engine 1
	direct 1 71000 64
	until_true 20 holds 71000 64 "e1 64 told"
	holds 70000 64 ""
	until_true 10 told_state e1 complete
}

@test "switched off, and on again: from then on it is known" {
	told_config >"$BATS_TEST_TMPDIR/off.yaml"
	run kvs apply "$BATS_TEST_TMPDIR/off.yaml"
	[ "$output" = "service v4: events poll /kv_cache_events -> off" ]
	until_true 10 told_state e2 off
	run kvs apply "$KV_RUN/kvsteer.yaml"
	[ "$output" = "service v4: events off -> poll /kv_cache_events" ]
	# its queue may hold all since, or nothing: then nobody knows what else it has
	direct 2 80000 64
	until_true 15 holds 80000 64 "e2 64 told"
}

@test "it ends and leaves nothing behind" {
	kv_clean_end
}
