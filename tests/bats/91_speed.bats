#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# bats file_tags=alone,timed
# The speed of kvsteer and of plain forwarding through the same impairment, 1 % lost.

load lib
load impair

KV_SPEED=10.71.1.1:8002 # service of e3 alone

setup_file() {
	kv_up 1 3
	{
		kv_config | sed '/name: e3,/d; /name: e3-6,/d'
		printf '  - name: speed\n    listen: ["%s"]\n    backends:\n' "$KV_SPEED"
		printf '      - {name: e3, address: "10.72.3.2:8000"}\n'
	} >"$KV_RUN/kvsteer.yaml"
	kv_gateway_with -c "$KV_RUN/kvsteer.yaml"
	kv_serves "$KV_V4" "$KV_SPEED"
}

teardown_file() {
	clear_all
	kv_down
}

teardown() { clear_all; }

# speed TARGET OPTION…: bytes a second of large answers
speed() {
	from 1 "$KV_OUT/kv-traffic" -j -x -d 0.8 -c 4 --seed 1 --timeout 30 --keep-alive 1000 \
		--hinted 100 --request-bytes 0-500 --answer-bytes 30000-100000 "${@:2}" "$1" |
		jq '.bytes_received / .seconds'
}

# compare NAME HOST FRAMING: interleaved runs through the same impairment, ratio of the medians; of
# more runs, if a noisy machine makes that too low
compare() {
	local ratio i
	impair "$2" --loss 1
	: >"$BATS_TEST_TMPDIR/plain"
	: >"$BATS_TEST_TMPDIR/kvsteer"
	for ((i = 1; i <= 20; i++)); do
		speed 10.72.3.2:8000 --framing "$3" >>"$BATS_TEST_TMPDIR/plain"
		speed "$KV_SPEED" --framing "$3" >>"$BATS_TEST_TMPDIR/kvsteer"
		[ $((i % 5)) = 0 ] || continue
		ratio=$(jq -ns --slurpfile p "$BATS_TEST_TMPDIR/plain" --slurpfile k "$BATS_TEST_TMPDIR/kvsteer" \
			'def median: sort | .[length / 2 | floor]; ($k | median) / ($p | median)')
		! jq -ne --argjson r "$ratio" '$r >= 0.8' >/dev/null || break
	done
	clear_all
	printf '# 1 %% lost on the %s side, %s: %.2f of plain forwarding, %d runs each\n' "$1" "$3" "$ratio" \
		$((i < 20 ? i : 20)) >&3
	jq -ne --argjson r "$ratio" '$r >= 0.8' >/dev/null
}

@test "speed at 1 % loss: at least 0.8 of plain forwarding, clients' side" {
	compare clients\' c1 length,chunked,sse
}

@test "speed at 1 % loss: at least 0.8 of plain forwarding, engines' side, length" {
	compare engines\' e3 length
}

@test "speed at 1 % loss: at least 0.8 of plain forwarding, engines' side, chunked and SSE" {
	compare engines\' e3 chunked,sse
}

@test "clean end" { kv_clean_end; }
