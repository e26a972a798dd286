#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Inside the virtual machine: the core test of tests/tools/places.py in some places of
# tests/places.bash: also those that the test host's kernel may lack the devices for.
# One line each: "run PLACE ok …" or "run PLACE FAIL: …".
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tools/netns.sh
. tools/netns.sh
# shellcheck disable=SC1091 # not among the files that are checked
. tests/places.bash
export KV_ID=kv KV_PIN=/sys/fs/bpf/kvsteer KV_CTL=/run/kvsteer.sock
LOG=/tmp/engine.log

fail() {
	echo "run $place FAIL: $*"
	cat "/tmp/$place.out"
	tail -n 20 /tmp/kvsteerd.out
	kvsteer counters --nonzero
	exit 1
}

# started SECONDS FILE WORD
started() {
	local n
	for ((n = 0; n < $1 * 10; n++)); do
		grep -q "$3" "$2" && return 0
		sleep 0.1
	done
	fail "not within $1 s: $3"
}

ask() {
	kv_in "$KV_ID-$PLACE_CLIENT" python3 tests/tools/places.py --log $LOG "$@" >>"/tmp/$place.out" 2>&1 ||
		fail "${*: -5}"
}

# run "PLACE ARGUMENT…" CASE OPTION…: of places.py
run() {
	local engine gateway start=$SECONDS
	place=${1/ /-}
	local words
	read -ra words <<<"$1"
	shift
	: >"/tmp/$place.out"
	: >/tmp/kvsteerd.out
	"place_${words[0]}" "${words[@]:1}" >>"/tmp/$place.out" 2>&1 || fail "cannot be laid out"
	# not by kv_in: $! must be the command itself
	nsenter --net="/run/netns/$KV_ID-$PLACE_ENGINE" kv-engine --log $LOG --keep-alive-s 60 \
		--listen "$PLACE_ENGINE4:8100" --name e1 --listen "[$PLACE_ENGINE6]:8100" --name e1-6 \
		>/tmp/engine.out 2>&1 &
	engine=$!
	started 20 /tmp/engine.out ready
	place_config >/tmp/kvsteer.yaml
	nsenter --net="/run/netns/$KV_ID-gw" kvsteerd -c /tmp/kvsteer.yaml >/tmp/kvsteerd.out 2>&1 &
	gateway=$!
	started 60 /tmp/kvsteerd.out 'ready: 2 of 2'
	ask "$@" --to "$PLACE_AT4:8000" --to "[$PLACE_AT6]:8000"
	kill $gateway
	wait $gateway || fail "kvsteerd does not end well"
	kill $engine
	wait $engine
	kv_net_down $KV_ID
	echo "run $place ok, $((SECONDS - start)) s"
}

run two core
run vlan core --most 70000
run bond core --most 70000
run engines_here core --most 70000
run "path c" download --lane express
run "path e" upload --lane express
