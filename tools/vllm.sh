#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvsteer before a real engine: two vLLM 0.32.0 (CPU) with a small model, and the openai package as client.
# Clients, gateway and engines are network namespaces, as in the demo.
set -euo pipefail

usage() {
	cat <<'TEXT'
usage: tools/vllm.sh [CHECK…]          all checks, or some of:
                       answers aborts idle chats predict belief affinity restart
       tools/vllm.sh --exec COMMAND…   the same hosts, and one command on the client
       tools/vllm.sh --install         only installs
Installs into .output/vllm first: about 7 GB from PyPI, 6 to 15 minutes, once; an interrupted
installation goes on where it was. Two engines take 3.5 GB of memory each, and a minute or more to start; all
checks together some 15 minutes on two CPUs.
Everything that it starts is gone when it ends. Results: .output/vllm/table.md
TEXT
}

root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/.output
vllm=$out/vllm
work=$vllm/run
id=kvv
block=32
# Blocks of an engine's cache, and tokens per second that it is told to kvsteer to have. The model has a
# token a byte, kvsteer reckons text at four bytes a token: its capacity is a quarter of the engine's.
blocks=1000
capacity=$((blocks * block / 4))
rate=2000
gateway=10.71.1.1:8000
all_checks=(answers aborts idle chats predict belief affinity restart)

die() {
	echo "vllm: $*" >&2
	exit 1
}

mode=checks
case ${1:-} in
-h | --help) usage && exit 0 ;;
--install) mode=install ;;
--exec)
	mode="exec"
	[ $# -gt 1 ] || die "--exec: which command?"
	shift
	;;
*)
	for check; do
		[[ " ${all_checks[*]} " == *" $check "* ]] || { usage >&2 && exit 2; }
	done
	;;
esac

# shellcheck source=tools/netns.sh
. "$root/tools/netns.sh"
if [ -z "${KV_PRIVATE:-}" ]; then
	[ -e "$vllm/stamps/model" ] ||
		echo "vllm: installs into .output/vllm: about 7 GB from PyPI, 6 to 15 minutes"
	nice "$root/tools/vllm/install.sh" "$vllm"
	[ $mode != install ] || exit 0
	[ "$(id -u)" = 0 ] || die "needs root for network namespaces and BPF: sudo $0"
	for b in kvsteerd kvsteer libkvsteer.so; do
		[ -e "$out/$b" ] || die "$out/$b is missing: run make"
	done
	available=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)
	[ "$available" -ge 9 ] || die "two engines need 9 GB of memory, $available GB are available"
	[ $mode != "exec" ] || set -- --exec "$@"
fi
kv_private "$0" "$@"

