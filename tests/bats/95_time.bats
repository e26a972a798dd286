#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# bats file_tags=timed
# Time: silence of any length between living peers, peers that vanish, idle connections that engines
# close, backends that come and go, clocks that jump. KV_SOAK=1: the long form, with default settings.

# shellcheck disable=SC2034 # PATIENT, FROM: for patient.bash
load lib
load patient

setup_file() {
	# Idle connections end after 5 s here, as uvicorn's do.
	kv_up 2 2 --keep-alive-s 5
	time_gateway "$QUICK"
}

teardown_file() { kv_down; }

# Silence that is longer than a peer without a sign of life would be left: 7 s here. Long form: over
# ten minutes and default settings. Meanwhile others ask every 5.0 s, and their connections have just
# been idle for as long as the engines leave them.
@test "silence before the first byte and inside a stream; requests every 5.0 s" {
	local silence=8 n=2 pause=8 pieces=1 lane probes pairs
	if [ -n "${KV_SOAK:-}" ]; then
		silence=630 n=125 pause=315 pieces=2
		again
	fi
	probes=$(counter probes_sent)
	PATIENT=
	for lane in express agent; do
		patient $lane --first $silence --conns 3
		TO=$KV_V6 NAME=$lane-6 patient $lane --first $silence
		NAME=$lane-stream patient $lane --pause $pause --pieces $pieces --framing chunked
		NAME=$lane-5 patient $lane --every 5.0 --n $n --conns 10 --pieces 1
	done
	# How many are silent with the kernel alone: on a busy machine some were begun before there
	# were upstreams enough, and are the agent's.
	sleep 4
	pairs=$(kv_under_way | grep -c lent_client)
	[ "$pairs" -gt 0 ]
	waited express agent
	for lane in express agent; do
		all_said $lane 200 3
		all_said $lane-6 200 1
		all_said $lane-stream 200 1
		all_said $lane-5 200 $((10 * n))
	done
	risen probes_sent $((probes + 4 * pairs)) # both peers of each, twice and more
	[ "$(counter pairs_dead_client)" = 0 ]
	[ "$(counter pairs_dead_backend)" = 0 ]
	[ -z "${KV_SOAK:-}" ] || again "$QUICK"
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

# shellcheck disable=SC2086
end_patients() {
	kill -KILL $PATIENT 2>/dev/null || true
	wait $PATIENT || true
}

@test "clients that vanish, waiting or inside a stream: engines are told, nothing stays" {
	local before dead lane
	before=$(aborted) dead=$(counter pairs_dead_client)
	PATIENT="" FROM=2
	for lane in express agent; do
		patient $lane --first 60
		NAME=$lane-stream patient $lane --pause 0.3 --pieces 300 --framing sse
	done
	until_true 10 running 4
	until_true 10 kv_lent 3 # the agent lane's stream, too
	silent c2
	until_true 12 aborted_since "$before" 4
	until_true 2 risen pairs_dead_client $((dead + 4))
	until_true 2 idle
	talks c2
	end_patients
}

backend_is() {
	kvs -j backend list | jq -e --arg n "$1" --arg s "$2" \
		'[.. | objects | select(.name? == $n)] | first | .state == $s' >/dev/null
}

@test "an engine that vanishes: 504 or another engine, broken streams; where it is idle it is noticed" {
	local lane
	kvs backend drain e2
	PATIENT=
	for lane in express agent; do
		patient $lane --first 6
		NAME=$lane-stream patient $lane --pause 0.3 --pieces 300 --framing sse
	done
	until_true 10 running 4
	until_true 10 kv_lent 3
	silent e1
	ip -n "$KV_ID-e2" route add blackhole fd72::2:1/128 # e2-6 has nothing to do
	kvs backend undrain e2
	waited express agent express-stream agent-stream
	until_true 15 backend_is e2-6 down
	talks e1
	ip -n "$KV_ID-e2" route del blackhole fd72::2:1/128
	all_said express 504 1
	all_said agent 200 1
	for lane in express agent; do all_said $lane-stream reset 1; done
	risen pairs_dead_backend 4
	until_true 2 idle
	until_true 15 backend_is e1 up
	until_true 15 backend_is e2-6 up
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
	local n=3 lane
	stalling 1 1.5 0.3
	stalling 2 1.5 0.3
	# once, so that it is known how long this engine waits
	both_services --pieces 1 --piece 16 --any
	until_true 10 expired_once
	both_services --pieces 1 --piece 16 --any --every 1.65 --n $n
	for lane in express agent; do all_said $lane 200 $n; done
}

expired_once() {
	tail -qn 1 "$KV_RUN"/idle-?.out | grep -c "'expired': [1-9]" | grep -q 2
}

both_services() {
	PATIENT=
	patient express "$@"
	TO=$KV_V6 patient agent "$@"
	waited express agent
}

# more_engines I: eight more engines on host I, ports 8020 to 8027
more_engines() {
	local i=$1 port options=
	for port in {8020..8027}; do options+=" --listen 10.72.$i.2:$port --name more-$i-$port"; done
	# shellcheck disable=SC2086
	kv_start "$KV_ID-e$i" "$KV_RUN/more-$i.out" "$KV_OUT/kv-engine" $options --instant
	until_true 5 kv_in "$KV_ID-e$i" curl -fsS -m 1 -o /dev/null "http://10.72.$i.2:8027/health"
}

# traffic OPTION…: every request is answered; its report in $BATS_TEST_TMPDIR/traffic
traffic() {
	# shellcheck disable=SC2086
	from 1 "$KV_OUT/kv-traffic" -x -v -j "$@" "$KV_V4" >"$BATS_TEST_TMPDIR/traffic" \
		2>"$BATS_TEST_TMPDIR/traffic.err" 3>&-
}

# traffic_until OPTION…: the same in the background, until traffic_end
traffic_until() {
	nsenter --net="/run/netns/$KV_ID-c1" "$KV_OUT/kv-traffic" -x -v -j -d 600 "$@" "$KV_V4" \
		>"$BATS_TEST_TMPDIR/traffic" 2>"$BATS_TEST_TMPDIR/traffic.err" 3>&- &
	TRAFFIC=$!
}

traffic_end() {
	kill -TERM "$TRAFFIC"
	wait "$TRAFFIC" || { cat "$BATS_TEST_TMPDIR"/traffic*; tail -n 60 "$KV_GW_LOG"; kvs counters | grep -v " 0$"; false; }
	cat "$BATS_TEST_TMPDIR/traffic"
}

@test "backends come and go 50 times a second: every request is answered" {
	local i port seconds=${KV_SOAK:+60} churn=()
	: "${seconds:=6}"
	kvs apply "$KV_RUN/kvsteer.yaml"
	for i in 1 2; do
		more_engines $i
		for port in {8020..8027}; do churn+=(--address "10.72.$i.2:$port"); done
	done
	kvs backend remove e2
	traffic_until -c 16 --first-us 0-50000 --answer-bytes 0-16384
	kv_in "$KV_ID-gw" python3 "$KV_TOOLS/churn.py" --control "$KV_CTL" --service v4 \
		-n $((seconds * 50)) --rate 50 "${churn[@]}" | tee "$BATS_TEST_TMPDIR/churn"
	traffic_end
	jq -e --argjson s "$seconds" '.added == $s * 50' "$BATS_TEST_TMPDIR/churn"
	echo "# $(jq -r '"\(.added) added and removed, \(.added / .seconds | round) a second"' "$BATS_TEST_TMPDIR/churn")" >&3
	jq -e '.ok == .requests and .ok > 300' "$BATS_TEST_TMPDIR/traffic"
	until_true 5 idle
	until_true 5 only_backends e1 e1-6 e2-6
}

@test "drained, back, removed under load: streams end well, no new request comes" {
	local before after lane
	kvs apply "$KV_RUN/kvsteer.yaml"
	PATIENT=
	for lane in express agent; do
		patient $lane --conns 4 --pause 0.25 --pieces 24 --framing chunked
	done
	until_true 10 running 8
	before=$(engine_metric 1 kv_engine_requests_total)
	traffic_until -c 8 --answer-bytes 0-16384
	until_true 5 answers_more 1 $((before + 20))
	kvs backend drain e1
	until_true 5 quiet 1 # what was decided by then
	[ "$(inflight_of e1)" -ge 2 ] # its streams
	before=$(engine_metric 1 kv_engine_requests_total)
	sleep 1
	after=$(engine_metric 1 kv_engine_requests_total)
	[ $((after - before)) -le 1 ] # this question itself
	waited express agent
	for lane in express agent; do all_said $lane 200 4; done
	kvs backend undrain e1
	until_true 2 answers_more 1 $((after + 20))
	kvs backend remove e1
	until_true 5 gone_backend e1
	traffic_end
	jq -e '.ok == .requests and .ok > 200' "$BATS_TEST_TMPDIR/traffic"
	until_true 2 idle
}

# Each fifteenth time that the agent begins to watch a socket it is held up for longer than a connection may
# take: the connection is there by then, but the next to run is the clock.
@test "an agent that gets no time does not take engines for dead" {
	command -v strace >/dev/null || skip "no strace"
	again "probe: 1s, connect: 100ms, drain: 1s, client_idle: 6s"
	kvs backend drain e1
	traffic_until -c 8 --answer-bytes 0-16384
	timeout -s INT 4 strace -q -f -p "$(agent_pid)" -e trace=epoll_ctl \
		-e inject=epoll_ctl:delay_exit=120000:when=5+15 >"$BATS_TEST_TMPDIR/strace" 2>&1 3>&- || true
	[ "$(grep -c DELAYED "$BATS_TEST_TMPDIR/strace")" -ge 5 ]
	traffic_end
	[ "$(counter upstreams_failed)" = 0 ]
	again "$QUICK"
}

inflight_of() {
	kvs -j backend list | jq --arg n "$1" '[.. | objects | select(.name? == $n)] | first | .inflight_requests'
}

answers_more() {
	[ "$(engine_metric "$1" kv_engine_requests_total)" -gt "$2" ]
}

# quiet I: for a moment engine I gets no request but these questions
quiet() {
	local n
	n=$(engine_metric "$1" kv_engine_requests_total)
	sleep 0.2
	[ "$(engine_metric "$1" kv_engine_requests_total)" -le $((n + 1)) ]
}

gone_backend() {
	kvs -j backend list | jq -e --arg n "$1" '[.. | objects | select(.name? == $n)] | length == 0' >/dev/null
}

@test "an engine that never answers, one that stops inside its answer; no probes where they are off" {
	local lane probes
	time_config "response: 2s, probe: 0s"
	kvs apply "$KV_RUN/kvsteer.yaml"
	probes=$(counter probes_sent)
	PATIENT=
	for lane in express agent; do
		patient $lane --first 60
		NAME=$lane-stream patient $lane --pause 60 --framing chunked
	done
	waited express agent express-stream agent-stream
	for lane in express agent; do
		all_said $lane 504 1
		all_said $lane-stream reset 1
	done
	until_true 2 idle
	[ "$(counter probes_sent)" = "$probes" ]
}

@test "SIGTERM: idle connections are closed, what lasts longer than timeouts.drain is broken off" {
	local before pid
	time_config "$QUICK"
	kvs apply "$KV_RUN/kvsteer.yaml"
	before=$(aborted)
	from 1 python3 - "$KV_TOOLS" "${KV_V4%:*}" >"$BATS_TEST_TMPDIR/idle" 2>&1 3>&- <<-'PY' &
		import sys
		sys.path.insert(0, sys.argv[1])
		from kvhttp import Conn, request
		conn = Conn((sys.argv[2], 8000))
		# probed meanwhile, which must not keep the next agent from listening
		conn.send(request("POST", "/v1/completions?tagged=%016x&first_us=2500000" % 7, b"",
		                  [("X-Session-Id", "x")]))
		print(conn.read().status, flush=True)
		print("closed" if conn.ended(10) else "open", flush=True)
	PY
	pid=$!
	until_true 10 grep -q 200 "$BATS_TEST_TMPDIR/idle"
	PATIENT=
	patient express --pause 0.3 --pieces 300 --framing sse
	patient agent --pause 0.3 --pieces 300 --framing sse
	until_true 10 running 2
	kill -TERM "$(gateway_pid)"
	until_true 5 gone "$(gateway_pid)"
	wait $pid
	grep -q '^closed' "$BATS_TEST_TMPDIR/idle"
	waited express agent
	for lane in express agent; do all_said $lane reset 1; done
	until_true 2 aborted_since "$before" 2
}

@test "the agent dies: a backend that was down comes back, one that was draining still is" {
	local agent
	again "probe: 1s"
	kvs backend drain e2
	kv_engine_dies 1
	until_true 10 backend_is e1 down
	agent=$(agent_pid)
	kill -KILL "$agent"
	kv_engine 1 --keep-alive-s 5
	until_true 10 followed "$agent"
	backend_is e2 draining
	until_true 15 backend_is e1 up
	kvs backend undrain e2
	backend_is e2 up
}

followed() {
	[ "$(agent_pid)" != "$1" ] && kvs -j status | jq -e .agent.alive >/dev/null && [ -S "$KV_CTL" ]
}

@test "clocks that jump: nothing but monotonic time is used" {
	local found
	found=$(cd "$KV_ROOT" && grep -rnE 'CLOCK_(REALTIME|TAI)|gettimeofday|[^_a-z]time\((NULL|0|&)|ktime_get_(real|tai|boot)' \
		user include bpf | grep -v '/\* only shown \*/$' || true)
	[ -z "$found" ] || die "$found"
	cc -shared -fPIC -O1 -o "$KV_RUN/jump.so" "$KV_TOOLS/jump.c" -ldl
	kv_stop_gateway
	MAX_BACKENDS=4 LD_PRELOAD=$KV_RUN/jump.so ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 \
		time_gateway "probe: 1s"
	both --first 2
	for lane in express agent; do all_said $lane 200 1; done
	traffic -n 500 -c 8
	[ "$(counter pairs_dead_client)" = 0 ]
	[ "$(counter pairs_dead_backend)" = 0 ]
}

@test "clean end" { kv_clean_end; }
