# SPDX-License-Identifier: BSD-2-Clause
"""Bodies that take long to hash for their size: members of objects to be sorted, with escapes in
their keys; nested brackets. Several at a time; some give up while they are hashed. Prints as JSON what
was answered."""
import argparse
import collections
import json
import random
import threading
import time

from kvhttp import Closed, Conn, target


def sorted_members(size, rng):
    key = b"\\u0041" * 150
    one = b'"' + key + b'%06x":1'
    members = b",".join(one % rng.getrandbits(24) for _ in range(min(60000, size // 920)))
    return b'{"model":"emulated","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[{' \
        + members + b"}]}"


def nested(size, _):
    start = b'{"model":"emulated","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"x"}'
    return start + b",[[[[[[{}]]]]]]" * ((size - len(start)) // 15) + b"]}]}"


def client(args, k, sums):
    rng = random.Random(k)
    body = (sorted_members, nested)[k % 2](args.size, rng)
    head = (f"POST /v1/chat/completions HTTP/1.1\r\nHost: big\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode()
    for _ in range(args.n):
        try:
            conn = Conn(args.to, timeout=60)
            conn.send(head + body)
            if k < args.abort:
                time.sleep(rng.random() * 0.3)
                conn.reset()
                sums["aborted"] += 1
                continue
            sums[f"{conn.read().status}"] += 1
            conn.close()
        except (OSError, Closed, ValueError) as e:
            sums[type(e).__name__] += 1


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--to", type=target, required=True)
    p.add_argument("--size", type=int, default=32 << 20)
    p.add_argument("--clients", type=int, default=2)
    p.add_argument("--abort", type=int, default=0, help="of the clients")
    p.add_argument("-n", type=int, default=1)
    p.add_argument("--write", help="the longest of them to this file, and no more")
    args = p.parse_args()
    if args.write:
        with open(args.write, "wb") as f:
            f.write(sorted_members(args.size, random.Random(0)))
        return
    sums = collections.Counter()
    threads = [threading.Thread(target=client, args=(args, k, sums)) for k in range(args.clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(json.dumps(sums, sort_keys=True))


main()
