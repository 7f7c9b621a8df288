"""The server over HTTP: `/mcp` (Streamable HTTP), `/sse` and `/messages/` (its predecessor), and the routes that were
registered on it, behind one lifespan, one Host and Origin check and one gate.
"""

import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import uvicorn
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from mcp.server.transport_security import TransportSecuritySettings
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Lifespan, Message, Receive, Scope, Send

from layerlore.server.access.exposure import AllowedHeaders, HostGuard
from layerlore.server.access.gate import Gate
from layerlore.server.access.protocol_errors import answer_ending, ending_error
from layerlore.server.http.connections import ConnectionLimits, Connections, raise_open_files
from layerlore.server.http.http_worker import SharedConnection, WorkerLink
from layerlore.server.http.request_guards import BodyGuard, SingleHeaders, describe_failure, open_listener
from layerlore.server.http.whole_answers import SseAnswers, WholeAnswers
from layerlore.server.process.sdk_private import (
    add_middleware,
    close_listen_streams,
    count_sessions,
    mark_sessions,
    serve_connection_loop,
)
from layerlore.server.process.shutdown import ExitDeadline, StopRequest
from layerlore.storage.core import metrics

MCP: Final = "/mcp"
SSE: Final = "/sse"
MESSAGES = "/messages"
MAX_BODY_BYTES = 4 * 1024 * 1024
SESSION_IDLE_SECONDS = 1800.0
DEFAULT_LIMITS = ConnectionLimits()
MAX_SESSIONS = 2000
DRAIN_SECONDS = 1.0
CANCEL_SECONDS = 0.2
KEEP_ALIVE_SECONDS = 75
"""Longer than clients (5 s) and proxies (60 s) keep an idle connection, so that they close it first: a request that is
on its way when the server closes would be lost."""
EXPOSED_HEADERS = ("Mcp-Session-Id", "WWW-Authenticate", "Retry-After")
EXIT_SECONDS = 2.0
"""How long ending may take after draining: 0.25 s for calls that are cancelled, up to 1.1 s in uvicorn for responses that are
being sent, and the lifespan's clean-up. A process that is not done by then is ended by force, with 1."""


def build_app(
    mcp: MCPServer[Any],
    *,
    allowed: AllowedHeaders,
    gate: Gate,
    max_body_bytes: int = MAX_BODY_BYTES,
    session_idle_timeout: float = SESSION_IDLE_SECONDS,
    max_sessions: int = MAX_SESSIONS,
    body_seconds: float = DEFAULT_LIMITS.body_seconds,
    messages_path: str = f"{MESSAGES}/",
    public_path: str = "",
) -> Starlette:
    """Build one ASGI app of everything that is served over HTTP; its lifespan enters the server's once.

    Routes registered with `mcp.custom_route` are served without a credential, but under the same Host (421) and Origin
    (403) check as the rest.

    Args:
        allowed: Host and Origin headers that are served.
        gate: stands before the protocol's own routes; it must belong to this app alone.
        max_body_bytes: larger bodies are answered with 413.
        session_idle_timeout: seconds until an unused session of a handshake-era client ends.
        max_sessions: such sessions at a time; beyond them the answer is 503.
        body_seconds: bodies that take longer are answered with 408.
        messages_path: where clients of `/sse` send their messages; it begins with `/messages/`.
        public_path: the path of the public URL, which may stand before every route.
    """
    # Hosts and origins are checked here, once for all routes.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = mcp.streamable_http_app(
        streamable_http_path=MCP,
        transport_security=unchecked,
        max_request_body_size=max_body_bytes,
        session_idle_timeout=session_idle_timeout,
        max_sessions=max_sessions,
    )
    sse = SseServerTransport(messages_path, security_settings=unchecked, max_request_body_size=max_body_bytes)
    # A redirect would send the credential on to the host of its URL.
    app.router.redirect_slashes = False
    bounds: dict[str, Any] = {"limit": max_body_bytes, "seconds": body_seconds}
    # The order: the gate knows the caller, then the body is checked, then the message is answered.
    streamable = gate.wrap(BodyGuard(WholeAnswers(StreamableHTTPASGIApp(mcp.session_manager), mcp), **bounds))
    app.router.routes = [
        *(Route(path, endpoint=streamable) for path in (MCP, f"{MCP}/")),
        Route(SSE, endpoint=gate.wrap(SseEndpoint(mcp, sse), SSE), methods=["GET"]),
        Mount(MESSAGES, app=gate.wrap(BodyGuard(sse.handle_post_message, **bounds), SSE)),
        # The SDK's own route for /mcp is left out, since it has no gate.
        *(route for route in app.router.routes if getattr(route, "path", MCP) != MCP),
    ]
    app.router.lifespan_context = _add_task(gate.open.watch, app.router.lifespan_context)
    # The headers that an allowed page may read; other pages were refused before. None may have its browser send a
    # cookie: the page of this server, which has one, needs no leave.
    app.add_middleware(
        PageCors,
        allow_origin_regex=".*",
        allow_methods=("GET", "POST", "DELETE"),
        allow_headers="*",
        expose_headers=EXPOSED_HEADERS,
        allow_private_network=True,
    )
    # Middleware that is added later runs earlier: repeated headers, then the host, then the rest.
    app.add_middleware(HostGuard, allowed=allowed)
    app.add_middleware(SingleHeaders)
    if public_path:
        app.add_middleware(PublicPath, public_path=public_path)
    return app


