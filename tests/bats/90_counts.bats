#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# The counters are true: under load each request is counted once, and gauges return to 0.

load lib

setup_file() {
	kv_up 1 3
	kv_gateway
}

teardown_file() { kv_down; }

requests() {
	echo $(($(counter requests_express) + $(counter requests_agent) + $(counter requests_refused)))
}

# load OPTION…: runs counts.py; sets sent, before, after
loaded() {
	before=$(requests)
	from 1 python3 "$KV_TOOLS/counts.py" --to "$KV_V4" "$@" >"$BATS_TEST_TMPDIR/sums"
	cat "$BATS_TEST_TMPDIR/sums"
	sent=$(jq .sent "$BATS_TEST_TMPDIR/sums")
	after=$(requests)
}

sum() {
	jq --arg n "$1" '.[$n] // 0' "$BATS_TEST_TMPDIR/sums"
}

@test "express + agent + refused = sent" {
	local sent before after express
	express=$(counter requests_express)
	loaded --n 150
	[ "$(sum errors)" = 0 ]
	[ "$(sum status_200)" = $((sent - $(sum sent_refused))) ]
	[ "$(sum status_400)" = "$(sum sent_refused)" ]
	echo "$before + $sent: $after"
	[ $((before + sent)) = "$after" ]
	# most of what was hinted is decided in the kernel
	local hinted=$(($(sum sent_express) + $(sum sent_session) + $(sum sent_get)))
	[ $(($(counter requests_express) - express)) -ge $((hinted * 9 / 10)) ]
}

@test "the same while counters and status are read, and with clients that give up" {
	local sent before after
	(while sleep 0.1; do kvs -j status >/dev/null && kvs -j counters >/dev/null || break; done) 3>&- &
	local reader=$!
	loaded --n 100 --reset
	kill $reader
	[ "$(sum errors)" = 0 ]
	# some have given up before the agent has read their request
	until_true 5 eval '[ "$(requests)" -ge $((before + sent)) ]' || true
	after=$(requests)
	echo "$before + $sent: $after"
	[ $((before + sent)) = "$after" ]
}

@test "gauges return to 0" {
	until_true 10 kv_at_rest || die "$(kv_under_way; kvs counters --nonzero)"
}

@test "each client connection and each lend has ended" {
	until_true 5 kv_at_rest
	kv_lends_ended
}

@test "engines saw each request that was not refused, once" {
	local express agent i
	local before=0 after=0 sent
	for i in 1 2 3; do before=$((before + $(engine_metric $i kv_engine_requests_total))); done
	express=$(counter requests_express) agent=$(counter requests_agent)
	from 1 python3 "$KV_TOOLS/counts.py" --to "$KV_V4" --n 60 --seed 9 >"$BATS_TEST_TMPDIR/sums"
	for i in 1 2 3; do after=$((after + $(engine_metric $i kv_engine_requests_total))); done
	sent=$(($(sum sent) - $(sum sent_refused)))
	# the three readings of the metrics before are requests too
	[ $((after - before - 6)) -le "$sent" ]
	[ $((after - before)) -ge "$sent" ]
	[ $(($(counter requests_express) + $(counter requests_agent) - express - agent)) = "$sent" ]
}

@test "clean end" { kv_clean_end; }
