#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# kvsteerd's beginnings and ends, and what becomes of requests when engines fail.

load lib

setup_file() { kv_up 2 3; }
teardown_file() { kv_down; }

setup() {
	: >"$KV_GW_LOG"
	case $BATS_TEST_DESCRIPTION in
	start:*) ;;
	*) kv_gateway ;;
	esac
}

# Every test ends with the agent ended, and nothing left.
teardown() {
	local i
	[ -z "${BATS_TEST_COMPLETED:-}" ] || kv_clean_end
	[ -z "${BUSY:-}" ] || kill "$BUSY"
	kv_stop_gateway || kill -KILL "$(gateway_pid)"
	for ((i = 1; i <= KV_ENGINES; i++)); do
		if gone "$(cat "$KV_RUN/engine-$i.pid")"; then kv_engine "$i"; fi
		kv_fault "$i" '{}'
	done
}

BODY='{"model":"emulated","prompt":"some text","max_tokens":4}'

post() { # [CURL OPTION…]: status on stdout
	from 1 curl -sS -m 10 -o "$BATS_TEST_TMPDIR/answer" -w '%{http_code}' -d "$BODY" "$@" "http://$KV_V4/v1/completions"
}

# refuses OPTION…: kvsteerd ends with an error, in one line, and leaves nothing
refuses() {
	run timeout 10 nsenter --net="/run/netns/$KV_ID-gw" "${WRAP[@]}" "$KV_BIN/kvsteerd" "$@"
	echo "exit $status: $output"
	[ "$status" != 0 ]
	[ "$status" != 124 ] # it did not end
	# one line says what is wrong; what was done before may be told as well
	[ "$(grep -vcE 'kvsteerd: info: interface|try --help' <<<"$output")" = 1 ]
	[[ $output != *Sanitizer* && $output != *"runtime error"* ]]
	[ -z "$(kv_in "$KV_ID-gw" tc filter show dev c1 ingress)" ]
}

OPTIONS() {
	echo --pin "$KV_PIN" --control "$KV_CTL"
}

@test "start: busy port" {
	kv_start "$KV_ID-gw" /dev/null python3 -c '
import socket, time
s = socket.create_server(("10.71.1.1", 8000)); time.sleep(60)'
	BUSY=$KV_STARTED
	until_true 5 kv_in "$KV_ID-gw" bash -c 'ss -ltn | grep -q 10.71.1.1:8000'
	# shellcheck disable=SC2046
	refuses --listen 10.71.1.1:8000 --backend 10.72.1.2:8000 $(OPTIONS)
	[[ $output == *10.71.1.1:8000* && $output == *"in use"* ]]
}

@test "start: bad configuration: line, key and what was expected" {
	kv_config >"$KV_RUN/bad.yaml"
	sed -i 's/policy: price/policy: cheapest/' "$KV_RUN/bad.yaml"
	refuses -c "$KV_RUN/bad.yaml"
	[[ $output == *bad.yaml:* && $output == *policy* && $output == *round-robin* ]]
	kv_config | sed 's/policy:/polizy:/' >"$KV_RUN/bad.yaml"
	refuses -c "$KV_RUN/bad.yaml"
	[[ $output == *bad.yaml:* && $output == *polizy* ]]
	refuses -c "$KV_RUN/none.yaml"
	[[ $output == *none.yaml* ]]
}

@test "start: wrong usage" {
	refuses --nonsense
	refuses --listen 10.71.1.1:8000 --backend nonsense
	refuses --listen 10.71.1.1 --backend 10.72.1.2:8000
	refuses --listen 10.71.1.1:8000 --backend 10.72.1.2:8000 --policy cheapest
}

@test "start: no permission" {
	WRAP=(setpriv --bounding-set=-all --inh-caps=-all --no-new-privs)
	# shellcheck disable=SC2046
	refuses --listen 10.71.1.1:8000 --backend 10.72.1.2:8000 $(OPTIONS)
	[[ $output == *root* || $output == *CAP_* ]]
}

