#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Where the gateway runs: the same core test (tests/tools/places.py) in each place of tests/places.bash.

load lib
# shellcheck source=tests/places.bash
. "$KV_ROOT/tests/places.bash"

setup() { kv_begin "$BATS_TEST_TMPDIR"; }
teardown() { kv_down; }

# place NAME [ARGUMENT…]: lays it out and starts engine and gateway
place() {
	local name=$1
	shift
	"place_$name" "$@"
	place_serve
}

place_serve() {
	kv_start "$KV_ID-$PLACE_ENGINE" "$KV_RUN/engine.out" "$KV_OUT/kv-engine" --log "$KV_LOG" \
		--listen "$PLACE_ENGINE4:8100" --name e1 --listen "[$PLACE_ENGINE6]:8100" --name e1-6 \
		--keep-alive-s 60
	until_true 5 grep -q ready "$KV_RUN/engine.out"
	place_config >"$KV_RUN/kvsteer.yaml"
	kv_gateway_with -c "$KV_RUN/kvsteer.yaml"
	until_true 10 grep -q 'ready: 2 of 2' "$KV_GW_LOG" || die "$(tail -n 30 "$KV_GW_LOG")"
}

# ask CASE [OPTION…]: a case of places.py on the client
ask() {
	local case=$1
	shift
	kv_in "$KV_ID-$PLACE_CLIENT" python3 "$KV_TOOLS/places.py" --log "$KV_LOG" \
		--rounds "$([ "${KV_SOAK:-}" = 1 ] && echo 4 || echo 1)" \
		--kvsteer "$KV_BIN/kvsteer --pin $KV_PIN" "$case" "$@" || die "$(tail -n 20 "$KV_GW_LOG")"
}

both() { ask "$@" --to "$PLACE_AT4:8000" --to "[$PLACE_AT6]:8000"; }
only4() { ask "$@" --to "$PLACE_AT4:8000"; }
only6() { ask "$@" --to "[$PLACE_AT6]:8000"; }

# lacks WORD COMMAND…: skips by name what this kernel, or this host's tools, cannot do
lacks() {
	local word=$1
	shift
	"$@" >/dev/null 2>&1 || skip "$word"
}

# a device of that type can be made
has_link() {
	ip netns add "$KV_ID-probe" && ip -n "$KV_ID-probe" link add lower type dummy 2>/dev/null
	ip -n "$KV_ID-probe" link add lower type veth peer name peer 2>/dev/null
	ip -n "$KV_ID-probe" link add "$@"
}

@test "an interface for each side" {
	place two
	both core --lane express --lane session --lane agent
	kv_clean_end
}

@test "one interface for both sides" {
	place one
	both core
	kv_clean_end
}

@test "engines on the gateway" {
	place engines_here
	both core
	kv_clean_end
}

@test "clients on the gateway" {
	place clients_here
	only6 core
	only4 core --expect none --why agent_local_client,agent_relayed
	kv_clean_end
}

@test "clients and engines on the gateway" {
	place all_here
	both core
	# with lo's large segments a packet may be a jumbogram: not if it can be helped
	both download --most 8388608 --timeout 10
	[ "$(counter drop_ip_options)" = 0 ]
	kv_clean_end
}

@test "engines behind a bridge of the gateway; listening on any address" {
	# shellcheck disable=SC2034 # of place_config
	PLACE_LISTEN4='*:8000' PLACE_LISTEN6='*:8001'
	place bridge
	only4 core
	ask core --to "[$PLACE_AT6]:8001"
	kv_clean_end
}

@test "a VLAN for each side, one trunk" {
	lacks "kernel without 8021q" has_link link lower name v1 type vlan id 1
	place vlan
	both core
	kv_clean_end
}

@test "a bond of two cables to the engines" {
	lacks "kernel without bonding" has_link b1 type bond
	place bond
	both core
	kv_clean_end
}

@test "clients come in by a macvlan device" {
	lacks "kernel without macvlan" has_link link lower name v1 type macvlan
	place macvlan
	both core
	kv_clean_end
}

