#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A trace of coding agents at work, from SWE-agent's recorded sessions (.traj), for `kvsteer simulate`.

usage: agents.py DIRECTORY [SESSIONS (3000)] > TRACE

The recordings have texts and turns, no times. So sessions begin at random, 16 per second; each is one of the recordings
drawn at random. Sessions of one recording share its system prompt, and nothing else: what follows is taken to be of another
task. A turn is asked for when the answer before has been read: the answer at 50 tokens/s, and 2 s on average for the tool.
4 bytes are a token, 64 tokens a block. The same each time.
"""
import heapq
import json
import pathlib
import random
import sys

BLOCK, BYTES, SESSIONS_PER_S, TOKENS_PER_S, TOOL_S = 64, 4, 16.0, 50.0, 2.0


def length(message):
    text = message.get('content')
    size = len(text if isinstance(text, str) else json.dumps(text))
    return (size + len(json.dumps(message.get('tool_calls') or ''))) // BYTES + 4


def shape(path):
    """of each turn: where the messages before it end, in tokens, and how long its answer is"""
    ends, turns = [0], []
    for message in json.loads(path.read_text())['history']:
        if message['role'] == 'assistant':
            turns.append((ends[1:], length(message)))
        ends.append(ends[-1] + length(message))
    return turns


def main():
    shapes = [shape(p) for p in sorted(pathlib.Path(sys.argv[1]).rglob('*.traj'))]
    if not shapes:
        raise SystemExit(f'agents: no .traj below {sys.argv[1]}')
    chance, due, at = random.Random(1), [], 0.0
    for session in range(int(sys.argv[2]) if len(sys.argv) > 2 else 3000):
        at += chance.expovariate(SESSIONS_PER_S)
        heapq.heappush(due, (at, session, chance.randrange(len(shapes)), 0))
    names = {}
    while due:
        at, session, which, turn = heapq.heappop(due)
        ends, answer = shapes[which][turn]
        tokens = ends[-1]
        ids = [names.setdefault((which, j) if (j + 1) * BLOCK <= ends[0] else
                                (session, j) if (j + 1) * BLOCK <= tokens else (session, j, turn), len(names))
               for j in range(-(-tokens // BLOCK))]
        print(json.dumps({'timestamp': int(at * 1000), 'input_length': tokens, 'output_length': answer, 'hash_ids': ids,
                          'boundaries': ends}))
        if turn + 1 < len(shapes[which]):
            at += answer / TOKENS_PER_S + chance.expovariate(1 / TOOL_S)
            heapq.heappush(due, (at, session, which, turn + 1))


if __name__ == '__main__':
    main()
