#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What tracing every request costs: the same load through one gateway, which traces all, none, all, …
#
#   tools/bench/trace.sh [ROUNDS (40)] [SECONDS of a round (1)]
#
# Small requests, express lane (hinted) and agent lane, 32 connections. A round measures each once, the next
# one in the other order; the result is the median of the rounds' ratios, with its quartiles. Needs root.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tools/netns.sh
. tools/netns.sh

rounds=${1:-40} seconds=${2:-1}
id=kvT$$ dir=$(mktemp -d) pids=()
pin=/sys/fs/bpf/kvtrace-$$ control=/run/kvtrace-$$

cleanup() {
	local pid
	set +e
	trap - EXIT INT TERM
	for pid in "${pids[@]}"; do kill "$pid"; done
	for pid in "${pids[@]}"; do timeout 10 tail --pid="$pid" -f /dev/null || kill -9 "$pid"; done
	kv_net_down "$id"
	rm -rf "$dir" "$pin" "$control"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

spawn() { # NAMESPACE COMMAND…
	local ns=$1
	shift
	nsenter --net="/run/netns/$id-$ns" "$@" >>"$dir/log" 2>&1 </dev/null &
	pids+=($!)
}

config() { # SAMPLE
	cat <<-CONF
		pin: $pin
		control: $control
		trace: {sample: $1}
		timeouts: {drain: 1s}
		services:
		- name: bench
		  listen: ["10.71.1.1:8000"]
		  capacity: 4000000
		  backends:
		  - address: 10.72.1.2:8000
	CONF
}

traced() { # SAMPLE
	config "$1" >"$dir/$1.yaml"
	.output/kvsteer --pin "$pin" --control "$control" apply "$dir/$1.yaml" >/dev/null
}

# load LANE: requests per second
load() {
	local hint=()
	[ "$1" = agent ] || hint=(--hint)
	seed=$((seed + 1))
	kv_in "$id-c1" .output/kv-load --target 10.71.1.1:8000 --connections 32 --prompt-bytes 600 --prompts 20 \
		--seconds "$seconds" --warmup 0.2 --seed "$seed" "${hint[@]}" | jq -e 'select(.errors == 0).rps'
}

seed=0
kv_net_up "$id" 1 1
spawn e1 .output/kv-engine --instant --model bench --listen 10.72.1.2:8000
config 1 >"$dir/start.yaml"
spawn gw .output/kvsteerd -c "$dir/start.yaml"
for ((i = 0; i < 150; i++)); do
	! kv_in "$id-c1" curl -sf -m 2 -o /dev/null http://10.71.1.1:8000/v1/models || break
	sleep 0.2
done
for ((r = 0; r < rounds; r++)); do
	for lane in express agent; do
		for sample in $((r % 2)) $((1 - r % 2)); do
			traced "$sample"
			echo "$r $lane $sample $(load $lane)"
		done
	done
done >"$dir/runs"
python3 - "$dir/runs" <<'PYTHON'
import statistics, sys
runs = {}
for line in open(sys.argv[1]):
    r, lane, sample, rps = line.split()
    runs.setdefault(lane, {}).setdefault(r, {})[sample] = float(rps)
for lane, rounds in runs.items():
    q = statistics.quantiles([x['1'] / x['0'] for x in rounds.values()], n=4)
    off = statistics.median(x['0'] for x in rounds.values())
    on = statistics.median(x['1'] for x in rounds.values())
    print(f'{lane:8} off {off:7.0f}/s  on {on:7.0f}/s  on/off: median {q[1]:.3f}, quartiles {q[0]:.3f} to {q[2]:.3f}, {len(rounds)} rounds')
PYTHON
