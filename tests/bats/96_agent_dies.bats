#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# bats file_tags=timed
# The agent dies, is restarted, is replaced by another program: no lent stream breaks, the express
# lane goes on, and the next agent has maps, sockets and listeners. KV_SOAK=1: more often, for longer.

load lib

setup_file() {
	TIMES=${KV_SOAK:+60} SECONDS_EACH=${KV_SOAK:+120}
	export TIMES=${TIMES:-10} # kills
	export SECONDS_EACH=${SECONDS_EACH:-6} # of load
	export KV_NO_LOG=1 KV_NAMED=v6 # two ways to relay, one service each
	kv_up 1 3
	kv_gateway
	# so many upstreams that hinted requests need no agent
	traffic warm -n 300 -c 24 --hinted 100 --answer-bytes 2000-20000 --delay-us 2000-2000
	wait
}

teardown_file() { kv_down; }

setup() { MARK=$(wc -l <"$KV_GW_LOG"); }

teardown() { [ -n "${BATS_TEST_COMPLETED:-}" ] || tail -n 40 "$KV_GW_LOG"; }

# traffic NAME OPTION…: kv-traffic in the background
traffic() {
	local name=$1
	shift
	from 1 "$KV_OUT/kv-traffic" -j -v --timeout 30 "$@" "$KV_V4" "$KV_V6" \
		>"$KV_RUN/$name.json" 2>"$KV_RUN/$name.err" 3>&- &
	TRAFFIC=$!
}

# ended NAME: waits for it; nothing foreign, wrong or hung
ended() {
	wait "$TRAFFIC" || die "$1: $(cat "$KV_RUN/$1.json"; head -n 20 "$KV_RUN/$1.err")"
	echo "$1: $(cat "$KV_RUN/$1.json")"
}

# all_ok NAME: every request was answered as it should
all_ok() {
	ended "$1"
	jq -e '.requests > 0 and .ok == .requests' "$KV_RUN/$1.json" >/dev/null ||
		die "$1: not all were answered: $(head -n 20 "$KV_RUN/$1.err")"
}

said() { tail -n "+$((MARK + 1))" "$KV_GW_LOG" | grep -E -- "$1"; }

another_than() { [ "$(agent_pid)" != "$1" ] && kvs -j status | jq -e .agent.alive >/dev/null && [ -S "$KV_CTL" ]; }

# kill_agent: and waits for the next one
kill_agent() {
	local agent
	agent=$(agent_pid)
	kill -KILL "$agent"
	until_true 10 another_than "$agent"
}

# nothing is in flight, nothing charged
settled() {
	kvs -j backend list | jq -e '[.. | objects | .inflight_requests?, .inflight_tokens?,
		.upstreams?.relay?, .upstreams?.lent? | numbers] | length > 0 and all(. == 0)' >/dev/null
}

# streams N SECONDS: in the background, of both lanes, in every framing; waits until all are lent
streams() {
	local i framing lane
	STREAMS=()
	for ((i = 0; i < $1; i++)); do
		framing=$(printf '%s\n' length chunked sse close | sed -n "$((i / 2 % 4 + 1))p")
		lane=$([ $((i % 2)) = 0 ] && echo X-Session-Id || echo Upgrade) # this is the agent's
		url="tagged/$(printf '%016x' $((i + 1)))?framing=$framing&size=$(($2 * 5000))&piece=500"
		kv_in "$KV_ID-e1" curl -sS -m 10 -o "$KV_RUN/wanted-$i" "http://10.72.1.2:8000/$url"
		from 1 curl -sSN -m 120 -o "$KV_RUN/got-$i" -H "$lane: $i" \
			"http://$KV_V4/$url&delay_us=100000" 3>&- &
		STREAMS+=($!)
	done
	until_true 15 kv_lent "$1"
}

# all of them ended well, with every byte in its place
streams_ok() {
	local i bad=0
	for i in "${!STREAMS[@]}"; do
		wait "${STREAMS[i]}" || die "stream $i: broken" || bad=1
		cmp "$KV_RUN/wanted-$i" "$KV_RUN/got-$i" || bad=1
	done
	return $bad
}

