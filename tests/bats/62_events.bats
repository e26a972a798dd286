#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# bats file_tags=timed
# KV events of the emulated engine, in every engine's form, followed from socket to key.

# Loopback of a network namespace of this file's own: all ports are free.
setup_file() {
	[ "$(id -u)" = 0 ] || skip "needs root, for a network namespace"
	OUT=$(realpath "$BATS_TEST_DIRNAME/../../.output")
	export OUT KV_NS=kvev$$
	ip netns add "$KV_NS"
	ip -n "$KV_NS" link set lo up
}

teardown_file() {
	[ -z "${KV_NS:-}" ] || ip netns del "$KV_NS"
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	pids=()
}

teardown() {
	local pid
	for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
	wait
}

in_ns() { nsenter --net="/run/netns/$KV_NS" "$@"; }

# engine JSON-MEMBERS [OPTION…]: publishes on 5557, replays on 5558
engine() {
	local json=$1
	shift
	nsenter --net="/run/netns/$KV_NS" "$OUT/kv-engine" --listen 127.0.0.1:8000 --name e --model m --blocks 64 "$@" --kv-events \
		"e={\"endpoint\":\"tcp://*:5557\",\"replay_endpoint\":\"tcp://*:5558\"$json}" >engine.out 2>&1 3>&- &
	pids+=($!)
	until grep -q ready engine.out; do
		kill -0 "${pids[-1]}" || { cat engine.out; return 1; }
		sleep 0.02
	done
}

# watch [OPTION…]
watch() {
	nsenter --net="/run/netns/$KV_NS" "$OUT/kv-bench-events" watch -m m "$@" >seen 2>sums 3>&- &
	watcher=$!
	pids+=("$watcher")
}

# prompt FIRST N: N tokens counted from FIRST
prompt() {
	in_ns curl -sf -m 5 -o /dev/null -H 'Content-Type: application/json' 127.0.0.1:8000/v1/completions \
		-d "{\"model\":\"m\",\"max_tokens\":1,\"prompt\":[$(seq -s, "$1" $(($1 + $2 - 1)))]}"
}

events() { in_ns curl -sf -m 5 -o /dev/null 127.0.0.1:8000/events -d "$1"; }

# seen N PATTERN: that many such lines, within 5 s
seen() {
	local i
	for ((i = 0; i < 250; i++)); do
		[ "$(grep -cE "$2" seen)" != "$1" ] || return 0
		sleep 0.02
	done
	echo "not $1 lines of $2:" && cat seen
	return 1
}

@test "every form of every engine gives the same keys, from the replay and live" {
	local form first=
	for form in '' ',"form":"array"' ',"form":"array","hashes":"bytes","replay":"old"' ',"form":"sglang"' \
		',"form":"trtllm","topic":"kv@127.0.0.1:8000@m"' ',"form":"sim"'; do
		: >seen
		engine "$form"
		prompt 1 64
		case $form in *sim*) watch -f 1 tcp://127.0.0.1:5557 tcp://127.0.0.1:5558 ;;
		*) watch tcp://127.0.0.1:5557 tcp://127.0.0.1:5558 ;; esac
		seen 4 ^told
		seen 1 ^complete
		prompt 1 96 # two more blocks behind those
		seen 6 ^told
		grep ^told seen | sort >keys
		: "${first:=$(cat keys)}"
		[ "$(cat keys)" = "$first" ]
		kill "${pids[@]}"
		wait "${pids[@]}" || true
		pids=()
	done
	[ "$(grep -c ' 96 255$' keys)" = 1 ]
}

@test "evicted, cleared, restarted" {
	engine ''
	watch tcp://127.0.0.1:5557 tcp://127.0.0.1:5558
	seen 1 ^complete
	prompt 1 1024 # the cache is full
	seen 64 ^told
	prompt 2001 32
	seen 2 ^gone
	seen 66 ^told
	in_ns curl -sf -o /dev/null -X POST 127.0.0.1:8000/reset_prefix_cache
	seen 1 ^cleared
	prompt 1 32
	seen 68 ^told
	events '{"restart":true}'
	prompt 1 16
	seen 2 ^cleared
	seen 69 ^told
}

@test "lost batches are replayed; when they cannot be: unsure" {
	engine ''
	watch tcp://127.0.0.1:5557 tcp://127.0.0.1:5558
	seen 1 ^complete
	prompt 1 16
	seen 1 ^told
	events '{"lose":2}'
	prompt 101 16
	prompt 201 16
	prompt 301 16
	seen 4 ^told
	seen 0 ^unsure
	events '{"skip":1}'
	prompt 401 16
	prompt 501 16
	seen 1 ^unsure
	seen 5 ^told
	seen 1 ^incomplete
	sleep 0.3 # sums are of up to 0.2 s ago
	kill "$watcher"
	wait "$watcher" || true
	cat sums
	grep -q 'gaps=2 ' sums
}

@test "garbage and huge messages are survived" {
	engine ''
	watch tcp://127.0.0.1:5557 tcp://127.0.0.1:5558
	seen 1 ^complete
	events '{"garbage":1}'
	prompt 1 16
	seen 1 'not a batch'
	prompt 101 16
	seen 1 ^told
	events '{"huge":3000000}'
	seen 1 'connection ended'
	prompt 201 16
	seen 2 'told .* 16 255'
}

@test "an engine that connects" {
	watch -b pod tcp://127.0.0.1:6000
	nsenter --net="/run/netns/$KV_NS" "$OUT/kv-engine" --listen 127.0.0.1:8000 --name e --model m --kv-events \
		'e={"endpoint":"tcp://127.0.0.1:6000","topic":"kv@pod@m"}' >engine.out 3>&- &
	pids+=($!)
	until grep -q ready engine.out; do sleep 0.02; done
	sleep 0.5
	prompt 1 32
	seen 2 ^told
}
