"""News of changes for the clients that asked for it, in both protocol eras.

A client of the modern era opens a `subscriptions/listen` stream, which the SDK feeds from the bus. One of the handshake
era subscribes to resources and keeps a channel open; the SDK leaves it to the server to remember whom to notify. The bus
feeds each stream in the scope of the client that opened it.
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
"""Stands for the list of resources, which is watched as a URI is."""


class Interest:
    """Counts who watches what, in which scope. ``changed`` is called when the first begins to watch something in a
    scope, and when the last one has stopped."""

    def __init__(self) -> None:
        self.changed: Callable[[Scope, str], None] = lambda scope, uri: None
        self._watched: dict[Scope, Counter[str]] = {}
        self._turned = asyncio.Event()

    @property
    def scopes(self) -> Collection[Scope]:
        return self._watched.keys()

    def uris(self, scope: Scope) -> Collection[str]:
        """The URIs, each as its watchers wrote it, and perhaps LIST."""
        return self._watched.get(scope, {}).keys()

    def add(self, scope: Scope, uri: str) -> None:
        counts = self._watched.setdefault(scope, Counter())
        counts[uri] += 1
        # Only the first and the last watcher matter: the database is watched once for all of them.
        if counts[uri] == 1:
            self._notify(scope, uri)

    def drop(self, scope: Scope, uri: str) -> None:
        """One less. It must have been added."""
        counts = self._watched[scope]
        counts[uri] -= 1
        if counts[uri] == 0:
            del counts[uri]
            if not counts:
                del self._watched[scope]
            self._notify(scope, uri)

    @contextmanager
    def hold(self, scope: Scope, uris: Collection[str]) -> Iterator[None]:
        """Watched while the context is entered."""
        for uri in uris:
            self.add(scope, uri)
        try:
            yield
        finally:
            for uri in uris:
                self.drop(scope, uri)

    async def until(self, *, somebody: bool) -> None:
        """Wait until a client watches something, or none does anything."""
        # Checked again after each change, as another one may have come meanwhile.
        while bool(self._watched) != somebody:
            await self._turned.wait()

    def _notify(self, scope: Scope, uri: str) -> None:
        self._turned.set()
        self._turned = asyncio.Event()
        self.changed(scope, uri)


SEND_SECONDS = 1.0
"""How long a client of the handshake era may keep one piece of news waiting."""

MAX_WATCHED_URIS = 1000

Ctx = ServerRequestContext[Any, Any]
_SAME_FOR_ALL = Scope("", "", "")


logger = logging.getLogger(__name__)

EVERYBODY: Scope | None = None
"""In place of a scope: news that is the same for all, such as that of the list of tools."""

Listener = Callable[[ServerEvent], None]

_scope_of_request: ContextVar[Scope | None] = ContextVar("scope_of_request", default=None)


async def _permit_all(ctx: Ctx) -> None:
    """Every caller may watch."""


async def _begin_nothing(ctx: Ctx, scope: Scope) -> None:
    """Nothing looks for changes."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The scope of each request, and the resources to subscribe to; by default all requests share one scope and any
    URI is accepted.

    ``permit`` raises LayerloreError for a caller who may watch nothing, ``check`` for a URI that cannot be watched.
    ``begin`` is awaited once the hub's interest has what is requested, before the request is answered; it raises
    LayerloreError if it cannot be watched.
    """

    scope_of: Callable[[Ctx], Scope] = lambda ctx: _SAME_FOR_ALL
    check: Callable[[Ctx, str], object] = lambda ctx, uri: None
    begin: Callable[[Ctx, Scope], Awaitable[None]] = _begin_nothing
    permit: Callable[[Ctx], Awaitable[None]] = _permit_all


@dataclass(eq=False, slots=True)
class _Watch:
    """The resources that one handshake-era client watches, and the news that waits for it."""

    uris: set[tuple[Scope, str]] = field(default_factory=set)
    list_of: Scope | None = None
    waiting: dict[ServerEvent, None] = field(default_factory=dict)
    stalled: bool = False
    left: bool = False


class NotificationHub:
    """Notifies clients of what changed: `MCPServer(subscriptions=hub.bus)`, `hub.install(mcp)`, and `hub.run` as a task of
    the lifespan; then `await hub.publish(scope, event)` from any task on the event loop.

    News is a cue to read again, not a message: the same news waits for a client once. URIs are compared as strings.
    A handshake-era client gets news of the list of resources once it has asked for the list. One on stateless HTTP has
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
        """Notify those who watch it in a scope."""
        await self.bus.publish_to(scope, event)

    async def run(self) -> None:
        """Deliver to handshake-era clients, until cancelled."""
        while True:
            await self._awake.wait()
            # Cleared before the watches are read: an event during the sends wakes the loop again.
            self._awake.clear()
            async with anyio.create_task_group() as sends:
                for connection, watch in self._watches.items():
                    if watch.waiting and not watch.stalled:
                        sends.start_soon(_send_waiting, connection, watch)

    @property
    def connections(self) -> int:
        """How many handshake-era clients are connected."""
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
            # On stateless HTTP there is no channel for news.
            watch = self._watch_of(ctx)
            if watch.stalled:  # who asks also reads
                watch.stalled = False
                self._awake.set()
            if ctx.method == "resources/list":
                await self._watch_list(ctx, watch)
        return await call_next(ctx)

    async def _listen(self, ctx: Ctx, call_next: CallNext) -> HandlerResult:
        try:
            request = SubscriptionsListenRequestParams.model_validate(ctx.params or {}, by_name=False)
        except ValidationError:
            return await call_next(ctx)  # the server's own check answers it
        with contextlib.ExitStack() as while_open:

            async def begin(ctx: Ctx, params: SubscriptionsListenRequestParams) -> EmptyResult:
                await self._rules.permit(ctx)
                scope, uris = self._rules.scope_of(ctx), self._uris(ctx, params)
                # Entered in the stack, so that everything ends with the stream.
                while_open.enter_context(listening_in(scope))
                while_open.enter_context(self.interest.hold(scope, uris))
                if uris:
                    # The mark is set before the client's request is acknowledged: every later change is news.
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
            # The SDK unwinds this when the session ends, however it ends.
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
        # Watched meanwhile, because begin marks only what is being watched.
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
            # News that waits would reach a client that has just unsubscribed.
            watch.waiting.pop(ResourceUpdated(uri=params.uri), None)
            self.interest.drop(scope, params.uri)
        return EmptyResult()

    async def _watch_list(self, ctx: Ctx, watch: _Watch) -> None:
        """Before the list is read. If it cannot be watched, it cannot be read either, and the answer says so."""
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
            # News for everybody names no scope, so any watcher of the URI gets it.
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
            # Every further event would wait as long: no more of them until the client is heard of again.
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
    """Each subscription to a bus while the context is entered belongs to the scope."""
    token = _scope_of_request.set(scope)
    # The SDK subscribes inside the request, without a place for the scope.
    try:
        yield
    finally:
        _scope_of_request.reset(token)