@test "start: interface that is not there, is down, has no address" {
	# shellcheck disable=SC2046
	refuses --listen 10.71.1.1:8000 --backend 10.72.1.2:8000 --interface nope0 $(OPTIONS)
	[[ $output == *nope0* ]]
	ip -n "$KV_ID-gw" link add bare0 type veth peer name bare1
	# shellcheck disable=SC2046
	refuses --listen 10.71.1.1:8000 --backend 10.72.1.2:8000 --interface bare0 $(OPTIONS)
	[[ $output == *bare0* && $output == *down* ]]
	ip netns exec "$KV_ID-gw" sysctl -qw net.ipv6.conf.bare0.addr_gen_mode=1
	ip -n "$KV_ID-gw" link set bare1 up
	ip -n "$KV_ID-gw" link set bare0 up
	# shellcheck disable=SC2046
	refuses --listen 10.71.1.1:8000 --backend 10.72.1.2:8000 --interface bare0 $(OPTIONS)
	ip -n "$KV_ID-gw" link del bare0
	[[ $output == *bare0* && $output == *address* ]]
}

@test "start: listen address that the host does not have" {
	# shellcheck disable=SC2046
	refuses --listen 10.99.9.9:8000 --backend 10.72.1.2:8000 $(OPTIONS)
	[[ $output == *10.99.9.9* ]]
}

@test "start: without a file, options only" {
	# shellcheck disable=SC2046
	kv_gateway_with --listen 10.71.1.1:8000 --backend 10.72.1.2:8000 --backend 10.72.2.2:8000 \
		--policy round-robin $(OPTIONS)
	kv_serves "$KV_V4"
	[ "$(post)" = 200 ]
	[ "$(post -H 'X-Session-Id: a')" = 200 ]
}

@test "start: readiness is told to the service manager" {
	kv_start "$KV_ID-gw" "$KV_RUN/notify.log" python3 -uc '
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind(sys.argv[1]); s.settimeout(20)
while True:
    text = s.recv(4096).decode(); print(text)
    if "STOPPING=1" in text: break' "$KV_RUN/notify"
	until_true 5 test -S "$KV_RUN/notify"
	NOTIFY_SOCKET=$KV_RUN/notify kv_gateway
	until_true 5 grep -q READY=1 "$KV_RUN/notify.log"
	kv_stop_gateway
	until_true 5 grep -q STOPPING=1 "$KV_RUN/notify.log"
}

@test "a second agent in the same namespace, or on the same pins, refuses" {
	refuses_beside gw --listen 10.71.2.1:9000 --pin "$KV_PIN.2"
	[[ $output == *"$(gateway_pid)"* ]] # whom to stop
	refuses_beside c1 --listen 10.71.1.2:9000 --pin "$KV_PIN"
	[[ $output == *"$KV_PIN"* ]]
	served
}

refuses_beside() { # HOST OPTION…
	run timeout 10 nsenter --net="/run/netns/$KV_ID-$1" "$KV_BIN/kvsteerd" "${@:2}" \
		--backend 10.72.1.2:8000 --control "$KV_CTL.2"
	echo "$output"
	[ "$status" != 0 ]
	[ "$status" != 124 ]
}

@test "kill -9 and start again: attaches anew" {
	[ "$(post -H 'X-Session-Id: a')" = 200 ]
	kv_kill_gateway
	kv_gateway
	for _ in 1 2 3 4 5; do
		[ "$(post)" = 200 ]
		[ "$(post -H 'X-Session-Id: a')" = 200 ]
	done
	[ "$(kv_in "$KV_ID-gw" tc filter show dev c1 ingress | grep -c direct-action)" = 1 ]
}

@test "kill -9: streams in flight run to their end" {
	from 1 curl -sSN -m 20 -o "$BATS_TEST_TMPDIR/stream" \
		"http://$KV_V4/bytes/200000?framing=chunked&chunk=1000&delay_us=10000" 3>&- &
	local pid=$!
	until_true 5 kv_lent 1
	kv_kill_gateway
	kv_gateway # takes the pair over, which goes on without its home sockets
	wait $pid
	[ "$(stat -c %s "$BATS_TEST_TMPDIR/stream")" = 200000 ]
}

