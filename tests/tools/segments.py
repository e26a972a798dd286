# SPDX-License-Identifier: BSD-2-Clause
"""Requests in every segmentation, through both lanes; answers are compared with the engines' log."""
import random
import threading

from hint import hint
from kvhttp import Closed, Conn, main, pattern, request

BODY = b'{"model":"emulated","prompt":"some text","max_tokens":3}'
STREAM = b'{"model":"emulated","prompt":"some text","max_tokens":5,"stream":true}'
# Fields that lead into a lane: a hint into the kernel, none of it into the agent.
LANES = {
    "express": [("KV-Prefix", hint(256, "segments"))],
    "session": [("X-Session-Id", "segments")],
    "agent": [],
}


def build(record, method, path, body=b"", fields=(), **more):
    tag = record.tag()
    return tag, body, method, request(method, path, body, [*fields, ("X-Tag", tag)], **more)


def exchange(conn, record, built, segments=None, gap=0.0005):
    tag, body, method, data = built
    if segments is None:
        conn.send(data)
    else:
        conn.segments(segments(data), gap)
    r = conn.read(method)
    record.add(tag, body, r)
    record.check(r.status == 200, f"{tag}: status {r.status}: {r.body[:200]!r}")
    return r


def split_at(i):
    return lambda data: [data[:i], data[i:]]


def cut(rng, data, most):
    parts, at = [], 0
    while at < len(data):
        n = rng.randint(1, most)
        parts.append(data[at : at + n])
        at += n
    return parts


def every_byte(args, record):
    """Two segments, cut at every byte."""
    for fields in LANES.values():
        conn = Conn(args.to)
        n = len(build(record, "POST", "/v1/completions", BODY, fields)[3])
        for i in range(1, n):
            built = build(record, "POST", "/v1/completions", BODY, fields)
            exchange(conn, record, built, split_at(i), 0.001)
        conn.close()


def byte_by_byte(args, record):
    for fields in LANES.values():
        for body in (BODY, STREAM):
            conn = Conn(args.to)
            built = build(record, "POST", "/v1/completions", body, fields)
            exchange(conn, record, built, lambda d: [d[i : i + 1] for i in range(len(d))], 0.0002)
            conn.close()


def payload(rng, lane, size):
    """A body of about that size: one that the agent reads, or any bytes."""
    if lane != "agent":
        return "/echo", rng.randbytes(size)
    text = "".join(rng.choices("abcdefgh ", k=size))
    return "/v1/completions", b'{"model":"emulated","prompt":"%s","max_tokens":2}' % text.encode()


def random_segments(args, record):
    rng = random.Random(args.seed)
    for lane, fields in LANES.items():
        conn = Conn(args.to)
        for size in (1, 500, 1448, 4096, 20000, 65536, 200000, 1000000):
            path, body = payload(rng, lane, size)
            most = rng.choice((100, 1448, 9000)) if size < 70000 else 40000
            built = build(record, "POST", path, body, fields)
            exchange(conn, record, built, lambda d, m=most: cut(rng, d, m), 0.0002)
        conn.close()


