# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Test hosts as network namespaces. Source it; nothing outside the namespaces changes.
#
#   kv_net_up ID CLIENTS ENGINES      kv_net_down ID       kv_in NAMESPACE COMMAND…
#   kv_start NAMESPACE LOG COMMAND…   kv_wait SECONDS WHO LOG NAMESPACE URL [PID]
#   kv_private SCRIPT ARGUMENT…
#
#     ID-c1 ─ 10.71.1.2 ── 10.71.1.1 ┐           ┌ 10.72.1.1 ── 10.72.1.2 ─ ID-e1
#     ID-c2 ─ 10.71.2.2 ── 10.71.2.1 ┤  ID-gw    ├ 10.72.2.1 ── 10.72.2.2 ─ ID-e2
#                           (c1, c2) ┘           └ (e1, e2)
#
# IPv6 beside it: fd71::1:2 ↔ fd71::1:1 (/112), fd72::1:2 ↔ fd72::1:1. Clients reach engines through
# the gateway's plain forwarding, which is the limit that benches compare with.

# nsenter keeps the mount namespace, so that bpffs pins are visible; `ip netns exec` does not.
kv_in() {
	local ns=$1
	shift
	nsenter --net="/run/netns/$ns" "$@"
}

# kv_start NAMESPACE LOG COMMAND…: in the background; killed with this script, however that ends. Sets
# $!, and adds it to started.
started=()
kv_start() {
	local ns=$1 log=$2
	shift 2
	# Not kv_in: $! has to be the process itself, not a subshell around a function.
	nsenter --net="/run/netns/$ns" setpriv --pdeathsig KILL -- "$@" >>"$log" 2>&1 &
	started+=($!)
}

# kv_wait SECONDS WHO LOG NAMESPACE URL [PID]: until it answers, asked from there; 1, and the log's end, if it
# does not, or has ended.
kv_wait() {
	local end=$((SECONDS + $1))
	until kv_in "$4" curl -fsS -m 2 -o /dev/null "$5" 2>/dev/null; do
		if [ $SECONDS -gt $end ] || ! kill -0 "${6:-$$}" 2>/dev/null; then
			tail -n 20 "$3" >&2
			echo "$2 does not answer; its log is $3" >&2
			return 1
		fi
		sleep 0.1
	done
}

# kv_private SCRIPT ARGUMENT…: the script anew, in namespaces of mounts and processes: /run and bpffs are empty, no other
# kvsteer is met, and all that it starts is gone when it ends, however it ends. There this does nothing.
kv_private() {
	if [ -n "${KV_PRIVATE:-}" ]; then
		unset KV_PRIVATE
		return
	fi
	if ! unshare --mount --pid --fork true; then
		echo "cannot make namespaces of mounts and processes; in a container: give it CAP_SYS_ADMIN" >&2
		exit 1
	fi
	# shellcheck disable=SC2016 # $0 and $@ are the inner shell's
	KV_PRIVATE=1 exec unshare --mount --pid --fork --kill-child=KILL --mount-proc --propagation private \
		bash -c 'mount -t tmpfs -o mode=755 tmpfs /run && mount -t bpf bpf /sys/fs/bpf && exec "$0" "$@"' "$@"
}

# kv_host ID KIND INDEX: one host of kind c or e, linked to the gateway.
kv_host() {
	local id=$1 kind=$2 i=$3 net=71 gw="$1-gw" ns="$1-$2$3" dev="$2$3"
	[ "$kind" = c ] || net=72
	ip netns add "$ns"
	ip -n "$ns" link set lo up
	ip -n "$gw" link add "$dev" type veth peer name eth0 netns "$ns"
	# No duplicate address detection: addresses are usable at once.
	ip netns exec "$ns" sysctl -qw net.ipv6.conf.eth0.accept_dad=0
	ip netns exec "$gw" sysctl -qw "net.ipv6.conf.$dev.accept_dad=0"
	ip -n "$gw" addr add "10.$net.$i.1/24" dev "$dev"
	ip -n "$ns" addr add "10.$net.$i.2/24" dev eth0
	ip -n "$gw" addr add "fd$net::$i:1/112" dev "$dev"
	ip -n "$ns" addr add "fd$net::$i:2/112" dev eth0
	ip -n "$gw" link set "$dev" up
	ip -n "$ns" link set eth0 up
	ip -n "$ns" route add default via "10.$net.$i.1"
	ip -n "$ns" route add default via "fd$net::$i:1"
}

kv_net_up() {
	local id=$1 clients=$2 engines=$3 i
	ip netns add "$id-gw"
	ip -n "$id-gw" link set lo up
	ip netns exec "$id-gw" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
	for ((i = 1; i <= clients; i++)); do kv_host "$id" c "$i"; done
	for ((i = 1; i <= engines; i++)); do kv_host "$id" e "$i"; done
}

kv_net_down() {
	local ns
	for ns in $(ip netns list | sed -n "s/^\($1-[a-z][a-z0-9]*\).*/\1/p"); do
		ip netns del "$ns"
	done
}
