# SPDX-License-Identifier: BSD-2-Clause
"""The core test of every place that the gateway runs in: both lanes, answers by length, chunked, until
close and as events, 1 B to 1 MB each way, keep-alive, clients that give up; answers are compared with
the engines' log, and the kernel's counters tell what was spliced."""
import argparse
import itertools
import json
import random
import subprocess
import sys
import threading
import time

from kvhttp import Closed, Conn, Record, pattern, target
from segments import BODY, LANES, STREAM, build, exchange, payload

SIZES = (1, 1000, 1449, 70000, 1 << 20)
# Each chunk in a segment of its own, with time between them for both sides to fall quiet.
PACED = "/bytes/20000?framing=chunked&chunk=500&delay_us=1000"


class Tagged(Record):
    """With a tag for each request, answered or not."""

    def __init__(self, log, name):
        super().__init__(log)
        self.prefix += name
        self.tags = itertools.count()

    def tag(self):
        return f"{self.prefix}{next(self.tags)}"


class Gateway:
    """What kvsteer tells of the instance under test."""

    def __init__(self, command):
        self.command = command.split()

    def ask(self, verb):
        out = subprocess.run([*self.command, "-j", verb], check=True, capture_output=True)
        return json.loads(out.stdout)

    def counters(self):
        found = {}

        def walk(value):
            for k, v in value.items():
                if isinstance(v, dict):
                    walk(v)
                elif isinstance(v, int):
                    found[k] = v
        walk(self.ask("counters"))
        return found

    def at_rest(self, within=5):
        """Whether no pair is lent and no request in the agent's hands, at last."""
        end = time.monotonic() + within
        while True:
            s = self.ask("status")
            busy = {f"{what} {k}": s[what][k] for what, k in (
                ("upstreams", "lent"), ("upstreams", "relay"), ("clients", "lent"))}
            if not any(busy.values()):
                return {}
            if time.monotonic() > end:
                return busy
            time.sleep(0.1)


def ask_bytes(record, lane, path):
    """What is no completion needs no hint to be decided in the kernel; a chunked body leads it to the
    agent."""
    if lane == "agent":
        return build(record, "POST", path, b"{}", chunks=[2])
    return build(record, "GET", path, b"", LANES[lane])