class PublicPath:
    """ASGI middleware for a public URL with a path. A proxy may pass the path on or cut it off: both are served."""

    def __init__(self, app: ASGIApp, public_path: str) -> None:
        self._app = app
        self._public_path = public_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path: str = scope["path"]
            if not f"{path}/".startswith(f"{self._public_path}/"):
                path = self._public_path + path
            # The router removes the root path, and the SDK sends it to clients of /sse.
            scope = {**scope, "path": path, "root_path": self._public_path}
        await self._app(scope, receive, send)


class PageCors(CORSMiddleware):
    """Adds the CORS headers to answers for pages."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Requests of programs have no Origin, so they skip CORS, which would slow them down.
        if scope["type"] != "http" or any(name == b"origin" for name, _ in scope["headers"]):
            await super().__call__(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                # A cache must not give an answer without CORS headers to a page.
                message = {**message, "headers": [*message.get("headers", ()), (b"vary", b"Origin")]}
            await send(message)

        await self.app(scope, receive, sent)


def _add_task(task: Callable[[], Coroutine[Any, Any, None]], lifespan: Lifespan[Any]) -> Lifespan[Any]:
    """A lifespan during which a task runs, too."""

    @asynccontextmanager
    async def both(app: Any) -> AsyncIterator[Any]:
        async with lifespan(app) as state, anyio.create_task_group() as tasks:
            tasks.start_soon(task)
            try:
                yield state
            finally:
                tasks.cancel_scope.cancel()

    return both


class SseEndpoint:
    """`GET /sse`. Unlike the SDK's own, it runs in the lifespan that the whole app shares, and sends one response."""

    def __init__(self, mcp: MCPServer[Any], sse: SseServerTransport) -> None:
        self._mcp = mcp
        self._sse = sse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answers = SseAnswers(scope, send)
        try:
            with metrics.STREAMS.hold():
                await self._serve(scope, receive, answers)
        finally:
            answers.end()

    async def _serve(self, scope: Scope, receive: Receive, answers: SseAnswers) -> None:
        async with self._sse.connect_sse(scope, receive, answers.send) as (messages, replies):
            await serve_connection_loop(self._mcp, answers.wrap_messages(messages), answers.wrap_replies(replies))


class CallsInFlight:
    """Middleware of the MCP server that tracks the requests being answered, except listen streams."""

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()

    @property
    def count(self) -> int:
        return len(self._scopes)

    def cancel(self) -> None:
        """Cancel every request; each is answered with an error."""
        for scope in self._scopes:
            scope.cancel()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == "subscriptions/listen":
            with metrics.STREAMS.hold():
                return await call_next(ctx)
        if ctx.request_id is None:
            return await call_next(ctx)
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await call_next(ctx)
            finally:
                self._scopes.discard(scope)
        # Reached only when the shutdown has cancelled the scope: the client gets an answer all the same.
        raise ending_error()


class _OpenPost:
    """A POST request and its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._asked = (scope, receive, send)
        self._has_begun = False
        self._is_given_up = False

    async def send(self, message: Message) -> None:
        self._has_begun = True
        if not self._is_given_up:
            await self._asked[2](message)

    async def give_up(self) -> None:
        if not self._has_begun:
            self._is_given_up = True
            await answer_ending()(*self._asked)


class PostsInFlight:
    """ASGI middleware that keeps the POST requests whose response is not complete yet."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: set[_OpenPost] = set()

    @property
    def count(self) -> int:
        return len(self._open)

    async def give_up(self) -> None:
        """Answer each request that has no response yet with 503: its client tries again, perhaps with another replica."""
        for post in [*self._open]:
            await post.give_up()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        post = _OpenPost(scope, receive, send)
        self._open.add(post)
        try:
            await self._app(scope, receive, post.send)
        finally:
            self._open.discard(post)


