# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# The places that the gateway is tested in: hosts as namespaces, joined in each way that is promised.
# Needs only ip, nsenter, sysctl, bash; also runs in the machines of tools/kernels.sh.
#
# place_NAME lays one out and says, for place_config and the test:
#	PLACE_CLIENT, PLACE_ENGINE	the hosts: short names of namespaces
#	PLACE_AT4, PLACE_AT6		the gateway's addresses that the client asks
#	PLACE_ENGINE4, PLACE_ENGINE6	the engine's addresses
#	PLACE_INTERFACES		what kvsteerd is told to attach to; empty: it finds out
# Addresses: 10.NET.0.HOST/24 and fdNET::HOST/64.

# place_ns NAME…: hosts, with nothing but lo
place_ns() {
	local n
	for n in "$@"; do
		ip netns add "$KV_ID-$n"
		ip -n "$KV_ID-$n" link set lo up
		# No duplicate address detection: addresses are usable at once.
		kv_in "$KV_ID-$n" sysctl -qw net.ipv6.conf.default.accept_dad=0
	done
}

# place_link A DEV-A B DEV-B [MTU]: a cable
place_link() {
	ip -n "$KV_ID-$1" link add "$2" mtu "${5:-1500}" type veth \
		peer name "$4" mtu "${5:-1500}" netns "$KV_ID-$3"
	ip -n "$KV_ID-$1" link set "$2" up
	ip -n "$KV_ID-$3" link set "$4" up
}

# place_addr HOST-NAME DEV NET HOST
place_addr() {
	ip -n "$KV_ID-$1" addr add "10.$3.0.$4/24" dev "$2"
	ip -n "$KV_ID-$1" addr add "fd$3::$4/64" dev "$2" nodad
}

# place_route HOST-NAME NET|default VIA-NET VIA-HOST [OPTION…]
place_route() {
	local name=$KV_ID-$1 to4=default to6=default net=$3 host=$4
	[ "$2" = default ] || to4=10.$2.0.0/24 to6=fd$2::/64
	shift 4
	ip -n "$name" route add "$to4" via "10.$net.0.$host" "$@"
	ip -n "$name" -6 route add "$to6" via "fd$net::$host" "$@"
}

# place_router NAME…: hosts that forward
place_router() {
	local n
	place_ns "$@"
	for n in "$@"; do
		kv_in "$KV_ID-$n" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
	done
}

# place_switch NAME DEV HOST…: hosts with eth0 each (the gateway: p1), on one wire
place_switch() {
	local switch=$1 dev=$2 h
	shift 2
	ip -n "$KV_ID-$switch" link add "$dev" type bridge forward_delay 0
	for h in "$@"; do
		place_link "$h" "$([ "$h" = gw ] && echo p1 || echo eth0)" "$switch" "p-$h"
		ip -n "$KV_ID-$switch" link set "p-$h" master "$dev"
	done
	ip -n "$KV_ID-$switch" link set "$dev" up
}

# place_ends NET-OF-CLIENT NET-OF-ENGINE: the usual answers; the gateway is host 1, the others are 2
place_ends() {
	PLACE_CLIENT=c1 PLACE_ENGINE=e1 PLACE_INTERFACES=
	PLACE_AT4=10.$1.0.1 PLACE_AT6=fd$1::1 PLACE_ENGINE4=10.$2.0.2 PLACE_ENGINE6=fd$2::2
}

# place_two [MTU-OF-CLIENTS MTU-OF-ENGINES]: an interface for each side
place_two() {
	place_ns gw c1 e1
	place_link gw c1 c1 eth0 "${1:-1500}"
	place_link gw e1 e1 eth0 "${2:-1500}"
	place_addr gw c1 81 1
	place_addr c1 eth0 81 2
	place_addr gw e1 82 1
	place_addr e1 eth0 82 2
	place_ends 81 82
	PLACE_INTERFACES="c1 e1"
}

# One interface for both sides: all three on one switch.
place_one() {
	place_ns s1 gw c1 e1
	place_switch s1 sw gw c1 e1
	place_addr gw p1 81 1
	place_addr c1 eth0 81 2
	place_addr e1 eth0 81 3
	place_ends 81 81
	PLACE_ENGINE4=10.81.0.3 PLACE_ENGINE6=fd81::3
}

# Engines on the gateway itself; with "client" the client too.
place_engines_here() {
	place_two
	PLACE_ENGINE=gw PLACE_ENGINE4=127.0.0.1 PLACE_ENGINE6=::1 PLACE_INTERFACES=
}

place_clients_here() {
	place_two
	PLACE_CLIENT=gw
}

place_all_here() {
	place_engines_here
	PLACE_CLIENT=gw PLACE_AT4=127.0.0.1 PLACE_AT6=::1
}

# Engines behind a bridge of the gateway, as containers are.
place_bridge() {
	place_ns gw c1 e1 e2
	place_link gw c1 c1 eth0
	place_addr gw c1 81 1
	place_addr c1 eth0 81 2
	place_switch gw br0 e1 e2
	place_addr gw br0 82 1
	place_addr e1 eth0 82 2
	place_addr e2 eth0 82 3
	place_ends 81 82
}

