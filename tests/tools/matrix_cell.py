# SPDX-License-Identifier: BSD-2-Clause
"""One request of the matrix, and what is to be seen of it."""
import asyncio
import collections
import itertools
import time

import matrix_client as client
from matrix_rows import ROWS
from matrix_world import digest

RUN = time.time_ns()  # tags of this run are its own
ABORT_MS = 1000  # within this an engine knows that its client has gone
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
            if a is not attempts[-1] and a["answer"] and a["answer"]["status"] != 503:
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
    """How late this process and the engines' are, at most: what they say of times is not better than
    that. Measured without the gateway."""

    def __init__(self):
        self.ms = 0

    async def watch(self):
        loop = asyncio.get_running_loop()
        sock = await client.connected(("10.72.1.2", 8100))
        while True:
            start = client.now_ms()
            await loop.sock_sendall(sock, client.request("GET", "/fault?engine=0-bad"))
            await client.read(sock, client.Seen())
            self.ms = max(self.ms, client.now_ms() - start)
            await asyncio.sleep(0.02)


async def warm(row, by=frozenset({"200 bad"})):
    """Opens connections, and leaves them idle. by: who is to have answered."""
    async def one(i):
        sock = await client.connected(row.service)
        seen = client.Seen()
        await asyncio.get_running_loop().sock_sendall(
            sock, client.request_bytes("plain", "agent", f"{time.time_ns():x}", 3))
        await client.ask(sock, seen, "waits", 0)
        return seen.what
    seen = collections.Counter(await asyncio.gather(*(one(i) for i in range(WARM))))
    if not set(seen) <= by:
        raise SystemExit(f"{row.name}: before any fault: {dict(seen)}")


def after(world, rows):
    for r in rows:
        if not r.at:
            world.fault(r, {})
        if r.event.startswith("silent"):
            world.well(r.host)
