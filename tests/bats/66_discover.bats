#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# bats file_tags=timed
# Engines that come and go: by a DNS name, and by a file that is watched (docs/following.md).

load lib

HTTP=127.0.0.1:9098

# zone JSON: what the DNS server answers from now on
zone() {
	echo "$1" >"$KV_RUN/zone.new"
	mv "$KV_RUN/zone.new" "$KV_RUN/zone"
}

# a I…: the zone in which llm.test has the addresses of these engines; SRV for their IPv6
a() {
	local i list=""
	for i in "$@"; do list+="${list:+, }[\"10.72.$i.2\", 0]"; done
	zone "{\"llm.test\": {\"A\": [$list]}, \"_llm._tcp.test\": {\"SRV\": [[1, 1, 8000, \"e1.test\", 0]]},
		\"e1.test\": {\"AAAA\": [[\"fd72::1:2\", 0]]}}"
}

# settings [BACKENDS [MORE]]: a configuration; v4 has these besides, MORE stands at the top
settings() {
	cat <<TEXT
pin: $KV_PIN
control: $KV_CTL
interfaces: [c1, e1, e2, e3]
max_backends: 4
http: "$HTTP"
follow: {health: 300ms, metrics: 500ms}
health: {slow_start: 0s}
${2:-}
services:
- name: v4
  listen: ["$KV_V4"]
  capacity: 50000
  discover: {dns: llm.test, port: 8000, servers: ["127.0.0.1:$(cat "$KV_RUN/dns.port")"], min_ttl: 100ms, max_ttl: 300ms}
  backends: [${1:-}]
- name: v6
  listen: ["$KV_V6"]
  discover: {dns: _llm._tcp.test, srv: true, servers: ["127.0.0.1:$(cat "$KV_RUN/dns.port")"], min_ttl: 100ms, max_ttl: 300ms}
TEXT
}

setup_file() {
	KV_NO_LOG=1 kv_up 1 3
	export KV_NO_LOG=1
	zone '{}'
	: >"$KV_RUN/dns.port"
	kv_start "$KV_ID-gw" "$KV_RUN/dns.port" python3 "$KV_TOOLS/dns_server.py" "$KV_RUN/zone"
	until_true 5 test -s "$KV_RUN/dns.port"
	settings >"$KV_RUN/kvsteer.yaml"
	kv_gateway_with -c "$KV_RUN/kvsteer.yaml"
	until_true 10 grep -q 'ready:' "$KV_GW_LOG"
}

teardown_file() { kv_down; }

setup() { MARK=$(wc -l <"$KV_GW_LOG"); }

teardown() {
	[ -z "${BATS_TEST_COMPLETED:-}" ] || return 0
	tail -n 40 "$KV_GW_LOG"
	# where the next test begins
	a 1 2
	until_true 5 has 1 2 || true
}

# said PATTERN: so often since the test began
said() { tail -n "+$((MARK + 1))" "$KV_GW_LOG" | grep -cE -- "$1"; }
has_said() { said "$1" >/dev/null; }

page() { kv_in "$KV_ID-gw" curl -sS -m 2 "http://$HTTP$1"; }

has_page() { kv_in "$KV_ID-gw" curl -fsS -m 2 -o /dev/null "http://$1/healthz"; }

status() { from 1 curl -sS -m 5 -o /dev/null -w '%{http_code}' -g "http://$1/status/200"; }

# v4 FIELD: of its backends, by name
v4() { kvs -j backend list | jq -c "[.backends[] | select(.service == \"v4\" and .state != \"draining\")] | sort_by(.name) | map(.$1)"; }

# has I…: v4 has these, called by their addresses
has() {
	[ "$(v4 name)" = "$(printf '%s\n' "$@" | jq -R '"10.72.\(.).2:8000"' | jq -sc .)" ]
}

names_are() { [ "$(v4 name)" = "$1" ]; }
from_are() { [ "$(v4 from)" = "$1" ]; }

# source_has CONDITION: of v4's name; source_is STATE
source_has() { kvs -j backend list | jq -e ".discover[] | select(.service == \"v4\") | $1" >/dev/null; }
source_is() { source_has ".state == \"$1\""; }

