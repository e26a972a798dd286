# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Two engines that tell of their caches, of one service, and what is seen of it.

# told_config [EVENTS]
told_config() {
	cat <<-YAML
		pin: $KV_PIN
		control: $KV_CTL
		interfaces: [c1, e1, e2]
		services:
		- name: v4
		  listen: ["$KV_V4"]
		  ${1:+events: $1}
		  backends:
		  - {name: e1, address: "10.72.1.2:8000"}
		  - {name: e2, address: "10.72.2.2:8000"}
	YAML
}

# told_up ENGINE EVENTS: two engines, begun by ENGINE I, and a gateway that follows them
told_up() {
	kv_begin "$BATS_FILE_TMPDIR"
	export KV_CLIENTS=1 KV_ENGINES=2
	kv_net_up "$KV_ID" 1 2
	"$1" 1
	"$1" 2
	told_config "$2" >"$KV_RUN/kvsteer.yaml"
	kv_gateway_with -c "$KV_RUN/kvsteer.yaml"
	kv_serves "$KV_V4"
	until_true 10 told_state e1 complete
	until_true 10 told_state e2 complete
}

# told_state BACKEND STATE
told_state() {
	kvs -j backend list | jq -e --arg b "$1" --arg s "$2" '.backends[] | select(.name == $b) | .told == $s' >/dev/null
}

# ids FIRST N: N tokens counted from FIRST
ids() { echo "[$(seq -s, "$1" $(($1 + $2 - 1)))]"; }

# ask FIRST N [HEADER]: by the gateway; which engine has served it
ask() {
	from 1 curl -sf -m 5 -o /dev/null -D - -H 'Content-Type: application/json' ${3:+-H "$3"} "http://$KV_V4/v1/completions" \
		-d "{\"model\":\"m\",\"max_tokens\":1,\"prompt\":$(ids "$1" "$2")}" | tr -d '\r' | sed -n 's/^x-engine: //Ip'
}

# direct I FIRST N: engine I is given that prompt, not through the gateway
direct() {
	from 1 curl -sf -m 5 -o /dev/null -H 'Content-Type: application/json' "http://10.72.$1.2:8000/v1/completions" \
		-d "{\"model\":\"m\",\"max_tokens\":1,\"prompt\":$(ids "$2" "$3")}"
}
