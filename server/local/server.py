"""The shared server: its process, and one open memory for every host that connects, each with its own agent, resource and
tools."""

import asyncio
import contextlib
import functools
import hmac
import importlib.util
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from mcp.types import JSONRPCMessage, JSONRPCRequest

from layerlore.memory.engine.status_answers import ProcessState
from layerlore.server.access.caller import KEY_META, Caller
from layerlore.server.access.credentials import Principal
from layerlore.server.capture.host_events import CurrentConversations
from layerlore.server.capture.host_lines import as_texts
from layerlore.server.limits.room import Turns
from layerlore.server.process.late_imports import load_for
from layerlore.server.process.lines import TooLong
from layerlore.server.process.logs import configure_logging
from layerlore.server.process.sdk_private import add_middleware, serve_within
from layerlore.server.process.shutdown import ExitDeadline, StopRequest
from layerlore.server.process.version import VERSION
from layerlore.server.relay.channels import Listener, check_peer, lock
from layerlore.server.relay.hook_client import TAKEN
from layerlore.server.relay.hook_client import WANT as HOOK
from layerlore.server.relay.hook_events import is_captured
from layerlore.server.relay.launch import hook_folder
from layerlore.server.relay.spool import list_waiting
from layerlore.server.runtime.process import Process
from layerlore.server.runtime.tool_server import ToolServer, assemble_server
from layerlore.server.settings.settings import Settings, SettingsError, load_served
from layerlore.server.stdio.stdio_transport import LineConnection
from layerlore.server.stdio.streams import ByteSink, ByteSource
from layerlore.server.subscriptions.notifications import RULES, NotificationHub
from layerlore.storage.core.errors import LayerloreError, StorageUnavailable
from layerlore.storage.core.records import Json, Scope

FRAME_BYTES = 32
"""The longest frame in front of a message in its line."""


class HostState:
    """The context that a lifespan gives to one host's requests: the shared process with the host's own settings and its
    conversation, which may have begun on an earlier server.

    ``find_conversation``: returns the host's own id of its conversation, which may change between calls; "" for none.
    """

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
        """The host's own id of the conversation of its calls; "" if it gives none."""
        return self._find_conversation()

    def mask(self, text: str) -> str:
        """An error's text with its secrets masked."""
        return self._process.mask(text)

    async def act(
        self, name: str, function: Callable[..., Any], caller: Caller, values: Json, given: frozenset[str]
    ) -> Any:
        """Run the function of a tool, a resource or a prompt. Raises LayerloreError, or a defect."""
        runtime = await self._process.runtime()
        return await runtime.act(name, function, caller, values, given, self.settings)

    async def record_refusal(self, principal: Principal, *, tool: str, client: str, error: Exception) -> None:
        """Record a refused call in the journal. Raises StorageUnavailable."""
        await self._process.record_refusal(principal, tool=tool, client=client, error=error)

    async def is_captured(self, client: str) -> bool:
        """Whether hooks of the host store the conversations of this client. Raises nothing."""
        hooks = hook_folder(str(self.settings.data_dir), self.settings.database.get_secret_value())
        # Reading files must not block the other hosts.
        return await asyncio.to_thread(is_captured, hooks, client)

    async def begin_watching(self, scope: Scope) -> None:
        """Begin to watch the scope from its current state. Raises StorageUnavailable."""
        await self._process.begin_watching(scope)


class HostConnection(LineConnection):
    """A host behind its thin client, which numbers each line: ``7 {"jsonrpc": ...}``.

    The number becomes the idempotency key of a call that has none, so that a call is done once even if the thin client
    sends it again to the next server.
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
        """Answer the requests that were read, and leave. Unread requests and open streams go to the next server, without a
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
        number = line.number if isinstance(line, _NumberedLine) else 0
        # Only calls of tools change something; other requests may be repeated.
        if not number or not isinstance(message, JSONRPCRequest) or message.method != "tools/call":
            return message
        params = message.params or {}
        meta = params.get("_meta") or {}
        # A client's own key has precedence, since the client may repeat the call itself.
        if not isinstance(meta, dict) or KEY_META in meta:
            return message
        key = f"{self._session}-{number}"
        return message.model_copy(update={"params": {**params, "_meta": {**meta, KEY_META: key}}})


class _NumberedLine(bytes):
    """A line with the number from its thin client; 0: none."""

    number: int


def _unframed(line: bytes | TooLong) -> bytes | TooLong:
    if isinstance(line, TooLong):
        # The number is at the beginning.
        return TooLong(line.head.partition(b" ")[2], line.tail)
    number, _, rest = line.partition(b" ")
    found = _NumberedLine(rest)
    found.number = int(number) if number.isdigit() else 0
    return found


