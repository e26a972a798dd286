# SPDX-License-Identifier: BSD-2-Clause
"""Asks, and prints for each answer: status, engine, cached tokens."""
import argparse
import json
import subprocess

from hint import hint
from kvhttp import Conn, request, target


def prompt(name, tokens):
    """Text of that many pseudo-tokens; equal names have equal text."""
    words, n = [], 0
    while n < tokens * 4:
        words.append(f"{name} {len(words):05d} ")
        n += len(words[-1])
    return "".join(words)[: tokens * 4]


def body(args, name, i):
    text = prompt(name, args.tokens)
    if args.tail:
        text += prompt(f"tail {name} {i}", args.tail)
    doc = {"model": "emulated", "max_tokens": args.max_tokens, "stream": args.stream}
    if args.chat:
        doc["messages"] = [{"role": "system", "content": text},
                           {"role": "user", "content": f"question {i}"}]
        path = "/v1/chat/completions"
    else:
        doc["prompt"] = text
        path = "/v1/completions"
    return path, json.dumps(doc, indent=args.indent).encode()


def fields(args, name, path, data):
    if args.lane == "session":
        return [("X-Session-Id", name)]
    if args.lane == "express":
        return [("KV-Prefix", hint(args.tokens, name))]
    if args.lane == "hash":  # the header that kvsteer itself would have sent
        out = subprocess.run([args.kvsteer, "hash", "--path", path], input=data, check=True,
                             capture_output=True)
        name, _, value = out.stdout.decode().strip().partition(": ")
        return [(name, value)]
    return []


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--to", type=target, required=True)
    p.add_argument("--log", help="not used")
    p.add_argument("--lane", choices=("express", "session", "agent", "hash", "none"),
                   default="agent")
    p.add_argument("--name", default="prompt")
    p.add_argument("--names", type=int, default=1, help="NAME-1, NAME-2, … in turn")
    p.add_argument("--n", type=int, default=1, help="requests of each name")
    p.add_argument("--tokens", type=int, default=1024)
    p.add_argument("--tail", type=int, default=0, help="tokens of each request's own")
    p.add_argument("--max-tokens", type=int, default=1)
    p.add_argument("--stream", action="store_true")
    p.add_argument("--chat", action="store_true")
    p.add_argument("--indent", type=int, help="white space in the JSON")
    p.add_argument("--kvsteer", default="kvsteer")
    p.add_argument("--new", action="store_true", help="a connection for each request")
    p.add_argument("--open", action="store_true", help="send all before any answer is read")
    args = p.parse_args()
    conn, waiting = None, []
    for i in range(args.n):
        for k in range(args.names):
            name = f"{args.name}-{k + 1}" if args.names > 1 else args.name
            path, data = body(args, name, i)
            if conn is None or args.new or args.open:
                conn = Conn(args.to)
            conn.send(request("POST", path, data, fields(args, name, path, data)))
            waiting.append(conn)
            if not args.open:
                show(waiting.pop())
    for conn in waiting:
        show(conn)


def show(conn):
    r = conn.read()
    cached = "-"
    if r.status == 200 and r.field("content-type") == ["application/json"]:
        cached = r.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    print(r.status, r.engine or "-", cached, flush=True)


main()
