"""What hooks hand over: a file for each event, written before anybody is asked, and removed by the server that stored it.

Whatever is killed or does not answer, nothing is lost: the next server takes what is there.
"""

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator

SPOOL = "spool"
_ENDING = ".json"
_PART = ".part"
_UNFIT = ".unfit"
# A file that is still being written is not as old as this, in seconds.
_ABANDONED_SECONDS = 3600.0
# To the end of the text where nothing closes it: what was meant to be private stays so.
_PRIVATE = re.compile(r"<private\s*>.*?(?:</private\s*>|\Z)", re.IGNORECASE | re.DOTALL)


def strip_private(text: str) -> str:
    """The text without what stands between ``<private>`` and ``</private>``."""
    return _PRIVATE.sub("", text) if "<" in text else text


def hand_over(folder: str, event: dict[str, object]) -> str:
    """Write an event down for the server of this folder of hooks. Returns the file's name. Raises OSError."""
    spool, hooks = os.path.join(folder, SPOOL), os.path.dirname(folder)
    for each in (
        os.path.dirname(hooks),
        hooks,
        folder,
        spool,
    ):  # of folders that are made at once, only the last is closed
        os.makedirs(each, mode=0o700, exist_ok=True)
    name = f"{time.time_ns():020d}-{os.urandom(4).hex()}{_ENDING}"
    part = os.path.join(spool, name + _PART)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(event, file)
    os.replace(part, os.path.join(spool, name))
    return name


def list_waiting(folder: str) -> list[str]:
    """The names of what waits, oldest first."""
    try:
        names = os.listdir(os.path.join(folder, SPOOL))
    except OSError:
        return []
    return sorted(name for name in names if name.endswith(_ENDING))


def read_event(folder: str, name: str) -> dict[str, object]:
    """Raises OSError for an event that is there no more, ValueError for one that cannot be read."""
    with open(os.path.join(folder, SPOOL, name), encoding="utf-8") as file:
        found = json.load(file)
    if not isinstance(found, dict):
        raise ValueError("no event")
    return found


def drop(folder: str, name: str) -> None:
    """Remove an event that is stored."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, SPOOL, name))


def set_aside(folder: str, name: str, mask: Callable[[str], str]) -> None:
    """Keep an event that cannot be stored, where nobody takes it again, with its secrets masked. Raises OSError."""
    path = os.path.join(folder, SPOOL, name)
    with contextlib.suppress(FileNotFoundError):
        with open(path, encoding="utf-8", errors="replace") as file:
            masked = mask(file.read())
        part = path + _PART
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(masked)
        os.replace(part, path + _UNFIT)
        os.unlink(path)


def erase_set_aside(folder: str) -> None:
    """Remove the events that could not be stored. Raises OSError."""
    for name in list_set_aside(folder):
        drop(folder, name)


def list_set_aside(folder: str) -> list[str]:
    """The names of the events that could not be stored."""
    with contextlib.suppress(OSError):
        return sorted(name for name in os.listdir(os.path.join(folder, SPOOL)) if name.endswith(_UNFIT))
    return []


def drop_abandoned(folder: str) -> None:
    """Remove files whose writing was killed: their events never happened, as far as anybody was told."""
    for path in _find_parts(os.path.join(folder, SPOOL)):
        with contextlib.suppress(OSError):
            if time.time() - os.path.getmtime(path) > _ABANDONED_SECONDS:
                os.unlink(path)


def _find_parts(spool: str) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from (os.path.join(spool, name) for name in os.listdir(spool) if name.endswith(_PART))
