#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# kvsteer simulate: the table, the JSON, the plot, and what it says of bad input. No gateway runs.

load lib

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	TRACE=$KV_ROOT/tools/traces/conversation-2000.jsonl.gz
	LINE='{"timestamp":5,"input_length":700,"output_length":1,"hash_ids":[1,2]}'
}

sim() { "$KV_BIN/kvsteer" simulate "$@"; }

# fails PATTERN ARGUMENT…: exit code 2 and one line, as text and as JSON
fails() {
	local pattern=$1
	shift
	run sim "$@"
	echo "$status: $output"
	[ "$status" = 2 ]
	[ "${#lines[@]}" = 1 ]
	grep -qF -- "$pattern" <<<"$output"
	run sim -j "$@"
	[ "$status" = 2 ]
	jq -e '.error | length > 0' <<<"$output" >/dev/null
}

@test "a table: a row for each policy at each speed" {
	run sim "$TRACE" --policy price,dynamo --speed 1,3
	echo "$output"
	[ "$status" = 0 ]
	[[ ${lines[0]} == *"2000 requests, 28.9% of their blocks seen before"* ]]
	[ "$(grep -cE '^(price|dynamo) .* x(1|3) .*%' <<<"$output")" = 4 ]
}

@test "JSON: every name, and figures that hang together" {
	sim -j "$TRACE" --policy all --speed 1,3 >out
	[ "$(wc -l <out)" = 1 ]
	jq -e '.runs | length == 26' out
	jq -e '[.runs[] | select(
		.requests == 2000 and .hit_rate > 0 and .hit_rate < .hit_ceiling and
		.ttft_p50_s <= .ttft_p90_s and .ttft_p90_s <= .ttft_p99_s and .ttft_mean_s > 0 and
		.busiest_over_mean >= 1 and .busiest_over_mean <= 8 and .moves <= .diverted and
		.over >= 0 and .under >= 0 and .seconds > 0 and .decisions_per_s > 0 and
		(.policy | length > 0) and (.state | length > 0) and .speed >= 1)] | length == 26' out
}

@test "incidents: an engine slower, an engine and the agent restarted, in mid-run" {
	for how in "" --learn-rates; do
		sim -j "$TRACE" --policy price --speed 3 --slow 3:4@60 $how >"slow$how"
		sim -j "$TRACE" --policy price --speed 3 $how >"fast$how"
		jq -es '.[0].runs[0].ttft_mean_s > 1.03 * .[1].runs[0].ttft_mean_s' "slow$how" "fast$how"
	done
	jq -es '[.[].runs[0].ttft_p99_s] | .[0] < 1.3 * .[1]' slow--learn-rates slow
	# rates that it begins with are another's: it finds out
	sim -j "$TRACE" --policy price --rate 64000 --speed 12 >known
	sim -j "$TRACE" --policy price --rate 64000 --speed 12 --learn-rates >learned
	jq -es '[.[].runs[0].ttft_p99_s] | .[0] < 1.3 * .[1]' learned known
	sim -j "$TRACE" --policy price --restart 2@30,5@90 --agent-restart 60 --learn-rates --slice 30 >out
	jq -e '.runs[0] | .requests == 2000 and .dead == 0 and (.slices | length > 4) and
		([.slices[].requests] | add) == 2000 and ([.slices[].hits] | add) > 0' out
	jq -es '.[0].runs[0].hit_rate < .[1].runs[0].hit_rate + 0.01' out fast
	# what was in hand there goes to another engine, if there is one
	sim -j "$TRACE" --policy price --speed 4 --restart 1@30,2@30,3@30 >out
	jq -e '.runs[0] | .requests == 2000 and .retried > 0 and .failed == 0' out
	run sim "$TRACE" --policy price --backends 1 --restart 1@30
	echo "$output"
	[ "$status" = 0 ]
	grep -qE 'RETRIED +FAILED$' <<<"$output"
	grep -qE '^price .* [1-9][0-9]*$' <<<"$output"
	grep -qE '^[0-9.]+ million decisions per second of one core' <<<"$output"
	fails 'expected ENGINE:FACTOR' "$TRACE" --slow 3
	fails 'found "3:0": expected ENGINE:FACTOR' "$TRACE" --slow 2:2,3:0
	fails 'expected ENGINE@SECONDS' "$TRACE" --restart 0@5
	fails 'expected ENGINE@SECONDS' "$TRACE" --restart 3@5s
	fails 'expected seconds' "$TRACE" --agent-restart soon
	fails 'engine 9: there are 8' "$TRACE" --restart 9@5
	fails 'more than 32' "$TRACE" --slow "1:2$(printf ',1:2%.0s' {1..64})"
	fails '--slice: found "0"' "$TRACE" --slice 0
}

