"""Sends news of changes to the clients that subscribed to it, in both protocol eras.

A client of the modern era opens a `subscriptions/listen` stream, which the SDK feeds from the bus. A client of the
handshake era subscribes to resources and keeps a channel open; the SDK does not remember whom to notify, so this module
does. The bus feeds each stream in the scope of its client.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.types import EmptyResult, SubscribeRequestParams, SubscriptionsListenRequestParams, UnsubscribeRequestParams
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from layerlore.memory.rules.validation import Limits, check_id
from layerlore.server.access.caller import RequestContext, caller_of, permit, settings_of
from layerlore.server.access.credentials import READ
from layerlore.server.access.protocol_errors import convert_errors
from layerlore.server.process.sdk_private import add_middleware, announce_list_changes, connection_of, serve_method
from layerlore.server.resources.requests import address_of
from layerlore.storage.core.errors import InvalidInput, LayerloreError, LimitExceeded
from layerlore.storage.core.records import Scope

LIST = ""
"""Stands for the list of resources, which clients watch like a URI."""


class Interest:
    """Counts the watchers of each URI in each scope. ``changed`` is called when a URI gets its first watcher, and when it
    loses the last one."""

    def __init__(self) -> None:
        self.changed: Callable[[Scope, str], None] = lambda scope, uri: None
        self._watched: dict[Scope, Counter[str]] = {}
        self._turned = asyncio.Event()

    @property
    def scopes(self) -> Collection[Scope]:
        return self._watched.keys()

    def uris(self, scope: Scope) -> Collection[str]:
        """The watched URIs of a scope, as the watchers wrote them, and LIST if it is watched."""
        return self._watched.get(scope, {}).keys()

    def add(self, scope: Scope, uri: str) -> None:
        counts = self._watched.setdefault(scope, Counter())
        counts[uri] += 1
        # Only the first and the last watcher matter, since the database is watched once for all of them.
        if counts[uri] == 1:
            self._notify(scope, uri)

    def drop(self, scope: Scope, uri: str) -> None:
        """Count one watcher less. It must have been added."""
        counts = self._watched[scope]
        counts[uri] -= 1
        if counts[uri] == 0:
            del counts[uri]
            if not counts:
                del self._watched[scope]
            self._notify(scope, uri)

    @contextmanager
    def hold(self, scope: Scope, uris: Collection[str]) -> Iterator[None]:
        """Watch the URIs while the context is entered."""
        for uri in uris:
            self.add(scope, uri)
        try:
            yield
        finally:
            for uri in uris:
                self.drop(scope, uri)

    async def until(self, *, watched: bool) -> None:
        """Wait until a client watches something, or until none watches anything."""
        # Checked again after each wait, since there may have been another change meanwhile.
        while bool(self._watched) != watched:
            await self._turned.wait()

    def _notify(self, scope: Scope, uri: str) -> None:
        self._turned.set()
        self._turned = asyncio.Event()
        self.changed(scope, uri)


SEND_SECONDS = 1.0
"""Sending one piece of news to a client of the handshake era may take this long."""

MAX_WATCHED_URIS = 1000

Ctx = ServerRequestContext[Any, Any]
_SAME_FOR_ALL = Scope("", "", "")


logger = logging.getLogger(__name__)

EVERYBODY: Scope | None = None
"""Stands for all scopes, for news such as a change of the list of tools."""

Listener = Callable[[ServerEvent], None]

_scope_of_request: ContextVar[Scope | None] = ContextVar("scope_of_request", default=None)


async def _permit_all(ctx: Ctx) -> None:
    """Every caller may watch."""


async def _begin_nothing(ctx: Ctx, scope: Scope) -> None:
    """Watch nothing."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for subscriptions. By default all requests share one scope, and every URI can be watched.

    ``scope_of``: returns the scope of a request. ``permit`` raises LayerloreError for a caller that may not watch, and
    ``check`` for a URI that cannot be watched. ``begin`` is awaited when the hub's interest has the URIs, before the
    request is answered; it raises LayerloreError if they cannot be watched now.
    """

    scope_of: Callable[[Ctx], Scope] = lambda ctx: _SAME_FOR_ALL
    check: Callable[[Ctx, str], object] = lambda ctx, uri: None
    begin: Callable[[Ctx, Scope], Awaitable[None]] = _begin_nothing
    permit: Callable[[Ctx], Awaitable[None]] = _permit_all


@dataclass(eq=False, slots=True)
class _Watch:
    """The resources that a handshake-era client watches, and its waiting news."""

    uris: set[tuple[Scope, str]] = field(default_factory=set)
    list_of: Scope | None = None
    waiting: dict[ServerEvent, None] = field(default_factory=dict)
    stalled: bool = False
    left: bool = False


class NotificationHub:
    """Notifies clients of changes: `MCPServer(subscriptions=hub.bus)`, `hub.install(mcp)`, and `hub.run` as a task of the
    lifespan; then `await hub.publish(scope, event)` from any task on the event loop.

    News tells a client to read again, so the same news waits for a client only once. URIs are compared as strings. A
    handshake-era client gets news of the list of resources after its first request for the list. On stateless HTTP it has
    no channel and gets no news.
    """

    def __init__(self, rules: Rules | None = None) -> None:
        self.bus = ScopedBus()
        self.interest = Interest()
        self._rules = rules or Rules()
        self._watches: dict[Connection, _Watch] = {}
        self._awake = asyncio.Event()
        self.bus.observe(self._take)

    def install(self, mcp: MCPServer[Any]) -> None:
        """Make `mcp` announce and accept subscriptions."""
        serve_method(mcp, "resources/subscribe", SubscribeRequestParams, convert_errors(self._subscribe))
        serve_method(mcp, "resources/unsubscribe", UnsubscribeRequestParams, convert_errors(self._unsubscribe))
        add_middleware(mcp, self._observe)
        announce_list_changes(mcp)

    async def publish(self, scope: Scope, event: ServerEvent) -> None:
        """Notify the watchers of the event in a scope."""
        await self.bus.publish_to(scope, event)

    async def run(self) -> None:
        """Deliver news to handshake-era clients, until cancelled."""
        while True:
            await self._awake.wait()
            # Cleared before the watches are read, so that an event during the sends wakes the loop again.
            self._awake.clear()
            async with anyio.create_task_group() as sends:
                for connection, watch in self._watches.items():
                    if watch.waiting and not watch.stalled:
                        sends.start_soon(_send_waiting, connection, watch)

    @property
    def connections(self) -> int:
        """The number of connected handshake-era clients."""
        return len(self._watches)

    def _take(self, scope: Scope | None, event: ServerEvent) -> None:
        for connection, watch in self._watches.items():
            # A client that has not finished its handshake must get no notifications.
            if connection.initialized.is_set() and _concerns(scope, event, watch):
                watch.waiting[event] = None
                self._awake.set()

    async def _observe(self, ctx: Ctx, call_next: CallNext) -> HandlerResult:
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            if ctx.method == "subscriptions/listen":
                return await self._listen(ctx, call_next)
        elif connection_of(ctx.session).has_standalone_channel:
            # Stateless HTTP has no channel for news.
            watch = self._watch_of(ctx)
            if watch.stalled:  # a client that sends requests also reads again
                watch.stalled = False
                self._awake.set()
            if ctx.method == "resources/list":
                await self._watch_list(ctx, watch)
        return await call_next(ctx)

    async def _listen(self, ctx: Ctx, call_next: CallNext) -> HandlerResult:
        try:
            request = SubscriptionsListenRequestParams.model_validate(ctx.params or {}, by_name=False)
        except ValidationError:
            return await call_next(ctx)  # the SDK's own check answers with the error
        with contextlib.ExitStack() as while_open:

            async def begin(ctx: Ctx, params: SubscriptionsListenRequestParams) -> EmptyResult:
                await self._rules.permit(ctx)
                scope, uris = self._rules.scope_of(ctx), self._uris(ctx, params)
                # The stack ends everything together with the stream.
                while_open.enter_context(listening_in(scope))
                while_open.enter_context(self.interest.hold(scope, uris))
                if uris:
                    # The mark is set before the request is acknowledged, so that every later change is news.
                    await self._rules.begin(ctx, scope)
                return EmptyResult()

            await convert_errors(begin)(ctx, request)
            return await call_next(ctx)

    def _uris(self, ctx: Ctx, request: SubscriptionsListenRequestParams) -> set[str]:
        uris = set(request.notifications.resource_subscriptions or ())
        if len(uris) > MAX_WATCHED_URIS:
            raise LimitExceeded(f"{len(uris)} resources; a stream may listen to {MAX_WATCHED_URIS}")
        for uri in uris:
            self._rules.check(ctx, uri)
        return uris | ({LIST} if request.notifications.resources_list_changed else set())

    def _watch_of(self, ctx: Ctx) -> _Watch:
        connection = connection_of(ctx.session)
        if connection not in self._watches:
            self._watches[connection] = _Watch()
            # The SDK calls this when the session ends, for whatever reason.
            connection.exit_stack.callback(self._forget, connection)
        return self._watches[connection]

    def _forget(self, connection: Connection) -> None:
        watch = self._watches.pop(connection)
        watch.left = True
        for scope, uri in watch.uris:
            self.interest.drop(scope, uri)
        if watch.list_of is not None:
            self.interest.drop(watch.list_of, LIST)

    async def _subscribe(self, ctx: Ctx, params: SubscribeRequestParams) -> EmptyResult:
        await self._rules.permit(ctx)
        uri, scope, watch = params.uri, self._rules.scope_of(ctx), self._watch_of(ctx)
        self._rules.check(ctx, uri)
        # Watched meanwhile, because begin only marks watched URIs.
        with self.interest.hold(scope, [uri]):
            await self._rules.begin(ctx, scope)
            # The client may have left while the mark was being set.
            if (scope, uri) not in watch.uris and not watch.left:
                if len(watch.uris) >= MAX_WATCHED_URIS:
                    raise LimitExceeded(f"a client may subscribe to {MAX_WATCHED_URIS} resources; unsubscribe first")
                watch.uris.add((scope, uri))
                self.interest.add(scope, uri)
        return EmptyResult()

    async def _unsubscribe(self, ctx: Ctx, params: UnsubscribeRequestParams) -> EmptyResult:
        scope, watch = self._rules.scope_of(ctx), self._watch_of(ctx)
        if (scope, params.uri) in watch.uris:
            watch.uris.discard((scope, params.uri))
            # Waiting news must not reach a client that has unsubscribed.
            watch.waiting.pop(ResourceUpdated(uri=params.uri), None)
            self.interest.drop(scope, params.uri)
        return EmptyResult()

    async def _watch_list(self, ctx: Ctx, watch: _Watch) -> None:
        """Begin to watch the list before it is read. If that fails, reading fails, too, and the answer says so."""
        with contextlib.suppress(LayerloreError):
            await self._rules.permit(ctx)
            scope = self._rules.scope_of(ctx)
            if watch.list_of == scope:
                return
            with self.interest.hold(scope, [LIST]):
                await self._rules.begin(ctx, scope)
                if watch.list_of != scope and not watch.left:
                    self.interest.add(scope, LIST)
                    if watch.list_of is not None:
                        self.interest.drop(watch.list_of, LIST)
                    watch.list_of = scope


def _concerns(scope: Scope | None, event: ServerEvent, watch: _Watch) -> bool:
    match event:
        case ResourceUpdated(uri=uri):
            if scope:
                return (scope, uri) in watch.uris
            # News for all scopes concerns every watcher of the URI.
            return any(uri == watched for _, watched in watch.uris)
        case ResourcesListChanged():
            return scope is None or scope == watch.list_of
    return True


async def _send_waiting(connection: Connection, watch: _Watch) -> None:
    # A copy, since new events may come while one is being sent.
    for event in list(watch.waiting):
        if event not in watch.waiting:
            continue  # unsubscribed meanwhile
        del watch.waiting[event]  # what happens from now on is news again
        with anyio.move_on_after(SEND_SECONDS) as sending:
            await _send(connection, event)
        if sending.cancelled_caught:
            # Each further event would wait as long, so the client gets no more until its next request.
            watch.stalled = True
            watch.waiting[event] = None
            return


async def _send(connection: Connection, event: ServerEvent) -> None:
    match event:
        case ResourceUpdated(uri=uri):
            await connection.send_resource_updated(uri)
        case ToolsListChanged():
            await connection.send_tool_list_changed()
        case PromptsListChanged():
            await connection.send_prompt_list_changed()
        case ResourcesListChanged():
            await connection.send_resource_list_changed()


@contextmanager
def listening_in(scope: Scope) -> Iterator[None]:
    """Subscriptions to a bus while the context is entered belong to the scope."""
    token = _scope_of_request.set(scope)
    # The SDK subscribes inside the request, without a place for the scope.
    try:
        yield
    finally:
        _scope_of_request.reset(token)


class ScopedBus:
    """The SDK's ``SubscriptionBus`` with scopes. A URI such as ``memory://profile`` is the same in every scope, so its news
    goes to one scope only. A listener without a scope only gets news for all scopes."""

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[Scope | None, Listener]] = {}
        self._observers: list[Callable[[Scope | None, ServerEvent], None]] = []

    async def publish(self, event: ServerEvent) -> None:
        """Notify all listeners, whatever their scope."""
        await self.publish_to(EVERYBODY, event)

    async def publish_to(self, scope: Scope | None, event: ServerEvent) -> None:
        """Notify the listeners of a scope."""
        for observer in self._observers:
            observer(scope, event)
        # A copy, because a listener may end its subscription while it is called.
        for listens_in, listener in list(self._listeners.values()):
            if scope is EVERYBODY or listens_in == scope:
                try:
                    listener(event)
                except Exception:
                    logger.exception("a listener failed")
        await anyio.lowlevel.checkpoint()  # so that listen streams can send between the events of a burst

    def observe(self, observer: Callable[[Scope | None, ServerEvent], None]) -> None:
        """Pass all news on to ``observer``, with its scope, from now on. The observer must not raise."""
        self._observers.append(observer)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Subscribe, as the SDK does. Returns a function that ends the subscription and may be called again."""
        token = object()
        self._listeners[token] = (_scope_of_request.get(), listener)

        def unsubscribe() -> None:
            self._listeners.pop(token, None)

        return unsubscribe