serves() { [ "$(status "$KV_V4")" = 200 ]; }
ready() { [ "$(page /readyz)" = ok ]; }

# ids: what an engine is for the maps
ids() {
	bpftool -j map dump pinned "$KV_PIN/kv_backends" |
		jq -c '[.[].formatted | select(.value.state == 1) | {id: .key, name: .value.name, epoch: .value.epoch, clock: .value.clock}]'
}

@test "none yet: live, not ready; what the name has is served" {
	[ "$(page /healthz)" = ok ]
	[[ $(page /readyz) == *"service v4"* ]]
	[ "$(status "$KV_V4")" = 503 ]
	until_true 5 source_is failing
	page /metrics | grep -Fx 'kvsteer_discovery_up{service="v4",dns="llm.test"} 0'
	kvs status | grep 'discover  v4: llm.test port 8000: 0 engines kept: FAILS: no A or AAAA records; not answered yet'
	[ "$(grep -c 'discovery: llm.test has no A or AAAA records' "$KV_GW_LOG")" = 1 ]
	a 1 2
	until_true 5 has 1 2
	until_true 5 serves
	until_true 5 ready
	[ "$(status "$KV_V6")" = 200 ]
	source_is good
	page /metrics >"$BATS_TEST_TMPDIR/metrics"
	grep -Fx 'kvsteer_discovery_engines{service="v4",dns="llm.test"} 2' "$BATS_TEST_TMPDIR/metrics"
	grep -Fx 'kvsteer_discovery_up{service="v6",dns="_llm._tcp.test"} 1' "$BATS_TEST_TMPDIR/metrics"
	grep -E '^kvsteer_discovery_failures_total\{service="v4",dns="llm.test"\} [1-9]' "$BATS_TEST_TMPDIR/metrics"
	grep -E '^kvsteer_discovery_success_age_seconds\{service="v4"' "$BATS_TEST_TMPDIR/metrics"
	[ "$(v4 from)" = '["dns","dns"]' ]
	[ "$(v4 capacity_tokens)" = '[50000,50000]' ]
	kvs -j backend show 10.72.1.2:8000 | jq -e '.from == "dns" and .dns == "llm.test"'
	kvs backend show 10.72.1.2:8000 | grep 'named by    the DNS name llm.test'
	kvs backend list | grep -E '^10.72.2.2:8000 .* dns$'
	kvs status | grep 'discover  v6: _llm._tcp.test SRV: 1 engine; last answered '
	kvs -j status | jq -e '.services[0].discover[0] | .engines == 2 and .failures > 0 and .why == ""'
}

@test "by hand: removing is refused, draining is not; adding one that is there is" {
	run kvs backend remove 10.72.1.2:8000
	[ "$status" = 1 ]
	[[ $output == *"backend 10.72.1.2:8000: the DNS name llm.test stands for it: take it out there, or drain it"* ]]
	run kvs backend add v4 10.72.1.2:8000
	[ "$status" = 1 ]
	kvs backend add v4 10.72.3.2:8000
	[ "$(v4 from)" = '["dns","dns","hand"]' ]
	# found too: it stays his who named it
	a 1 2 3
	sleep 1
	[ "$(v4 from)" = '["dns","dns","hand"]' ]
	kvs backend remove 10.72.3.2:8000
	until_true 5 from_are '["dns","dns","dns"]'
	a 1 2
	until_true 5 has 1 2
}

