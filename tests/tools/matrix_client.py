# SPDX-License-Identifier: BSD-2-Clause
"""Clients of the matrix, many at once: each sends a request, leaves in its own way, and tells what it
has seen."""
import asyncio
import concurrent.futures
import ctypes
import json
import socket
import struct
import time

from kvhttp import request

PATIENCE = 25  # s: longer than anything may take


def now_ms():
    return time.monotonic_ns() // 1000000


class Seen:
    """What a client has received, and how it ended."""

    def __init__(self):
        self.data = bytearray()
        self.end = ""  # FIN, RST or time
        self.at_ms = 0  # when it was over: an answer complete, an end, or the client left

    def parse(self):
        """(status, engine or "gw", bytes of the whole answer or None if it is not whole)"""
        at = self.data.find(b"\r\n\r\n")
        if at < 0:
            return 0, "", None
        head = bytes(self.data[:at]).decode("latin-1").split("\r\n")
        fields = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in head[1:])}
        status, at = int(head[0].split(" ")[1]), at + 4
        if "transfer-encoding" in fields:
            end = self.chunked(at)
        elif "content-length" in fields:
            end = at + int(fields["content-length"])
        else:
            end = len(self.data) if self.end == "FIN" else None
        if end is not None and end > len(self.data):
            end = None
        return status, fields.get("x-engine", "gw"), end

    def chunked(self, at):
        while True:
            line = self.data.find(b"\r\n", at)
            if line < 0:
                return None
            size = int(self.data[at:line], 16)
            at = line + 2 + size + 2
            if at > len(self.data):
                return None
            if not size:
                return at

    @property
    def what(self):
        status, engine, end = self.parse()
        if end is not None:
            return f"{status} {engine.split('-')[-1]}"
        return f"broken, {self.end}" if self.data else self.end


def request_bytes(mode, lane, tag, tokens):
    """A prompt of its own, so that no engine is preferred for its cache."""
    fields = [("X-Tag", tag)] + ([("X-Session-Id", tag)] if lane == "express" else [])
    body = json.dumps({"model": "emulated", "prompt": f"{tag} " * 8, "max_tokens": tokens,
                       "stream": mode != "plain", "until_close": mode == "close"}).encode()
    return request("POST", "/v1/completions", body, fields)


def made_there(namespace, family):
    """A socket of another host, made by a thread that ends with it."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}", encoding="ascii") as f:
        if libc.setns(f.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns")
    return socket.socket(family)


async def connected(to, namespace=None):
    family = socket.AF_INET6 if ":" in to[0] else socket.AF_INET
    if namespace:
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            sock = thread.submit(made_there, namespace, family).result()
    else:
        sock = socket.socket(family)
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    await asyncio.get_running_loop().sock_connect(sock, to)
    return sock


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def half_close(sock):
    try:
        sock.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # reset meanwhile: reading tells


async def read(sock, seen, whole=True):
    """Until the answer is whole, or the peer's end."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            data = await loop.sock_recv(sock, 1 << 16)
        except ConnectionResetError:
            seen.end = "RST"
            break
        if not data:
            seen.end = "FIN"
            break
        seen.data += data
        if whole and seen.parse()[2] is not None:
            break
    if not seen.at_ms:
        seen.at_ms = now_ms()


async def read_within(sock, seen, seconds, whole=True):
    """False: it is not over yet."""
    try:
        await asyncio.wait_for(read(sock, seen, whole), seconds)
    except asyncio.TimeoutError:
        return False
    return True


async def ask(sock, seen, act, act_ms):
    """Waits for the answer of what has been sent, or leaves."""
    if act in ("closes", "resets"):
        end = time.monotonic() + act_ms / 1000
        await read_within(sock, seen, act_ms / 1000)
        await asyncio.sleep(max(0, end - time.monotonic()))
        seen.at_ms = now_ms()
        reset(sock) if act == "resets" else sock.close()
        return
    if act == "half-closes":
        await read_within(sock, seen, act_ms / 1000)
        if not seen.end:
            half_close(sock)
    if not seen.at_ms and not await read_within(sock, seen, PATIENCE):
        seen.end = "time"
        seen.at_ms = now_ms()
    if act == "half-closes" and not seen.end:
        # Nothing more can be asked: the gateway closes.
        before = len(seen.data)
        if not await read_within(sock, seen, 3, whole=False):
            seen.end = "time"
        if len(seen.data) != before:
            seen.end = "bytes behind the answer"
    sock.close()
