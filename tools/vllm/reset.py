# SPDX-License-Identifier: BSD-2-Clause
"""An engine's cache is emptied behind kvsteer's back (/reset_prefix_cache)."""
from talk import Talk
from world import backends, check, client, reset_caches, row


def turn(api, talk):
    before = backends()
    of, had = talk.turn(api)
    believed = sum(b["matched_tokens"] - before[n]["matched_tokens"] for n, b in backends().items())
    total = sum(b["prompt_tokens"] - before[n]["prompt_tokens"] for n, b in backends().items())
    return f"believed {believed / total:.0%}, cached {had / of:.0%}", had / of


reset_caches()
with client() as api:
    talk = Talk("reset", 1)
    for _ in range(3):
        warm = turn(api, talk)
    reset_caches()
    first = turn(api, talk)
    second = turn(api, talk)
check(warm[1] > 0.5 and first[1] == 0 and second[1] > 0.5, "after /reset_prefix_cache the caches fill again",
      (warm, first, second))
row("/reset_prefix_cache: turn before", warm[0])
row("/reset_prefix_cache: first turn after", first[0])
row("/reset_prefix_cache: second turn after", second[0])