@test "changes under traffic: no request fails, streams end by themselves" {
	local traffic
	from 1 "$KV_OUT/kv-traffic" -j -v -x -d 4 -n 10000000 -c 16 --rate 300 --answer-bytes 500-20000 --delay-us 0-2000 \
		--timeout 20 "$KV_V4" >"$KV_RUN/traffic.json" 2>"$KV_RUN/traffic.err" 3>&- &
	traffic=$!
	sleep 0.5
	for set in "2 3" "1" "1 2 3" "3" "1 2"; do
		# shellcheck disable=SC2086
		a $set
		# shellcheck disable=SC2086
		until_true 5 has $set
		sleep 0.3
	done
	wait $traffic || die "$(cat "$KV_RUN/traffic.json"; head -n 20 "$KV_RUN/traffic.err")"
	cat "$KV_RUN/traffic.json"
	jq -e '.requests > 500 and .ok == .requests' "$KV_RUN/traffic.json"
	# one that runs on an engine that goes
	a 1
	until_true 5 has 1
	from 1 curl -sSN -m 20 -o "$BATS_TEST_TMPDIR/got" "http://$KV_V4/tagged/0000000000000001?framing=sse&size=20000&piece=500&delay_us=100000" 3>&- &
	traffic=$!
	sleep 0.5
	a 2
	until_true 5 has 2
	kvs -j backend list | jq -e '[.backends[] | select(.state == "draining")] | length == 1'
	wait $traffic
	kv_in "$KV_ID-e1" curl -sS -m 5 -o "$BATS_TEST_TMPDIR/wanted" "http://10.72.1.2:8000/tagged/0000000000000001?framing=sse&size=20000&piece=500"
	cmp "$BATS_TEST_TMPDIR/wanted" "$BATS_TEST_TMPDIR/got"
	a 1 2
	until_true 5 has 1 2
}

@test "failures keep what is known, and are told once" {
	local before fault
	before=$(ids)
	for fault in '{}' '{"llm.test": {}}' '{"*": {"fault": "servfail"}}'; do
		zone "$fault"
		until_true 10 source_is failing
		has 1 2
		[ "$(status "$KV_V4")" = 200 ]
		a 1 2
		until_true 10 source_is good
	done
	[ "$(jq -c 'map(.id)' <<<"$(ids)")" = "$(jq -c 'map(.id)' <<<"$before")" ]
	[ "$(said 'discovery: llm.test')" -le 2 ]
}

@test "listed and found: the one that is listed stays, as the same one" {
	local before
	before=$(ids)
	settings '{address: "10.72.1.2:8000", rate: 9000}' >"$KV_RUN/new.yaml"
	kvs apply "$KV_RUN/new.yaml" | tee "$BATS_TEST_TMPDIR/said"
	grep 'backend 10.72.1.2:8000: from dns -> config' "$BATS_TEST_TMPDIR/said"
	grep 'backend 10.72.1.2:8000: rate learned -> 9000' "$BATS_TEST_TMPDIR/said"
	[ "$(grep -c removed "$BATS_TEST_TMPDIR/said")" = 0 ]
	[ "$(v4 from)" = '["config","dns"]' ]
	[ "$(kvs apply "$KV_RUN/new.yaml")" = "$KV_RUN/new.yaml: nothing changes" ]
	a 2
	sleep 1
	has 1 2
	a 1 2
	until_true 5 source_has '.engines == 2'
	kvs apply "$KV_RUN/kvsteer.yaml" | grep 'backend 10.72.1.2:8000: from config -> dns'
	[ "$(v4 from)" = '["dns","dns"]' ]
	[ "$(ids)" = "$before" ]
	# another name for the same address is another backend
	settings '{name: mine, address: "10.72.1.2:8000"}' >"$KV_RUN/new.yaml"
	kvs apply "$KV_RUN/new.yaml"
	[ "$(v4 name)" = '["10.72.2.2:8000","mine"]' ]
	kvs apply "$KV_RUN/kvsteer.yaml"
	until_true 5 has 1 2
}

@test "no room: told, the others are served; no engine's address: told" {
	zone '{"llm.test": {"A": [["10.72.1.2", 0], ["10.72.2.2", 0], ["10.72.3.2", 0], ["10.72.3.3", 0], ["10.72.3.4", 0]]}}'
	until_true 5 source_has '.engines - .passed_over == 3'
	until_true 10 has_said 'llm.test: 2 of its 5 engines get no requests: max_backends = 4 are in use'
	source_has '.engines == 5 and .passed_over == 2'
	kvs status | grep 'llm.test port 8000: 5 engines, 2 of them passed over'
	[ "$(status "$KV_V4")" = 200 ]
	a 1 2
	until_true 5 has 1 2
	until_true 5 has_said 'there is room for all 2 engines again'
}

