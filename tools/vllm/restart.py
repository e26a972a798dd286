# SPDX-License-Identifier: BSD-2-Clause
"""An engine is killed and started again under load. usage: restart.py MARK-FILE

The file says what has happened: killed, back. Requests repeat a set whose answers are known from the engines."""
import collections
import pathlib
import sys
import threading
import time

from world import ENGINES, LANES, MODEL, backends, check, client, client_of, note, row, until

mark = pathlib.Path(sys.argv[1])
# Every third answer takes some seconds, so that some are always under way.
PROMPTS = [(f"{n}: " + f"question number {n * n} " * (10 + n * 5), 40 if n % 3 else 500) for n in range(12)]
Outcome = collections.namedtuple("Outcome", "at lane stream error right")
outcomes, stopped = [], threading.Event()


def ask(api, prompt, stream):
    answer = api.completions.create(model=MODEL, prompt=prompt[0], max_tokens=prompt[1], temperature=0,
                                    stream=stream)
    return "".join(c.choices[0].text for c in answer) if stream else answer.choices[0].text


with client(ENGINES[0]) as api:
    wanted = [ask(api, p, False) for p in PROMPTS]


def worker(lane, n):
    with client_of(lane) as api:
        i = n
        while not stopped.is_set():
            at, error, right = time.monotonic(), None, None
            try:
                right = ask(api, PROMPTS[i % len(PROMPTS)], i % 2 == 0) == wanted[i % len(PROMPTS)]
            except Exception as e:  # every kind counts
                error = type(e).__name__ + ": " + str(e)[:80]
            outcomes.append(Outcome(at, lane, i % 2 == 0, error, right))
            i += 1
            time.sleep(0.05)


def wait_for(text, seconds):
    until(seconds, lambda: mark.exists() and mark.read_text().strip() == text)
    return time.monotonic()


threads = [threading.Thread(target=worker, args=(lane, n)) for lane in LANES for n in range(3)]
first = backends()
for thread in threads:
    thread.start()
killed = wait_for("killed", 120)
time.sleep(8)
dead = backends()
back = wait_for("back", 900)
up = until(60, lambda: backends()["engine-2"]["state"] == "up")
returned = backends()["engine-2"]
deadline = time.monotonic() + 60
while time.monotonic() < deadline and backends()["engine-2"]["requests"] - returned["requests"] < 10:
    time.sleep(0.2)
last = backends()
stopped.set()
for thread in threads:
    thread.join()

errors = [o for o in outcomes if o.error]
wrong = [o for o in outcomes if o.right is False]
late = [o for o in errors if not killed - 30 <= o.at <= killed + 0.3]
check(dead["engine-1"]["requests"] > first["engine-1"]["requests"] and
      dead["engine-2"]["requests"] > first["engine-2"]["requests"], "both engines served before")
if len(errors) == len(late):
    note("no request had been answered in part by the engine that was killed: none could fail")
check(not wrong, f"engine killed and started again: none of {len(outcomes)} answers is wrong", wrong)
check(dead["engine-2"]["state"] == "down", "the dead engine is known to be down", dead["engine-2"])
check(up is not None, "it is known to be up again", returned)
check(not late, "only requests under way at the dead engine fail", "\n".join(f"{o.at - killed:+.1f} s {o}" for o in late))
check(last["engine-2"]["requests"] - returned["requests"] >= 10, "it gets requests again once it is back", last)
check(last["engine-2"]["epoch"] > first["engine-2"]["epoch"], "its cache counts as lost", last["engine-2"])
for o in errors:
    note(f"{o.at - killed:+.1f} s {o.lane} {'streamed' if o.stream else 'plain'}: {o.error}")
row("engine killed and started again under load",
    f"{len(outcomes)} requests, 6 at a time: {len(wrong)} wrong, {len(errors)} failed, {len(errors) - len(late)} of them under way "
    f"at the kill; in use again {up or 0:.1f} s after it answered")
