#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# bats file_tags=timed
# Engines followed by a running agent: load, health, restarts, models, pages (docs/following.md).

load lib

HTTP=127.0.0.1:9099

settings() {
	cat <<TEXT
http: "$HTTP"
follow: {health: 300ms, health_timeout: 300ms, metrics: 200ms, metrics_timeout: 300ms, models: 500ms, stale: 1s}
health: {slow_start: 1s, eject_time: 1s}
max_backends: 6
TEXT
	kv_config
}

setup_file() {
	kv_up 1 3
	settings >"$KV_RUN/kvsteer.yaml"
	kv_gateway_with -c "$KV_RUN/kvsteer.yaml"
	kv_serves "$KV_V4" "$KV_V6"
}

teardown_file() { kv_down; }

# of NAME FIELD: a field of its entry, by the map
of() {
	bpftool -j map dump pinned "$KV_PIN/kv_backends" |
		jq --arg n "$1" --arg f "$2" '.[].formatted.value | select(.name == $n) | .[$f]'
}

# is NAME STATE: 1 up, 2 down
is_up() { [ "$(of "$1" state)" = 1 ]; }
is_down() { [ "$(of "$1" state)" = 2 ]; }

page() { kv_in "$KV_ID-gw" curl -sS -m 2 "http://$HTTP$1"; }

# shows LINE…: these lines are on the metrics page
shows() {
	local line text
	text=$(page /metrics)
	for line in "$@"; do grep -qxF -- "$line" <<<"$text" || die "no such line: $line" || return 1; done
}

# post [MODEL [HEADER]]: the status
post() {
	from 1 curl -sS -m 5 -o "$BATS_TEST_TMPDIR/answer" -w '%{http_code}' ${2:+-H "$2"} \
		-d "{\"model\":\"${1:-emulated}\",\"prompt\":\"some text $RANDOM\",\"max_tokens\":4}" \
		"http://$KV_V4/v1/completions"
}

@test "pages: what engines say of themselves; sizes become capacities" {
	until_true 5 is_up e1
	[ "$(page /readyz)" = ok ]
	[ "$(page /healthz)" = ok ]
	until_true 3 shows 'kvsteer_engine_running_requests{service="v4",backend="e1"} 0' \
		'kvsteer_engine_capacity_tokens{service="v4",backend="e1"} 65536' \
		'kvsteer_backend_capacity_tokens{service="v4",backend="e1"} 65536' \
		'kvsteer_backend_state{service="v6",backend="e3-6",state="up"} 1' \
		'kvsteer_service_backends_available{service="v4"} 3'
	page /metrics | grep -q 'engine="vllm"'
	page /metrics | grep -q 'kvsteer_clients_accepted_total'
	[ "$(of e1 capacity_set)" = 0 ]
}

@test "a health check that fails: no requests; well again: slowly more" {
	kv_fault 1 '{"health_status":503}'
	until_true 5 is_down e1
	[ "$(post)" = 200 ]
	shows 'kvsteer_backend_state{service="v4",backend="e1",state="down"} 1' \
		'kvsteer_service_backends_available{service="v4"} 2'
	kv_fault 1 '{}'
	until_true 5 is_up e1
	[ "$(of e1 weight)" -gt 0 ]
	all_of_it() { [ "$(of e1 weight)" = 0 ]; }
	until_true 3 all_of_it
}

@test "a restart: what was cached is forgotten, once" {
	local before
	before=$(of e2 epoch)
	kv_engine_dies 2
	until_true 5 is_down e2
	[ "$(post)" = 200 ]
	kv_engine 2
	until_true 10 is_up e2
	sleep 1
	echo "epoch $before -> $(of e2 epoch)"
	[ "$(of e2 epoch)" = $((before + 1)) ]
	[ "$(post)" = 200 ]
}

@test "all die: live, not ready; all come back" {
	local i
	kv_engine_dies 1 2 3
	for i in 1 2 3; do until_true 5 is_down e$i; done
	[[ $(page /readyz) == *"service v4: none of its 3 backends takes requests"* ]]
	[ "$(page /healthz)" = ok ]
	[ "$(post)" = 503 ]
	for i in 1 2 3; do kv_engine $i; done
	for i in 1 2 3; do until_true 10 is_up e$i; done
	ready() { [ "$(page /readyz)" = ok ]; }
	until_true 5 ready
	[ "$(post)" = 200 ]
}

