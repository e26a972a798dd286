# SPDX-License-Identifier: BSD-2-Clause
"""An engine as uvicorn is one: closes a connection that has been idle for some time since its last
answer. Its loop may be busy (--busy) between that decision and the end: a request that comes
meanwhile is acknowledged, never read, and answered by a reset."""
import argparse
import asyncio
import time

ANSWER = b"HTTP/1.1 200 OK\r\nX-Engine: idle\r\nContent-Length: 2\r\n\r\nok"


class Http(asyncio.Protocol):
    def __init__(self, args, stats):
        self.args, self.stats, self.timer, self.data = args, stats, None, b""

    def connection_made(self, transport):
        self.transport = transport
        self.stats["connections"] += 1

    def connection_lost(self, _):
        if self.timer:
            self.timer.cancel()

    def data_received(self, data):
        self.data += data
        while b"\r\n\r\n" in self.data:
            head, _, rest = self.data.partition(b"\r\n\r\n")
            n = 0
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    n = int(line.split(b":")[1])
            if len(rest) < n:
                return
            self.data = rest[n:]
            self.stats["requests"] += 1
            self.transport.write(ANSWER)
            if self.timer:
                self.timer.cancel()
            self.timer = asyncio.get_running_loop().call_later(self.args.idle, self.expired)

    def expired(self):
        self.transport.close()  # no longer read; the socket ends in the loop's next turn
        self.stats["expired"] += 1
        time.sleep(self.args.busy)


async def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--listen", required=True)
    p.add_argument("--idle", type=float, default=5)
    p.add_argument("--busy", type=float, default=0)
    args = p.parse_args()
    host, _, port = args.listen.rpartition(":")
    host = host.strip("[]")
    stats = dict.fromkeys(("connections", "requests", "expired"), 0)
    server = await asyncio.get_running_loop().create_server(lambda: Http(args, stats), host,
                                                            int(port), backlog=1024)
    async with server:
        while True:
            await asyncio.sleep(1)
            print(stats, flush=True)


asyncio.run(main())
