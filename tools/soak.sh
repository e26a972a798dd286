#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# shellcheck disable=SC1091,SC2153,SC2317 # lib.bash: what it sets, and what it calls
# The long test: tagged traffic of every kind through an impaired network, while engines fail, the
# agent is killed, backends come and go and clients give up; then a look for leaks; then the long
# forms of tests/bats/9*.bats. Ends with a summary, which stays in .output/soak.json.
set -euo pipefail

usage() {
	cat <<'TEXT'
usage: tools/soak.sh        (make soak)
Environment: SOAK_MINUTES (20, of traffic), SOAK_SEED (1), SOAK_BATS (91 92 … 98: the files whose long
forms come afterwards; empty: none), SOAK_FAULTS (all kinds; a list of those below leaves others out)
  engine_status engine_rst engine_cut engine_hang engine_close engine_reset engine_restart
  engine_stop backend_drain backend_remove agent_kill agent_restart
TEXT
}

case ${1:-} in
-h | --help) usage && exit 0 ;;
"") ;;
*) usage >&2 && exit 2 ;;
esac

cd "$(dirname "$0")/.."
SOAK_MINUTES=${SOAK_MINUTES:-20} SOAK_SEED=${SOAK_SEED:-1}
SOAK_BATS=${SOAK_BATS-91 92 93 94 95 96 97 98}
SOAK_FAULTS=${SOAK_FAULTS:-engine_status engine_rst engine_cut engine_hang engine_close engine_reset \
	engine_restart engine_stop backend_drain backend_remove agent_kill agent_restart}
export SOAK_MINUTES SOAK_SEED SOAK_BATS SOAK_FAULTS
ROUND=30 # seconds of one kv-traffic
CLIENTS=3 ENGINES=4

[ "$(id -u)" = 0 ] || { echo "soak: needs root for namespaces and BPF: sudo $0" >&2 && exit 1; }
# shellcheck source=tools/netns.sh
. tools/netns.sh
kv_private "$PWD/tools/soak.sh"

BATS_FILE_TMPDIR=$(mktemp -d)
KV_BIN=$PWD/.output
KV_NO_LOG=1
export BATS_FILE_TMPDIR KV_BIN KV_NO_LOG
# shellcheck source=tests/bats/lib.bash
. tests/bats/lib.bash
world=$BATS_FILE_TMPDIR
bad=0

# What was written stays, to look for reasons.
finish() {
	kv_down
	rm -rf .output/soak
	mv "$world" .output/soak
}
trap finish EXIT

# problem WHAT: the run has failed; it goes on
problem() {
	echo "soak: PROBLEM: $*"
	echo "$*" >>"$world/problems"
	bad=1
}

kv_hosts_ready() {
	local i
	for ((i = 1; i <= CLIENTS; i++)); do from "$i" sysctl -qw net.ipv4.tcp_tw_reuse=1; done
}

# ---- the network -----------------------------------------------------------------------

# impair NAMESPACE SEED OPTION…: both directions of its eth0
impair() {
	local ns=$1 seed=$2
	shift 2
	kv_in "$ns" "$KV_OUT/kv-impair" attach eth0 ingress --seed "$seed" "$@" >>"$world/impair.pids"
	kv_in "$ns" "$KV_OUT/kv-impair" attach eth0 egress --seed $((seed + 1)) "$@" >>"$world/impair.pids"
}

# Client 1 and engines 1 and 2 have a clean network.
impair_all() {
	impair "$KV_ID-c2" $((SOAK_SEED * 10)) --loss 1 --reorder 5 --duplicate 1
	impair "$KV_ID-c3" $((SOAK_SEED * 10 + 2)) --loss 3 --reorder 20 --corrupt 0.5 --cut 100-1400
	impair "$KV_ID-e3" $((SOAK_SEED * 10 + 4)) --loss 0.5 --reorder 2
	impair "$KV_ID-e4" $((SOAK_SEED * 10 + 6)) --loss 2 --reorder 10 --duplicate 2
}

impaired() {
	local ns
	for ns in c2 c3 e3 e4; do kv_in "$KV_ID-$ns" "$KV_OUT/kv-impair" show eth0 -j; done |
		jq -s '[.[] | .ingress, .egress | to_entries[]] | group_by(.key) | map({key: .[0].key, value: (map(.value) | add)}) | from_entries'
}

# ---- traffic ----------------------------------------------------------------------------

# Engines that answer twice have a service of their own, without impaired links: what of a second
# answer is lost and comes again behind the next request cannot be told from that one's answer.
TWICE_V4=10.71.1.1:8002 TWICE_ENGINES=2
TWICE_ENGINE=(--listen 0.0.0.0:8002 --name twice)

