#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# curl through both lanes, both address families; answers equal those of the engine asked directly.

load lib

setup_file() {
	kv_up 1 2
	kv_gateway
}

teardown_file() { kv_down; }

BODY='{"model":"emulated","messages":[{"role":"user","content":"hello"}],"max_tokens":8}'
STREAM='{"model":"emulated","messages":[{"role":"user","content":"hello"}],"max_tokens":8,"stream":true,"stream_options":{"include_usage":true}}'

# same FAMILY PATH [CURL OPTION…]: through the gateway and directly: the same bytes
same() {
	local to direct
	case $1 in
	4) to=$KV_V4 direct=10.72.1.2:8000 ;;
	6) to=$KV_V6 direct='[fd72::1:2]:8000' ;;
	esac
	local path=$2
	shift 2
	from 1 curl -fsSNg -m 10 -o "$BATS_TEST_TMPDIR/steered" "$@" "http://$to$path"
	from 1 curl -fsSNg -m 10 -o "$BATS_TEST_TMPDIR/direct" "$@" "http://$direct$path"
	cmp "$BATS_TEST_TMPDIR/steered" "$BATS_TEST_TMPDIR/direct"
}

# in_lane COUNTER COMMAND…: the command raises that counter
in_lane() {
	local before after
	before=$(counter "$1")
	"${@:2}"
	after=$(counter "$1")
	[ "$after" -gt "$before" ] || die "$1 stayed $after"
}

@test "GET /v1/models is decided in the kernel, IPv4 and IPv6" {
	in_lane requests_express same 4 /v1/models
	in_lane requests_express same 6 /v1/models
}

@test "POST with KV-Prefix is decided in the kernel" {
	for v in 4 6; do
		in_lane requests_express same $v /v1/chat/completions -H "KV-Prefix: $(hint 256 a)" -d "$BODY"
	done
}

@test "POST with a session header is decided in the kernel" {
	for v in 4 6; do
		in_lane requests_express same $v /v1/chat/completions -H "X-Session-Id: abc" -d "$BODY"
	done
}

@test "POST without a hint is read by the agent" {
	for v in 4 6; do
		in_lane requests_agent same $v /v1/chat/completions -d "$BODY"
	done
}

@test "streamed answers, both lanes" {
	for v in 4 6; do
		in_lane requests_agent same $v /v1/chat/completions -d "$STREAM"
		in_lane requests_express same $v /v1/chat/completions -H "KV-Prefix: $(hint 256 b)" -d "$STREAM"
		in_lane lends same $v /v1/chat/completions -H "KV-Prefix: $(hint 256 b)" -d "$STREAM"
	done
}

@test "a long answer of the agent lane is lent in mid-flight" {
	local n
	n=$(counter lends_midflight)
	same 4 "/bytes/3000000?framing=chunked" -d '{}' -H 'Expect: 100-continue'
	same 4 "/bytes/3000000" -H 'Transfer-Encoding: chunked' -d '{}'
	[ "$(counter lends_midflight)" -gt "$n" ]
}

@test "every interface that carries prompts: the answer is the engine's" {
	for lane in "KV-Prefix: $(hint 256 c)" "X-None: 1"; do
		same 4 /v1/completions -H "$lane" -d '{"model":"m","prompt":"one","max_tokens":4}'
		same 4 /v1/completions -H "$lane" -d '{"model":"m","prompt":["one","two"],"max_tokens":4}'
		same 4 /v1/completions -H "$lane" -d '{"model":"m","prompt":[1,2,3],"max_tokens":4}'
		same 4 /v1/completions -H "$lane" -d '{"model":"m","prompt":[[1,2],[3,4]],"max_tokens":4}'
		same 4 /v1/messages -H "$lane" -d '{"model":"m","system":"s","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"max_tokens":4}'
		same 4 /v1/messages -H "$lane" -d '{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":4,"stream":true}'
		same 4 /v1/responses -H "$lane" -d '{"model":"m","input":"x","max_output_tokens":4}'
		same 4 /v1/responses -H "$lane" -d '{"model":"m","input":[{"role":"user","content":"x"}],"max_output_tokens":4,"stream":true}'
		same 4 /generate -H "$lane" -d '{"text":"x","sampling_params":{"max_new_tokens":4}}'
		same 4 /tokenize -H "$lane" -d '{"prompt":"some text"}'
	done
}

@test "a body that cannot be parsed is served, and counted" {
	local n
	n=$(counter agent_body_unparsed)
	run from 1 curl -sS -m 5 -o "$BATS_TEST_TMPDIR/out" -w '%{http_code}' -d 'not json' "http://$KV_V4/v1/completions"
	[ "$output" = 400 ]
	grep -q 'not JSON' "$BATS_TEST_TMPDIR/out"
	[ "$(counter agent_body_unparsed)" -gt "$n" ]
}

@test "an engine's own error comes through as it is" {
	run from 1 curl -sS -m 5 -o /dev/null -w '%{http_code}' "http://$KV_V4/nowhere"
	[ "$output" = 404 ]
	kv_fault 1 '{"status":429}'
	kv_fault 2 '{"status":429}'
	run from 1 curl -sS -m 5 -o /dev/null -w '%{http_code}' -H 'X-Session-Id: e' -d "$BODY" "http://$KV_V4/v1/chat/completions"
	kv_fault 1 '{}'
	kv_fault 2 '{}'
	[ "$output" = 429 ]
}

@test "clean end" { kv_clean_end; }