class ScopedBus:
    """The SDK's ``SubscriptionBus``. A URI such as ``memory://profile`` is written alike by everybody, so news of it
    goes to one scope only. A listener that was subscribed in no scope hears only what is for everybody."""

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[Scope | None, Listener]] = {}
        self._observers: list[Callable[[Scope | None, ServerEvent], None]] = []

    async def publish(self, event: ServerEvent) -> None:
        """Notify everybody, whatever their scope."""
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
        """Pass everything on to ``observer``, with the scope that it is for, for good. It must not raise."""
        self._observers.append(observer)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """As the SDK wants it: returns what ends the subscription, however often it is called."""
        token = object()
        self._listeners[token] = (_scope_of_request.get(), listener)

        def unsubscribe() -> None:
            self._listeners.pop(token, None)

        return unsubscribe


def scope_of(ctx: RequestContext) -> Scope:
    """The scope that the request means. Raises InvalidInput, or NotFound for an agent or resource outside its grant."""
    return caller_of(ctx).scope


def check(ctx: RequestContext, uri: str) -> None:
    """A thread, run or entry may be watched before it is there, so that the answer does not show whether it is.

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
    """Return if the caller may watch. Raises NotPermitted."""
    await permit(ctx, READ, ctx.method)


RULES = Rules(scope_of, check, begin, may_watch)
