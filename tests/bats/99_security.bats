#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# What the agent may do, whose its files are, tenants apart, the unit's sandbox. docs/security.md

load lib

SERVE=0000008000001400 # CAP_NET_ADMIN (12), CAP_NET_BIND_SERVICE (10), CAP_BPF (39)
UNIT=$KV_ROOT/packaging/systemd/kvsteerd.service.in

setup_file() { kv_up 2 2; }
teardown_file() { kv_down; }

# The tests of one gateway stand together and share it: its first one starts it, the next one's
# first ends it.
setup() {
	BODY=$(printf '{"model":"emulated","max_tokens":2,"prompt":"%s"}' \
		"$(printf "test $BATS_TEST_NUMBER keeps tenants apart, %.0s" {1..200})")
}

# start [LINE…]: a gateway whose configuration has these lines too
start() {
	[ ! -e "$KV_RUN/gateway.pid" ] || kv_clean_end
	: >"$KV_GW_LOG"
	printf '%s\n' "$@" >"$KV_RUN/kvsteer.yaml"
	kv_config >>"$KV_RUN/kvsteer.yaml"
	kv_start "$KV_ID-gw" "$KV_GW_LOG" "${WRAP[@]}" "${KVSTEERD:-$KV_BIN/kvsteerd}" -c "$KV_RUN/kvsteer.yaml"
	echo "$KV_STARTED" >"$KV_RUN/gateway.pid"
	kv_serves "$KV_V4" "$KV_V6"
}

# post [CURL OPTION…]: the body to IPv4; its status on stdout
post() {
	from 1 curl -sS -m 10 -o "$BATS_TEST_TMPDIR/answer" -w '%{http_code}' -d "$BODY" "$@" \
		"http://$KV_V4/v1/completions"
}

# ask [CURL OPTION…]: by which lane it is served, and whether it finds a holder: "express matched"
ask() {
	local before
	before=$(kvs -j counters)
	[ "$(post "$@")" = 200 ] || die "not served: $*" || return
	kvs -j counters | jq -r --argjson was "$before" '
		def by(n): ([.. | objects | .[n]? | numbers] | first) -
			([$was | .. | objects | .[n]? | numbers] | first);
		[if by("requests_express") == 1 and by("requests_agent") == 0 then "express"
		 elif by("requests_agent") == 1 and by("requests_express") == 0 then "agent"
		 else "lost" end,
		 if by("matches") == 1 then "matched" else "fresh" end] | join(" ")'
}

# expect "LANE WHAT" [CURL OPTION…]
expect() {
	local want=$1 got
	shift
	got=$(ask "$@")
	[ "$got" = "$want" ] || die "expected $want, it was $got: $*"
}

agent_pid() {
	kvs -j status | jq .agent.pid
}

# status_of PID FIELD
status_of() {
	awk -v f="$2:" '$1 == f { $1 = ""; print substr($0, 2) }' "/proc/$1/status"
}

# caps PID: only what serving needs
caps() {
	local set
	for set in CapPrm CapEff CapBnd; do
		[ "$(status_of "$1" $set)" = $SERVE ] || die "$set: $(status_of "$1" $set)" || return 1
	done
	for set in CapInh CapAmb; do
		[ "$(status_of "$1" $set)" = 0000000000000000 ] || die "$set: $(status_of "$1" $set)" || return 1
	done
	[ "$(status_of "$1" NoNewPrivs)" = 1 ]
}

