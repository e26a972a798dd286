# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# What the BATS files share: hosts as namespaces, engines in theirs, kvsteerd in the gateway's.
#
#	setup_file() { kv_up CLIENTS ENGINES && kv_gateway; }
#	teardown_file() { kv_down; }
#
# Addresses: tools/netns.sh. Engines listen on port 8000, IPv4 (eI) and IPv6 (eI-6); the gateway's
# service v4 on 10.71.1.1:8000, v6 on [fd71::1:1]:8000.

KV_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
KV_OUT=$KV_ROOT/.output
KV_TOOLS=$KV_ROOT/tests/tools
# The sanitizers' build, where there is one: the tests then look for more than wrong answers.
KV_BIN=${KV_BIN:-$([ -x "$KV_OUT/san/kvsteerd" ] && echo "$KV_OUT/san" || echo "$KV_OUT")}
KV_V4=10.71.1.1:8000
KV_V6='[fd71::1:1]:8000'
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
# shellcheck source=tools/netns.sh
. "$KV_ROOT/tools/netns.sh"

die() {
	echo "$*" >&2
	return 1
}

# kv_begin DIRECTORY: names and files of an instance, no hosts yet
kv_begin() {
	[ "$(id -u)" = 0 ] || skip "needs root"
	# Names of mount points and hosts must not meet those of another run.
	export KV_ID=kvt$$ KV_RUN=$1
	export KV_PIN=/sys/fs/bpf/kvsteer-test-$KV_ID KV_CTL=$KV_RUN/control.sock
	export KV_LOG=$KV_RUN/engine.log KV_GW_LOG=$KV_RUN/kvsteerd.log
	: >"$KV_RUN/pids"
	: >"$KV_LOG"
	: >"$KV_GW_LOG"
	mkdir -p "$KV_RUN/raw"
	dmesg 2>/dev/null | tail -n 1 | sed 's/\].*/]/' >"$KV_RUN/dmesg"
	mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
	trap 'kv_down' INT TERM
}

# kv_up CLIENTS ENGINES [ENGINE OPTION…]: hosts, and an engine on each engine host
kv_up() {
	local clients=$1 engines=$2 i
	shift 2
	kv_begin "$BATS_FILE_TMPDIR"
	export KV_CLIENTS=$clients KV_ENGINES=$engines
	kv_net_up "$KV_ID" "$clients" "$engines"
	# what a file wants of its hosts before a socket is opened there
	if declare -F kv_hosts_ready >/dev/null; then kv_hosts_ready; fi
	for ((i = 1; i <= engines; i++)); do kv_engine "$i" "$@"; done
}

# kv_start NAMESPACE LOG COMMAND…: in the background; recorded, so that it is ended with the file
kv_start() {
	local ns=$1 log=$2
	shift 2
	# not by kv_in: $! must be the command itself. bats waits for whoever holds its descriptor 3.
	nsenter --net="/run/netns/$ns" "$@" >>"$log" 2>&1 3>&- &
	echo $! >>"$KV_RUN/pids"
	disown
	KV_STARTED=$!
}

# kv_engine I [OPTION…]; with KV_NO_LOG it keeps no log and no copies of its bytes
kv_engine() {
	local i=$1 record=(--log "$KV_LOG" --raw "$KV_RUN/raw")
	shift
	[ -z "${KV_NO_LOG:-}" ] || record=()
	kv_start "$KV_ID-e$i" "$KV_RUN/engine-$i.out" "$KV_OUT/kv-engine" \
		--listen "10.72.$i.2:8000" --listen "[fd72::$i:2]:8000" --name "e$i" --name "e$i-6" \
		--control "10.72.$i.2:8001" --keep-alive-s 60 "${record[@]}" "$@"
	echo "$KV_STARTED" >"$KV_RUN/engine-$i.pid"
	until_true 5 kv_in "$KV_ID-e$i" curl -fsS -m 1 -o /dev/null "http://10.72.$i.2:8000/health"
}

# kv_engine_dies I…: kill -9; its port is free again afterwards
kv_engine_dies() {
	local i pid
	for i in "$@"; do
		pid=$(cat "$KV_RUN/engine-$i.pid")
		kill -KILL "$pid"
		until_true 10 gone "$pid"
	done
}

# kv_fault I JSON [QUERY]: sets faults of engine I (both addresses)
kv_fault() {
	local n
	for n in "e$1" "e$1-6"; do
		kv_in "$KV_ID-e$1" curl -fsS -m 2 -o /dev/null -d "$2" \
			"http://10.72.$1.2:8001/fault?engine=$n"
	done
}

