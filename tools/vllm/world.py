# SPDX-License-Identifier: BSD-2-Clause
"""What the checks share: OpenAI clients with and without a hint, the engines' metrics, kvsteer's view, and
results as TAP lines and rows of a table. tools/vllm.sh sets the environment."""
import contextlib
import ctypes
import json
import os
import re
import shlex
import signal
import subprocess
import time
import urllib.request

import httpx
from openai import OpenAI

ROOT = os.environ["KV_OUT"]
GATEWAY = os.environ["KV_GATEWAY"]
ENGINES = os.environ["KV_ENGINES"].split()
KVSTEER = shlex.split(os.environ["KV_KVSTEER"])
ROWS = os.environ["KV_ROWS"]
MODEL = "tiny"
BLOCK = int(os.environ["KV_BLOCK"])
LANES = ("agent", "express")


# ---- hints: libkvsteer through ctypes ----------------------------------------------------

class Rung(ctypes.Structure):
    _fields_ = [("hash", ctypes.c_uint64), ("depth", ctypes.c_uint32), ("zero", ctypes.c_uint32)]


class Prompt(ctypes.Structure):
    _fields_ = [("total", ctypes.c_uint32), ("block", ctypes.c_uint32), ("domain", ctypes.c_int),
                ("n_rungs", ctypes.c_uint32), ("seed", ctypes.c_uint64), ("reason", ctypes.c_char_p),
                ("rungs", Rung * 32)]


class Options(ctypes.Structure):
    _fields_ = [("model", ctypes.c_char_p), ("lora", ctypes.c_char_p), ("salt", ctypes.c_char_p),
                ("tenant", ctypes.c_char_p), ("block", ctypes.c_uint32), ("flags", ctypes.c_uint32)]


LIB = ctypes.CDLL(f"{ROOT}/libkvsteer.so")


def header_of(prompt):
    value = ctypes.create_string_buffer(801)
    return value.value.decode() if LIB.kvsteer_header(ctypes.byref(prompt), value, 801) > 0 else None


def hint_of_body(path, body):
    """KV-Prefix of a request body, from its text; None where there is no prefix."""
    prompt = Prompt()
    err = LIB.kvsteer_body(path.encode(), body, ctypes.c_size_t(len(body)), None, ctypes.byref(prompt))
    return header_of(prompt) if not err else None


def prompt_of_tokens(ids):
    prompt = Prompt()
    options = Options(model=MODEL.encode())
    if LIB.kvsteer_tokens((ctypes.c_uint32 * len(ids))(*ids), ctypes.c_size_t(len(ids)), BLOCK,
                          ctypes.byref(options), ctypes.byref(prompt)):
        raise ValueError("token ids")
    return prompt


def hint_of_tokens(ids, ends=()):
    """KV-Prefix of token ids, in the engine's own blocks. ends: of messages, in tokens: there other prompts part
    from this one, so the blocks before each are rungs as well."""
    prompt = prompt_of_tokens(ids)
    rungs = {r.depth: r.hash for r in prompt.rungs[:prompt.n_rungs]}
    sure = set()
    for end in ends:
        for depth in (end // BLOCK * BLOCK, end // BLOCK * BLOCK - BLOCK):
            if 0 < depth <= len(ids):
                part = prompt_of_tokens(ids[:depth])
                rungs[depth] = part.rungs[part.n_rungs - 1].hash
                sure.add(depth)
    for depth in sorted(set(rungs) - sure)[:max(len(rungs) - 32, 0)]:
        del rungs[depth]
    prompt.n_rungs = len(rungs)
    for i, depth in enumerate(sorted(rungs)):
        prompt.rungs[i].depth, prompt.rungs[i].hash = depth, rungs[depth]
    return header_of(prompt)


def hint_text(request):
    value = hint_of_body(request.url.path, request.content)
    if value:
        request.headers["KV-Prefix"] = value


def client(to=GATEWAY, hook=None, timeout=120):
    """An OpenAI client; hook(request) is called on each request before it is sent."""
    http = httpx.Client(event_hooks={"request": [hook] if hook else []}, timeout=timeout)
    return OpenAI(base_url=f"http://{to}/v1", api_key="none", http_client=http, max_retries=0)


def client_of(lane, to=GATEWAY):
    return client(to, hint_text if lane == "express" else None)


# ---- engines and gateway --------------------------------------------------------------------

def get(to, path, body=None, timeout=10):
    request = urllib.request.Request(f"http://{to}{path}", data=body,
                                     headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return answer.read().decode()


def metric(engine, name):
    """The sum over all label sets of one of an engine's metrics."""
    found = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", get(engine, "/metrics"), re.M)
    return sum(map(float, found))


def running():
    return sum(metric(e, "vllm:num_requests_running") + metric(e, "vllm:num_requests_waiting")
               for e in ENGINES)


def reset_caches(engines=tuple(ENGINES)):
    for engine in engines:
        get(engine, "/reset_prefix_cache", body=b"")


def tokenize(messages, ask=True):
    body = {"model": MODEL, "messages": messages, "add_generation_prompt": ask}
    return json.loads(get(ENGINES[0], "/tokenize", json.dumps(body).encode()))["tokens"]


def kvsteer(*args):
    done = subprocess.run([*KVSTEER, "-j", *args], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def backends():
    return {b["name"]: b for b in kvsteer("backend", "list")["backends"]}


def counters():
    return kvsteer("counters")["counters"]


@contextlib.contextmanager
def recording(file):
    """What goes through the gateway meanwhile is recorded in file."""
    with subprocess.Popen([*KVSTEER, "record", "--force", "-o", file]) as recorder:
        until(10, lambda: os.path.exists(file) and os.path.getsize(file))
        yield
        recorder.send_signal(signal.SIGINT)


def until(seconds, what):
    """Waits until what() holds; the seconds it took, or None."""
    start = time.monotonic()
    while not what():
        if time.monotonic() - start > seconds:
            return None
        time.sleep(0.02)
    return time.monotonic() - start


# ---- results ----------------------------------------------------------------------------------

def check(good, text, detail=""):
    print(f"{'ok' if good else 'not ok'} - {text}", flush=True)
    if not good:
        for line in str(detail).splitlines()[:20]:
            print(f"#   {line}", flush=True)
    return good


def note(text):
    print(f"# {text}", flush=True)


def row(what, *values):
    with open(ROWS, "a") as out:
        print("|", what, "|", " | ".join(map(str, values)), "|", file=out)
    note("| " + what + " | " + " | ".join(map(str, values)) + " |")
