# SPDX-License-Identifier: BSD-2-Clause
"""What policies and other routers make of the traces: the tables and plots of docs/steering.md."""
import pathlib
import subprocess
import sys
import tempfile

from simulator import write

ROWS = ('price', 'sticky', 'ttft', 'least', 'round-robin', 'llm-d', 'dynamo', 'sglang', 'greedy', 'prefix-hash',
        'prefix-hash-bounded')
EXACT = ('llm-d', 'dynamo')  # they look into the caches
PLOTTED = 'price,sticky,ttft,least,round-robin,llm-d,dynamo,sglang,prefix-hash-bounded'


def number(x):
    return f'{x:.2f}' if x < 10 else f'{x:.1f}' if x < 100 else f'{x:.0f}'


def cell(run):
    return f'{100 * run["hit_rate"]:.1f} %; {number(run["ttft_mean_s"])} / {number(run["ttft_p90_s"])}'


def by_speed(sim, title, speeds, *args):
    """a row for each policy, a column for each speed; price with events, too"""
    out = [f'| {title} | ' + ' | '.join(f'×{s}' for s in speeds) + ' |', '|---' * (len(speeds) + 1) + '|']
    asked = ('--speed', ','.join(speeds))
    rows = {}
    for run in sim.mean(*args, *asked, '--policy', ','.join(ROWS)):
        rows.setdefault(run['policy'], []).append(cell(run))
    told = [cell(run) for run in sim.mean(*args, *asked, '--policy', 'price', '--events')]
    for policy, cells in rows.items():
        name = f'**{policy}**' if policy == 'price' else f'{policy} (exact)' if policy in EXACT else policy
        out.append(f'| {name} | ' + ' | '.join(cells) + ' |')
        if policy == 'price':
            out.append('| price, told | ' + ' | '.join(told) + ' |')
    return '\n'.join(out) + '\n'


def mooncake(sim, document, trace):
    path, plot = sim.mooncake(trace), document.parent / f'steering-{trace}.svg'
    text = by_speed(sim, trace, ('1', '2', '3', '4'), path)
    sim.plot(str(plot), path, '--policy', PLOTTED, '--speed', '1,1.5,2,2.5,3,3.5,4')
    write(document, trace, f'{text}\n![{trace}]({plot.name})\n')


def engines(sim, document):
    out = ['| engines | price: hits | mean | P90 | least: hits | mean | P90 |', '|---|---|---|---|---|---|---|']
    for n in ('4', '6', '8', '12'):
        runs = sim.mean(sim.mooncake('conversation'), '--speed', '3', '--backends', n, '--policy', 'price,least')
        out.append(f'| {n} | ' + ' | '.join(f'{100 * r["hit_rate"]:.1f} % | {number(r["ttft_mean_s"])} s | {number(r["ttft_p90_s"])} s'
                                            for r in runs) + ' |')
    write(document, 'engines', '\n'.join(out))


def pooled(sim, document):
    """all caches in one, and all engines: what nobody can distribute better"""
    out = ['| ×4 | price | price, told | one engine 8 times as large and fast |', '|---|---|---|---|']
    for trace in ('conversation', 'synthetic'):
        one = [sim.mean(sim.mooncake(trace), '--policy', 'price', '--speed', '4', *more)[0] for more in ((), ('--events',))]
        one += sim.run(sim.mooncake(trace), '--policy', 'price', '--speed', '4', '--events', '--backends', '1', '--blocks',
                       '16000', '--rate', '128000')
        out.append(f'| {trace} | ' + ' | '.join(cell(run) for run in one) + ' |')
    write(document, 'pooled', '\n'.join(out))


def agents(sim, document):
    trajectories = sim.trace('swe-agent')
    with tempfile.NamedTemporaryFile('w', suffix='.jsonl') as f:
        subprocess.run([sys.executable, str(pathlib.Path(__file__).parent / 'agents.py'), trajectories], stdout=f, check=True)
        text = by_speed(sim, 'coding agents', ('0.8', '1', '1.1', '1.2'), f.name, '--block', '64', '--blocks', '8000')
    write(document, 'agents', text)


def azure(sim, document):
    out = ['| Azure | price | least | llm-d | dynamo | sglang | prefix-hash-bounded |', '|---|---|---|---|---|---|---|']
    for kind, speed in (('code', '10'), ('code', '20'), ('conv', '10'), ('conv', '20')):
        runs = sim.mean(sim.trace(f'azure-llm-2023/AzureLLMInferenceTrace_{kind}.csv'), '--speed', speed, '--policy',
                        'price,least,llm-d,dynamo,sglang,prefix-hash-bounded')
        out.append(f'| {kind} ×{speed} | ' + ' | '.join(f'{number(r["ttft_mean_s"])} / {number(r["ttft_p90_s"])}' for r in runs) + ' |')
    write(document, 'azure', '\n'.join(out))


def write_all(sim, document):
    for trace in ('conversation', 'synthetic'):
        mooncake(sim, document, trace)
    for part in (engines, pooled, agents, azure):
        part(sim, document)
