# SPDX-License-Identifier: BSD-2-Clause
"""What a hostile client sends, and what a third host forges. Good requests of others must not feel
any of it; the hostile one may only hurt itself.

Runs on a client host whose network has a spare address (--spare), unknown to every kernel."""
import argparse
import json
import random
import subprocess
import sys
import threading
import time

from kvhttp import Conn, pattern, request, target
from raw import ACK, FIN, PSH, RST, SYN, Client, Wire, segment

FAILED = []


def check(cond, text):
    if not cond:
        FAILED.append(text)


def get(path, fields=()):
    return request("GET", path, fields=fields)


def whole(client, size):
    """The answer is there: head and body of that size."""
    head, sep, body = client.data.partition(b"\r\n\r\n")
    return sep and len(body) >= size


def answered(client, size, seed, what):
    head, _, body = client.data.partition(b"\r\n\r\n")
    check(head.startswith(b"HTTP/1.1 200"), f"{what}: answered {head[:40]!r}")
    check(body == pattern(size, seed), f"{what}: {len(body)} bytes, other ones")


def at_engines(log, mark):
    with open(log, encoding="utf-8", errors="replace") as f:
        return [e for e in map(json.loads, (line for line in f if mark in line))
                if e["event"] == "request"]


def raw_client(args):
    c = Client(Wire(args.device, args.mac), args.spare, args.to)
    c.connect()
    return c


# ---- a hostile client ----


def unsent_ack(args):
    """It acknowledges what was never sent, at every stage."""
    for i in range(8):
        c = raw_client(args)
        seed = random.randrange(1 << 30)
        c.send(ack=c.ack + 100000)
        c.say(get(f"/bytes/5000?seed={seed}&framing={'chunked' if i & 1 else 'length'}"
                  "&chunk=500&delay_us=1000"))
        for far in (1, 1000, 1 << 20, 1 << 30):
            c.send(ack=c.ack + 200000 + far)
            c.receive(0.01)
        c.receive(5, done=lambda c: whole(c, 5000) and (not i & 1 or c.data.endswith(b"0\r\n\r\n")))
        if not i & 1:
            answered(c, 5000, seed, "acks of what was never sent")
        # the connection still serves
        c.data = b""
        c.say(get(f"/bytes/100?seed={seed}"))
        c.receive(5, done=lambda c: whole(c, 100))
        answered(c, 100, seed, "behind acks of what was never sent")
        c.reset()


def optimistic_ack(args):
    """It acknowledges everything at once and goes on to the next request: others share its
    upstreams, and get their own bytes."""
    for _ in range(6):
        c = raw_client(args)
        for _ in range(5):
            c.say(get(f"/bytes/200000?seed={random.randrange(1 << 30)}&framing=length"))
            until = time.monotonic() + 0.3
            while time.monotonic() < until:
                s = c.wire.receive(until)
                if s and s.dst == c.me and s.data:
                    c.ack = (s.seq + len(s.data)) & 0xFFFFFFFF
                    c.send()
        c.reset()


def other_bytes(args):
    """A retransmission whose bytes differ from the first: another head, another body, a head that
    makes the rest of the body a request."""
    mark = f"twice{random.getrandbits(40):x}"
    smuggled = get(f"/v1/models?{mark}smuggled")
    n = 0
    for i in range(40):
        c = raw_client(args)
        first = request("POST", f"/v1/embeddings?{mark}x{i}", smuggled * 3)
        head = first[: len(first) - 3 * len(smuggled)]
        second = head.replace(b"Content-Length: ", b"Content-Lengtz: ") + 3 * smuggled
        other_body = head + b"y" * (3 * len(smuggled))
        kind = i % 4
        if kind == 0:  # at once: the first may not have been acknowledged yet
            c.send(first, ACK | PSH)
            c.send(second, ACK | PSH)
        elif kind == 1:  # a little later
            c.send(first, ACK | PSH)
            time.sleep(0.002)
            c.send(second, ACK | PSH)
        elif kind == 2:  # only part of the body so far, then the whole with another head
            c.send(first[:-20], ACK | PSH)
            c.send(second, ACK | PSH)
        else:
            c.send(first, ACK | PSH)
            c.send(other_body, ACK | PSH)
        c.seq = (c.seq + len(first)) & 0xFFFFFFFF
        c.receive(0.15)
        c.reset()
        n += 1
    seen = at_engines(args.log, mark)
    print(f"{n} retransmissions that differ; the engines saw {len(seen)} requests")


