"""The process's standard descriptors, taken out of everybody else's reach.

Imports nothing heavy, so that it can be the first import of the program: whatever a later import prints, at import
time or through a child process, then lands on stderr and never between two JSON-RPC messages.
"""

import os
import sys

if sys.platform != "win32":
    import fcntl

LAUNCHED_BY = os.getppid()
"""Who started this process, as seen when it began; a different parent later means that one has died."""


_NAMES = ("standard input", "standard output", "standard error")
_closed: set[int] = set()


class StreamClosed(OSError):
    """The process was started without a stream that it is spoken to by; the text says which."""


def fill_closed() -> None:
    """Open the null device in place of each standard descriptor that was closed at launch: else the next file that is
    opened, such as the database, would have its number, and whatever is printed would go there."""
    for fd, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(fd)
        except OSError:
            _closed.add(fd)
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it takes the lowest free number: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - as long as the process


def claim_stdio() -> tuple[int, int]:
    """Take stdin and stdout for the protocol; call it first in `main`, once.

    Afterwards descriptor 0 reads from the null device and descriptor 1 writes to stderr (to the null device where
    stderr was closed), for this process and its children.

    Returns:
        Descriptors for what stdin and stdout were, above 2 and closed in children.

    Raises:
        StreamClosed: stdin or stdout was closed at launch.
    """
    fill_closed()
    for fd in (0, 1):
        if fd in _closed:
            raise StreamClosed(f"{_NAMES[fd]} is closed, and a host speaks through it; a host launches this program")
    read_fd, write_fd = _private_duplicate(0), _private_duplicate(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return read_fd, write_fd


def _private_duplicate(fd: int) -> int:
    if sys.platform == "win32":
        return os.dup(fd)
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
