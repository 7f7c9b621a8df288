"""The events that hooks hand over: a file for each event, written before the server gets it, and removed by the
server that stored it.

Nothing is lost if a process is killed or does not answer: the next server takes what is there.
"""

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator

HookEvent = dict[str, object]
"""What a host says of an event, and what is handed over of it."""

SPOOL = "spool"
_SUFFIX = ".json"
_PART = ".part"
_UNFIT = ".unfit"
_TRIES = ".tries"
_MOST_BYTES = 64 * 1024 * 1024
# A file that is still being written is not as old as this, in seconds.
_ABANDONED_SECONDS = 3600.0
# To the end of the text where nothing closes it: what was meant to be private stays so.
_PRIVATE = re.compile(r"<private\s*>.*?(?:</private\s*>|\Z)", re.IGNORECASE | re.DOTALL)


def strip_private(text: str) -> str:
    """The text without what stands between ``<private>`` and ``</private>``."""
    if "<" in text:
        return _PRIVATE.sub("", text)
    return text


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
    # The time in fixed width makes the names sort by age.
    name = f"{time.time_ns():020d}-{os.urandom(4).hex()}{_SUFFIX}"
    part = os.path.join(spool, name + _PART)
    # Readable by the owner only, as it holds what the user has said.
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(event, file)
    # A server that lists the folder meanwhile sees no half event.
    os.replace(part, os.path.join(spool, name))
    return name


def list_waiting(folder: str) -> list[str]:
    """The names of what waits, oldest first."""
    try:
        names = os.listdir(os.path.join(folder, SPOOL))
    except OSError:
        return []
    return sorted(name for name in names if name.endswith(_SUFFIX))


def read_event(folder: str, name: str) -> HookEvent:
    """Raises OSError for an event that is there no more, ValueError for one that cannot be read."""
    try:
        found = json.loads(read_text(folder, name))
    except RecursionError:
        raise ValueError("an event that is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("no event")
    return found


def read_text(folder: str, name: str) -> str:
    """Raises OSError for an event that is there no more."""
    with open(os.path.join(folder, SPOOL, name), encoding="utf-8", errors="replace") as file:
        return file.read(_MOST_BYTES)


class Tries:
    """How often the storing of an event was begun and has failed, as it stands beside the event."""

    def __init__(self, begun: int, failed: int) -> None:
        self.begun = begun
        self.failed = failed


def begin_try(folder: str, name: str) -> Tries:
    """Count one more beginning: a server that ends during it says nothing more. Raises nothing."""
    tries = _read_tries(folder, name)
    return _write_tries(folder, name, Tries(tries.begun + 1, tries.failed))


def note_failure(folder: str, name: str) -> Tries:
    """Count one more failure. Raises nothing."""
    tries = _read_tries(folder, name)
    return _write_tries(folder, name, Tries(tries.begun, tries.failed + 1))


def forget_tries(folder: str, name: str) -> None:
    """Begin to count anew: what kept the event from being stored was not the event."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, SPOOL, name + _TRIES))


def _read_tries(folder: str, name: str) -> Tries:
    try:
        with open(os.path.join(folder, SPOOL, name + _TRIES), encoding="ascii") as file:
            begun, failed = file.read(40).split()
        return Tries(int(begun), int(failed))
    except (OSError, ValueError):
        return Tries(0, 0)


def _write_tries(folder: str, name: str, tries: Tries) -> Tries:
    with contextlib.suppress(OSError):
        path = os.path.join(folder, SPOOL, name)
        # Another server may have stored the event, and a leftover count would stay for good.
        if os.path.exists(path):
            with open(os.open(path + _TRIES, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(f"{tries.begun} {tries.failed}")
    return tries


def drop(folder: str, name: str) -> None:
    """Remove an event that is stored."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, SPOOL, name))
    forget_tries(folder, name)


def set_aside(folder: str, name: str, mask: Callable[[str], str]) -> None:
    """Keep an event that cannot be stored, with its secrets masked, where it is not tried again. Raises OSError."""
    path = os.path.join(folder, SPOOL, name)
    with contextlib.suppress(FileNotFoundError):
        with open(path, encoding="utf-8", errors="replace") as file:
            # Masked first, since an event that cannot be stored may lie there for long.
            masked = mask(file.read())
        part = path + _PART
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(masked)
        # The masked copy is complete before the event is removed.
        os.replace(part, path + _UNFIT)
        drop(folder, name)


def erase_set_aside(folder: str) -> None:
    """Remove the events that could not be stored, and what a killed process left of one. Raises OSError."""
    for name in list_set_aside(folder):
        drop(folder, name)
    for path in _find_parts(os.path.join(folder, SPOOL)):
        if path.endswith(_SUFFIX + _PART):
            continue  # a hook may be writing it; an old one is removed when events are stored
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def list_set_aside(folder: str) -> list[str]:
    """The names of the events that could not be stored."""
    with contextlib.suppress(OSError):
        return sorted(name for name in os.listdir(os.path.join(folder, SPOOL)) if name.endswith(_UNFIT))
    return []


def drop_abandoned(folder: str) -> None:
    """Remove files whose writing was killed: their events were never confirmed."""
    for path in _find_parts(os.path.join(folder, SPOOL)):
        with contextlib.suppress(OSError):
            if time.time() - os.path.getmtime(path) > _ABANDONED_SECONDS:
                os.unlink(path)
    for name in _list_names(folder):
        # A server that was killed between two removals leaves the counts of an event.
        if name.endswith(_TRIES) and not os.path.exists(os.path.join(folder, SPOOL, name.removesuffix(_TRIES))):
            forget_tries(folder, name.removesuffix(_TRIES))


def _list_names(folder: str) -> list[str]:
    try:
        return os.listdir(os.path.join(folder, SPOOL))
    except OSError:
        return []


def _find_parts(spool: str) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from (os.path.join(spool, name) for name in os.listdir(spool) if name.endswith(_PART))
