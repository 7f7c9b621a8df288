"""A question that a person at the terminal answers with yes or no."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def ask_person(question: str) -> bool:
    """Whether the person agrees; anything but "y" and "yes" is a no. Ctrl-C ends the program.

    It blocks the event loop, on purpose: from another thread, Ctrl-C would wait for the answer."""
    with _ending_at_interrupt():
        # Standard error, since standard output may go into a file.
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")


@contextmanager
def _ending_at_interrupt() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt at once. asyncio makes a cancellation of it, which a blocked loop does not see."""
    if threading.current_thread() is not threading.main_thread():
        # Signals come to the main thread alone.
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
