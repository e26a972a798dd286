# SPDX-License-Identifier: BSD-2-Clause
"""`kvsteer simulate` from Python, and a document whose marked parts are its output."""
import json
import os
import subprocess

RATES = (15984, 15992, 16000, 16008, 16016)  # near saturation one run is luck: means over these
APART = range(15200, 16801, 200)  # and where a few requests decide, over these


class Simulator:
    def __init__(self, kvsteer, traces):
        self.kvsteer, self.traces = kvsteer, traces

    def run(self, *args):
        out = subprocess.run([self.kvsteer, '-j', 'simulate', *args], capture_output=True, text=True, check=False).stdout
        answer = json.loads(out)
        if 'error' in answer:
            raise SystemExit(f'steering: {" ".join(args)}: {answer["error"]}')
        return answer['runs']

    def mean(self, *args, rates=RATES):
        """the same runs at each of the rates, and their means"""
        runs = [self.run(*args, '--rate', str(rate)) for rate in rates]
        return [{key: sum(r[key] for r in of_one) / len(of_one) if isinstance(value, float) else value
                 for key, value in of_one[0].items()} for of_one in zip(*runs)]

    def plot(self, path, *args):
        subprocess.run([self.kvsteer, 'simulate', *args, '--plot', path], stdout=subprocess.DEVNULL, check=True)

    def trace(self, name):
        """its path, or None"""
        path = f'{self.traces}/{name}'
        return path if os.path.exists(path) else None

    def mooncake(self, name):
        return self.trace(f'mooncake-fast25/{name}_trace.jsonl')


def write(document, name, text):
    """puts text between the document's markers of that name"""
    begin, end = f'<!-- bench-steering: {name} -->\n', f'<!-- end: {name} -->\n'
    with open(document, encoding='utf-8') as f:
        was = f.read()
    head, found, rest = was.partition(begin)
    old, found_end, tail = rest.partition(end)
    if not found or not found_end:
        raise SystemExit(f'steering: {document}: expected the markers {begin.strip()} and {end.strip()}')
    with open(document, 'w', encoding='utf-8') as f:
        f.write(head + begin + text.rstrip('\n') + '\n' + end + tail)
