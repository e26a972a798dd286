# SPDX-License-Identifier: BSD-2-Clause
"""HTTP/1.1 by hand: every byte sent is chosen, every byte received is kept."""
import argparse
import functools
import hashlib
import json
import re
import socket
import struct
import sys
import time


def target(text):
    """ADDR:PORT or [ADDR]:PORT"""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


class Closed(Exception):
    """The peer ended the connection before the answer was complete."""


NAMED = re.compile(rb"(HTTP/1\.1 [^\r]*\r\n)"
                   rb'KV-Steer: matched=(\d+), total=(\d+), backend="([!#-~]+)"\r\n')


class Response:
    """named: what the gateway says in a line of its own behind the status line, which is no part of
    head and wire; or None."""

    def __init__(self, status, head, fields):
        own = NAMED.match(head)
        self.named = None
        if own:
            head = own[1] + head[own.end():]
            fields = fields[1:]
            self.named = {"matched": int(own[2]), "total": int(own[3]), "backend": own[4].decode()}
        self.status = status
        self.head = head
        self.fields = fields
        self.body = b""  # without framing
        self.wire = bytearray(head)  # with framing, without 1xx
        self.interim = []
        self.closes = False

    def field(self, name):
        return [v for n, v in self.fields if n == name]

    @property
    def sha(self):
        return hashlib.sha256(self.wire).hexdigest()

    @property
    def engine(self):
        return (self.field("x-engine") or [""])[0]

    def json(self):
        return json.loads(self.body)


class Conn:
    def __init__(self, to, timeout=20):
        self.sock = socket.create_connection(to, timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf = bytearray()

    def send(self, data):
        self.sock.sendall(data)

    def segments(self, parts, gap=0.0005):
        """Each part in a segment of its own (a pause keeps GSO from joining them)."""
        for i, part in enumerate(parts):
            if i and gap:
                time.sleep(gap)
            if part:
                self.sock.sendall(part)

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self):
        self.sock.close()

    def _more(self):
        data = self.sock.recv(1 << 20)
        if not data:
            raise Closed("closed by the peer")
        self.buf += data

    def _take(self, n):
        while len(self.buf) < n:
            self._more()
        out = bytes(self.buf[:n])
        del self.buf[:n]
        return out

    def _line(self):
        while b"\r\n" not in self.buf:
            self._more()
        return self._take(self.buf.index(b"\r\n") + 2)

    def _head(self):
        while b"\r\n\r\n" not in self.buf:
            self._more()
        head = self._take(self.buf.index(b"\r\n\r\n") + 4)
        first, *rest = head[:-4].decode("latin-1").split("\r\n")
        version, status, *_ = first.split(" ")
        if version != "HTTP/1.1":
            raise ValueError("not a status line: " + first)
        fields = []
        for line in rest:
            name, colon, value = line.partition(":")
            if not colon:
                raise ValueError("not a field: " + line)
            fields.append((name.lower(), value.strip()))
        return Response(int(status), head, fields)

    def read(self, method="GET"):
        """One final answer, whole."""
        interim = []
        r = self._head()
        while r.status < 200:
            interim.append(r.status)
            r = self._head()
        r.interim = interim
        r.closes = "close" in [v.lower() for v in r.field("connection")]
        if method == "HEAD" or r.status in (204, 304):
            return r
        if "chunked" in r.field("transfer-encoding"):
            self._chunked(r)
        elif r.field("content-length"):
            r.body = self._take(int(r.field("content-length")[0]))
            r.wire += r.body
        else:
            r.closes = True
            r.body = self.rest()
            r.wire += r.body
        return r

    def _chunked(self, r):
        body = []
        while True:
            line = self._line()
            r.wire += line
            size = int(line.split(b";")[0].strip(), 16)
            if not size:
                break
            data = self._take(size + 2)
            r.wire += data
            if data[-2:] != b"\r\n":
                raise ValueError("chunk does not end where its size says")
            body.append(data[:-2])
        while True:
            line = self._line()
            r.wire += line
            if line == b"\r\n":
                break
        r.body = b"".join(body)

    def rest(self):
        """All until the peer's FIN."""
        try:
            while True:
                self._more()
        except Closed:
            pass
        out = bytes(self.buf)
        self.buf.clear()
        return out

    def ended(self, within=3):
        """Whether the peer closes, without sending anything more, within that time."""
        self.sock.settimeout(within)
        try:
            return not self.buf and self.sock.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False


ALWAYS = []  # fields of every request


