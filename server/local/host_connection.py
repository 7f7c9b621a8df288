"""One host's connection to the shared server: its settings, its conversation and its messages."""

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import Any

from mcp.types import JSONRPCMessage, JSONRPCRequest

from layerlore.server.access.caller import KEY_META, Caller
from layerlore.server.access.credentials import Principal
from layerlore.server.process.lines import TooLong
from layerlore.server.process.sdk_private import serve_within
from layerlore.server.process.shutdown import StopRequest
from layerlore.server.relay.captured_hosts import is_captured
from layerlore.server.relay.launch import hook_folder
from layerlore.server.runtime.process import Process
from layerlore.server.runtime.tool_server import ToolServer
from layerlore.server.settings.settings import Settings
from layerlore.server.stdio.stdio_transport import LineConnection
from layerlore.server.stdio.streams import ByteSink, ByteSource
from layerlore.storage.core.records import Json, Scope

FRAME_BYTES = 32
"""The most that stands before a message in its line."""


class HostState:
    """The context that a lifespan gives to one host's requests: the shared process, with the host's own settings and
    the conversation that its calls go on with, also after a server before this one.

    ``find_conversation`` gives the host's own id of its conversation, which may change between calls; "" for none."""

    def __init__(
        self, process: Process, settings: Settings, session: str, find_conversation: Callable[[], str]
    ) -> None:
        self.settings = settings
        self._find_conversation = find_conversation
        # The state itself is the key, since the connection of a stdio host is its lifespan context.
        self.session_threads: dict[Any, str] = {self: f"session-{session}"}
        self._process = process

    @property
    def conversation(self) -> str:
        """The host's own id of the conversation that its calls belong to; "" if it gives none."""
        return self._find_conversation()

    def mask(self, text: str) -> str:
        """An error's text with its secrets masked."""
        return self._process.mask(text)

    async def act(
        self, name: str, function: Callable[..., Any], caller: Caller, values: Json, given: frozenset[str]
    ) -> Any:
        """Run what serves a tool, a resource or a prompt. Raises LayerloreError, or a defect."""
        runtime = await self._process.runtime()
        return await runtime.act(name, function, caller, values, given, self.settings)

    async def record_refusal(self, principal: Principal, *, tool: str, client: str, error: Exception) -> None:
        """Have the journal say that a call was refused. Raises StorageUnavailable."""
        await self._process.record_refusal(principal, tool=tool, client=client, error=error)

    async def is_captured(self, client: str) -> bool:
        """Whether hooks of the host store the conversations of this client. Raises nothing."""
        hooks = hook_folder(str(self.settings.data_dir), self.settings.database.get_secret_value())
        # Files are read, which must not block the other hosts.
        return await asyncio.to_thread(is_captured, hooks, client)

    async def begin_watching(self, scope: Scope) -> None:
        """Mark where what is watched in the scope is now. Raises StorageUnavailable."""
        await self._process.begin_watching(scope)


class HostConnection(LineConnection):
    """A host behind its thin client, whose lines come with a number each: ``7 {"jsonrpc": ...}``.

    The number makes the idempotency key of a call that has none, so that a call is done once that the thin client sends
    again to the next server.
    """

    def __init__(self, server: ToolServer, state: HostState, source: ByteSource, sink: ByteSink, session: str) -> None:
        super().__init__(
            functools.partial(serve_within, server, state),
            source,
            sink,
            StopRequest(),
            frame_bytes=FRAME_BYTES,
        )
        self._session = session
        self._draining = False
        self._muted = False

    def drain(self) -> None:
        """Answer what was read, and leave. Unread requests go to the next server, and so do open streams, without a
        message."""
        self._draining = True
        self.end_input()

    def all_answered(self) -> None:
        # Requests without an answer at the end of a drain go to the next server, so this one stays silent.
        self._muted = self._draining

    async def send(self, line: bytes) -> None:
        if not self._muted:
            await super().send(line)

    def accept(self, lines: Sequence[bytes | TooLong]) -> Sequence[bytes | TooLong]:
        return [_unframed(line) for line in lines]

    def admit(self, line: bytes, message: JSONRPCMessage) -> JSONRPCMessage:
        if isinstance(line, _NumberedLine):
            number = line.number
        else:
            number = 0
        # Only calls of tools change something; other requests may be repeated.
        if not number or not isinstance(message, JSONRPCRequest) or message.method != "tools/call":
            return message
        params = message.params or {}
        meta = params.get("_meta") or {}
        # A client's own key goes first, since it may repeat the call itself.
        if not isinstance(meta, dict) or KEY_META in meta:
            return message
        key = f"{self._session}-{number}"
        return message.model_copy(update={"params": {**params, "_meta": {**meta, KEY_META: key}}})


class _NumberedLine(bytes):
    """A line, and the number that its thin client gave it; 0: none."""

    number: int


def _unframed(line: bytes | TooLong) -> bytes | TooLong:
    if isinstance(line, TooLong):
        # The number stands at the beginning only.
        return TooLong(line.head.partition(b" ")[2], line.tail)
    number, _, rest = line.partition(b" ")
    found = _NumberedLine(rest)
    found.number = int(number) if number.isdigit() else 0
    return found
