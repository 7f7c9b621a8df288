"""Time zones: in which one the days of a call are counted.

The user's *yesterday* is a day of the user's zone. A call sets the zone once, and everything that names a day or an age
reads it here. It is a context variable, so calls at the same time do not see each other's.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from layerlore.storage.core.errors import InvalidInput

LONGEST_NAME = 64
_LOCAL_TIME = Path("/etc/localtime")
_zone: ContextVar[tzinfo] = ContextVar("time_zone", default=UTC)


def current_zone() -> tzinfo:
    """The zone of the call; UTC outside a call."""
    return _zone.get()


@contextmanager
def use_zone(zone: tzinfo) -> Iterator[None]:
    """Count days in this zone until the block ends."""
    before = _zone.set(zone)
    try:
        yield
    finally:
        _zone.reset(before)


def set_zone(zone: tzinfo) -> None:
    """Count days in this zone from now on: for a command, whose process serves one person."""
    _zone.set(zone)


def read_zone(name: str, where: str = "time_zone") -> tzinfo:
    """The zone with an IANA name such as Europe/Berlin, or UTC. Raises InvalidInput for any other name."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        shown = name[:LONGEST_NAME]
        raise InvalidInput(
            f"{where}: {shown!r} is no time zone; give an IANA name such as Europe/Berlin, or UTC"
        ) from None


def local_zone() -> tzinfo:
    """The zone of this machine, with its summer time if the system names the zone, else its offset of today."""
    for name in (os.environ.get("TZ", "").lstrip(":"), _read_system_name()):
        try:
            if name:
                return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            continue
    return datetime.now().astimezone().tzinfo or UTC


def _read_system_name() -> str:
    """The name that the link of the system's zone ends with; "" without such a link, as on Windows."""
    try:
        # Each call over stdio asks, since a laptop travels: one system call, where a resolved path takes ten.
        target = str(_LOCAL_TIME.readlink())
    except OSError:
        return ""
    _, found, name = target.partition("/zoneinfo/")
    if found:
        return name
    return ""
