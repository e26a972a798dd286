#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# kvsteer trace: each request has one record, which says what has really become of it.

load lib

PLACES=64

setup_file() {
	kv_up 1 3 --blocks 20000 --rate 40000 --decode-ms 3
	config >"$KV_RUN/kvsteer.yaml"
	kv_gateway_with -c "$KV_RUN/kvsteer.yaml"
	kv_serves "$KV_V4" "$KV_V6"
}

teardown_file() { kv_down; }

teardown() {
	local i
	[ ! -e "$BATS_TEST_TMPDIR/follow.pid" ] || kill -KILL "$(cat "$BATS_TEST_TMPDIR/follow.pid")" 2>/dev/null || true
	for i in 1 2 3; do kv_fault $i '{}'; done
}

# config [SAMPLE]
config() {
	kv_config price
	echo "trace: {requests: $PLACES, sample: ${1:-1}}"
	echo "tenancy: {header: X-Tenant}"
	# nobody is ejected for the faults of this file
	echo "health: {eject_share: 0}"
}

# body TOKENS [STREAM]: of a completion request, on stdout
body() {
	jq -nc --argjson n "$1" --argjson stream "${2:-false}" \
		'{model: "emulated", max_tokens: 40, stream: $stream, prompt: ([range($n)] | map("word") | add)}'
}

# ask BODY [OPTION…]: to the service v4; head and body of the answer on stdout
ask() {
	local body=$1
	shift
	from 1 curl -sS -m 20 -i --raw -H 'Content-Type: application/json' -d "$body" "$@" "http://$KV_V4/v1/completions"
}

# last: the newest record
last() { kvs -j trace --last 1; }

# is FILTER: true of the record in $t
is() {
	jq -e "$1" <<<"$t" >/dev/null || die "not so: $1: $t"
}

# ended: the newest record has its end
ended() {
	t=$(last)
	is '.end != null'
}

newest() { last | jq .number; }

# begun NUMBER: a later request has begun
begun() { [ "$(newest)" -gt "$1" ]; }

@test "express: why it went there, what was there already, and what became of it" {
	local h answer engine n
	h=$(hint 1024 express)
	answer=$(ask "$(body 10)" -H "KV-Prefix: $h" -H 'X-Tenant: a')
	until_true 5 ended
	t=$(last)
	is '.lane == "express" and .lane_reason == null and .service == "v4" and .rule == "price"'
	is '.total_tokens == 1024 and .matched_tokens == 0 and .best_tokens == 0 and .own_tokens == 1024 and .deepest == null and .holders == []'
	is '.rungs > 1 and .rungs_looked_up == .rungs and .candidates == 3 and (.backends | length) == 3'
	is '.retries == 0 and .status == 200 and .end == "done" and .ttft_s > 0 and .duration_s >= .ttft_s'
	is '.second != null and .second != .choice and .tenant != null and (.diverted | not)'
	is '.client | startswith("10.71.1.2:")'
	engine=$(tr -d '\r' <<<"$answer" | sed -n 's/^x-engine: //p')
	is ".choice == \"$engine\""
	# the length that the client has counted, head and body
	n=$(ask "$(body 10)" -H "KV-Prefix: $h" -H 'X-Tenant: a' | wc -c)
	until_true 5 ended
	t=$(last)
	is ".choice == \"$engine\" and .deepest == \"$engine\" and .holders == [\"$engine\"]"
	is ".matched_tokens > 900 and .best_tokens == .matched_tokens and .bytes == $n"
	is '[.backends[] | select(.matched_tokens > 0)] | length == 1'
}

@test "agent: why it is there, its model, and a stream that is lent in mid-flight" {
	local n
	n=$(ask "$(body 400 true)" -N | wc -c)
	until_true 5 ended
	t=$(last)
	is '.lane == "agent" and .lane_reason == "no_hint" and .model != null and .total_tokens > 300'
	is ".end == \"done\" and .status == 200 and .ttft_s > 0 and .bytes == $n and .retries == 0 and .lent_midflight"
	# one that ends in its first segment, relayed by the agent
	n=$(ask "$(body 400)" | wc -c)
	until_true 5 ended
	t=$(last)
	is ".lane == \"agent\" and .end == \"done\" and .bytes == $n and .matched_tokens > 0"
	# what has no prompt needs no reason to be in the kernel
	from 1 curl -fsS -m 5 -o /dev/null "http://$KV_V4/v1/models"
	until_true 5 ended
	t=$(last)
	is '.lane == "express" and .total_tokens == 0 and .rungs == 0'
}