@test "SIGTERM: running streams end, new connections are refused" {
	local pid
	for lane in "X-Session-Id: a" "X-None: a"; do
		from 1 curl -sSN -m 20 -o "$BATS_TEST_TMPDIR/stream-${lane%%:*}" -H "$lane" -d '{}' \
			"http://$KV_V4/bytes/300000?framing=chunked&chunk=1000&delay_us=10000" 3>&- &
	done
	until_true 5 kv_lent 2
	kill -TERM "$(gateway_pid)"
	until_true 5 refused
	alive "$(gateway_pid)"
	wait
	for lane in X-Session-Id X-None; do
		[ "$(stat -c %s "$BATS_TEST_TMPDIR/stream-$lane")" = 300000 ]
	done
	until_true 10 gone "$(gateway_pid)"
}

refused() {
	run from 1 curl -sS -m 2 -o /dev/null "http://$KV_V4/health"
	[ "$status" = 7 ]
}

@test "dead engines are noticed and come back" {
	local i k
	kv_engine_dies 1
	for ((i = 0; i < 12; i++)); do
		[ "$(post)" = 200 ]
		[ "$(post -H "X-Session-Id: s$i")" = 200 ]
	done
	until_true 10 backend_is e1 down
	kv_engine 1
	until_true 15 backend_is e1 up
	local before
	before=$(engine_metric 1 kv_engine_requests_total)
	for ((k = 0; k < 30; k++)); do post -H "X-Session-Id: back$k" >/dev/null; done
	[ "$(engine_metric 1 kv_engine_requests_total)" -gt "$before" ]
}

backend_is() {
	kvs -j backend list | jq -e --arg n "$1" --arg s "$2" \
		'[.. | objects | select(.name? == $n)] | first | .state == $s' >/dev/null
}

@test "no backend: 503 with Retry-After, then served again" {
	local i
	kv_engine_dies 1 2 3
	for i in 1 2 3; do until_true 10 backend_is "e$i" down || true; post >/dev/null; done
	for lane in "X-None: a" "X-Session-Id: a"; do
		run from 1 curl -sS -m 10 -i -H "$lane" -d "$BODY" "http://$KV_V4/v1/completions"
		[[ $output == *"HTTP/1.1 503"* ]]
		grep -qi '^retry-after: [0-9]' <<<"$output"
		grep -q '{"error":{' <<<"$output"
	done
	[ "$(counter agent_unavailable)" -ge 2 ]
	for i in 1 2 3; do kv_engine "$i"; done
	until_true 15 served
}

@test "engine resets before any answer byte: another engine answers" {
	local i
	kv_fault 1 '{"rst_before_headers":true}'
	for ((i = 0; i < 10; i++)); do
		[ "$(post)" = 200 ]
	done
	[ "$(counter agent_retries)" -ge 1 ]
}

@test "all engines reset before any answer byte: 502" {
	for i in 1 2 3; do kv_fault $i '{"rst_before_headers":true}'; done
	[ "$(post)" = 502 ]
	for i in 1 2 3; do kv_fault $i '{}'; done
	until_true 15 served
}

served() { [ "$(post)" = 200 ]; }

@test "hinted request, engine resets before any answer byte: an answer, not silence" {
	local code
	for i in 1 2 3; do kv_fault $i '{"rst_before_headers":true}'; done
	code=$(post -H 'X-Session-Id: rst')
	[ "$code" = 502 ] || [ "$code" = 503 ]
}

@test "engine resets inside a stream: the client sees a broken one" {
	for i in 1 2 3; do kv_fault $i '{"rst_after_tokens":3}'; done
	for lane in "X-None: a" "X-Session-Id: a"; do
		run from 1 curl -sSN -m 10 -H "$lane" -d '{"prompt":"x","max_tokens":50,"stream":true}' "http://$KV_V4/v1/completions"
		[ "$status" != 0 ]
		[ "$status" != 28 ] # no end within time
		[[ $output != *DONE* ]]
	done
}

