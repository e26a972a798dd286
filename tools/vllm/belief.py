# SPDX-License-Identifier: BSD-2-Clause
"""Where belief and cache part while a conversation goes on: an engine's cache is emptied behind kvsteer's back
(/reset_prefix_cache); an engine refuses a prompt, so that it computes and caches nothing of it."""
from openai import BadRequestError

from talk import Talk
from world import ENGINES, MODEL, backends, check, client, reset_caches, row

TOO_LONG = 60000  # bytes: more than the model takes, and more than a cache holds


def turn(api, talk):
    """Of its prompt: how much was believed to be cached, how much was."""
    before = backends()
    of, had = talk.turn(api)
    total, believed = (sum(b[key] - before[name][key] for name, b in backends().items())
                       for key in ("prompt_tokens", "matched_tokens"))
    return believed / total, had / of


def refused(api, n):
    try:
        api.completions.create(model=MODEL, prompt=f"{n}" * TOO_LONG, max_tokens=1)
        return False
    except BadRequestError:
        return True


def tell(what, seen):
    row(f"{what}: turn before, the two after",
        "; ".join(f"{believed:.0%} believed, {had:.0%} cached" for believed, had in seen))


reset_caches()
with client() as api:
    talk = Talk("belief", 1)
    seen = [turn(api, talk) for _ in range(3)][2:]
    reset_caches()
    seen += [turn(api, talk) for _ in range(2)]
    check(seen[0][1] > 0.5 and seen[1][1] == 0 and seen[2][1] > 0.5, "after /reset_prefix_cache the caches fill again", seen)
    tell("/reset_prefix_cache", seen)

    seen = [turn(api, talk)]
    check(all(refused(api, n) for n in range(len(ENGINES))), "a prompt that is too long: the engine's 400")
    seen += [turn(api, talk) for _ in range(2)]
    check(all(had > 0.5 for _, had in seen), "it takes no engine's cache away", seen)
    tell("a prompt refused by each engine", seen)
