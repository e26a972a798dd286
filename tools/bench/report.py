#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Medians over the rounds of a bench, its table, bench.json and what was to be reached."""

import argparse
import json
import os
from statistics import median

WORKS = {
    "small": "small POST",
    "prompt": "220 KB prompt",
    "answer": "50 MB answer",
    "streams": "SSE stream",
}
PEERS = ("nginx", "haproxy")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def mid(group, key, digits):
    """Median over the rounds that answered at all."""
    values = [r[key] for r in group if r["requests"]]
    return round(median(values), digits) if values else None


def sum_counters(group):
    """Kvsteer's counters over all rounds of a row, warm-up included; None for the others."""
    total = {}
    for run in group:
        for name, n in run.get("counters", {}).items():
            total[name] = total.get(name, 0) + n
    return total or None


def express_share(counters):
    """Of kvsteer's requests, those decided in the kernel."""
    express = counters.get("requests_express", 0)
    total = express + counters.get("requests_agent", 0)
    return express / total if total else 0


def rows_of(runs):
    """One row per work, connections and name, in the order of the first round."""
    groups = {}
    for run in runs:
        groups.setdefault((run["work"], run["connections"], run["name"]), []).append(run)
    # A round begins with another name each: the names' own order is that of the first round.
    order = list(dict.fromkeys(r["name"] for r in runs))
    rows = []
    for work, connections, name in sorted(
        groups, key=lambda k: (list(WORKS).index(k[0]), k[1], order.index(k[2]))
    ):
        group = groups[work, connections, name]
        requests = sum(r["requests"] for r in group)
        rows.append(
            {
                "work": work,
                "name": name,
                "connections": connections,
                "body_bytes": group[0]["body_bytes"],
                "rounds": len(group),
                "requests": requests,
                "errors": sum(r["errors"] for r in group),
                "rps": mid(group, "rps", 1),
                "p50_us": mid(group, "p50_us", 1),
                "p99_us": mid(group, "p99_us", 1),
                "cpu_us_per_request": mid(group, "watched_cpu_us_per_request", 3)
                if name != "direct"
                else None,
                "machine_us_per_request": mid(group, "machine_busy_us_per_request", 1),
                "hashes": sorted({r["body_xxh3"] for r in group if "body_xxh3" in r}),
                "counters": sum_counters(group),
            }
        )
        direct = pairs(group, groups.get((work, connections, "direct"), []))
        before = pairs(group, groups.get((work, connections, before_of(name)), []))
        rows[-1]["added_p50_us"] = mid_pair(direct, lambda r, d: r["p50_us"] - d["p50_us"], 1)
        rows[-1]["ratio_to_direct"] = mid_pair(direct, lambda r, d: r["rps"] / d["rps"], 3)
        rows[-1]["ratio_to_before"] = mid_pair(before, lambda r, b: r["rps"] / b["rps"], 3)
    return rows


def pairs(group, others):
    """Each round's run with another's of the same round."""
    other = {r["round"]: r for r in others if r["requests"]}
    return [(r, other[r["round"]]) for r in group if r["requests"] and r["round"] in other]


def mid_pair(paired, compare, digits):
    """Median of what each round shows: a shared machine's speed drifts from round to round."""
    return round(median(compare(*p) for p in paired), digits) if paired else None


def before_of(name):
    """The row of the same lane in another version of kvsteer; none for the others."""
    return name.replace("kvsteer-", "before-") if name.startswith("kvsteer-") else None


def find(rows, work, connections, name):
    for row in rows:
        if (row["work"], row["connections"], row["name"]) == (work, connections, name):
            return row
    return None


def number(value, digits=0):
    return "-" if value is None else f"{value:,.{digits}f}"


