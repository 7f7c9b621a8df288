"""The hostile tenant: a process of its own that does one thing that a server has to bear, over raw connections.

``python -m benchmarks.hostile_caller URL TOKEN SECONDS MANNER``, MANNER one of MANNERS. Prints what came of it, as JSON.
"""

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from benchmarks.noisy_caller import META, read_answer

MODERN, LEGACY = "2026-07-28", "2025-11-25"
THREAD = "images"
IMAGES = 60
IMAGE_BYTES = 2_350_000
READERS = 4
UNREAD = 60
SILENT = 1000
DRIBBLE_SECONDS = 0.5


def image(number: int) -> str:
    """Base64 of an image's size that nothing compresses."""
    seed = hashlib.sha256(str(number).encode()).digest()
    return base64.b64encode(hashlib.shake_256(seed).digest(IMAGE_BYTES)).decode()


def added(number: int) -> dict[str, Any]:
    """The arguments that add one image."""
    part = {"type": "image", "data": image(number), "mime_type": "image/png"}
    return {"thread_id": THREAD, "messages": [{"role": "user", "content": [part]}]}


class Hostile:
    """One tenant until ``seconds`` are over; ``counts`` says what came of what it did."""

    def __init__(self, url: str, token: str, seconds: float) -> None:
        parts = urlsplit(url)
        self.host, self.path, self.token = parts.netloc, parts.path, token
        self.address = parts.hostname or "", parts.port or 80
        self.end = time.perf_counter() + seconds
        self.counts: Counter[str] = Counter()

    async def run(self, manner: str) -> None:
        callers = [asyncio.create_task(each) for each in MANNERS[manner](self)]
        await asyncio.sleep(max(0.0, self.end - time.perf_counter()))
        for caller in callers:
            caller.cancel()
        ended = await asyncio.gather(*callers, return_exceptions=True)
        self.counts["broken"] += sum(isinstance(each, Exception) for each in ended)

    def request(self, method: str, name: str, params: dict[str, Any], *, extra: str = "", era: str = MODERN) -> bytes:
        meta = {"_meta": META} if era == MODERN else {}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, **meta}}).encode()
        told = f"Mcp-Method: {method}\r\nMcp-Name: {name}\r\n" if era == MODERN else ""
        return (
            f"POST {self.path} HTTP/1.1\r\nHost: {self.host}\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{told}{extra}"
            f"MCP-Protocol-Version: {era}\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body

    def call(self, tool: str, **arguments: Any) -> bytes:
        return self.request("tools/call", tool, {"name": tool, "arguments": arguments})

    async def each(self, requests: Callable[[int], bytes]) -> None:
        """Send one request after the other, each once the one before was answered; connect again when cut off."""
        number = 0
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                reader, writer = await asyncio.open_connection(*self.address, limit=2**20)
                try:
                    while True:
                        self.counts["sent"] += 1
                        writer.write(requests(number))
                        number += 1
                        await writer.drain()
                        self.counts[await read_answer(reader)] += 1
                finally:
                    writer.close()
            self.counts["cut off"] += 1
            await asyncio.sleep(0.02)


def big_answers(hostile: Hostile) -> list[Awaitable[None]]:
    """Ask for as much as there is, by every way there is."""
    uri = f"memory://threads/{THREAD}/messages?limit=200"
    asked = [
        hostile.call("get_messages", thread_id=THREAD, limit=200),
        hostile.request("resources/read", uri, {"uri": uri}),
        hostile.call("get_context", thread_id=THREAD, max_tokens=200_000, format="openai"),
    ]
    return [hostile.each(lambda number: asked[number % len(asked)]) for _ in range(READERS)]


def unread_answers(hostile: Hostile) -> list[Awaitable[None]]:
    """Ask for large answers on many connections, and read none."""
    request = hostile.call("get_messages", thread_id=THREAD, limit=200)

    async def ask() -> None:
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(OSError), socket.socket() as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sock.setblocking(False)
                await loop.sock_connect(sock, hostile.address)
                hostile.counts["sent"] += 1
                await loop.sock_sendall(sock, request)
                while not closed(sock):
                    await asyncio.sleep(0.2)
            hostile.counts["cut off"] += 1
            await asyncio.sleep(0.02)

    def closed(sock: socket.socket) -> bool:
        # Whether the server gave up, without taking anything of what it sent.
        with contextlib.suppress(BlockingIOError):
            return sock.recv(1, socket.MSG_PEEK) == b"" or bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        return False

    return [ask() for _ in range(UNREAD)]


def sessions(hostile: Hostile) -> list[Awaitable[None]]:
    """Open sessions, the protocol's version told twice: once of the time with sessions, once of that without."""
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "hostile", "version": "1"}}
    twice = [f"MCP-Protocol-Version: {version}\r\n" for version in (LEGACY, MODERN)]
    requests = [
        hostile.request("initialize", "", hello, extra=extra, era=era)
        for extra, era in ((twice[0], MODERN), (twice[1], LEGACY), ("", LEGACY))
    ]
    return [hostile.each(lambda number: requests[number % len(requests)]) for _ in range(READERS)]


def silent(hostile: Hostile) -> list[Awaitable[None]]:
    """Open connections without credentials; say nothing, or a byte at a time of a head, or of a body."""
    begun = f"POST {hostile.path} HTTP/1.1\r\nHost: {hostile.host}\r\n".encode()
    body = begun + b"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n"

    async def hold(number: int) -> None:
        begin = (b"", begun, body)[number % 3]
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(*hostile.address)
                hostile.counts["sent"] += 1
                try:
                    writer.write(begin)
                    while not reader.at_eof():
                        if begin:
                            writer.write(b"x")
                            await writer.drain()
                        with contextlib.suppress(TimeoutError):
                            await asyncio.wait_for(reader.read(4096), DRIBBLE_SECONDS)
                finally:
                    writer.close()
            hostile.counts["cut off"] += 1
            await asyncio.sleep(DRIBBLE_SECONDS)

    return [hold(number) for number in range(SILENT)]


def filling(hostile: Hostile) -> list[Awaitable[None]]:
    """Store as many bytes as are taken."""
    requests = [hostile.call("add_messages", **added(1000 + number)) for number in range(READERS)]
    return [hostile.each(lambda _, request=request: request) for request in requests]


MANNERS: dict[str, Callable[[Hostile], list[Awaitable[None]]]] = {
    "big answers": big_answers,
    "unread answers": unread_answers,
    "sessions": sessions,
    "silent connections": silent,
    "filling": filling,
}


async def main() -> None:
    url, token, seconds, manner = sys.argv[1:]
    os.nice(5)  # elsewhere it would not have this machine's cores
    hostile = Hostile(url, token, float(seconds))
    await hostile.run(manner)
    print(json.dumps(hostile.counts))


if __name__ == "__main__":
    asyncio.run(main())
