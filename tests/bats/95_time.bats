#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Time: silence of any length between living peers, peers that vanish, idle connections that engines
# close, backends that come and go, clocks that jump. KV_SOAK=1: the long form, with default settings.

load lib

setup_file() {
	kv_up 2 2
	time_gateway
}

teardown_file() { kv_down; }

# time_gateway [KEY: VALUE…]: with these timeouts beside probe: 1s
time_gateway() {
	local keys="probe: 1s" key
	for key in "$@"; do keys+=", $key"; done
	{
		kv_config round-robin
		echo "timeouts: {$keys}"
	} >"$KV_RUN/kvsteer.yaml"
	kv_gateway_with -c "$KV_RUN/kvsteer.yaml"
	kv_serves "$KV_V4" "$KV_V6"
}

again() {
	kv_stop_gateway
	time_gateway "$@"
}

# patient LANE OPTION…: in the background; its output in $BATS_TEST_TMPDIR/LANE
patient() {
	local lane=$1
	shift
	nsenter --net="/run/netns/$KV_ID-c${FROM:-1}" python3 "$KV_TOOLS/patient.py" --lane "$lane" \
		--to "${TO:-$KV_V4}" "$@" >"$BATS_TEST_TMPDIR/$lane" 2>&1 3>&- &
	PATIENT+=" $!"
}

# both OPTION…: clients of both lanes, waited for
both() {
	PATIENT=
	patient express "$@"
	patient agent "$@"
	# shellcheck disable=SC2086
	wait $PATIENT
	tail -n 5 "$BATS_TEST_TMPDIR"/{express,agent}
}

# all_said LANE WORD N: exactly N lines, each with that word
all_said() {
	[ "$(wc -l <"$BATS_TEST_TMPDIR/$1")" = "$3" ]
	[ "$(grep -c "^$2 " "$BATS_TEST_TMPDIR/$1")" = "$3" ]
}

# idle: nothing in flight anywhere
idle() {
	kvs -j backend list | jq -e '[.. | objects | .inflight_requests?, .inflight_tokens?, .upstreams?.relay?, .upstreams?.lent? | numbers] | length > 0 and all(. == 0)' >/dev/null
}

# running N: so many requests are in flight
running() {
	[ "$(kvs -j backend list | jq '[.. | objects | .inflight_requests? | numbers] | add')" = "$1" ]
}

risen() { # COUNTER BEFORE BY
	[ "$(counter "$1")" -ge $(($2 + $3)) ]
}

@test "silence before the first byte: peers answer probes, both lanes, both IP versions" {
	local probes dead
	probes=$(counter probes_sent)
	dead=$(($(counter pairs_dead_client) + $(counter pairs_dead_backend)))
	TO=$KV_V6 both --first 7 --conns 3
	for lane in express agent; do all_said $lane 200 3; done
	both --first 7 --conns 3
	for lane in express agent; do all_said $lane 200 3; done
	risen probes_sent "$probes" 20
	[ $(($(counter pairs_dead_client) + $(counter pairs_dead_backend))) = "$dead" ]
}

@test "streams that pause: both lanes" {
	local probes
	probes=$(counter probes_sent)
	both --pause 4 --pieces 3 --framing chunked
	for lane in express agent; do all_said $lane 200 1; done
	risen probes_sent "$probes" 8
}

# silent c2|e1: that host receives, and answers nothing; talks: as before. IPv4.
silent() {
	ip -n "$KV_ID-$1" route add blackhole "$(gateway_of "$1")"
}

talks() {
	ip -n "$KV_ID-$1" route del blackhole "$(gateway_of "$1")"
}

gateway_of() { # what that host speaks to
	case $1 in
	c*) echo "${KV_V4%:*}/32" ;;
	e*) echo "10.72.${1#e}.1/32" ;;
	esac
}

aborted() {
	local i sum=0
	for ((i = 1; i <= KV_ENGINES; i++)); do
		sum=$((sum + $(engine_metric "$i" kv_engine_aborted_total)))
	done
	echo $sum
}

aborted_since() {
	[ "$(aborted)" -ge $(($1 + $2)) ]
}

# shellcheck disable=SC2086
end_patients() {
	kill -KILL $PATIENT 2>/dev/null || true
	wait $PATIENT || true
}