def print_table(rows):
    head = ("work", "conns", "name", "req/s", "of direct", "p50 us", "p99 us", "added p50",
            "router CPU us/req", "machine CPU us/req", "errors")  # fmt: skip
    lines = [head]
    last = None
    for r in rows:
        here = (r["work"], r["connections"])
        lines.append(
            (
                WORKS[r["work"]] if here != last else "",
                str(r["connections"]) if here != last else "",
                r["name"],
                number(r["rps"], 1 if r["rps"] < 1000 else 0),
                number(r["ratio_to_direct"], 2),
                number(r["p50_us"]),
                number(r["p99_us"]),
                "" if r["name"] == "direct" else number(r["added_p50_us"], 1),
                number(r["cpu_us_per_request"], 2),
                number(r["machine_us_per_request"]),
                str(r["errors"]),
            )
        )
        last = here
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for n, line in enumerate(lines):
        print("  ".join(c.ljust(w) if i in (0, 2) else c.rjust(w)
                        for i, (c, w) in enumerate(zip(line, widths))).rstrip())  # fmt: skip
        if n == 0:
            print("-" * (sum(widths) + 2 * (len(widths) - 1)))
    print_before([r for r in rows if r["ratio_to_before"] is not None])
    print_lanes([r for r in rows if r["counters"]])
    print(
        "\nMedians over the rounds. Router CPU: user and system time of the router's processes (for\n"
        "kvsteer: the agent's). Machine CPU: busy time of all CPUs per request, with client, engines\n"
        "and the kernel's work for packets, which no process is charged for reliably: plain\n"
        "forwarding and kvsteer's programs are in there."
    )


def print_before(rows):
    if rows:
        print("\nRequests per second, times those of the version before (median of the rounds' ratios):")
    for r in rows:
        label = f"{WORKS[r['work']]}, {r['connections']}, {r['name']}"
        print(f"  {label:<38}{r['ratio_to_before']:>8.2f}")


def print_lanes(rows):
    if rows:
        print("\nRequests decided in the kernel, and why the others were left to the agent:")
    for r in rows:
        why = ", ".join(
            f"{name} {n}" for name, n in r["counters"].items() if name.startswith("agent_") and n > 0
        )
        label = f"{WORKS[r['work']]}, {r['connections']}, {r['name']}"
        print(f"  {label:<38}{express_share(r['counters']):>8.2%}  {why}".rstrip())


def print_micro(micro):
    if micro:
        print()
        for name, value in micro.items():
            print(f"{name:<34}{value:>12,.1f}")