def pipelining(args, record):
    rng = random.Random(args.seed)
    kinds = list(LANES.values())
    for n in range(2, 21):
        for whole in (True, False):
            conn = Conn(args.to)
            batch = []
            for i in range(n):
                fields = kinds[rng.randrange(3)] if n % 2 else kinds[n // 2 % 3]
                tag = f"{record.prefix}p{n}-{whole}-{i}"
                method, path, body = rng.choice((
                    ("POST", "/v1/completions", BODY),
                    ("POST", "/v1/completions", STREAM),
                    ("GET", f"/bytes/{rng.randint(0, 5000)}?framing=chunked&chunk=700", b""),
                    ("POST", "/echo", rng.randbytes(rng.randint(0, 3000))),
                    ("HEAD", "/bytes/777", b""),
                ))
                data = request(method, path, body, [*fields, ("X-Tag", tag)])
                batch.append((tag, body, method, data))
            data = b"".join(b[3] for b in batch)
            if whole:
                conn.send(data)
            else:
                writer = threading.Thread(target=conn.segments, args=(cut(rng, data, 900),))
                writer.start()
            for tag, body, method, _ in batch:
                r = conn.read(method)
                record.add(tag, body, r)
                record.check(r.status == 200, f"{tag}: status {r.status}")
            if not whole:
                writer.join()
            conn.close()


def keep_alive(args, record):
    """200 requests of all kinds on one connection, to changing backends."""
    conn, engines = Conn(args.to), set()
    for i in range(200):
        name = f"session-{i % 17}"
        fields = ([("KV-Prefix", hint(256, name))], [("X-Session-Id", name)], [])[i % 3]
        if i % 5 == 4:
            built = build(record, "GET", f"/bytes/{i * 37}", b"", fields)
        else:
            body = STREAM if i % 2 else BODY
            built = build(record, "POST", "/v1/completions", body, fields)
        engines.add(exchange(conn, record, built).engine)
    conn.close()
    record.check(len(engines) > 1, f"all requests went to {engines}")


SIZES = (0, 1, 100, 1447, 1448, 1449, 65535, 65536, 1 << 20, 8 << 20)


def uploads(args, record):
    rng = random.Random(args.seed)
    for lane, fields in LANES.items():
        conn = Conn(args.to)
        for size in SIZES:
            path, body = payload(rng, lane, size)
            exchange(conn, record, build(record, "POST", path, body, fields))
            chunks = [rng.randint(1, max(1, size // 3 + 1)) for _ in range(4)]
            built = build(record, "POST", path, body, fields, chunks=chunks)
            exchange(conn, record, built)
        conn.close()


def downloads(args, record):
    for lane, fields in LANES.items():
        conn = Conn(args.to)
        for size in SIZES:
            for framing in ("length", "chunked&chunk=3000&ext=1&trailer=1", "close"):
                if lane == "agent":
                    built = build(record, "POST", f"/bytes/{size}?framing={framing}", b"{}",
                                  [("Expect", "100-continue")])
                else:
                    built = build(record, "GET", f"/bytes/{size}?framing={framing}", b"", fields)
                r = exchange(conn, record, built)
                record.check(r.body == pattern(size), f"{size} {framing}: other bytes")
                if framing == "close":
                    record.check(conn.ended(), f"{size} {framing}: not closed")
                    conn.close()
                    conn = Conn(args.to)
        conn.close()


def small_chunks(args, record):
    """Chunks of a few bytes, each in a segment of its own."""
    conn = Conn(args.to)
    for chunk, size in ((1, 200), (2, 400), (3, 600), (7, 900), (100, 10000)):
        path = f"/bytes/{size}?framing=chunked&chunk={chunk}&delay_us=200&ext=1&trailer=1"
        r = exchange(conn, record, build(record, "GET", path))
        record.check(r.body == pattern(size), f"chunks of {chunk}: other bytes")
    conn.close()


def interim(args, record):
    """1xx before the answer, 204 and 304 without a body, HEAD with a length but no body."""
    conn = Conn(args.to)
    for fields in (LANES["express"], LANES["session"]):
        r = exchange(conn, record, build(record, "GET", "/bytes/1000?interim=3", b"", fields))
        record.check(r.interim == [103] * 3, f"interim answers {r.interim}")
        for status in (204, 304):
            tag, body, method, data = build(record, "GET", f"/status/{status}", b"", fields)
            conn.send(data)
            r = conn.read()
            record.add(tag, body, r)
            record.check(r.status == status, f"status {r.status}, expected {status}")
        for path in ("/v1/models", "/bytes/5000", "/bytes/5000?framing=chunked"):
            exchange(conn, record, build(record, "HEAD", path, b"", fields))
            exchange(conn, record, build(record, "GET", path, b"", fields))
    conn.close()


def expect(args, record):
    """Expect: 100-continue; the body waits for the word, or does not."""
    for fields in LANES.values():
        for wait in (True, False):
            conn = Conn(args.to)
            for size in (10, 100000):
                body = bytes(size)
                built = build(record, "POST", "/echo", body, [*fields, ("Expect", "100-continue")])
                tag, _, _, data = built
                if not wait:
                    exchange(conn, record, built)
                    continue
                conn.send(data[:-size])
                r = conn._head()
                record.check(r.status == 100, f"{tag}: {r.status} instead of 100")
                conn.send(data[-size:])
                r = conn.read()
                record.add(tag, body, r)
                record.check(r.status == 200, f"{tag}: status {r.status}")
            conn.close()


def half_close(args, record):
    """The client ends its side behind the request; the answer still comes whole."""
    for fields in LANES.values():
        for path, body in (("/v1/completions", BODY), ("/v1/completions", STREAM),
                           ("/bytes/300000?framing=chunked", b"{}"),
                           ("/bytes/2000?framing=chunked&chunk=100&delay_us=2000", b"{}")):
            conn = Conn(args.to)
            tag, _, method, data = build(record, "POST", path, body, fields)
            conn.send(data)
            conn.half_close()
            r = conn.read(method)
            record.add(tag, body, r)
            record.check(conn.ended(), f"{path}: connection stays open after both ended")
            conn.close()


def many(args, record):
    """Eight clients at a time, lanes mixed; no answer reaches another client."""
    lock = threading.Lock()

    def client(k):
        rng = random.Random(args.seed * 1000 + k)
        conn = Conn(args.to)
        for i in range(60):
            fields = rng.choice(list(LANES.values()))
            seed = rng.randrange(20)
            size = rng.choice((10, 3000, 70000))
            framing = rng.choice(("length", "chunked"))
            path = f"/bytes/{size}?seed={seed}&framing={framing}&chunk=1000"
            tag = f"{record.prefix}m{k}-{i}"
            conn.send(request("POST", path, b"{}", [*fields, ("X-Tag", tag)]))
            r = conn.read()
            with lock:
                record.add(tag, b"{}", r)
                if size <= 3000:
                    record.check(r.body == pattern(size, seed), f"{tag}: other bytes")
        conn.close()

    def guarded(k):
        try:
            client(k)
        except (OSError, Closed, ValueError) as e:
            with lock:
                record.fail(f"client {k}: {type(e).__name__}: {e}")

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    record.check(len(record.seen) == 8 * 60, f"{len(record.seen)} of {8 * 60} answered")


if __name__ == "__main__":
    main(__doc__, {f.__name__.replace("_", "-"): f for f in (
        every_byte, byte_by_byte, random_segments, pipelining, keep_alive, uploads, downloads,
        small_chunks, interim, expect, half_close, many)})
