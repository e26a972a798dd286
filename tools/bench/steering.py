#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Steering against its goals: every line is runs of `kvsteer simulate`, what is wanted of them, and what came.

usage: steering.py KVSTEER [DIRECTORY OF TRACES [DOCUMENT]]

8 engines of 2,000 blocks of 512 tokens, 16,000 tokens/s, learned state, unless a line says otherwise; Mooncake's lines are
means over five rates around that one. Ends with the number of goals that were missed; exit code 1 if there is one.
With a document, and all traces, what came is also written between its marks: goals, tables (tables.py), and plots beside it.
"""
import pathlib
import sys

import tables
from simulator import APART, Simulator, write

sim = Simulator(sys.argv[1] if len(sys.argv) > 1 else '.output/kvsteer', sys.argv[2] if len(sys.argv) > 2 else '../shared/traces')
lines, skipped = [], []


def line(workload, what, at, value, most=None, least=None, unit=''):
    """one goal; at: the variant, of which one row of the document has several"""
    scale = 100 if unit == '%' else 1
    fine = (most is None or value <= most) and (least is None or value >= least)
    goal = f'{(most if least is None else least) * scale:g}'
    lines.append({'workload': workload, 'what': what, 'at': at, 'unit': unit, 'sign': '≤' if least is None else '≥',
                  'goal': goal, 'came': f'{value * scale:.3g}', 'value': value, 'fine': fine})
    print(f'| {workload} | {what} {at} | {lines[-1]["sign"]} {goal}{unit} | {value * scale:.4g}{unit} | {"yes" if fine else "**no**"} |',
          flush=True)


def skip(workload, path):
    skipped.append(workload)
    print(f'| {workload} | skipped: no {path} | | | |')


def mooncake():
    goals = {
        'conversation': [(1, .64, 1.52, None), (3, .85, 1.90, .24), (4, 1.95, 4.1, None)],
        'synthetic': [(1, .49, 1.60, None), (3, .77, 2.2, .51), (4, 6.5, 11, None)],
    }
    for trace, cells in goals.items():
        path, name = sim.mooncake(trace), f'Mooncake {trace}'
        if not path:
            skip(name, trace)
            continue
        runs = sim.mean(path, '--policy', 'price', '--speed', '1,3,4')
        exact = sim.run(path, '--policy', 'price', '--speed', '1,3,4')
        for run, of_16000, (speed, mean, p90, hits) in zip(runs, exact, cells):
            line(name, 'mean TTFT', f'×{speed}', run['ttft_mean_s'], most=mean, unit=' s')
            line(name, 'P90 TTFT', f'×{speed}', run['ttft_p90_s'], most=p90, unit=' s')
            line(name, 'mean TTFT, the one run at 16,000', f'×{speed}', of_16000['ttft_mean_s'], most=mean, unit=' s')
            line(name, 'P90 TTFT, the one run at 16,000', f'×{speed}', of_16000['ttft_p90_s'], most=p90, unit=' s')
            if hits:
                line(name, 'hits', f'×{speed}', run['hit_rate'], least=hits, unit='%')
            if trace == 'conversation':
                line(name, 'busiest over mean', f'×{speed}', run['busiest_over_mean'], most=1.10)
            line(name, 'believed but gone', f'×{speed}', run['over'], most=.01, unit='%')
            line(name, 'there but unknown', f'×{speed}', run['under'], most=.02, unit='%')


def ladder():
    name = '`ladder` 150 × 5'
    full, = sim.run('--workload', 'ladder', '--policy', 'price', '--block', '64', '--blocks', '4800')
    line(name + ', full cache', 'hits', '', full['hit_rate'], least=.98, unit='%')
    # all prefixes are 73 % of the fleet's cache, all that is ever asked twice as much
    half = ('--workload', 'ladder', '--policy', 'price', '--block', '64', '--blocks', '2400')
    for state, text, hits, p90 in (('learned', 'learned', .80, .46), ('events', 'told', .83, .44)):
        run, = sim.run(*half, '--' + state)
        line(f'{name}, half, {text}', 'hits', '', run['hit_rate'], least=hits, unit='%')
        line(f'{name}, half, {text}', 'P90 TTFT', '', run['ttft_p90_s'], most=p90, unit=' s')
        line(f'{name}, half, {text}', 'believed but gone', '', run['over'], most=.01, unit='%')
        line(f'{name}, half, {text}', 'there but unknown', '', run['under'], most=.02, unit='%')


def groups():
    for name in ('groups', 'groups-zipf'):
        # a cache holds a fifth of the prefixes
        price, turn = sim.run('--workload', name, '--policy', 'price,round-robin', '--block', '64', '--blocks', '500')
        line(f'`{name}`', f"hits (round-robin {100 * turn['hit_rate']:.0f}%)", '', price['hit_rate'], least=.75, unit='%')
        line(f'`{name}`', 'believed but gone', '', price['over'], most=.01, unit='%')
        if name == 'groups-zipf':
            line(f'`{name}`', 'busiest over mean', '', price['busiest_over_mean'], most=1.2)


def prefixes():
    price, turn = sim.run('--workload', 'prefixes', '--policy', 'price,round-robin')
    line('`prefixes`', 'hits, of what is possible', '', price['hit_rate'] / price['hit_ceiling'], least=.94, unit='%')
    line('`prefixes`', 'P99 TTFT over round-robin', '', price['ttft_p99_s'] / turn['ttft_p99_s'], most=1)


def nosharing():
    cases = [('`nosharing`', ('--workload', 'nosharing', '--block', '16', '--blocks', '64000', '--speed', speed), speed)
             for speed in ('0.5', '1', '1.2')]
    for kind in ('code', 'conv'):
        path = sim.trace(f'azure-llm-2023/AzureLLMInferenceTrace_{kind}.csv')
        if path:
            cases += [(f'Azure {kind}', (path, '--speed', speed), speed) for speed in ('1', '10', '20')]
        else:
            skip(f'Azure {kind}', kind)
    for name, args, speed in cases:
        price, least = sim.run(*args, '--policy', 'price,least')
        for key, text in (('ttft_mean_s', 'mean'), ('ttft_p90_s', 'P90'), ('ttft_p99_s', 'P99'), ('seconds', 'time for all')):
            line(name, 'mean, P90, P99, time for all over least', f'{text} ×{speed}', price[key] / least[key], most=1.01)


def burst():
    run, = sim.run('--workload', 'burst', '--policy', 'price', '--backends', '4')
    line('`burst`, 4 engines', 'busiest over mean', '', run['busiest_over_mean'], most=2)
    prefills = 1 + (run['hit_ceiling'] - run['hit_rate']) * 100 * 20000 / 4000
    line('`burst`, 4 engines', 'engines that prefill it', '', round(prefills), most=4)


def late():
    runs = [sim.run('--workload', 'ladder', '--policy', 'price', '--metrics-delay', str(s))[0] for s in (0, 1, 5, 15)]
    for run, s in zip(runs[1:], (1, 5, 15)):
        line('metrics late', 'mean TTFT over that without delay', f'{s} s', run['ttft_mean_s'] / runs[0]['ttft_mean_s'], most=1)


def share(run, since, until):
    slices = [s for s in run['slices'] if since <= s['at_s'] < until]
    return sum(s['hits'] for s in slices) / max(1, sum(s['blocks'] for s in slices))


def incidents():
    # each over 8 engines, one of which is touched in the middle of the run
    for trace, at, end in (('conversation', 600, 1140), ('synthetic', 120, 300)):
        path, name = sim.mooncake(trace), f'{trace} ×3'
        if not path:
            skip(name, trace)
            continue
        run = lambda *args: sim.run(path, '--policy', 'price', '--speed', '3', '--slice', '10', *args)[0]
        calm = run()
        for what, args in (('all alike', ()), ('one 4 × slower', ('--slow', '3:4')), ('in mid-run', ('--slow', f'3:4@{at}'))):
            knew, learned = run(*args), run(*args, '--learn-rates')
            line(name, 'one 4 × slower: rates learned, P99 over known', what, learned['ttft_p99_s'] / knew['ttft_p99_s'], most=1.3)
        for what, args in (('engine', ('--restart', f'3@{at}')), ('agent', ('--agent-restart', str(at), '--learn-rates'))):
            after = run(*args)
            # away for a minute; then one cache's worth of tokens, an eighth of what comes
            back = at + (60 if what == 'engine' else 0)
            turnover = 8 * 2000 * 512 / (sum(s['blocks'] for s in calm['slices']) * 512 * (1 - calm['hit_rate']) / calm['seconds'])
            line(name, 'restarted: P99 over a calm run', what, after['ttft_p99_s'] / calm['ttft_p99_s'], most=1.3)
            line(name, 'restarted: hits after one turnover, over a calm run', what,
                 share(after, back + turnover, end) / share(calm, back + turnover, end), least=.95, unit='%')
            line(name, 'restarted: requests steered by a dead cache', what, after['dead'], most=0)


def mean(run, since, until):
    slices = [s for s in run['slices'] if since <= s['at_s'] < until]
    return sum(s['ttft_mean_s'] * s['requests'] for s in slices) / sum(s['requests'] for s in slices)


def caches_off():
    """all caches off in mid-run, and on again: affinity has to turn itself down, and to come back"""
    turn = 60
    for trace, speed, off, on in (('conversation', 1, 1200, 2400), ('conversation', 3, 400, 800), ('synthetic', 1, 200, 600)):
        path, name = sim.mooncake(trace), f'{trace} ×{speed}, caches off'
        if not path:
            skip(name, trace)
            continue
        run = lambda *args: sim.run(path, '--policy', 'price,least', '--speed', str(speed), '--slice', '20', *args)
        price, least = run('--no-cache', f'all@{off}')
        full = run('--no-cache', f'all@{off}', '--affinity', 'full')[0]
        line(name, f'the {turn} s in which it turns itself down: mean over least', '', mean(price, off, off + turn) / mean(least, off, off + turn), most=1.25)
        line(name, 'and were it held full, from then on: mean over least', '', mean(full, off + turn, 1e9) / mean(least, off + turn, 1e9), least=1.05)
        # of the P99s a few dozen requests decide
        price, least = sim.mean(path, '--policy', 'price,least', '--speed', str(speed), '--no-cache', f'all@{off}', '--warmup', str(off + turn),
                                rates=APART)
        for key, text in (('ttft_mean_s', 'mean'), ('ttft_p90_s', 'P90'), ('ttft_p99_s', 'P99')):
            line(name, 'turned down: mean, P90, P99 over least', text, price[key] / least[key], most=1.01)
        back, calm = run('--no-cache', f'all@{off}-{on}')[0], run()[0]
        line(name, 'on again: hits from 2 min later on, over a calm run', '', share(back, on + 120, 1e9) / share(calm, on + 120, 1e9), least=.95, unit='%')


def goals_table():
    """the lines that differ in their variant only are one row"""
    rows = {}
    for one in lines:
        rows.setdefault((one['workload'], one['what']), []).append(one)
    out = ['| workload | what | goal | came | reached |', '|---|---|---|---|---|']
    for (workload, what), of_one in rows.items():
        unit, goals = of_one[0]['unit'], [one['goal'] for one in of_one]
        came = [f'**{one["came"]}**' if not one['fine'] else one['came'] for one in of_one]
        if len(of_one) > 3:
            came = [f'{min(one["value"] for one in of_one):.4g} to {max(one["value"] for one in of_one):.4g}']
        at = ', '.join(one['at'] for one in of_one) if len(of_one) <= 3 else ''
        out.append(f'| {workload} | {what}{": " + at if at else ""} | {of_one[0]["sign"]} '
                   f'{", ".join(goals if len(set(goals)) > 1 else goals[:1])}{unit} | {", ".join(came)}{unit} | '
                   f'{"yes" if all(one["fine"] for one in of_one) else "**no**"} |')
    return '\n'.join(out) + '\n'


def main():
    print('| workload | what | goal | came | reached |\n|---|---|---|---|---|')
    for part in (mooncake, ladder, groups, prefixes, nosharing, burst, late, incidents, caches_off):
        part()
    missed = sum(not one['fine'] for one in lines)
    print(f'\n{missed} goals missed')
    if len(sys.argv) > 3 and skipped:
        print(f'{sys.argv[3]} is left as it is: there are no traces for {", ".join(skipped)}')
    elif len(sys.argv) > 3:
        write(sys.argv[3], 'goals', goals_table())
        tables.write_all(sim, pathlib.Path(sys.argv[3]))
        print(f'{sys.argv[3]}: tables and plots written')
    return missed > 0


if __name__ == '__main__':
    sys.exit(main())
