# SPDX-License-Identifier: BSD-2-Clause
"""The matrix's rows: what goes wrong, and what a client may then see. Each row has a service of its
own with two engines, one that fails and one that does not and costs more, so that requests go to the
failing one first."""
import dataclasses

MODES = ("plain", "stream", "close")  # Content-Length, chunked, until the connection's end
LANES = ("express", "agent")
ACTS = ("waits", "half-closes", "closes", "resets")
TOKENS = 16  # of an answer, 40 ms each


@dataclasses.dataclass
class Row:
    name: str
    fault: dict  # of the failing engine
    see: object  # (mode, lane): what a client that stays may see; a set, or a dict of sets
    both: bool = False  # the other engine fails in the same way
    host: int = 1  # the failing engine's
    client: int = 1  # the clients' host
    event: str = ""  # what is done to the host or the engine while requests are under way
    within: int = 10  # s from the request to what the client sees
    half: set = frozenset()  # also seen by a client that half-closes
    once: bool = False  # it breaks when an answer has begun
    act_ms: int = 50  # when a client that leaves does so
    at: str = ""  # the row whose service it uses; its fault is the request's own
    tokens: int = TOKENS
    number: int = 0

    def allowed(self, mode, lane, act):
        also = self.half if act == "half-closes" else set()
        for key in (lane, mode, None):
            if isinstance(self.see, dict) and key in self.see:
                return self.see[key] | also
        return self.see | also

    @property
    def ipv6(self):
        return self.host == 1 and self.number % 2 == 1

    @property
    def service(self):
        """Address and port"""
        return "fd71::1:1" if self.ipv6 else "10.71.1.1", 8001 + self.number

    @property
    def engines(self):
        """(name, host, address)"""
        good = self.host if self.both else 1
        form = "[fd72::{}:2]:{}" if self.ipv6 else "10.72.{}.2:{}"
        return [(f"{self.number}-bad", self.host, form.format(self.host, 8101 + self.number)),
                (f"{self.number}-good", good, form.format(good, 8201 + self.number))]


SERVED = {"200 bad", "200 good"}
BROKEN = {"broken, FIN", "broken, RST"}
REFUSE = {"refuse": True, "reset": True}

# Until an engine has acknowledged a byte of it, a request is wholly with the client (express) or
# with the agent, and another engine can have it; afterwards only the agent's can.
ROWS = [
    Row("connect refused", REFUSE, {"200 good"}, event="fault"),
    Row("connect refused, all", REFUSE, {"503 gw"}, both=True, event="fault"),
    # (This engine gives up when it is sent a FIN.)
    Row("accepts and hangs", {"hang": True}, {"agent": {"504 gw"}, None: {"504 gw", "RST"}},
        within=14, half={"502 gw"}),
    Row("RST before any byte", {"rst_before_headers": True, "after_ms": 100},
        {"agent": {"200 good"}, None: {"502 gw"}}),
    Row("RST before any byte, all", {"rst_before_headers": True}, {"502 gw"}, both=True),
    Row("RST after 3 tokens", {"rst_after_tokens": 3}, {"broken, RST"}, once=True, act_ms=60),
    Row("FIN mid-body", {"fin_mid_body": 200}, {"close": {"200 bad"}, None: BROKEN}, once=True, act_ms=20),
    Row("FIN behind the answer", {"close_after_response": True}, {"200 bad"}, once=True),
    Row("FIN at lending", {"close": True}, SERVED, host=4, event="lend"),
    Row("RST at lending", {"reset": True}, SERVED, host=6, event="lend"),
    # Back-pressure: with the agent another engine can have it.
    Row("503", {"status": 503}, {"agent": {"200 good"}, None: {"503 bad", "200 good"}},
        half={"503 bad"}),
    Row("slow /health", {"health_ms": 400}, SERVED),
    Row("400", {}, {"400 bad"}, once=True, at="slow /health", tokens=0),
    Row("silent from the start", {}, {"agent": {"200 good", "502 gw", "504 gw"},
                                      None: {"200 good", "502 gw", "504 gw", "RST"}},
        within=20, host=2, event="silent"),
    Row("host restarted, all", {"reset": True}, SERVED, both=True, host=7, event="restart"),
    Row("silent in the answer", {}, {"stream": BROKEN, "close": {"broken, RST"}, "plain": {"200 good", "502 gw", "504 gw", "RST"}},
        within=20, host=5, event="silent later", tokens=100),
    Row("engine's link down, up", {}, SERVED, host=3, event="e3 down"),
    Row("client's link down, up", {}, SERVED, at="engine's link down, up", client=2,
        event="c2 down"),
]
SERVICES = [r for r in ROWS if not r.at]
for i, row in enumerate(SERVICES):
    row.number = i
for row in ROWS:
    if row.at:
        base = next(r for r in SERVICES if r.name == row.at)
        row.number, row.host = base.number, base.host


def config(pin, control):
    hosts = sorted({r.host for r in ROWS})
    yield f"pin: {pin}"
    yield f"control: {control}"
    yield f"interfaces: [c1, c2, {', '.join(f'e{h}' for h in hosts)}]"
    yield "upstreams_per_backend: 128"
    yield "timeouts: {response: 6s, connect: 2s, probe: 1s}"
    # in the next round the failing engine has its turn soon
    yield "health: {slow_start: 0s, eject_time: 1s}"
    yield "services:"
    for r in SERVICES:
        yield f"- name: \"{r.number}\""
        yield "  listen: [\"{}:{}\"]".format(f"[{r.service[0]}]" if r.ipv6 else r.service[0],
                                             r.service[1])
        yield "  backends:"
        for name, _, address in r.engines:
            rate = 1 if name.endswith("good") else 1000000000
            yield f"  - {{name: {name}, address: \"{address}\", rate: {rate}}}"


def engine_options(host):
    for r in SERVICES:
        for name, at, address in r.engines:
            if at == host:
                yield from ("--listen", address, "--name", name)
    yield from ("--control", f"10.72.{host}.2:8100", "--decode-ms", "40", "--keep-alive-s", "300")
