"""The process's standard descriptors, reserved for the protocol.

This module imports nothing heavy, so that it can be the program's first import: whatever a later import or a child
process prints then goes to stderr and never between two JSON-RPC messages.
"""

import asyncio
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable

if sys.platform != "win32":
    import fcntl

LAUNCHED_BY = os.getppid()
"""The process that started this one. A different parent later means that it has died."""

ANSWER_SECONDS = 10.0
"""How long requests that came before the end of the input may take, unless a signal comes: as long as a write may wait
for the database. Somebody may have piped them in and wait for the answers."""

_NAMES = ("standard input", "standard output", "standard error")
_closed: set[int] = set()


class StreamClosed(OSError):
    """The process was started without a stream that the protocol needs; the text says which."""


def fill_closed() -> None:
    """Open the null device in place of each standard descriptor that was closed at launch. Otherwise the next file that
    is opened, such as the database, would get its number, and printed text would go there."""
    for fd, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(fd)
        except OSError:
            _closed.add(fd)
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest free number: this one
        # Python sets a stream to None whose descriptor was closed.
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - open as long as the process


def claim_stdio() -> tuple[int, int]:
    """Reserve stdin and stdout for the protocol; call it once, first in `main`.

    Afterwards descriptor 0 reads from the null device and descriptor 1 writes to stderr (to the null device if stderr
    was closed), for this process and its children.

    Returns:
        Descriptors of the former stdin and stdout, above 2 and closed in children.

    Raises:
        StreamClosed: stdin or stdout was closed at launch.
    """
    fill_closed()
    for fd in (0, 1):
        if fd in _closed:
            raise StreamClosed(
                f"{_NAMES[fd]} is closed, but hosts speak through it; this program is launched by a host"
            )
    read_fd, write_fd = _private_duplicate(0), _private_duplicate(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    # Descriptor 1 leads to standard error, so that prints of libraries and children cannot break the protocol.
    os.dup2(2, 1)
    os.close(null)
    return read_fd, write_fd


def _private_duplicate(fd: int) -> int:
    if sys.platform == "win32":
        return os.dup(fd)
    # Above 2, since a lower number could be one of a closed standard stream.
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


class StopRequest:
    """A request that the server stops, made once from any task, thread or signal handler.

    The first request decides the exit code.
    """

    def __init__(self) -> None:
        self.exit_code = 0
        self.request = False
        self._requested = threading.Event()
        self._wake: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def ask(self, exit_code: int = 0) -> None:
        """Request the stop. Later requests change nothing."""
        # A signal may interrupt this very call, so nothing below the flag may run twice: locks do not nest.
        if self.request:
            return
        self.request = True
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
        if not self.request:
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
        # A wait of an own event: nothing else is certain to work once the loop hangs.
        threading.Event().wait(self._seconds)
        # No clean-up may run here, as it could hang as well.
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
