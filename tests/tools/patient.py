# SPDX-License-Identifier: BSD-2-Clause
"""Clients with time: answers that begin late or pause, requests that follow in a fixed rhythm.

Prints a line for each answer: status (or how it ended), bytes of its body, seconds it took."""
import argparse
import random
import struct
import sys
import threading
import time

from kvhttp import Closed, Conn, request, target

lock = threading.Lock()


def body(tag, size):
    """As tools/engine/tagged.c makes it: records of tag and offset."""
    out = bytearray()
    while len(out) < size:
        out += struct.pack("<QQ", tag, len(out))
    return bytes(out[:size])


def ask(conn, args, tag):
    size = args.piece * args.pieces
    path = (f"/v1/completions?tagged={tag:016x}&size={size}&piece={args.piece}"
            f"&framing={args.framing}&first_us={int(args.first * 1e6)}"
            f"&delay_us={int(args.pause * 1e6)}")
    fields = [("X-Session-Id", f"{tag:x}")] if args.lane == "express" else []
    conn.send(request("POST", path, b"", fields))
    r = conn.read()
    if r.status == 200 and not args.any and r.body != body(tag, size):
        return "wrong", len(r.body)
    return r.status, len(r.body)


def one(args, i, begin):
    rng = random.Random(args.seed + i)
    conn = None
    for k in range(args.n):
        time.sleep(max(0, begin + k * args.every - time.monotonic()))
        since = time.monotonic()
        try:
            if conn is None:
                conn = Conn(args.to, args.timeout)
            said, size = ask(conn, args, rng.getrandbits(64))
        except ConnectionResetError:
            said, size, conn = "reset", 0, None
        except TimeoutError:
            said, size, conn = "hung", 0, None
        except (Closed, OSError) as e:
            said, size, conn = "closed", 0, None
            print(f"client {i}, request {k}: {e}", file=sys.stderr)
        with lock:
            print(said, size, f"{time.monotonic() - since:.1f}", flush=True)
        if said not in (200, 204):
            conn = None


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--to", type=target, required=True)
    p.add_argument("--log", help="not used")
    p.add_argument("--lane", choices=("express", "agent"), default="express")
    p.add_argument("--framing", default="length")
    p.add_argument("--piece", type=int, default=1600)
    p.add_argument("--pieces", type=int, default=3)
    p.add_argument("--first", type=float, default=0, help="silence before the head, seconds")
    p.add_argument("--pause", type=float, default=0, help="before each further piece")
    p.add_argument("--conns", type=int, default=1)
    p.add_argument("--n", type=int, default=1, help="requests of each client")
    p.add_argument("--every", type=float, default=0, help="from one request to the next")
    p.add_argument("--any", action="store_true", help="whatever the body")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--timeout", type=float, default=900)
    args = p.parse_args()
    now = time.monotonic()
    threads = [threading.Thread(target=one, args=(args, i, now))
               for i in range(args.conns)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


main()
