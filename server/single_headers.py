"""Headers that may come once: of two, one reader takes the first and another the last.

A request whose two `MCP-Protocol-Version` differed was none that begins a session to what counts sessions, and one that
does to the SDK: one tenant could open all that the server has. So whatever is read as one value is refused twice.
"""

from collections import Counter

from mcp.types import INVALID_REQUEST
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from layerlore.server.caller import AGENT_HEADER, RESOURCE_HEADER, THREAD_HEADER
from layerlore.server.framing import error_line

OURS = tuple(name.lower().encode() for name in (AGENT_HEADER, RESOURCE_HEADER, THREAD_HEADER))
SINGLE = frozenset(
    {
        *(b"host", b"origin", b"authorization", b"x-api-key"),
        *(b"accept", b"content-type", b"content-encoding", b"content-length"),
        *(b"mcp-protocol-version", b"mcp-session-id", b"mcp-method", b"mcp-name", b"last-event-id"),
        *OURS,
    }
)
"""All that this server, the SDK and what is below them read a value of."""
_PREFIX = b"mcp-param-"


class SingleHeaders:
    """Around an ASGI app: answers 400 to a request that has one of those headers twice, whatever the route."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        names = [name for name, _ in scope["headers"]] if scope["type"] == "http" else []
        twice = [
            name for name, times in Counter(names).items() if times > 1 and (name in SINGLE or name.startswith(_PREFIX))
        ]
        if not twice:
            await self._app(scope, receive, send)
            return
        told = ", ".join(sorted(name.decode("latin-1") for name in twice))
        error = error_line(None, INVALID_REQUEST, f"Invalid request. Sent more than once, and allowed once: {told}")
        await Response(error, 400, media_type="application/json")(scope, receive, send)
