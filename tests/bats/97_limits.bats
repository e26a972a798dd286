#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# bats file_tags=timed
# Limits, each reached: counted, told, nothing corrupted, and over when the shortage is over.

load lib
load slow

@test "slow clients do not stay: a head has its time in all, a body a least rate" {
	gateway 'timeouts: {request: 3s}'
	slow -n 400 --kinds head,half-head,body,half-body,express-body --every 0.2
	until_true 15 risen agent_request_timeout 400
	ended '[.kinds[] | . == {"408": 80}] | all'
	# who sends steadily is not meant, however long it takes
	from 1 timeout 30 curl -fsS -m 8 --limit-rate 30K -o /dev/null -H 'Expect:' \
		-F "x=@$KV_OUT/kvsteer.bpf.o;type=text/plain" -H 'Transfer-Encoding: chunked' \
		"http://$KV_V4/bytes/1" || [ $? = 28 ]
	[ "$(counter agent_request_timeout)" = 400 ]
}

@test "clients that read nothing: little is held for them, and not for ever" {
	local held
	gateway 'timeouts: {response: 4s}'
	slow -n 60 --kinds unread,unread-agent --answer 8000000
	held=$(agent_says memory_bytes)
	echo "held: $held"
	[ "$held" -le $((60 * 256 * 1024 + 60 * 1024)) ]
	until_true 30 eval '[ "$(kvs -j status | jq ".upstreams.lent + .upstreams.relay")" = 0 ]'
	ended '[.kinds[] | . == {"reset": 30}] | all'
	until_true 5 eval '[ "$(agent_says memory_bytes)" = 0 ]'
	fine "$(traffic -n 100)"
}

@test "a client address has its own limits" {
	local out
	gateway 'limits: {clients_per_address: 20, memory_per_address: 2MiB, body: 1MiB}'
	slow -n 60 --kinds half-head --sources 10.71.2.11,10.71.2.12
	until_true 10 risen clients_refused_address 20
	[ "$(counter clients_refused_address)" = 20 ]
	told limits.clients_per_address
	out=$(traffic -n 300 -c 8)
	fine "$out"
	ended '.kinds["half-head"] == {"open": 40, "reset": 20}'
	# the same address may have as many again
	until_true 5 eval '[ -z "$(kv_in "$KV_ID-gw" ss -Htn state established dst 10.71.2.11)" ]'
	slow -n 20 --kinds half-head --sources 10.71.2.11
	ended '.kinds["half-head"] == {"open": 20}'
	# IPv6: a /64 counts as one
	KV_V4=$KV_V6 slow -n 30 --kinds half-head --sources fd71::2:11,fd71::2:12
	ended '.kinds["half-head"] == {"open": 20, "reset": 10}'
	# memory: two bodies of 1 MB may come at a time, the others wait, unread
	slow -n 6 --kinds body --every 0.2 --body 1000000 --sources 10.71.2.13
	until_true 5 risen agent_memory_waits_address 4
	told limits.memory_per_address
	out=$(traffic -n 200 --hinted 0 -c 4 --request-bytes 20000-100000)
	fine "$out"
	slow_end
}

@test "clients that give up while their bodies are hashed leave nothing" {
	gateway
	from 2 timeout 60 python3 "$KV_TOOLS/bigbody.py" --to "$KV_V4" --clients 6 --abort 4 --size 4000000 -n 2 |
		tee "$BATS_TEST_TMPDIR/big"
	jq -e '."200" == 4 and .aborted == 8' "$BATS_TEST_TMPDIR/big"
	until_true 10 eval '[ "$(agent_says memory_bytes)" = 0 ]'
}

@test "tables full: 503 in words, nothing corrupted, and over when there is room" {
	local out
	gateway 'max_clients: 64' 'max_prefixes: 1024' 'max_sessions: 64' 'timeouts: {client_idle: 2s}'
	# all entries taken by clients that wait inside a request
	slow -n 62 --kinds half-head --sources 10.71.2.11
	until_true 10 eval '[ "$(kvs -j status | jq .clients.known)" -ge 62 ]'
	out=$(traffic -n 400 -c 16 --keep-alive 5)
	whole "$out"
	[ "$(counter agent_clients_full)" -gt 0 ]
	told max_clients
	slow_end
	# a closed connection's entry stays while TCP waits: others have to have room
	until_true 70 eval 'fine "$(traffic -n 20 -c 2)"'
	until_true 70 not_now max_clients
	# more prefixes and sessions than there is room for: old ones go, answers stay right
	out=$(traffic -n 3000 -c 4 --groups 3000 --hinted 100 --framing length,chunked,sse --keep-alive 1000)
	fine "$out"
	told max_prefixes
}

@test "all connections to the backends in use: requests wait, then 503; over when they are free" {
	local out
	gateway 'upstreams_per_backend: 64' 'timeouts: {connect: 500ms}'
	# each of 200 requests holds one of 3 × 64 connections
	from 2 "$KV_OUT/kv-traffic" -j -d 3 -c 200 --first-us 2000000-3000000 --timeout 20 "$KV_V4" >"$BATS_TEST_TMPDIR/busy" 3>&- &
	local busy=$!
	until_true 10 told upstreams_per_backend now
	out=$(traffic -n 100 -c 16)
	whole "$out"
	wait $busy
	whole "$(cat "$BATS_TEST_TMPDIR/busy")"
	told upstreams_per_backend
	until_true 5 not_now upstreams_per_backend
	fine "$(traffic -n 300 -c 16)"
}