soak_config() {
	local i
	kv_config
	echo "  - name: twice"
	echo "    listen: [\"$TWICE_V4\"]"
	echo "    backends:"
	for ((i = 1; i <= TWICE_ENGINES; i++)); do echo "      - {name: e$i-twice, address: \"10.72.$i.2:8002\"}"; done
	# The RST of a client that gave up may be lost: its idle connection has this long.
	echo "timeouts: {client_idle: 45s}"
}

MIXES=(
	"-c 60 --pipeline 10 --half-close 5 --slow 2"
	"-c 100 --abort 30 --ports 20000-20150 --first-us 0-20000 --answer-bytes 0-16384"
	"-c 30 --request-bytes 0-1000000 --answer-bytes 0-1000000 --early 10"
	"-c 100 --delay-us 0-20000 --first-us 0-200000 --answer-bytes 0-20000 --framing sse,chunked --abort 5"
	"-c 200 --answer-bytes 0-2000 --request-bytes 0-500 --keep-alive 3"
	"-c 60 --twice 3 --answer-bytes 0-8192 --hinted 90"
)

# connects: of that round's that must not fail. Who binds the port that he has just left and whose
# last ACK and RST were lost meets a connection that is still being opened: TCP itself resets that
# (tcp_check_req() of any Linux server).
connects() { # I MIX RESULT
	[ "$1" != 1 ] && [[ $2 == *--ports* ]] && return
	[ "$(jq '.connect_failed - .no_port' "$3")" = 0 ]
}

# client I SECONDS: rounds of traffic, one mix after another
client() {
	local i=$1 end=$((SECONDS + $2)) round=0 mix seed targets
	while [ $SECONDS -lt $end ]; do
		seed=$((SOAK_SEED * 1000 + i * 300 + round))
		mix=${MIXES[$(((i + round) % ${#MIXES[@]}))]}
		targets=("$KV_V4" "$KV_V6")
		[[ $mix != *--twice* ]] || targets=("$TWICE_V4")
		# shellcheck disable=SC2086 # the mix is several options
		from "$i" "$KV_OUT/kv-traffic" -j -v -d $((end - SECONDS < ROUND ? end - SECONDS : ROUND)) --seed "$seed" \
			--timeout 90 $mix "${targets[@]}" >"$world/traffic-$i-$round.json" 2>"$world/traffic-$i-$round.err" ||
			echo "client $i, round $round, kv-traffic --seed $seed $mix: $(grep -A 2 -m 1 -E 'hung|FOREIGN|wrong|another value' "$world/traffic-$i-$round.err" | paste -sd' ')" >>"$world/failed"
		connects "$i" "$mix" "$world/traffic-$i-$round.json" ||
			echo "client $i, round $round, kv-traffic --seed $seed $mix: $(grep -c -E 'Connection refused|timed out|reset by peer' "$world/traffic-$i-$round.err") connects failed" >>"$world/failed"
		round=$((round + 1))
	done
}

# sum: all rounds so far
traffic_sum() {
	cat "$world"/traffic-*.json 2>/dev/null | jq -s '
		reduce .[] as $r ({}; reduce ($r | to_entries[] | select(.value | type == "number")) as $e (.; .[$e.key] += $e.value)
			| reduce ($r.refused | to_entries[]) as $e (.; .refused[$e.key] += $e.value))
		| .refused //= {} | del(.rate, .seconds)'
}

# ---- faults -----------------------------------------------------------------------------

random=$SOAK_SEED
# pick N: 0 … N - 1, from the seed
pick() {
	random=$(((random * 1103515245 + 12345) & 0x7fffffff))
	picked=$((random / 65536 % $1))
}

agent_pid() {
	kvs -j status | jq .agent.pid
}

agent_answers() {
	alive "$(agent_pid)" && from 1 curl -fsS -m 1 -o /dev/null "http://$KV_V4/health"
}

# The one that has taken over is to be ended at the end.
agent_is_back() {
	until_true 10 agent_answers
	agent_pid >"$KV_RUN/gateway.pid"
}

# engine_fault I JSON: on all of its addresses
engine_fault() {
	kv_fault "$@"
	kv_in "$KV_ID-e$1" curl -fsS -m 2 -o /dev/null -d "$2" "http://10.72.$1.2:8001/fault?engine=twice"
}

# fault KIND: injects it, and takes it back where it lasts
fault() {
	local i pid
	pick "$ENGINES"
	i=$((picked + 1))
	case $1 in
	engine_status) engine_fault "$i" '{"status":503,"count":20}' ;;
	engine_rst) engine_fault "$i" '{"rst_before_headers":true,"count":20}' ;;
	engine_cut) engine_fault "$i" '{"fin_mid_body":300,"count":20}' ;;
	engine_close) engine_fault "$i" '{"close_after_response":true,"count":50}' ;;
	engine_hang)
		engine_fault "$i" '{"hang":true,"count":10}'
		sleep 3
		engine_fault "$i" '{"reset":true}'
		;;
	engine_reset) engine_fault "$i" '{"reset":true}' ;;
	engine_restart)
		kill -KILL "$(cat "$KV_RUN/engine-$i.pid")"
		sleep 1
		kv_engine "$i" "${TWICE_ENGINE[@]}"
		;;
	engine_stop)
		pid=$(cat "$KV_RUN/engine-$i.pid")
		kill -STOP "$pid"
		sleep 2
		kill -CONT "$pid"
		;;
	backend_drain)
		kvs backend drain "e$i" >/dev/null
		sleep 2
		kvs backend undrain "e$i" >/dev/null
		;;
	backend_remove)
		kvs backend remove "e$i" >/dev/null
		sleep 1
		kvs backend add v4 "10.72.$i.2:8000" --name "e$i" >/dev/null
		;;
	agent_kill)
		kill -KILL "$(agent_pid)"
		agent_is_back
		;;
	agent_restart)
		kvs restart >/dev/null
		agent_is_back
		;;
	esac
}