# works: both lanes, both IP versions, and what an agent does late: another port, backends that come
# and go
works() {
	expect "agent fresh"
	expect "express fresh" -H "KV-Prefix: $(hint 2000 "$BATS_TEST_NUMBER")"
	[ "$(from 1 curl -sS -m 10 -o /dev/null -w '%{http_code}' -g "http://$KV_V6/v1/models")" = 200 ]
	kvs backend remove e2
	kvs backend add v4 10.72.2.2:8000 --name e2
	# until it has said what it serves the agent takes what is hinted, too, and sends it elsewhere
	until_true 10 serves_known e2
	cp "$KV_RUN/kvsteer.yaml" "$KV_RUN/more.yaml"
	printf '  - {name: low, listen: ["10.71.2.1:80"], backends: []}\n' >>"$KV_RUN/more.yaml"
	kvs apply "$KV_RUN/more.yaml"
	[ "$(from 2 curl -sS -m 10 -o /dev/null -w '%{http_code}' http://10.71.2.1:80/)" = 503 ]
	kvs apply "$KV_RUN/kvsteer.yaml"
	if grep -iE 'error|permi' "$KV_GW_LOG"; then die "the agent may not do what it has to"; fi
}

serves_known() {
	kvs -j backend show "$1" | jq -e '.models | length > 0'
}

# roots PATH MODE
roots() {
	[ "$(stat -c '%U %a' "$1")" = "root $2" ] || die "$1: $(stat -c '%U %a' "$1")"
}

files() {
	local map
	roots "$KV_CTL" 700 || roots "$KV_CTL" 600
	roots "$KV_PIN" 700
	for map in "$KV_PIN"/*; do roots "$map" 600; done
}

@test "capabilities: the agent keeps three, in no set more; nothing of it has more than starting needs" {
	local pid
	start
	caps "$(agent_pid)"
	for pid in $(ip netns pids "$KV_ID-gw"); do
		[ "$(status_of "$pid" NoNewPrivs)" = 1 ]
		# DAC_READ_SEARCH 2, SETPCAP 8, NET_BIND_SERVICE 10, NET_ADMIN 12, PERFMON 38, BPF 39
		[ $((0x$(status_of "$pid" CapBnd) & ~0xc000001504)) = 0 ]
		[ $((0x$(status_of "$pid" CapPrm) & ~0xc000001504)) = 0 ]
	done
	works
}

@test "pins and control socket are root's: no one else reads maps or speaks to the agent" {
	files
	other() { setpriv --reuid nobody --clear-groups "$@"; }
	# by a link of its own: what lies above the socket must not be what keeps others out
	mount --bind "$KV_RUN" /mnt
	run other "$KV_OUT/kvsteer" --pin "$KV_PIN" --control "/mnt/${KV_CTL##*/}" status
	echo "$output"
	[ "$status" = 1 ]
	[[ $output == *"root"* ]]
	run other /usr/bin/python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' \
		"/mnt/${KV_CTL##*/}"
	umount /mnt
	echo "$output"
	[[ $output == *PermissionError* ]]
	run other ls "$KV_PIN"
	[ "$status" != 0 ]
}

@test "no tenancy: the header means nothing" {
	expect "agent fresh" -H 'X-Tenant: a'
	expect "agent matched" -H 'X-Tenant: b'
	expect "express matched" -H "$(kvs hash --path /v1/completions <<<"$BODY")" -H 'X-Tenant: c'
	[ "$(post -H 'X-Tenant: a' -H 'X-Tenant: b')" = 200 ]
}

@test "user: the agent becomes it, serves, and leaves nothing; the configuration goes before KVSTEER_USER" {
	local pid uid
	# The leak checker cannot look at a process that has changed its user.
	ASAN_OPTIONS=detect_leaks=0 KVSTEER_USER=daemon start "user: nobody"
	pid=$(agent_pid) uid=$(id -u nobody)
	caps "$pid"
	[ "$(status_of "$pid" Uid)" = "$uid $uid $uid $uid" ]
	[ -z "$(status_of "$pid" Groups | tr -d ' ')" ]
	files
	works
}

# The agent is killed, alone, and another one has taken over.
next_agent() {
	local pid
	pid=$(agent_pid)
	kill -KILL "$pid"
	until_true 10 another_than "$pid"
}

another_than() {
	local pid
	pid=$(agent_pid 2>/dev/null) && [ -n "$pid" ] && [ "$pid" != "$1" ] && alive "$pid"
}

@test "user: the agent that follows a killed one becomes it too" {
	next_agent
	kv_serves "$KV_V4"
	until_true 5 caps "$(agent_pid)"
	[ "$(status_of "$(agent_pid)" Uid | cut -d' ' -f1)" = "$(id -u nobody)" ]
	files
	expect "agent fresh"
}

@test "user: one that is not there is refused at start" {
	{ echo "user: no-such-user"; kv_config; } >"$KV_RUN/bad.yaml"
	run timeout 10 nsenter --net="/run/netns/$KV_ID-gw" "$KV_BIN/kvsteerd" -c "$KV_RUN/bad.yaml"
	echo "$output"
	[ "$status" = 1 ]
	[[ $output == *no-such-user* ]]
	[ "$(wc -l <<<"$output")" = 1 ]
}

@test "unit: systemd finds nothing wrong with it, and little exposed" {
	command -v systemd-analyze >/dev/null || skip "systemd-analyze is not installed"
	unit >"$BATS_TEST_TMPDIR/kvsteerd.service"
	run systemd-analyze verify --man=no "$BATS_TEST_TMPDIR/kvsteerd.service"
	echo "$output"
	[ "$status" = 0 ]
	[ -z "$output" ]
	# with it nothing can be pinned, whatever else is said of /sys/fs/bpf: make test-systemd
	run grep ^ProtectKernelTunables "$BATS_TEST_TMPDIR/kvsteerd.service"
	[ "$status" = 1 ]
	run systemd-analyze security --offline=true --threshold=35 "$BATS_TEST_TMPDIR/kvsteerd.service"
	echo "$output" | tail -n 1
	[ "$status" = 0 ]
}

