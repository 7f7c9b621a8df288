"""News of changes for the clients that asked for it, in both protocol eras.

A client of the modern era opens a `subscriptions/listen` stream, which the SDK feeds from the bus. One of the handshake
era subscribes to resources and keeps a channel open; the SDK leaves it to the server to remember whom to tell.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp import MCPError
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    SubscriptionBus,
    ToolsListChanged,
)
from mcp.types import (
    INVALID_PARAMS,
    EmptyResult,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from memstrata.server.sdk_private import add_middleware, announce_list_changes, connection_of, serve_method

logger = logging.getLogger(__name__)

SEND_SECONDS = 1.0
"""How long a client of the handshake era may keep one piece of news waiting."""

MAX_WAITING_EVENTS = 1000
MAX_WATCHED_URIS = 1000

MayWatch = Callable[[ServerRequestContext[Any, Any], str], bool]


@dataclass
class _Watch:
    uris: set[str] = field(default_factory=set)
    stalled: bool = False


class NotificationHub:
    """Tells clients what changed: `MCPServer(subscriptions=hub.bus)`, `hub.install(mcp)`, and `hub.run` as a task of
    the lifespan; then `await hub.bus.publish(event)` from any task on the event loop.

    News is a cue to read again, not a message: it may be dropped when there is too much of it or a client does not
    read. URIs are compared as strings. Handshake-era clients on stateless HTTP have no channel and get none.
    """

    def __init__(self, bus: SubscriptionBus | None = None, may_watch: MayWatch = lambda ctx, uri: True) -> None:
        """
        Args:
            bus: spans several processes, if given.
            may_watch: whether the caller of the request may be told about a URI; asked in both eras.
        """
        self.bus: SubscriptionBus = bus or InMemorySubscriptionBus()
        self._may_watch = may_watch
        self._watches: dict[Connection, _Watch] = {}
        self._events: asyncio.Queue[ServerEvent] = asyncio.Queue(MAX_WAITING_EVENTS)
        self.bus.subscribe(self._enqueue)

    def install(self, mcp: MCPServer[Any]) -> None:
        """Make `mcp` announce and accept subscriptions."""
        serve_method(mcp, "resources/subscribe", SubscribeRequestParams, self._subscribe)
        serve_method(mcp, "resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)
        add_middleware(mcp, self._observe)
        announce_list_changes(mcp)

    async def run(self) -> None:
        """Deliver to handshake-era clients, until cancelled."""
        while True:
            event = await self._events.get()
            async with anyio.create_task_group() as sends:
                for connection, watch in list(self._watches.items()):
                    if _concerns(event, watch) and connection.initialized.is_set() and not watch.stalled:
                        sends.start_soon(_send, connection, watch, event)

    @property
    def connections(self) -> int:
        """How many handshake-era clients are connected."""
        return len(self._watches)

    def _enqueue(self, event: ServerEvent) -> None:
        try:
            self._events.put_nowait(event)
        except asyncio.QueueFull:
            logger.warning("dropped news for clients: %d events are waiting", MAX_WAITING_EVENTS)

    async def _observe(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            if ctx.method == "subscriptions/listen":
                self._check_listen(ctx)
        elif connection_of(ctx.session).has_standalone_channel:
            self._watch_of(ctx).stalled = False  # who asks also reads
        return await call_next(ctx)

    def _watch_of(self, ctx: ServerRequestContext[Any, Any]) -> _Watch:
        connection = connection_of(ctx.session)
        if connection not in self._watches:
            self._watches[connection] = _Watch()
            connection.exit_stack.callback(self._watches.pop, connection, None)
        return self._watches[connection]

    def _check_listen(self, ctx: ServerRequestContext[Any, Any]) -> None:
        try:
            asked = SubscriptionsListenRequestParams.model_validate(ctx.params or {}, by_name=False)
        except ValidationError:
            return  # the server's own check answers it
        for uri in asked.notifications.resource_subscriptions or ():
            self._check(ctx, str(uri))

    def _check(self, ctx: ServerRequestContext[Any, Any], uri: str) -> None:
        if not self._may_watch(ctx, uri):
            raise MCPError(INVALID_PARAMS, f"There is no resource {uri} to subscribe to.")

    async def _subscribe(self, ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams) -> EmptyResult:
        uris = self._watch_of(ctx).uris
        self._check(ctx, str(params.uri))
        if len(uris) >= MAX_WATCHED_URIS:
            raise MCPError(
                INVALID_PARAMS, f"A client may subscribe to {MAX_WATCHED_URIS} resources; unsubscribe first."
            )
        uris.add(str(params.uri))
        return EmptyResult()

    async def _unsubscribe(self, ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams) -> EmptyResult:
        self._watch_of(ctx).uris.discard(str(params.uri))
        return EmptyResult()


def _concerns(event: ServerEvent, watch: _Watch) -> bool:
    return not isinstance(event, ResourceUpdated) or event.uri in watch.uris


async def _send(connection: Connection, watch: _Watch, event: ServerEvent) -> None:
    with anyio.move_on_after(SEND_SECONDS) as scope:
        match event:
            case ResourceUpdated(uri=uri):
                await connection.send_resource_updated(uri)
            case ToolsListChanged():
                await connection.send_tool_list_changed()
            case PromptsListChanged():
                await connection.send_prompt_list_changed()
            case ResourcesListChanged():
                await connection.send_resource_list_changed()
    # Every further event would wait as long: no more of them until the client is heard of again.
    watch.stalled = scope.cancelled_caught
