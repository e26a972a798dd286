#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# kvsteer record, and the circle: traffic of known sharing goes through the gateway and is recorded;
# what the simulator makes of the recording is what happened.

load lib

BLOCK=64    # tokens: of the recordings, and of the engines
BLOCKS=120  # of an engine's cache: the three hold five sixths of a run
RATE=80000

setup_file() {
	kv_up 1 3 --block-size $BLOCK --blocks $BLOCKS --rate $RATE
	config price >"$KV_RUN/kvsteer.yaml"
	kv_gateway_with -c "$KV_RUN/kvsteer.yaml"
	kv_serves "$KV_V4" "$KV_V6"
}

teardown_file() { kv_down; }

setup() { cd "$BATS_TEST_TMPDIR" || return; }

# What a test that failed has left running.
teardown() {
	local pid
	for pid in $(cat record*.pid 2>/dev/null); do kill -KILL "$pid" 2>/dev/null || true; done
}

# config POLICY: with the sizes that the engines have
config() {
	kv_config "$1" | sed "s/\(address: \"[^\"]*\"\)/\1, capacity: ${BLOCKS}x$BLOCK, rate: $RATE/"
}

# groups SEED: a trace of 12 groups of 14 requests, of which each has 8 blocks of its group and 2 of its
# own (of 512 tokens: --scale 0.125 makes 64 of them), in one order; another SEED has other blocks. New are 12 x 8 + 168 x 2 of 1680 blocks.
CEILING=$(jq -n '1 - (12 * 8 + 168 * 2) / 1680')
groups() {
	python3 - "$1" <<'PYTHON'
import random, sys
seed = int(sys.argv[1])
order = [g for g in range(12) for _ in range(14)]
random.Random(7).shuffle(order)
for i, g in enumerate(order):
    ids = [100000 * seed + 100 * g + j for j in range(8)] + [100000 * seed + 50000 + 2 * i + j for j in range(2)]
    print(f'{{"timestamp":{i * 9},"input_length":5120,"output_length":1,"hash_ids":{ids}}}')
PYTHON
}

# recording FILE OPTION…: from here on, until ended
recording() {
	# not by kvs: $! must be the command itself
	nsenter --net="/run/netns/$KV_ID-gw" "$KV_BIN/kvsteer" --pin "$KV_PIN" record -o "$@" >record.out 2>record.err 3>&- &
	echo $! >record.pid
	until_true 5 test -s "$1" || die "$(cat record.out record.err)"
}

# ended: shows what it said
ended() {
	local rc=0
	kill -INT "$(cat record.pid)"
	wait "$(cat record.pid)" || rc=$?
	cat record.out record.err
	return $rc
}

replay() {
	from 1 "$KV_OUT/kv-replay" --to "$KV_V4" --scale 0.125 --engines 3 --api completions "$@" 2>/dev/null
}

simulated() { "$KV_BIN/kvsteer" -j simulate "$@"; }

# agree LIVE SIMULATED I: hit rates within 2 points, of the I-th run
agree() {
	jq -ne --slurpfile live "$1" --slurpfile sim "$2" --argjson i "$3" '
		($live[0].hit_rate) as $a | ($sim[0].runs[$i].hit_rate) as $b |
		if ($a - $b | fabs) < 0.02 then true else error("live \($a), simulated \($b)") end'
}

# complete PROMPT [CURL OPTION…]: one request, and the engine that answered
complete() {
	local prompt=$1
	shift
	from 1 curl -fsS -m 10 -o /dev/null -D - -H 'Content-Type: application/json' "$@" \
		-d "{\"model\":\"emulated\",\"max_tokens\":1,\"prompt\":\"$prompt\"}" "http://$KV_V4/v1/completions" |
		tr -d '\r' | sed -n 's/^x-engine: //p'
}

@test "the circle: what was sent is what was recorded, and the simulator says what came of it" {
	groups 1 >trace
	recording one.jsonl --service v4
	replay trace >live
	ended
	grep -q '^168 requests in' record.err
	simulated one.jsonl --policy price,round-robin >sim
	jq -c '.runs[] | [.policy, .hit_rate, .hit_ceiling]' sim
	# sizes are those of the gateway that was recorded
	jq -e --argjson blocks $BLOCKS --argjson block $BLOCK --argjson rate $RATE '.backends == 3 and .blocks == $blocks and
		.block_tokens == $block and .rate_tokens_per_s == $rate and .runs[0].requests == 168' sim
	jq -e --argjson c "$CEILING" '.runs[0].hit_ceiling - $c | fabs < 1e-9' sim
	agree live sim 0
	# the question that it is for: the same traffic by another policy
	config round-robin >rr.yaml
	kvs apply rr.yaml
	groups 2 >trace2
	replay trace2 >live2
	agree live2 sim 1
	jq -e '.runs[0].hit_rate > .runs[1].hit_rate + 0.05' sim
	config price >price.yaml
	kvs apply price.yaml
}

@test "the express lane is recorded as well as the agent's" {
	local express
	groups 3 >trace
	express=$(counter requests_express)
	recording two.jsonl.gz --service v4
	replay --hint trace >live
	ended
	[ $(($(counter requests_express) - express)) -ge 160 ]
	gzip -t two.jsonl.gz
	[ "$(zcat two.jsonl.gz | wc -l)" = 169 ]
	simulated two.jsonl.gz --policy price >sim
	jq -e --argjson c "$CEILING" '.runs[0].hit_ceiling - $c | fabs < 1e-9' sim
	agree live sim 0
}

# absent PATTERN FILE
absent() { [ "$(grep -ciE "$1" "$2")" = 0 ]; }