@test "kill -9 again and again: no lent stream breaks" {
	local i
	streams 16 $((TIMES + 4))
	for ((i = 0; i < TIMES; i++)); do
		kill_agent
		sleep 0.2
	done
	streams_ok
	[ "$(said 'taken over:' | wc -l)" = "$TIMES" ]
	until_true 10 settled
}

@test "kill -9 under load: the express lane loses nothing" {
	local before after failed
	before=$(counter requests_agent)
	traffic hinted -d "$SECONDS_EACH" -n 10000000 -c 24 --rate 400 --hinted 100 --answer-bytes 500-20000 --delay-us 0-2000
	sleep 1
	until ! alive "$TRAFFIC"; do
		kill_agent
		sleep 0.3
	done
	ended hinted
	after=$(counter requests_agent)
	# what the agent had in hand dies with it: no more than was ever in its hands
	failed=$(jq '.requests - .ok' "$KV_RUN/hinted.json")
	echo "failed $failed, in the agent's hands $((after - before))"
	[ "$failed" -le $((after - before)) ]
	[ "$(jq .ok "$KV_RUN/hinted.json")" -ge $((SECONDS_EACH * 50)) ]
	until_true 10 settled
}

@test "kill -9 under both lanes' load: no wrong byte, and loads come back to zero" {
	traffic both -d "$SECONDS_EACH" -n 10000000 -c 24 --rate 300 --hinted 40 --answer-bytes 100-20000 \
		--delay-us 0-2000 --abort 5 --pipeline 20 --request-bytes 0-200000
	sleep 1
	until ! alive "$TRAFFIC"; do
		kill_agent
		sleep 0.3
	done
	ended both
	until_true 10 settled
}

@test "kill -9 in the middle of a request: 502, and its rest is no request" {
	local before
	before=$(counter agent_no_hint)
	mkfifo "$BATS_TEST_TMPDIR/go"
	from 1 python3 - "$BATS_TEST_TMPDIR/go" >"$BATS_TEST_TMPDIR/answer" 3>&- <<-'PY' &
		import socket, sys
		rest = b"GET /health HTTP/1.1\r\nHost: smuggled\r\n\r\n"
		conn = socket.create_connection(("10.71.1.1", 8000))
		conn.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (1000 + len(rest)))
		conn.sendall(b"x" * 1000)
		open(sys.argv[1]).read()
		conn.sendall(rest)
		conn.settimeout(10)
		while data := conn.recv(65536):
		    sys.stdout.write(data.decode())
	PY
	local client=$!
	until_true 5 in_hand "$before"
	sleep 0.2
	kill_agent
	echo >"$BATS_TEST_TMPDIR/go"
	wait "$client"
	cat "$BATS_TEST_TMPDIR/answer"
	[ "$(grep -c '^HTTP/1.1' "$BATS_TEST_TMPDIR/answer")" = 1 ]
	grep -q '^HTTP/1.1 502' "$BATS_TEST_TMPDIR/answer"
}

# the agent has read a part of a request
in_hand() {
	[ "$(counter agent_no_hint)" -gt "$1" ] &&
		[ -z "$(kv_in "$KV_ID-gw" ss -tnH state established 'sport = :8000' | awk '$1 > 0')" ]
}

@test "kill -9 when an answer has come that nobody has read: 502" {
	local agent client
	agent=$(agent_pid)
	from 1 curl -s -m 30 -o /dev/null -w '%{http_code}' -H 'Upgrade: none' \
		"http://$KV_V4/tagged/0000000000000001?size=20000&framing=length&piece=5000&first_us=1500000" \
		>"$BATS_TEST_TMPDIR/status" 3>&- &
	client=$!
	until_true 5 relayed
	kill -STOP "$agent"
	until_true 10 unread
	kill -KILL "$agent"
	until_true 10 another_than "$agent"
	wait $client
	[ "$(cat "$BATS_TEST_TMPDIR/status")" = 502 ]
	until_true 10 settled
}

