"""The process's standard descriptors, reserved for the protocol.

This module imports nothing heavy, so that it can be the program's first import: whatever a later import or a child
process prints then goes to stderr and never between two JSON-RPC messages.
"""

import os
import sys

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
