#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# The bench's own tools still measure what they say: kv-micro checks each step that it times.

load lib

@test "each part alone: every line measured" {
	"$KV_OUT/kv-micro" 0.01 >"$BATS_TEST_TMPDIR/lines"
	jq -e 'length >= 13 and all(.[]; . > 0)' "$BATS_TEST_TMPDIR/lines"
}

@test "a time that is none" {
	run "$KV_OUT/kv-micro" -1
	[ "$status" = 2 ]
	[[ "$output" == usage:* ]]
}
