#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# kvsteer record, and the circle: traffic of known sharing goes through the gateway and is recorded;
# what the simulator makes of the recording is what happened.

load lib

BLOCK=64       # tokens: of the recordings, and of the engines
BLOCKS=400     # of an engine's cache
RATE=60000

setup_file() {
	kv_up 1 3 --block-size $BLOCK --blocks $BLOCKS --rate $RATE --decode-ms 0
	config price >"$KV_RUN/kvsteer.yaml"
	kv_gateway_with -c "$KV_RUN/kvsteer.yaml"
	kv_serves "$KV_V4" "$KV_V6"
}

teardown_file() { kv_down; }

setup() { cd "$BATS_TEST_TMPDIR" || return; }

# config POLICY: with the sizes that the engines have
config() {
	sed "s/\(address: \"[^\"]*\"\)/\1, capacity: ${BLOCKS}x$BLOCK, rate: $RATE/" <<<"$(kv_config "$1")"
}

# groups FILE SEED: a trace of 12 groups of 14 requests; each has 8 blocks of its group (of 512 tokens:
# --scale 0.125 makes 64 of it) and 2 of its own. So 12 x 8 + 168 x 2 of 1680 blocks are new.
groups() {
	python3 - "$2" >"$1" <<'PYTHON'
import random, sys
lot = random.Random(sys.argv[1])
order = [g for g in range(12) for _ in range(14)]
lot.shuffle(order)
for i, g in enumerate(order):
    ids = [100 * g + j for j in range(8)] + [10000 + 2 * i, 10001 + 2 * i]
    print(f'{{"timestamp":{i * 20},"input_length":5120,"output_length":1,"hash_ids":{ids}}}')
PYTHON
}

# recording FILE [OPTION…]: from here on; ended: until here
recording() {
	kvs record -o "$@" 2>record.err 3>&- &
	echo $! >record.pid
	until_true 5 test -s "$1" || { cat record.err; return 1; }
}

ended() {
	local rc=0
	kill -INT "$(pgrep -P "$(cat record.pid)" -x kvsteer || cat record.pid)"
	wait "$(cat record.pid)" || rc=$?
	cat record.err
	return $rc
}

replay() {
	from 1 "$KV_OUT/kv-replay" --to "$KV_V4" --scale 0.125 --engines 3 "$@"
}

@test "the circle: traffic of known sharing" {
	groups trace 1
	recording one.jsonl --service v4
	replay --api completions trace >live.json
	ended
	head -c 300 one.jsonl
	sed -n 2p one.jsonl
	cat live.json | jq -c 'del(.engines)'
	"$KV_BIN/kvsteer" -j simulate one.jsonl --policy price,round-robin | jq -c '.'
	false
}
