# SPDX-License-Identifier: BSD-2-Clause
"""A run of many conversations at once: how much of all prompts the engines had in their caches, and how much
the simulator says from a recording of it. usage: chats.py POLICY LANE RECORDING"""
import queue
import sys
import threading
import time

from talk import Talk
from world import ENGINES, check, client_of, kvsteer, metric, recording, reset_caches, row

TALKS, TURNS, AT_ONCE = 24, 6, 6
SIMULATED = ("price", "round-robin")
policy, lane, recorded = sys.argv[1:]
turns, usage, errors = queue.Queue(), [], []


def worker():
    with client_of(lane) as api:
        while True:
            try:
                talk, left = turns.get(timeout=5)
            except queue.Empty:
                return
            try:
                start = time.monotonic()
                usage.append((*talk.turn(api), time.monotonic() - start))
                if left > 1:
                    turns.put((talk, left - 1))
            except Exception as e:  # every kind counts
                errors.append(repr(e))


def cached():
    return [(metric(e, "vllm:prefix_cache_hits_total"), metric(e, "vllm:prefix_cache_queries_total")) for e in ENGINES]


reset_caches()
before = cached()
for n in range(TALKS):
    turns.put((Talk("chats", n), TURNS))
start = time.monotonic()
threads = [threading.Thread(target=worker) for _ in range(AT_ONCE)]
with recording(recorded):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
took = time.monotonic() - start - 5

prompts, hits, times = (sum(u[i] for u in usage) for i in range(3))
check(not errors and len(usage) == TALKS * TURNS, f"{policy}, {lane} lane: {TALKS} conversations of {TURNS} turns",
      "\n".join(errors))
moved = [(h - b[0], q - b[1]) for (h, q), b in zip(cached(), before)]
check(sum(m[0] for m in moved) == hits, "the engines' counters tell the same hits as their answers", (moved, hits))
row(f"{TALKS} conversations of {TURNS} turns, {policy}, {lane} lane",
    f"{hits / prompts:.1%} of {prompts} prompt tokens cached; {times / len(usage) * 1000:.0f} ms an answer, {took:.0f} s")
told = kvsteer("simulate", recorded, "--events", "--policy", ",".join(SIMULATED))["runs"]
check([r["requests"] for r in told] == [len(usage)] * len(told), "its recording holds every request", told)
row("… simulated from its recording", ", ".join(f"{r['policy']} {r['hit_rate']:.1%}" for r in told) + " of all blocks cached")