agent=
cleanup() {
	trap - EXIT
	[ ${#started[@]} = 0 ] || kill "${started[@]}" 2>/dev/null || true
	kv_net_down $id
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# engine I [OPTION…]: its process and all that it starts are a namespace of processes: one signal ends them.
engine() {
	local i=$1
	shift
	kv_start $id-e"$i" "$work/engine-$i.log" unshare --mount --pid --fork --kill-child=KILL --mount-proc \
		env VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1 \
		HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_SERVER_DEV_MODE=1 VLLM_HOST_IP="10.72.$i.2" \
		VLLM_CACHE_ROOT="$vllm/cache" VLLM_CONFIG_ROOT="$vllm/cache" XDG_CACHE_HOME="$vllm/cache" \
		nice -n 15 "$vllm/venv/bin/python" -m vllm.entrypoints.openai.api_server \
		--model "$vllm/model" --served-model-name tiny --host "10.72.$i.2" --port 8000 \
		--enforce-eager --dtype bfloat16 --max-model-len 8192 --max-num-batched-tokens 8192 --block-size $block \
		--num-gpu-blocks-override $blocks --enable-prompt-tokens-details --kv-events-config \
		'{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:5558"}' "$@"
	echo $! >"$work/engine-$i.pid"
}

engines_ready() {
	local i
	for i in 1 2; do
		kv_wait 600 "engine $i" "$work/engine-$i.log" $id-c1 "http://10.72.$i.2:8000/health" "$(<"$work/engine-$i.pid")"
	done
}

# What the engines hold is known: their replays have been heard.
followed() {
	local end=$((SECONDS + 60))
	until kv_in $id-gw "$out/kvsteer" -j backend list | jq -e '[.backends[].told | . == "complete" or . == "followed"] | all' >/dev/null; do
		[ $SECONDS -le $end ] || die "the engines' events are not followed: $work/kvsteerd.log"
		sleep 0.2
	done
}

kill_engine() { # I
	local pid
	pid=$(<"$work/engine-$1.pid")
	{ kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || true
}

# gateway POLICY [CAPACITY [EVENTS]]: kvsteerd anew, knowing nothing; with "" the engines' events are not followed
gateway() {
	local i
	[ -z "$agent" ] || kill "$agent"
	[ -z "$agent" ] || wait "$agent" || true
	cat >"$work/kvsteer.yaml" <<-YAML
		interfaces: [c1, e1, e2]
		services:
		- name: vllm
		  listen: ["$gateway"]
		  policy: $1
		  capacity: ${2:-$capacity}
		  rate: $rate
		  ${3-events: {port: 5557, replay_port: 5558\}}
		  backends:
		  - {name: engine-1, address: "10.72.1.2:8000"}
		  - {name: engine-2, address: "10.72.2.2:8000"}
	YAML
	kv_start $id-gw "$work/kvsteerd.log" "$out/kvsteerd" -c "$work/kvsteer.yaml"
	agent=$!
	kv_wait 10 kvsteerd "$work/kvsteerd.log" $id-c1 "http://$gateway/health" "$agent"
	[ -z "${3-events}" ] || followed
}

export KV_OUT=$out KV_GATEWAY=$gateway KV_ENGINES="10.72.1.2:8000 10.72.2.2:8000" KV_BLOCK=$block
export KV_ROWS=$work/rows KV_KVSTEER="nsenter --net=/run/netns/$id-gw $out/kvsteer"

# check FILE [ARGUMENT…]: one of tools/vllm/*.py on the client. It tells what fails by its lines; an exit code
# means that it did not come to its end.
check() {
	kv_in $id-c1 "$vllm/venv/bin/python" -B "$root/tools/vllm/$1.py" "${@:2}" 2>&1 | tee -a "$work/tap" ||
		echo "not ok - $*: has not come to its end" | tee -a "$work/tap"
}

check_answers() { gateway price && check answers; }
check_aborts() { gateway price && check aborts; }
check_idle() { gateway price && check idle; }

check_chats() {
	local run
	for run in round-robin:agent price:agent price:express; do
		gateway "${run%:*}" && check chats "${run%:*}" "${run#*:}" "$work/${run/:/-}.jsonl.gz"
	done
}

check_predict() {
	gateway price && check predict text
	gateway price $((blocks * block)) && check predict tokens
}

check_belief() { gateway price && check belief; }

check_affinity() {
	kill_engine 2
	engine 2 --no-enable-prefix-caching
	engines_ready
	gateway price "$capacity" ""
	check affinity
	kill_engine 2
	engine 2
	engines_ready
}

check_restart() {
	gateway round-robin
	local checking
	check restart "$work/mark" &
	checking=$!
	sleep 20
	echo killed >"$work/mark"
	kill_engine 2
	sleep 10
	engine 2
	engines_ready
	echo back >"$work/mark"
	wait $checking
}

summary() {
	local passed bad
	passed=$(grep -c '^ok ' "$work/tap" || true)
	bad=$(grep -c '^not ok ' "$work/tap" || true)
	{
		echo "| what | result |"
		echo "|---|---|"
		cat "$work/rows"
	} >"$vllm/table.md"
	echo
	cat "$vllm/table.md"
	echo
	echo "$passed passed, $bad failed"
	[ "$bad" = 0 ]
}

rm -rf "$work"
mkdir -p "$work"
: >"$work/tap"
: >"$work/rows"
kv_net_up $id 1 2
echo "vllm: starting two engines: a minute or more"
engine 1
engine 2
engines_ready
if [ $mode = "exec" ]; then
	gateway price
	kv_in $id-c1 "$@"
	exit
fi
[ $# != 0 ] || set -- "${all_checks[@]}"
for check; do
	"check_$check"
done
summary
