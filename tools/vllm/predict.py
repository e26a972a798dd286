# SPDX-License-Identifier: BSD-2-Clause
"""What kvsteer believes to be cached against what the engine had, request by request.
usage: predict.py text|tokens

text: prompts hashed by the gateway's agent, in blocks of 256 bytes of text. tokens: the client sends the
hashes of the engine's own tokens in the engine's own blocks."""
import statistics
import sys

from talk import Talk
from world import BLOCK, backends, check, client, finish, hint_of_tokens, note, reset_caches, row, tokenize

domain = sys.argv[1]
TALKS, TURNS = 12, 7
hint = None


def hinted(request):
    if hint:
        request.headers["KV-Prefix"] = hint


def one(api, talk):
    """(believed, had, of): tokens of the engine."""
    global hint
    messages = talk.ask()
    hint = hint_of_tokens(tokenize(messages)) if domain == "tokens" else None
    before = backends()
    of, had = talk.turn(api, messages)
    for name, b in backends().items():
        total = b["prompt_tokens"] - before[name]["prompt_tokens"]
        if total:
            matched = b["matched_tokens"] - before[name]["matched_tokens"]
            return round(matched / total * of), had, of
    raise ValueError("no backend has served it")


def tell(name, seen):
    within = BLOCK if domain == "tokens" else 256
    good = sum(abs(b - h) <= within for b, h, _ in seen)
    more, less = sum(b - h > within for b, h, _ in seen), sum(h - b > within for b, h, _ in seen)
    row(f"believed against cached, {domain}, {name}",
        f"{good / len(seen):.1%} of {len(seen)} requests within a block of {within} tokens "
        f"(believed more: {more}, less: {less}); of all prompt tokens "
        f"{sum(b for b, _, _ in seen) / sum(o for _, _, o in seen):.1%} believed, "
        f"{sum(h for _, h, _ in seen) / sum(o for _, _, o in seen):.1%} cached")
    off = [b - h for b, h, _ in seen]
    note(f"believed - cached, tokens: min {min(off)}, median {statistics.median(off)}, max {max(off)}")


reset_caches()
with client(hook=hinted) as api:
    # few enough that all of it stays in the caches
    talks = [Talk(f"predict {domain}", n) for n in range(TALKS)]
    fits = [one(api, talk) for _ in range(TURNS) for talk in talks]
    tell("caches large enough", fits)
    # then twice as many as the caches hold, in turn: the oldest are evicted
    talks = [Talk(f"evict {domain}", n, user=(500, 900)) for n in range(3 * TALKS)]
    tight = [one(api, talk) for _ in range(TURNS - 2) for talk in talks]
    tell("caches too small", tight)
check(len(fits) + len(tight) == TALKS * TURNS + 3 * TALKS * (TURNS - 2), f"{domain}: all were answered")
finish()