def uploads(conn, record, rng, lane, fields, sizes):
    for size in sizes:
        path, body = payload(rng, lane, size)
        exchange(conn, record, build(record, "POST", path, body, fields))
        if size < 1 << 20:
            chunks = [size // 3 + 1] * 3
            exchange(conn, record, build(record, "POST", path, body, fields, chunks=chunks))


def downloads(conn, record, lane, sizes):
    for size in sizes:
        for framing in ("length", "chunked&chunk=3000&ext=1&trailer=1"):
            path = f"/bytes/{size}?framing={framing}"
            r = exchange(conn, record, ask_bytes(record, lane, path))
            record.check(r.body == pattern(size), f"{lane} {path}: other bytes")


def until_close(args, record, lane):
    conn = Conn(args.to, args.timeout)
    r = exchange(conn, record, ask_bytes(record, lane, "/bytes/50000?framing=close"))
    record.check(r.body == pattern(50000), f"{lane}: other bytes until close")
    record.check(conn.ended(), f"{lane}: not closed")
    conn.close()


def aborts(args, record, lane):
    """A client that resets inside an answer, one that closes, one before the answer."""
    for how in ("reset", "close", "early"):
        conn = Conn(args.to, args.timeout)
        path = "/bytes/3000000?framing=chunked&chunk=1000&delay_us=500"
        conn.send(ask_bytes(record, lane, path)[3])
        if how != "early":
            conn._take(3000)
        conn.close() if how == "close" else conn.reset()


def lane_core(args, record, lane, sizes, seed):
    fields = LANES[lane]
    rng = random.Random(seed)
    conn = Conn(args.to, args.timeout)
    for body in (BODY, STREAM, BODY):
        exchange(conn, record, build(record, "POST", "/v1/completions", body, fields))
    uploads(conn, record, rng, lane, fields, sizes)
    for _ in range(3):
        exchange(conn, record, ask_bytes(record, lane, PACED))
    downloads(conn, record, lane, sizes)
    conn.close()
    until_close(args, record, lane)
    if not args.no_aborts:
        aborts(args, record, lane)


def spliced(args, record, lane, before, after):
    """In the lane just run: lent, and what was sent did pass."""
    delta = {k: after[k] - before[k] for k in after}
    word = "midflight" if lane == "agent" else "express"
    name = "lends_midflight" if lane == "agent" else "lends"
    print(f"{lane}: " + ", ".join(f"{k} {delta[k]}" for k in (
        "requests_express", "requests_agent", "lends", "lends_midflight", "agent_relayed",
        "bytes_to_backend", "bytes_to_client")))
    if word in args.expect:
        record.check(delta[name] > 0, f"{lane}: nothing was lent: {name} 0")
        record.check(delta["bytes_to_client"] > 0, f"{lane}: nothing was spliced")
    else:
        record.check(delta[name] == 0, f"{lane}: {name} {delta[name]}: is lent after all")
    for why in args.why if lane != "agent" else []:
        record.check(delta[why] > 0, f"{lane}: {why} did not rise")


def core(args, record, gateway):
    sizes = [s for s in SIZES if s <= args.most]
    for lane in args.lane:
        before = gateway.counters()
        for i in range(args.rounds):
            lane_core(args, record, lane, sizes, args.seed + i)
        spliced(args, record, lane, before, gateway.counters())


def transfer(args, record, gateway, up):
    """One large body, then a small answer on the same connection; says how long it took."""
    for lane in args.lane:
        fields, rng = LANES[lane], random.Random(args.seed)
        conn = Conn(args.to, args.timeout)
        before, start = gateway.counters(), time.monotonic()
        if up:
            path, body = payload(rng, lane, args.most)
            exchange(conn, record, build(record, "POST", path, body, fields))
        else:
            exchange(conn, record, ask_bytes(record, lane, PACED))
            r = exchange(conn, record, ask_bytes(record, lane, f"/bytes/{args.most}?framing=chunked"))
            record.check(r.body == pattern(args.most), f"{lane}: other bytes")
        exchange(conn, record, build(record, "POST", "/v1/completions", BODY, fields))
        print(f"{lane}: {time.monotonic() - start:.2f} s")
        conn.close()
        spliced(args, record, lane, before, gateway.counters())


def upload(args, record, gateway):
    transfer(args, record, gateway, True)


def download(args, record, gateway):
    transfer(args, record, gateway, False)


def slow(args, record, gateway):
    """Answers that take some two seconds, each in its lane, all at a time; "begun" when all have."""
    path = "/bytes/400000?framing=chunked&chunk=1000&delay_us=5000"
    conns = []
    for lane in args.lane:
        built, conn = ask_bytes(record, lane, path), Conn(args.to, args.timeout)
        conn.send(built[3])
        conns.append((built, conn))
    for _, conn in conns:
        while len(conn.buf) < 5000:
            conn._more()
    print("begun", flush=True)
    for (tag, body, _, _), conn in conns:
        r = conn.read()
        record.add(tag, body, r)
        record.check(r.body == pattern(400000), f"{tag}: other bytes")
        conn.close()


CASES = {f.__name__: f for f in (core, upload, download, slow)}


def run(args, to, results):
    args = argparse.Namespace(**{**vars(args), "to": to})
    record = Tagged(args.log, f"{to[0]}-")
    try:
        CASES[args.case](args, record, Gateway(args.kvsteer))
    except (OSError, Closed, ValueError, subprocess.CalledProcessError) as e:
        record.fail(f"{type(e).__name__}: {e} (after {len(record.seen)} answers)")
    results.append(record.done(f"{args.case} {to[0]}"))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--to", type=target, action="append", required=True,
                   help="ADDR:PORT of the service; several: all at a time")
    p.add_argument("--log", required=True, help="the engines' log")
    p.add_argument("--kvsteer", default="kvsteer", help="the command, with its options")
    p.add_argument("--lane", action="append", choices=list(LANES), help="default: express, agent")
    p.add_argument("--expect", default="express,midflight", type=lambda t: t.split(","),
                   help="what must be lent; what is not named must not be")
    p.add_argument("--why", default=[], type=lambda t: t.split(","), help="counters that must rise")
    p.add_argument("--most", type=int, default=1 << 20, help="bytes of the largest body")
    p.add_argument("--no-aborts", action="store_true", help="core: no client gives up")
    p.add_argument("--timeout", type=float, default=20)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--rounds", type=int, default=1, help="core: so often in each lane")
    p.add_argument("case", choices=sorted(CASES))
    args = p.parse_args()
    args.lane = args.lane or ["express", "agent"]
    results = []
    threads = [threading.Thread(target=run, args=(args, to, results)) for to in args.to]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    busy = Gateway(args.kvsteer).at_rest()
    if busy:
        print(f"does not come to rest: {busy}")
    sys.exit(bool(busy) or not all(results) or len(results) != len(threads))


if __name__ == "__main__":
    main()
