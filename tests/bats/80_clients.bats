#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Clients as people use them: the openai package, wrk, curl with many connections.

load lib

setup_file() {
	kv_up 1 3
	kv_gateway
}

teardown_file() { kv_down; }

venv() {
	local dir=$KV_OUT/venv-openai
	[ -x "$dir/bin/python" ] || python3 -m venv "$dir"
	"$dir/bin/python" -c 'import openai' 2>/dev/null ||
		timeout 90 "$dir/bin/pip" install -q --disable-pip-version-check --retries 1 --timeout 10 'openai>=1.66' ||
		return 1
}

@test "openai package: plain and streamed, both lanes" {
	venv >"$BATS_TEST_TMPDIR/pip" 2>&1 || skip "the openai package cannot be installed: PyPI is out of reach"
	for to in "$KV_V4" "$KV_V6"; do
		run from 1 timeout 60 "$KV_OUT/venv-openai/bin/python" "$KV_TOOLS/openai_client.py" "http://$to/v1" "$(hint 256 openai)"
		echo "$output"
		[ "$status" = 0 ]
	done
	[ "$(counter requests_express)" -gt 0 ]
	[ "$(counter requests_agent)" -gt 0 ]
}

# load_with WRK-LUA-HEADERS: no error at all
load_with() {
	cat >"$BATS_TEST_TMPDIR/wrk.lua" <<-LUA
		wrk.method = "POST"
		wrk.body = '{"model":"emulated","prompt":"some text","max_tokens":4}'
		$1
	LUA
	run from 1 wrk -t1 -c16 -d3s --timeout 10s -s "$BATS_TEST_TMPDIR/wrk.lua" "http://$2/v1/completions"
	echo "$output"
	[ "$status" = 0 ]
	[[ $output != *"Socket errors"* && $output != *"Non-2xx"* ]]
	[ "$(sed -n 's/ *\([0-9]*\) requests in.*/\1/p' <<<"$output")" -gt 500 ]
}

@test "wrk, hinted" {
	load_with "wrk.headers['KV-Prefix'] = '$(hint 256 wrk)'" "$KV_V4"
	load_with "wrk.headers['KV-Prefix'] = '$(hint 256 wrk)'" "$KV_V6"
}

@test "wrk, without a hint" {
	load_with "" "$KV_V4"
	load_with "" "$KV_V6"
}

@test "wrk, lanes in turn" {
	load_with "
local i = 0
request = function()
  i = i + 1
  wrk.headers['X-Session-Id'] = i % 2 == 0 and 's' .. i % 50 or nil
  return wrk.format()
end" "$KV_V4"
}

@test "curl: 40 requests, 8 at a time, large answers" {
	local i args=()
	for ((i = 0; i < 40; i++)); do
		args+=(-o "$BATS_TEST_TMPDIR/$i" "http://$KV_V4/bytes/$((i * 50000))?framing=chunked&seed=7")
	done
	from 1 curl -fsS -m 60 -Z --parallel-max 8 "${args[@]}"
	for ((i = 0; i < 40; i++)); do
		[ "$(stat -c %s "$BATS_TEST_TMPDIR/$i" 2>/dev/null || echo 0)" = $((i * 50000)) ]
	done
	cmp <(head -c 1000000 "$BATS_TEST_TMPDIR/39") <(head -c 1000000 "$BATS_TEST_TMPDIR/38")
}

@test "clean end" { kv_clean_end; }
