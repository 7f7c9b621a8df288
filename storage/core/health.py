"""Whether the database can be written now, and since when not: said in the log once, and once when it is over."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import Context

from layerlore.storage.core.errors import StorageBusy, StorageUnavailable

log = logging.getLogger(__name__)

LATE_SECONDS = 10.0
"""If a write waits for this long, and no other succeeds meanwhile, nothing can be written."""
FRESH_SECONDS = 1.0
"""The result of a look counts for this long."""
LOOK_SECONDS = 3.0
MOST_DAMAGE = 20
AGAIN_SECONDS = 1.0
"""The time after which another write is tried."""
LATE = f"nothing could be written for {LATE_SECONDS:g} s"

Try = Callable[[], Awaitable[None]]


class Health:
    """``writing`` reports every write to it, and ``ask`` asks it. All on one event loop.

    ``look`` finds out cheaply whether the database is there; ``write`` writes something that needs room. Both raise
    StorageUnavailable, whose text is what ``reason`` says, and which repeats nothing of the database's URL or path.
    """

    def __init__(self, look: Try, write: Try, where: str, *, is_shared: bool = False) -> None:
        """``where``: named in the log only. ``is_shared``: other servers write the same database."""
        self._look, self._write, self._where = look, write, where
        self.is_shared = is_shared
        self.reason = ""
        self.is_away = False
        """Whether the reason is the database's own, so that no other server could write it either."""
        self.damage: list[str] = []
        self._waiting: dict[object, float] = {}
        self._last_well = time.monotonic()
        self._alarm: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._trying: asyncio.Task[None] | None = None
        self._closed = False

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Around each write: learns whether it succeeded, and whether it takes too long."""
        token = object()
        self._waiting[token] = time.monotonic()
        if self._alarm is None:
            self._set_alarm(LATE_SECONDS)
        try:
            yield
            # Only a success and StorageUnavailable say anything: other exceptions are the caller's own.
            self._last_well = time.monotonic()
        except StorageBusy:
            # The database serves others.
            raise
        except StorageUnavailable as error:
            self.failed(str(error), is_away=self.is_shared)
            raise
        finally:
            del self._waiting[token]
            if not self._waiting and self._alarm is not None:
                self._alarm.cancel()
                self._alarm = None

    async def ask(self) -> str:
        """Why nothing can be written now; "": it can. Takes at most LOOK_SECONDS."""
        if not self.reason and time.monotonic() - self._last_well > FRESH_SECONDS and not self._closed:
            # Callers that come at the same time share one look.
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._seen(), context=Context())
            # Unlike await, wait() leaves the look running if one of its callers is cancelled.
            await asyncio.wait({self._looking})
        return self.reason

    def failed(self, reason: str, *, is_away: bool = False) -> None:
        """Nothing can be written, for this reason; it is tried again from now on until something can."""
        if self._closed:
            return
        if not self.reason:
            log.error("the memory cannot be written: %s (%s)", reason, self._where)
        self.reason = reason
        self.is_away = is_away
        if self._trying is None or self._trying.done():
            # Its log lines are not about the call that happens to find the fault.
            self._trying = asyncio.create_task(self._until_well(), context=Context())

    def damaged(self, what: str, way_out: str) -> None:
        """Something stored is damaged: said in the log once, and in ``damage`` from now on. Names no stored text."""
        # A failing disk can damage any number of rows: the list and the log must stay short.
        if what in self.damage or len(self.damage) >= MOST_DAMAGE:
            return
        if not self.damage:
            log.error("the memory is damaged: %s (%s); %s", what, self._where, way_out)
        else:
            log.error("the memory is damaged: %s", what)
        self.damage.append(what)

    async def close(self) -> None:
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        tasks = [task for task in (self._looking, self._trying) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _seen(self) -> None:
        if (reason := await _tried(self._look)) is None:
            self._last_well = time.monotonic()
        else:
            self.failed(reason, is_away=self.is_shared)

    async def _until_well(self) -> None:
        while self.reason:
            await asyncio.sleep(AGAIN_SECONDS)
            # The trial write needs room and time, so it comes only after the database has answered.
            reason = await _tried(self._look)
            self.is_away = self.is_shared and reason is not None
            if reason is None:
                reason = await _tried(self._write)
            if reason is None:
                self.reason = ""
                self._last_well = time.monotonic()
                log.warning("the memory can be written again (%s)", self._where)
            else:
                self.reason = reason

    def _set_alarm(self, seconds: float) -> None:
        self._alarm = asyncio.get_running_loop().call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if not self._waiting:
            return
        # One slow write is not a failure. It is one if nothing at all was written for LATE_SECONDS.
        since = max(min(self._waiting.values()), self._last_well)
        rest = LATE_SECONDS - (time.monotonic() - since)
        if rest <= 0 and not self.reason:
            self.failed(LATE)
        self._set_alarm(rest if rest > 0 else LATE_SECONDS)


async def _tried(attempt: Try) -> str | None:
    """Why it failed, or None."""
    try:
        await asyncio.wait_for(attempt(), LOOK_SECONDS)
    except StorageUnavailable as error:
        return str(error)
    except TimeoutError:
        return f"no answer within {LOOK_SECONDS:g} s"
    except Exception as error:
        # An unknown error's text may hold the database's URL, so callers see its class only.
        log.debug("looking whether the memory can be written failed", exc_info=True)
        return f"an unexpected {type(error).__name__}"
    return None
