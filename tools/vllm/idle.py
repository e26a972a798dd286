# SPDX-License-Identifier: BSD-2-Clause
"""uvicorn closes a connection that was idle for 5 s: requests at that very pace must not meet it."""
import threading
import time

from world import LANES, MODEL, check, client_of, counters, row

SECONDS = 66
PERIODS = (4.9, 4.95, 4.99, 5.0, 5.0, 5.01, 5.05, 5.1)
errors, answered = [], []


def asker(lane, n, period, until):
    with client_of(lane) as api:
        number = 0
        while time.monotonic() < until:
            start = time.monotonic()
            try:
                prompt = f"{lane} {n} asks for the {number}th time. " + "And so on. " * 40
                api.completions.create(model=MODEL, prompt=prompt, max_tokens=3, temperature=0)
                answered.append(1)
            except Exception as e:  # every kind counts
                errors.append(f"{lane}, one each {period} s, request {number}: {e!r}")
            number += 1
            # from one answer's end to the next request, which is what the engine's timer sees
            time.sleep(period if n % 2 else max(0, start + period - time.monotonic()))


before = counters()
end = time.monotonic() + SECONDS
threads = [threading.Thread(target=asker, args=(lane, n, period, end))
           for lane in LANES for n, period in enumerate(PERIODS)]
for thread in threads:
    thread.start()
    time.sleep(0.3)
for thread in threads:
    thread.join()
after = counters()
moved = [f"{k} {v - before[k]}" for k, v in after.items() if v > before[k] and ("stale" in k or "retry" in k)]
check(not errors, f"uvicorn's keep-alive of 5 s: no error in {len(answered)} requests, one each 4.9 to 5.1 s",
      "\n".join(errors))
row("requests at the pace of the engine's keep-alive",
    f"{len(errors)} errors in {len(answered) + len(errors)}; {', '.join(moved) or 'no idle connection was found closed'}")