@test "429 and 503: on to a peer while nothing has been answered; else the client's" {
	local i passed
	passed=$(counter agent_busy_passed_on)
	kv_fault 1 '{"status":503}'
	kv_fault 2 '{"status":429}'
	# whom it is passed on to is busy, too: then to the third, not back to the first, although
	# that has only just begun and is to get little
	kv_engine_dies 3
	until_true 5 is_down e3
	kv_engine 3
	until_true 5 is_up e3
	for i in 1 2 3 4; do [ "$(post)" = 200 ]; done
	[ "$(counter agent_busy_passed_on)" -gt "$passed" ]
	is_up e1
	is_up e2
	kv_fault 3 '{"status":503}'
	[[ $(post) == 503 || $(post) == 429 ]]
	for i in 1 2 3; do kv_fault $i '{}'; done
}

# ejections N: so many have been told of, or more
ejections() { [ "$(grep -c ': ejected (too many' "$KV_GW_LOG")" -ge "$1" ]; }

# stands BACKEND STATE: by status, and for programs
stands() {
	kvs status | grep -Eq "^ *$1 .* $2 " &&
		kvs -j backend list | jq -e --arg b "$1" --arg s "$2" '.backends[] | select(.name == $b) | .health == $s' >/dev/null
}

@test "answers that fail: ejected, by the agent's requests and by the kernel's; never all" {
	local i
	kv_fault 1 '{"status":500}'
	for ((i = 0; i < 60; i++)); do
		post >/dev/null
		! ejections 1 || break
	done
	grep -q 'backend e1: ejected' "$KV_GW_LOG"
	stands e1 ejected
	kv_fault 1 '{}'
	until_true 5 stands e1 trial
	until_true 15 shows 'kvsteer_backend_state{service="v4",backend="e1",state="up"} 1'
	# in the kernel: what is no completion
	for i in 1 2 3; do kv_fault $i '{"status":500}'; done
	for ((i = 0; i < 100; i++)); do
		[ "$(from 1 curl -sS -m 5 -o /dev/null -w '%{http_code}' "http://$KV_V4/status/200")" = 500 ]
		! ejections 2 || break
	done
	ejections 2
	[ "$(page /metrics | grep -c 'service="v4",.*state="\(ejected\|trial\)"} 1')" -le 1 ]
	for i in 1 2 3; do kv_fault $i '{}'; done
	# off trial too, for which it needs requests that succeed
	is_well() { [ "$(post)" = 200 ] && stands "$1" up; }
	for i in 1 2 3; do until_true 15 is_well e$i; done
}

# asked N WORDS: the same prompt so many times, by the agent
asked() {
	local i
	python3 -c 'import json, sys
print(json.dumps({"model": "emulated", "max_tokens": 2, "prompt": " ".join("%s%d" % (sys.argv[1], i) for i in range(4000))}))' \
		"$2" >"$BATS_TEST_TMPDIR/body"
	for ((i = 0; i < $1; i++)); do
		from 1 curl -fsS -m 5 -o "$BATS_TEST_TMPDIR/answer" -d "@$BATS_TEST_TMPDIR/body" "http://$KV_V4/v1/completions"
	done
}

@test "proof: predicted and found tokens, by the answers' usage; show says it in words" {
	local name
	asked 6 word
	jq -e '.usage.prompt_tokens_details.cached_tokens > 1000' "$BATS_TEST_TMPDIR/answer"
	name=$(page /metrics | sed -n 's/^kvsteer_backend_usage_cached_tokens_total{service="v4",backend="\(e.\)",prompt="plain"} [1-9].*/\1/p' | head -n 1)
	[ -n "$name" ]
	kvs -j backend show "$name" | jq -e '.prediction | .cause == "agrees" and (.alarm | not) and .found_tokens > 10000 and .ratio > 0.9'
	idle() { kvs backend show "$name" | grep -q 'runs 0, 0 wait'; }
	until_true 3 idle
	run kvs backend show "$name"
	echo "$output"
	[[ $output == *"backend $name of service v4, 10.72."*": takes requests"* ]]
	[[ $output == *"health      up for "* && $output == *"engine      vllm: runs 0, 0 wait"* ]]
	[[ $output == *"capacity    65536 tokens, by the engine's own word"* && $output == *"models      emulated"* ]]
	[[ $output == *"by the answers' usage): they agree."* ]]
	page /metrics | grep -q "^kvsteer_backend_match_depth_tokens_count{service=\"v4\",backend=\"$name\"} [1-9]"
	# its cache is emptied each time, and nobody says so
	for i in 1 2 3 4 5 6 7 8; do
		asked 1 word
		kv_in "$KV_ID-${name}" curl -fsS -m 2 -d '' "http://10.72.${name#e}.2:8000/reset_prefix_cache"
	done
	kvs -j backend show "$name" | jq -e '.prediction | .alarm and .found_tokens < .predicted_tokens'
	run kvs backend show "$name"
	[[ $output == *"prediction  ALARM: "* ]]
	page /metrics | grep -q "^kvsteer_backend_prediction_alarm{service=\"v4\",backend=\"$name\",cause=\"[a-z-]*\"} 1"
	run kvs backend show nobody
	[ "$status" = 1 ]
	[[ $output == *"there is none of that name"* ]]
}

@test "models: each request where its model is served, 404 where it is not" {
	local i hinted
	kv_engine_dies 3
	kv_engine 3 --model other --also adapter
	differ() { [ "$(bpftool -j map dump pinned "$KV_PIN/kv_services" | jq '.[].formatted.value | select(.name == "v4") | .flags')" = "$1" ]; }
	until_true 5 differ 5
	until_true 10 is_up e3
	: >"$KV_LOG"
	for i in 1 2 3 4; do
		[ "$(post other)" = 200 ]
		[ "$(post adapter)" = 200 ]
	done
	[ "$(post nobodys)" = 404 ]
	jq -e '.error.code == "model_not_found" and .error.param == "model" and .error.type == "invalid_request_error"' "$BATS_TEST_TMPDIR/answer"
	# hinted ones too, and those whose prefix is held elsewhere
	hinted="KV-Prefix: $(hint 4000 models)"
	for i in 1 2; do [ "$(post emulated "$hinted")" = 200 ]; done
	[ "$(post other "$hinted")" = 200 ]
	[ "$(counter agent_models)" -ge 3 ]
	[ "$(counter requests_no_model)" = 1 ]
	# explain asks the agent who serves it
	kvs -j explain <<<'{"model":"adapter","prompt":"some text"}' |
		jq -e '.choice == "e3" and .lane == "agent" and ([.backends[] | .reason // empty] | unique) == ["it does not serve this model"]'
	kvs explain <<<'{"model":"nobodys","prompt":"some text"}' 2>&1 | grep 'status 404: no engine serves its model'
	kv_engine_dies 3
	kv_engine 3
	until_true 5 differ 1
	until_true 10 is_up e3
}

@test "an id that is used again at once: nothing of its former engine" {
	capacity_is() { [ "$(of "$1" capacity)" = "$2" ]; }
	until_true 5 capacity_is e3 65536
	kvs backend remove e3
	# there is no other id; the engine behind it says nothing of its size
	until_true 3 kvs backend add v4 10.72.3.2:8009 --name late
	[ "$(of late capacity)" = 262144 ]
	sleep 1.2
	[ "$(of late capacity)" = 262144 ]
	kvs backend remove late
	until_true 3 kvs apply "$KV_RUN/kvsteer.yaml"
	until_true 5 is_up e3
	until_true 5 capacity_is e3 65536
}

# ejected: the name of one that is
ejected() { kvs -j backend list | jq -er '[.backends[] | select(.health == "ejected")][0].name // empty'; }

@test "ejected when the agent dies: the next one does not take it for one that was away" {
	local i agent again name=""
	agent=$(agent_pid)
	for i in 1 2 3; do kv_fault $i '{"status":500}'; done
	for ((i = 0; i < 100; i++)); do
		post >/dev/null
		! name=$(ejected) || break
	done
	again=$(grep -c "backend $name: up again" "$KV_GW_LOG" || true)
	is_down "$name"
	kill -KILL "$agent"
	for i in 1 2 3; do kv_fault $i '{}'; done
	another() { [ "$(agent_pid)" != "$agent" ]; }
	until_true 10 another
	until_true 5 is_up "$name"
	[ "$(grep -c "backend $name: up again" "$KV_GW_LOG")" = "$again" ]
}

# port_taken: somebody else listens on 9098 there
port_taken() {
	kv_in "$KV_ID-gw" ss -ltnH | grep -q ':9098 '
}

# up_for NAME: so long, in milliseconds
up_for() { kvs -j backend show "$1" | jq '.health.since_s * 1000 | floor'; }

@test "http: another address of the same port; one that is taken changes nothing" {
	local since
	since=$(up_for e2)
	sed "s/^http: .*/http: \"0.0.0.0:9099\"/" "$KV_RUN/kvsteer.yaml" >"$BATS_TEST_TMPDIR/any.yaml"
	run kvs apply "$BATS_TEST_TMPDIR/any.yaml"
	echo "$output"
	[ "$status" = 0 ]
	[ "$output" = "http: 127.0.0.1:9099 -> *:9099" ]
	[ "$(page /healthz)" = ok ]
	[ "$(kv_in "$KV_ID-gw" curl -sS -m 2 http://10.71.1.1:9099/healthz)" = ok ]
	kv_start "$KV_ID-gw" "$BATS_TEST_TMPDIR/taken" python3 -m http.server --bind 127.0.0.1 9098
	until_true 5 port_taken
	sed "s/^http: .*/http: \"0.0.0.0:9098\"/" "$KV_RUN/kvsteer.yaml" >"$BATS_TEST_TMPDIR/taken.yaml"
	run kvs apply "$BATS_TEST_TMPDIR/taken.yaml"
	[ "$status" != 0 ]
	[[ $output == *"http: *:9098: Address already in use; nothing has been changed"* ]]
	kill "$KV_STARTED"
	[ "$(kv_in "$KV_ID-gw" curl -sS -m 2 http://10.71.1.1:9099/healthz)" = ok ]
	kvs apply "$KV_RUN/kvsteer.yaml"
	[ "$(page /healthz)" = ok ]
	# nor has anybody been followed anew
	[ "$(up_for e2)" -ge "$since" ]
	[ "$(kv_in "$KV_ID-gw" curl -sS -m 2 -o /dev/null -w '%{http_code}' http://10.71.1.1:9099/healthz || true)" = 000 ]
}

# long WORD: of a prompt that is worth going to its holder for
long() {
	from 1 curl -sS -m 5 -o /dev/null -w '%{http_code}' "http://$KV_V4/v1/completions" \
		-d "{\"model\":\"emulated\",\"prompt\":\"$(printf "$1 %.0s" {1..2000})\",\"max_tokens\":4}"
}
has_room() { [ "$(long "$1")" = 200 ]; }

@test "429 and 503: who holds the prompt, too, but is known to be busy is not asked next" {
	local i passed
	# two prompts that the first two hold, each learned from a request that the other one refused
	kv_engine_dies 3
	until_true 5 is_down e3
	kv_fault 1 '{"status":503}'
	[ "$(long one)" = 200 ]
	[ "$(long two)" = 200 ]
	kv_fault 1 '{}'
	kv_fault 2 '{"status":429}'
	until_true 5 has_room one # the first one is taken to be busy for a second
	until_true 5 has_room two
	kv_fault 1 '{"status":503}'
	kv_engine 3
	until_true 5 is_up e3
	passed=$(counter agent_busy_passed_on)
	[ "$(long one)" = 200 ]
	[ "$(counter agent_busy_passed_on)" -gt "$passed" ]
	passed=$(counter agent_busy_passed_on)
	[ "$(long two)" = 200 ]
	[ "$(counter agent_busy_passed_on)" = $((passed + 1)) ]
	for i in 1 2; do kv_fault $i '{}'; done
}

@test "clean end" {
	kv_clean_end
}
