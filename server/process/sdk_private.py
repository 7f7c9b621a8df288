"""The private and provisional names of the MCP SDK that the server uses, behind functions of our own.

No other module uses them, so that a new version of the SDK is checked in one place. They are those of mcp 2.3.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar

from mcp.server._otel import OpenTelemetryMiddleware
from mcp.server._streamable_http_modern import _SSE_HEADERS, _SSE_PING_INTERVAL, handle_modern_request
from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.mcpserver import MCPServer
from mcp.server.models import InitializationOptions
from mcp.server.runner import serve_dual_era_loop
from mcp.server.session import ServerSession
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.subscriptions import ListenHandler
from mcp.shared._otel import extract_trace_context
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp.types import CallToolResult, RequestParams, Result
from starlette.types import Receive, Scope, Send

from layerlore.storage.core import traces

Messages = ReadStream[SessionMessage | Exception]
"""The messages of one client, as they come."""
Replies = WriteStream[SessionMessage]
"""What goes to one client."""

PING_SECONDS, STREAM_HEADERS = _SSE_PING_INTERVAL, _SSE_HEADERS
"""When and how an answer of the modern era over HTTP becomes a stream with pings."""

_ParamsT = TypeVar("_ParamsT", bound=RequestParams)


def lowlevel_server(mcp: MCPServer[Any]) -> Server[Any]:
    """The protocol server below `mcp`, for features that `MCPServer` does not offer."""
    return mcp._lowlevel_server


def connection_of(session: ServerSession) -> Connection:
    """The client connection that a call came in on (`connection_of(ctx.session)`).

    For a client of the handshake era it is one object for the whole session; it can be a weak key, and its `exit_stack`
    unwinds when the session ends. In the modern era each request has its own connection.
    """
    return session._connection


def serve_method(
    mcp: MCPServer[Any],
    method: str,
    params_type: type[_ParamsT],
    answer: Callable[[ServerRequestContext[Any, Any], _ParamsT], Awaitable[Result]],
) -> None:
    """Answer `method`, even one that `MCPServer` itself answers."""
    lowlevel_server(mcp).add_request_handler(method, params_type, answer)


def add_middleware(mcp: MCPServer[Any], middleware: ServerMiddleware[Any]) -> None:
    """Add `middleware` as the innermost one around every incoming message."""
    mcp.middleware.append(middleware)


class QuietTraces(OpenTelemetryMiddleware):
    """Traces of requests in place of the SDK's, which begin and end even if none is recorded, and hold the texts of
    errors and whatever a caller calls a tool."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if not traces.is_recording():
            return await call_next(ctx)
        attributes: traces.Attributes = {"mcp.method.name": ctx.method, "mcp.protocol.version": ctx.protocol_version}
        name = ctx.method
        tool = (ctx.params or {}).get("name")
        if ctx.method == "tools/call":
            attributes["gen_ai.operation.name"] = "execute_tool"
            # A name that no tool has is a text of the caller's.
            if tool in self._names:
                attributes["gen_ai.tool.name"] = tool
                name = f"{ctx.method} {tool}"
        within = extract_trace_context(ctx.meta)
        with traces.span(name, attributes, traces.SERVER, begins_trace=True, within=within) as current:
            result = await call_next(ctx)
            if is_tool_error(result):
                traces.mark_failed(current, "tool_error")
            return result


def is_tool_error(result: HandlerResult) -> bool:
    """Whether a result of a middleware is the error of a tool."""
    match result:
        case CallToolResult(is_error=True) | {"isError": True}:
            return True
    return False


def trace_quietly(mcp: MCPServer[Any], names: Collection[str]) -> None:
    """Trace requests without what callers send, and only if the process records traces. ``names``: of the tools."""
    # In place, since the SDK holds this very list.
    mcp.middleware[:] = [
        QuietTraces(names) if type(each) is OpenTelemetryMiddleware else each for each in mcp.middleware
    ]


