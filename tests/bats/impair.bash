# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# An impaired network: kv-impair (tests/impair) sits on the hosts' interfaces.
#
# c1, e1, e3: one wire segment a packet, as a network has them. c2, e2: GSO packets, as this host's
# links have them. e3 has Linux's own least RTO of 200 ms, all others one of 5 ms, lest the tests
# consist of waiting.

kv_hosts_ready() {
	local ns
	for ns in gw c1 c2 e1 e2; do
		[ -e "/run/netns/$KV_ID-$ns" ] || continue
		# Linux 6.11; before that it is only slower
		kv_in "$KV_ID-$ns" sysctl -qw net.ipv4.tcp_rto_min_us=5000 || true
	done
	for ns in c1 e1 e3; do
		[ -e "/run/netns/$KV_ID-$ns" ] || continue
		ip -n "$KV_ID-$ns" link set eth0 gso_max_segs 1
		ip -n "$KV_ID-gw" link set "$ns" gso_max_segs 1
	done
}

# impair "HOST…" OPTION…: both directions of these hosts' interfaces
impair() {
	local host dir pid
	for host in $1; do
		for dir in egress ingress; do
			pid=$(kv_in "$KV_ID-$host" "$KV_OUT/kv-impair" attach eth0 $dir --tcp-only \
				--spare-syn --seed 4 "${@:2}") || return 1
			[ -z "$pid" ] || echo "$pid" >>"$KV_RUN/pids"
		done
	done
}

# impaired HOST KIND: how often it happened, in both directions
impaired() {
	kv_in "$KV_ID-$1" "$KV_OUT/kv-impair" show eth0 -j | jq --arg k "$2" '[.[][$k]] | add'
}

clear_all() {
	local host
	for host in c1 c2 e1 e2 e3; do
		[ ! -e "/run/netns/$KV_ID-$host" ] || kv_in "$KV_ID-$host" "$KV_OUT/kv-impair" detach eth0
	done
}
