#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# An impaired network, on either side and on both: kv-impair (tests/impair) sits on the hosts'
# interfaces, kv-traffic checks every byte. Nothing may be wrong, foreign, broken, refused or hung.
#
# The short form sends 20,000 requests and more; KV_SOAK=1 ten times as many.

load lib
load impair

KV_TIMES=$([ "${KV_SOAK:-}" = 1 ] && echo 10 || echo 1)
# What is lost is sent again after 5, 10, 20, … ms. But an upstream has been through losses, and its
# engine's RTO may have grown to seconds; closed windows are probed after 1, 2, 4, 8 times that.
KV_PATIENCE=60

setup_file() {
	export KV_NAMED=v4 # two ways to relay, one service each
	kv_up 2 2
	kv_gateway
	: >"$KV_RUN/traffic"
}

teardown_file() {
	clear_all
	kv_down
}

teardown() { clear_all; }

# traffic CLIENT N OPTION… [TARGET]: requests of all kinds, to both services
traffic() {
	local client=$1 n=$(($2 * KV_TIMES))
	shift 2
	[[ ${!#} == *:[0-9]* ]] || set -- "$@" "$KV_V4" "$KV_V6"
	from "$client" "$KV_OUT/kv-traffic" -j -x -n "$n" -c 96 --seed 1 --timeout $KV_PATIENCE \
		--pipeline 5 --request-bytes 0-4000 --answer-bytes 0-16000 "$@" \
		>"$BATS_TEST_TMPDIR/json" || die "$(cat "$BATS_TEST_TMPDIR/json")" || return 1
	cat "$BATS_TEST_TMPDIR/json" >>"$KV_RUN/traffic"
	jq -c '{requests, ok, rate, p50: .latency_ms.p50, p99: .latency_ms.p99, max: .latency_ms.max}' \
		"$BATS_TEST_TMPDIR/json"
}

@test "clients' side: 5 % lost, 20 % reordered, duplicates" {
	impair "c1 c2" --loss 5 --reorder 20 --duplicate 2
	traffic 1 6000
	traffic 2 2300
	[ "$(impaired c1 lost)" -gt 1000 ]
	[ "$(impaired c1 reordered)" -gt 4000 ]
}

@test "engines' side: the same" {
	impair "e1 e2" --loss 5 --reorder 20 --duplicate 2
	traffic 1 5000
	traffic 2 1300
	# slow enough that the agent has passed on all that has come: lent in mid-flight
	traffic 1 400 --hinted 0 --answer-bytes 8000-16000 --delay-us 500-2000
	[ "$(impaired e1 lost)" -gt 1000 ]
}

@test "both sides: the same" {
	impair "c1 c2 e1 e2" --loss 5 --reorder 20 --duplicate 2
	traffic 1 2500
	traffic 2 1000
}

@test "segments of any size, reordered" {
	impair "c1 c2 e1 e2" --cut 1-1400 --reorder 10
	traffic 1 300
	traffic 2 300
	[ "$(impaired c2 cut)" -gt 100 ]
}

@test "damaged segments, clients' side" {
	impair "c1 c2" --corrupt 2
	traffic 1 800
	traffic 2 200
	[ "$(impaired c1 corrupted)" -gt 50 ]
	[ "$(kv_in "$KV_ID-c1" awk '/^Tcp: [0-9]/ { print $NF }' /proc/net/snmp)" -gt 20 ]
}

@test "damaged segments, engines' side" {
	impair "e1 e2" --corrupt 2
	traffic 1 800
	traffic 2 200
	[ "$(impaired e1 corrupted)" -gt 50 ]
}

# 31 ms: TCP probes a closed window after 200, 400, 800 … ms, never at the same moment of a period.
@test "windows closed now and then" {
	impair "c1 c2" --zero-window 7/24
	traffic 1 300
	clear_all
	impair "e1 e2" --zero-window 7/24
	traffic 1 300 --request-bytes 0-100000
	[ "$(impaired e1 zero_window)" -gt 10 ]
}

@test "delay that changes" {
	impair "c1 e1 e2" --delay-us 300 --jitter-us 2000
	traffic 1 400
}

@test "requests and answers of up to 8 MB" {
	impair "c1 e1 e2" --loss 1 --reorder 5
	traffic 1 12 -c 4 --timeout 60 --request-bytes 1000000-8388608 --answer-bytes 0-1000
	traffic 1 12 -c 4 --timeout 60 --request-bytes 0-1000 --answer-bytes 1000000-8388608
}

@test "20,000 requests and more, in both lanes" {
	local n
	n=$(jq -s 'map(.ok) | add' "$KV_RUN/traffic")
	echo "# $n requests, $(jq -s 'map(.bytes_received) | add / 1e6 | round' "$KV_RUN/traffic") MB" >&3
	[ "$n" -ge $((20000 * KV_TIMES)) ]
	[ "$(counter requests_express)" -gt $((6000 * KV_TIMES)) ]
	[ "$(counter requests_agent)" -gt $((6000 * KV_TIMES)) ]
	[ "$(counter lends_midflight)" -gt 100 ] || die "lent in mid-flight: $(counter lends_midflight)"
}

# one_sided COUNTER|lends: hinted requests are right, and lent or refused as docs/limits.md says
one_sided() {
	local lends refused=0
	lends=$(counter lends)
	[ "$1" = lends ] || refused=$(counter "$1")
	impair c1 --loss 1 --reorder 5
	traffic 1 120 -c 8 --hinted 100 --pipeline 0 "$KV_V4"
	clear_all
	if [ "$1" = lends ]; then
		[ $(($(counter lends) - lends)) -gt 60 ] || die "lent: $(counter lends) - $lends"
	else
		[ "$(counter lends)" = "$lends" ] || die "lent: $(counter lends) - $lends"
		[ $(($(counter "$1") - refused)) -gt 60 ] || die "refused: $(counter "$1") - $refused"
	fi
}

# client_has SYSCTL VALUE COUNTER
client_has() {
	local was
	was=$(kv_in "$KV_ID-c1" sysctl -n "$1")
	kv_in "$KV_ID-c1" sysctl -qw "$1=$2"
	one_sided "$3"
	kv_in "$KV_ID-c1" sysctl -qw "$1=$was"
}

@test "client without timestamps: not lent" { client_has net.ipv4.tcp_timestamps 0 agent_options; }
@test "client without SACK: not lent" { client_has net.ipv4.tcp_sack 0 agent_options; }
@test "client without window scale: lent" { client_has net.ipv4.tcp_window_scaling 0 lends; }
@test "client with ECN: lent" { client_has net.ipv4.tcp_ecn 1 lends; }

@test "client of small MSS: not lent" {
	local route=(10.71.1.0/24 dev eth0 proto kernel scope link src 10.71.1.2)

	ip -n "$KV_ID-c1" route change "${route[@]}" advmss 536
	one_sided agent_mss
	ip -n "$KV_ID-c1" route change "${route[@]}"
}

# engines_have COUNTER SYSCTL=VALUE…: connections to engines are made anew
engines_have() {
	kv_stop_gateway
	kv_in "$KV_ID-e1" sysctl -qw "${@:2}"
	kv_in "$KV_ID-e2" sysctl -qw "${@:2}"
	kv_gateway
	one_sided "$1"
}

@test "engines without timestamps: not lent" {
	engines_have agent_options net.ipv4.tcp_timestamps=0
}

@test "engines without SACK: not lent" {
	engines_have agent_options net.ipv4.tcp_timestamps=1 net.ipv4.tcp_sack=0
}

@test "engines without window scale: lent" {
	engines_have lends net.ipv4.tcp_sack=1 net.ipv4.tcp_window_scaling=0
}

@test "engines with ECN: lent" {
	kv_in "$KV_ID-gw" sysctl -qw net.ipv4.tcp_ecn=1
	engines_have lends net.ipv4.tcp_window_scaling=1 net.ipv4.tcp_ecn=1
	kv_in "$KV_ID-gw" sysctl -qw net.ipv4.tcp_ecn=2
}

@test "engines of small MSS: not lent" {
	local i
	for i in 1 2; do
		ip -n "$KV_ID-e$i" route change "10.72.$i.0/24" dev eth0 proto kernel scope link \
			src "10.72.$i.2" advmss 536
	done
	engines_have agent_mss net.ipv4.tcp_ecn=2
}

@test "gauges return to 0" {
	until_true 20 kv_at_rest || die "$(kv_under_way; kvs counters --nonzero)"
}

@test "clean end" { kv_clean_end; }