class DrainingServer(uvicorn.Server):
    """A server that drains on SIGTERM, SIGINT or `stop`.

    It takes no new connections, lets calls in flight finish (for `drain_seconds` at most, then they get an error), ends
    listen streams, then GET and SSE streams, and leaves the lifespan. Unlike plain uvicorn it does not raise the signal
    again. There may be one at a time in a process.
    """

    def __init__(
        self,
        app: ASGIApp,
        mcp: MCPServer[Any],
        *,
        stop: StopRequest | None = None,
        on_listening: Callable[[], None] | None = None,
        drain_seconds: float = DRAIN_SECONDS,
        connections: Connections | None = None,
        worker: WorkerLink | None = None,
    ) -> None:
        self._posts = PostsInFlight(app)
        self._connections = connections or Connections(DEFAULT_LIMITS)
        self._worker = worker
        self._calls = CallsInFlight()
        add_middleware(mcp, self._calls)
        super().__init__(
            uvicorn.Config(
                self._posts,
                loop="auto",
                http=self._connections.protocol,  # type: ignore[arg-type] # uvicorn only calls it
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=1,
            )
        )
        self._mcp = mcp
        self._stop = stop or StopRequest()
        self._on_listening = on_listening
        self._drain_seconds = drain_seconds
        # By default sse-starlette cuts off every SSE answer at the signal.
        AppStatus.enable_automatic_graceful_drain = False
        AppStatus.should_exit = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # A worker reports to its parent, which says for all of them that the server listens.
        if self.started and self._worker is not None:
            self._worker.begin(self._make_shared)
        elif self.started and self._on_listening is not None:
            self._on_listening()

    def _make_shared(self, **given: Any) -> SharedConnection:
        assert self._worker is not None
        return SharedConnection(
            self._worker,
            self._connections,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            **given,
        )

    async def on_tick(self, counter: int) -> bool:
        self._connections.close_overdue()
        return self._stop.is_requested or await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Workers and background tasks watch the same request to stop.
        self._stop.ask()
        for listener in self.servers:
            listener.close()
        if self._worker is not None:
            self._worker.end()
        # The drain comes before uvicorn's own shutdown, which would cut off the calls.
        await self._drain(self._drain_seconds)
        self._calls.cancel()
        await self._drain(CANCEL_SECONDS)
        await self._posts.give_up()
        await anyio.sleep(0.05)  # for an answer on its way to an SSE stream
        AppStatus.should_exit = True
        await super().shutdown(sockets)
        AppStatus.should_exit = False  # the flag belongs to the process, which may serve again
        # uvicorn would raise the signals again and end the process without an exit code.
        self._captured_signals.clear()

    async def _drain(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            while (self._calls.count or self._posts.count) and not self.force_exit:
                close_listen_streams(self._mcp)  # each time: a connected client may open another one
                await anyio.sleep(0.02)


def serve_http(
    mcp: MCPServer[Any],
    host: str,
    port: int,
    allowed: AllowedHeaders,
    gate: Gate,
    *,
    on_listening: Callable[[str, int], None] | None = None,
    stop: StopRequest | None = None,
    drain_seconds: float = DRAIN_SECONDS,
    max_body_bytes: int = MAX_BODY_BYTES,
    session_idle_timeout: float = SESSION_IDLE_SECONDS,
    max_sessions: int = MAX_SESSIONS,
    limits: ConnectionLimits = DEFAULT_LIMITS,
    worker: WorkerLink | None = None,
    public_path: str = "",
) -> int:
    """Serve until SIGTERM, SIGINT or `stop`, in the main thread. The process must end afterwards; it is ended by force
    shortly after draining.

    Args:
        port: 0 picks a free one.
        on_listening: called with the address and port once requests are answered.
        stop: ends the server from inside, with an exit code.
        drain_seconds: how long calls in flight may go on after the stop request.
        worker: where connections come from, instead of the address.
        public_path: the path of the public URL, which may stand before every route.

    Returns:
        The exit code: 1 if the address cannot be listened on (one line on standard error says why), 3 if the lifespan
        failed (logged), else that of `stop`, else 0.
    """
    stop = stop or StopRequest()
    listeners: list[socket.socket] = []
    if worker is None:
        try:
            listeners.append(open_listener(host, port))
        except OSError as error:
            sys.stderr.write(describe_failure(host, port, error))
            return 1
    app = build_app(
        mcp,
        allowed=allowed,
        gate=gate,
        max_body_bytes=max_body_bytes,
        session_idle_timeout=session_idle_timeout,
        max_sessions=max_sessions,
        body_seconds=limits.body_seconds,
        messages_path=f"{MESSAGES}/" if worker is None else f"{MESSAGES}/{worker.index}/",
        public_path=public_path,
    )
    metrics.SESSIONS.read_from(lambda: count_sessions(mcp))
    # The marks must be set before the first session begins.
    if worker is not None:
        mark_sessions(mcp, worker.mark)
    connections = Connections(limits, files=raise_open_files())

    def report_listening() -> None:
        if on_listening is not None:
            on_listening(*listeners[0].getsockname()[:2])

    server = DrainingServer(
        app,
        mcp,
        stop=stop,
        on_listening=report_listening,
        drain_seconds=drain_seconds,
        connections=connections,
        worker=worker,
    )
    # From the stop on a thread watches the time, since a blocked loop could not.
    deadline = ExitDeadline(stop, drain_seconds + EXIT_SECONDS)
    try:
        server.run(listeners)
    except SystemExit as ended:  # uvicorn raises this if the lifespan failed
        if isinstance(ended.code, int):
            return ended.code
        return 1
    finally:
        for listener in listeners:
            listener.close()
    deadline.served = True
    return stop.exit_code
