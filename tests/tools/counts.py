# SPDX-License-Identifier: BSD-2-Clause
"""Load of known size, several connections: hinted, unhinted, malformed, given up; prints as JSON what
was sent and answered."""
import argparse
import collections
import json
import random
import threading

from hint import hint
from kvhttp import Closed, Conn, request, target


def client(args, k, sums, lock):
    rng = random.Random(args.seed + k)
    mine = collections.Counter()
    conn = None
    for i in range(args.n):
        kind = rng.choices(("express", "session", "get", "agent", "chunked", "refused", "reset"),
                           (30, 15, 10, 30, 5, 5, 5 if args.reset else 0))[0]
        if conn is None:
            conn = Conn(args.to)
        fields = {"express": [("KV-Prefix", hint(256, f"p{rng.randrange(20)}"))],
                  "session": [("X-Session-Id", f"s{rng.randrange(20)}")]}.get(kind, [])
        body = json.dumps({"model": "emulated", "prompt": f"text {rng.randrange(20)} " * 50,
                           "max_tokens": rng.randint(1, 8), "stream": rng.random() < 0.5}).encode()
        if kind == "get":
            data = request("GET", f"/bytes/{rng.randrange(20000)}")
        elif kind == "refused":
            data = b"GET / HTTP/1.1\r\n\r\n"
        elif kind == "reset":
            data = request("GET", "/bytes/1000000?framing=chunked&chunk=1000&delay_us=1000")
        else:
            data = request("POST", "/v1/completions", body, fields,
                           chunks=[100] if kind == "chunked" else None)
        mine["sent"] += 1
        mine["sent_" + kind] += 1
        try:
            conn.send(data)
            if kind == "reset":
                conn.sock.recv(1)
                conn.reset()
                conn = None
                continue
            r = conn.read()
            mine[f"status_{r.status}"] += 1
            if r.closes:
                conn.close()
                conn = None
        except (OSError, Closed, ValueError) as e:
            mine["errors"] += 1
            mine[f"error_{type(e).__name__}_{kind}"] += 1
            conn = None
    if conn:
        conn.close()
    with lock:
        sums.update(mine)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--to", type=target, required=True)
    p.add_argument("--log", help="not used")
    p.add_argument("--n", type=int, default=100, help="requests of each connection")
    p.add_argument("--connections", type=int, default=8)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--reset", action="store_true", help="some requests are given up")
    args = p.parse_args()
    sums, lock = collections.Counter(), threading.Lock()
    threads = [threading.Thread(target=client, args=(args, k, sums, lock))
               for k in range(args.connections)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(json.dumps(sums, sort_keys=True))


main()