@test "decided again after a failure: one record, its retries counted, in both lanes" {
	local before i h
	for h in "" "KV-Prefix: $(hint 1024 again)"; do
		for i in 1 2 3; do kv_fault $i '{"rst_before_headers": true, "count": 1}'; done
		before=$(newest)
		ask "$(body 300)" ${h:+-H "$h"} | head -n 1
		until_true 5 ended
		for i in 1 2 3; do kv_fault $i '{}'; done
		t=$(last)
		is ".number == $before + 1"
		if is '.lane == "agent"' 2>/dev/null; then is '.retries > 0'; fi
	done
}

@test "backend that breaks off, client that goes away, request that the gateway refuses" {
	local i h before
	for i in 1 2 3; do kv_fault $i '{"rst_after_tokens": 2}'; done
	ask "$(body 300 true)" -N || true
	until_true 5 ended
	t=$(last)
	is '.end == "broken" and .status == 200 and .bytes > 0'
	for i in 1 2 3; do kv_fault $i '{}'; done

	for h in "" "KV-Prefix: $(hint 200000 away)"; do
		for i in 1 2 3; do kv_fault $i '{"hang": true}'; done
		before=$(newest)
		nsenter --net="/run/netns/$KV_ID-c1" curl -sS -o /dev/null ${h:+-H "$h"} -d "$(body 300)" \
			"http://$KV_V4/v1/completions" 3>&- &
		until_true 5 begun "$before"
		kill $!
		until_true 5 ended
		t=$(last)
		is '.end == "aborted" and .ttft_s == null and .bytes == 0 and .duration_s > 0'
		for i in 1 2 3; do kv_fault $i '{}'; done
	done

	from 1 curl -sS -m 5 -o /dev/null -H 'Transfer-Encoding: nonsense' -d x "http://$KV_V4/v1/completions"
	until_true 5 ended
	t=$(last)
	is '.end == "refused" and .status >= 400 and .choice == null and .backends == [] and .lane == "agent"'
}

@test "client that aborts in the middle of a stream, hinted or not" {
	local h
	for h in "" "KV-Prefix: $(hint 1024 mid)"; do
		from 1 python3 - "$KV_V4" "$h" <<'PYTHON'
import json, socket, struct, sys
host, port = sys.argv[1].split(':')
body = json.dumps({'model': 'emulated', 'prompt': 'mid ' * 300, 'max_tokens': 1000, 'stream': True})
hint = sys.argv[2] + '\r\n' if sys.argv[2] else ''
s = socket.create_connection((host, int(port)))
s.sendall(f'POST /v1/completions HTTP/1.1\r\nHost: a\r\n{hint}Content-Length: {len(body)}\r\n\r\n{body}'.encode())
got = 0
while got < 2000:
    got += len(s.recv(500))
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
s.close()
PYTHON
		until_true 5 ended
		t=$(last)
		is '.end == "aborted" and .status == 200 and .bytes >= 2000 and .ttft_s > 0'
	done
}

@test "--service, --backend, --slow, --last; text for people" {
	local i n
	for i in 1 2 3 4; do ask "$(body 20)" >/dev/null; done
	from 1 curl -gfsS -m 5 -o /dev/null "http://$KV_V6/v1/models"
	until_true 5 ended
	[ "$(kvs -j trace --last 3 | jq -s length)" = 3 ]
	[ "$(kvs -j trace --last 3 | jq -s 'map(.number) | . == sort')" = true ]
	kvs -j trace --service v6 --last 100 | jq -se 'length > 0 and all(.service == "v6")'
	kvs -j trace --backend e1 --last 100 | jq -se 'all(.choice == "e1")'
	# the prompt's last tokens are new, at 40000 a second
	jq -nc '{model: "emulated", max_tokens: 1, prompt: ([range(30000)] | map("n\(.)xx") | add)}' >"$BATS_TEST_TMPDIR/long"
	ask "@$BATS_TEST_TMPDIR/long" >/dev/null
	until_true 5 ended
	kvs -j trace --slow 100 --last 100 | jq -se 'length > 0 and all(.ttft_s == null or .ttft_s >= 0.1)'
	n=$(kvs -j trace --last 100 | jq -s length)
	[ "$(kvs -j trace --slow 100 --last 100 | jq -s length)" -lt "$n" ]
	[ -z "$(kvs trace --slow 100000)" ]
	run kvs trace
	echo "$output"
	[ "${#lines[@]}" -le 21 ]
	[[ ${lines[0]} == WHEN*LANE*CLIENT*CHOICE*TTFT* ]]
	[ "$(kvs trace --service v4 | wc -L)" -le 120 ]
	run kvs trace --why --last 1
	[ "${#lines[@]}" = 3 ]
	[[ ${lines[2]} == *"rungs looked up;"*queue*cost* ]]
	run kvs trace --slow soon
	[ "$status" = 2 ]
	[[ $output == *"expected milliseconds"* ]]
	run kvs trace --backend nobody
	[ "$status" = 1 ]
	[[ $output == *"there is none"* ]]
	run kvs trace --service nobody
	[ "$status" = 1 ]
}

