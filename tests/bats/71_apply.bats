#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# bats file_tags=timed
# What `apply` and `backend add` refuse, all or nothing, and what they do while requests are under way.

# shellcheck disable=SC2034 # PATIENT, FROM: for patient.bash
load lib
load patient

setup_file() {
	kv_up 2 2
	MAX_BACKENDS=4 time_gateway "$QUICK"
}

teardown_file() { kv_down; }

# refuses PATTERN: the file is refused with such a line, and nothing has changed
refuses() {
	local before
	before=$(in_force)
	run kvs apply "$BATS_TEST_TMPDIR/a.yaml"
	echo "$output"
	[ "$status" = 1 ]
	[ "${#lines[@]}" = 1 ]
	grep -qE "$1" <<<"$output"
	[ "$before" = "$(in_force)" ]
}

in_force() {
	kvs -j service list | jq -c '[.. | objects | select(.listen?) | [.name, .policy, .listen]]'
	kvs -j backend list | jq -c '[.. | objects | select(.address?) | [.name, .address, .state]]'
}

@test "apply: a key for the next start is told once" {
	{ cat "$KV_RUN/kvsteer.yaml"; echo "max_sessions: 1000"; } >"$BATS_TEST_TMPDIR/a.yaml"
	run kvs apply "$BATS_TEST_TMPDIR/a.yaml"
	echo "$output"
	[ "$status" = 0 ]
	[[ $output == *"max_sessions: 131072 -> 1000 (at the next start)"* ]]
	run kvs apply "$BATS_TEST_TMPDIR/a.yaml"
	[ "$status" = 0 ]
	[[ $output != *max_sessions* ]]
	run kvs apply "$KV_RUN/kvsteer.yaml"
	[ "$status" = 0 ]
	[[ $output != *max_sessions* ]]
}

@test "apply: a port in use changes nothing, nor does a backend without a route" {
	kv_start "$KV_ID-gw" "$KV_RUN/port.out" python3 -c '
import socket, time
s = socket.socket(); s.bind(("10.71.1.1", 9009)); s.listen(); time.sleep(60)'
	local holder=$KV_STARTED
	until_true 5 eval 'kv_in $KV_ID-gw ss -Htln | grep -q :9009'
	sed 's/policy: round-robin/policy: least/' "$KV_RUN/kvsteer.yaml" >"$BATS_TEST_TMPDIR/a.yaml"
	sed -i 's/^health/  - {name: third, listen: ["10.71.1.1:9009"]}\n&/' "$BATS_TEST_TMPDIR/a.yaml"
	refuses 'third.*10.71.1.1:9009.*nothing has been changed'
	kill "$holder"
	until_true 5 gone "$holder"
	kvs apply "$BATS_TEST_TMPDIR/a.yaml"
	kvs service show third | grep -q 10.71.1.1:9009
	sed -i 's/10.72.2.2:8000/10.99.9.9:8000/; s/policy: least/policy: hash/' "$BATS_TEST_TMPDIR/a.yaml"
	refuses 'e2.*nothing has been changed'
	kvs apply "$KV_RUN/kvsteer.yaml"
	[ "$(kvs -j service list | jq '[.. | objects | select(.name? == "third")] | length')" = 0 ]
}

@test "apply: services exchange their addresses" {
	sed 's/10.71.1.1:8000/10.71.1.1:8001/; s/\[fd71::1:1\]:8000/10.71.1.1:8000/' "$KV_RUN/kvsteer.yaml" |
		sed 's/10.71.1.1:8001/[fd71::1:1]:8000/' >"$BATS_TEST_TMPDIR/a.yaml"
	grep -q 'listen: \["10.71.1.1:8000"\]' "$BATS_TEST_TMPDIR/a.yaml"
	kvs apply "$BATS_TEST_TMPDIR/a.yaml"
	kvs -j service show v4 | jq -e '[.. | .listen? // empty] | flatten == ["[fd71::1:1]:8000"]'
	kvs -j service show v6 | jq -e '[.. | .listen? // empty] | flatten == ["10.71.1.1:8000"]'
	both
	for lane in express agent; do all_said $lane 200 1; done
	TO=$KV_V6 both
	for lane in express agent; do all_said $lane 200 1; done
	kvs apply "$KV_RUN/kvsteer.yaml"
	both
	for lane in express agent; do all_said $lane 200 1; done
}

@test "apply: a removed backend keeps its place until its last request has ended" {
	sed 's/10.72.1.2:8000/10.72.1.2:8011/; s/name: e1,/name: new,/' "$KV_RUN/kvsteer.yaml" >"$BATS_TEST_TMPDIR/a.yaml"
	kvs backend drain e2
	PATIENT=
	patient express --first 4
	until_true 10 running 1
	refuses '1 backends to add, room for 0 of max_backends = 4'
	waited express
	all_said express 200 1
	kvs apply "$BATS_TEST_TMPDIR/a.yaml"
	only_backends new e2 e1-6 e2-6
	kvs apply "$KV_RUN/kvsteer.yaml"
	kvs backend undrain e2
	only_backends e1 e2 e1-6 e2-6
}

# cannot PATTERN VERB…: refused in one line
cannot() {
	local pattern=$1
	shift
	run kvs "$@"
	echo "$status: $output"
	[ "$status" != 0 ]
	[ "${#lines[@]}" = 1 ]
	grep -qE "$pattern" <<<"$output"
}

@test "backend add: what is refused" {
	cannot 'nope.*none of that name' backend add nope 10.72.1.2:8011
	cannot 'e1: there is one of that name' backend add v4 10.72.1.2:8011 --name e1
	cannot '10.72.1.2:8000.*backend e1 of service v4' backend add v4 10.72.1.2:8000 --name other
	cannot '10.71.1.1:8000.*service v4 listens on it' backend add v4 10.71.1.1:8000
	cannot 'expected IPV4:PORT' backend add v4 10.72.1.2
	cannot 'name' backend add v4 10.72.1.2:8011 --name 'a b'
	cannot 'name' backend add v4 10.72.1.2:8011 --name "$(printf 'n%.0s' {1..64})"
	cannot 'max_backends = 4 are in use' backend add v4 10.72.1.2:8011
	kvs backend remove e2
	until_true 5 only_backends e1 e1-6 e2-6
	cannot '10.99.9.9:8000' backend add v4 10.99.9.9:8000
	cannot 'capacity' backend add v4 10.72.1.2:8011 --capacity 0
	cannot 'rate' backend add v4 10.72.1.2:8011 --rate 1000000001
	kvs backend add v4 10.72.2.2:8000 --name e2
	cannot 'nope.*none of that name' backend undrain nope
	only_backends e1 e2 e1-6 e2-6
}

@test "clean end" { kv_clean_end; }
