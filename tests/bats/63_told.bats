#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# bats file_tags=timed
# What engines tell of their caches: into the kernel's prefixes, and from there into decisions.

load lib
load told

# told_engine I [OPTION…]: publishes on 5557, replays on 5558
told_engine() {
	local i=$1
	shift
	kv_engine "$i" --model m --blocks 64 --kv-events \
		"e$i={\"endpoint\":\"tcp://*:5557\",\"replay_endpoint\":\"tcp://*:5558\",\"topic\":\"kv@10.72.$i.2:8000@m\"}" "$@"
}

setup_file() { told_up told_engine '{port: 5557, replay_port: 5558}'; }

teardown_file() { kv_down; }

# told_blocks BACKEND N: at least so many
told_blocks() {
	kvs -j backend list | jq -e --arg b "$1" --argjson n "$2" '.backends[] | select(.name == $b) | .told_blocks >= $n' >/dev/null
}

# holders FIRST N: BACKEND TOKENS told|learned, of that prompt, in blocks of 16
holders() {
	kvs -j prefix lookup --model m --tokens <<<"$(ids "$1" "$2")" |
		jq -r '.holders[] | select(.state == "live") | "\(.backend) \(.matched_tokens) \(if .told then "told" else "learned" end)"'
}

# holds FIRST N LINES: those are its holders
holds() {
	[ "$(holders "$1" "$2")" = "$3" ]
}

@test "what an engine was given by others is known, and requests go where it is" {
	direct 2 1000 160
	until_true 5 holds 1000 160 "e2 160 told"
	for _ in 1 2 3; do [ "$(ask 1000 160)" = e2 ]; done
	direct 1 2000 160
	until_true 5 holds 2000 160 "e1 160 told"
	for _ in 1 2 3; do [ "$(ask 2000 160)" = e1 ]; done
	# a hint of the same tokens, decided in the kernel
	hint=$(kvs hash --model m --tokens <<<"$(ids 1000 160)")
	express=$(counter requests_express)
	[ "$(ask 1000 160 "$hint")" = e2 ]
	[ "$(counter requests_express)" -gt "$express" ]
}

# chat NUMBER LENGTH: a body of a chat whose question is so long
chat() {
	printf '{"model":"m","max_tokens":1,"messages":[{"role":"system","content":"You answer %s."},{"role":"user","content":"' "$1"
	head -c "$2" < <(yes "question $1, " | tr -d '\n')
	printf '"}]}'
}

post() { # ADDRESS BODY
	from 1 curl -sf -m 5 -o /dev/null -H 'Content-Type: application/json' "http://$1/v1/chat/completions" -d "$2"
}

# text_holds BODY LINES: holders of that chat, found by its text alone
text_holds() {
	[ "$(kvs -j prefix lookup --path /v1/chat/completions <<<"$1" |
		jq -r '.holders[] | select(.state == "live") | "\(.backend) \(.matched_tokens) \(if .told then "told" else "learned" end)"')" = "$2" ]
}

