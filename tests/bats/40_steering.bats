#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Where requests go: shared prefixes and sessions to one engine, each policy as it says.

load lib

setup_file() {
	kv_up 1 3 --blocks 20000 --rate 200000
	kv_gateway
}

teardown_file() { kv_down; }

ask() {
	from 1 python3 "$KV_TOOLS/ask.py" --to "$KV_V4" --kvsteer "$KV_BIN/kvsteer" "$@"
}

# engines FILE: how many requests each engine answered, "COUNT ENGINE" by rising count
engines() {
	[ -z "$(grep -v '^200 ' "$1")" ] || die "not all were served: $(sort "$1" | uniq -c)"
	cut -d' ' -f2 "$1" | sort | uniq -c | sort -n | sed 's/^ *//'
}

n_engines() {
	engines "$1" | wc -l
}

# policy P: the running agent takes it over
policy() {
	kv_config "$1" >"$KV_RUN/kvsteer.yaml"
	kvs apply "$KV_RUN/kvsteer.yaml"
}

# together FILE OPTION…: 6 prompts, asked for 5 times each: each by one engine
together() {
	local out=$1 k
	shift
	for k in 1 2 3 4 5 6; do
		ask --n 5 --name "${BATS_TEST_NUMBER}-$k" "$@" >"$out"
		[ "$(n_engines "$out")" = 1 ] || die "prompt $k went to: $(engines "$out")"
		# all but the first find the engine's own cache warm
		[ "$(awk '$3 > 0' "$out" | wc -l)" -ge 4 ] || die "no cache hits: $(cat "$out")"
	done
}

@test "same prompt, hinted: one engine, and its cache hits" {
	together "$BATS_TEST_TMPDIR/out" --lane express
}

@test "same prompt, without a hint: one engine" {
	together "$BATS_TEST_TMPDIR/out" --lane agent
}

@test "shared head, different tails, without a hint: one engine" {
	together "$BATS_TEST_TMPDIR/out" --lane agent --tail 100
	together "$BATS_TEST_TMPDIR/out" --lane agent --chat
}

@test "key order and white space of the JSON do not matter" {
	ask --name json --n 1 >"$BATS_TEST_TMPDIR/out"
	ask --name json --n 2 --indent 4 >>"$BATS_TEST_TMPDIR/out"
	[ "$(n_engines "$BATS_TEST_TMPDIR/out")" = 1 ]
}

@test "what the agent lane learned, a hint of kvsteer hash finds" {
	local k
	for k in 1 2 3 4; do
		ask --name "cross-$k" --n 2 >"$BATS_TEST_TMPDIR/out"
		ask --name "cross-$k" --n 2 --lane hash >>"$BATS_TEST_TMPDIR/out"
		[ "$(n_engines "$BATS_TEST_TMPDIR/out")" = 1 ] || die "$(cat "$BATS_TEST_TMPDIR/out")"
	done
}

@test "sessions stay" {
	together "$BATS_TEST_TMPDIR/out" --lane session
}

@test "different prompts use all engines" {
	ask --names 30 --name spread --lane express >"$BATS_TEST_TMPDIR/out"
	[ "$(n_engines "$BATS_TEST_TMPDIR/out")" = 3 ]
	ask --names 30 --name spread-agent >"$BATS_TEST_TMPDIR/out"
	[ "$(n_engines "$BATS_TEST_TMPDIR/out")" = 3 ]
}

@test "policy round-robin: evenly, whatever the prompt" {
	policy round-robin
	for lane in express agent session; do
		ask --n 12 --name rr --lane $lane >"$BATS_TEST_TMPDIR/out"
		[ "$(engines "$BATS_TEST_TMPDIR/out" | cut -d' ' -f1 | sort -u)" = 4 ] || die "$(engines "$BATS_TEST_TMPDIR/out")"
	done
}

