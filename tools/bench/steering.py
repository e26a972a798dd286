#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Steering against its goals: every line is runs of `kvsteer simulate`, what is wanted of them, and what came.

usage: steering.py KVSTEER [DIRECTORY OF TRACES]

8 engines of 2,000 blocks of 512 tokens, 16,000 tokens/s, learned state, unless a line says otherwise. Ends with the number
of goals that were missed; exit code 1 if there is one.
"""
import json
import os
import subprocess
import sys

KVSTEER = sys.argv[1] if len(sys.argv) > 1 else '.output/kvsteer'
TRACES = sys.argv[2] if len(sys.argv) > 2 else '../shared/traces'
missed = 0


def simulate(*args):
    out = subprocess.run([KVSTEER, '-j', 'simulate', *args], capture_output=True, text=True, check=False).stdout
    answer = json.loads(out)
    if 'error' in answer:
        raise SystemExit(f'steering: {" ".join(args)}: {answer["error"]}')
    return answer['runs']


def line(workload, what, value, most=None, least=None, unit=''):
    """one goal"""
    global missed
    scale = 100 if unit == '%' else 1
    fine = (most is None or value <= most) and (least is None or value >= least)
    goal = f'≤ {most * scale:g}{unit}' if least is None else f'≥ {least * scale:g}{unit}'
    missed += not fine
    print(f'| {workload} | {what} | {goal} | {value * scale:.4g}{unit} | {"yes" if fine else "**no**"} |', flush=True)


def note(workload, what, text):
    print(f'| {workload} | {what} | | {text} | |')


def mooncake():
    goals = {
        'conversation': [(1, .64, 1.52, None), (3, .85, 1.90, .24), (4, 1.95, 4.1, None)],
        'synthetic': [(1, .49, 1.60, None), (3, .77, 2.2, .51), (4, 6.5, 11, None)],
    }
    for trace, cells in goals.items():
        path = f'{TRACES}/mooncake-fast25/{trace}_trace.jsonl'
        if not os.path.exists(path):
            note(trace, 'all', f'skipped: no {path}')
            continue
        for run, (speed, mean, p90, hits) in zip(simulate(path, '--policy', 'price', '--speed', '1,3,4'), cells):
            line(trace, f'×{speed} mean TTFT', run['ttft_mean_s'], most=mean, unit=' s')
            line(trace, f'×{speed} P90 TTFT', run['ttft_p90_s'], most=p90, unit=' s')
            if hits:
                line(trace, f'×{speed} hits', run['hit_rate'], least=hits, unit='%')
            if trace == 'conversation':
                line(trace, f'×{speed} busiest over mean', run['busiest_over_mean'], most=1.10)
            line(trace, f'×{speed} believed but gone', run['over'], most=.01, unit='%')
            line(trace, f'×{speed} there but unknown', run['under'], most=.02, unit='%')


def ladder():
    name = 'ladder 150 × 5'
    full, = simulate('--workload', 'ladder', '--policy', 'price', '--block', '64', '--blocks', '4800')
    line(name, 'full cache, hits', full['hit_rate'], least=.98, unit='%')
    # all prefixes are 73 % of the fleet's cache, all that is ever asked twice as much
    half = ('--workload', 'ladder', '--policy', 'price', '--block', '64', '--blocks', '2400')
    for state, hits, p90 in (('learned', .80, .46), ('events', .83, .44)):
        run, = simulate(*half, '--' + state)
        line(name, f'half cache, {state}, hits', run['hit_rate'], least=hits, unit='%')
        line(name, f'half cache, {state}, P90 TTFT', run['ttft_p90_s'], most=p90, unit=' s')
        line(name, f'half cache, {state}, believed but gone', run['over'], most=.01, unit='%')
        line(name, f'half cache, {state}, there but unknown', run['under'], most=.02, unit='%')


def groups():
    for name in ('groups', 'groups-zipf'):
        # a cache holds a fifth of the prefixes
        price, turn = simulate('--workload', name, '--policy', 'price,round-robin', '--block', '64', '--blocks', '500')
        line(name, f"hits (round-robin {100 * turn['hit_rate']:.0f}%)", price['hit_rate'], least=.75, unit='%')
        line(name, 'believed but gone', price['over'], most=.01, unit='%')
        if name == 'groups-zipf':
            line(name, 'busiest over mean', price['busiest_over_mean'], most=1.2)


def prefixes():
    price, turn = simulate('--workload', 'prefixes', '--policy', 'price,round-robin')
    line('prefixes', 'hits, of the ceiling', price['hit_rate'] / price['hit_ceiling'], least=.94, unit='%')
    line('prefixes', 'P99 TTFT over round-robin', price['ttft_p99_s'] / turn['ttft_p99_s'], most=1)


def nosharing():
    cases = [('nosharing', ('--workload', 'nosharing', '--block', '16', '--blocks', '64000', '--speed', speed), speed)
             for speed in ('0.5', '1', '1.2')]
    for kind in ('code', 'conv'):
        path = f'{TRACES}/azure-llm-2023/AzureLLMInferenceTrace_{kind}.csv'
        cases += [(f'Azure {kind}', (path, '--speed', speed), speed) for speed in ('1', '10', '20')]
    for name, args, speed in cases:
        if args[0][0] != '-' and not os.path.exists(args[0]):
            note(name, f'×{speed}', f'skipped: no {args[0]}')
            continue
        price, least = simulate(*args, '--policy', 'price,least')
        for key, text in (('ttft_mean_s', 'mean'), ('ttft_p90_s', 'P90'), ('ttft_p99_s', 'P99'), ('seconds', 'time for all')):
            line(name, f'×{speed} {text} over least', price[key] / least[key], most=1.01)


def burst():
    run, = simulate('--workload', 'burst', '--policy', 'price', '--backends', '4')
    line('burst, 4 engines', 'busiest over mean', run['busiest_over_mean'], most=2)
    prefills = 1 + (run['hit_ceiling'] - run['hit_rate']) * 100 * 20000 / 4000
    line('burst, 4 engines', 'engines that prefill it', round(prefills), most=4)


def late():
    runs = [simulate('--workload', 'ladder', '--policy', 'price', '--metrics-delay', str(s))[0] for s in (0, 1, 5, 15)]
    for run, s in zip(runs[1:], (1, 5, 15)):
        line('metrics late', f'by {s} s, mean TTFT over that of 0 s', run['ttft_mean_s'] / runs[0]['ttft_mean_s'], most=1)


def share(run, since, until):
    slices = [s for s in run['slices'] if since <= s['at_s'] < until]
    return sum(s['hits'] for s in slices) / max(1, sum(s['blocks'] for s in slices))


def incidents():
    # each over 8 engines, one of which is touched in the middle of the run
    for trace, at, end in (('conversation', 600, 1140), ('synthetic', 120, 300)):
        path = f'{TRACES}/mooncake-fast25/{trace}_trace.jsonl'
        name = f'{trace} ×3'
        if not os.path.exists(path):
            note(name, 'incidents', f'skipped: no {path}')
            continue
        run = lambda *args: simulate(path, '--policy', 'price', '--speed', '3', '--slice', '10', *args)[0]
        calm = run()
        for what, args in (('all alike', ()), ('one 4 × slower', ('--slow', '3:4')),
                           ('one 4 × slower in mid-run', ('--slow', f'3:4@{at}'))):
            knew, learned = run(*args), run(*args, '--learn-rates')
            line(name, f'{what}: rates learned, P99 over known', learned['ttft_p99_s'] / knew['ttft_p99_s'], most=1.3)
        for what, args in (('an engine restarted', ('--restart', f'3@{at}')),
                           ('the agent restarted', ('--agent-restart', str(at), '--learn-rates'))):
            after = run(*args)
            # away for a minute; then one cache's worth of tokens, an eighth of what comes
            back = at + (60 if 'engine' in what else 0)
            turnover = 8 * 2000 * 512 / (sum(s['blocks'] for s in calm['slices']) * 512 * (1 - calm['hit_rate']) / calm['seconds'])
            line(name, f'{what}: P99 over a calm run', after['ttft_p99_s'] / calm['ttft_p99_s'], most=1.3)
            line(name, f'{what}: hits after one turnover ({turnover:.0f} s), over a calm run',
                 share(after, back + turnover, end) / share(calm, back + turnover, end), least=.95, unit='%')
            line(name, f'{what}: requests steered by a dead cache', after['dead'], most=0)


def main():
    print('| workload | what | goal | came | reached |\n|---|---|---|---|---|')
    for part in (mooncake, ladder, groups, prefixes, nosharing, burst, late, incidents):
        part()
    print(f'\n{missed} goals missed')
    return missed > 0


if __name__ == '__main__':
    sys.exit(main())