another_than() { [ "$(agent_pid)" != "$1" ] && kvs -j status | jq -e .agent.alive >/dev/null && [ -S "$KV_CTL" ]; }

@test "another agent: those that are found still are the same ones" {
	local before agent
	# something to be kept
	from 1 curl -fsS -m 5 -o /dev/null -d "$(python3 -c 'import json
print(json.dumps({"model": "emulated", "max_tokens": 2, "prompt": "word " * 4000}))')" "http://$KV_V4/v1/completions"
	before=$(ids)
	jq -e 'map(.clock) | add > 0' <<<"$before"
	# nobody answers meanwhile
	zone '{"*": {"fault": "silent"}}'
	kvs restart
	sleep 1
	source_has '.rounds == 1 and .failures == 0 and .engines == 2'
	[ "$(ids)" = "$before" ]
	[ "$(v4 from)" = '["dns","dns"]' ]
	a 1 2
	until_true 10 source_has '.rounds > 2'
	[ "$(ids)" = "$before" ]
	agent=$(agent_pid)
	kill -KILL "$agent"
	until_true 10 another_than "$agent"
	[ "$(jq -c 'map({id, name, epoch})' <<<"$(ids)")" = "$(jq -c 'map({id, name, epoch})' <<<"$before")" ]
	a 2 3
	until_true 10 has 2 3
	[ "$(status "$KV_V4")" = 200 ]
	a 1 2
	until_true 10 has 1 2
}

@test "another name: those of the former one stay until it is answered; none: they go" {
	settings | sed 's/dns: llm.test/dns: other.test/' >"$KV_RUN/new.yaml"
	kvs apply "$KV_RUN/new.yaml" | grep 'service v4: discover llm.test port 8000 -> other.test port 8000'
	sleep 0.5
	has 1 2
	zone '{"other.test": {"A": [["10.72.3.2", 0]]}, "_llm._tcp.test": {"SRV": [[1, 1, 8000, "e1.test", 0]]}, "e1.test": {"AAAA": [["fd72::1:2", 0]]}}'
	until_true 5 has 3
	settings '{address: "10.72.1.2:8000"}' | grep -v 'dns: llm.test' >"$KV_RUN/new.yaml"
	kvs apply "$KV_RUN/new.yaml" | grep 'service v4: discover other.test port 8000 -> off'
	has 1
	[ "$(v4 from)" = '["config"]' ]
	a 1 2
	kvs apply "$KV_RUN/kvsteer.yaml"
	until_true 5 has 1 2
}

# watched SETTINGS…: the file, replaced by rename
watched() {
	settings "$@" >"$KV_RUN/kvsteer.yaml.new"
	mv "$KV_RUN/kvsteer.yaml.new" "$KV_RUN/kvsteer.yaml"
}

@test "a watched file: applied when it is another one; a broken one is not, and told once" {
	# not watched
	watched '{name: more, address: "10.72.3.2:8000"}'
	sleep 0.5
	has 1 2
	settings "" "watch: true" >"$KV_RUN/new.yaml"
	kvs apply "$KV_RUN/new.yaml" | grep 'watch: false -> true'
	watched '{name: more, address: "10.72.3.2:8000"}' "watch: true"
	until_true 5 names_are '["10.72.1.2:8000","10.72.2.2:8000","more"]'
	[ "$(said "apply: backend more: added to service v4")" = 1 ]
	# broken in two ways: as a text, and for what cannot be done
	watched '{name: more, adress: "10.72.3.2:8000"}' "watch: true"
	until_true 5 has_said 'warning: watch: .*/kvsteer.yaml:[0-9]*: services.0..backends.0.: unknown key "adress"'
	watched '{name: a, address: "10.72.3.3:8000"}, {name: b, address: "10.72.3.4:8000"}, {name: c, address: "10.72.3.5:8000"}' "watch: true"
	until_true 5 has_said 'warning: watch: services: 3 backends to add, room for'
	sleep 0.5
	names_are '["10.72.1.2:8000","10.72.2.2:8000","more"]'
	[ "$(said 'warning: watch:')" = 2 ]
	[ "$(status "$KV_V4")" = 200 ]
	# in place, not by rename
	settings "" "watch: true" >"$KV_RUN/kvsteer.yaml"
	until_true 5 has 1 2
	# by a link that is switched, as a ConfigMap's
	mkdir "$KV_RUN/v1" "$KV_RUN/v2"
	settings "" "watch: true" >"$KV_RUN/v1/kvsteer.yaml"
	settings '{name: more, address: "10.72.3.2:8000"}' "watch: true" >"$KV_RUN/v2/kvsteer.yaml"
	ln -s v1 "$KV_RUN/..data"
	ln -s ..data/kvsteer.yaml "$KV_RUN/kvsteer.yaml.new"
	mv "$KV_RUN/kvsteer.yaml.new" "$KV_RUN/kvsteer.yaml"
	ln -s v2 "$KV_RUN/..data.new"
	mv -T "$KV_RUN/..data.new" "$KV_RUN/..data"
	until_true 5 names_are '["10.72.1.2:8000","10.72.2.2:8000","more"]'
	[ "$(status "$KV_V4")" = 200 ]
}

