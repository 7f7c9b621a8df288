"""How a running server is asked to end, and what makes sure that it does."""

import asyncio
import contextlib
import os
import threading


class StopRequest:
    """The wish that the server ends: made once, from any task, thread or signal handler.

    The first one decides the exit code.
    """

    def __init__(self) -> None:
        self.exit_code = 0
        self.asked = False
        self._heard = threading.Event()
        self._wake: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def ask(self, exit_code: int = 0) -> None:
        # A signal may interrupt this very call, so nothing below the flag may run twice: locks do not nest.
        if self.asked:
            return
        self.asked = True
        self.exit_code = exit_code
        self._heard.set()
        if self._wake is not None:
            loop, event = self._wake
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(event.set)

    async def wait(self) -> None:
        """Return once the stop was asked for. For one task at a time."""
        event = asyncio.Event()
        self._wake = (asyncio.get_running_loop(), event)
        if not self.asked:
            await event.wait()

    def wait_in_thread(self) -> None:
        """The same for a thread, which is blocked meanwhile."""
        self._heard.wait()


class ExitDeadline:
    """Ends the process `seconds` after the stop was asked for, whatever still runs: a thread that cannot be cancelled,
    a blocked event loop. The exit code is the stop's if all but such threads had ended (`served`), else 1.
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
