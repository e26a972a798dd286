#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The bench: the same work through plain forwarding, through kvsteer and through its peers.
#
#   tools/bench.sh [--rounds N] [--seconds S] [--only NAME,…] [--work WORK,…] [--quick] [--before TREE]
#
#   names: direct kvsteer-express kvsteer-agent nginx haproxy sglang-router vllm-router
#   works: small prompt answer streams micro
#   --before TREE: another version of this repository, built; its two lanes are rows of their own,
#   before-express and before-agent, measured in the same rounds.
#
# Equal sets of hosts: kvsteer's programs sit on the interfaces of one (another version's on those of
# one more), everything else is measured on the other and so does not pay for them. All routers stay up and idle; a round measures
# each work with one router after the other, and the next round begins with another router.
# Needs root. Changes nothing outside its namespaces and .output/.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/netns.sh
. tools/netns.sh
# shellcheck source=tools/bench/peers.sh
. tools/bench/peers.sh

OUT=.output
ALL_NAMES="direct kvsteer-express kvsteer-agent nginx haproxy sglang-router vllm-router"
ALL_WORKS="small prompt answer streams micro"
# One: with more, rows would also differ in how their connections spread over engines, which on few
# cores moves more than the routers do. What is measured here is the path; placement: make demo.
ENGINES=1
ENGINE_PORT=8000
ANSWER_BYTES=52428800
STREAM_TOKENS=64

rounds=3 seconds=2 warmup=0.5
before_out=
names=$ALL_NAMES
works=$ALL_WORKS

usage() {
	sed -n '3,14s/^# \{0,1\}//p' "$0"
	exit "$1"
}

die() {
	echo "bench: $*" >&2
	exit 1
}

# known WHAT LIST KNOWN: the comma-separated list, if all of it is known.
known() {
	local w list=${2//,/ }
	for w in $list; do
		[[ " $3 " == *" $w "* ]] || die "no such $1: $w (there are: $3)"
	done
	echo "$list"
}

while [ $# -gt 0 ]; do
	case $1 in
	--rounds) rounds=${2:?} && shift ;;
	--seconds) seconds=${2:?} && shift ;;
	--only) names=$(known name "${2:?}" "$ALL_NAMES") && shift ;;
	--work) works=$(known work "${2:?}" "$ALL_WORKS") && shift ;;
	--before) before_out=$(cd "${2:?}/$OUT" && pwd) && shift ;;
	--quick) rounds=1 seconds=0.5 warmup=0.2 ;;
	-h | --help) usage 0 ;;
	*) usage 2 >&2 ;;
	esac
	shift
done
[[ " $names " == *" direct "* ]] || names="direct $names" # what the others are compared with
for lane in ${before_out:+express agent}; do
	names=${names/kvsteer-$lane/kvsteer-$lane before-$lane}
done

[ "$(id -u)" = 0 ] || die "needs root, for network namespaces and BPF: run it with sudo"
for b in kv-load kv-engine; do
	[ -x $OUT/$b ] || die "$OUT/$b is not built: run make first"
done

plain="kvb$$p" # ids of the sets of hosts
declare -A steered=([kvsteer]="kvb$$k" [before]="kvb$$o") built=([kvsteer]=$OUT [before]=$before_out)
dir=$(mktemp -d "$PWD/$OUT/bench.XXXXXX")
pin=/sys/fs/bpf/kvbench-$$-
control=/run/kvbench-$$- # the tree may lie deeper than a socket path is long
pids=()
agent_idle_us=0
declare -A router_pid router_target

