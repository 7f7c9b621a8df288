"""A server whose callers are held to rates: in memory, where a test says who calls, or on a socket, by tokens."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import anyio
from mcp.server.context import CallNext, ServerRequestContext

from layerlore.server.access.credentials import Principal
from layerlore.server.http.connections import Connections
from layerlore.server.limits.throttle import Throttle, make_gate
from layerlore.server.process.sdk_private import add_middleware
from layerlore.server.runtime.tool_server import ToolServer, build_server
from layerlore.server.settings.http import RateSettings
from layerlore.server.settings.settings import Settings
from layerlore.server.tools.toolsets import list_writers

from .gated_server import ANA, PATIENCE, listening

UNLIMITED = dict.fromkeys(RateSettings.model_fields, 0)


def only(**rates: Any) -> RateSettings:
    """These limits and no others; nobody waits unless ``wait_ms`` says so."""
    return RateSettings(**{**UNLIMITED, **rates})


class Stopped:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Held:
    """Keeps calls of a tool from being answered until it is let go."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self.begun = 0
        self.let_go = anyio.Event()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> Any:
        if ctx.method == "tools/call" and (ctx.params or {}).get("name") == self._tool:
            self.begun += 1
            await self.let_go.wait()
        return await call_next(ctx)

    async def until_begun(self, count: int) -> None:
        with anyio.fail_after(PATIENCE):
            while self.begun < count:
                await anyio.sleep(0.005)


class Callers:
    """Who calls next, as the test says."""

    def __init__(self) -> None:
        self.principal = ANA

    def __call__(self, _: ServerRequestContext[Any, Any]) -> Principal:
        return self.principal

    def become(self, **changed: Any) -> None:
        self.principal = replace(ANA, **changed)


def limited_in_memory(
    settings: Settings, rates: RateSettings, callers: Callers, clock: Callable[[], float], *behind: Any
) -> ToolServer:
    """For a client in memory. ``behind`` is middleware that a call comes to after the limits."""
    server = build_server(settings)
    for middleware in (Throttle(rates, callers, list_writers(), clock=clock), *behind):
        add_middleware(server, middleware)
    return server


@contextlib.asynccontextmanager
async def limited_over_http(
    settings: Settings, credentials: Any, *behind: Any, connections: Connections | None = None, send_buffer: int = 0
) -> AsyncIterator[str]:
    """The URL of a server that holds to the settings' rates."""
    mcp = build_server(settings)
    gate = make_gate(mcp, settings.rates_to_hold, credentials)
    for middleware in behind:
        add_middleware(mcp, middleware)
    async with listening(mcp, settings, gate, connections, send_buffer=send_buffer) as url:
        yield url
