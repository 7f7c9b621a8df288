"""The request to stop a running server, and the deadline that ends it for sure."""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable


class StopRequest:
    """A request that the server stops, made once from any task, thread or signal handler.

    The first request decides the exit code.
    """

    def __init__(self) -> None:
        self.exit_code = 0
        self.is_requested = False
        self._requested = threading.Event()
        self._wake: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def ask(self, exit_code: int = 0) -> None:
        """Request the stop. Later requests change nothing."""
        # A signal may interrupt this very call, so nothing below the flag may run twice: locks do not nest.
        if self.is_requested:
            return
        self.is_requested = True
        self.exit_code = exit_code
        self._requested.set()
        if self._wake is not None:
            loop, event = self._wake
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(event.set)

    async def wait(self) -> None:
        """Wait until the stop is requested. For one task at a time."""
        event = asyncio.Event()
        self._wake = (asyncio.get_running_loop(), event)
        if not self.is_requested:
            await event.wait()

    def wait_in_thread(self) -> None:
        """Block the calling thread until the stop is requested."""
        self._requested.wait()


class ExitDeadline:
    """Ends the process `seconds` after the stop request, even if a thread cannot be cancelled or the event loop is
    blocked. The exit code is the request's if everything else had ended (`served`), else 1.
    """

    def __init__(self, stop: StopRequest, seconds: float) -> None:
        self.served = False
        self._stop = stop
        self._seconds = seconds
        threading.Thread(target=self._wait, name="exit-deadline", daemon=True).start()

    def _wait(self) -> None:
        self._stop.wait_in_thread()
        threading.Event().wait(self._seconds)
        os._exit(self._stop.exit_code if self.served else 1)


QUIET_SECONDS = 60.0
"""An episode is over after this long without an event."""


class Episodes:
    """Episodes by name, such as an address or a tenant. ``clock`` returns seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[str, float] = {}

    def begins(self, name: str = "") -> bool:
        """Note an event. Returns whether it begins an episode."""
        now = self._clock()
        begins = now - self._last.get(name, -QUIET_SECONDS) >= QUIET_SECONDS
        if begins:  # drop the names of episodes that are over
            self._last = {each: last for each, last in self._last.items() if now - last < QUIET_SECONDS}
        self._last[name] = now
        return begins
