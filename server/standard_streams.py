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


def claim_stdio() -> tuple[int, int]:
    """Take stdin and stdout for the protocol; call it first in `main`, once.

    Afterwards descriptor 0 reads from the null device and descriptor 1 writes to stderr (to the null device where
    stderr is closed), for this process and its children.

    Returns:
        Descriptors for what stdin and stdout were, above 2 and closed in children.

    Raises:
        OSError: stdin or stdout is closed.
    """
    read_fd, write_fd = _private_duplicate(0), _private_duplicate(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(null, 1)
    if null > 2:
        os.close(null)
    return read_fd, write_fd


def _private_duplicate(fd: int) -> int:
    if sys.platform == "win32":
        return os.dup(fd)
    # A plain dup takes the lowest free number, which is 2 when the process was started without stderr.
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