def scope_of(ctx: RequestContext) -> Scope:
    """The scope that the request means. Raises InvalidInput, or NotFound for an agent or resource outside its grant."""
    return caller_of(ctx).scope


def check(ctx: RequestContext, uri: str) -> None:
    """Check that a URI can be watched. A thread, run or entry need not exist, so that the answer does not reveal whether it does.

    Raises InvalidInput, LimitExceeded.
    """
    address, limits = address_of(uri), Limits()
    if settings_of(ctx).memory == "off" and address.kind != "status":
        raise InvalidInput("memory is switched off (memory = off); only memory://status can be watched")
    if address.thread_id:
        check_id(address.thread_id, "thread_id", limits.thread_id_chars)
    if address.run_id:
        check_id(address.run_id, "run_id", limits.id_chars)
    if address.entry_id:
        check_id(address.entry_id, "entry_id", limits.id_chars)


async def begin(ctx: RequestContext, scope: Scope) -> None:
    """Begin to watch a scope, once the database is open. Raises StorageUnavailable."""
    await ctx.lifespan_context.begin_watching(scope)


async def may_watch(ctx: RequestContext) -> None:
    """Check that the caller may watch. Raises NotPermitted."""
    await permit(ctx, READ, ctx.method)


RULES = Rules(scope_of, check, begin, may_watch)
