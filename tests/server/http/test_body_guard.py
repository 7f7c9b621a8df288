"""What reaches the app behind the guard, and what is refused before it."""

import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from layerlore.server.http.request_guards import DISCARDED_LIMITS, BodyGuard
from layerlore.server.process.json_rpc import MAX_DEPTH

pytestmark = pytest.mark.anyio

JSON = (b"content-type", b"application/json")
PING = b'{"jsonrpc":"2.0","id":7,"method":"ping"}'


class Exchange:
    """One request to a guard whose app keeps the body that it reads, and its answer."""

    def __init__(
        self, *pieces: bytes, method: str = "POST", headers: tuple[tuple[bytes, bytes], ...] = (JSON,)
    ) -> None:
        self._pieces = list(pieces)
        self._scope: Scope = {"type": "http", "method": method, "headers": list(headers), "path": "/mcp"}
        self.leaves = False
        self.hangs = False
        self.taken: bytes | None = None
        self.after: str | None = None
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""

    async def through(self, make: Callable[..., BodyGuard] = BodyGuard, **limits: Any) -> "Exchange":
        await make(self._app, **limits)(self._scope, self._receive, self._send)
        return self

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        assert found["jsonrpc"] == "2.0"
        return found

    async def _receive(self) -> Message:
        if self._pieces:
            piece = self._pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self._pieces) or self.leaves or self.hangs}
        if self.hangs:
            await anyio.sleep_forever()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = dict(message["headers"])
        else:
            self.body += message.get("body", b"")

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        self.taken = message.get("body", b"")
        self.after = (await receive())["type"]


async def test_a_message_passes_whole_however_it_comes_and_then_the_client_leaves() -> None:
    for pieces in ((PING,), (PING[:5], PING[5:], b""), tuple(bytes([byte]) for byte in PING)):
        found = await Exchange(*pieces).through()
        assert (found.taken, found.after, found.status) == (PING, "http.disconnect", 0)


async def test_a_byte_order_mark_is_taken_off() -> None:
    assert (await Exchange(b"\xef\xbb\xbf" + PING).through()).taken == PING


async def test_other_methods_pass_as_they_are() -> None:
    for method in ("GET", "DELETE", "OPTIONS"):
        assert (await Exchange(b"no JSON", method=method, headers=()).through()).taken == b"no JSON"


@pytest.mark.parametrize(
    ("body", "code", "request_id"),
    [
        (b"", -32700, None),
        (b"hello", -32700, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"pi', -32700, 7),
        (b"[" + PING + b"]", -32600, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"\\ud800"}}', -32700, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":NaN}}', -32700, 7),
        (
            b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}}",
            -32700,
            7,
        ),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (PING.decode().encode("utf-16"), -32700, None),
    ],
)
async def test_what_is_no_message_is_answered_with_its_id_and_reaches_nobody(
    body: bytes, code: int, request_id: Any
) -> None:
    found = await Exchange(body).through()
    assert (found.status, found.taken) == (400, None)
    assert (found.error["error"]["code"], found.error["id"]) == (code, request_id)


async def test_a_body_at_the_limit_passes_and_one_byte_more_is_answered_with_its_id() -> None:
    assert (await Exchange(PING).through(limit=len(PING))).taken == PING
    for exchange in (Exchange(PING + b" "), Exchange(PING, b" "), Exchange(PING[:9], PING[9:] + b" " * 500)):
        found = await exchange.through(limit=len(PING))
        assert (found.status, found.taken, found.error["id"]) == (413, None, 7)
        assert f"limit of {len(PING)} bytes" in found.error["error"]["message"]


async def test_a_body_many_times_the_limit_is_not_taken_in() -> None:
    piece = b"x" * len(PING)
    lengths = [str(len(PING) * DISCARDED_LIMITS + 1).encode(), b"9" * 5000]
    for exchange in (
        Exchange(*[piece] * (DISCARDED_LIMITS + 1), PING),
        *(Exchange(PING, headers=(JSON, (b"content-length", length))) for length in lengths),
    ):
        found = await exchange.through(limit=len(PING))
        assert (found.status, found.taken, found.error["id"]) == (413, None, None)
        assert found.headers[b"connection"] == b"close"


async def test_a_body_that_is_not_json_as_it_is_is_not_read() -> None:
    for header in (
        (b"content-type", b"text/plain"),
        (b"content-type", b"application/jsonx"),
        (b"content-type", b""),
        (b"content-encoding", b"gzip"),
    ):
        found = await Exchange(PING, headers=((b"content-type", b"application/json"), header)).through()
        assert (found.status, found.taken) == (415, None), header
    assert (await Exchange(PING, headers=()).through()).status == 415
    for kind in (b"application/json; charset=utf-8", b"Application/JSON"):
        headers = ((b"content-type", kind), (b"content-encoding", b"identity"))
        assert (await Exchange(PING, headers=headers).through()).taken == PING


async def test_a_body_that_does_not_come_is_given_up() -> None:
    exchange = Exchange(PING[:5])
    exchange.hangs = True
    found = await exchange.through(seconds=0.01)
    assert (found.status, found.taken, found.headers[b"connection"]) == (408, None, b"close")


async def test_a_client_that_leaves_in_the_middle_is_forgotten() -> None:
    exchange = Exchange(PING[:5])
    exchange.leaves = True
    found = await exchange.through()
    assert (found.status, found.taken) == (0, None)
