# SPDX-License-Identifier: BSD-2-Clause
"""Ends and failures: every fault × plain or streamed × lane × what the client does. Checks what client
and engine see of each, prints the table, then looks whether anything is left.

	matrix.py config|engines …	the configuration; options of a host's kv-engine
	matrix.py run …			the table
	matrix.py cut …			clients that leave at random moments
"""
import argparse
import asyncio
import collections
import itertools
import random
import sys
import time

import matrix_client as client
from matrix_rows import ACTS, LANES, MODES, ROWS, TOKENS, config, engine_options
from matrix_world import World, digest

ABORT_MS = 1000  # within this an engine knows that its client has gone
RUN = time.time_ns()  # tags of this run are its own
CLIENTS = 2  # of each cell: one sends its first request, one its second
WARM = 64  # connections to each engine, so that express requests find one


class Cell:
    def __init__(self, row, mode, lane, act, number, host=None):
        self.host = host  # namespace of another than this one
        self.row, self.mode, self.lane, self.act = row, mode, lane, act
        self.name = f"{mode} {lane} {act} {number}"
        self.tag = f"{RUN:x}-{ROWS.index(row)}-{mode}-{lane}-{act}-{number}"
        self.kept = number % 2  # its connection has served a request before
        self.seen = client.Seen()
        self.bad = []
        self.start_ms = 0

    async def run(self, go, ready):
        try:
            sock = await client.connected(self.row.service, self.host)
            loop = asyncio.get_running_loop()
            if self.kept:
                first = client.Seen()
                await loop.sock_sendall(sock, client.request("GET", "/health"))
                if not await client.read_within(sock, first, 5) or first.what[:3] != "200":
                    self.bad.append(f"GET /health before: {first.what or 'no answer'}")
            ready.release()
            await go.wait()
            self.start_ms = client.now_ms()
            await loop.sock_sendall(
                sock, client.request_bytes(self.mode, self.lane, self.tag, self.row.tokens))
            await client.ask(sock, self.seen, self.act, self.row.act_ms)
        except OSError as e:
            self.bad.append(f"{type(e).__name__}: {e}")
            self.seen.at_ms = self.seen.at_ms or client.now_ms()
            ready.release()

    # ---- what came of it

    @property
    def took(self):
        return self.seen.at_ms - self.start_ms

    def check_client(self, world, attempts):
        """Of a client that stayed."""
        status, engine, end = self.seen.parse()
        if self.seen.what not in self.row.allowed(self.mode, self.lane, self.act):
            self.bad.append(f"client saw {self.seen.what}")
        if self.took > 1000 * self.row.within:
            self.bad.append("late")
        if self.act == "half-closes" and self.seen.end in ("time", "bytes behind the answer"):
            self.bad.append(f"after the client's half-close: {self.seen.end}")
        if end is None:
            if self.seen.data and not any(bytes(self.seen.data) in world.sent(a) for a in attempts):
                self.bad.append("received bytes that no engine sent")
            return
        if end != len(self.seen.data):
            self.bad.append("bytes behind the answer")
        if engine == "gw":
            return
        by = [a for a in attempts if a["engine"] == engine]
        if not any(a["answer"]["status"] == status and
                   a["answer"]["sha256"] == digest(self.seen.data) if a["answer"]
                   else world.sent(a).endswith(self.seen.data) for a in by):
            self.bad.append(f"looks whole, is not what {engine} sent")

    def check_engine(self, attempts, lag_ms):
        row, left = self.row, self.seen.at_ms
        most = ABORT_MS + 2 * lag_ms + (1500 if row.event.endswith("down") else 0)
        if any(a["engine"] == b["engine"] and a["conn"] == b["conn"]
               for a, b in itertools.combinations(attempts, 2)):
            self.bad.append("one connection got the request twice")
        # In the express lane the client itself sends again what nobody has acknowledged.
        if len(attempts) > 3 + (self.lane == "express"):
            self.bad.append(f"{len(attempts)} engines asked")
        if row.once and len(attempts) > 1:
            self.bad.append("asked again after an answer had begun")
        for a in attempts:
            if row.event.startswith("silent") and a["engine"].endswith("bad"):
                continue  # what it sends, and what it is sent, gets lost
            if a is not attempts[-1] and a["answer"]:
                self.bad.append("asked again after an answer")
            if a["answer"] and (self.act != "resets" or a["answer"]["t"] <= left + most):
                continue
            told = [t for t in (a["eof"], a["close"]) if t is not None]
            if not told:
                self.bad.append(f"{a['engine']} was never told that its client had gone")
            elif min(told) > max(left, a["at"]) + most:
                self.bad.append(f"{a['engine']} was told after {min(told) - left} ms")

    def engine_saw(self, attempts):
        words = []
        ends = {"fin_mid_body", "close_after_response"} & self.row.fault.keys()
        for a in attempts:
            if a["how"] == "rst" or ends and a["fin"] is not None:
                word = "ended it"
            elif a["answer"]:
                word = "answered"
            elif a["how"] == "rst from client" and a["eof"] is None:
                word = "got RST"
            else:
                word = "got FIN" if a["eof"] or a["close"] else "got nothing"
            words.append(f"{a['engine'].split('-')[-1]} {word}")
        return " → ".join(words) or "not asked"


