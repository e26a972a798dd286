# SPDX-License-Identifier: BSD-2-Clause
"""Malformed requests, byte by byte: each is refused with its status, a one-line JSON error and a
close, and nothing behind it is ever taken for a request. Unusual but right ones are served."""
import json

from hint import hint
from kvhttp import Closed, Conn, main

H = b"Host: t\r\n"
LIMIT = 64 << 20
# What smuggling would make a request of its own.
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: t\r\n\r\n"


def get(fields=b"", line=b"GET /v1/models HTTP/1.1", host=H):
    return line + b"\r\n" + host + fields + b"\r\n"


def post(fields, body=b"", line=b"POST /v1/completions HTTP/1.1"):
    return line + b"\r\n" + H + fields + b"\r\n" + body


CHUNKED = b"Transfer-Encoding: chunked\r\n"

BAD = [
    # request line
    (400, "one word", b"GARBAGE\r\n\r\n"),
    (400, "HTTP/0.9", b"GET /\r\n\r\n"),
    (400, "no target", get(line=b"GET HTTP/1.1")),
    (400, "two blanks", get(line=b"GET  / HTTP/1.1")),
    (400, "blank before the method", get(line=b" GET / HTTP/1.1")),
    (400, "tab for a blank", get(line=b"GET\t/\tHTTP/1.1")),
    (400, "blank in the target", get(line=b"GET /a b HTTP/1.1")),
    (400, "blank behind the version", get(line=b"GET / HTTP/1.1 ")),
    (400, "words behind the version", get(line=b"GET / HTTP/1.1 x")),
    (400, "method with a bracket", get(line=b"G(T / HTTP/1.1")),
    (400, "target without a slash", get(line=b"GET models HTTP/1.1")),
    (400, "NUL in the target", get(line=b"GET /a\0b HTTP/1.1")),
    (400, "control character in the target", get(line=b"GET /a\x01b HTTP/1.1")),
    (505, "HTTP/2.0", get(line=b"GET / HTTP/2.0")),
    (505, "HTTP/0.9 spelled out", get(line=b"GET / HTTP/0.9")),
    (501, "unknown method", get(line=b"BREW / HTTP/1.1")),
    (501, "method in lower case", get(line=b"get / HTTP/1.1")),
    (400, "bytes of a TLS handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(80)),
    # line ends
    (400, "LF alone", b"GET / HTTP/1.1\nHost: t\n\n"),
    (400, "LF alone behind a field", b"GET / HTTP/1.1\r\nHost: t\nX: y\r\n\r\n"),
    (400, "CR alone in the request line", b"GET / HTTP/1.1\rHost: t\r\n\r\n"),
    (400, "CR alone in a value", get(b"X: a\rb\r\n")),
    (400, "CR CR LF", get(b"X: a\r\r\n")),
    # fields
    (400, "no colon", get(b"Nonsense\r\n")),
    (400, "blank before the colon", get(b"X-A : b\r\n")),
    (400, "Content-Length, blank before the colon", post(b"Content-Length : 5\r\n", b"hello")),
    (400, "empty name", get(b": b\r\n")),
    (400, "bracket in a name", get(b"X(a): b\r\n")),
    (400, "byte above 127 in a name", get(b"X\xe9: b\r\n")),
    (400, "NUL in a name", get(b"X\0a: b\r\n")),
    (400, "NUL in a value", get(b"X: a\0b\r\n")),
    (400, "control character in a value", get(b"X: a\x01b\r\n")),
    (400, "DEL in a value", get(b"X: a\x7fb\r\n")),
    (400, "folded line", get(b"X: a\r\n b\r\n")),
    (400, "folded line, tab", get(b"X: a\r\n\tb\r\n")),
    (400, "folded line first", b"GET / HTTP/1.1\r\n X: y\r\n" + H + b"\r\n"),
    (400, "no Host", get(host=b"")),
    (400, "two Hosts", get(b"Host: u\r\n")),
    (431, "65 fields", get(b"".join(b"X-%d: y\r\n" % i for i in range(64)))),
    (431, "head of 9,000 bytes", get(b"X: " + b"y" * 9000 + b"\r\n")),
    (431, "target of 9,000 bytes", get(line=b"GET /" + b"y" * 9000 + b" HTTP/1.1")),
    # Content-Length
    (400, "length: negative", post(b"Content-Length: -5\r\n", b"hello")),
    (400, "length: plus sign", post(b"Content-Length: +5\r\n", b"hello")),
    (400, "length: hex", post(b"Content-Length: 0x5\r\n", b"hello")),
    (400, "length: empty", post(b"Content-Length:\r\n", b"hello")),
    (400, "length: two numbers", post(b"Content-Length: 5 6\r\n", b"hello")),
    (400, "length: list", post(b"Content-Length: 5, 5\r\n", b"hello")),
    (400, "length: list of two", post(b"Content-Length: 5, 6\r\n", b"hello")),
    (400, "length: twice", post(b"Content-Length: 5\r\nContent-Length: 5\r\n", b"hello")),
    (400, "length: twice, differing",
     post(b"Content-Length: 5\r\nContent-Length: 6\r\n", b"hello!")),
    (400, "length: trailing letter", post(b"Content-Length: 5x\r\n", b"hello")),
    (413, "length: 2^64 and more", post(b"Content-Length: 18446744073709551621\r\n", b"hello")),
    (413, "length: over the limit", post(b"Content-Length: %d\r\n" % (LIMIT + 1), b"hello")),
    # Transfer-Encoding
    (400, "length and coding", post(b"Content-Length: 5\r\n" + CHUNKED, b"0\r\n\r\n")),
    (400, "coding and length", post(CHUNKED + b"Content-Length: 5\r\n", b"0\r\n\r\n")),
    (501, "coding: gzip", post(b"Transfer-Encoding: gzip\r\n", b"hello")),
    (501, "coding: identity", post(b"Transfer-Encoding: identity\r\n", b"hello")),
    (501, "coding: xchunked", post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n")),
    (501, "coding: gzip, chunked", post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n")),
    (501, "coding: empty", post(b"Transfer-Encoding:\r\n", b"0\r\n\r\n")),
    (400, "coding: twice", post(CHUNKED + CHUNKED, b"0\r\n\r\n")),
    (400, "coding in HTTP/1.0", post(CHUNKED, b"0\r\n\r\n", b"POST / HTTP/1.0")),
    (417, "unknown expectation", post(b"Expect: miracles\r\nContent-Length: 5\r\n", b"hello")),
    # chunks
    (400, "chunk: no size", post(CHUNKED, b"\r\nhello\r\n0\r\n\r\n")),
    (400, "chunk: not hex", post(CHUNKED, b"zz\r\nhello\r\n0\r\n\r\n")),
    (400, "chunk: negative", post(CHUNKED, b"-5\r\nhello\r\n0\r\n\r\n")),
    (400, "chunk: 0x", post(CHUNKED, b"0x5\r\nhello\r\n0\r\n\r\n")),
    (400, "chunk: blank before", post(CHUNKED, b" 5\r\nhello\r\n0\r\n\r\n")),
    (400, "chunk: LF alone", post(CHUNKED, b"5\nhello\r\n0\r\n\r\n")),
    (400, "chunk: longer than its size", post(CHUNKED, b"5\r\nhello!\r\n0\r\n\r\n")),
    (400, "chunk: LF alone behind the data", post(CHUNKED, b"5\r\nhello\n0\r\n\r\n")),
    (400, "chunk: CR alone in an extension", post(CHUNKED, b"5;a\rb\r\nhello\r\n0\r\n\r\n")),
    (400, "chunk: size of 2^64", post(CHUNKED, b"10000000000000000\r\nhello\r\n0\r\n\r\n")),
    (400, "trailer without a colon", post(CHUNKED, b"5\r\nhello\r\n0\r\nnonsense\r\n\r\n")),
    (400, "folded trailer", post(CHUNKED, b"5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n")),
]

BODY = b'{"model":"emulated","prompt":"x","max_tokens":1}'
LEN = b"Content-Length: %d\r\n" % len(BODY)

SERVED = [
    ("HTTP/1.0", b"GET /v1/models HTTP/1.0\r\n" + H + b"\r\n"),
    ("HTTP/1.0 without Host", b"GET /v1/models HTTP/1.0\r\n\r\n"),
    ("Upgrade offered", get(b"Connection: Upgrade\r\nUpgrade: h2c\r\n")),
    ("absolute target", get(line=b"GET http://t/v1/models HTTP/1.1")),
    ("64 fields", get(b"".join(b"X-%d: y\r\n" % i for i in range(63)))),
    ("head of 8,000 bytes", get(b"X: " + b"y" * 7900 + b"\r\n")),
    ("names in capitals", post(LEN.upper(), BODY)),
    ("no blank behind the colon", b"GET /v1/models HTTP/1.1\r\nHost:t\r\n\r\n"),
    ("blanks and tabs around a value", get(b"X: \t a \t\r\n")),
    ("byte above 127 in a value", get(b"X: \xc3\xa9\r\n")),
    ("empty value", get(b"X:\r\n")),
    ("chunk with an extension and trailers",
     post(CHUNKED, b"%x;a=\"b;c\"\r\n%s\r\n0;z\r\nX-T: 1\r\n\r\n" % (len(BODY), BODY))),
    ("chunk size with zeros before", post(CHUNKED, b"000%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY))),
    ("body that is not JSON", post(b"Content-Length: 5\r\n", b"hello")),
]

HINTS = [
    b"", b"1", b"1;", b"1;100", b"1;100,", b"2;100,64:0123456789abcdef", b"nonsense",
    b"1;100,64:0123", b"1;100,64:0123456789abcdeg", b"1;100,64", b"1;100,:0123456789abcdef",
    b"1;100,64:0123456789abcdef,32:0123456789abcdef", b"1;100,200:0123456789abcdef",
    b"1;-1,64:0123456789abcdef", b"1;99999999999,64:0123456789abcdef",
    b"1;4000" + b"".join(b",%d:0123456789abcdef" % (64 * i) for i in range(1, 34)),
    b"1;" + b"9" * 900, b"1;100,64:0123456789abcdef;x",
]


def smuggled(log):
    with open(log, encoding="utf-8", errors="replace") as f:
        return sum("smuggled" in line for line in f)


def answer(args, data):
    conn = Conn(args.to, 5)
    try:
        conn.send(data)
    except OSError:
        pass  # refused before all was sent
    return conn, conn.read()


def refused(args, record):
    for status, name, data in BAD:
        try:
            conn, r = answer(args, data + SMUGGLED)
        except (OSError, Closed) as e:
            record.fail(f"{name}: no answer: {type(e).__name__} {e}")
            continue
        record.check(r.status == status, f"{name}: status {r.status}, expected {status}")
        record.check(r.field("content-type") == ["application/json"], f"{name}: not JSON")
        record.check(r.closes, f"{name}: no Connection: close")
        record.check(conn.ended(), f"{name}: connection stays open, or more was answered")
        record.check(r.body.count(b"\n") <= 1, f"{name}: more than one line")
        try:
            error = json.loads(r.body)["error"]
            record.check(error["message"] and error["type"] and "code" in error,
                         f"{name}: not an error object like OpenAI's: {r.body!r}")
        except (ValueError, KeyError, TypeError):
            record.fail(f"{name}: not an error object like OpenAI's: {r.body!r}")
        conn.close()
    record.check(not smuggled(args.log), "a request hidden behind a malformed one was served")
    print(f"{len(BAD)} malformed requests")


def too_large(args, record):
    """A chunked body over the limit is refused while it comes."""
    conn, piece = Conn(args.to, 30), bytes(1 << 20)
    try:
        conn.send(post(CHUNKED))
        for _ in range(LIMIT // len(piece) + 8):
            conn.send(b"100000\r\n" + piece + b"\r\n")
    except OSError:
        pass
    r = conn.read()
    record.check(r.status == 413 and r.closes, f"status {r.status}, expected 413 and close")


def served(args, record):
    for name, data in SERVED:
        want = 400 if "not JSON" in name else 200
        try:
            conn, r = answer(args, data)
        except (OSError, Closed) as e:
            record.fail(f"{name}: no answer: {type(e).__name__} {e}")
            continue
        record.check(r.status == want and r.engine,
                     f"{name}: status {r.status} of engine {r.engine!r}, expected {want}")
        conn.close()


def hints(args, record):
    """Malformed hints are ignored, the request is served."""
    conn = Conn(args.to, 5)
    for value in HINTS:
        conn.send(post(b"KV-Prefix: " + value + b"\r\n" + LEN, BODY))
        r = conn.read()
        record.check(r.status == 200, f"{value[:60]!r}: status {r.status}")
    conn.send(post(b"KV-Prefix: " + hint(256, "good").encode() + b"\r\n" + LEN, BODY))
    record.check(conn.read().status == 200, "well-formed hint")
    print(f"{len(HINTS)} malformed hints")
    conn.close()


def split(args, record):
    """The same refusals when a malformed head comes in two segments."""
    for status, name, data in BAD:
        if name.startswith(("chunk", "trailer", "folded trailer")) or len(data) > 4000:
            continue
        for at in (1, len(data) // 2, len(data) - 1):
            conn = Conn(args.to, 5)
            try:
                conn.segments([data[:at], data[at:] + SMUGGLED], 0.001)
                r = conn.read()
                record.check(r.status == status,
                             f"{name} cut at {at}: status {r.status}, expected {status}")
            except (OSError, Closed) as e:
                record.fail(f"{name} cut at {at}: no answer: {type(e).__name__} {e}")
            conn.close()
    record.check(not smuggled(args.log), "a request hidden behind a malformed one was served")


def repeated(args, record):
    """Behind a good request on the same connection, through both lanes."""
    good = [post(b"KV-Prefix: " + hint(256, "x").encode() + b"\r\n" + LEN, BODY), post(LEN, BODY)]
    for status, name, data in BAD[::3]:
        for first in good:
            conn = Conn(args.to, 5)
            try:
                conn.send(first)
                record.check(conn.read().status == 200, f"before {name}: not served")
                conn.send(data + SMUGGLED)
                r = conn.read()
                record.check(r.status == status,
                             f"{name} as second request: status {r.status}, expected {status}")
                record.check(conn.ended(), f"{name} as second request: stays open")
            except (OSError, Closed) as e:
                record.fail(f"{name} as second request: no answer: {type(e).__name__} {e}")
            conn.close()
    record.check(not smuggled(args.log), "a request hidden behind a malformed one was served")


if __name__ == "__main__":
    main(__doc__, {f.__name__.replace("_", "-"): f
                   for f in (refused, too_large, served, hints, split, repeated)})
