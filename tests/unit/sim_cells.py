#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Works out the figures of tests/unit/sim_cells.h again, in place, from the reference simulators.

usage: tests/unit/sim_cells.py DIRECTORY

DIRECTORY holds steer_sim.py, trace_sim.py and traces/mooncake-fast25. Which cells there are and at
which rates is read from the header: to add a cell, write its line with any figures and run this.
"""
import multiprocessing
import os
import re
import sys

HEADER = os.path.join(os.path.dirname(__file__), "sim_cells.h")
SHORTENED = os.path.join(os.path.dirname(__file__), "../../tools/traces")
FILES = {
    "of_short": "conversation-2000.jsonl.gz",
    "of_short_synthetic": "synthetic-1500.jsonl.gz",
    "of_conversation": "conversation_trace.jsonl",
    "of_synthetic": "synthetic_trace.jsonl",
}
# Our peers' names, and the rules of trace_sim.py; all else is a policy of steer_sim.py.
RULES = {
    "round-robin": "rr",
    "least": "least",
    "greedy": "approx-greedy",
    "llm-d": "sticky",
    "dynamo": "cost",
}
CELL = re.compile(r'\t\{"([\w-]+)", (true|false), (\d), ')
traces = {}


def mean(values):
    return sum(values) / len(values)


def figures_of_rule(requests, rule, rate):
    """Hit rate, mean and P90: trace_sim.py says no mean, but sorts the times for its percentiles."""
    times = []
    percentile = trace_sim.pct

    def look(values, share):
        times[:] = values
        return percentile(values, share)

    trace_sim.pct = look
    said = trace_sim.simulate(requests, 8, 2000, rule, rate=rate)
    trace_sim.pct = percentile
    return said["hit"], mean(times), said["ttft_p90"]


def figures(job):
    trace, policy, told, speed, rate = job
    requests = traces[trace]
    if policy in RULES:
        sooner = [(at / speed, *rest) for at, *rest in requests]
        return figures_of_rule(sooner, RULES[policy], rate)
    state = "exact" if told else "gen"
    said = steer_sim.run(requests, policy, state, speed, 8, 2000, rate, 512)
    return said["hit_rate"], said["ttft_mean_s"], said["ttft_p90_s"]


def rates(constants, trace):
    n = constants["RATES_OF_SHORT" if trace.startswith("of_short") else "RATES_OF_WHOLE"]
    first, last = constants["RATE_FIRST"], constants["RATE_LAST"]
    return [first + (last - first) / (n - 1) * i for i in range(n)]


def main():
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        sys.exit(__doc__)
    global steer_sim, trace_sim
    sys.path.insert(0, sys.argv[1])
    import steer_sim
    import trace_sim

    with open(HEADER, encoding="utf-8") as f:
        lines = f.read().splitlines(keepends=True)
    constants = {k: int(v) for k, v in re.findall(r"#define (RATE\w+) (\d+)", "".join(lines))}
    jobs, of_line, trace = [], {}, None
    for at, line in enumerate(lines):
        if found := re.search(r"struct cell (\w+)\[\]", line):
            trace = found[1]
        if found := CELL.match(line):
            policy, told, speed = found.groups()
            mine = [(trace, policy, told == "true", int(speed), r) for r in rates(constants, trace)]
            of_line[at] = range(len(jobs), len(jobs) + len(mine))
            jobs += mine
    for name, file in FILES.items():
        short = name.startswith("of_short")
        directory = SHORTENED if short else os.path.join(sys.argv[1], "traces/mooncake-fast25")
        traces[name] = trace_sim.load(os.path.join(directory, file))
    with multiprocessing.get_context("fork").Pool() as pool:
        said = pool.map(figures, jobs, chunksize=4)
    for at, mine in of_line.items():
        hits, ttft, p90 = (mean([said[i][k] for i in mine]) for k in range(3))
        lines[at] = CELL.match(lines[at])[0] + f"{{{hits:.4f}, {ttft:.4f}, {p90:.3f}}}}},\n"
    with open(HEADER, "w", encoding="utf-8") as f:
        f.writelines(lines)
    print(f"{len(of_line)} cells, {len(jobs)} runs")


if __name__ == "__main__":
    main()
