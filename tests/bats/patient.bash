# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Gateways with short times, and clients of both lanes that wait (tests/tools/patient.py).

# shellcheck disable=SC2034 # for those who load this
QUICK="probe: 1s, connect: 500ms, drain: 1s, client_idle: 6s"

# time_config [TIMEOUTS]
time_config() {
	{
		echo "max_backends: ${MAX_BACKENDS:-64}"
		kv_config round-robin
		# Its turn is due to an engine that has come back, here.
		echo "health: {slow_start: 0s}"
	} >"$KV_RUN/kvsteer.yaml"
	[ -z "${1:-}" ] || echo "timeouts: {$1}" >>"$KV_RUN/kvsteer.yaml"
}

time_gateway() {
	time_config "$@"
	kv_gateway_with -c "$KV_RUN/kvsteer.yaml"
	kv_serves "$KV_V4" "$KV_V6"
}

again() {
	kv_stop_gateway
	time_gateway "$@"
}

# patient LANE OPTION…: in the background; its output in $BATS_TEST_TMPDIR/LANE (or $NAME)
patient() {
	local lane=$1
	shift
	nsenter --net="/run/netns/$KV_ID-c${FROM:-1}" python3 "$KV_TOOLS/patient.py" --lane "$lane" \
		--to "${TO:-$KV_V4}" "$@" >"$BATS_TEST_TMPDIR/${NAME:-$lane}" 2>&1 3>&- &
	PATIENT+=" $!"
}

# both OPTION…: clients of both lanes, waited for
both() {
	PATIENT=
	patient express "$@"
	patient agent "$@"
	waited express agent
}

# all_said LANE WORD N: exactly N lines, each with that word
all_said() {
	[ "$(wc -l <"$BATS_TEST_TMPDIR/$1")" = "$3" ]
	[ "$(grep -c "^$2 " "$BATS_TEST_TMPDIR/$1")" = "$3" ]
}

# idle: nothing in flight anywhere
idle() {
	kvs -j backend list | jq -e '[.. | objects | .inflight_requests?, .inflight_tokens?, .upstreams?.relay?, .upstreams?.lent? | numbers] | length > 0 and all(. == 0)' >/dev/null
}

# running N: so many requests are in flight
running() {
	[ "$(kvs -j backend list | jq '[.. | objects | .inflight_requests? | numbers] | add')" = "$1" ]
}

# waited NAME…: for all patients, and shows what those were told
waited() {
	# shellcheck disable=SC2086
	wait $PATIENT
	(cd "$BATS_TEST_TMPDIR" && tail -n 4 "$@")
}

only_backends() {
	[ "$(kvs -j backend list | jq -r '[.. | objects | select(.address?) | .name] | sort | join(" ")')" = \
		"$(printf '%s\n' "$@" | sort | paste -sd ' ')" ]
}
