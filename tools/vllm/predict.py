# SPDX-License-Identifier: BSD-2-Clause
"""What kvsteer believes to be cached against what the engine had, request by request.
usage: predict.py text|tokens

text: prompts hashed by the gateway's agent, in blocks of 256 bytes of text. tokens: the client sends the
hashes of the engine's own tokens in the engine's own blocks, those before the ends of messages among them."""
import random
import sys

from talk import Talk
from world import BLOCK, backends, check, client, hint_of_tokens, reset_caches, row, tokenize

domain = sys.argv[1]
WITHIN = BLOCK if domain == "tokens" else 256
hint = None


def hinted(request):
    if hint:
        request.headers["KV-Prefix"] = hint


def one(api, talk):
    """Tokens of the engine: those believed to be cached, those that were, those of all the prompt."""
    global hint
    messages = talk.ask()
    hint = None
    if domain == "tokens":
        hint = hint_of_tokens(tokenize(messages), [len(tokenize(messages[:n], False)) for n in {1, len(messages) - 1}])
    before = backends()
    of, had = talk.turn(api, messages)
    for name, b in backends().items():
        total = b["prompt_tokens"] - before[name]["prompt_tokens"]
        if total:
            matched = b["matched_tokens"] - before[name]["matched_tokens"]
            return round(matched / total * of), had, of
    raise ValueError("no backend has served it")


def share(part, whole):
    return f"{part / whole:.1%}"


def tell(name, seen):
    believed, had, of = map(sum, zip(*seen))
    good = sum(abs(b - h) <= WITHIN for b, h, _ in seen)
    equal = sum(b == h for b, h, _ in seen)
    more, less = sum(b - h > WITHIN for b, h, _ in seen), sum(h - b > WITHIN for b, h, _ in seen)
    row(f"believed against cached, {domain}, {name}",
        f"{share(equal, len(seen))} of {len(seen)} requests equal, {share(good, len(seen))} within {WITHIN} tokens (more was believed: {more}, "
        f"less: {less}); {share(believed, of)} of all prompt tokens believed, {share(had, of)} cached")
    return good, equal


reset_caches()
with client(hook=hinted) as api:
    # Few enough that all of it stays in one engine's cache.
    talks = [Talk(f"{domain} few", n) for n in range(8)]
    few = [one(api, talk) for _ in range(7) for talk in talks]
    good, equal = tell("8 conversations, all fit", few)
    if domain == "tokens":
        check(equal >= 0.95 * len(few), "tokens: what was believed is what was cached, for 95 % of requests",
              [(b, h, n) for b, h, n in few if b != h])
    # More than both caches hold; some go on often, some seldom.
    talks = [Talk(f"{domain} many", n) for n in range(40)]
    order = random.Random(domain).choices(talks, [1 / (n + 4) for n in range(40)], k=200)
    many = [one(api, talk) for talk in order if sum(len(m["content"]) for m in talk.messages) < 7000]
    tell("40 conversations, too many to fit", many)
check(good > 0 and all(h <= of for _, h, of in few + many), f"{domain}: what was believed is told beside what was cached")
