#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# bats file_tags=timed
# Ends and failures: each fault × plain and streamed × both lanes × what the client does. What client
# and engine see, and that nothing is left. The table is shown, and is in .output/matrix.txt.

load lib

setup_file() {
	local host options
	kv_up 2 7
	for ((host = 1; host <= 7; host++)); do
		mapfile -t options < <(matrix engines --host "$host")
		kv_start "$KV_ID-e$host" "$KV_RUN/matrix-$host.out" "$KV_OUT/kv-engine" \
			--log "$KV_LOG" --raw "$KV_RUN/raw" "${options[@]}"
	done
	matrix config >"$KV_RUN/kvsteer.yaml"
	gateway
}

gateway() {
	kv_gateway_with -c "$KV_RUN/kvsteer.yaml"
	kv_serves 10.71.1.1:8001 "[fd71::1:1]:8002" 10.71.1.1:8016
}

teardown_file() { kv_down; }

matrix() {
	from 1 python3 "$KV_TOOLS/matrix.py" "$@" --id "$KV_ID" --run "$KV_RUN" --pin "$KV_PIN" \
		--control "$KV_CTL" --bin "$KV_BIN" --log "$KV_LOG" --table "$KV_OUT/matrix.txt"
}

@test "every fault, lane and kind of answer, with clients that wait, half-close, close and reset" {
	local bad=0 i
	for ((i = 0; i < ${KV_SOAK:+9} + 1; i++)); do
		# An engine that fails round after round is ejected for twice as long each time.
		[ $i = 0 ] || { kv_stop_gateway && gateway; }
		matrix run || bad=1
	done
	sed 's/^/# /' "$KV_OUT/matrix.txt" >&3
	return $bad
}

@test "1,000 clients cut at random moments" {
	matrix cut --clients "$([ -n "${KV_SOAK:-}" ] && echo 20000 || echo 1000)"
}

@test "clients that reset where the gateway does not read: a long prefill ends all the same" {
	matrix gone
}

@test "a client that sends ahead and closes its side has both answers" {
	matrix ahead
}

@test "clean end" { kv_clean_end; }
