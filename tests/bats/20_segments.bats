#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Raw sockets: every segmentation, framing and odd end; tests/tools/segments.py compares each
# answer's bytes with what the engine's log says was sent.

load lib

setup_file() {
	kv_up 1 3
	kv_gateway
}

teardown_file() { kv_down; }

both() {
	tool segments.py --to "$KV_V4" "$@"
	tool segments.py --to "$KV_V6" "$@"
}

@test "small requests cut in two at every byte" { both every-byte; }
@test "small requests byte by byte" { both byte-by-byte; }
@test "large requests in random segments" { both random-segments; }
@test "pipelining, 2 to 20 requests" { both pipelining; }
@test "200 requests on one connection, to changing backends" { both keep-alive; }
@test "bodies of 0 B to 8 MB, Content-Length and chunked" { both uploads; }
@test "answers of 0 B to 8 MB: length, chunked, until close" { both downloads; }
@test "answers in chunks of a few bytes" { both small-chunks; }
@test "1xx, 204, 304 and HEAD" { both interim; }
@test "Expect: 100-continue" { both expect; }
@test "client half-close" { both half-close; }
@test "eight clients, lanes mixed" { both many; }
@test "clean end" { kv_clean_end; }