# following OPTION…: into follow.out
following() {
	nsenter --net="/run/netns/$KV_ID-gw" "$KV_BIN/kvsteer" --pin "$KV_PIN" -j trace --follow "$@" \
		>"$BATS_TEST_TMPDIR/follow.out" 2>"$BATS_TEST_TMPDIR/follow.err" 3>&- &
	echo $! >"$BATS_TEST_TMPDIR/follow.pid"
}

# followed N: so many lines have come
followed() { [ "$(wc -l <"$BATS_TEST_TMPDIR/follow.out")" -ge "$1" ]; }

@test "--follow: each request once, as it ends; what it did not see in time is said" {
	local pid n i
	following --last 1
	until_true 5 followed 1 # it has had its first look
	for i in 1 2 3 4 5; do ask "$(body 20)" >/dev/null; done
	until_true 5 followed 6
	jq -se '.[1:] | length == 5 and all(.end == "done") and (map(.number) | unique | length) == 5' "$BATS_TEST_TMPDIR/follow.out"
	# stopped while the ring goes round twice
	pid=$(cat "$BATS_TEST_TMPDIR/follow.pid")
	kill -STOP "$pid"
	from 1 python3 - "$KV_V4" $((3 * PLACES)) <<'PYTHON'
import http.client, sys
c = http.client.HTTPConnection(sys.argv[1])
for _ in range(int(sys.argv[2])):
    c.request('GET', '/v1/models')
    c.getresponse().read()
PYTHON
	kill -CONT "$pid"
	until_true 5 followed $((6 + PLACES))
	kill -INT "$pid"
	until_true 5 gone "$pid"
	n=$(sed -n 's/^kvsteer: \([0-9]*\) requests ended unseen.*/\1/p' "$BATS_TEST_TMPDIR/follow.err")
	echo "unseen: $n"
	[ "$n" = $((2 * PLACES)) ]
	[ "$(wc -l <"$BATS_TEST_TMPDIR/follow.out")" = $((6 + PLACES)) ]
	# and the ring holds the last ones
	[ "$(kvs -j trace --last 100000 | jq -s length)" = $PLACES ]
}

@test "another sample, at once; none at all" {
	local before
	before=$(newest)
	config 0 >"$KV_RUN/other.yaml"
	run kvs apply "$KV_RUN/other.yaml"
	[[ $output == *"trace.sample: 1 -> 0"* ]]
	ask "$(body 20)" >/dev/null
	ask "$(body 20)" -H "KV-Prefix: $(hint 1024 none)" >/dev/null
	[ "$(newest)" = "$before" ]
	kvs apply "$KV_RUN/kvsteer.yaml"
	ask "$(body 20)" >/dev/null
	until_true 5 ended
	[ "$(newest)" = $((before + 1)) ]
}

@test "the agent dies and another takes over: the records stay, and go on" {
	local before agent
	before=$(kvs -j trace --last 5)
	agent=$(agent_pid)
	kill -KILL "$agent"
	until_true 5 gone "$agent"
	kv_serves "$KV_V4"
	[ "$(kvs -j trace --last 100 | jq -c .number | grep -cxF "$(jq -c .number <<<"$before")")" = 5 ]
	ask "$(body 20)" >/dev/null
	until_true 5 ended
	t=$(last)
	is '.end == "done" and .lane == "agent"'
}

@test "under way it is open; after the end nothing is left behind" {
	local before
	kv_fault 1 '{"hang": true}'
	kv_fault 2 '{"hang": true}'
	kv_fault 3 '{"hang": true}'
	before=$(newest)
	nsenter --net="/run/netns/$KV_ID-c1" curl -sS -o /dev/null -d "$(body 20)" "http://$KV_V4/v1/completions" 3>&- &
	until_true 5 begun "$before"
	t=$(last)
	is '.end == null and .duration_s == null and .bytes == null and .choice != null'
	kvs trace --last 1 | grep -q ' open$'
	kill $!
	until_true 10 ended
	kv_clean_end
}