_CHUNK_BYTES = 64 * 1024


class SocketSource:
    """Reads a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(_CHUNK_BYTES)
        except ConnectionError:
            return b""

    def close(self) -> None:
        self._writer.close()


class SocketSink:
    """Writes to a connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, line: bytes) -> None:
        """Raises OSError once the client has gone."""
        try:
            self._writer.write(line)
            await self._writer.drain()
        except RuntimeError as error:  # uvloop raises it for a closed transport
            raise BrokenPipeError(str(error)) from None

    async def aclose(self) -> None:
        self._writer.close()
        # The client may have hung up before it read everything.
        with contextlib.suppress(OSError, RuntimeError):
            await self._writer.wait_closed()


if TYPE_CHECKING:
    from layerlore.memory.engine.engine import Engine
    from layerlore.server.capture.hook_service import HookService

log = logging.getLogger(__name__)

Greeting = Mapping[str, Any]
"""The first line of a connection, a JSON object: its key, its request (``want``), and the request's values."""

GREETING_SECONDS = 10.0
TAKING_SECONDS = 2.0
"""A hook must confirm within this time that its answer came in time."""
POLL_SECONDS = 1.0
HANDED_SECONDS = 10.0
"""The server looks at this interval for events whose hooks did not wait for an answer."""
_GREETING_BYTES = 256 * 1024
_SESSION_CHARS = 32
_ACCEPT_AGAIN_SECONDS = 0.1
_LAST_CONNECTIONS_SECONDS = 0.1


class _Unwelcome(Exception):
    """The connection is refused; the text says why."""


