# SPDX-License-Identifier: BSD-2-Clause
"""Clients that leave: at random moments, where the gateway does not read, having sent ahead."""
import asyncio
import random
import time

import matrix_client as client
from matrix_cell import ABORT_MS, RUN, Cell, Lag, after, warm
from matrix_rows import ACTS, LANES, MODES, ROWS, TOKENS


class Cut(Cell):
    """Leaves somewhere on the way: inside the head, inside the body, before the answer, inside it; of
    the first request or the second, reading or not."""

    def __init__(self, row, rng, number, seconds):
        super().__init__(row, rng.choice(MODES), rng.choice(LANES), rng.choice(ACTS[1:]), number)
        self.tag = f"{RUN:x}-{number}"
        self.what = rng.choice(("answer", "answer", "download", "upload", "two"))
        self.kept = rng.random() < 0.3
        self.data = self.bytes(rng)
        self.part = rng.randrange(len(self.data)) if rng.random() < 0.2 else len(self.data)
        self.start = rng.random() * seconds
        self.stay = rng.choice((0, 0.01, 0.1, 1)) * rng.random()
        self.port = 0
        self.reads = rng.random() < 0.8
        self.last = rng.choice(ACTS[2:])
        self.name = (f"{self.what} {self.name}, {'second' if self.kept else 'first'} request, {self.part} "
                     f"of {len(self.data)} bytes, {'' if self.reads else 'not '}reading, left by "
                     f"{self.last} after {self.stay * 1000:.0f} ms")

    def bytes(self, rng):
        fields = [("X-Tag", self.tag)]
        if self.what == "download":
            how = {"plain": "length", "stream": "chunked", "close": "close"}[self.mode]
            return client.request("GET", f"/bytes/{rng.randrange(1000000)}?framing={how}", b"", fields)
        if self.what == "upload":
            return client.request("POST", "/echo", rng.randbytes(rng.randrange(400000)), fields)
        one = client.request_bytes(self.mode, self.lane, self.tag, TOKENS)
        two = client.request_bytes(self.mode, self.lane, self.tag + "-2", TOKENS)
        return one + two if self.what == "two" else one

    async def go(self):
        await asyncio.sleep(self.start)
        loop = asyncio.get_running_loop()
        try:
            sock = await client.connected(self.row.service)
            self.port = sock.getsockname()[1]
            if self.kept:
                await loop.sock_sendall(sock, client.request("GET", "/health"))
                await client.read_within(sock, client.Seen(), 5)
            # A head in two segments is not the kernel's.
            head = 20 if self.lane == "agent" else 0
            await loop.sock_sendall(sock, self.data[:min(head, self.part)])
            await asyncio.sleep(0.01 if head else 0)
            await asyncio.wait_for(loop.sock_sendall(sock, self.data[head:self.part]), 5)
            if self.act == "half-closes":
                await asyncio.sleep(self.stay)
                client.half_close(sock)
            if self.reads:
                await client.ask(sock, self.seen, self.last, 1000 * self.stay)
                return
            await asyncio.sleep(self.stay)
            self.seen.at_ms = client.now_ms()
            client.reset(sock) if self.last == "resets" else sock.close()
        except (BrokenPipeError, ConnectionResetError, asyncio.TimeoutError):
            self.seen.at_ms = client.now_ms()  # answered or reset before all was sent
            sock.close()
        except OSError as e:
            self.bad.append(f"{type(e).__name__}: {e}")
            self.seen.at_ms = client.now_ms()


