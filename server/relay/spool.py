"""The events that hooks hand over, a file for each: the hook writes it, and the server removes it after storing the event.

No event is lost if a process is killed or does not answer: the next server takes the files.
"""

import contextlib
import json
import os
import re
import time
from collections.abc import Callable

HookEvent = dict[str, object]
"""A host's report of an event, or the event as a hook hands it over."""

SPOOL = "spool"
_SUFFIX = ".json"
_PART = ".part"
_UNFIT = ".unfit"
_TRIES = ".tries"
_MOST_BYTES = 64 * 1024 * 1024
# A part file that is older than this, in seconds, belongs to a process that was killed.
_ABANDONED_SECONDS = 3600.0
# A tag that is never closed reaches to the end of the text, so that private words stay private.
_PRIVATE = re.compile(r"<private\s*>.*?(?:</private\s*>|\Z)", re.IGNORECASE | re.DOTALL)


def strip_private(text: str) -> str:
    """The text without the parts between ``<private>`` and ``</private>``."""
    if "<" in text:
        return _PRIVATE.sub("", text)
    return text


def hand_over(folder: str, event: dict[str, object]) -> str:
    """Write an event for the server of this folder of hooks. Returns the file's name. Raises OSError."""
    spool, hooks = os.path.join(folder, SPOOL), os.path.dirname(folder)
    # Made one by one, since os.makedirs gives the mode only to the last folder.
    for each in (os.path.dirname(hooks), hooks, folder, spool):
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
    """The names of the waiting events, oldest first."""
    return _list_names(folder, _SUFFIX)


def read_event(folder: str, name: str) -> HookEvent:
    """The event of that name. Raises OSError if it is gone, ValueError if it cannot be read."""
    try:
        found = json.loads(read_text(folder, name))
    except RecursionError:
        raise ValueError("an event that is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("no event")
    return found


def read_text(folder: str, name: str) -> str:
    """The text of an event. Raises OSError if it is gone."""
    with open(os.path.join(folder, SPOOL, name), encoding="utf-8", errors="replace") as file:
        return file.read(_MOST_BYTES)


class Tries:
    """How often servers began to store an event, and how often that failed. A file beside the event holds the counts."""

    def __init__(self, begun: int, failed: int) -> None:
        self.begun = begun
        self.failed = failed


def begin_try(folder: str, name: str) -> Tries:
    """Count one more attempt when it begins, since a server that ends during it cannot count it. Raises nothing."""
    tries = _read_tries(folder, name)
    return _write_tries(folder, name, Tries(tries.begun + 1, tries.failed))


def note_failure(folder: str, name: str) -> Tries:
    """Count one more failure. Raises nothing."""
    tries = _read_tries(folder, name)
    return _write_tries(folder, name, Tries(tries.begun, tries.failed + 1))


def forget_tries(folder: str, name: str) -> None:
    """Reset the counts, since the failure was not the event's fault."""
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
    """Remove a stored event."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, SPOOL, name))
    forget_tries(folder, name)


def set_aside(folder: str, name: str, mask: Callable[[str], str]) -> None:
    """Set an event aside that cannot be stored: its secrets are masked, and no server tries it again. Raises OSError."""
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
    """Remove the events that were set aside, and the part files of killed processes. Raises OSError."""
    for name in list_set_aside(folder):
        drop(folder, name)
    for name in _list_names(folder, _PART):
        if name.endswith(_SUFFIX + _PART):
            continue  # a hook may be writing it; drop_abandoned removes an old one
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, SPOOL, name))


def list_set_aside(folder: str) -> list[str]:
    """The names of the events that were set aside."""
    return _list_names(folder, _UNFIT)


def drop_abandoned(folder: str) -> None:
    """Remove the part files of killed processes: their events were never confirmed."""
    for name in _list_names(folder, _PART):
        path = os.path.join(folder, SPOOL, name)
        with contextlib.suppress(OSError):
            if time.time() - os.path.getmtime(path) > _ABANDONED_SECONDS:
                os.unlink(path)
    for name in _list_names(folder, _TRIES):
        event = name.removesuffix(_TRIES)
        # A server that was killed between two removals leaves the counts of an event.
        if not os.path.exists(os.path.join(folder, SPOOL, event)):
            forget_tries(folder, event)


def _list_names(folder: str, ending: str) -> list[str]:
    """The names in the spool with that ending, in order."""
    try:
        names = os.listdir(os.path.join(folder, SPOOL))
    except OSError:
        return []
    return sorted(name for name in names if name.endswith(ending))
