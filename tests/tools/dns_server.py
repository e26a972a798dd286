#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A DNS server for tests, over UDP and TCP. Prints its port when it listens.

usage: dns_server.py ZONE [ADDRESS]

ZONE is a JSON file, read again for each query:
  {"name": {"A": [["10.0.0.1", ttl]], "AAAA": […], "SRV": [[priority, weight, port, "target", ttl]],
            "CNAME": ["target", ttl], "fault": F}}
F, of a name or of "*" (all): servfail, refused, silent, garbage, short (half of the answer),
other-id, loop (a compression pointer to itself), truncated (UDP says: ask by TCP).
What is not there is NXDOMAIN; a name without records of the type: an answer without records.
"""
import ipaddress
import json
import selectors
import socket
import struct
import sys

A, CNAME, AAAA, SRV = 1, 5, 28, 33
TYPES = {A: "A", AAAA: "AAAA", SRV: "SRV"}


def name_bytes(name):
    labels = [label.encode() for label in name.strip(".").split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def record(name, kind, ttl, data):
    return name + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


def records(zone, name, kind, depth=0):
    entry = zone.get(name, {})
    owner = name_bytes(name)
    if "CNAME" in entry and depth < 8:
        target, ttl = entry["CNAME"]
        return [record(owner, CNAME, ttl, name_bytes(target))] + records(zone, target, kind, depth + 1)
    out = []
    for r in entry.get(TYPES.get(kind, ""), []):
        if kind == SRV:
            out.append(record(owner, SRV, r[4], struct.pack("!HHH", *r[:3]) + name_bytes(r[3])))
        else:
            out.append(record(owner, kind, r[1], ipaddress.ip_address(r[0]).packed))
    return out


def answer(path, query, tcp):
    with open(path) as f:
        zone = json.load(f)
    ident = query[:2]
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode())
        at += 1 + query[at]
    question = query[12:at + 5]
    kind = struct.unpack("!H", query[at + 1:at + 3])[0]
    name = ".".join(labels).lower()
    fault = zone.get(name, {}).get("fault") or zone.get("*", {}).get("fault")
    rcode, rrs, flags = 0, [], 0x8180
    if fault == "silent":
        return None
    if fault == "garbage":
        return ident + b"\xff" * 40
    if fault in ("servfail", "refused"):
        rcode = 2 if fault == "servfail" else 5
    elif name not in zone:
        rcode = 3
    elif fault == "truncated" and not tcp:
        flags |= 0x0200
    else:
        rrs = records(zone, name, kind)
    if fault == "loop":
        rrs = [record(b"\xc0" + bytes([12 + len(question)]), kind, 1, b"\x0a\0\0\1")]
    if fault == "other-id":
        ident = bytes([ident[0] ^ 1, ident[1]])
    message = ident + struct.pack("!HHHHH", flags | rcode, 1, len(rrs), 0, 0) + question + b"".join(rrs)
    return message[:len(message) // 2] if fault == "short" else message


def serve_tcp(path, listener):
    conn, _ = listener.accept()
    with conn:
        conn.settimeout(1)
        try:
            head = conn.recv(2)
            query = conn.recv(struct.unpack("!H", head)[0])
            reply = answer(path, query, True)
            if reply:
                conn.sendall(struct.pack("!H", len(reply)) + reply)
        except (OSError, struct.error, IndexError):
            pass


def main():
    path = sys.argv[1]
    address = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    udp = socket.socket(family, socket.SOCK_DGRAM)
    udp.bind((address, 0))
    port = udp.getsockname()[1]
    tcp = socket.socket(family, socket.SOCK_STREAM)
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    tcp.bind((address, port))
    tcp.listen(16)
    print(port, flush=True)
    ready = selectors.DefaultSelector()
    ready.register(udp, selectors.EVENT_READ)
    ready.register(tcp, selectors.EVENT_READ)
    while True:
        for key, _ in ready.select():
            if key.fileobj is tcp:
                serve_tcp(path, tcp)
                continue
            query, peer = udp.recvfrom(4096)
            try:
                reply = answer(path, query, False)
            except (IndexError, UnicodeDecodeError, struct.error):
                continue
            if reply:
                udp.sendto(reply, peer)


if __name__ == "__main__":
    main()