# until_true SECONDS COMMAND…: where nothing else is to do. A busy machine has three times as long.
until_true() {
	local end=$((SECONDS + 3 * $1))
	shift
	until "$@" 2>/dev/null; do
		[ $SECONDS -le $end ] || die "not within time: $*" || return 1
		sleep 0.05
	done
}

# kv_config [POLICY]: the configuration that kv_gateway takes by default, on stdout. KV_NAMED: the
# services, of v4 and v6, whose answers name their backend (answer_header).
kv_config() {
	local policy=${1:-price} i
	echo "pin: $KV_PIN"
	echo "control: $KV_CTL"
	printf 'interfaces: ['
	for ((i = 1; i <= KV_CLIENTS; i++)); do printf 'c%d, ' "$i"; done
	for ((i = 1; i <= KV_ENGINES; i++)); do printf 'e%d%s' "$i" "$([ "$i" = "$KV_ENGINES" ] || echo ', ')"; done
	echo ']'
	echo "services:"
	echo "  - name: v4"
	echo "    listen: [\"$KV_V4\"]"
	echo "    policy: $policy"
	[[ "${KV_NAMED:-}" != *v4* ]] || echo "    answer_header: true"
	echo "    backends:"
	for ((i = 1; i <= KV_ENGINES; i++)); do
		echo "      - {name: e$i, address: \"10.72.$i.2:8000\"}"
	done
	echo "  - name: v6"
	echo "    listen: [\"$KV_V6\"]"
	echo "    policy: $policy"
	[[ "${KV_NAMED:-}" != *v6* ]] || echo "    answer_header: true"
	echo "    backends:"
	for ((i = 1; i <= KV_ENGINES; i++)); do
		echo "      - {name: e$i-6, address: \"[fd72::$i:2]:8000\"}"
	done
}

# kv_gateway [POLICY]: kvsteerd with kv_config; waits until it serves
kv_gateway() {
	kv_config "$@" >"$KV_RUN/kvsteer.yaml"
	kv_gateway_with -c "$KV_RUN/kvsteer.yaml"
	kv_serves "$KV_V4" "$KV_V6"
}

# kv_serves ADDRESS…: waits until the gateway answers there; if it does not, shows its log
kv_serves() {
	local to
	for to in "$@"; do
		until_true 10 kv_in "$KV_ID-c1" curl -fsS -m 2 -o /dev/null -g "http://$to/health" ||
			die "kvsteerd does not serve $to: $(tail -n 30 "$KV_GW_LOG")" || return 1
	done
}

kv_gateway_with() {
	kv_start "$KV_ID-gw" "$KV_GW_LOG" "$KV_BIN/kvsteerd" "$@"
	echo "$KV_STARTED" >"$KV_RUN/gateway.pid"
}

# The process that was started: it passes signals on to the agent, and ends with it.
gateway_pid() {
	cat "$KV_RUN/gateway.pid"
}

agent_pid() {
	kvs -j status | jq -e .agent.pid
}

# kv_kill_gateway: kill -9 of all its processes at once, so that no agent takes over
kv_kill_gateway() {
	local agent
	agent=$(agent_pid)
	# shellcheck disable=SC2046
	kill -KILL "$(gateway_pid)" "$agent" $(pgrep -P "$agent")
	until_true 5 gone "$agent"
	until_true 5 gone "$(gateway_pid)"
}

# A zombie whose threads are gone, too, has nothing open any more.
alive() {
	local status
	status=$(cat "/proc/$1/status" 2>/dev/null) || return 1
	[[ $status != *State:$'\t'Z* || $status != *Threads:$'\t'[01]$'\n'* ]]
}

gone() {
	! alive "$1"
}

# kv_stop_gateway: SIGTERM, and waits for the end
kv_stop_gateway() {
	local pid
	[ -e "$KV_RUN/gateway.pid" ] || return 0
	pid=$(gateway_pid)
	kill -TERM "$pid" 2>/dev/null || return 0
	until_true 15 gone "$pid"
}

# kv_down: ends all that the file started; says so if something would not end by itself
kv_down() {
	local pid
	trap - INT TERM
	[ -n "${KV_ID:-}" ] || return 0
	kv_stop_gateway || true
	while read -r pid; do
		kill -KILL "$pid" 2>/dev/null || true
	done <"$KV_RUN/pids"
	kv_net_down "$KV_ID"
	rm -rf "$KV_PIN"
}

