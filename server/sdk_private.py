"""Every private or provisional name of the MCP SDK that the server depends on, behind functions of our own.

No other module touches them, so a new version of the SDK is examined in one place. They were read in mcp 2.3.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from mcp.server.connection import Connection
from mcp.server.context import ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.mcpserver import MCPServer
from mcp.server.models import InitializationOptions
from mcp.server.runner import serve_dual_era_loop
from mcp.server.session import ServerSession
from mcp.server.subscriptions import ListenHandler
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp.types import RequestParams, Result

_ParamsT = TypeVar("_ParamsT", bound=RequestParams)


def lowlevel(mcp: MCPServer[Any]) -> Server[Any]:
    """The protocol server below `mcp`, for what `MCPServer` does not offer."""
    return mcp._lowlevel_server


def connection_of(session: ServerSession) -> Connection:
    """The client connection that a call came in on (`connection_of(ctx.session)`).

    To a client of the handshake era it is one object for the whole session; it can be a weak key, and its
    `exit_stack` unwinds when the session ends. In the modern era each request has a connection of its own.
    """
    return session._connection


def serve_method(
    mcp: MCPServer[Any],
    method: str,
    params_type: type[_ParamsT],
    answer: Callable[[ServerRequestContext[Any, Any], _ParamsT], Awaitable[Result]],
) -> None:
    """Answer `method`, also one that `MCPServer` itself answers."""
    lowlevel(mcp).add_request_handler(method, params_type, answer)


def add_middleware(mcp: MCPServer[Any], middleware: ServerMiddleware[Any]) -> None:
    """Put `middleware` innermost around every message that comes in."""
    mcp.middleware.append(middleware)


def session_subjects(mcp: MCPServer[Any]) -> list[str]:
    """Of whose credentials the open sessions of the handshake era over Streamable HTTP are."""
    return [owner["subject"] or "" for owner in mcp.session_manager._session_owners.values()]


def announce_list_changes(mcp: MCPServer[Any]) -> None:
    """Announce `listChanged` to clients of the handshake era; the modern era announces it by itself.

    The HTTP sessions make their initialization options without arguments, so the method itself is replaced.
    """
    server = lowlevel(mcp)
    make = server.create_initialization_options
    announced = NotificationOptions(tools_changed=True, resources_changed=True, prompts_changed=True)

    def with_list_changes(notification_options: NotificationOptions | None = None, *args: Any) -> InitializationOptions:
        return make(notification_options or announced, *args)

    server.create_initialization_options = with_list_changes  # type: ignore[assignment, method-assign]


def lifespan_state(mcp: MCPServer[Any]) -> Any:
    """What the lifespan yielded that the HTTP sessions share.

    Raises:
        RuntimeError: the HTTP app has not been made.
    """
    return mcp.session_manager._lifespan_state


async def serve_connection_loop(
    mcp: MCPServer[Any], messages: ReadStream[SessionMessage | Exception], replies: WriteStream[SessionMessage]
) -> None:
    """Serve one connection of either era inside the running HTTP app's lifespan, until `messages` ends."""
    await serve_dual_era_loop(lowlevel(mcp), messages, replies, lifespan_state=lifespan_state(mcp))


async def serve_alone(
    mcp: MCPServer[Any], messages: ReadStream[SessionMessage | Exception], replies: WriteStream[SessionMessage]
) -> None:
    """Enter the lifespan, serve one connection of either era until `messages` ends, and leave the lifespan."""
    server = lowlevel(mcp)
    await server.run(messages, replies, server.create_initialization_options())


def close_listen_streams(mcp: MCPServer[Any]) -> None:
    """Let every open `subscriptions/listen` stream send its last message and end."""
    entry = lowlevel(mcp).get_request_handler("subscriptions/listen")
    if entry is not None and isinstance(entry.handler, ListenHandler):
        entry.handler.close()
