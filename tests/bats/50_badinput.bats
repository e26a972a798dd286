#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Malformed requests: right status, one-line JSON error, closed, counted; nothing smuggled.

load lib

setup_file() {
	kv_up 1 2
	kv_gateway
}

teardown_file() { kv_down; }

@test "malformed requests are refused: status, JSON error, close" {
	local before
	before=$(counter requests_refused)
	tool badinput.py --to "$KV_V4" refused
	[ "$(counter requests_refused)" -ge $((before + 70)) ]
	tool badinput.py --to "$KV_V6" refused
}

@test "a chunked body over the limit" { tool badinput.py --to "$KV_V4" too-large; }
@test "the same in two segments" { tool badinput.py --to "$KV_V4" split; }
@test "the same behind a good request" { tool badinput.py --to "$KV_V4" repeated; }
@test "unusual but right requests are served" { tool badinput.py --to "$KV_V4" served; }

@test "malformed hints are ignored and counted" {
	local before
	before=$(counter hint_malformed)
	tool badinput.py --to "$KV_V4" hints
	[ "$(counter hint_malformed)" -ge $((before + 17)) ]
}

@test "no engine ever saw a malformed request" {
	run grep '"event":"malformed"' "$KV_LOG"
	[ "$output" = "" ]
}

@test "garbage of all sizes does not harm" {
	for n in 1 100 1448 9000 100000; do
		from 1 bash -c "head -c $n /dev/urandom | timeout 5 bash -c 'exec 3<>/dev/tcp/10.71.1.1/8000; cat >&3; cat <&3 >/dev/null'" || true
	done
	from 1 curl -fsS -m 5 -o /dev/null "http://$KV_V4/v1/models"
}

@test "clean end" { kv_clean_end; }
