"""Builds the MCP server that the settings describe, for any transport."""

import contextlib
from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import Any

import anyio
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import MCPServer

from layerlore.server.notifications import NotificationHub
from layerlore.server.offering import offer
from layerlore.server.process import Process
from layerlore.server.settings import Settings
from layerlore.server.stopping import StopRequest
from layerlore.server.tool_server import ToolServer
from layerlore.server.toolsets import chosen
from layerlore.server.watch_rules import RULES

# The lists change with the server's version and the caller's rights only.
_HOUR_MS = 3_600_000
CACHE_HINTS: dict[Any, CacheHint] = {
    "tools/list": CacheHint(ttl_ms=_HOUR_MS, scope="private"),
    "prompts/list": CacheHint(ttl_ms=_HOUR_MS, scope="private"),
}


def build_server(settings: Settings, *, stop: StopRequest | None = None, **options: Any) -> ToolServer:
    """A server of either era, one lifespan for all its connections. ``stop`` is asked for when it cannot start."""
    hub = NotificationHub(RULES)

    @contextlib.asynccontextmanager
    async def lifespan(_: MCPServer[Process]) -> AsyncIterator[Process]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hub.run)
            try:
                async with Process(settings, hub, stop).running() as process:
                    yield process
            finally:
                tasks.cancel_scope.cancel()

    server = ToolServer(
        "layerlore",
        chosen(settings),
        title="Memory",
        version=version("layerlore"),
        description="Long-term memory for agents",
        lifespan=lifespan,
        subscriptions=hub.bus,
        cache_hints=CACHE_HINTS,
        log_level="WARNING",
        **options,
    )
    hub.install(server)
    offer(server)
    return server