class Checks:
    """The lines to reach. A line whose rows were not measured says so."""

    def __init__(self, rows, agent_idle_us):
        self.rows = rows
        self.agent_idle_us = agent_idle_us  # per second, from the agent's timers
        self.results = []

    def value(self, work, connections, name, key):
        row = find(self.rows, work, connections, name)
        if row is None:
            raise LookupError(f"{name} was not measured")
        if row["errors"]:
            raise ValueError(f"{name} has {row['errors']} errors")
        if row[key] is None:
            raise ValueError(f"{name} or direct answered nothing")
        return row[key]

    def line(self, what, compute):
        """compute() returns (measured value, bound, whether at least, unit)."""
        try:
            value, bound, at_least, unit = compute()
        except LookupError as e:
            self.results.append({"line": what, "result": "not measured", "why": str(e)})
            return
        except ValueError as e:
            self.results.append({"line": what, "result": "missed", "why": str(e)})
            return
        reached = value >= bound if at_least else value <= bound
        self.results.append(
            {
                "line": what,
                "result": "reached" if reached else "missed",
                "value": round(value, 3),
                "bound": round(bound, 3),
                "unit": unit,
            }
        )

    def run(self):
        v = self.value

        def ratio(work, connections, name, bound):
            return lambda: (v(work, connections, name, "ratio_to_direct"), bound, True, "")

        def added(work, connections, name, bound):
            return lambda: (v(work, connections, name, "added_p50_us"), bound, False, "us")

        def best_peer():
            best = max(v("small", 32, p, "rps") for p in PEERS)
            return v("small", 32, "kvsteer-express", "rps") / best, 1.6, True, "times"

        def agent_and_nginx(connections):
            def compute():
                bound = 1.2 * v("small", connections, "nginx", "added_p50_us")
                return v("small", connections, "kvsteer-agent", "added_p50_us"), bound, False, "us"

            return compute

        def sglang():
            other = v("prompt", 1, "sglang-router", "rps")
            return v("prompt", 1, "kvsteer-agent", "rps") / other, 2, True, "times"

        def exact(name):
            def compute():
                same = v("answer", 1, name, "hashes") == v("answer", 1, "direct", "hashes")
                one = len(v("answer", 1, "direct", "hashes")) == 1
                return float(same and one), 1.0, True, ""

            return compute

        def agent_cpu(work, connections):
            def compute():
                # Without what its timers use when there is no request at all. To two decimals:
                # no system call is that short.
                cpu = v(work, connections, "kvsteer-express", "cpu_us_per_request")
                idle = self.agent_idle_us / v(work, connections, "kvsteer-express", "rps")
                return max(round(cpu - idle, 2), 0.0), 0.0, False, "us"

            return compute

        self.line("express, small, 32: of direct", ratio("small", 32, "kvsteer-express", 0.90))
        self.line("express, small, 32: times the better of nginx and haproxy", best_peer)
        self.line("express, small, 1: added p50", added("small", 1, "kvsteer-express", 6))
        self.line("express, 220 KB, 1: added p50", added("prompt", 1, "kvsteer-express", 20))
        for c in (1, 32):
            self.line(f"agent lane, small, {c}: added p50, against 1.2 x nginx", agent_and_nginx(c))
        self.line("agent lane, 220 KB, 1: added p50", added("prompt", 1, "kvsteer-agent", 250))
        self.line("agent lane, 220 KB, 1: times sglang-router", sglang)
        self.line("agent lane, 220 KB, 20: of direct", ratio("prompt", 20, "kvsteer-agent", 0.8))
        for name in ("kvsteer-express", "kvsteer-agent"):
            lane = "express" if name == "kvsteer-express" else "agent lane"
            self.line(f"{lane}, 50 MB: of direct", ratio("answer", 1, name, 0.90))
            self.line(f"{lane}, 50 MB: byte-exact", exact(name))
        for work, c in (("small", 32), ("prompt", 20)):
            self.line(f"express, {WORKS[work]}, {c}: agent CPU per request", agent_cpu(work, c))
        return self.results


def print_checks(results):
    print("\nTo reach:")
    for r in results:
        if "value" in r:
            sign = ">=" if r["line"].endswith(("direct", "haproxy", "sglang-router", "exact")) else "<="
            detail = f"{r['value']:,.2f} ({sign} {r['bound']:,.2f} {r['unit']}".rstrip() + ")"
        else:
            detail = r["why"]
        print(f"  {r['result']:<13}{r['line']:<62}{detail}")
    counts = {k: sum(r["result"] == k for r in results) for k in ("reached", "missed", "not measured")}
    print("  " + ", ".join(f"{n} {k}" for k, n in counts.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", required=True)
    parser.add_argument("--setup", required=True)
    parser.add_argument("--micro")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    setup = json.loads(read(args.setup))
    micro = json.loads(read(args.micro)) if args.micro else None
    rows = rows_of([json.loads(line) for line in read(args.runs).splitlines()])
    checks = Checks(rows, setup["agent_idle_us_per_s"]).run()
    print()
    print(", ".join(f"{k} {v}" for k, v in setup.items()) + "\n")
    if rows:
        print_table(rows)
    print_micro(micro)
    if rows:
        print_checks(checks)
    result = {"setup": setup, "rows": rows, "micro": micro, "to_reach": checks}
    if os.path.exists(args.out):  # `make bench-events` has rows of its own there
        result.update({k: v for k, v in json.loads(read(args.out)).items() if k == "events"})
    with open(args.out, "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)
        f.write("\n")
    print(f"\nWritten: {args.out}")


if __name__ == "__main__":
    main()