relayed() { kvs -j backend list | jq -e '[.. | objects | .upstreams?.relay? | numbers] | add == 1' >/dev/null; }

unread() { kv_in "$KV_ID-gw" ss -tnH state established '( dport = :8000 or dport = :8001 )' | awk '$1 > 0 { n++ } END { exit !n }'; }

@test "kill -9 of agents that have only just begun" {
	local agent i
	streams 8 10
	for ((i = 0; i < 3; i++)); do
		agent=$(pgrep -P "$(gateway_pid)" -x kvsteerd)
		kill -KILL "$agent"
		until_true 5 begun "$agent"
	done # the third has just begun, too
	until_true 10 another_than 0
	streams_ok
}

# the next agent has been executed, and does not serve yet
begun() {
	local now
	now=$(pgrep -P "$(gateway_pid)" -x kvsteerd) && [ "$now" != "$1" ]
}

@test "a stopped agent: the express lane goes on" {
	local agent
	agent=$(agent_pid)
	kill -STOP "$agent"
	# no more at a time than any backend has idle upstreams at least
	traffic stopped -n 300 -c 2 --hinted 100 --keep-alive 1000 --answer-bytes 500-5000 --framing length,chunked,sse
	all_ok stopped || { kill -CONT "$agent"; return 1; }
	kill -CONT "$agent"
	[ "$(agent_pid)" = "$agent" ]
}

@test "the keeper is killed: its spare takes over" {
	pgrep -P "$(agent_pid)" -x kvsteer-keeper
	kill -KILL "$(pgrep -P "$(agent_pid)" -o -x kvsteer-keeper)"
	until_true 5 said 'its spare is left'
	kill_agent
	[ "$(pgrep -c -P "$(agent_pid)" -x kvsteer-keeper)" = 2 ]
	traffic kept -n 100 -c 4
	all_ok kept
}

@test "kvsteer restart under load: no hinted request fails, and counters go on" {
	local before i
	before=$(counter requests_express)
	traffic restart -d 5 -n 10000000 -c 24 --rate 300 --hinted 100 --answer-bytes 500-20000 --delay-us 0-2000
	sleep 1
	for i in 1 2 3; do
		run kvs restart
		echo "$output"
		[ "$status" = 0 ]
	done
	local agent
	agent=$(agent_pid)
	kill -HUP "$(gateway_pid)"
	until_true 10 another_than "$agent"
	all_ok restart
	[ "$(counter requests_express)" -gt "$before" ]
	until_true 10 settled
}

# agent_holds BYTES: as many, or more, of requests
agent_holds() {
	python3 - "$KV_CTL" "$1" <<-'PY'
		import json, socket, sys
		s = socket.socket(socket.AF_UNIX)
		s.connect(sys.argv[1])
		s.sendall(b'{"verb":"status"}\n')
		sys.exit(json.loads(s.makefile().readline())["memory_bytes"] < int(sys.argv[2]))
	PY
}

@test "a restart waits for prompts that are being hashed" {
	local big
	from 1 python3 "$KV_TOOLS/bigbody.py" --to "$KV_V4" --size 8000000 --clients 4 -n 3 >"$BATS_TEST_TMPDIR/big" 3>&- &
	big=$!
	until_true 20 agent_holds 16000000
	kvs restart
	wait $big
	cat "$BATS_TEST_TMPDIR/big"
	[ "$(jq '."200"' "$BATS_TEST_TMPDIR/big")" = 12 ]
}

@test "a restart waits 5 s for a request that does not come, not timeouts.drain" {
	local slow
	from 1 timeout 60 python3 -uc 'import socket
s = socket.create_connection(("10.71.1.1", 8000))
s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + b" " * 100)
print("sent")
print(s.recv(4096).split(b"\r\n")[0].decode())' >"$BATS_TEST_TMPDIR/slow" 3>&- &
	slow=$!
	until_true 10 grep -q sent "$BATS_TEST_TMPDIR/slow"
	SECONDS=0
	kvs restart
	[ $SECONDS -lt 20 ]
	said 'restart: request of .*: it has not come whole'
	said 'restart: 1 requests in hand'
	wait $slow
	grep -q 'HTTP/1.1 502 Bad Gateway' "$BATS_TEST_TMPDIR/slow"
	until_true 10 settled
}

