# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# What tests of load and of limits share: gateways with other settings, normal traffic, slow clients.

setup_file() {
	kv_up 2 3
	local i
	for ((i = 11; i <= 18; i++)); do
		ip -n "$KV_ID-c2" addr add "10.71.2.$i/24" dev eth0
		ip -n "$KV_ID-c2" addr add "fd71::2:$i/112" dev eth0
	done
}

teardown_file() { kv_down; }

teardown() { [ -z "${slow:-}" ] || kill -KILL "$slow" 2>/dev/null || true; }

# gateway [LINE…]: kvsteerd anew, with kv_config and these lines of configuration; $edit: sed for the rest
gateway() {
	kv_stop_gateway
	rm -f "$KV_RUN/gateway.pid"
	{
		kv_config | sed '/^services:/,$d'
		printf '%s\n' "$@"
		kv_config | sed -n '/^services:/,$p' | sed "${edit:-}"
	} >"$KV_RUN/kvsteer.yaml"
	kv_gateway_with -c "$KV_RUN/kvsteer.yaml"
	kv_serves "$KV_V4"
}

# traffic OPTION…: checked byte by byte; prints its JSON. Fails if a byte was wrong or an answer hung.
traffic() {
	# what it finds wrong is in its JSON too: fine and whole look
	from 1 "$KV_OUT/kv-traffic" -j --timeout 20 "$@" "$KV_V4" || true
}

# slow OPTION…: slow clients in the background, of host 2; waits until all are connected. $slow: pid
slow() {
	: >"$BATS_TEST_TMPDIR/slow.err"
	nice -n 19 nsenter --net="/run/netns/$KV_ID-c2" python3 "$KV_TOOLS/slow.py" --to "$KV_V4" "$@" \
		>"$BATS_TEST_TMPDIR/slow.out" 2>"$BATS_TEST_TMPDIR/slow.err" 3>&- &
	slow=$!
	echo $slow >>"$KV_RUN/pids"
	until_true 60 grep -q ready "$BATS_TEST_TMPDIR/slow.err" || die "$(cat "$BATS_TEST_TMPDIR/slow.err")"
}

# slow_end: their report, as JSON
slow_end() {
	kill -TERM "$slow"
	until_true 20 gone "$slow"
	slow=
	cat "$BATS_TEST_TMPDIR/slow.out"
}

# ended FILTER: that is what becomes of them, and stays so until they are ended
ended() {
	local out
	until_true 10 slow_are "$1" || true
	out=$(slow_end)
	slow=
	tail -n 1 <<<"$out" | jq -e "$1" >/dev/null || die "not $1: $out"
}

# slow_are FILTER: what they say of themselves now
slow_are() {
	kill -USR1 "$slow"
	sleep 0.1
	tail -n 1 "$BATS_TEST_TMPDIR/slow.out" | jq -e "$1" >/dev/null
}

# told LIMIT [now]: kvsteer status says in words that it was reached, or is now
told() {
	kvs status | grep -q "^$1  " || die "status does not tell of $1: $(kvs status)" || return 1
	kvs -j status | jq -e --arg n "$1" --arg now "${2:-}" \
		'.limits[] | select(.limit == $n) | .times > 0 and (.text | length > 20) and ($now == "" or .now)' >/dev/null
}

not_now() {
	kvs -j status | jq -e --arg n "$1" 'all(.limits[]; .limit != $n or .now == false)' >/dev/null
}

# fine JSON: every request was answered, with the right bytes
fine() {
	jq -e '.ok == .requests and .requests > 0 and .broken == 0 and .connect_failed == 0' >/dev/null <<<"$1" ||
		die "not all answered: $1"
}

# whole JSON: what was not answered was refused, by 503 or by a reset before any byte; nothing was broken
whole() {
	jq -e '.broken == .unanswered and .wrong_bytes == 0 and .foreign_bytes == 0 and .hung == 0 and
		.ok + .unanswered + .connect_failed + ([.refused[]?] | add // 0) == .requests and
		(.refused | keys - ["503"]) == []' >/dev/null <<<"$1" ||
		die "not whole: $1"
}

# agent_says KEY: what the agent itself tells of its state
agent_says() {
	python3 - "$KV_CTL" "$1" <<-'PY'
		import json, socket, sys
		s = socket.socket(socket.AF_UNIX)
		s.connect(sys.argv[1])
		s.sendall(b'{"verb":"status"}\n')
		print(json.loads(s.makefile().readline())[sys.argv[2]])
	PY
}