@test "a client that vanishes while it waits: its engines are told, nothing stays" {
	local before dead
	before=$(aborted) dead=$(counter pairs_dead_client)
	PATIENT= FROM=2
	patient express --first 60
	patient agent --first 60
	until_true 10 running 2
	silent c2
	until_true 12 aborted_since "$before" 2
	until_true 2 risen pairs_dead_client "$dead" 2
	until_true 2 idle
	talks c2
	end_patients
}

@test "a client that vanishes inside a stream: its engines are told, nothing stays" {
	local before dead
	before=$(aborted) dead=$(counter pairs_dead_client)
	PATIENT= FROM=2
	patient express --pause 0.3 --pieces 300 --framing sse
	patient agent --pause 0.3 --pieces 300 --framing sse
	until_true 10 running 2
	sleep 1 # the agent lane's is lent now
	silent c2
	until_true 12 aborted_since "$before" 2
	until_true 2 risen pairs_dead_client "$dead" 2
	until_true 2 idle
	talks c2
	end_patients
}

backend_is() {
	kvs -j backend list | jq -e --arg n "$1" --arg s "$2" \
		'[.. | objects | select(.name? == $n)] | first | .state == $s' >/dev/null
}

@test "an engine's host that vanishes: idle connections tell, and it comes back" {
	silent e1
	until_true 15 backend_is e1 down
	talks e1
	until_true 15 backend_is e1 up
}

@test "an engine that vanishes before it answers: 504, in the agent lane another engine answers" {
	local dead
	dead=$(counter pairs_dead_backend)
	again "connect: 500ms"
	kvs backend drain e2
	PATIENT=
	patient express --first 4
	patient agent --first 4
	until_true 10 running 2
	silent e1
	kvs backend undrain e2
	# shellcheck disable=SC2086
	wait $PATIENT
	tail -n 5 "$BATS_TEST_TMPDIR"/{express,agent}
	talks e1
	all_said express 504 1
	all_said agent 200 1
	[ "$(counter pairs_dead_backend)" = 2 ]
	until_true 2 idle
	until_true 15 backend_is e1 up
}

@test "an engine that vanishes inside a stream: the client sees a broken one" {
	kvs backend drain e2
	PATIENT=
	patient express --pause 0.3 --pieces 300 --framing sse
	patient agent --pause 0.3 --pieces 300 --framing sse
	until_true 10 running 2
	sleep 1 # the agent lane's is lent now
	silent e1
	kvs backend undrain e2
	# shellcheck disable=SC2086
	wait $PATIENT
	tail -n 5 "$BATS_TEST_TMPDIR"/{express,agent}
	talks e1
	for lane in express agent; do all_said $lane reset 1; done
	until_true 2 idle
	until_true 15 backend_is e1 up
}

# stalling I IDLE BUSY: on engine host I one that closes idle connections as a busy uvicorn does; it
# becomes the only backend of service v4 (I = 1) or v6 (I = 2)
stalling() {
	local address=10.72.1.2:8010 service=v4 of=
	[ "$1" = 1 ] || address='[fd72::2:2]:8010' service=v6 of=-6
	kv_start "$KV_ID-e$1" "$KV_RUN/idle-$1.out" python3 "$KV_TOOLS/idle_engine.py" \
		--listen "$address" --idle "$2" --busy "$3"
	until_true 10 grep -q connections "$KV_RUN/idle-$1.out"
	kvs backend add "$service" "$address" --name "idle$1"
	kvs backend remove "e1$of"
	kvs backend remove "e2$of"
}

@test "an engine that ends idle connections just when the next request comes" {
	local every=1.65 n=5
	stalling 1 1.5 0.3
	stalling 2 1.5 0.3
	# once, so that it is known how long this engine waits
	both_services --pieces 1 --piece 16 --any
	sleep 2.5
	both_services --pieces 1 --piece 16 --any --every $every --n $n
	all_said express 200 $n
	all_said agent 200 $n
	tail -n 1 "$KV_RUN"/idle-?.out >&3
}

both_services() {
	PATIENT=
	patient express "$@"
	TO=$KV_V6 patient agent "$@"
	# shellcheck disable=SC2086
	wait $PATIENT
	tail -n 5 "$BATS_TEST_TMPDIR"/{express,agent}
}

@test "clean end" { kv_clean_end; }