@test "an upgrade under load, of both lanes: no request fails" {
	local version next="$KV_RUN/kvsteerd-next" other
	version=$(kvs -j status | jq -r .agent.version)
	other=$(tr '0-9a-z' '1-90b-za' <<<"$version")
	[ "$other" != "$version" ]
	sed "s/$(sed 's/[.]/[.]/g' <<<"$version")/$other/g" "$KV_BIN/kvsteerd" >"$next"
	chmod 755 "$next"
	traffic upgrade -d 4 -n 10000000 -c 24 --rate 300 --hinted 50 --answer-bytes 500-20000 --delay-us 0-2000
	sleep 1
	kvs restart --binary "$next"
	[ "$(kvs -j status | jq -r .agent.version)" = "$other" ]
	kvs restart --binary "$KV_BIN/kvsteerd"
	[ "$(kvs -j status | jq -r .agent.version)" = "$version" ]
	all_ok upgrade
}

@test "a program that the kernel refuses, or that is none: the one before goes on" {
	local bad="$KV_RUN/kvsteerd-bad" agent
	sed 's,Dual BSD/GPL,Xual BSD/GPL,g' "$KV_BIN/kvsteerd" >"$bad" # helpers are for GPL programs only
	chmod 755 "$bad"
	agent=$(agent_pid)
	run kvs restart --binary /bin/true
	[ "$status" = 1 ]
	[ "$(agent_pid)" = "$agent" ]
	echo 'polizy: 1' >>"$KV_RUN/kvsteer.yaml"
	run kvs restart
	sed -i '$d' "$KV_RUN/kvsteer.yaml"
	echo "$output"
	[ "$status" = 1 ]
	[[ $output == *polizy* ]]
	[ "$(agent_pid)" = "$agent" ]
	traffic refused -d 3 -n 10000000 -c 24 --rate 300 --hinted 100 --answer-bytes 500-20000 --delay-us 0-2000
	sleep 1
	run kvs restart --binary "$bad"
	echo "$output"
	[ "$status" = 1 ]
	[[ $output == *"did not get to serve"* ]]
	said 'program before takes over again'
	all_ok refused
	kvs restart --binary "$KV_BIN/kvsteerd"
}

@test "after a crash the live state counts, after a restart the file" {
	kvs backend add v4 10.72.1.2:8001 --name added
	kvs backend drain e3
	cp "$KV_RUN/kvsteer.yaml" "$KV_RUN/good.yaml"
	echo 'nonsense: [' >>"$KV_RUN/kvsteer.yaml"
	kill_agent
	cp "$KV_RUN/good.yaml" "$KV_RUN/kvsteer.yaml"
	kvs -j backend list | jq -e '[.. | objects | .name?] | index("added")' >/dev/null
	kvs -j backend list | jq -e '.. | objects | select(.name? == "e3") | .state == "draining"' >/dev/null
	kvs restart
	kvs -j backend list | jq -e '[.. | objects | .name?] | index("added") | not' >/dev/null
	said 'apply: backend added: removed'
	kvs backend undrain e3
	traffic live -n 100 -c 4
	all_ok live
}