def request(method, path, body=b"", fields=(), chunks=None, host="test"):
    """The bytes of a request; chunks: sizes of chunks instead of Content-Length."""
    head = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    head += [f"{n}: {v}" for n, v in [*fields, *ALWAYS]]
    if chunks is not None:
        head.append("Transfer-Encoding: chunked")
        at, coded = 0, b""
        for size in chunks:
            part = body[at : at + size]
            at += len(part)
            if part:
                coded += b"%x\r\n%s\r\n" % (len(part), part)
        if body[at:]:
            coded += b"%x\r\n%s\r\n" % (len(body) - at, body[at:])
        coded += b"0\r\n\r\n"
    else:
        coded = body
        if body or method == "POST":
            head.append(f"Content-Length: {len(body)}")
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + coded


@functools.lru_cache(maxsize=64)
def pattern(n, seed=1):
    """What the engine sends for /bytes/N?seed=S."""
    x, table = seed, bytearray(65521)
    for i in range(65521):
        x = (x * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        table[i] = x >> 56
    out = bytearray((table * (n // 65521 + 1))[:n])
    for s in range(0, n, 4096):
        stamp = struct.pack("<Q", s ^ seed)
        out[s : s + 8] = stamp[: min(8, n - s)]
    return bytes(out)


class Record:
    """What was asked and answered, to be compared with the engines' own log."""

    def __init__(self, log, named=False):
        self.log = log
        self.named = named  # answers may name their backend
        self.seen = {}
        self.bad = []
        self.prefix = f"{time.time_ns():x}-"

    def tag(self):
        return self.prefix + str(len(self.seen) + 1)

    def add(self, tag, body, response):
        self.seen[tag] = (hashlib.sha256(body).hexdigest(), response)
        if response.named and (not self.named or response.named["backend"] != response.engine):
            self.fail(f"{tag}: answered by {response.engine}, says {response.named}")

    def fail(self, text):
        self.bad.append(text)

    def check(self, cond, text):
        if not cond:
            self.fail(text)

    def compare(self):
        """Each tag: one request with that very body, one answer with those very bytes."""
        asked, sent = {}, {}
        with open(self.log, encoding="utf-8", errors="replace") as f:
            for line in f:
                if self.prefix not in line:
                    continue
                e = json.loads(line)
                where = asked if e["event"] == "request" else sent
                where.setdefault(e["tag"], []).append(e)
        for tag, (body_sha, r) in self.seen.items():
            if len(asked.get(tag, [])) != 1 or len(sent.get(tag, [])) != 1:
                self.fail(f"{tag}: {len(asked.get(tag, []))} requests at the engines, "
                          f"{len(sent.get(tag, []))} answers; expected one each")
                continue
            a, s = asked[tag][0], sent[tag][0]
            if a["body_sha256"] != body_sha:
                self.fail(f"{tag} {a['line']}: the engine received another body "
                          f"({a['body_bytes']} bytes)")
            if s["sha256"] != r.sha or s["bytes"] != len(r.wire):
                self.fail(f"{tag} {a['line']}: received {len(r.wire)} bytes, the engine sent "
                          f"{s['bytes']}, or other ones")
            if a["engine"] != r.engine:
                self.fail(f"{tag}: answered by {r.engine}, asked {a['engine']}")

    def done(self, what):
        if self.log:
            self.compare()
        for text in self.bad[:20]:
            print(f"{what}: {text}")
        named = sum(bool(r.named) for _, r in self.seen.values())
        print(f"{what}: {len(self.seen)} answers, {len(self.bad)} wrong"
              + (f", {named} named" if self.named else ""))
        return not self.bad


def arguments(doc, cases):
    p = argparse.ArgumentParser(description=doc)
    p.add_argument("--to", type=target, required=True, help="ADDR:PORT of the service")
    p.add_argument("--log", help="the engines' log")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--named", action="store_true", help="the service has answer_header: true")
    p.add_argument("--agent", action="store_true", help="every request by the agent lane")
    p.add_argument("case", nargs="+", choices=sorted(cases) + ["all"])
    args = p.parse_args()
    if "all" in args.case:
        args.case = list(cases)
    return args


def main(doc, cases):
    """cases: name → function(args, record)"""
    args = arguments(doc, cases)
    good = True
    if args.agent:
        ALWAYS.append(("Upgrade", "none"))  # which only the agent can take out
    for name in args.case:
        record = Record(args.log, args.named)
        try:
            cases[name](args, record)
        except (OSError, Closed, ValueError) as e:
            record.fail(f"{type(e).__name__}: {e} (after {len(record.seen)} answers)")
        good &= record.done(name)
    sys.exit(not good)
