"""Limits the bodies, streams and sessions that a tenant may have open (Room), and the calls that a server runs at the same
time for all callers (Turns).

A server that lets every call wait answers all calls late once it is overloaded. So a burst of calls may wait, but while a
queue lasts, the server soon refuses calls that cannot run. A refusal names the time to wait, and costs little.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, ErrorData, TextContent
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.types import Message, Receive, Scope, Send

from layerlore.server.access.protocol_errors import RETRY_AFTER, TOO_MUCH
from layerlore.server.relay.hook_events import SHOW_METHOD, STORE_METHOD
from layerlore.server.settings.http import RateSettings
from layerlore.storage.core import metrics
from layerlore.storage.core.errors import LayerloreError, StorageBusy

CALL_METHODS = ("tools/call", "resources/read", "prompts/get", "completion/complete", STORE_METHOD, SHOW_METHOD)
"""The requests that read or write the memory."""
RETRY_AFTER_META = f"layerlore/{RETRY_AFTER}"


class TooMuch(LayerloreError):
    """A limit is exceeded. ``what``: the limited things, in the plural; ``allowed``: the limit in words; ``retry_after``:
    seconds, rounded up to tenths."""

    def __init__(self, what: str, allowed: str, retry_after: float) -> None:
        # Rounded first: 0.30000000000000004 would become 0.4.
        self.what = what
        self.retry_after = max(0.1, math.ceil(round(retry_after * 10, 6)) / 10)
        super().__init__(f"too many {what}: {allowed}; try again in {self.retry_after:,} s")


def refusal_error(refused: TooMuch | StorageBusy) -> ErrorData:
    """The refusal as an error of the protocol."""
    return ErrorData(code=TOO_MUCH, message=str(refused), data={RETRY_AFTER: refused.retry_after})


def refusal_result(refused: TooMuch | StorageBusy) -> CallToolResult:
    """The refusal as the answer of a tool: an error that a model can act on."""
    return CallToolResult(
        content=[TextContent(type="text", text=str(refused))],
        is_error=True,
        _meta={RETRY_AFTER_META: refused.retry_after},
    )


def answer_refusal(ctx: ServerRequestContext[Any, Any], refused: TooMuch) -> HandlerResult:
    """The answer to a refused request: for a tool its result as the SDK writes it, otherwise an error of the protocol."""
    if ctx.method != "tools/call":
        raise MCPError.from_error_data(refusal_error(refused)) from refused
    result = refusal_result(refused).model_dump(by_alias=True, mode="json", exclude_none=True)
    # The older protocol's results have no such field.
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        result.pop("resultType", None)
    return result


MOST_READING_BYTES = 16 * 1024 * 1024
"""The most bytes of one tenant's bodies that are still arriving; a single body may be larger."""
UNKNOWN_BYTES = 1024 * 1024
"""The size that a body without Content-Length counts as."""
BODY_SECONDS = 1.0
STREAM_SECONDS = 5.0
"""A client may try a refused stream or session again after this time."""


