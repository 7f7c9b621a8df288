"""What the SDK's listen streams are fed from, with each of them in the scope of whoever opened it."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import anyio.lowlevel
from mcp.server.subscriptions import ServerEvent

from layerlore.storage.records import Scope

logger = logging.getLogger(__name__)

EVERYBODY: Scope | None = None
"""In place of a scope: news that is the same for all, such as that of the list of tools."""

Listener = Callable[[ServerEvent], None]

_scope_of_request: ContextVar[Scope | None] = ContextVar("scope_of_request", default=None)


@contextmanager
def listening_in(scope: Scope) -> Iterator[None]:
    """Whatever subscribes to a bus while the context is entered belongs to the scope."""
    token = _scope_of_request.set(scope)
    try:
        yield
    finally:
        _scope_of_request.reset(token)


class ScopedBus:
    """The SDK's ``SubscriptionBus``. A URI such as ``memory://profile`` is written alike by everybody, so news of it
    goes to one scope only. A listener that was subscribed in no scope hears only what is for everybody."""

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[Scope | None, Listener]] = {}
        self._overheard: list[Callable[[Scope | None, ServerEvent], None]] = []

    async def publish(self, event: ServerEvent) -> None:
        """Tell everybody, whatever their scope."""
        await self.publish_to(EVERYBODY, event)

    async def publish_to(self, scope: Scope | None, event: ServerEvent) -> None:
        """Tell the listeners of a scope."""
        for overheard in self._overheard:
            overheard(scope, event)
        for listens_in, listener in list(self._listeners.values()):
            if scope is EVERYBODY or listens_in == scope:
                try:
                    listener(event)
                except Exception:
                    logger.exception("a listener failed")
        await anyio.lowlevel.checkpoint()  # so that listen streams can send between the events of a burst

    def overhear(self, listener: Callable[[Scope | None, ServerEvent], None]) -> None:
        """Tell ``listener`` everything, with the scope that it is for, for good. It must not raise."""
        self._overheard.append(listener)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """As the SDK wants it: returns what ends the subscription, however often it is called."""
        token = object()
        self._listeners[token] = (_scope_of_request.get(), listener)

        def unsubscribe() -> None:
            self._listeners.pop(token, None)

        return unsubscribe
