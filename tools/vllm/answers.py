# SPDX-License-Identifier: BSD-2-Clause
"""Answers through the gateway are those of the engine: plain and streamed, in both lanes, one at a time and
many at once."""
import concurrent.futures
import json

from world import (ENGINES, GATEWAY, LANES, MODEL, check, client, client_of, counters, get, hint_text,
                   reset_caches, row)

WORDS = "the engine keeps what it has read and answers sooner if it reads the same again ".split()


def text(seed, words):
    return " ".join(WORDS[(seed * 7 + i * (seed + 3)) % len(WORDS)] + str(i * seed % 10) for i in range(words))


def chat(seed, words, temperature):
    messages = [{"role": "system", "content": text(1, 60)}, {"role": "user", "content": text(seed, words)}]
    return "chat", {"messages": messages, "temperature": temperature, "seed": seed}


def completion(seed, prompt, temperature):
    return "completion", {"prompt": prompt, "temperature": temperature, "seed": seed}


CASES = ([chat(n, n * n * 12, t) for n in range(1, 8) for t in (0, 0.8)] +
         [completion(n, text(n, 150), t) for n in (3, 4) for t in (0, 0.8)] +
         [completion(5, [ord(c) for c in text(5, 150)], 0)])


def ask(api, case, stream):
    """Text, finish reason, prompt tokens, completion tokens."""
    kind, args = case
    call = api.chat.completions.create if kind == "chat" else api.completions.create
    args = dict(args, model=MODEL, max_tokens=40, stream=stream)
    if not stream:
        answer = call(**args)
        first = answer.choices[0]
        return (first.message.content if kind == "chat" else first.text, first.finish_reason,
                answer.usage.prompt_tokens, answer.usage.completion_tokens)
    parts, reason, usage = [], None, None
    for chunk in call(**args, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for c in chunk.choices:
            parts.append((c.delta.content if kind == "chat" else c.text) or "")
            reason = c.finish_reason or reason
    return "".join(parts), reason, usage.prompt_tokens, usage.completion_tokens


def differences(got, want):
    return [(CASES[i], g, w) for i, (g, w) in enumerate(zip(got, want)) if g != w]


def all_of(api, stream):
    return [ask(api, case, stream) for case in CASES]


direct = [all_of(client(e), stream) for e in ENGINES for stream in (False, True)]
wanted = direct[0]
check(all(d == wanted for d in direct), "both engines give the same answers, plain and streamed",
      [differences(d, wanted) for d in direct])
check(len({w[0] for w in wanted}) == len(CASES), "each answer is its prompt's own", wanted)

for lane in LANES:
    for stream in (False, True):
        before = counters()
        got = all_of(client_of(lane), stream)
        there = counters()[f"requests_{lane}"] - before[f"requests_{lane}"]
        what = f"{lane} lane, {'streamed' if stream else 'plain'}"
        check(got == wanted, f"{what}: {len(CASES)} answers equal the engine's", differences(got, wanted))
        check(there == len(CASES), f"{what}: that lane decided them", f"{there} of {len(CASES)}")
        row(f"answers, {what}", f"{sum(g == w for g, w in zip(got, wanted))} of {len(CASES)} equal")

# Many at once: an answer in another's place would be seen, as all are different. Without a seed: with one
# vLLM 0.32.0 on CPUs dies when a prompt is computed in parts ("CPU Generator does not use offset").
GREEDY = [i for i, (_, args) in enumerate(CASES) if not args["temperature"]] * 6
for lane in LANES:
    reset_caches()
    with concurrent.futures.ThreadPoolExecutor(16) as pool, client_of(lane) as api:
        jobs = [pool.submit(ask, api, CASES[i], n % 2 == 0) for n, i in enumerate(GREEDY)]
        got = [job.result() for job in jobs]
    wrong = [(g, wanted[i]) for g, i in zip(got, GREEDY) if g != wanted[i]]
    foreign = [g for g, w in wrong if g[0] in {x[0] for x in wanted}]
    check(not foreign, f"{lane} lane, 16 at once: no answer is another prompt's", foreign)
    check(not wrong, f"{lane} lane, 16 at once: {len(got)} answers equal the engine's", wrong)
    row(f"answers, {lane} lane, 16 at once", f"{len(got) - len(wrong)} of {len(got)} equal")

models = [json.loads(get(to, "/v1/models"))["data"][0]["id"] for to in (GATEWAY, ENGINES[0])]
check(models == [MODEL] * 2, "/v1/models", models)
body = json.dumps({"model": MODEL, "prompt": "some text"}).encode()
check(get(GATEWAY, "/tokenize", body) == get(ENGINES[0], "/tokenize", body), "/tokenize")
with client(hook=hint_text) as api:
    try:
        api.chat.completions.create(model="other", messages=[{"role": "user", "content": text(1, 90)}])
        check(False, "an unknown model: 404")
    except Exception as e:  # whatever the package makes of it
        check(getattr(e, "status_code", 0) == 404, "an unknown model: the engine's 404", repr(e))