cleanup() {
	local pid version
	set +e
	trap - EXIT INT TERM
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done
	for pid in "${pids[@]}"; do
		timeout 10 tail --pid="$pid" -f /dev/null || kill -9 "$pid" 2>/dev/null
	done
	wait 2>/dev/null
	kv_net_down "$plain"
	for version in "${!steered[@]}"; do
		kv_net_down "${steered[$version]}"
		rm -rf "$pin$version" "$control$version"
	done
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# spawn NAME NAMESPACE COMMAND…: in the background, with a log; its pid is in $spawned.
spawn() {
	local name=$1 ns=$2
	shift 2
	nsenter --net="/run/netns/$ns" "$@" >"$dir/$name.log" 2>&1 </dev/null &
	spawned=$!
	pids+=("$spawned")
}

# answers NAMESPACE URL-BASE: does a completion get its answer?
answers() {
	kv_in "$1" curl -sf -m 2 -o /dev/null -H 'Content-Type: application/json' \
		-d '{"model":"bench","max_tokens":1,"messages":[{"role":"user","content":"hello"}]}' \
		"http://$2/v1/chat/completions"
}

# wait_for PID NAMESPACE TARGET: until it answers, at most 30 s.
wait_for() {
	local i
	for ((i = 0; i < 150; i++)); do
		! answers "$2" "$3" || return 0
		kill -0 "$1" 2>/dev/null || return 1
		sleep 0.2
	done
	return 1
}

engines() {
	local id=$1 i
	for ((i = 1; i <= ENGINES; i++)); do
		spawn "engine-$id-$i" "$id-e$i" $OUT/kv-engine --instant --model bench \
			--listen "10.72.$i.2:$ENGINE_PORT"
		wait_for "$spawned" "$id-c1" "10.72.$i.2:$ENGINE_PORT" ||
			die "engine $i does not answer: $(tail -n 3 "$dir/engine-$id-$i.log")"
	done
}

# ready NAME NAMESPACE TARGET: the router just spawned is up, or its row is skipped.
ready() {
	if wait_for "$spawned" "$2" "$3"; then
		router_pid[$1]=$spawned
		router_target[$1]=$3
	else
		skip "$1" "does not answer: $(tail -n 1 "$dir/$1.log" | cut -c 1-200)"
	fi
}

skip() {
	local n kept=
	echo "skipped: $1: $2"
	for n in $names; do [ "$n" = "$1" ] || kept+=" $n"; done
	names=$kept
}

# start_kvsteer VERSION: kvsteer, or before.
start_kvsteer() {
	local i lane ns=${steered[$1]}
	if [ ! -x "${built[$1]}/kvsteerd" ]; then
		for lane in express agent; do skip "$1-$lane" "${built[$1]}/kvsteerd is not built"; done
		return
	fi
	kv_net_up "$ns" 1 $ENGINES
	engines "$ns"
	# The engines' caches hold the twenty long prompts, 55,000 tokens each, several times over.
	cat >"$dir/$1.yaml" <<-CONF
		pin: $pin$1
		control: $control$1
		timeouts:
		  drain: 1s
		services:
		- name: bench
		  listen: ["10.71.1.1:8000"]
		  policy: price
		  capacity: 4000000
		  backends:
	CONF
	for ((i = 1; i <= ENGINES; i++)); do echo "  - address: 10.72.$i.2:$ENGINE_PORT"; done \
		>>"$dir/$1.yaml"
	spawn "$1" "$ns-gw" "${built[$1]}/kvsteerd" -c "$dir/$1.yaml"
	wait_for "$spawned" "$ns-c1" 10.71.1.1:8000 ||
		die "kvsteerd does not answer: $(tail -n 3 "$dir/$1.log")"
	for lane in express agent; do
		router_pid[$1-$lane]=$spawned
		router_target[$1-$lane]=10.71.1.1:8000
	done
	[ "$1" != kvsteer ] || agent_idle_us=$(cpu_per_second "$ns-gw")
}

# cpu_per_second NAMESPACE: what its processes use without work, in microseconds of CPU time.
cpu_per_second() {
	local from to
	from=$(cpu_ns "$1")
	sleep 2
	to=$(cpu_ns "$1")
	echo $(((to - from) / 2000))
}

cpu_ns() {
	local pid
	for pid in $(ip netns pids "$1"); do
		cat /proc/"$pid"/task/*/schedstat
	done | awk '{ ns += $1 } END { printf "%d", ns }'
}

# counters NAME: kvsteer's counters as JSON; null for the others.
counters() {
	local version=${1%-*}
	if [ -n "${steered[$version]:-}" ]; then
		"${built[$version]}/kvsteer" -j --pin "$pin$version" counters | jq -c .counters
	else
		echo null
	fi
}

# work_args WORK NAME: the load generator's options.
work_args() {
	args=(--seconds "$seconds" --warmup "$warmup")
	case $1 in
	small*) args+=(--prompt-bytes 600 --prompts 20) ;;
	prompt*) args+=(--prompt-bytes 220000 --prompts 20 --tail-bytes 512 --warmup-requests 40) ;;
	streams*) args+=(--prompt-bytes 600 --prompts 20 --stream --max-tokens "$STREAM_TOKENS") ;;
	answer*) args+=(--hash --expect-bytes "$ANSWER_BYTES" --path "/bytes/$ANSWER_BYTES") ;;
	esac
	args+=(--connections "${1##*-}")
	# A GET needs no hint for the express lane; a chunked request is always the agent's.
	case $2:$1 in
	*-express:answer*) ;;
	*-express:*) args+=(--hint) ;;
	*-agent:answer*) args+=(--chunked) ;;
	esac
}

# measure ROUND WORK-CONNECTIONS NAME
measure() {
	local ns=$plain-c1 i result before
	# It forwards the paths of its API only.
	[ "$2:$3" != answer-1:sglang-router ] || return 0
	work_args "$2" "$3"
	case $3 in
	direct) for ((i = 1; i <= ENGINES; i++)); do args+=(--target "10.72.$i.2:$ENGINE_PORT"); done ;;
	kvsteer-* | before-*) ns=${steered[${3%-*}]}-c1 ;;&
	*) args+=(--target "${router_target[$3]}" --watch "${router_pid[$3]}") ;;
	esac
	# Every measurement has tails of its own, so that no cache knows them from before.
	seed=$((seed + 1))
	before=$(counters "$3")
	result=$(kv_in "$ns" $OUT/kv-load "${args[@]}" --seed "$seed") || die "$3: the load generator failed"
	jq -c --arg name "$3" --arg work "${2%-*}" --argjson round "$1" --argjson before "$before" \
		--argjson after "$(counters "$3")" '. + {$name, $work, $round} +
			if $before == null then {} else {counters: ($after |
				with_entries(.value -= $before[.key]) | with_entries(select(.value != 0)))} end' \
		<<<"$result" >>"$dir/runs.jsonl"
	jq -r --arg name "$3" --arg work "$2" --arg round "$1/$rounds" '[$round, $work, $name,
		"\(.rps | round) req/s", "p50 \(.p50_us | round) us"] +
		(if .errors > 0 then ["ERRORS \(.errors): \(.first_error)"] else [] end) | join("  ")' \
		<<<"$result"
}

seed=0
echo "bench: $(uname -sr), $(nproc) CPUs; $rounds rounds of $seconds s"
kv_net_up "$plain" 1 $ENGINES
engines "$plain"
for name in $names; do
	case $name in
	kvsteer-* | before-*) [ -n "${router_pid[$name]:-}" ] || start_kvsteer "${name%-*}" ;;
	direct) ;;
	*) "peer_${name//-/_}" "$plain-gw" "$plain-c1" ;;
	esac
done
echo "bench: measuring $names"

for ((round = 1; round <= rounds; round++)); do
	read -ra order <<<"$names"
	for work in small-1 small-32 prompt-1 prompt-20 answer-1 streams-64; do
		[[ " $works " == *" ${work%-*} "* ]] || continue
		for ((i = 0; i < ${#order[@]}; i++)); do
			measure $round $work "${order[(i + round - 1) % ${#order[@]}]}"
		done
	done
done

micro=()
if [[ " $works " == *" micro "* ]]; then
	if [ -x $OUT/kv-micro ]; then
		echo "micro: decisions, packets, hash, parser"
		$OUT/kv-micro >"$dir/micro.json" && micro=(--micro "$dir/micro.json") ||
			echo "skipped: micro: $OUT/kv-micro failed"
	else
		echo "skipped: micro: $OUT/kv-micro is not built"
	fi
fi
touch "$dir/runs.jsonl"
jq -n --arg kernel "$(uname -sr)" --argjson cpus "$(nproc)" --argjson rounds "$rounds" \
	--argjson seconds "$seconds" --argjson engines $ENGINES \
	--argjson agent_idle_us_per_s "$agent_idle_us" \
	--arg cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
	--arg nginx "$(nginx -v 2>&1 | sed 's/.*nginx.//')" \
	--arg haproxy "$(haproxy -v 2>/dev/null | sed -n '1s/.*version \([^ ]*\).*/\1/p')" \
	'$ARGS.named' >"$dir/setup.json"
python3 tools/bench/report.py --runs "$dir/runs.jsonl" --setup "$dir/setup.json" "${micro[@]}" \
	--out $OUT/bench.json