@test "a watched file: by the next agent too; refused for something that passes: tried again" {
	local agent stream
	kvs restart
	agent=$(agent_pid)
	kill -KILL "$agent"
	until_true 10 another_than "$agent"
	until_true 5 serves
	watched "" "watch: true"
	until_true 5 has 1 2
	# written while nobody looks: stopped before, so that it is not seen by the one that dies
	agent=$(agent_pid)
	kill -STOP "$agent"
	watched '{name: more, address: "10.72.3.2:8000"}' "watch: true"
	kill -KILL "$agent"
	until_true 10 another_than "$agent"
	until_true 5 names_are '["10.72.1.2:8000","10.72.2.2:8000","more"]'
	watched "" "watch: true"
	until_true 5 has 1 2
	# no room until a stream ends on one that has gone
	a 1
	until_true 5 has 1
	from 1 curl -sSN -m 20 -o "$BATS_TEST_TMPDIR/got" "http://$KV_V4/tagged/0000000000000001?framing=sse&size=20000&piece=500&delay_us=100000" 3>&- &
	stream=$!
	sleep 0.5
	a 2
	until_true 5 has 2
	watched '{name: more, address: "10.72.3.2:8000"}, {name: other, address: "10.72.1.2:8000"}' "watch: true"
	until_true 5 has_said 'warning: watch: services: 2 backends to add, room for 1'
	wait $stream
	until_true 5 names_are '["10.72.2.2:8000","more","other"]'
	[ "$(said 'warning: watch:')" = 1 ]
	# no more
	watched "" "watch: false"
	until_true 5 has 2
	watched '{name: more, address: "10.72.3.2:8000"}'
	sleep 0.5
	has 2
}

@test "keys changed while running, and the watch begun so: in force after a crash too" {
	local agent
	a 1 2
	watched '' 'limits: {body: 64KiB}'
	until_true 5 has 1 2
	settings '{name: more, address: "10.72.3.2:8000"}' 'limits: {body: 2KiB}' | sed 's/^http: .*/http: "127.0.0.1:9097"/' >"$KV_RUN/new.yaml"
	printf 'watch: true\n' >>"$KV_RUN/new.yaml"
	kvs apply "$KV_RUN/new.yaml" | tee "$BATS_TEST_TMPDIR/applied"
	grep -q 'watch: false -> true' "$BATS_TEST_TMPDIR/applied"
	agent=$(agent_pid)
	kill -KILL "$agent"
	until_true 10 another_than "$agent"
	until_true 5 has_page 127.0.0.1:9097
	# the file has not changed since: what was applied by hand stays
	sleep 1
	names_are '["10.72.1.2:8000","10.72.2.2:8000","more"]'
	# compared with what is in force: nothing to do
	kvs apply "$KV_RUN/new.yaml" | grep "nothing changes"
	# and it is watched
	watched '' 'watch: true'
	until_true 5 has 1 2
	until_true 5 has_page "$HTTP"
}

@test "clean end" {
	kv_clean_end
}