# files_left PID N: its limit of open files becomes such that N more can be opened; no client is
# connected then, whose end would give it one more
files_left() {
	local pid=$1 left=$2 n
	until_true 10 no_clients
	for ((n = 0; left >= 0; n++)); do
		[ -e "/proc/$pid/fd/$n" ] || left=$((left - 1))
	done
	prlimit --pid "$pid" --nofile=$((n - 1)):
}

no_clients() {
	[ -z "$(kv_in "$KV_ID-gw" ss -Htn state established state close-wait 'sport = :8000')" ]
}

@test "out of open files: connections wait or are reset, the rest goes on; over when files are there" {
	local pid out before
	gateway
	pid=$(agent_says pid)
	fine "$(traffic -n 300 -c 8)"
	files_left "$pid" 2
	# no file for the third client, even if some upstreams are closed: it waits in the kernel, which
	# serves what is hinted all the same
	slow -n 60 --kinds half-head
	until_true 10 told 'open files, accepting'
	before=$(counter requests_express)
	traffic -n 400 -c 4 --rate 200 --hinted 100 --framing length,chunked >"$BATS_TEST_TMPDIR/waits" 3>&- &
	local waits=$!
	until_true 5 risen requests_express "$((before + 1))"
	sleep 1
	prlimit --pid "$pid" --nofile=20000:
	wait $waits
	fine "$(cat "$BATS_TEST_TMPDIR/waits")"
	slow_end
	until_true 10 eval 'fine "$(traffic -n 100 -c 4)"'
	# and for no further upstream
	files_left "$pid" 12
	traffic -n 300 -c 40 --first-us 100000-200000 >"$BATS_TEST_TMPDIR/waits" 3>&- &
	waits=$!
	until_true 10 told 'open files, upstreams'
	sleep 1
	prlimit --pid "$pid" --nofile=20000:
	wait $waits
	whole "$(cat "$BATS_TEST_TMPDIR/waits")"
	until_true 10 eval 'fine "$(traffic -n 100 -c 16)"'
}

@test "few open files from the start: upstreams get their share" {
	local out
	kv_stop_gateway
	rm -f "$KV_RUN/gateway.pid"
	kv_config >"$KV_RUN/kvsteer.yaml"
	kv_start "$KV_ID-gw" "$KV_GW_LOG" prlimit --nofile=200:200 "$KV_BIN/kvsteerd" -c "$KV_RUN/kvsteer.yaml"
	echo "$KV_STARTED" >"$KV_RUN/gateway.pid"
	kv_serves "$KV_V4"
	slow -n 150 --kinds half-head
	until_true 10 risen clients_out_of_files 50
	told 'open files, clients'
	ended '.kinds["half-head"] | .open <= 100 and .reset >= 50'
	until_true 5 eval 'fine "$(traffic -n 100 -c 16)"'
}

all_up() { [ "$(kvs -j status | jq -c .backends)" = '{"total":6,"up":6}' ]; }

@test "out of local ports: requests wait for a connection, then 503; over when ports are there" {
	local out range
	# a SYN that goes unanswered is sent again after 1 s: with less, that would be the backend's fault
	gateway 'timeouts: {connect: 2500ms}'
	until_true 5 all_up
	range=$(kv_in "$KV_ID-gw" sysctl -n net.ipv4.ip_local_port_range)
	kv_in "$KV_ID-gw" sysctl -qw 'net.ipv4.ip_local_port_range=50000 50005'
	out=$(traffic -n 200 -c 40 --first-us 100000-200000)
	whole "$out"
	[ "$(counter upstreams_out_of_ports)" -gt 0 ]
	told 'local ports'
	# the backends are not to blame
	all_up
	kv_in "$KV_ID-gw" sysctl -qw "net.ipv4.ip_local_port_range=$range"
	until_true 10 eval 'fine "$(traffic -n 200 -c 40)"'
}

@test "memory of the kernel's tables, per entry" {
	local KV_BIN=$KV_OUT
	gateway
	python3 - "$KV_PIN" <<-'PY'
		import json, subprocess, sys
		most = {"kv_clients": 370, "kv_prefixes": 82, "kv_sessions": 104}
		bad = 0
		for name, limit in most.items():
		    m = json.loads(subprocess.check_output(["bpftool", "-j", "map", "show", "pinned", f"{sys.argv[1]}/{name}"]))
		    entries = m["max_entries"] * (8 if name == "kv_prefixes" else 1) # a set's
		    each = m["bytes_memlock"] / entries
		    print(f"{name}: {entries} entries, {each:.0f} bytes each")
		    bad |= not 0 < each <= limit
		sys.exit(bad)
	PY
}

@test "clean end" { kv_clean_end; }
