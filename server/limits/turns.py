"""The turns of a server: how many calls run at the same time, of all callers together.

A server that lets every call wait answers all of them late once more come than it can do. So a burst may wait, but a queue
that has been standing is kept short: what cannot run soon is refused, with the time to wait, and costs little.
"""

import time
from collections.abc import Callable
from typing import Any

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from layerlore.server.limits.room import CALL_METHODS, TooMuch, answer_refusal
from layerlore.server.settings.http import RateSettings
from layerlore.storage.core import metrics

STANDING_SECONDS = 0.5
"""How long a call waits in a queue that has been standing."""
AGAIN_SECONDS = 1.0
"""When a refused call may be tried again."""


class Turns:
    """Middleware of the MCP server: it belongs behind the limits of each caller, whose waits must hold no turn.

    The queue is standing if somebody was waiting in it all the time for ``rates.wait_ms``. ``clock`` returns seconds.
    """

    def __init__(self, rates: RateSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = rates.calls_at_once
        self._patience = rates.wait_ms / 1000
        self._clock = clock
        self._turns = anyio.Semaphore(max(1, self._most))
        self._waiting = 0
        self._last_empty = clock()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if not self._most or ctx.request_id is None or ctx.method not in CALL_METHODS:
            return await call_next(ctx)
        try:
            await self._take()
        except TooMuch as refused:
            metrics.REFUSED.add(refused.what)
            return answer_refusal(ctx, refused)
        try:
            return await call_next(ctx)
        finally:
            self._turns.release()

    async def _take(self) -> None:
        """Wait for a turn. Raises TooMuch if none came free in time."""
        try:
            self._turns.acquire_nowait()
            return
        except anyio.WouldBlock:
            pass
        if not self._waiting:
            self._last_empty = self._clock()
        is_standing = self._clock() - self._last_empty >= self._patience
        self._waiting += 1
        try:
            with anyio.move_on_after(min(STANDING_SECONDS, self._patience) if is_standing else self._patience):
                await self._turns.acquire()
                return
        finally:
            self._waiting -= 1
        raise TooMuch("calls of all callers at once", f"{self._most:,} run at the same time", AGAIN_SECONDS)
