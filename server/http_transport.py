"""The server over HTTP: `/mcp` (Streamable HTTP), `/sse` and `/messages/` (its predecessor), and the routes that were
registered on it, behind one lifespan, one Host and Origin check and one gate.
"""

import errno
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import uvicorn
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import INTERNAL_ERROR
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from layerlore.server.access.gate import Gate
from layerlore.server.access.sse_answers import SseAnswers
from layerlore.server.body_guard import BodyGuard
from layerlore.server.host_guard import Allowed, HostGuard
from layerlore.server.http_connections import ConnectionLimits, Connections
from layerlore.server.open_files import raise_open_files
from layerlore.server.sdk_private import add_middleware, close_listen_streams, serve_connection_loop
from layerlore.server.single_headers import SingleHeaders
from layerlore.server.stopping import ExitDeadline, StopRequest

MCP, SSE, MESSAGES = "/mcp", "/sse", "/messages"
MAX_BODY_BYTES = 4 * 1024 * 1024
SESSION_IDLE_SECONDS = 1800.0
DEFAULT_LIMITS = ConnectionLimits()
MAX_SESSIONS = 2000
DRAIN_SECONDS = 1.0
CANCEL_SECONDS = 0.2
KEEP_ALIVE_SECONDS = 75
"""Longer than clients (5 s) and proxies (60 s) keep a connection that is not used: whoever closes it first loses nothing,
while a request that is on its way to us when we do is lost."""
EXPOSED_HEADERS = ("Mcp-Session-Id", "WWW-Authenticate", "Retry-After")
EXIT_SECONDS = 0.9
"""How long the end may take beyond draining, the lifespan's clean-up included."""


def build_app(
    mcp: MCPServer[Any],
    *,
    allowed: Allowed,
    gate: Gate,
    max_body_bytes: int = MAX_BODY_BYTES,
    session_idle_timeout: float = SESSION_IDLE_SECONDS,
    max_sessions: int = MAX_SESSIONS,
    body_seconds: float = DEFAULT_LIMITS.body_seconds,
) -> Starlette:
    """Everything that is served over HTTP, as one ASGI app whose lifespan enters the server's, once.

    Routes registered with `mcp.custom_route` are served without a credential, but under the same Host (421) and Origin
    (403) check as the rest.

    Args:
        allowed: Host and Origin headers that are served.
        gate: stands before the protocol's own routes, and has to be of this app alone.
        max_body_bytes: larger bodies are answered with 413.
        session_idle_timeout: seconds until an unused session of a handshake-era client ends.
        max_sessions: such sessions at a time; beyond them the answer is 503.
        body_seconds: bodies that take longer are answered with 408.
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
    sse = SseServerTransport(f"{MESSAGES}/", security_settings=unchecked, max_request_body_size=max_body_bytes)
    # A redirect would send the credential on to whatever its URL names.
    app.router.redirect_slashes = False
    bounds: dict[str, Any] = {"limit": max_body_bytes, "seconds": body_seconds}
    streamable = gate.around(BodyGuard(StreamableHTTPASGIApp(mcp.session_manager), **bounds))
    app.router.routes = [
        *(Route(path, endpoint=streamable) for path in (MCP, f"{MCP}/")),
        Route(SSE, endpoint=gate.around(SseEndpoint(mcp, sse)), methods=["GET"]),
        Mount(MESSAGES, app=gate.around(BodyGuard(sse.handle_post_message, **bounds))),
        *(route for route in app.router.routes if getattr(route, "path", MCP) != MCP),
    ]
    app.router.lifespan_context = _with(gate.open.watch, app.router.lifespan_context)
    # What an allowed page may read; others do not come as far. Credentials are headers, never a browser's cookies.
    app.add_middleware(
        CORSMiddleware,
        allow_origin_regex=".*",
        allow_methods=("GET", "POST", "DELETE"),
        allow_headers="*",
        expose_headers=EXPOSED_HEADERS,
        allow_private_network=True,
    )
    app.add_middleware(HostGuard, allowed=allowed)
    app.add_middleware(SingleHeaders)
    return app


def _with(task: Callable[[], Coroutine[Any, Any, None]], lifespan: Lifespan[Any]) -> Lifespan[Any]:
    """The same lifespan, with a task that runs as long."""

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
    """`GET /sse`. Unlike the SDK's own: inside the lifespan that the whole app shares, and with one response each."""

    def __init__(self, mcp: MCPServer[Any], sse: SseServerTransport) -> None:
        self._mcp = mcp
        self._sse = sse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answers = SseAnswers(scope, send)
        try:
            async with self._sse.connect_sse(scope, receive, answers.send) as (messages, replies):
                await serve_connection_loop(self._mcp, answers.coming(messages), answers.going(replies))
        finally:
            answers.end()