@test "MTU 1500 on the clients' side, 9000 on the engines'" {
	place two 1500 9000
	both core
	kv_clean_end
}

@test "MTU 9000 on the clients' side, 1400 on the engines'" {
	place two 9000 1400
	both core
	kv_clean_end
}

@test "a client with a smaller MTU than the gateway's interface: served by the agent" {
	place_two
	ip -n "$KV_ID-c1" link set eth0 mtu 1400
	place_serve
	both core --most 70000 --expect none --why agent_mss
	kv_clean_end
}

# path_mtu HOST ADDRESS: what that host has learned of the path's MTU
path_mtu() {
	ip -n "$KV_ID-$1" route get "$2" | sed -n 's/.* mtu \([0-9]*\).*/\1/p'
}

# Hosts know no more of any path. (Connections begun with that knowledge announce shorter segments,
# and are not lent to those that do not: agent_mss.)
forget_paths() {
	local h
	for h in c1 e1 gw; do
		ip -n "$KV_ID-$h" route flush cache
		ip -n "$KV_ID-$h" -6 route flush cache
	done
}

# narrow 4|6 CASE OTHER-CASE HOST ADDRESS: in CASE the narrow link lies behind the gateway, so ICMP
# comes to the gateway and must go on to HOST; in OTHER-CASE it goes there by itself.
narrow() {
	local only=only$1
	$only "$2" --timeout 8 --lane express
	[ "$(path_mtu "$4" "$5")" = 1400 ] || die "$4 has learned nothing: $(ip -n "$KV_ID-$4" route get "$5")"
	[ "$4" != c1 ] || $only "$2" --timeout 8 --lane express --expect none --why agent_mss
	forget_paths
	$only "$3" --timeout 8 --lane express
	forget_paths
	# An upload of the agent lane is the home sockets', and its answer short.
	$only download --timeout 8 --lane agent
	forget_paths
	$only upload --timeout 8 --lane agent --expect none
	forget_paths
}

@test "1400 on the way to the engine: ICMP reaches the client whose segments were too big" {
	place path e
	narrow 4 upload download c1 10.81.0.1
	narrow 6 upload download c1 fd81::1
	kv_clean_end
}

@test "1400 on the way to the client: ICMP reaches the engine whose segments were too big" {
	place path c
	narrow 4 download upload e1 10.82.0.1
	narrow 6 download upload e1 fd82::1
	kv_clean_end
}

@test "offloads off, then GRO alone, then checksums alone off, on all cables" {
	lacks "ethtool not installed" command -v ethtool
	place two
	place_offloads "gro off gso off tso off tx off rx off sg off"
	both core
	place_offloads "gro on gso off tso off tx on rx on sg on"
	both core
	place_offloads "gro off gso on tso on tx off rx off"
	both core
	kv_clean_end
}

# strict [RULE]: what a careful operator's gateway has: reverse path filter, a stateful firewall in which
# RULE, then what is invalid comes first, and which counts what it drops
strict() {
	local dev
	for dev in all default $(ip -n "$KV_ID-gw" -br link | sed 's/[@ ].*//'); do
		kv_in "$KV_ID-gw" sysctl -qw "net.ipv4.conf.$dev.rp_filter=1"
	done
	kv_in "$KV_ID-gw" nft -f - <<-NFT
		table inet filter {
			counter invalid { }
			counter refused { }
			chain input {
				type filter hook input priority filter; policy drop;
				${1:-}
				ct state invalid counter name invalid drop
				ct state established,related accept
				iif lo accept
				meta l4proto { icmp, ipv6-icmp } accept
				tcp dport 8000 accept
				counter name refused
			}
		}
	NFT
}

# dropped: packets that the firewall has dropped: invalid ones and others
dropped() {
	kv_in "$KV_ID-gw" nft -j list counters |
		jq -r '[.nftables[].counter? | select(.) | {(.name): .packets}] | add | "\(.invalid) \(.refused)"'
}

has_firewall() {
	ip netns add "$KV_ID-probe"
	kv_in "$KV_ID-probe" nft 'add table inet t; add chain inet t c { type filter hook input priority 0; }; add rule inet t c ct state established accept'
}