@test "caches off: affinity turns itself down, and it is least; caches on again: it is back" {
	# after it has turned, which the first 64 Ki tokens of each engine decide
	sim -j "$TRACE" --policy price,least --no-cache all --warmup 200 >auto
	jq -e '.runs[0] as $p | .runs[1] as $l | $p.affinity_down == 8 and $p.affinity_back == 0 and $p.hit_rate == 0 and $p.requests < 2000 and
		$p.ttft_mean_s < 1.02 * $l.ttft_mean_s and $p.ttft_p90_s < 1.04 * $l.ttft_p90_s and $p.ttft_p99_s < 1.04 * $l.ttft_p99_s' auto
	# which is not how it would be without
	sim -j "$TRACE" --policy price --no-cache all --warmup 200 --affinity full >full
	jq -es '.[0].runs[0].ttft_mean_s > 1.05 * .[1].runs[1].ttft_mean_s' full auto
	sim -j "$TRACE" --policy price --warmup 300 >calm
	for policy in price sticky ttft; do
		sim -j "$TRACE" --policy $policy --no-cache all@0-250 --warmup 300 >back
		jq -es '.[0].runs[0] as $b | $b.affinity_down == 8 and $b.affinity_back == 8 and
			$b.hit_rate > 0.75 * .[1].runs[0].hit_rate' back calm
	done
	# one of them only; and none where caches work
	sim -j "$TRACE" --policy price --no-cache 3 >one
	jq -e '.runs[0] | .affinity_down == 1 and .affinity_back == 0 and .hit_rate > 0.15' one
	jq -e '.runs[0] | .affinity_down == 0' calm
	sim -j "$TRACE" --policy price --affinity off >none
	jq -es '.[0].runs[0].hit_rate < 0.6 * .[1].runs[0].hit_rate' none calm
	fails 'expected ENGINE, ENGINE@SECONDS or ENGINE@FROM-TO' "$TRACE" --no-cache 0@5
	fails 'found "3@9-5": expected ENGINE' "$TRACE" --no-cache 2,3@9-5
	fails 'found "ally": expected ENGINE' "$TRACE" --no-cache ally
	fails 'engine 9: there are 8' "$TRACE" --no-cache 9
	fails 'expected auto, full or off' "$TRACE" --affinity on
	fails '--warmup: found "-1"' "$TRACE" --warmup -1
}

@test "the same each time, from a file and from a pipe" {
	sim -j "$TRACE" --speed 2 | jq 'del(.trace, .runs[].decisions_per_s)' >one
	zcat "$TRACE" | sim -j - --speed 2 | jq 'del(.trace, .runs[].decisions_per_s)' >two
	cmp one two
}

@test "cache affinity pays on a real trace: hits and first tokens against least and round-robin" {
	sim -j "$TRACE" --policy price,least,round-robin --speed 3 >out
	jq -e '[.runs[].hit_rate] | .[0] > 3 * .[1] and .[0] > 3 * .[2]' out
	jq -e '[.runs[].ttft_p90_s] | .[0] < 0.75 * .[1] and .[0] < 0.3 * .[2]' out
	jq -e '.runs[0].busiest_over_mean < 1.2' out
}

@test "learned state is near the truth, told state believes in nothing that is gone" {
	sim -j "$TRACE" --policy price --learned >learned
	sim -j "$TRACE" --policy price --events >told
	jq -e '.runs[0] | .state == "learned" and .over < 0.01 and .under < 0.02' learned
	jq -e '.runs[0] | .state == "events" and .over == 0 and .under < 0.02' told
}

@test "late metrics change nothing for policies that count for themselves" {
	for s in 0 1 5 15; do
		sim -j "$TRACE" --policy price,llm-d --metrics-delay $s |
			jq -c '[.runs[].ttft_mean_s]' >>means
	done
	[ "$(jq '.[0]' means | sort -u | wc -l)" = 1 ]
	jq -se '.[3][1] > 1.5 * .[0][1]' means
}

@test "a plot, over speeds and of one" {
	sim "$TRACE" --speed 1,2 --plot lines.svg >/dev/null
	sim "$TRACE" --plot bars.svg >/dev/null
	for f in lines.svg bars.svg; do
		python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' $f
		grep -q '>price</text>' $f
		grep -q 'Hit rate' $f
	done
	run sim "$TRACE" --plot none/x.svg
	[ "$status" = 1 ]
	[[ $output == "kvsteer: cannot write none/x.svg: No such file or directory" ]]
}

