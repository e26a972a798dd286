# SPDX-License-Identifier: BSD-2-Clause
"""Ends and failures: every fault × plain or streamed × lane × what the client does. Checks what client
and engine see of each, prints the table, then looks whether anything is left.

	matrix.py config|engines …	the configuration; options of a host's kv-engine
	matrix.py run …			the table
	matrix.py cut …			clients that leave at random moments
	matrix.py gone …		clients that leave when they have said that they would, or more
	matrix.py ahead …		clients that send ahead, and then close their side
"""
import argparse
import asyncio
import collections
import sys
import time

from matrix_cell import ABORT_MS, Cell, Lag, after, warm
from matrix_cut import ahead, cut, gone
from matrix_rows import ACTS, LANES, MODES, ROWS, config, engine_options
from matrix_world import World

CLIENTS = 2  # of each cell: one sends its first request, one its second


async def run_row(world, row, cells, offset):
    go, ready = asyncio.Event(), asyncio.Semaphore(0)
    loop = asyncio.get_running_loop()

    def do(f, *args):
        return loop.run_in_executor(None, f, *args)

    tasks = [asyncio.create_task(c.run(go, ready)) for c in cells]
    for _ in cells:
        await ready.acquire()
    await asyncio.sleep(offset)
    if row.event == "fault":
        await do(world.fault, row, row.fault)
    if row.event in ("lend", "silent"):
        await do(world.deaf, row.host)
    if row.event in ("silent", "restart"):
        await do(world.dumb, row.host)
    if row.event == "restart":
        # It knows nothing of its connections any more, and nobody has been told.
        await do(world.fault, row, row.fault)
        await do(world.well, row.host)
    go.set()
    if row.event == "lend":
        # The requests are lost on their way while the engine closes.
        await asyncio.sleep(0.05)
        await do(world.fault, row, row.fault)
        await asyncio.sleep(0.02)
        await do(world.well, row.host)
    elif row.event == "silent later":
        # Streams have begun, and the other answers are far from it.
        end = time.monotonic() + 2
        while time.monotonic() < end and not all(c.seen.data or c.seen.at_ms for c in cells
                                                 if c.mode != "plain"):
            await asyncio.sleep(0.02)
        await do(world.dumb, row.host)
        await do(world.deaf, row.host)
    elif row.event.endswith("down"):
        await asyncio.sleep(0.15)
        await do(world.link, row.event[:2], "down")
        await asyncio.sleep(0.5)
        await do(world.link, row.event[:2], "up")
    await asyncio.gather(*tasks)


async def play(world, rows, lag):
    watch = asyncio.create_task(lag.watch())
    services = [r for r in rows if not r.at]
    for i in range(0, len(services), 4):
        await asyncio.gather(*(warm(r) for r in services[i:i + 4]))
    for r in services:
        if not r.event:
            world.fault(r, r.fault)
    cells = {r.name: [Cell(r, m, lane, a, n, f"{world.id}-c2" if r.client == 2 else None)
                      for m in MODES for lane in LANES for a in ACTS
                      for n in range(CLIENTS)] for r in rows}
    await asyncio.gather(*(run_row(world, r, cells[r.name], i * 0.08)
                           for i, r in enumerate(rows)))
    watch.cancel()
    return [c for r in rows for c in cells[r.name]]


def table(cells, log, f):
    """Rows: faults × modes × lanes. Columns: client saw | engines saw, by what the client did."""
    lines = [["fault", "answer", "lane"] + [f"client {a}" for a in ACTS] + ["s at most"]]
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    most = collections.Counter()
    for c in cells:
        saw = c.engine_saw(log.get(c.tag, []))
        if c.act in ("waits", "half-closes"):
            saw = f"{c.seen.what} | {saw}"
        key = c.row.name, c.mode, c.lane
        groups[key][c.act].append(("!" if c.bad else "") + saw)
        most[key] = max(most[key], c.took)
    for key, acts in groups.items():
        lines.append(list(key) + ["; ".join(sorted(set(acts[a]))) for a in ACTS] +
                     [f"{most[key] / 1000:.1f}"])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print("| " + " | ".join(t.ljust(w) for t, w in zip(line, widths)).rstrip(), file=f)


def run(args, world):
    rows = [r for r in ROWS if (not args.row or r.name.replace(" ", "_") in args.row)]
    world.all_up(120)  # who was ejected stays so for a while
    files = world.files_before()
    start = time.monotonic()
    lag = Lag()
    cells = asyncio.run(play(world, rows, lag))
    took = time.monotonic() - start
    time.sleep((ABORT_MS + 2 * lag.ms) / 1000)
    log = world.log(args.log)
    after(world, rows)
    for c in cells:
        attempts = log.get(c.tag, [])
        if c.act in ("waits", "half-closes"):
            c.check_client(world, attempts)
        c.check_engine(attempts, lag.ms)
    with open(args.table, "w", encoding="utf-8") as f:
        table(cells, log, f)
    bad = [c for c in cells if c.bad]
    for c in bad[:40]:
        print(f"{c.row.name}, {c.name}: {'; '.join(c.bad)} (after {c.took} ms; "
              f"received: {bytes(c.seen.data)[:120]})")
    found, left = world.clean(files, args.settle)
    for text in found:
        print("left:", text)
    told = max((min(t) - max(c.seen.at_ms, a["at"]) for c in cells
                if c.act in ACTS[2:] and not c.row.event.startswith(("silent", "e3", "c2"))
                for a in log.get(c.tag, []) if not a["answer"]
                if (t := [x for x in (a["eof"], a["close"]) if x is not None])), default=0)
    print(f"{len(cells)} requests in {took:.1f} s, {len(bad)} wrong; engines knew of a client's end "
          f"after {told} ms at most, this test and they are {lag.ms} ms late at most; "
          f"gauges at zero after {left:.1f} s" + (": NO" if found else ""))
    return not bad and not found


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("config", "engines", "run", "cut", "gone", "ahead"))
    p.add_argument("--host", type=int, default=1)
    p.add_argument("--id", help="of the namespaces")
    p.add_argument("--run", help="directory of the run")
    p.add_argument("--pin")
    p.add_argument("--control")
    p.add_argument("--bin", help="directory of kvsteer")
    p.add_argument("--log", help="the engines' log")
    p.add_argument("--table", help="where the table goes")
    p.add_argument("--row", action="append", help="only this one")
    p.add_argument("--clients", type=int, default=1000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--settle", type=float, default=10, help="s until the gauges are at zero")
    args = p.parse_args()
    if args.what == "config":
        print("\n".join(config(args.pin, args.control)))
    elif args.what == "engines":
        print("\n".join(engine_options(args.host)))
    else:
        what = {"run": run, "cut": cut, "gone": gone, "ahead": ahead}[args.what]
        sys.exit(not what(args, World(args)))


main()
