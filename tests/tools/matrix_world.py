# SPDX-License-Identifier: BSD-2-Clause
"""The matrix's world: faults of engines and of their hosts, the engines' log, the gauges."""
import collections
import glob
import hashlib
import json
import os
import subprocess
import time


class World:
    def __init__(self, args):
        self.id, self.run, self.pin, self.control = args.id, args.run, args.pin, args.control
        self.bin = args.bin
        self.agent = self.kvsteer("status")["agent"]["pid"]

    def there(self, host, *command):
        """Its output, of a command on one host."""
        done = subprocess.run(["nsenter", f"--net=/run/netns/{self.id}-{host}", *command],
                              capture_output=True, text=True, check=True)
        return done.stdout

    def kvsteer(self, *verb):
        out = self.there("gw", f"{self.bin}/kvsteer", "-j", "--pin", self.pin, "--control",
                         self.control, *verb)
        return json.loads(out)

    # ---- what goes wrong

    def fault(self, row, fault):
        for name, host, _ in row.engines[: 2 if row.both else 1]:
            # from the host itself: the gateway may be cut off from it
            self.there(f"e{host}", "curl", "-fsS", "-m", "5", "-d", json.dumps(fault),
                       f"http://10.72.{host}.2:8100/fault?engine={name}")

    def deaf(self, host):
        """What the gateway sends to this host gets lost: no such MAC address there."""
        self.there("gw", "ip", "neigh", "replace", f"10.72.{host}.2", "lladdr",
                   "02:00:00:00:00:99", "dev", f"e{host}", "nud", "permanent")

    def dumb(self, host):
        """What this host sends to the gateway gets lost."""
        self.there(f"e{host}", "ip", "route", "replace", "blackhole", f"10.72.{host}.1")

    def well(self, host):
        self.there("gw", "ip", "neigh", "flush", "to", f"10.72.{host}.2", "dev", f"e{host}",
                   "nud", "permanent")
        self.there(f"e{host}", "ip", "route", "flush", "type", "blackhole")

    def link(self, dev, state):
        self.there("gw", "ip", "link", "set", dev, state)

    # ---- before and afterwards

    def all_up(self, seconds):
        end = time.monotonic() + seconds
        while any(b["state"] != "up" or b["health"] == "trial"
                  for b in self.kvsteer("backend", "list")["backends"]):
            if time.monotonic() > end:
                raise SystemExit("not all backends are up")
            time.sleep(0.1)

    def upstreams(self):
        s = self.kvsteer("status")
        return {b["name"]: b["upstreams"] for v in s["services"] for b in v["backends"]}

    def dump(self, name):
        out = self.there("gw", "bpftool", "-j", "map", "dump", "pinned", f"{self.pin}/{name}")
        return [e["formatted"] for e in json.loads(out)]

    def sockets(self):
        """(state, local port, peer address and port) of the gateway's TCP sockets, listeners aside"""
        rows = (line.split() for line in self.there("gw", "ss", "-Htan").splitlines())
        return [(r[0], int(r[3].rpartition(":")[2]), r[4]) for r in rows if r[0] != "LISTEN"]

    def files(self):
        """fds of the agent and its keeper, upstreams aside"""
        idle = sum(sum(u.values()) for u in self.upstreams().values())
        return len(os.listdir(f"/proc/{self.agent}/fd")) - idle

    def files_before(self):
        """The same of a quiet agent that has served nothing: measured by the first who asks."""
        path = f"{self.run}/files"
        if not os.path.exists(path):
            seen = []
            while len(seen) < 4 or len(set(seen[-4:])) > 1:
                time.sleep(0.2)
                seen.append(self.files())
            with open(path, "w", encoding="ascii") as f:
                f.write(str(seen[-1]))
        with open(path, encoding="ascii") as f:
            return int(f.read())

    def leaks(self, files):
        """What is not as it was; files: the fds before."""
        found = []
        if self.kvsteer("status")["agent"]["pid"] != self.agent:
            found.append("the agent has died, and another has taken over")
        for b in self.dump("kv_backends"):
            v = b["value"]
            if v["state"] and (v["inflight_tokens"] or v["inflight_requests"]):
                found.append(f"backend {b['key']}: in flight {v['inflight_tokens']} tokens, "
                             f"{v['inflight_requests']} requests")
        idle = 0
        for name, u in self.upstreams().items():
            idle += u["idle"]
            if u["lent"] or u["relay"] or u["done"]:
                found.append(f"upstreams of {name}: {u}")
        ours = self.sockets()
        # A connection that we closed first keeps its numbers' shift while it is in TIME-WAIT.
        waiting = {int(peer.rpartition(":")[2]) for state, _, peer in ours if state == "TIME-WAIT"}
        for c in self.dump("kv_clients"):
            port = c["key"]["peer_port"]  # in network order
            port = port >> 8 | (port & 255) << 8
            if c["value"]["state"] == 2 or port not in waiting:
                found.append(f"client entry of port {port}: state {c['value']['state']}, "
                             f"{ {k: v for k, v in c['value']['pair'].items() if k != 'response'} }")
        there = [s for s in ours if s[0] != "TIME-WAIT"]
        to_engines = [s for s in there if s[2].startswith(("10.72.", "[fd72:"))]
        if len(to_engines) != idle or len(there) != idle:
            states = collections.Counter((s[0], s[2].rpartition(".")[0]) for s in there)
            found.append(f"sockets: {dict(states)}, idle upstreams: {idle}")
        now = self.files()
        if now != files:
            found.append(f"the agent has {now} fds beside its upstreams, had {files}")
        return found

    def clean(self, files, seconds):
        """The leaks that are still there after so long, and how long it took."""
        start = time.monotonic()
        while True:
            found = self.leaks(files)
            took = time.monotonic() - start
            if not found or took > seconds:
                return found, took
            time.sleep(0.2)

    # ---- the engines' log

    def log(self, log):
        """Attempts by tag: what engines saw of each request."""
        by_tag, by_conn = collections.defaultdict(list), {}
        with open(log, encoding="utf-8", errors="replace") as f:
            for line in f:
                e = json.loads(line)
                key = (e["engine"], e["conn"])
                if e["event"] == "request":
                    by_conn[key] = {"engine": e["engine"], "conn": e["conn"], "at": e["t"],
                                    "eof": None, "fin": None, "close": None, "how": "",
                                    "answer": None}
                    if e["tag"]:
                        by_tag[e["tag"]].append(by_conn[key])
                elif key not in by_conn:
                    continue
                elif e["event"] == "answer":
                    by_conn[key]["answer"] = e
                elif e["event"] in ("eof", "fin"):
                    by_conn[key][e["event"]] = e["t"]
                elif e["event"] == "close":
                    by_conn[key]["close"], by_conn[key]["how"] = e["t"], e["how"]
        return by_tag

    def sent(self, attempt):
        """All that this engine sent on this connection."""
        out = bytearray()
        for path in glob.glob(f"{self.run}/raw/{attempt['engine']}-{attempt['conn']}.out"):
            with open(path, "rb") as f:
                out += f.read()
        return out


def digest(data):
    return hashlib.sha256(data).hexdigest()