@test "policy hash: a prompt's engine does not change" {
	policy hash
	ask --names 8 --n 1 --name h --lane express >"$BATS_TEST_TMPDIR/1"
	ask --names 8 --n 1 --name h --lane express >"$BATS_TEST_TMPDIR/2"
	cmp <(cut -d' ' -f2 "$BATS_TEST_TMPDIR/1") <(cut -d' ' -f2 "$BATS_TEST_TMPDIR/2")
	[ "$(n_engines "$BATS_TEST_TMPDIR/1")" -ge 2 ]
}

@test "policy least: six slow requests at once, two for each engine" {
	policy least
	for lane in express agent; do
		ask --open --n 1 --names 6 --tokens 150000 --name "least-$lane" --lane $lane >"$BATS_TEST_TMPDIR/out"
		[ "$(engines "$BATS_TEST_TMPDIR/out" | cut -d' ' -f1 | sort -u)" = 2 ] || die "$(engines "$BATS_TEST_TMPDIR/out")"
	done
}

@test "policies price, sticky and ttft keep a prompt, all spread" {
	for p in sticky ttft price; do
		policy $p
		ask --n 4 --name "keep-$p" --lane express >"$BATS_TEST_TMPDIR/out"
		[ "$(n_engines "$BATS_TEST_TMPDIR/out")" = 1 ] || die "$p: $(engines "$BATS_TEST_TMPDIR/out")"
		ask --names 24 --name "all-$p" --lane express >"$BATS_TEST_TMPDIR/out"
		[ "$(n_engines "$BATS_TEST_TMPDIR/out")" = 3 ] || die "$p: $(engines "$BATS_TEST_TMPDIR/out")"
	done
}

@test "policy p2c uses all engines" {
	policy p2c
	ask --names 40 --name p2c --lane express >"$BATS_TEST_TMPDIR/out"
	[ "$(n_engines "$BATS_TEST_TMPDIR/out")" = 3 ]
}

@test "policy price: a busy holder is passed over" {
	policy price
	local holder
	holder=$(ask --n 1 --name busy --lane express | cut -d' ' -f2)
	# ten seconds of prefill wait there; the same prompt must not queue behind them
	ask --open --n 1 --names 12 --tokens 500000 --name flood --lane express >"$BATS_TEST_TMPDIR/flood" &
	sleep 0.5
	ask --n 1 --name other --lane express >"$BATS_TEST_TMPDIR/out"
	wait
	[ "$(grep -c '^200 ' "$BATS_TEST_TMPDIR/flood")" = 12 ]
	[ "$(n_engines "$BATS_TEST_TMPDIR/flood")" = 3 ]
	[ -n "$holder" ]
}

# rate_of NAME JQ: its rate, and where it comes from
rate_of() {
	kvs -j backend show "$1" | jq -e ".rate_tokens_per_s as \$rate | .rate_from as \$from | $2" >/dev/null
}

# streamed LANE: long prompts, of which nothing is cached
streamed() {
	ask --stream --names 6 --tokens 40000 --name "rate-$RANDOM" --lane "$1" >"$BATS_TEST_TMPDIR/out"
	! grep -v '^200 ' "$BATS_TEST_TMPDIR/out"
}

@test "how fast an engine computes is learned from its streams, of both lanes; a rate that is set stays" {
	policy price
	# default; or what earlier tests' streams have shown
	rate_of e1 '$from != "configuration"'
	streamed express
	streamed agent
	for e in e1 e2 e3; do
		# five times slower than it is, on a slow machine; the default is 16000
		until_true 10 rate_of $e '$from == "learned" and $rate > 40000 and $rate < 400000' ||
			die "$(kvs -j backend show $e)"
	done
	kvs backend show e1 | grep -q 'rate .* tokens/s of prompts, by what streams have taken'
	kv_config price | sed '0,/8000"}/s//8000", rate: 7000}/' >"$BATS_TEST_TMPDIR/set.yaml"
	kvs apply "$BATS_TEST_TMPDIR/set.yaml" | grep -q 'backend e1: rate learned -> 7000'
	streamed express
	rate_of e1 '$from == "configuration" and $rate == 7000'
	sleep 1.5
	rate_of e1 '$rate == 7000'
	policy price
	until_true 10 rate_of e1 '$from == "learned" and $rate > 40000'
}

@test "clean end" { kv_clean_end; }
