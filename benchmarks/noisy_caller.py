"""The noisy tenant: a process of its own that calls over raw connections, as fast as it is told.

``python -m benchmarks.noisy_caller URL TOKEN CALLS_PER_SECOND CONNECTIONS SECONDS closed|open``: ``closed`` sends on each
connection once it was answered, and no more than so many a second in all; ``open`` keeps to its times whether anything is
answered or not, and what finds no free connection counts as dropped. Prints what came of the calls, as JSON.
"""

import asyncio
import itertools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

TEXT = "We agreed to move the launch of the new catalogue to the second week of March, because the photos are late. "
CREDENTIALS = 4  # of the one tenant: one alone may not ask for all that its tenant may
PROTOCOL = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": PROTOCOL,
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(host: str, path: str, token: str, number: int) -> bytes:
    """An add or a recall by turns, as one HTTP request of the modern protocol."""
    call = (
        ("add_messages", {"thread_id": f"t{number % 50}", "messages": [{"role": "user", "content": TEXT}]})
        if number % 2
        else ("recall_memory", {"query": "When is the launch of the catalogue?"})
    )
    params = {"name": call[0], "arguments": call[1], "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {PROTOCOL}\r\nMcp-Method: tools/call\r\n"
        f"Mcp-Name: {call[0]}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def read_answer(reader: asyncio.StreamReader) -> str:
    """What kind of answer came: answered, refused in the answer, or an HTTP status."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = head.split(b" ", 2)[1].decode()
    body = b""
    if b"transfer-encoding: chunked" in head:
        while size := int((await reader.readline()).strip() or b"0", 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    else:
        length = head.partition(b"content-length:")[2].split(b"\r\n", 1)[0]
        body = await reader.readexactly(int(length or b"0"))
    if status != "200":
        return status
    return "refused" if b"too many" in body else "failed" if b'"isError":true' in body else "answered"


class Noise:
    """Calls to one URL until ``seconds`` are over; ``counts`` says what came of them."""

    def __init__(self, url: str, token: str, rate: float, seconds: float) -> None:
        parts = urlsplit(url)
        self._address = parts.hostname or "", parts.port or 80
        self._requests = itertools.cycle(
            [request(parts.netloc, parts.path, f"{token}.{number // 2 % CREDENTIALS}", number) for number in range(80)]
        )
        self._rate = rate
        self._began = time.perf_counter()
        self._end = self._began + seconds
        self._times = itertools.count()
        self._turns: asyncio.Queue[None] = asyncio.Queue(100)
        self.counts: Counter[str] = Counter()

    async def run(self, connections: int, *, closed: bool) -> None:
        callers = [
            asyncio.create_task(self._call(self._next if closed else self._turns.get)) for _ in range(connections)
        ]
        while (left := self._end - time.perf_counter()) > 0:
            await asyncio.sleep(min(left, 0.005))
            while not closed and self._due(next(self._times)):
                if self._turns.full():
                    self.counts["dropped"] += 1
                else:
                    self._turns.put_nowait(None)
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)

    def _due(self, number: int) -> bool:
        if self._began + number / self._rate <= time.perf_counter():
            return True
        self._times = itertools.count(number)
        return False

    async def _next(self) -> None:
        await asyncio.sleep(max(0.0, self._began + next(self._times) / self._rate - time.perf_counter()))

    async def _call(self, turn: Callable[[], Awaitable[None]]) -> None:
        """One connection; another when it is cut off."""
        while True:
            try:
                reader, writer = await asyncio.open_connection(*self._address)
                while True:
                    await turn()
                    self.counts["sent"] += 1
                    writer.write(next(self._requests))
                    self.counts[await read_answer(reader)] += 1
            except (OSError, asyncio.IncompleteReadError):
                self.counts["cut off"] += 1


async def main() -> None:
    url, token, rate, connections, seconds, manner = sys.argv[1:]
    os.nice(5)  # elsewhere it would not have this machine's cores
    noise = Noise(url, token, float(rate), float(seconds))
    await noise.run(int(connections), closed=manner == "closed")
    print(json.dumps(noise.counts))


if __name__ == "__main__":
    asyncio.run(main())