class LocalServer:
    """Serves hosts on a listening socket until no host has been connected for ``local.idle_minutes``, or ``stop``."""

    def __init__(
        self, base: str, flags: Mapping[str, str], settings: Settings, listener: Listener, stop: StopRequest
    ) -> None:
        self._base = base
        self._flags = flags
        self._settings = settings
        self._listener = listener
        self._stop = stop
        self._hub = NotificationHub(RULES)
        self._servers: dict[tuple[str, ...], ToolServer] = {}
        # One limit for all hosts, since they share a database and an embedder.
        self._turns = Turns(settings.rates)
        self._connections: set[HostConnection] = set()
        self._greeting = 0
        # The callers of "stop" wait for the end of the process, which closes their connections.
        self._waiting_for_end: set[asyncio.StreamWriter] = set()
        self._begun = time.time()
        self._idle_since = time.monotonic()
        self._process = Process(settings, self._hub, stop, self.describe)
        self._hook_folder = hook_folder(str(settings.data_dir), settings.database.get_secret_value())
        self._hooks: HookService | None = None
        self._conversations = CurrentConversations()
        self._storing: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve. Raises any error of the process's end."""
        self._listener.socket.setblocking(False)
        async with anyio.create_task_group() as tasks:
            # The hub outlives the process inside it, so that the last notifications still go out.
            tasks.start_soon(self._hub.run)
            async with self._process.running():
                tasks_beside = (self._accept(), self._watch_idle(), self._watch_handed())
                beside = [asyncio.create_task(each) for each in tasks_beside]
                await self._stop.wait()
                # New hosts must start a new server while this one finishes its calls.
                self._listener.withdraw()
                for task in beside:
                    task.cancel()
                self._listener.socket.close()
                for connection in self._connections:
                    connection.drain()
                while self._is_busy:  # noqa: ASYNC110 - the exit deadline bounds it
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        serving: set[asyncio.Task[None]] = set()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listener.socket)
            except OSError as error:  # too many open files, for example
                log.warning("cannot accept a connection: %s", error)
                await anyio.sleep(_ACCEPT_AGAIN_SECONDS)
                continue
            try:
                check_peer(connection)
                reader, writer = await asyncio.open_connection(sock=connection, limit=_GREETING_BYTES)
            except OSError:  # another user's process, or a client that has gone already
                connection.close()
                continue
            task = asyncio.create_task(self._serve(reader, writer))
            serving.add(task)
            task.add_done_callback(serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._greeting += 1
        connection = None
        try:
            connection = await self._answer(await self._read_greeting(reader), reader, writer)
        except _Unwelcome as error:
            _say(writer, {"error": str(error)})
        except (
            OSError,
            ValueError,
            RecursionError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            TimeoutError,
        ):
            log.info("a connection ended without a valid greeting")
        else:
            if connection is not None:
                self._connections.add(connection)
        finally:
            self._greeting -= 1
        # The caller of "stop" takes the closed connection as the end of this process.
        if writer in self._waiting_for_end:
            return
        try:
            if connection is not None:
                await self._serve_host(connection)
        finally:
            writer.close()

    async def _serve_host(self, connection: HostConnection) -> None:
        try:
            # The request to stop may have come between the greeting and now.
            if self._stop.is_requested:
                connection.drain()
            await connection.run()
        except Exception:
            log.exception("a connection failed")
        finally:
            self._connections.discard(connection)
            self._idle_since = time.monotonic()

    async def _read_greeting(self, reader: asyncio.StreamReader) -> Greeting:
        async with asyncio.timeout(GREETING_SECONDS):
            found = json.loads(await reader.readuntil(b"\n"))
        if not isinstance(found, dict):
            raise ValueError("no greeting")
        # The key keeps out programs that found the port on systems without Unix sockets.
        if not hmac.compare_digest(str(found.get("key", "")).encode(), self._listener.key.encode()):
            raise ValueError("the key is that of another server")
        return found

    async def _answer(
        self, request: Greeting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> HostConnection | None:
        """Serve the request of a greeting. Returns the connection of a host."""
        match request.get("want"):
            case "session":
                return self._open(request, reader, writer)
            case "status":
                _say(writer, self.describe())
            case found if found == HOOK:
                await self._serve_hook(request, reader, writer)
            case "stop":
                _say(writer, self.describe())
                self._waiting_for_end.add(writer)
                self._stop.ask()
            case other:
                raise _Unwelcome(f"nothing is known of {str(other)[:40]!r}")
        return None

    async def _serve_hook(self, request: Greeting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a hook with text for the model, and store the events of hooks."""
        # A newer client expects the rules of its own version.
        if self._is_older_than(request):
            self._leave_to_newer()
            return

        async def show(text: str) -> bool:
            _say(writer, {"text": text})
            # The host gives up at its own time limit; only a confirmed text counts as shown.
            async with asyncio.timeout(TAKING_SECONDS):
                return await reader.readline() == TAKEN

        self._idle_since = time.monotonic()
        if request.get("shows"):
            try:
                # Only the last part of the name counts, so that no client can name a file elsewhere.
                await (await self._hook_service()).answer(Path(str(request.get("name"))).name, show)
            except (LayerloreError, OSError, ValueError, RecursionError) as error:
                log.warning("a hook shows nothing: %s", error)
        self._store_handed()

    async def _hook_service(self) -> "HookService":
        runtime = await self._process.runtime()
        # The imports take a moment, and other hosts are being served.
        await load_for(_make_hook_service)
        if self._hooks is None:
            self._hooks = _make_hook_service(runtime.engine, self._hook_folder, self._settings_for, self._conversations)
        return self._hooks

    def _store_handed(self) -> None:
        """Store the events of hooks in the background."""
        task = asyncio.create_task(self._store_hooks())
        self._storing.add(task)
        task.add_done_callback(self._storing.discard)

    async def _store_hooks(self) -> None:
        try:
            await (await self._hook_service()).drain()
        except StorageUnavailable as error:
            log.warning("what hooks handed over waits: %s", error)

    @property
    def _is_busy(self) -> bool:
        return bool(self._connections or self._greeting or self._storing)

    def _open(
        self, request: Greeting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> HostConnection | None:
        """A host's connection; None if a server of its own version must serve it."""
        if self._is_older_than(request):
            self._leave_to_newer()
            _say(writer, {"leaving": True, "version": VERSION})
            return None
        try:
            settings = self._settings_for(request)
        except SettingsError as error:
            raise _Unwelcome(str(error)) from None
        _say(writer, {"version": VERSION, "pid": os.getpid()})
        # The length is bounded, since the name becomes part of a thread's id.
        session = str(request.get("session", ""))[:_SESSION_CHARS]
        host, named = str(request.get("host", "")), str(request.get("conversation", ""))
        # The conversation that hooks name is newer than the one that the host named at its launch.
        state = HostState(self._process, settings, session, lambda: self._conversations.find(host) or named)
        source, sink = SocketSource(reader, writer), SocketSink(writer)
        return HostConnection(self._server_for(settings), state, source, sink, session)

    def _is_older_than(self, request: Greeting) -> bool:
        """Whether another server must serve the client, because this one ends or is of an older version."""
        return self._stop.is_requested or _release(request.get("layerlore")) > _release(VERSION)

    def _leave_to_newer(self) -> None:
        self._listener.withdraw()
        self._stop.ask()

    def describe(self) -> ProcessState:
        """A description of this server for people and `memory_status`."""
        return {
            "pid": os.getpid(),
            "shared": True,
            "version": VERSION,
            "hosts": len(self._connections),
            "seconds": int(time.time() - self._begun),
            "idle_minutes": self._settings.local.idle_minutes,
            "data_dir": str(self._settings.data_dir),
        }

    def _settings_for(self, request: Greeting) -> Settings:
        """The settings of a host: those of the process, with its own agent, resource, thread and tools."""
        flags, variables = as_texts(request.get("flags")), as_texts(request.get("variables"))
        # Most hosts bring nothing of their own, and reading settings takes a while.
        if not flags and not variables:
            return self._settings
        return load_served({**self._flags, **flags}, {**os.environ, **variables})

    def _server_for(self, settings: Settings) -> ToolServer:
        """The server that lists the tools of these settings. Hosts with the same list share it."""
        key = tuple(settings.toolsets)
        if key not in self._servers:
            self._servers[key] = assemble_server(settings, self._hub)
            add_middleware(self._servers[key], self._turns)
        return self._servers[key]

    async def _watch_handed(self) -> None:
        """Store events that earlier servers left, or whose hooks gave up before this server answered."""
        while True:
            if not self._storing and list_waiting(self._hook_folder):
                self._store_handed()
            await anyio.sleep(HANDED_SECONDS)

    async def _watch_idle(self) -> None:
        while True:
            await anyio.sleep(min(POLL_SECONDS, self._settings.local.idle_minutes * 20))
            if self._is_busy:
                continue
            idle = time.monotonic() - self._idle_since
            # Another server has taken this one's place, so new hosts no longer find this one.
            if not self._listener.is_current:
                self._stop.ask()
            elif idle > self._settings.local.idle_minutes * 60:
                await self._leave()

    async def _leave(self) -> None:
        """End this server, unless a host is just connecting. Hosts that have connected are still served."""
        try:
            # A client that holds the lock is about to connect, and must still find this server.
            with lock(self._base, time.monotonic()):
                self._listener.withdraw()
        except OSError:
            return
        # The kernel may have accepted connections that are not counted yet.
        await anyio.sleep(_LAST_CONNECTIONS_SECONDS)
        while self._is_busy:  # noqa: ASYNC110 - no event announces it
            await anyio.sleep(POLL_SECONDS)
        self._stop.ask()


def _make_hook_service(
    engine: "Engine", hooks: str, settings_for: Callable[[Greeting], Settings], conversations: CurrentConversations
) -> "HookService":
    from layerlore.server.capture.hook_service import HookService

    return HookService(engine, hooks, settings_for, conversations)


def _say(writer: asyncio.StreamWriter, what: Mapping[str, Any]) -> None:
    writer.write(json.dumps(what).encode() + b"\n")


def _release(version: Any) -> tuple[int, ...]:
    """The leading numbers of a version."""
    numbers = []
    for part in str(version).split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


EXIT_SECONDS = 15.0
"""The end may take this long, so that calls under way can finish."""
_GREETING_SECONDS = 1.0


def serve(base: str, flags: dict[str, str], listener: Listener) -> int:
    """Serve until no host has been connected for a while, or a stop is requested. Returns the exit code: 2 for invalid
    settings."""
    try:
        settings = load_served(flags)
    except SettingsError as error:
        sys.stderr.write(f"layerlore: {error}\n")
        _refuse(listener, str(error))
        return 2
    configure_logging(settings.log_level, file=f"{base}.log")
    stop = StopRequest()
    deadline = ExitDeadline(stop, EXIT_SECONDS)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.ask())
    server = LocalServer(base, flags, settings, listener, stop)
    try:
        anyio.run(server.run, backend_options={"use_uvloop": importlib.util.find_spec("uvloop") is not None})
        deadline.served = True
    finally:
        # Other clients must no longer find this server.
        listener.withdraw()
        stop.ask(1)  # without effect unless the lifespan has failed
    return stop.exit_code


def _refuse(listener: Listener, why: str) -> None:
    """Send connected hosts the reason of the failure, which would stop each further server, too."""
    # Withdrawn first, so that no further client connects.
    listener.withdraw()
    listener.socket.setblocking(False)
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.socket.accept()
            with connection, contextlib.suppress(OSError):
                connection.settimeout(_GREETING_SECONDS)
                # The greeting is read first, since closing with unread bytes would reset the connection and lose the answer.
                connection.recv(_GREETING_BYTES)
                connection.sendall(json.dumps({"error": why}).encode() + b"\n")