@test "no text and no hash of a prompt is in it, and none but the service's" {
	local hint word
	hint=$(hint 640 secret)
	recording r.jsonl --service v4
	complete "a secret prompt, $(printf 'of some words %.0s' {1..40})" >/dev/null
	complete hello -H "KV-Prefix: $hint" -H 'X-Session-ID: whose' >/dev/null
	from 1 curl -fsS -m 5 -o /dev/null "http://$KV_V4/v1/models"
	from 1 curl -fsS -m 5 -g -o /dev/null -d '{"model":"emulated","max_tokens":1,"prompt":"six"}' "http://$KV_V6/v1/completions"
	ended
	cat r.jsonl
	[ "$(wc -l <r.jsonl)" = 3 ]
	grep -q '^1 without a prompt' record.err
	[ "$(stat -c %a r.jsonl)" = 600 ]
	absent 'secret|words|hello|whose' r.jsonl
	for word in $(grep -oE '[0-9a-f]{16}' <<<"$hint"); do
		absent "$word|$(printf %u "0x$word")" r.jsonl
	done
	# the ladder's depths are, and numbers in the order of appearance
	tail -n 1 r.jsonl | jq -e '.input_length == 640 and (.boundaries | contains([64, 128, 256, 512])) and
		(.hash_ids | length == 10 and .[9] == .[0] + 9)'
	tail -n 2 r.jsonl | jq -se '.[0].session == null and .[1].session == 1'
	head -n 1 r.jsonl | jq -e '.service == "v4"'
}

@test "a request that is tried again is one, and an agent that takes over is heard" {
	local i pid
	for i in 1 2; do kv_fault $i '{"rst_before_headers": true, "count": 1}'; done
	recording r.jsonl --service v4
	for i in 1 2 3 4 5 6; do complete "retried $i" >/dev/null; done
	pid=$(agent_pid)
	kvs restart
	[ "$(agent_pid)" != "$pid" ]
	for i in 1 2 3; do complete "after $i" >/dev/null; done
	ended
	[ "$(counter agent_retries)" -gt 0 ]
	[ "$(wc -l <r.jsonl)" = 10 ]
}

@test "what finds no room is told" {
	local lost
	recording r.jsonl --service v4 --buffer 4096
	kill -STOP "$(cat record.pid)"
	# one connection; what stands behind # stays with curl
	from 1 curl -fsS -m 10 -H 'Content-Type: application/json' -d '{"model":"emulated","max_tokens":1,"prompt":"x"}' \
		"http://$KV_V4/v1/completions#[1-100]" >/dev/null
	kill -CONT "$(cat record.pid)"
	ended
	lost=$(sed -n 's/^\([0-9]*\) requests were lost.*/\1/p' record.err)
	[ "$lost" -gt 20 ]
	[ $((lost + $(wc -l <r.jsonl))) = 101 ]
}

@test "one at a time; who is killed is in nobody's way for long" {
	local busy
	recording r.jsonl
	busy=$(kvs record -o other.jsonl --duration 1s 2>&1) && false
	[[ $busy == "kvsteer: another recording is under way (process "*")" ]]
	[ ! -e other.jsonl ]
	kill -KILL "$(cat record.pid)"
	wait "$(cat record.pid)" || true
	until_true 5 kvs record -o after.jsonl --duration 300ms --force
	[ "$(wc -l <after.jsonl)" = 1 ]
	kvs -j record -o after.jsonl --duration 100ms --force | jq -e '.requests == 0 and .lost == 0 and .seconds < 2'
	# a trace without a request is none
	run "$KV_BIN/kvsteer" simulate after.jsonl
	[ "$status" = 2 ]
}

@test "an agent that has to make the maps of recordings anew ends a recording, and can be recorded" {
	recording r.jsonl
	rm "$KV_PIN"/kv_record*
	kvs restart
	until_true 5 gone "$(cat record.pid)"
	run wait "$(cat record.pid)"
	grep -q 'r.jsonl ends after 0 requests: kvsteerd has begun anew' record.err
	recording r2.jsonl
	complete "after all" >/dev/null
	ended
	[ "$(wc -l <r2.jsonl)" = 2 ]
}

# says CODE TEXT OPTION…
says() {
	local code=$1 text=$2
	shift 2
	run kvs record "$@"
	echo "$status: $output"
	[ "$status" = "$code" ]
	grep -qF -- "$text" <<<"$output"
}

@test "bad options, and a file that is there" {
	echo mine >here
	says 1 'here is there already: --force writes over it' -o here
	[ "$(cat here)" = mine ]
	says 1 'cannot write none/x: No such file or directory' -o none/x
	says 2 'expected 1/N' -o x --sample 3
	says 2 'expected 1/N' -o x --sample 1/0
	says 2 'expected a time as 60s' -o x --duration soon
	says 2 'expected tokens from 1' -o x --block 0
	says 2 'expected a power of two' -o x --buffer 5000
	says 1 'v5' -o x --service v5
	run kvs -j record --duration 1
	[ "$status" = 2 ]
	jq -e '.error | contains("expected -o FILE")' <<<"$output"
	[ ! -e x ]
	# standard output
	kvs record --duration 200ms 2>err | head -n 1 | jq -e '.kvsteer_trace == 1'
	grep -q '^0 requests in 0.2 s' err
}

@test "when kvsteerd ends so does the recording, and the file is whole" {
	recording r.jsonl.gz --service v4
	complete "the last one" >/dev/null
	kv_stop_gateway
	ended
	gzip -t r.jsonl.gz
	[ "$(zcat r.jsonl.gz | wc -l)" = 2 ]
	says 1 'nothing of kvsteer is pinned there' -o x
}

@test "clean end" { kv_clean_end; }
