# SPDX-License-Identifier: BSD-2-Clause
"""Adds, drains and removes backends in a fixed rhythm, by the agent's control socket."""
import argparse
import json
import random
import socket
import sys
import time


class Control:
    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(path)
        self.file = self.sock.makefile("r")

    def ask(self, verb, **fields):
        self.sock.sendall(json.dumps({"verb": verb, **fields}).encode() + b"\n")
        answer = json.loads(self.file.readline())
        if not answer["ok"]:
            sys.exit(f"{verb} {fields}: {answer['error']}")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--control", required=True)
    p.add_argument("--service", required=True)
    p.add_argument("--address", action="append", required=True, help="one engine each")
    p.add_argument("--rate", type=float, default=50, help="additions a second, and removals")
    p.add_argument("-n", type=int, default=500, help="additions; as many removals")
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    control, rng = Control(args.control), random.Random(args.seed)
    out, there, n, late = list(args.address), [], 0, 0
    begin = time.monotonic()
    while n < args.n:
        # Half of the engines are there at a time, on average.
        if len(there) > len(args.address) / 2 or not out:
            name, address = there.pop(rng.randrange(len(there)))
            if rng.random() < 0.3:
                control.ask("backend-drain", name=name)
            control.ask("backend-remove", name=name)
            out.append(address)
        address = out.pop(rng.randrange(len(out)))
        name = f"churn-{n}"
        control.ask("backend-add", service=args.service, address=address, name=name)
        there.append((name, address))
        n += 1
        wait = begin + n / args.rate - time.monotonic()
        late += wait < -0.1
        time.sleep(max(0, wait))
    for name, _ in there:
        control.ask("backend-remove", name=name)
    print(json.dumps({"added": n, "removed": n, "late": late,
                      "seconds": round(time.monotonic() - begin, 1)}))


main()