class Room:
    """The room of each tenant. ``streams``: the most that a tenant may have open; ``sessions``: the most sessions of the
    older protocol; 0: any number. ``sessions_of``: returns the number of a tenant's sessions."""

    def __init__(
        self, *, streams: int = 0, sessions: int = 0, sessions_of: Callable[[str], int] = lambda tenant: 0
    ) -> None:
        self._most_streams = streams
        self._most_sessions = sessions
        self._sessions_of = sessions_of
        self._streams: Counter[str] = Counter()
        self._beginning: Counter[str] = Counter()
        self._reading: Counter[str] = Counter()

    @contextmanager
    def take(self, tenant: str, scope: Scope, receive: Receive, send: Send) -> Iterator[tuple[Receive, Send]]:
        """Take the room of a request until its answer is complete: a GET may stay open, a POST may wait for its body.
        Raises TooMuch."""
        with self._session(tenant, scope, send) as sent:
            if scope["method"] == "POST":
                # A body without a length counts as an ordinary one.
                with self._body(tenant, content_length(scope) or UNKNOWN_BYTES, receive) as received:
                    yield received, sent
            else:
                with self._stream(tenant):
                    yield receive, sent

    @contextmanager
    def _session(self, tenant: str, scope: Scope, send: Send) -> Iterator[Send]:
        """Count a new session until the answer begins. By then ``sessions_of`` counts it, or it was not created."""
        if not self._most_sessions or not _begins_session(scope):
            yield send
            return
        # Refused here, since a session that the protocol refuses would stay open.
        if self._sessions_of(tenant) + self._beginning[tenant] >= self._most_sessions:
            raise TooMuch("open sessions", f"{self._most_sessions:,} of a tenant are allowed", STREAM_SECONDS)
        left = 1
        self._beginning[tenant] += 1

        async def sent(message: Message) -> None:
            nonlocal left
            # The answer has begun, so the session exists and counts itself.
            _lessen(self._beginning, tenant, left)
            left = 0
            await send(message)

        try:
            yield sent
        finally:
            _lessen(self._beginning, tenant, left)

    @contextmanager
    def _stream(self, tenant: str) -> Iterator[None]:
        if self._streams[tenant] >= self._most_streams > 0:
            raise TooMuch("open streams", f"{self._most_streams:,} of a tenant are allowed", STREAM_SECONDS)
        self._streams[tenant] += 1
        try:
            yield
        finally:
            _lessen(self._streams, tenant, 1)

    @contextmanager
    def _body(self, tenant: str, size: int, receive: Receive) -> Iterator[Receive]:
        """Count a body until it has arrived."""
        # A single body may exceed the limit, or a large one could never be sent.
        if self._reading[tenant] and self._reading[tenant] + size > MOST_READING_BYTES:
            allowed = f"{MOST_READING_BYTES:,} bytes of a tenant are allowed"
            raise TooMuch("bodies in transit", allowed, BODY_SECONDS)
        left = size
        self._reading[tenant] += size

        async def received() -> Message:
            nonlocal left
            message = await receive()
            # The count ends with the body, or when the client leaves.
            if not message.get("more_body", False):
                _lessen(self._reading, tenant, left)
                left = 0
            return message

        try:
            yield received
        finally:
            _lessen(self._reading, tenant, left)


def content_length(scope: Scope) -> int:
    """The Content-Length of a request; 0 if it has none."""
    sent: bytes = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    if sent.isdigit():
        return int(sent)
    return 0


def _begins_session(scope: Scope) -> bool:
    """Whether a request to Streamable HTTP names neither a session nor a protocol without sessions."""
    sent = dict(scope["headers"])
    modern = sent.get(b"mcp-protocol-version", b"").decode("latin-1") in MODERN_PROTOCOL_VERSIONS
    # Only /mcp begins sessions of this kind; /sse counts as an open stream.
    path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
    return path.rstrip("/") == "/mcp" and not modern and b"mcp-session-id" not in sent


def _lessen(counts: Counter[str], tenant: str, by: int) -> None:
    counts[tenant] -= by
    # Zeros would keep the name of each tenant that ever called.
    if not counts[tenant]:
        del counts[tenant]


STANDING_SECONDS = 0.5
"""A call waits this long in a standing queue."""
AGAIN_SECONDS = 1.0
"""A client may try a refused call again after this time."""


class Turns:
    """Middleware of the MCP server. It runs after the throttle, so that a call that the throttle delays holds no turn.

    A queue is standing if it has not been empty for ``rates.wait_ms``. ``clock`` returns seconds.
    """

    def __init__(self, rates: RateSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = rates.calls_at_once
        self._patience = rates.wait_ms / 1000
        self._clock = clock
        self._turns = anyio.Semaphore(max(1, self._most))
        self._waiting = 0
        self._last_empty = clock()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if not self._most or ctx.request_id is None or ctx.method not in CALL_METHODS:
            return await call_next(ctx)
        try:
            await self._take()
        except TooMuch as refused:
            metrics.REFUSED.add(refused.what)
            return answer_refusal(ctx, refused)
        try:
            return await call_next(ctx)
        finally:
            self._turns.release()

    async def _take(self) -> None:
        """Wait for a turn. Raises TooMuch if none came free in time."""
        try:
            self._turns.acquire_nowait()
            return
        except anyio.WouldBlock:
            pass
        if not self._waiting:
            self._last_empty = self._clock()
        patience = self._patience
        if self._clock() - self._last_empty >= self._patience:
            patience = min(STANDING_SECONDS, patience)
        self._waiting += 1
        try:
            with anyio.move_on_after(patience):
                await self._turns.acquire()
                return
        finally:
            self._waiting -= 1
        raise TooMuch("calls of all callers at once", f"{self._most:,} run at the same time", AGAIN_SECONDS)
