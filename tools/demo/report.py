#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What the demo's runs measured: .output/demo.json, a table, a bar chart and .output/demo.svg.

usage: report.py DIRECTORY JSON SVG RUN…

DIRECTORY holds for each RUN what was measured: RUN.json and RUN.tsv (kv-replay), RUN.before and
RUN.after (`kvsteer -j counters`), RUN.cpu (the agent's clock ticks before and after).
"""
import csv
import json
import os
import sys

import chart

LANES = ('requests_express', 'requests_agent', 'requests_refused')


def counters(path):
    with open(path) as f:
        found = json.load(f)
    return found.get('counters', found)


def kernel_share(base):
    """Of the requests that the gateway counted during the replay."""
    before, after = counters(base + '.before'), counters(base + '.after')
    grown = {lane: after[lane] - before[lane] for lane in LANES}
    everything = sum(grown.values())
    return grown['requests_express'] / everything if everything else 0.0


def cpu_us_per_request(base, requests):
    with open(base + '.cpu') as f:
        before, after = map(int, f.read().split())
    return (after - before) * 1e6 / os.sysconf('SC_CLK_TCK') / requests


def measured(directory, name):
    base = os.path.join(directory, name)
    with open(base + '.json') as f:
        run = json.load(f)
    with open(base + '.tsv') as f:
        answers = [(float(r['due_s']), float(r['ttft_s']))
                   for r in csv.DictReader(f, delimiter='\t') if not r['error']]
    kept = ('requests', 'errors', 'hit_rate', 'ttft_p50_s', 'ttft_p90_s', 'ttft_p99_s',
            'busiest_over_mean')
    summary = dict(name=name, **{key: run[key] for key in kept})
    summary['kernel_share'] = round(kernel_share(base), 4)
    summary['gateway_cpu_us_per_request'] = round(cpu_us_per_request(base, run['requests']), 1)
    return summary, answers, run['errors_by_kind']


def seconds(s):
    return f'{s:.2f} s' if s >= 1 else f'{s * 1000:.0f} ms'


def table(runs):
    head = ('run', 'requests', 'errors', 'hit rate', 'TTFT p50', 'p90', 'p99', 'busiest/mean',
            'in kernel', 'agent CPU/req')
    rows = [head] + [(
        r['name'], str(r['requests']), str(r['errors']), f"{r['hit_rate']:.1%}",
        seconds(r['ttft_p50_s']), seconds(r['ttft_p90_s']), seconds(r['ttft_p99_s']),
        f"{r['busiest_over_mean']:.2f}", f"{r['kernel_share']:.1%}",
        f"{r['gateway_cpu_us_per_request']:.0f} µs") for r in runs]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    for n, row in enumerate(rows):
        cells = [row[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(row[1:], widths[1:])]
        print('  ' + '   '.join(cells))
        if n == 0:
            print('  ' + '─' * (sum(widths) + 3 * (len(widths) - 1)))


BARS = (
    ('hit rate', 'prompt tokens the engines found in their caches', 'hit_rate', '{:.1%}'.format),
    ('TTFT p50', 'time to first token, half of the requests', 'ttft_p50_s', seconds),
    ('TTFT p90', 'nine of ten', 'ttft_p90_s', seconds),
    ('in kernel', 'requests decided before user space woke up', 'kernel_share', '{:.1%}'.format),
    ('agent CPU', 'of the gateway’s process, per request', 'gateway_cpu_us_per_request',
     '{:.0f} µs'.format),
)


def main():
    directory, json_path, svg_path, *names = sys.argv[1:]
    found = [measured(directory, name) for name in names]
    runs = [summary for summary, _, _ in found]
    with open(json_path, 'w') as f:
        json.dump({'runs': runs}, f, indent=2)
        f.write('\n')
    with open(svg_path, 'w') as f:
        f.write(chart.svg(runs, [answers for _, answers, _ in found], seconds))
    table(runs)
    print()
    chart.bars(runs, BARS, colour=sys.stdout.isatty() and 'NO_COLOR' not in os.environ)
    for summary, _, kinds in found:
        for kind, count in kinds.items():
            print(f"  {summary['name']}: {count} × {kind}")
    return 1 if any(r['errors'] for r in runs) else 0


if __name__ == '__main__':
    sys.exit(main())