# faults SECONDS: one after another, each at another moment
faults() {
	local end=$((SECONDS + $1)) kind kinds
	read -ra kinds <<<"$SOAK_FAULTS"
	[ ${#kinds[@]} -gt 0 ] || return 0
	while [ $SECONDS -lt $end ]; do
		pick 4
		sleep $((1 + picked))
		pick ${#kinds[@]}
		kind=${kinds[$picked]}
		echo "$(date +%s.%3N) $kind" >>"$world/faults.log"
		if fault "$kind" >>"$world/faults.log" 2>&1; then
			echo "$kind" >>"$world/faults"
		else
			echo "fault $kind at $(date +%s) s: $(tail -n 1 "$world/faults.log")" >>"$world/failed"
			sleep 5
		fi
	done
}

# ---- looking ----------------------------------------------------------------------------

rss_kb() {
	sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$(agent_pid)/status" 2>/dev/null || echo 0
}

progress() {
	local requests bytes
	requests=$(($(counter requests_express) + $(counter requests_agent)))
	bytes=$(counter bytes_to_client)
	printf 'soak: %5ds  %9d requests (%d%% express)  %6d MB spliced  %4d faults  agent %5d kB  %s\n' "$SECONDS" \
		"$requests" $((requests ? $(counter requests_express) * 100 / requests : 0)) $((bytes >> 20)) \
		"$(wc -l <"$world/faults")" "$(rss_kb)" "$([ ! -s "$world/failed" ] || echo "PROBLEMS: $(wc -l <"$world/failed")")"
}

# sockets SIDE SS-WORD…: of the gateway's to clients (sport) or engines (dport)
sockets() {
	local side=$1
	shift
	kv_in "$KV_ID-gw" ss -Htan "$@" "( $side = :8000 or $side = :8002 )" | wc -l
}

# of engine I, on all of its addresses
engine_foreign_bytes() {
	local to
	for to in "10.72.$1.2:8000" "[fd72::$1:2]:8000" "10.72.$1.2:8002"; do
		kv_in "$KV_ID-e$1" curl -fsS -g "http://$to/metrics"
	done | sed -n 's/^kv_engine_foreign_bytes{[^}]*} //p' | jq -s add
}

map_entries() {
	bpftool -j map dump pinned "$KV_PIN/$1" | jq length
}

no_client_left() {
	[ "$(sockets sport state all exclude time-wait exclude listening)" = 0 ] && [ "$(map_entries kv_clients)" = 0 ]
}

# What must be gone when everybody has gone: {name: number left}
leaks_now() {
	local open ids fds upstreams
	open=$(kvs -j status | jq '.upstreams.open')
	ids=$(map_entries kv_upstream_ids)
	# One that ends between the two looks is no leak.
	upstreams=$(sockets dport state established)
	fds=$(find "/proc/$(agent_pid)/fd" -type l -lname 'socket:*' | wc -l)
	kv_under_way | jq -s --argjson clients "$(map_entries kv_clients)" --argjson ids $((ids - open)) \
		--argjson sockets "$(sockets sport state all exclude time-wait exclude listening)" \
		--argjson upstreams $((upstreams > open ? upstreams - open : 0)) \
		--argjson fds $((fds > open + 24 ? fds - open - 24 : 0)) '{
			inflight_requests: (map(.requests // 0) | add), inflight_tokens: (map(.tokens // 0) | add),
			lent_clients: (map(select(has("lent_client"))) | length), busy_upstreams: (map(select(has("upstream"))) | length),
			client_entries: $clients, client_sockets: $sockets, upstream_entries: $ids, upstream_sockets: $upstreams, fds: $fds}'
}

no_leak() {
	left=$(leaks_now)
	jq -e 'all(. == 0)' <<<"$left" >/dev/null
}

# Idle upstreams are closed all the time, which takes a moment: what is left is what stays.
leaks() {
	local i
	for ((i = 1; i <= ENGINES; i++)); do engine_fault "$i" '{}'; done
	until_true 30 kv_at_rest 2>/dev/null || true
	# TIME_WAIT of shifted connections keeps their entries for a minute.
	until_true 150 no_client_left 2>/dev/null || true
	until_true 20 no_leak 2>/dev/null || true
}

traffic_part() {
	local seconds=$((SOAK_MINUTES * 60)) i pids=() start=$SECONDS
	: >"$world/faults"
	: >"$world/failed"
	kv_up $CLIENTS $ENGINES "${TWICE_ENGINE[@]}"
	soak_config >"$KV_RUN/kvsteer.yaml"
	kv_gateway_with -c "$KV_RUN/kvsteer.yaml"
	kv_serves "$KV_V4" "$KV_V6" "$TWICE_V4"
	impair_all
	for ((i = 1; i <= CLIENTS; i++)); do
		client "$i" "$seconds" &
		pids+=($!)
	done
	faults $((seconds > 20 ? seconds - 15 : seconds)) &
	pids+=($!)
	while [ $((SECONDS - start)) -lt $seconds ]; do
		sleep 10
		progress || true
		[ -n "${first_rss:-}" ] || [ $((SECONDS - start)) -lt 60 ] || first_rss=$(rss_kb)
	done
	wait "${pids[@]}"
	while read -r line; do problem "$line"; done <"$world/failed"
}

# ---- the whole --------------------------------------------------------------------------

# bats_file FILE: its long form, and meanwhile where it is; then its counts as JSON in $world/bats
bats_file() {
	local name log seconds=$SECONDS pid next=$((SECONDS + 60))
	name=$(basename "$1" .bats)
	log=.output/tests/log/bats-$name.log
	: >"$log"
	KV_SOAK=1 BATS_SECONDS=3600 KV_NO_LOG='' tests/run all "$1" >"$world/bats-$name" 2>&1 &
	pid=$!
	while alive "$pid"; do
		sleep 1
		[ $SECONDS -ge $next ] || continue
		next=$((SECONDS + 60))
		echo "soak: $name: $((SECONDS - seconds)) s, $(grep -cE '^(not )?ok ' "$log") of $(sed -n '1s/^1\.\.//p' "$log") tests done"
	done
	wait "$pid" || problem "long form of $name: $(tail -n 1 "$world/bats-$name")"
	cat "$world/bats-$name"
	tail -n 1 "$world/bats-$name" | jq -R --arg name "$name" --argjson seconds $((SECONDS - seconds)) \
		'capture("(?<p>[0-9]+) passed, (?<f>[0-9]+) failed, (?<s>[0-9]+) skipped") | map_values(tonumber) |
			{name: $name, passed: .p, failed: .f, skipped: .s, seconds: $seconds}' >>"$world/bats"
}

bats_part() {
	local n file
	mkdir -p .output/tests/log
	for n in $SOAK_BATS; do
		for file in tests/bats/"$n"_*.bats; do bats_file "$file"; done
	done
}

# summary: .output/soak.json as Markdown
summary() {
	jq -r '
		def millions: if . >= 1e9 then "\(. / 1e7 | round / 100) GB" else "\(. / 1e6 | round) MB" end;
		def list: if length == 0 then "none" else to_entries | map("\(.value) \(.key | gsub("_"; " "))") | join(", ") end;
		"| what | seed \(.seed), \(.minutes) minutes of traffic, commit \(.commit) |", "|---|---|",
		"| requests; answered in full; given up by the client | \(.requests); \(.ok); \(.aborted_by_client) |",
		"| lanes | \(.lanes.express) express, \(.lanes.agent) agent, \(.lanes.refused) refused |",
		"| connections of clients; lends | \(.connections); \(.lanes.lends) |",
		"| bytes of bodies, sent and received | \(.bytes | millions) |",
		"| faults injected | \(.faults | add // 0): \(.faults | list) |",
		"| packets through the impairment | \(.network.packets): \(.network | {lost, reordered, duplicated, corrupted, cut} | list) |",
		"| errors, visible: refused | \(.errors.refused | with_entries(.key |= "with \(.)") | list) |",
		"| broken off; of those, answers that only a close delimits | \(.errors.broken); \(.errors.truncated) |",
		"| closed before a byte of an answer (also pipelined behind one that ends the connection) | \(.errors.unanswered) |",
		"| connect failed: RST on a port that was bound again at once, behind a lossy link; no port left on the client itself | \(.errors.connect_failed - .errors.no_port); \(.errors.no_port) |",
		"| **wrong bytes, foreign bytes (clients; engines), hung** | **\(.errors.wrong_bytes), \(.errors.foreign_bytes); \(.errors.engine_foreign), \(.errors.hung)** |",
		"| **left behind: requests, tokens, lends, upstreams, entries, sockets, descriptors** | **\(.leaks | add)** |",
		"| agent\u0027s memory after the first minute, and at the end | \(.agent_rss_kb[0]) kB, \(.agent_rss_kb[1]) kB |",
		(if .bats | length > 0 then "| long forms of \(.bats | map(.name) | join(", ")) | \(.bats | map(.passed) | add) passed, \(.bats | map(.failed) | add) failed, \(.bats | map(.skipped) | add) skipped, \(.bats | map(.seconds) | add / 60 | round) minutes |" else empty end),
		"| problems | \(if .problems | length == 0 then "none" else .problems | map(gsub("\\|"; "/")) | join("; ") end) |"' .output/soak.json
}

first_rss='' left='{}'
traffic_part
leaks
last_rss=$(rss_kb)
traffic=$(traffic_sum)
network=$(impaired)
[ "$(jq '[.[]] | all(. == 0)' <<<"$left")" = true ] || problem "leaks: $(jq -c . <<<"$left"); under way: $(kv_under_way | grep -v backend | paste -sd' ')"
[ "$last_rss" -le $((${first_rss:-$last_rss} + 32768)) ] || problem "the agent has grown from $first_rss kB to $last_rss kB"
for ((i = 1; i <= ENGINES; i++)); do
	[ "$(engine_foreign_bytes "$i")" = 0 ] || problem "engine $i got foreign bytes"
done
[ "$(jq '.foreign_bytes + .wrong_bytes + .engine_foreign + .hung + .failed' <<<"$traffic")" = 0 ] || problem "traffic: $(jq -c . <<<"$traffic")"
lanes=$(kvs -j counters | jq 'def c($n): [.. | objects | .[$n]? | numbers] | first;
	{express: c("requests_express"), agent: c("requests_agent"), refused: c("requests_refused"), lends: (c("lends") + c("lends_midflight"))}')
kv_clean_end || problem "no clean end"
faults=$(sort "$world/faults" | uniq -c | jq -Rs '[split("\n")[] | select(. != "") | capture("(?<n>[0-9]+) (?<k>.*)")] | map({key: .k, value: (.n | tonumber)}) | from_entries')
bats_part
touch "$world/problems" "$world/bats"
jq -n --argjson minutes "$SOAK_MINUTES" --argjson seed "$SOAK_SEED" --arg commit "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" \
	--argjson traffic "$traffic" --argjson network "$network" --argjson faults "$faults" --argjson leaks "$left" --argjson lanes "$lanes" \
	--argjson rss "[${first_rss:-0}, $last_rss]" --slurpfile bats "$world/bats" --rawfile problems "$world/problems" '{
		commit: $commit, minutes: $minutes, seed: $seed,
		requests: $traffic.requests, ok: $traffic.ok, aborted_by_client: $traffic.aborted, connections: $traffic.connections,
		bytes: ($traffic.bytes_sent + $traffic.bytes_received), lanes: $lanes,
		faults: $faults, network: $network,
		errors: ($traffic | {broken, truncated, unanswered, refused, connect_failed, no_port, hung, foreign_bytes, wrong_bytes, engine_foreign}),
		leaks: $leaks, agent_rss_kb: $rss, bats: $bats,
		problems: ($problems | split("\n") | map(select(. != "")))}' >.output/soak.json
summary | tee .output/soak.md
echo "soak: $([ $bad = 0 ] && echo passed || echo FAILED); .output/soak.json has it all, .output/soak.md this table, .output/soak/ the logs"
exit $bad
