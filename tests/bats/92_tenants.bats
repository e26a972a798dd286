#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Tenants never cross: every byte of every request and answer names its owner (kv-traffic, and
# kv-engine's /tagged), few upstreams serve many clients, and clients and engines misbehave. Short
# form: over 100,000 requests. KV_SOAK=1: ten times as many.

load lib

HOSTS=3

setup_file() {
	export KV_NO_LOG=1
	# So many requests: without the sanitizers. The last tests are with them.
	KV_SAN=$KV_BIN TIMES=${KV_SOAK:+10}
	export KV_SAN KV_BIN=$KV_OUT TIMES=${TIMES:-1}
	export KV_NAMED=v6 # two ways to relay, one service each
	kv_up $HOSTS 3
	gateway
}

teardown_file() { kv_down; }

kv_hosts_ready() {
	local i
	for ((i = 1; i <= HOSTS; i++)); do from $i sysctl -qw net.ipv4.tcp_tw_reuse=1; done
}

# Few upstreams: more connections than these wait for one.
gateway() {
	{
		kv_config price
		echo "upstreams_per_backend: 64"
	} >"$KV_RUN/kvsteer.yaml"
	kv_gateway_with -c "$KV_RUN/kvsteer.yaml"
	kv_serves "$KV_V4" "$KV_V6"
}

# traffic HOST NAME OPTION…: in the background
traffic() {
	local host=$1 name=$2
	shift 2
	{
		code=0
		from "$host" nice -n 5 "$KV_OUT/kv-traffic" -j --seed "$host" --timeout 15 "$@" \
			"$KV_V4" "$KV_V6" >"$BATS_TEST_TMPDIR/$name" 2>&1 || code=$?
		echo "$code" >"$BATS_TEST_TMPDIR/$name.code"
	} 3>&- &
}

# all_well NAME…: waits; each ended well, and no engine got a byte of another's
all_well() {
	local name i bad=0
	wait
	for name in "$@"; do
		echo "$name: $(cat "$BATS_TEST_TMPDIR/$name")"
		[ "$(cat "$BATS_TEST_TMPDIR/$name.code")" = 0 ] || bad=1
		[ "$(tail -n 1 "$BATS_TEST_TMPDIR/$name" | jq .broken)" = 0 ] || bad=1
	done
	for i in 1 2 3; do
		[ "$(engine_metric "$i" kv_engine_foreign_bytes)" = 0 ] || die "engine $i got foreign bytes" || bad=1
	done
	return $bad
}

at_rest() {
	until_true 15 kv_at_rest || die "$(kv_under_way; kvs counters --nonzero)" || return 1
	kv_lends_ended
}

@test "34,000 requests: pipelined, half-closed, chunked, streamed, slowly read" {
	traffic 1 plain -x -n $((14000 * TIMES)) -c 200 --pipeline 20 --half-close 5 --answer-bytes 0-16384
	traffic 2 sizes -x -n $((6000 * TIMES)) -c 60 --request-bytes 0-100000 --answer-bytes 0-200000 --slow 2
	traffic 3 small -x -n $((14000 * TIMES)) -c 300 --request-bytes 0-100 --answer-bytes 0-100
	all_well plain sizes small
	at_rest
}

@test "54,000 requests: clients give up, from ports that come again at once; answers that come late" {
	traffic 1 giving-up -n $((18000 * TIMES)) -c 200 --abort 25 --ports 20000-20240 --first-us 0-8000 --answer-bytes 0-16384
	traffic 2 after -n $((18000 * TIMES)) -c 200 --abort 60 --ports 30000-30220 --first-us 1000-30000 --answer-bytes 0-4096
	traffic 3 staying -x -n $((18000 * TIMES)) -c 200 --pipeline 10 --answer-bytes 0-16384
	all_well giving-up after staying
	at_rest
}

@test "12,000 requests that are answered before they have come whole" {
	traffic 1 early -x -n $((6000 * TIMES)) -c 60 --early 30 --request-bytes 0-100000 --answer-bytes 0-16384
	traffic 2 between -x -n $((6000 * TIMES)) -c 60 --answer-bytes 0-16384
	all_well early between
	at_rest
}

@test "6,000 requests, some answered twice: the second answer is nobody's" {
	traffic 1 twice -n $((2000 * TIMES)) -c 50 --twice 10 --answer-bytes 0-8192
	traffic 2 between -n $((2000 * TIMES)) -c 50 --answer-bytes 0-8192
	traffic 3 agent -n $((2000 * TIMES)) -c 50 --hinted 0 --twice 10 --answer-bytes 0-8192
	all_well twice between agent
	at_rest
}

@test "clean end" { kv_clean_end; }

@test "with the sanitizers: all of it at once, 5,000 requests" {
	KV_BIN=$KV_SAN
	: >"$KV_GW_LOG"
	gateway
	traffic 1 mixed -n $((2500 * TIMES)) -c 60 --pipeline 10 --half-close 5 --early 10 --abort 10 --slow 2 --ports 20000-20100
	traffic 2 hinted -n $((2500 * TIMES)) -c 60 --hinted 100 --abort 20 --first-us 0-10000 --ports 30000-30100
	all_well mixed hinted
	at_rest
}

@test "clean end with the sanitizers" { kv_clean_end; }