class CallsInFlight:
    """Middleware of the MCP server: knows the requests being answered, listen streams left out."""

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()

    @property
    def count(self) -> int:
        return len(self._scopes)

    def cancel(self) -> None:
        """Answer each of them with an error."""
        for scope in self._scopes:
            scope.cancel()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None or ctx.method == "subscriptions/listen":
            return await call_next(ctx)
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await call_next(ctx)
            finally:
                self._scopes.discard(scope)
        raise MCPError(INTERNAL_ERROR, "The server is shutting down and has cancelled the call.")


class PostsInFlight:
    """Around the ASGI app: counts the POST requests whose response is not complete yet."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        counted = scope["type"] == "http" and scope["method"] == "POST"
        self.count += counted
        try:
            await self._app(scope, receive, send)
        finally:
            self.count -= counted


class DrainingServer(uvicorn.Server):
    """On SIGTERM, SIGINT or `stop`: takes no new connections, lets calls in flight finish (for `drain_seconds` at
    most, then they get an error), ends listen streams, then GET and SSE streams, and leaves the lifespan. Ends without raising the signal
    again, as plain uvicorn would. One at a time in a process.
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
    ) -> None:
        self._posts = PostsInFlight(app)
        self._connections = connections or Connections(DEFAULT_LIMITS)
        self._calls = CallsInFlight()
        add_middleware(mcp, self._calls)
        super().__init__(
            uvicorn.Config(
                self._posts,
                loop="auto",
                http=self._connections.protocol,  # type: ignore[arg-type] # which is called and nothing else
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
        # Left to itself, sse-starlette cuts every SSE-framed answer off at the signal.
        AppStatus.enable_automatic_graceful_drain = False
        AppStatus.should_exit = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self._on_listening is not None:
            self._on_listening()

    async def on_tick(self, counter: int) -> bool:
        self._connections.look()
        return self._stop.asked or await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stop.ask()
        for listener in self.servers:
            listener.close()
        await self._drain(self._drain_seconds)
        self._calls.cancel()
        await self._drain(CANCEL_SECONDS)
        await anyio.sleep(0.05)  # an answer on its way to an SSE stream
        AppStatus.should_exit = True
        await super().shutdown(sockets)
        AppStatus.should_exit = False  # one flag for the process, which may serve again
        self._captured_signals.clear()

    async def _drain(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            while (self._calls.count or self._posts.count) and not self.force_exit:
                close_listen_streams(self._mcp)  # again each time: a connected client may open another
                await anyio.sleep(0.02)


def serve_http(
    mcp: MCPServer[Any],
    host: str,
    port: int,
    allowed: Allowed,
    gate: Gate,
    *,
    on_listening: Callable[[str, int], None] | None = None,
    stop: StopRequest | None = None,
    drain_seconds: float = DRAIN_SECONDS,
    max_body_bytes: int = MAX_BODY_BYTES,
    session_idle_timeout: float = SESSION_IDLE_SECONDS,
    max_sessions: int = MAX_SESSIONS,
    limits: ConnectionLimits = DEFAULT_LIMITS,
) -> int:
    """Serve until SIGTERM, SIGINT or `stop`; for the main thread. The process has to end afterwards, and is
    ended by force three seconds after draining.

    Args:
        port: 0 takes a free one.
        on_listening: told the address and port once requests are answered.
        stop: ends the server from inside, with an exit code.
        drain_seconds: how long calls in flight may go on after the end was asked for.

    Returns:
        The exit code: 1 if the address cannot be listened on (one line on standard error says why), 3 if the lifespan
        failed (logged), else that of `stop`, else 0.
    """
    stop = stop or StopRequest()
    try:
        listener = _listen(host, port)
    except OSError as error:
        sys.stderr.write(f"layerlore: cannot listen on {host} port {port}: {_reason(error)}\n")
        return 1
    app = build_app(
        mcp,
        allowed=allowed,
        gate=gate,
        max_body_bytes=max_body_bytes,
        session_idle_timeout=session_idle_timeout,
        max_sessions=max_sessions,
        body_seconds=limits.body_seconds,
    )
    connections = Connections(limits, files=raise_open_files())

    def tell() -> None:
        if on_listening is not None:
            on_listening(*listener.getsockname()[:2])

    server = DrainingServer(
        app, mcp, stop=stop, on_listening=tell, drain_seconds=drain_seconds, connections=connections
    )
    deadline = ExitDeadline(stop, drain_seconds + EXIT_SECONDS)
    with listener:
        try:
            server.run([listener])
        except SystemExit as ended:  # how uvicorn tells that the lifespan failed
            return ended.code if isinstance(ended.code, int) else 1
    deadline.served = True
    return stop.exit_code


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=2048)


def _reason(error: OSError) -> str:
    reason = (error.strerror or str(error)).partition(" (while")[0]  # the address, once more
    return reason + ("; --port chooses another port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "")
