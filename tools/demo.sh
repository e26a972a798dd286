#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The demo: a slice of a real trace through kvsteer, five times, each time choosing engines another
# way. Clients, gateway and engines are network namespaces of a private mount namespace.
set -euo pipefail

usage() {
	cat <<'TEXT'
usage: tools/demo.sh [--seconds N]     the demo: five runs of N seconds (default 25), table and plot
       tools/demo.sh --shell           the same hosts with the trace running, and a shell on a client
       tools/demo.sh --exec COMMAND…   the same, and one command on a client
Everything that it starts is gone when it ends.
TEXT
}

root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/.output
work=$out/demo
trace=$root/tools/traces/conversation-2000.jsonl.gz
gateway=10.71.1.1:8000
id=kv
engines=4
clients=2

# The slice: its length, and its prompts, which are played in full. Answers are cut to a 25th: what they
# cost does not depend on the engine.
trace_s=669 prompt_tokens=27441774 answers=0.04
# Each cache holds 3,000 of the trace's blocks of 512 tokens; the slice touches 39 thousand.
block_size=64
blocks=$((3000 * 512 / block_size))
# Prompts ask for 1.2 times what the engines can compute: without cache hits queues only grow.
overload=1.2
seconds=25
events=""

die() {
	echo "demo: $*" >&2
	exit 1
}

mode=demo
while [ $# -gt 0 ]; do
	case $1 in
	--seconds)
		[[ ${2:-} =~ ^[1-9][0-9]*$ ]] || die "--seconds ${2:-}: want a whole number"
		seconds=$2
		shift 2
		;;
	--shell) mode="shell" && shift ;;
	--exec)
		mode="exec" && shift
		[ $# -gt 0 ] || die "--exec: which command?"
		break
		;;
	-h | --help) usage && exit 0 ;;
	*) usage >&2 && exit 2 ;;
	esac
done

[ "$(id -u)" = 0 ] || die "needs root for network namespaces and BPF: sudo $0"
for b in kvsteerd kvsteer kv-engine kv-replay; do
	[ -x "$out/$b" ] || die "$out/$b is missing: run make"
done

# shellcheck source=tools/netns.sh
. "$root/tools/netns.sh"
args=(--seconds "$seconds")
[ "$mode" = demo ] || args+=("--$mode")
kv_private "$0" "${args[@]}" "$@"

per_second() { # tokens per second and engine
	awk -v t=$prompt_tokens -v d="$seconds" -v n=$engines -v o=$overload \
		'BEGIN { printf "%d", t / d / n / o }'
}
rate=$(per_second)

