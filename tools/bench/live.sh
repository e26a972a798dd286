#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The simulator against live traffic: traces as HTTP requests through the gateway to emulated engines, and
# the same by `kvsteer simulate`, side by side.
#
#   tools/bench/live.sh [--speed LIST (1,3)] [--policy LIST (price,round-robin)] [--hint] [--clock N (20)] [--quick] TRACE…
#
# Engines as in docs/steering.md (8, caches of 2,000 blocks of 512 tokens, 16,000 tokens/s) on a clock N times faster, with
# prompts of an eighth of their length: caches of 2,000 blocks of 64 tokens, N * 2,000 tokens/s. Answers have one token; times
# are told in the trace's. An hour takes three minutes at x1. --quick: its first tenth. Needs root; leaves nothing behind.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$PWD/.output

usage() {
	sed -n '3,10s/^# \{0,1\}//p' "$0"
	exit "$1"
}

die() {
	echo "live: $*" >&2
	exit 1
}

engines=8 blocks=2000 block=64 clock=20
speeds=1,3 policies=price,round-robin hint=() quick='' args=("$@")
while [[ ${1:-} == -* ]]; do
	case $1 in
	--speed) speeds=${2:?} && shift ;;
	--policy) policies=${2:?} && shift ;;
	--hint) hint=(--hint) ;;
	--clock) clock=${2:?} && shift ;;
	--quick) quick=1 ;;
	-h | --help) usage 0 ;;
	*) usage 2 >&2 ;;
	esac
	shift
done
[ $# -gt 0 ] || usage 2 >&2
[[ $clock =~ ^[1-9][0-9]?$ ]] || die "--clock $clock: want a whole number from 1 to 99"
for speed in ${speeds//,/ }; do
	[[ $speed =~ ^[1-9][0-9]?$ ]] || die "--speed $speed: want whole numbers from 1 to 99"
done
for trace; do
	[ -r "$trace" ] || die "$trace: cannot be read"
done
rate=$((16000 * clock / 8))
[ "$(id -u)" = 0 ] || die "needs root for network namespaces and BPF: run it with sudo"
for b in kvsteerd kvsteer kv-engine kv-replay; do
	[ -x "$out/$b" ] || die ".output/$b is missing: run make first"
done
# shellcheck source=tools/netns.sh
. tools/netns.sh
kv_private "$0" "${args[@]}"

id=kvl
work=$(mktemp -d)
cleanup() {
	trap - EXIT
	[ ${#started[@]} = 0 ] || kill "${started[@]}" 2>/dev/null || true
	kv_net_down $id
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

config() { # POLICY
	local i
	cat <<-YAML
		services:
		- name: live
		  listen: ["10.71.1.1:8000"]
		  policy: $1
		  capacity: ${blocks}x$block
		  rate: $rate
		  backends:
	YAML
	for ((i = 1; i <= engines; i++)); do echo "  - address: 10.72.$i.2:8000"; done
}

up() { # POLICY: engines with cold caches, and a gateway that knows nothing
	local i
	for ((i = 1; i <= engines; i++)); do
		kv_start $id-e$i "$work/log" "$out/kv-engine" --listen "10.72.$i.2:8000" --name "engine-$i" \
			--blocks $blocks --block-size $block --rate $rate
	done
	config "$1" >"$work/kvsteer.yaml"
	kv_start $id-gw "$work/log" "$out/kvsteerd" -c "$work/kvsteer.yaml"
	for ((i = 1; i <= engines; i++)); do kv_wait 20 "engine $i" "$work/log" $id-c1 "http://10.72.$i.2:8000/health"; done
	kv_wait 20 kvsteerd "$work/log" $id-c1 http://10.71.1.1:8000/health
}

down() {
	kill "${started[@]}" 2>/dev/null || true
	wait "${started[@]}" 2>/dev/null || true
	started=()
}

# row TRACE SPEED POLICY: plays, and tells it beside what the simulator says
row() {
	local rc=0
	up "$3"
	kv_in $id-c1 "$out/kv-replay" --to 10.71.1.1:8000 --scale 0.125 --answers 0.0001 --speed $((clock * $2)) --engines $engines \
		--api completions "${hint[@]}" --json "$work/live.json" "$1" 2>"$work/replay.err" || rc=$?
	down
	[ $rc -lt 2 ] || die "kv-replay: $(tail -n 3 "$work/replay.err")"
	"$out/kvsteer" -j simulate "$1" --backends $engines --policy "$3" --speed "$2" >"$work/sim.json"
	jq -nr --arg trace "$(basename "$1" .jsonl)" --arg speed "$2" --arg policy "$3" --argjson clock "$clock" \
		--slurpfile live "$work/live.json" --slurpfile sim "$work/sim.json" '
		def percent: "\(. * 1000 | round / 10) %"; def seconds: "\(. * 100 | round / 100) s";
		$live[0] as $l | $sim[0].runs[0] as $s |
		"| \($trace) ×\($speed) | \($policy) | \($l.hit_rate | percent) | \($s.hit_rate | percent) | \($l.ttft_p50_s * $clock | seconds) | " +
		"\($s.ttft_p50_s | seconds) | \($l.ttft_p90_s * $clock | seconds) | \($s.ttft_p90_s | seconds) | \($l.errors) |"'
}

kv_net_up $id 1 $engines
echo "| trace | policy | hits, live | simulated | P50, live | simulated | P90, live | simulated | errors |"
echo "|---|---|---|---|---|---|---|---|---|"
for trace; do
	if [ -n "$quick" ]; then
		n=$(($(wc -l <"$trace") / 10))
		head -n $n "$trace" >"$work/$(basename "$trace")"
		trace=$work/$(basename "$trace")
	fi
	for speed in ${speeds//,/ }; do
		for policy in ${policies//,/ }; do row "$trace" "$speed" "$policy"; done
	done
done
