# SPDX-License-Identifier: BSD-2-Clause
"""Engine 2 runs without a prefix cache, engine 1 with one, and neither tells of it: conversations go on until what
is believed of engine 2 does not count any more, and then some turns more."""
from talk import Talk
from world import backends, check, client, reset_caches, row

ROUNDS, TALKS = 12, 24


def states():
    return {name: b["affinity"]["state"] for name, b in backends().items()}


reset_caches(["10.72.1.2:8000"])
talks, asked, cached, after = [], 0, 0, None
with client() as api:
    for n in range(ROUNDS * TALKS):
        if n % (4 * TALKS) == 0:
            talks = [Talk(f"affinity {n}", m) for m in range(TALKS)]
        prompt, had = talks[n % TALKS].turn(api)
        asked, cached = asked + prompt, cached + had
        if after is None and states()["engine-2"] == "down":
            after = n + 1
            before = backends()
        elif after and n - after > 2 * TALKS:
            break
last = backends()
check(after is not None, "an engine without a prefix cache is turned down", last)
check(last["engine-1"]["affinity"]["state"] == "full", "the one with a cache is not", last["engine-1"])
if after:
    believed = last["engine-2"]["matched_tokens"] - before["engine-2"]["matched_tokens"]
    check(not believed, "nothing is counted on there", believed)
    share = [(b["requests"] - before[name]["requests"]) for name, b in last.items()]
    row("engine 2 without a prefix cache, no events", f"turned down after {after} requests; of the {sum(share)} after that {share[0]} went to engine 1; "
        f"{cached / asked:.1%} of all prompt tokens cached")