# Each side in a VLAN of its own, on one trunk that ends in a switch.
place_vlan() {
	place_ns gw c1 e1 s1
	ip -n "$KV_ID-s1" link add sw type bridge forward_delay 0 vlan_filtering 1
	place_link gw t1 s1 trunk
	place_link c1 eth0 s1 p-c1
	place_link e1 eth0 s1 p-e1
	for p in trunk p-c1 p-e1; do ip -n "$KV_ID-s1" link set $p master sw; done
	ip -n "$KV_ID-s1" link set sw up
	kv_in "$KV_ID-s1" bridge vlan add dev trunk vid 81
	kv_in "$KV_ID-s1" bridge vlan add dev trunk vid 82
	kv_in "$KV_ID-s1" bridge vlan add dev p-c1 vid 81 pvid untagged
	kv_in "$KV_ID-s1" bridge vlan add dev p-e1 vid 82 pvid untagged
	for net in 81 82; do
		ip -n "$KV_ID-gw" link add link t1 name t1.$net type vlan id $net
		ip -n "$KV_ID-gw" link set t1.$net up
		place_addr gw t1.$net $net 1
	done
	place_addr c1 eth0 81 2
	place_addr e1 eth0 82 2
	place_ends 81 82
}

# Two cables to the engines, taken in turn.
place_bond() {
	local h
	place_ns gw c1 e1
	place_link gw c1 c1 eth0
	place_addr gw c1 81 1
	place_addr c1 eth0 81 2
	for h in gw e1; do ip -n "$KV_ID-$h" link add bond0 type bond mode balance-rr miimon 100; done
	place_link gw s1 e1 s1
	place_link gw s2 e1 s2
	for h in gw e1; do
		for p in s1 s2; do
			ip -n "$KV_ID-$h" link set $p down
			ip -n "$KV_ID-$h" link set $p master bond0
		done
		ip -n "$KV_ID-$h" link set bond0 up
	done
	place_addr gw bond0 82 1
	place_addr e1 bond0 82 2
	place_ends 81 82
}

# A device upon the one that the clients' cable is in, as a container has it.
place_macvlan() {
	place_ns gw c1 e1
	place_link gw c1 c1 eth0
	ip -n "$KV_ID-gw" link add link c1 name m1 type macvlan mode bridge
	ip -n "$KV_ID-gw" link set m1 up
	place_addr gw m1 81 1
	place_addr c1 eth0 81 2
	place_link gw e1 e1 eth0
	place_addr gw e1 82 1
	place_addr e1 eth0 82 2
	place_ends 81 82
}

# place_path NEAR-SIDE: both ends and the gateway have 1500, two routers on the way from the gateway to
# the client (c) or the engine (e) have 1400 between them.
place_path() {
	place_ns gw c1 e1
	place_router r1 r2
	local far=c1 near=e1 net=82 nets="81 83 84"
	[ "$1" = c ] || far=e1 near=c1 net=81 nets="82 83 84"
	read -r far_net mid_net gw_net <<<"$nets"
	place_link gw "$near" "$near" eth0
	place_addr gw "$near" "$net" 1
	place_addr "$near" eth0 "$net" 2
	place_link gw p1 r1 eth0
	place_link r1 eth1 r2 eth0 1400
	place_link r2 eth1 "$far" eth0
	place_addr gw p1 "$gw_net" 1
	place_addr r1 eth0 "$gw_net" 2
	place_addr r1 eth1 "$mid_net" 1
	place_addr r2 eth0 "$mid_net" 2
	place_addr r2 eth1 "$far_net" 1
	place_addr "$far" eth0 "$far_net" 2
	place_route gw "$far_net" "$gw_net" 2
	place_route r1 "$far_net" "$mid_net" 2
	place_route r2 "$gw_net" "$mid_net" 1
	place_route "$far" default "$far_net" 1
	place_ends 81 82
	[ "$1" = e ] || PLACE_AT4=10.84.0.1 PLACE_AT6=fd84::1
}

# place_offloads "NAME on|off …": on every cable's ends
place_offloads() {
	local h dev
	for h in gw c1 e1; do
		for dev in $(ip -n "$KV_ID-$h" -o link show type veth | sed 's/^[0-9]*: \([^@:]*\).*/\1/'); do
			# shellcheck disable=SC2086 # words
			kv_in "$KV_ID-$h" ethtool -K "$dev" $1 >/dev/null
		done
	done
}

# place_config: the configuration for the place laid out, on stdout
place_config() {
	echo "pin: $KV_PIN"
	echo "control: $KV_CTL"
	[ -z "$PLACE_INTERFACES" ] || echo "interfaces: [${PLACE_INTERFACES// /, }]"
	cat <<-YAML
		services:
		  - name: v4
		    listen: ["${PLACE_LISTEN4:-$PLACE_AT4:8000}"]
		    policy: round-robin
		    backends:
		      - {name: e1, address: "$PLACE_ENGINE4:8100"}
		  - name: v6
		    listen: ["${PLACE_LISTEN6:-[$PLACE_AT6]:8000}"]
		    policy: round-robin
		    backends:
		      - {name: e1-6, address: "[$PLACE_ENGINE6]:8100"}
	YAML
}