@test "Azure's CSV: nothing is shared, and affinity costs nothing" {
	{
		echo TIMESTAMP,ContextTokens,GeneratedTokens
		for i in $(seq 10 59); do
			echo "2023-11-16 18:15:$i.6805900,$((i * 97 % 4000 + 1)),44"
		done
	} >azure.csv
	sim -j azure.csv --policy price,least --backends 2 --rate 1000 >out
	jq -e '.runs[0] | .requests == 50 and .hit_rate == 0 and .hit_ceiling == 0' out
	jq -e '[.runs[].ttft_mean_s] | .[0] <= 1.01 * .[1]' out
}

@test "made traffic: affinity pays where prompts have something in common, and costs nothing where not" {
	sim -j --workload groups --block 64 --blocks 500 --policy price,round-robin >groups
	jq -e '.trace == "groups" and .runs[0].hit_rate > 0.75 and .runs[1].hit_rate < 0.3' groups
	sim -j --workload groups-zipf --block 64 --blocks 500 --policy price >zipf
	jq -e '.runs[0] | .hit_rate > 0.75 and .busiest_over_mean < 1.2' zipf
	sim -j --workload burst --backends 4 --policy price >burst
	jq -e '.runs[0] | .requests == 100 and .busiest_over_mean < 2' burst
	sim -j --workload nosharing --block 16 --blocks 64000 --policy price,least >none
	jq -e '[.runs[].ttft_p99_s] | .[0] < 1.01 * .[1]' none
	sim -j --workload chats --block 16 --blocks 8000 --policy price >chats
	sim -j --workload chats --block 16 --blocks 8000 --policy price --no-sessions >strangers
	jq -e '.runs[0] | .hit_rate > 0.95 * .hit_ceiling' chats
	jq -e '.runs[0] | .hit_rate < 0.5 * .hit_ceiling' strangers
}

@test "bad lines: which, and what was expected" {
	echo "$LINE" >good
	{ cat good && echo '{"timestamp":4,"input_length":700,"output_length":1,"hash_ids":[1,2]}'; } >unsorted
	fails 'unsorted:2: 0.004 s, after 0.005 s' unsorted
	{ cat good && echo '{"timestamp":'; } >broken
	fails 'broken:2: no JSON' broken
	fails 'expected 6, as blocks have 128 tokens' good --block 128
	echo hello >text
	fails 'text:1: "hello": expected a JSON object' text
	: >empty
	fails 'empty: expected at least one request' empty
	head -c 20000 "$TRACE" >short.gz
	fails 'the file is damaged or cut short' short.gz
	run sim none
	[ "$status" = 1 ]
	[ "$output" = "kvsteer: cannot open none: No such file or directory" ]
}

@test "bad options: what was expected" {
	fails 'expected one or more of all, price, sticky' "$TRACE" --policy cheapest
	fails '"price" stands there twice' "$TRACE" --policy price,all
	fails 'expected a whole number from 1 to 256' "$TRACE" --backends 257
	fails 'expected a whole number from 1' "$TRACE" --blocks 0
	fails 'expected up to 2^36 tokens' "$TRACE" --blocks 60000000 --block 4096
	fails 'expected up to 2^26 blocks in all' "$TRACE" --blocks 60000000 --block 16
	fails 'expected tokens per second' "$TRACE" --rate -3
	fails 'expected factors' "$TRACE" --speed 1,zero
	fails 'expected seconds' "$TRACE" --metrics-delay soon
	fails 'expected one of them' "$TRACE" --events --learned
	fails 'expected one of ladder, groups' --workload nothing
	fails 'expected a trace or --workload NAME'
	fails 'expected a trace or --workload NAME' "$TRACE" --workload burst
}

@test "a trace is never in memory as a whole" {
	# 100 MB of requests, and 80 MB of address space for all that the program needs
	python3 - >long.jsonl <<'PYTHON'
head = ','.join(str(1000000 + j) for j in range(190))
for i in range(70000):
    tail = ','.join(str(2000000 + 10 * i + j) for j in range(10))
    print(f'{{"timestamp":{i * 10},"input_length":102400,"output_length":1,"hash_ids":[{head},{tail}]}}')
PYTHON
	[ "$(stat -c %s long.jsonl)" -gt 100000000 ]
	(
		ulimit -v 80000
		# the sanitizers' build takes terabytes of address space
		"$KV_OUT/kvsteer" simulate long.jsonl --policy price --backends 4 --blocks 500
	)
}