class Lag:
    """How late this process is, at most: its own clock readings are not better than that."""

    def __init__(self):
        self.ms = 0

    async def watch(self):
        while True:
            start = client.now_ms()
            await asyncio.sleep(0.02)
            self.ms = max(self.ms, client.now_ms() - start - 20)


# ---- a round ---------------------------------------------------------------------------


async def warm(row):
    """Opens connections, and leaves them idle."""
    async def one(i):
        sock = await client.connected(row.service)
        seen = client.Seen()
        await asyncio.get_running_loop().sock_sendall(
            sock, client.request_bytes("plain", "agent", f"{time.time_ns():x}", 3))
        await client.ask(sock, seen, "waits", 0)
        return seen.what
    seen = collections.Counter(await asyncio.gather(*(one(i) for i in range(WARM))))
    if set(seen) != {"200 bad"}:
        raise SystemExit(f"{row.name}: before any fault: {dict(seen)}")


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
        await asyncio.sleep(0.2)
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


def after(world, rows):
    for r in rows:
        if not r.at:
            world.fault(r, {})
        if r.event.startswith("silent"):
            world.well(r.host)


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
    rows = [r for r in ROWS if (not args.row or r.name in args.row)]
    world.all_up(10)
    files = world.files()
    start = time.monotonic()
    lag = Lag()
    cells = asyncio.run(play(world, rows, lag))
    took = time.monotonic() - start
    time.sleep(ABORT_MS / 1000)
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
    told = max((min(t) - c.seen.at_ms for c in cells if c.act in ACTS[2:]
                for a in log.get(c.tag, []) if not a["answer"] and not c.row.event.startswith("silent")
                if (t := [x for x in (a["eof"], a["close"]) if x is not None])), default=0)
    print(f"{len(cells)} requests in {took:.1f} s, {len(bad)} wrong; engines knew of a client's end "
          f"after {told} ms at most, this test is {lag.ms} ms late at most; "
          f"gauges at zero after {left:.1f} s" + (": NO" if found else ""))
    return not bad and not found


# ---- clients that leave at random moments ----------------------------------------------


class Cut(Cell):
    """Leaves somewhere on the way: inside the head, inside the body, before the answer, inside it."""

    def __init__(self, row, rng, number):
        super().__init__(row, rng.choice(MODES), rng.choice(LANES), rng.choice(ACTS[1:]), number)
        self.tag = f"{RUN:x}-{number}"
        self.data = client.request_bytes(self.mode, self.lane, self.tag, TOKENS)
        self.part = rng.randrange(len(self.data)) if rng.random() < 0.2 else len(self.data)
        self.start = rng.random() * 4
        self.stay = rng.choice((0, 0.01, 0.1, 1)) * rng.random()

    async def go(self):
        await asyncio.sleep(self.start)
        loop = asyncio.get_running_loop()
        try:
            sock = await client.connected(self.row.service)
            await loop.sock_sendall(sock, self.data[:self.part])
            if self.act == "half-closes":
                await asyncio.sleep(self.stay)
                client.half_close(sock)
            await client.ask(sock, self.seen, random.choice(("closes", "resets")),
                             1000 * self.stay)
        except OSError as e:
            self.bad.append(f"{type(e).__name__}: {e}")
            self.seen.at_ms = client.now_ms()


def cut(args, world):
    rows = [r for r in ROWS if r.name in ("slow /health", "accepts and hangs", "RST before any byte",
                                          "RST after 3 tokens", "FIN mid-body")]
    files = world.files()
    for r in rows:
        world.fault(r, r.fault)
    rng = random.Random(args.seed)
    cuts = [Cut(rng.choice(rows), rng, i) for i in range(args.clients)]

    lag = Lag()

    async def play_cuts():
        watch = asyncio.create_task(lag.watch())
        await asyncio.gather(*(c.go() for c in cuts))
        watch.cancel()
    asyncio.run(play_cuts())
    time.sleep(ABORT_MS / 1000)
    log = world.log(args.log)
    for c in cuts:
        c.check_engine(log.get(c.tag, []), lag.ms)
    after(world, rows)
    bad = [c for c in cuts if c.bad]
    for c in bad[:40]:
        print(f"{c.row.name}, {c.name}, {c.part} of {len(c.data)} bytes, "
              f"left after {c.stay * 1000:.0f} ms: {'; '.join(c.bad)}")
    found, left = world.clean(files, args.settle)
    for text in found:
        print("left:", text)
    asked = sum(len(log.get(c.tag, [])) for c in cuts)
    print(f"{len(cuts)} clients cut (seed {args.seed}), {asked} requests reached an engine, {len(bad)} "
          f"wrong; gauges at zero after {left:.1f} s" + (": NO" if found else ""))
    return not bad and not found


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("config", "engines", "run", "cut"))
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
        sys.exit(not (run if args.what == "run" else cut)(args, World(args)))


main()
