#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Hostile clients and third hosts: they harm nobody but themselves. Smuggling by malformed requests
# is in 50_badinput.bats; segment by segment, tests/prog/test_tc_forged.c and test_tc_reset.c.

load lib

setup_file() {
	kv_up 2 2
	kv_gateway
	# A client without a kernel: an address of c1's network that nobody has.
	ip -n "$KV_ID-gw" neigh add 10.71.1.77 lladdr "$(mac "$KV_ID-c1" eth0)" dev c1
}

teardown_file() { kv_down; }

# mac NAMESPACE DEVICE
mac() {
	ip -n "$1" -j link show "$2" | jq -r '.[0].address'
}

# alone CASE OPTION…
alone() {
	local case=$1
	shift
	from 1 python3 "$KV_TOOLS/adversary.py" --to "$KV_V4" --log "$KV_LOG" --spare 10.71.1.77 \
		--mac "$(mac "$KV_ID-gw" c1)" --gateway "$KV_ID-gw" --third "$KV_ID-c2" \
		--third-mac "$(mac "$KV_ID-gw" c2)" "$@" "$case"
}

# attack CASE OPTION…: while others are served; none of them notices
attack() {
	local case=$1 good ok=0
	shift
	kv_start "$KV_ID-c2" "$KV_RUN/good.json" "$KV_OUT/kv-traffic" -j -x -d 200 -c 8 --seed 3 \
		--answer-bytes 0-65536 "$KV_V4"
	good=$KV_STARTED
	alone "$case" "$@" || ok=1
	kill -TERM "$good"
	until_true 30 gone "$good" || ok=1
	tail -n 1 "$KV_RUN/good.json"
	tail -n 1 "$KV_RUN/good.json" |
		jq -e '.ok > 100 and .foreign_bytes == 0 and .wrong_bytes == 0 and .hung == 0 and
			.broken == 0 and .engine_foreign == 0' || ok=1
	return $ok
}

@test "a client acknowledges what was never sent" {
	attack unsent-ack
	[ "$(counter drop_unsent_ack)" -gt 10 ]
}

@test "a client acknowledges what it has not received" {
	attack optimistic-ack
}

# requests_of_all: that the gateway has framed, each attempt
requests_of_all() {
	echo $(($(counter requests_express) + $(counter requests_agent) + $(counter agent_retries)))
}

# What the home socket or the agent reads of such a stream is theirs to frame; but an engine must
# not find a request where the gateway has not sent one.
@test "retransmissions whose bytes differ from the first" {
	local before seen
	before=$(requests_of_all)
	seen=$(grep -c '"event":"request"' "$KV_LOG")
	alone other-bytes
	seen=$(($(grep -c '"event":"request"' "$KV_LOG") - seen))
	before=$(($(requests_of_all) - before))
	echo "framed by the gateway: $before, seen by engines: $seen"
	[ "$seen" -gt 20 ]
	[ "$seen" -le "$before" ]
	attack other-bytes
}

@test "a third host forges segments, a chunked stream" {
	attack forged --framing chunked
	[ "$(counter drop_window)" -gt 50 ]
}

@test "a third host forges segments, a body of known length" {
	attack forged --framing length
}

@test "a third host forges segments, a body that ends with its connection" {
	attack forged --framing close
}

@test "all is given back" {
	until_true 10 nothing_in_flight
}

nothing_in_flight() {
	kvs -j backend list | jq -e '[.. | objects | (.inflight_requests? // empty), (.inflight_tokens? // empty)] | add == 0'
}

@test "clean end" { kv_clean_end; }
