"""How many files, and with them connections, this process may have open."""

import contextlib
import sys

if sys.platform != "win32":
    import resource

_TRIED = (1_048_576, 65_536, 10_240)
"""Where the hard limit is none, the kernel has one of its own."""


def raise_open_files() -> int | None:
    """Raise the limit to the highest that is allowed. Returns it; None: there is none, or nobody says."""
    if sys.platform == "win32":
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft in (hard, resource.RLIM_INFINITY):
        return None if soft == resource.RLIM_INFINITY else soft
    for most in (hard, *(each for each in _TRIED if each > soft)):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            break
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