@test "the text of a prompt finds what events say of its tokens" {
	local body tied engine other
	body=$(chat 1 2000)
	tied=$(counter tied_prompts)
	post "$KV_V4" "$body"
	until_true 10 risen tied_prompts $((tied + 1))
	engine=$(kvs -j prefix lookup --path /v1/chat/completions <<<"$body" | jq -r '.holders[0].backend')
	[[ $engine = e[12] ]]
	text_holds "$body" "$engine 448 told"
	# evicted there
	direct "${engine#e}" 14000 1024
	until_true 5 text_holds "$body" ""
	# given to the other one, not through the gateway
	other=$((3 - ${engine#e}))
	post "10.72.$other.2:8000" "$body"
	until_true 5 text_holds "$body" "e$other 448 told"
	# asked again: nothing new to be asked of the engine
	asked=$(counter tokenize_asked)
	post "$KV_V4" "$body"
	sleep 0.5
	[ "$(counter tokenize_asked)" = "$asked" ]
	# its beginning alone is known as well
	text_holds "$(chat 1 1100)" "e$other 256 told"
}

# tokenize_fails: some prompt's engine has not told its tokens; sets body
tokenize_fails() {
	local i
	for i in 11 12 13 14 15; do
		body=$(chat $i 2000)
		post "$KV_V4" "$body"
		kv_fault 1 '{"status":500}'
		kv_fault 2 '{"status":500}'
		sleep 0.5
		kv_fault 1 '{}'
		kv_fault 2 '{}'
		[ "$(counter tokenize_failed)" = 0 ] || return 0
	done
	return 1
}

@test "a prompt whose tokens could not be had is asked about again when it comes again" {
	local body tied
	tokenize_fails
	tied=$(counter tied_prompts)
	post "$KV_V4" "$body"
	until_true 10 risen tied_prompts $((tied + 1))
	text_holds "$body" "$(kvs -j prefix lookup --path /v1/chat/completions <<<"$body" | jq -r '.holders[0].backend') 448 told"
}

@test "evicted blocks are forgotten, though they had been learned" {
	direct 1 3000 64
	until_true 5 holds 3000 64 "e1 64 told"
	[ "$(ask 3000 64)" = e1 ]
	direct 1 4000 1024 # all of its 64 blocks
	until_true 5 holds 3000 64 ""
}

@test "a cache that is emptied is forgotten at once, and learned anew" {
	direct 2 5000 64
	until_true 5 holds 5000 64 "e2 64 told"
	from 1 curl -sf -m 5 -o /dev/null -X POST http://10.72.2.2:8000/reset_prefix_cache
	until_true 5 holds 5000 64 ""
	direct 2 5000 32
	until_true 5 holds 5000 64 "e2 32 told"
	told_state e2 complete
}

@test "missed and not to be had: what was told counts as learned; what comes is told" {
	local gaps
	gaps=$(counter told_gaps)
	direct 2 6000 64
	until_true 5 holds 6000 64 "e2 64 told"
	until_true 5 told_blocks e2 4
	from 1 curl -sf -m 5 -o /dev/null http://10.72.2.2:8000/events -d '{"skip":1}'
	direct 2 7000 16
	direct 2 8000 16
	until_true 10 holds 8000 16 "e2 16 told"
	holds 6000 64 "e2 64 learned"
	until_true 5 risen told_gaps $((gaps + 1))
	until_true 5 told_state e2 followed
	# heard from an empty cache on, all is known again
	from 1 curl -sf -m 5 -o /dev/null -X POST http://10.72.2.2:8000/reset_prefix_cache
	until_true 5 told_state e2 complete
}

@test "an engine that dies and comes back: nothing of before, all of after" {
	direct 1 9000 64
	until_true 5 holds 9000 64 "e1 64 told"
	kv_engine_dies 1
	until_true 10 told_state e1 unsure
	told_engine 1
	direct 1 9500 64
	until_true 20 holds 9500 64 "e1 64 told"
	holds 9000 64 ""
	until_true 10 told_state e1 complete
}

# epoch BACKEND
epoch() { kvs -j backend list | jq --arg b "$1" '.backends[] | select(.name == $b) | .epoch'; }

@test "events that begin anew: another process, its cache forgotten once" {
	local before
	direct 2 9700 64
	until_true 5 holds 9700 64 "e2 64 told"
	before=$(epoch e2)
	from 1 curl -sf -m 5 -o /dev/null http://10.72.2.2:8000/events -d '{"restart":true}'
	direct 2 9800 32
	until_true 5 holds 9800 32 "e2 32 told"
	holds 9700 64 ""
	again() { grep -q 'backend e2: was started again (its KV events began anew)' "$KV_GW_LOG"; }
	until_true 5 again
	[ "$(epoch e2)" = $((before + 1)) ]
	kvs -j backend show e2 | jq -e '.health.restarts == 1 and .health.weight < 1'
}

@test "events are switched off and on while running" {
	told_config >"$BATS_TEST_TMPDIR/off.yaml"
	run kvs apply "$BATS_TEST_TMPDIR/off.yaml"
	[ "$output" = "service v4: events port 5557 -> off" ]
	direct 2 10000 32
	until_true 5 told_state e2 off
	run kvs apply "$KV_RUN/kvsteer.yaml"
	[ "$output" = "service v4: events off -> port 5557" ]
	until_true 10 told_state e2 complete
	holds 10000 32 "e2 32 told"
}

@test "another weight of a tier is no reason to follow anew" {
	local replays
	replays=$(counter told_replays)
	told_config '{port: 5557, replay_port: 5558, weights: {cpu: 40}}' >"$BATS_TEST_TMPDIR/weights.yaml"
	run kvs apply "$BATS_TEST_TMPDIR/weights.yaml"
	[ "$output" = "service v4: events port 5557 -> the same, other values" ]
	[ "$(bpftool -j map dump pinned "$KV_PIN/kv_services" | jq '.[0].formatted.value.events.weight[1]')" = 102 ]
	sleep 2.2
	told_state e1 complete
	[ "$(counter told_replays)" = "$replays" ]
	kvs apply "$KV_RUN/kvsteer.yaml"
}

@test "an agent that is killed: the next one hears what it missed" {
	direct 2 11000 32
	until_true 5 holds 11000 32 "e2 32 told"
	kill -KILL "$(agent_pid)"
	direct 2 12000 32
	until_true 15 holds 12000 32 "e2 32 told"
	until_true 10 told_state e1 complete
	holds 11000 32 "e2 32 told"
}

@test "it ends and leaves nothing behind" {
	kv_clean_end
}