# firewalled [RULE [SYSCTL]]: the place that has been laid out, served behind a firewall
firewalled() {
	strict "${1:-}"
	[ -z "${2:-}" ] || kv_in "$KV_ID-gw" sysctl -qw "$2"
	place_serve
	both core --no-aborts
	[ "$(dropped)" = "0 0" ] || die "dropped, invalid and others: $(dropped)"
}

@test "rp_filter, conntrack and a stateful firewall" {
	lacks "kernel without nf_tables and conntrack, or no nft" has_firewall
	place_two
	firewalled
	# When a client has closed and then resets, engine segments on the way acknowledge a FIN that no
	# home socket sent: those are invalid, and of no use to anybody.
	both core
	[ "$(dropped | cut -d ' ' -f 2)" = 0 ]
	kv_clean_end
}

# conntrack sees lent packets on lo, besides the home sockets': two numberings of one connection.
@test "the same with engines on the gateway, what comes by lo accepted first" {
	lacks "kernel without nf_tables and conntrack, or no nft" has_firewall
	place_engines_here
	firewalled "iif lo accept"
	kv_clean_end
}

@test "the same with engines on the gateway and nf_conntrack_tcp_be_liberal" {
	lacks "kernel without nf_tables and conntrack, or no nft" has_firewall
	place_engines_here
	firewalled "" net.netfilter.nf_conntrack_tcp_be_liberal=1
	kv_clean_end
}

# netstat HOST NAME: a counter of that host's TCP/IP
netstat() {
	kv_in "$KV_ID-$1" cat /proc/net/netstat /proc/net/snmp6 | awk -v name="$2" '
		$1 == name { print $2 }
		$1 in head { split(head[$1], n); for (i in n) if (n[i] == name) print $i; next }
		{ head[$1] = $0 }'
}

@test "ECN on both sides: marks reach the receiver, their echo the sender" {
	local h
	lacks "kernel without nf_tables, or no nft" has_firewall
	place_two
	for h in gw c1 e1; do kv_in "$KV_ID-$h" sysctl -qw net.ipv4.tcp_ecn=1; done
	place_serve
	# the first router behind the engine is congested
	kv_in "$KV_ID-e1" nft -f - <<-NFT
		table inet congested {
			chain out {
				type filter hook postrouting priority 0;
				ip ecn ect0 numgen inc mod 20 == 0 ip ecn set ce
				ip6 ecn ect0 numgen inc mod 20 == 0 ip6 ecn set ce
			}
		}
	NFT
	both core
	[ "$(netstat c1 InCEPkts)" -gt 0 ]
	[ "$(netstat c1 Ip6InCEPkts)" -gt 0 ]
	[ "$(netstat e1 TCPDeliveredCE)" -gt 0 ]
	kv_clean_end
}

@test "addresses and routes come and go during answers; engines far" {
	place two
	changing both
	kv_clean_end
}

@test "addresses and routes come and go during answers; engines on the gateway" {
	place engines_here
	changing both
	kv_clean_end
	[ "$(kv_in "$KV_ID-gw" sysctl -n net.ipv4.conf.lo.accept_local net.ipv4.conf.lo.route_localnet)" = $'0\n0' ]
}

# changing both|only4|only6: answers of some seconds, while the gateway gets and loses addresses
changing() {
	"$1" slow --timeout 5 >"$KV_RUN/slow.out" 2>&1 3>&- &
	local pid=$!
	until_true 5 grep -q begun "$KV_RUN/slow.out"
	for i in 1 2 3; do
		ip -n "$KV_ID-gw" addr add 10.99.0.$i/32 dev lo
		ip -n "$KV_ID-gw" addr add fd99::$i/128 dev lo
		sleep 0.1
		ip -n "$KV_ID-gw" route flush cache
		ip -n "$KV_ID-gw" addr del 10.99.0.$i/32 dev lo
	done
	wait $pid || die "$(cat "$KV_RUN/slow.out")"
}