cleanup() {
	trap - EXIT
	# Their logs end before the namespaces do.
	[ ${#started[@]} = 0 ] || kill "${started[@]}" 2>/dev/null || true
	wait || true
	kv_net_down $id
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# stop PID…: SIGTERM, and wait until it is gone.
stop() {
	kill "$@" 2>/dev/null || true
	wait "$@" 2>/dev/null || true
}

# Until all engines' events are followed.
wait_told() {
	local n
	for ((n = 0; n < 100; n++)); do
		[ "$(kv_in $id-gw "$out/kvsteer" -j backend list | grep -o '"told":"complete"' | wc -l)" -lt $engines ] ||
			return 0
		sleep 0.1
	done
	die "the engines' KV events are not followed; the log is $work/kvsteerd.log"
}

config() { # POLICY, $events: whether the engines are followed
	local i
	echo "interfaces: [c1, c2, e1, e2, e3, e4]"
	echo "services:"
	echo "  - name: demo"
	echo "    listen: [\"$gateway\"]"
	echo "    policy: $1"
	[ -z "$events" ] || echo "    events: {port: 5557, replay_port: 5558, model: emulated}"
	echo "    backends:"
	for ((i = 1; i <= engines; i++)); do
		echo "      - {name: engine-$i, address: \"10.72.$i.2:8000\", capacity: $((blocks * block_size)), rate: $rate}"
	done
}

# up POLICY, $events: engines with cold caches, and the gateway. Sets $gateway_pid.
up() {
	local i publish
	for ((i = 1; i <= engines; i++)); do
		publish=()
		[ -z "$events" ] || publish=(--kv-events "engine-$i={\"endpoint\":\"tcp://*:5557\",\"replay_endpoint\":\"tcp://*:5558\"}")
		kv_start $id-e$i "$work/engines.log" "$out/kv-engine" --listen "10.72.$i.2:8000" \
			--name "engine-$i" --blocks $blocks --block-size $block_size \
			--rate "$rate" --decode-ms 4 "${publish[@]}"
	done
	config "$1" >"$work/kvsteer.yaml"
	kv_start $id-gw "$work/kvsteerd.log" "$out/kvsteerd" -c "$work/kvsteer.yaml"
	gateway_pid=${started[-1]}
	for ((i = 1; i <= engines; i++)); do
		kv_wait 10 "engine $i" "$work/engines.log" $id-c1 "http://10.72.$i.2:8000/health"
	done
	kv_wait 10 kvsteerd "$work/kvsteerd.log" $id-c1 "http://$gateway/health"
	[ -z "$events" ] || wait_told
}

down() {
	stop "$gateway_pid"
	stop "${started[@]}"
	started=()
}

counters() {
	kv_in $id-gw "$out/kvsteer" -j counters
}

# Clock ticks of user and system time that the gateway's processes have had: the one that was
# started waits for the agent, which is another.
ticks() {
	local pid
	for pid in $(ip netns pids $id-gw); do
		cat "/proc/$pid/stat"
	done | awk '{ sub(/.*\) /, ""); n += $12 + $13 } END { print n }'
}

# The command that plays the trace in $1 seconds, in the array $play.
player() {
	local speed
	speed=$(awk -v t=$trace_s -v d="$1" 'BEGIN { print t / d }')
	play=(setpriv --pdeathsig TERM -- "$out/kv-replay" --to "$gateway" --netns "$id-c1"
		--netns "$id-c2" --engines "$engines" --speed "$speed" --answers "$answers" "$trace")
}

# Where the last requests went and why, while the trace is playing.
trace() {
	echo "\$ kvsteer trace --follow        (for a second)"
	kv_in $id-gw timeout -s INT 1 "$out/kvsteer" trace --follow | sed -n 1,8p
	echo "\$ kvsteer trace --last 1 --why"
	kv_in $id-gw "$out/kvsteer" trace --last 1 --why
}

# Where a request would go that is like one that has been served. After the counters have been read.
explain() {
	printf '{"model": "emulated", "max_tokens": 1, "prompt": "%s"}' "$(seq -s ' ' 2000)" >"$work/body.json"
	kv_in $id-c1 curl -fs -m 10 -o /dev/null -d "@$work/body.json" "http://$gateway/v1/completions"
	echo "\$ kvsteer explain body.json --path /v1/completions"
	kv_in $id-gw "$out/kvsteer" explain "$work/body.json" --path /v1/completions
}

run() { # NUMBER NAME POLICY TITLE [ARGUMENT…]
	local number=$1 name=$2 policy=$3 title=$4 before player rc=0
	shift 4
	printf '\n[%s/5] %s\n' "$number" "$title"
	up "$policy"
	counters >"$work/$name.before"
	before=$(ticks)
	# In the background, as a trap has to wait for what is in front.
	player "$seconds"
	"${play[@]}" --name "$name" --json "$work/$name.json" --tsv "$work/$name.tsv" "$@" &
	player=$!
	started+=("$player")
	if [ "$name" = price ]; then
		sleep $((seconds / 2))
		trace >"$work/trace.txt" 2>&1 || true
	fi
	wait "$player" || rc=$?
	[ $rc -lt 2 ] || die "kv-replay has failed"
	echo "$before $(ticks)" >"$work/$name.cpu"
	counters >"$work/$name.after"
	[ "$name" != price ] || explain >"$work/explain.txt" 2>&1 || true
	down
}

demo() {
	local rc=0
	echo "2,000 requests of a real chat service (11 minutes of the Mooncake trace, in $seconds s), from"
	echo "$clients client hosts through one gateway to $engines engines; every run starts with cold caches."
	run 1 round-robin round-robin "round-robin: each engine in turn"
	run 2 least least "least: the engine with the least work waiting"
	run 3 price price "price: waiting and prefill weighed, prompts hashed by the gateway's agent"
	run 4 price-hinted price "price, and clients send KV-Prefix: the kernel decides on the first packet" --hint
	events=1
	run 5 price-events price "price, prompts hashed by the agent, and the engines say what they hold: KV events"
	echo
	python3 -B "$root/tools/demo/report.py" "$work" "$out/demo.json" "$out/demo.svg" \
		round-robin least price price-hinted price-events || rc=$?
	printf '\nIn the middle of run 3 (price):\n'
	sed 's/^/  /' "$work/trace.txt"
	printf 'And at its end:\n'
	sed 's/^/  /' "$work/explain.txt"
	echo
	cat <<TEXT
  plot: .output/demo.svg    numbers: .output/demo.json    answers one by one: .output/demo/*.tsv

Look around by hand, on the same hosts with the trace running:
  sudo tools/demo.sh --exec kvsteer status
  sudo tools/demo.sh --exec curl -i http://$gateway/v1/models
  sudo tools/demo.sh --shell
TEXT
	return $rc
}

# Two kinds of clients, with hints and without, each playing the trace over and over at a third of the
# demo's pace.
load() {
	local hint
	up price
	player $((3 * seconds))
	for hint in "" --hint; do
		# shellcheck disable=SC2016 # for the inner shell
		setpriv --pdeathsig KILL -- bash -c 'while :; do "$@" || sleep 1; done' - \
			"${play[@]}" --json /dev/null $hint 2>/dev/null &
		started+=($!)
	done
}

look() { # [COMMAND…]: on a client, with kvsteer acting on the gateway
	mkdir -p "$work/bin"
	printf '#!/bin/sh\nexec nsenter --net=/run/netns/%s-gw "%s" "$@"\n' $id "$out/kvsteer" \
		>"$work/bin/kvsteer"
	chmod +x "$work/bin/kvsteer"
	export PATH="$work/bin:$out:$PATH"
	load
	if [ $# -gt 0 ]; then
		sleep 3
		kv_in $id-c1 "$@"
		return
	fi
	cat <<TEXT
A shell on client host $id-c1; the gateway is http://$gateway, the trace is running. Try:
  kvsteer status
  watch -n 1 kvsteer counters
  curl -N http://$gateway/v1/completions -d '{"model": "emulated", "prompt": "hello", "max_tokens": 8, "stream": true}'
exit ends and removes everything.
TEXT
	PS1='client# ' kv_in $id-c1 bash --norc -i || true
}

# A look around leaves the demo's results as they are.
[ "$mode" = demo ] || work=$out/demo/look
rm -rf "$work"
mkdir -p "$work"
kv_net_up $id $clients $engines
case $mode in
demo) demo ;;
shell) look ;;
exec) look "$@" ;;
esac