@test "all of it killed at once: pairs run to their end, beliefs are kept" {
	local hint
	hint=$(hint 4096 kept)
	from 1 curl -fsS -m 10 -o /dev/null -H "KV-Prefix: $hint" -d '{"prompt":"x"}' "http://$KV_V4/v1/completions"
	from 1 curl -sSN -m 20 -o "$BATS_TEST_TMPDIR/stream" -H 'X-Session-Id: a' \
		"http://$KV_V4/bytes/200000?framing=chunked&chunk=1000&delay_us=20000" 3>&- &
	local pid=$!
	until_true 5 kv_lent 1
	kv_kill_gateway
	kv_gateway
	said 'taken over: 0 connections of clients, 0 to backends'
	kvs prefix lookup "$hint" | grep -q live
	wait $pid
	[ "$(stat -c %s "$BATS_TEST_TMPDIR/stream")" = 200000 ]
	until_true 15 settled
	traffic cold -n 100 -c 4
	all_ok cold
}

@test "maps of other sizes: said, all requests end, new connections wait" {
	local before
	before=$(agent_pid)
	traffic switch -d 4 -n 10000000 -c 8 --rate 100 --hinted 50 --answer-bytes 500-20000 --delay-us 0-2000
	sleep 1
	echo 'max_sessions: 4096' >>"$KV_RUN/kvsteer.yaml"
	run kvs restart
	echo "$output"
	[ "$status" = 0 ]
	[[ $output == *"laid out otherwise"* && $output == *"with new maps"* ]]
	ended switch
	# a connection that was between two requests may be closed just when the next one is sent; each once
	[ "$(jq '.connect_failed + .hung + .broken - .unanswered' "$KV_RUN/switch.json")" = 0 ]
	[ "$(jq .unanswered "$KV_RUN/switch.json")" -le 8 ]
	[ "$(agent_pid)" != "$before" ]
}

# A stand-in plays systemd: this machine's first process is another.
@test "under a service manager: its listener, and a restart that keeps every connection there" {
	kv_stop_gateway
	kv_start "$KV_ID-gw" "$KV_GW_LOG" python3 -u "$KV_TOOLS/manager.py" "$KV_V4" "$KV_RUN" \
		"$KV_BIN/kvsteerd" -c "$KV_RUN/kvsteer.yaml"
	echo "$KV_STARTED" >"$KV_RUN/gateway.pid"
	kv_serves "$KV_V4" "$KV_V6"
	streams 4 10
	traffic managed -d 4 -n 10000000 -c 16 --rate 200 --hinted 50 --answer-bytes 500-20000 --delay-us 0-2000
	sleep 1
	kill -USR1 "$(gateway_pid)" # systemctl restart
	until_true 20 said '^forgot [1-9]'
	said 'taken over: [1-9]'
	all_ok managed
	streams_ok
	kv_stop_gateway # systemctl stop
	said 'draining'
	[ ! -e "$KV_PIN" ]
	kv_gateway
}

@test "the process that was started is killed: the agent serves, and the next one has one again" {
	local former agent
	former=$(gateway_pid)
	kill -KILL "$former"
	traffic orphan -n 100 -c 4
	all_ok orphan
	kill_agent
	agent=$(agent_pid)
	ps -o ppid= -p "$agent" | tr -d ' ' >"$KV_RUN/gateway.pid"
	[ "$(gateway_pid)" != "$former" ]
	[ "$(cat "/proc/$(gateway_pid)/comm")" = kvsteerd ]
	traffic again -n 100 -c 4
	all_ok again
}

@test "the end leaves nothing: filters, qdiscs, pins, files, processes" {
	kv_clean_end
	[ -z "$(kv_in "$KV_ID-gw" tc qdisc show | grep clsact)" ]
	[ ! -e "$KV_CTL" ]
	[ -z "$(find /run/kvsteer -type f -not -name '*.lock')" ]
	[ -z "$(pgrep -x 'kvsteerd|kvsteer-keeper')" ]
}

@test "make uninstall leaves nothing of make install" {
	make -s -C "$KV_ROOT" install DESTDIR="$BATS_TEST_TMPDIR/root" >/dev/null
	[ -x "$BATS_TEST_TMPDIR/root/usr/local/sbin/kvsteerd" ]
	make -s -C "$KV_ROOT" uninstall DESTDIR="$BATS_TEST_TMPDIR/root"
	[ -z "$(find "$BATS_TEST_TMPDIR/root" -not -type d)" ]
}