def count_sessions(mcp: MCPServer[Any]) -> int:
    """The number of open handshake-era sessions over Streamable HTTP. It may be asked for in any thread."""
    return len(mcp.session_manager._server_instances)


def session_subjects(mcp: MCPServer[Any]) -> list[str]:
    """The subjects of the credentials of open handshake-era sessions over Streamable HTTP."""
    return [owner["subject"] or "" for owner in mcp.session_manager._session_owners.values()]


def expect_no_argument_headers(mcp: MCPServer[Any]) -> None:
    """Let calls over HTTP pass without a look for arguments that headers repeat (`x-mcp-header`), for a server whose tools
    have none: the SDK walks the tool's whole schema twice for it, at each call."""
    lowlevel_server(mcp).get_tool_input_schema = lambda name: None


def mark_sessions(mcp: MCPServer[Any], mark: str) -> None:
    """Begin the ids of handshake-era sessions over Streamable HTTP with `mark`. The HTTP app must exist."""
    sessions = mcp.session_manager
    admit = sessions._admit_session

    def admit_marked(requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        transport = admit(requestor)
        if transport is None:
            plain = None
        else:
            plain = transport.mcp_session_id
        if transport is not None and plain is not None:
            transport.mcp_session_id = mark + plain
            # The SDK has registered the session under its plain id already.
            sessions._server_instances[mark + plain] = sessions._server_instances.pop(plain)
            if plain in sessions._session_owners:
                sessions._session_owners[mark + plain] = sessions._session_owners.pop(plain)
        return transport

    sessions._admit_session = admit_marked  # type: ignore[method-assign]


def announce_list_changes(mcp: MCPServer[Any]) -> None:
    """Announce `listChanged` to clients of the handshake era; the modern era announces it by itself.

    The HTTP sessions make their initialization options without arguments, so the method itself is replaced.
    """
    server = lowlevel_server(mcp)
    make = server.create_initialization_options
    announced = NotificationOptions(tools_changed=True, resources_changed=True, prompts_changed=True)

    def with_list_changes(notification_options: NotificationOptions | None = None, *args: Any) -> InitializationOptions:
        return make(notification_options or announced, *args)

    server.create_initialization_options = with_list_changes  # type: ignore[assignment, method-assign]


def lifespan_state(mcp: MCPServer[Any]) -> Any:
    """The value of the lifespan that the HTTP sessions share.

    Raises:
        RuntimeError: the HTTP app does not exist yet.
    """
    return mcp.session_manager._lifespan_state


async def serve_connection_loop(mcp: MCPServer[Any], messages: Messages, replies: Replies) -> None:
    """Serve one connection of either era inside the running HTTP app's lifespan, until `messages` ends."""
    await serve_within(mcp, lifespan_state(mcp), messages, replies)


async def serve_within(mcp: MCPServer[Any], state: Any, messages: Messages, replies: Replies) -> None:
    """Serve one connection of either era whose requests get `state` as the value of the lifespan, until `messages`
    ends."""
    await serve_dual_era_loop(lowlevel_server(mcp), messages, replies, lifespan_state=state)


async def serve_alone(mcp: MCPServer[Any], messages: Messages, replies: Replies) -> None:
    """Enter the lifespan, serve one connection of either era until `messages` ends, and leave the lifespan."""
    server = lowlevel_server(mcp)
    await server.run(messages, replies, server.create_initialization_options())


async def serve_modern_request(mcp: MCPServer[Any], scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a POST of the modern era as JSON, whatever the app's own setting, inside the running HTTP app's lifespan. A
    request for a listen stream gets one."""
    sessions = mcp.session_manager
    await handle_modern_request(
        sessions.app, sessions.security_settings, True, sessions._lifespan_state, scope, receive, send
    )


def close_listen_streams(mcp: MCPServer[Any]) -> None:
    """End every open `subscriptions/listen` stream after its last message."""
    entry = lowlevel_server(mcp).get_request_handler("subscriptions/listen")
    if entry is not None and isinstance(entry.handler, ListenHandler):
        entry.handler.close()