# ---- a third host ----


class Victim(threading.Thread):
    """A long stream, slow enough to be shot at."""

    def __init__(self, args, path, fields=()):
        super().__init__()
        self.conn = Conn(args.to, 30)
        self.me = self.conn.sock.getsockname()
        self.path, self.fields = path, fields
        self.response = self.error = None

    def run(self):
        try:
            self.conn.send(get(self.path, self.fields))
            self.response = self.conn.read()
        except Exception as e:
            self.error = e


def forge(wire, src, dst, n):
    """n segments of every kind, at random positions."""
    kinds = (RST, RST | ACK, SYN, ACK, ACK | PSH, FIN | ACK, SYN | ACK)
    for i in range(n):
        flags = kinds[i % len(kinds)]
        data = b"HTTP/1.1 666 FORGED\r\n\r\n" if flags & PSH else b""
        wire.send(segment(src, dst, random.getrandbits(32), random.getrandbits(32), flags, data))


def upstreams(gateway):
    """Both ends of the gateway's connections to engines."""
    out = subprocess.run(["nsenter", f"--net=/run/netns/{gateway}", "ss", "-4tnH", "state",
                          "established", "dport", "=", ":8000"],
                         capture_output=True, text=True, check=True).stdout
    return [(target(f[2]), target(f[3])) for f in map(str.split, out.splitlines())]


def forged(args):
    """Run where packets of the victim do not pass, while it is served."""
    size, seed = 60000, 7
    path = f"/bytes/{size}?seed={seed}&framing={args.framing}&chunk=300&delay_us=10000"
    victim = Victim(args, path)
    # Threads share their network namespace: the victim's socket is made before we change it.
    victim.start()
    time.sleep(0.3)
    fd = open(f"/run/netns/{args.third}", encoding="ascii")
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    check(libc.setns(fd.fileno(), 0x40000000) == 0, "cannot enter the third host")
    wire = Wire("eth0", args.third_mac)
    pairs = upstreams(args.gateway)[:10]
    check(pairs, "no upstreams to shoot at")
    leaked = n = 0
    while victim.is_alive():
        forge(wire, victim.me, args.to, 700)
        for local, peer in pairs:
            forge(wire, peer, local, 70)
        n += 700 + 70 * len(pairs)
        # What the gateway sends here that belongs to the victim.
        while (s := wire.receive(time.monotonic() + 0.001)) is not None:
            leaked += s.dst == victim.me
    victim.join()
    check(not victim.error, f"the victim's stream broke: {victim.error!r}")
    if victim.response:
        check(victim.response.body == pattern(size, seed), "the victim got other bytes")
    check(not leaked, f"{leaked} segments of the victim's connection were sent to a third host")
    print(f"{n} forged segments against one stream and {len(pairs)} upstreams")


CASES = {f.__name__.replace("_", "-"): f for f in (unsent_ack, optimistic_ack, other_bytes, forged)}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--to", type=target, required=True, help="ADDR:PORT of the service")
    p.add_argument("--log", help="the engines' log")
    p.add_argument("--device", default="eth0")
    p.add_argument("--mac", help="the gateway's, on this network")
    p.add_argument("--spare", help="an address of this network that nobody has")
    p.add_argument("--third", help="network namespace of a third host")
    p.add_argument("--third-mac", help="the gateway's, on that host's network")
    p.add_argument("--gateway", help="network namespace of the gateway")
    p.add_argument("--framing", default="chunked")
    p.add_argument("case", choices=sorted(CASES))
    args = p.parse_args()
    CASES[args.case](args)
    for text in FAILED[:20]:
        print(f"{args.case}: {text}")
    sys.exit(bool(FAILED))


main()
