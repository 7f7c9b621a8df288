"""Clients that send and do not read, on sockets that take little."""

import asyncio
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import anyio

from .gated_server import ACCEPT, LISTEN, PATIENCE

META = LISTEN["params"]["_meta"]  # type: ignore[index]
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Unread:
    """A connection whose client reads only when it is told to."""

    def __init__(self, url: str, key: str) -> None:
        self._key = key
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self.socket.connect(("127.0.0.1", urlsplit(url).port))
        self.socket.setblocking(False)

    def __enter__(self) -> "Unread":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        sent = {"Host": "127.0.0.1", "X-API-Key": self._key, **ACCEPT, **headers}
        if content:
            sent |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in sent.items())
        await asyncio.get_running_loop().sock_sendall(
            self.socket, f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + content
        )

    async def call(self, tool: str, /, **arguments: Any) -> None:
        """In the protocol without sessions."""
        body = call(tool, **arguments)
        body["params"]["_meta"] = META
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
        await self.send("POST", "/mcp", body, **headers)

    async def until(self, mark: bytes) -> bytes:
        """Read until ``mark`` has come; what came so far if the server hangs up."""
        found = b""
        with anyio.fail_after(PATIENCE):
            while mark not in found:
                try:
                    piece = await asyncio.get_running_loop().sock_recv(self.socket, 65536)
                except ConnectionError:
                    return found
                if not piece:
                    return found
                found += piece
        return found


def call(tool: str, /, number: int = 1, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