def cut(args, world):
    rows = [r for r in ROWS if r.name in ("slow /health", "accepts and hangs", "RST before any byte",
                                          "RST after 3 tokens", "FIN mid-body")]
    files = world.files_before()
    for r in rows:
        world.fault(r, r.fault)
    rng = random.Random(args.seed)
    cuts = [Cut(rng.choice(rows), rng, i, args.clients / 250) for i in range(args.clients)]

    lag = Lag()

    async def play_cuts():
        watch = asyncio.create_task(lag.watch())
        await asyncio.gather(*(c.go() for c in cuts))
        watch.cancel()
    asyncio.run(play_cuts())
    time.sleep((ABORT_MS + 2 * lag.ms) / 1000)
    log = world.log(args.log)
    for c in cuts:
        for tag in (c.tag, c.tag + "-2"):
            c.check_engine(log.get(tag, []), lag.ms)
    after(world, rows)
    bad = [c for c in cuts if c.bad]
    for c in bad[:40]:
        print(f"{c.row.name}, {c.name}: {'; '.join(c.bad)}")
    found, left = world.clean(files, args.settle)
    for text in found:
        print("left:", text)
    for c in cuts:
        if any(f"port {c.port}:" in text for text in found):
            print(f"left by {c.row.name}, {c.name}, tag {c.tag}")
    asked = sum(len(log.get(c.tag, [])) for c in cuts)
    print(f"{len(cuts)} clients cut (seed {args.seed}), {asked} requests reached an engine, {len(bad)} "
          f"wrong; this test and engines are {lag.ms} ms late at most; gauges at zero after {left:.1f} s" + (": NO" if found else ""))
    return not bad and not found


def gone(args, world):
    row = next(r for r in ROWS if r.name == "slow /health")

    async def one(lane, how, tag):
        loop = asyncio.get_running_loop()
        sock = await client.connected(row.service)
        await loop.sock_sendall(sock, client.request_bytes("plain", lane, tag, 250))
        await asyncio.sleep(0.2)
        if how == "closed its side":
            client.half_close(sock)
        else:
            await loop.sock_sendall(sock, client.request_bytes("plain", lane, tag + "-2", 1))
        await asyncio.sleep(0.3)
        client.reset(sock)
        return client.now_ms()

    async def all_of_them():
        keys = [(lane, how, f"{RUN:x}-{lane}-{how}-{n}") for lane in LANES
                for how in ("closed its side", "sent ahead") for n in range(4)]
        await warm(row, {"200 bad", "200 good"})
        return dict(zip(keys, await asyncio.gather(*(one(*key) for key in keys))))
    files = world.files_before()
    left = asyncio.run(all_of_them())
    time.sleep(4)
    log, bad = world.log(args.log), 0
    for (lane, how, tag), at in left.items():
        ends = [a["close"] for a in log.get(tag, [])]
        told = ends[0] - at if len(ends) == 1 and ends[0] else None
        if told is None or told > ABORT_MS + 1500 or log.get(tag + "-2"):
            bad += 1
            print(f"client that {how} and then reset, {lane}: the engine was told after {told} ms; "
                  f"its next request reached {len(log.get(tag + '-2', []))}")
    found, _ = world.clean(files, args.settle)
    for text in found:
        print("left:", text)
    return not bad and not found


def ahead(args, world):
    """Two requests, the second sent while the first is answered, then the client's end: two answers."""
    row, bad = next(r for r in ROWS if r.name == "slow /health"), 0

    async def one(lane, pause):
        loop, seen = asyncio.get_running_loop(), client.Seen()
        sock = await client.connected(row.service)
        for i in range(2):
            await loop.sock_sendall(sock, client.request_bytes("plain", lane, f"{RUN:x}-{lane}", 8))
            await asyncio.sleep((0.1, pause)[i])
        client.half_close(sock)
        if not await client.read_within(sock, seen, 10, whole=False):
            seen.end = "time"
        sock.close()
        return seen.data.count(b"HTTP/1.1 200 OK"), seen.end
    for lane in LANES:
        for pause in (0, 0.05):
            answers, end = asyncio.run(one(lane, pause))
            if (answers, end) != (2, "FIN"):
                bad += 1
                print(f"{lane}, FIN {pause * 1000:.0f} ms behind the second request: {answers} answers, "
                      f"then {end}")
    return not bad