# kv_clean_end: the last test of each file. The agent ends by itself, leaves nothing attached and
# nothing pinned, no sanitizer and no kernel message complained.
kv_clean_end() {
	local dev dir found bad=0
	kv_stop_gateway || die "kvsteerd does not end after SIGTERM" || bad=1
	for dev in $(kv_in "$KV_ID-gw" ls /sys/class/net 2>/dev/null; ip -n "$KV_ID-gw" -br link | sed 's/[@ ].*//'); do
		for dir in ingress egress; do
			found=$(kv_in "$KV_ID-gw" tc filter show dev "$dev" $dir 2>/dev/null || true)
			[ -z "$found" ] || die "left attached on $dev: $found" || bad=1
		done
	done
	[ ! -e "$KV_PIN" ] || [ -z "$(find "$KV_PIN" -mindepth 1 -not -name lock)" ] ||
		die "left pinned: $(find "$KV_PIN")" || bad=1
	if grep -nE 'AddressSanitizer|LeakSanitizer|runtime error|SUMMARY' "$KV_GW_LOG"; then
		tail -n 60 "$KV_GW_LOG"
		bad=1
	fi
	if kernel_complains; then bad=1; fi
	return $bad
}

kernel_complains() {
	dmesg 2>/dev/null | awk -v mark="$(cat "$KV_RUN/dmesg")" '
		mark == "" || seen; index($0, mark) == 1 { seen = 1 }' |
		grep -E 'seq # bug|WARNING:|BUG:|Oops|general protection|refcount_t'
}

# from I COMMAND…: on client host I
from() {
	local i=$1
	shift
	kv_in "$KV_ID-c$i" "$@"
}

# tool NAME OPTION…: a Python client of tests/tools, on client host 1, with the engines' log
tool() {
	local name=$1
	shift
	from 1 python3 "$KV_TOOLS/$name" --log "$KV_LOG" "$@"
}

# kvs VERB…: kvsteer on this instance
kvs() {
	kv_in "$KV_ID-gw" "$KV_BIN/kvsteer" --pin "$KV_PIN" --control "$KV_CTL" "$@"
}

# counter NAME: its value now
counter() {
	kvs -j counters | jq --arg n "$1" '[.. | objects | .[$n]? | numbers] | first // error("no counter " + $n)'
}

# risen COUNTER N: it is N now, or more
risen() {
	[ "$(counter "$1")" -ge "$2" ]
}

# What is under way by the kernel's own numbers: kvsteer shows what is below 0 as 0.
kv_under_way() {
	bpftool -j map dump pinned "$KV_PIN/kv_backends" |
		jq -c '.[].formatted | select(.value.state != 0) | {backend: .key, tokens: .value.inflight_tokens, requests: .value.inflight_requests}'
	bpftool -j map dump pinned "$KV_PIN/kv_clients" |
		jq -c '.[].formatted | select(.value.state == 2) | {lent_client: .value.key.peer_port, slot: .value.pair.slot}'
	bpftool -j map dump pinned "$KV_PIN/kv_upstreams" |
		jq -c '.[].formatted | select(.value.state > 1) | {upstream: .key, state: .value.state}'
}

# Nothing is in flight, lent, relayed, or to be closed.
kv_at_rest() {
	kv_under_way | jq -se 'length > 0 and all(has("backend") and .tokens == 0 and .requests == 0)' >/dev/null
}

# kv_lent N: so many pairs are lent
kv_lent() {
	kvs -j status | jq -e --argjson n "$1" '.upstreams.lent == $n' >/dev/null
}

# Each lend has had one end.
kv_lends_ended() {
	local lends ends
	lends=$(($(counter lends) + $(counter lends_midflight)))
	ends=$(($(counter returns) + $(counter returns_closed) + $(counter retry_forgotten) +
		$(counter broken_before_response) + $(counter broken_response) + $(counter client_aborted)))
	echo "lends $lends, ends $ends"
	[ "$lends" = "$ends" ]
}

# engine_metric I NAME
engine_metric() {
	kv_in "$KV_ID-e$1" curl -fsS "http://10.72.$1.2:8000/metrics" | sed -n "s/^$2{[^}]*} //p" | head -n 1
}

# aborted: requests that all engines together have seen given up
aborted() {
	local i sum=0
	for ((i = 1; i <= KV_ENGINES; i++)); do
		sum=$((sum + $(engine_metric "$i" kv_engine_aborted_total)))
	done
	echo $sum
}

# aborted_since BEFORE N: N more
aborted_since() {
	[ "$(aborted)" -ge $(($1 + $2)) ]
}

# hint TOTAL SEED: a KV-Prefix value of one long prompt; equal seeds share their first rungs
hint() {
	python3 "$KV_TOOLS/hint.py" "$1" "$2"
}
