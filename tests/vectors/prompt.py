#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes prompt.json: bodies and their chain hashes, by a second implementation of libkvsteer(3).

Needs the shared library of xxHash; run it only when the definition changes.
"""
import ctypes
import json
import struct

XXH = ctypes.CDLL("libxxhash.so.0").XXH3_64bits_withSeed
XXH.restype = ctypes.c_uint64
XXH.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]


def xxh(data, seed):
    return XXH(data, len(data), seed % 2**64)


def value(v, outermost=True):
    if isinstance(v, dict):
        keys = sorted((k for k in v if not (outermost and k == "cache_control")), key=str.encode)
        return b"\xfc{" + b"".join(b"\xfd" + k.encode() + value(v[k], False) for k in keys) + b"\xfc}"
    if isinstance(v, list):
        return b"\xfc[" + b"".join(value(i, False) for i in v) + b"\xfc]"
    if isinstance(v, str):
        return b"\xfe" + v.encode()
    return b"\xff" + json.dumps(v).encode()


def content(c):
    if isinstance(c, str):
        return b"\xf8" + c.encode()
    return b"".join(b"\xf8" + p["text"].encode() if p["type"] == "text" else value(p) for p in c or [])


def message(m):
    out = b"\xf6" + m["role"].encode()
    if "name" in m:
        out += b"\xf7" + m["name"].encode()
    if "tool_call_id" in m:
        out += b"\xf9\xfe" + m["tool_call_id"].encode()
    return out + content(m.get("content")) + b"".join(b"\xfa" + value(c) for c in m.get("tool_calls", []))


def text(body):
    if "prompt" in body:
        return b"\xf8" + body["prompt"].encode()
    return b"".join(b"\xf5" + value(t) for t in body.get("tools", [])) + b"".join(map(message, body["messages"]))


def seed(body, domain):
    fields = [body.get(k, "").encode() for k in ("model", "cache_salt")] + [b""]
    out = 1337
    if any(fields):
        out += xxh(b"".join(struct.pack("<I", len(f)) + f for f in fields), 2)
    return out + (xxh(b"text", 3) if domain == "text" else 0)


def chain(data, block, s):
    out = []
    for at in range(0, len(data) - block + 1, block):
        local = xxh(data[at:at + block], s)
        out.append(xxh(struct.pack("<QQ", out[-1], local), 1337) if out else local)
    return out


BODIES = [
    {
        "model": "m\u00e9",
        "cache_salt": "s",
        "tools": [{"type": "function", "cache_control": {"type": "ephemeral"},
                   "function": {"name": "f", "parameters": {"z": 1, "a": [True, None]}}}],
        "messages": [
            {"role": "system", "content": "You are \u00e9 and \U0001f600. " * 30},
            {"role": "user", "name": "n", "content": [
                {"type": "text", "text": "a\n\"b\"\\" * 300},
                {"type": "image_url", "image_url": {"url": "http://a/b.png"}}]},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "x" * 400},
        ],
    },
    {"prompt": "Once upon a time. " * 100},
    {"model": "m", "prompt": list(range(100, 180))},
]


def vector(body):
    if isinstance(body.get("prompt"), list):
        domain, block, data = "tokens", 16, struct.pack("<80I", *body["prompt"])
    else:
        domain, block, data = "text", 64, text(body)
    hashes = chain(data, block * 4, seed(body, domain))
    return {"body": body, "total": -(-len(data) // 4), "block": block, "chain": [f"{h:016x}" for h in hashes]}


with open("tests/vectors/prompt.json", "w", encoding="utf-8") as out:
    json.dump([vector(b) for b in BODIES], out, indent=1)
    out.write("\n")
