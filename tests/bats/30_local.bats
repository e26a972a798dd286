#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Engines on the gateway's own host, reached by way of lo; clients far and on the gateway.

load lib

setup_file() {
	kv_up 1 1
	kv_start "$KV_ID-gw" "$KV_RUN/local.out" "$KV_OUT/kv-engine" --log "$KV_LOG" \
		--listen 127.0.0.1:8100 --name local --listen 127.0.0.1:8101 --name local2 \
		--listen '[::1]:8100' --name local6 --listen '[::1]:8101' --name local6-2 \
		--listen 127.0.0.1:8102 --name near --listen '[::1]:8102' --name other-family \
		--keep-alive-s 60
	cat >"$KV_RUN/local.yaml" <<-YAML
		pin: $KV_PIN
		control: $KV_CTL
		services:
		  - name: local
		    listen: ["10.71.1.1:8000", "127.0.0.1:8000"]
		    policy: round-robin
		    backends:
		      - {name: local, address: "127.0.0.1:8100"}
		      - {name: local2, address: "127.0.0.1:8101"}
		  - name: local6
		    listen: ["[fd71::1:1]:8000", "[::1]:8000"]
		    policy: round-robin
		    backends:
		      - {name: local6, address: "[::1]:8100"}
		      - {name: local6-2, address: "[::1]:8101"}
		  - name: both
		    listen: ["10.71.1.1:8001"]
		    policy: round-robin
		    backends:
		      - {name: near, address: "127.0.0.1:8102"}
		      - {name: far, address: "10.72.1.2:8000"}
		  - name: mixed
		    listen: ["10.71.1.1:8002"]
		    backends:
		      - {name: other-family, address: "[::1]:8102"}
	YAML
	kv_gateway_with -c "$KV_RUN/local.yaml"
	kv_serves "$KV_V4"
}

teardown_file() { kv_down; }

here() {
	kv_in "$KV_ID-gw" python3 "$KV_TOOLS/segments.py" --log "$KV_LOG" "$@"
}

@test "far client, local engines" {
	tool segments.py --to "$KV_V4" keep-alive downloads uploads many half-close
}

@test "far client, local engines, IPv6" {
	tool segments.py --to "$KV_V6" keep-alive downloads many
}

@test "client on the gateway, local engines" {
	here --to 127.0.0.1:8000 keep-alive downloads pipelining many
	here --to '[::1]:8000' keep-alive downloads many
}

@test "client on the gateway asks for the outer address" {
	here --to 10.71.1.1:8000 keep-alive downloads
}

@test "local and far engines in one service" {
	tool segments.py --to 10.71.1.1:8001 keep-alive many
}

@test "IPv4 client, IPv6 engine: served" {
	run from 1 curl -fsS -m 5 http://10.71.1.1:8002/v1/models
	[ "$status" = 0 ]
	[[ $output == *'"object":"list"'* ]]
}

@test "local engines are lent in the kernel too" {
	local before
	before=$(counter requests_express)
	from 1 python3 "$KV_TOOLS/ask.py" --to "$KV_V4" --lane express --n 10
	[ "$(counter requests_express)" -ge $((before + 9)) ]
}

@test "clean end" { kv_clean_end; }
