# SPDX-License-Identifier: BSD-2-Clause
"""Slow clients, thousands from one process: they send a head, or a body, a byte at a time, or stop in
the middle, or ask for much and read nothing. Says what became of them, as a line of JSON, when asked
(SIGUSR1), at the end (SIGTERM) or after --seconds; says "ready" on stderr once all are connected."""
import argparse
import collections
import errno
import json
import resource
import select
import signal
import socket
import sys
import time

from hint import hint
from kvhttp import target

BODY = 1 << 30  # of what is announced and never sent, unless --body says otherwise


class Slow:
    """One client. gone: how it ended, if it did."""

    def __init__(self, kind, args, source, k):
        self.kind, self.gone, self.ready, self.answer = kind, None, False, b""
        fields = f"Host: slow\r\nX-Slow: {k}\r\n"
        path = f"/bytes/{args.answer}"
        if kind == "head":
            self.data, self.drip = f"POST /v1/completions HTTP/1.1\r\n{fields}X-Fill: ".encode(), b"x"
        elif kind == "half-head":
            self.data, self.drip = f"POST /v1/completions HTTP/1.1\r\n{fields}".encode(), b""
        elif kind in ("body", "half-body", "express-body"):
            more = f"KV-Prefix: {hint(256, 'slow')}\r\n" if kind == "express-body" else ""
            self.data = (f"POST /v1/completions HTTP/1.1\r\n{fields}{more}"
                         f"Content-Length: {args.body}\r\n\r\n{{").encode()
            self.drip = b"" if kind == "half-body" else b" "
        elif kind == "unread":  # the kernel's
            self.data, self.drip = f"GET {path} HTTP/1.1\r\n{fields}\r\n".encode(), b""
        else:  # unread-agent: a chunked request is the agent's
            self.data = (f"POST {path} HTTP/1.1\r\n{fields}Transfer-Encoding: chunked\r\n\r\n"
                         "1\r\nx\r\n0\r\n\r\n").encode()
            self.drip = b""
        self.reads = kind not in ("unread", "unread-agent")
        self.sock = socket.socket(socket.AF_INET6 if ":" in args.to[0] else socket.AF_INET)
        self.sock.setblocking(False)
        if not self.reads:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if source:
            self.sock.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
            self.sock.bind((source, 0))
        self.sock.connect_ex(args.to)

    def end(self, why):
        self.gone = why
        self.sock.close()

    def connected(self):
        err = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if err:
            self.end("reset" if err == errno.ECONNRESET else "not connected: " + errno.errorcode[err])
            return
        self.ready = True
        self.send(self.data)

    def send(self, data):
        try:
            if data:
                self.sock.send(data)
        except BlockingIOError:
            pass
        except OSError as e:
            self.end("reset" if e.errno in (errno.ECONNRESET, errno.EPIPE) else str(e))

    def readable(self):
        try:
            data = self.sock.recv(4096)
        except BlockingIOError:
            return
        except OSError as e:
            self.end("reset" if e.errno == errno.ECONNRESET else str(e))
            return
        self.answer += data
        if not data:
            self.end(self.answer[9:12].decode("latin-1") or "closed")


def report(slow, start):
    kinds = collections.defaultdict(collections.Counter)
    for s in slow:
        kinds[s.kind][s.gone or ("open" if s.ready else "connecting")] += 1
    print(json.dumps({"seconds": round(time.monotonic() - start, 1), "kinds": kinds}, sort_keys=True),
          flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--to", type=target, required=True)
    p.add_argument("-n", type=int, default=10000)
    p.add_argument("--kinds", default="head,half-head,body,half-body,unread,unread-agent")
    p.add_argument("--sources", default="", help="addresses of this side, in turn")
    p.add_argument("--seconds", type=float, default=3600)
    p.add_argument("--every", type=float, default=1, help="seconds between two bytes")
    p.add_argument("--body", type=int, default=8192, help="length of a body")
    p.add_argument("--answer", type=int, default=16 << 20, help="bytes that are asked for and not read")
    p.add_argument("--pace", type=int, default=2000, help="connections a second")
    args = p.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, args.n + 100)), hard))
    kinds, sources = args.kinds.split(","), args.sources.split(",") if args.sources else [None]
    poll, by_fd, slow = select.epoll(), {}, []
    stop, asked = [], []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
    start = time.monotonic()
    told, turn, dripping = False, 0, []
    while not stop and time.monotonic() - start < args.seconds:
        now = time.monotonic()
        if asked:
            asked.clear()
            report(slow, start)
        while len(slow) < min(args.n, int((now - start) * args.pace) + 1):
            k = len(slow)
            s = Slow(kinds[k % len(kinds)], args, sources[k // len(kinds) % len(sources)], k)
            slow.append(s)
            by_fd[s.sock.fileno()] = s
            poll.register(s.sock, select.EPOLLOUT | select.EPOLLONESHOT)
            if s.drip:
                dripping.append(s)
        for fd, what in poll.poll(0.01, 1024):
            s = by_fd[fd]
            if not s.ready:
                s.connected()
            elif what & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                if s.reads or what & (select.EPOLLHUP | select.EPOLLERR):
                    s.readable()
            if s.gone:
                del by_fd[fd]
            elif s.ready:
                poll.modify(fd, (select.EPOLLIN if s.reads else 0) | select.EPOLLONESHOT)
        # a byte of each, spread over the time
        for _ in range(int(len(dripping) * min(1, 0.012 / args.every)) + 1 if dripping else 0):
            turn = (turn + 1) % len(dripping)
            s = dripping[turn]
            if s.ready and not s.gone and now - getattr(s, "last", 0) >= args.every:
                s.last = now
                s.send(s.drip)
                if s.gone:
                    by_fd = {f: x for f, x in by_fd.items() if x is not s}
        if not told and len(slow) == args.n and all(s.ready or s.gone for s in slow):
            told = True
            print("ready", file=sys.stderr, flush=True)
    report(slow, start)


main()