@test "engine closes inside a body: the client sees a short one" {
	for i in 1 2 3; do kv_fault $i '{"fin_mid_body":1000}'; done
	for lane in "X-None: a" "X-Session-Id: a"; do
		run from 1 curl -sS -m 10 -o "$BATS_TEST_TMPDIR/short" -H "$lane" "http://$KV_V4/bytes/5000"
		[ "$status" = 18 ] # partial file
		[ "$(stat -c %s "$BATS_TEST_TMPDIR/short")" = 1000 ]
	done
}

@test "engine hangs, client gives up: the engine sees it, nothing stays charged" {
	for i in 1 2 3; do kv_fault $i '{"hang":true}'; done
	for lane in "X-None: a" "X-Session-Id: a"; do
		run from 1 curl -sS -m 1 -H "$lane" -d "$BODY" "http://$KV_V4/v1/completions"
		[ "$status" = 28 ]
	done
	for i in 1 2 3; do kv_fault $i '{}'; done
	until_true 10 idle
	served
}

# idle: nothing in flight anywhere
idle() {
	kvs -j backend list | jq -e '[.. | objects | .inflight_requests?, .inflight_tokens?, .upstreams?.relay?, .upstreams?.lent? | numbers] | length > 0 and all(. == 0)' >/dev/null
}

@test "client resets inside a stream: the engine sees it, nothing stays charged" {
	local before
	before=$(aborted)
	for lane in "X-None: a" "X-Session-Id: a"; do
		run from 1 timeout 1 curl -sSN -o /dev/null -H "$lane" \
			"http://$KV_V4/bytes/100000000?framing=chunked&chunk=1000&delay_us=3000"
	done
	until_true 10 idle
	until_true 10 aborted_since "$before" 2
}

@test "engine says Connection: close, or closes silently: every request is served" {
	local i
	for fault in '{"say_close":true}' '{"close_after_response":true}'; do
		for i in 1 2 3; do kv_fault "$i" "$fault"; done
		for ((i = 0; i < 10; i++)); do
			[ "$(post)" = 200 ]
			[ "$(post -H "X-Session-Id: s$i")" = 200 ]
		done
	done
}

@test "a client connection that outlives its engine's keep-alive" {
	local i
	for i in 1 2 3; do
		kill "$(cat "$KV_RUN/engine-$i.pid")"
		until_true 5 gone "$(cat "$KV_RUN/engine-$i.pid")"
		kv_engine "$i" --keep-alive-s 1
	done
	until_true 15 served
	from 1 python3 - "$KV_TOOLS" <<-'PY'
		import sys, time
		sys.path.insert(0, sys.argv[1])
		from kvhttp import Conn, request
		conn = Conn(("10.71.1.1", 8000))
		body = b'{"prompt":"x","max_tokens":1}'
		for i in range(8):
		    for fields in ([], [("X-Session-Id", "x")]):
		        conn.send(request("POST", "/v1/completions", body, fields))
		        r = conn.read()
		        assert r.status == 200, (i, r.status, r.body)
		    time.sleep((0.9, 1.0, 1.1, 1.3)[i % 4])
	PY
	for i in 1 2 3; do kill "$(cat "$KV_RUN/engine-$i.pid")"; done
}

@test "clients on two interfaces" {
	[ "$(from 2 curl -sS -m 5 -o /dev/null -w '%{http_code}' "http://$KV_V4/v1/models")" = 200 ]
	[ "$(from 2 curl -sS -m 5 -o /dev/null -w '%{http_code}' -d "$BODY" "http://$KV_V4/v1/completions")" = 200 ]
	[ "$(from 2 curl -sS -m 5 -o /dev/null -w '%{http_code}' -g -d "$BODY" "http://$KV_V6/v1/completions")" = 200 ]
}
