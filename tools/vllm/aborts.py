# SPDX-License-Identifier: BSD-2-Clause
"""A client that goes away: the engine stops computing, as soon as without a gateway."""
import httpx

from world import (ENGINES, GATEWAY, LANES, MODEL, check, client, hint_text, row, running, until)

MESSAGES = [{"role": "user", "content": "count " * 150}]
ARGS = {"model": MODEL, "messages": MESSAGES, "max_tokens": 6000, "temperature": 0}


def streamed(api, chunks):
    """Reads some chunks, and leaves."""
    stream = api.chat.completions.create(**ARGS, stream=True)
    for _ in range(chunks):
        next(stream)
    at_work = running()
    stream.close()
    return at_work


def plain(api):
    """Leaves without having had a byte of the answer."""
    try:
        api.chat.completions.create(**ARGS, timeout=httpx.Timeout(1.5))
        return 0
    except Exception:  # noqa: time-out, of whatever class
        return 1


def abort(to, lane, what):
    with client(to, hint_text if lane == "express" else None) as api:
        at_work = streamed(api, what) if what else plain(api)
        took = until(10, lambda: running() == 0)
    return at_work, took


assert until(10, lambda: running() == 0) is not None
for what, name in ((1, "after one chunk"), (20, "after 20 chunks"), (0, "before the first byte of a plain answer")):
    times = {}
    for to, lane in ((ENGINES[0], "direct"), *((GATEWAY, lane) for lane in LANES)):
        for _ in range(3):
            at_work, took = abort(to, lane, what)
            if at_work != 1 or took is None:
                break
            times[lane] = max(times.get(lane, 0), took)
        if lane != "direct":
            check(at_work == 1 and took is not None, f"{lane} lane: an abort {name} reaches the engine",
                  f"requests at work before: {at_work}; at rest after {took} s")
        until(60, lambda: running() == 0)
    row(f"aborts {name}: engine at rest after (longest of 3)",
        "; ".join(f"{lane} {seconds * 1000:.0f} ms" for lane, seconds in times.items()))