unit() {
	sed "s|@PREFIX@/s*bin|$KV_OUT|" "$UNIT"
}

@test "unit: kvsteerd serves under its system call filter, where anything else is death" {
	local unit=$KV_RUN/kvsteerd.service
	[ "$(uname -m)" = x86_64 ] || skip "the filter's program is for x86_64"
	command -v systemd-analyze >/dev/null || skip "systemd-analyze is not installed: it knows the groups"
	unit >"$unit"
	# The filter filters.
	run python3 "$KV_TOOLS/seccomp.py" "$unit" -- python3 -c \
		'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'
	[ "$status" = 159 ]
	# not the sanitizers' build: they make calls of their own
	WRAP=(python3 "$KV_TOOLS/seccomp.py" "$unit" --)
	KVSTEERD=$KV_OUT/kvsteerd KVSTEER_USER=daemon start
	[ "$(status_of "$(agent_pid)" Seccomp)" = 2 ]
	[ "$(status_of "$(agent_pid)" Uid | cut -d' ' -f1)" = "$(id -u daemon)" ]
	works
	next_agent
	kv_serves "$KV_V4"
	expect "agent matched"
	[ "$(status_of "$(agent_pid)" Seccomp)" = 2 ]
}

@test "tenancy: the same body of another tenant finds nothing, in either lane and across lanes" {
	local known
	start "tenancy: {header: X-Tenant}"
	known=$(kvs hash --path /v1/completions <<<"$BODY")
	expect "agent fresh" -H 'X-Tenant: a'
	expect "agent matched" -H 'X-Tenant: a'
	expect "agent fresh" -H 'X-Tenant: b'
	expect "agent fresh"
	expect "agent matched"
	# across: what the agent hashed of a body, a hint finds, of the same tenant
	expect "express matched" -H 'X-Tenant: a' -H "$known"
	expect "express fresh" -H 'X-Tenant: c' -H "$known"
	expect "express matched" -H 'x-tenant:  c ' -H "$known"
	expect "agent matched" -H 'X-Tenant: c'
	expect "agent fresh" -H 'X-Tenant: d'
	# cache_salt still does its part, within a tenant
	BODY=${BODY%\}},\"cache_salt\":\"s\"\}
	expect "agent fresh" -H 'X-Tenant: a'
	expect "agent matched" -H 'X-Tenant: a'
}

@test "tenancy: sessions too" {
	expect "express fresh" -H 'X-Tenant: a' -H 'X-Session-Id: 1'
	expect "express matched" -H 'X-Tenant: a' -H 'X-Session-Id: 1'
	expect "express fresh" -H 'X-Tenant: b' -H 'X-Session-Id: 1'
	expect "express fresh" -H 'X-Session-Id: 1'
}

@test "tenancy: the administrator can still look, tenant by tenant" {
	[ "$(post -H 'X-Tenant: a')" = 200 ]
	[ "$(post -H 'X-Tenant: a' -H 'X-Session-Id: 2')" = 200 ]
	lookup() { kvs -j prefix lookup --path /v1/completions "$@" <<<"$BODY" | jq '.holders | length'; }
	[ "$(lookup --as a)" -ge 1 ]
	[ "$(lookup --as b)" = 0 ]
	[ "$(lookup)" = 0 ]
	[ "$(kvs -j session lookup 2 --as a | jq .known)" = true ]
	[ "$(kvs -j session lookup 2 --as b | jq .known)" = false ]
}

@test "tenancy: the agent that follows a killed one keeps tenants apart, and knows what was learned" {
	expect "agent fresh" -H 'X-Tenant: a'
	next_agent
	kv_serves "$KV_V4"
	expect "agent matched" -H 'X-Tenant: a'
	expect "agent fresh" -H 'X-Tenant: b'
}

@test "tenancy: two headers, an empty one, one that Connection names: 400" {
	local known
	for known in X-None:1 "$(kvs hash --path /v1/completions <<<"$BODY")"; do
		[ "$(post -H "$known" -H 'X-Tenant: a' -H 'X-Tenant: a')" = 400 ]
		[ "$(post -H "$known" -H 'X-Tenant;')" = 400 ]
		[ "$(post -H "$known" -H 'X-Tenant: a' -H 'Connection: X-Tenant')" = 400 ]
		[ "$(post -H "$known" -H "X-Tenant: $(printf 'a%.0s' {1..256})")" = 400 ]
		grep -q tenant_malformed "$BATS_TEST_TMPDIR/answer"
		[ "$(post -H "$known" -H "X-Tenant: $(printf 'a%.0s' {1..255})")" = 200 ]
	done
}

@test "end: nothing is left" {
	kv_clean_end
}
