"""Adds this server to the configuration of hosts, and removes it again."""

import contextlib
import errno
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from layerlore.server.hosts.catalog import NAME, is_ours, without_our_hooks
from layerlore.server.hosts.host_file import HostChange, HostFile, HostFileChanged, HostFileRefused
from layerlore.server.hosts.installation import Record, read_records, write_records

Outcome = Literal["added", "updated", "unchanged", "removed", "not there", "refused"]


@dataclass(frozen=True, slots=True)
class HostOutcome:
    """The outcome for one host's file: ``why`` says it of one that was refused."""

    host: str
    path: Path
    outcome: Outcome
    why: str = ""
    backup: Path | None = None


_MOST_TRIES = 10
"""Times that a file is read again, where somebody else changes it at the same time."""


def add_to_host(data_dir: Path, host: str, file: HostFile, changes: Sequence[HostChange]) -> HostOutcome:
    """Write the changes into a host's file, unless all is there already. The file before is stored beside it, and what
    others write at the same time stays in it."""
    return _try_again(host, file, lambda: _add(data_dir, host, file, changes))


def _try_again(host: str, file: HostFile, change: Callable[[], HostOutcome]) -> HostOutcome:
    for _ in range(_MOST_TRIES):
        with contextlib.suppress(HostFileChanged):
            return change()
    why = f"{file.path} is being changed by others all the time; close what writes it, and run this again"
    return HostOutcome(host, file.path, "refused", why)


def _add(data_dir: Path, host: str, file: HostFile, changes: Sequence[HostChange]) -> HostOutcome:
    records = read_records(data_dir)
    record = records.get(str(file.path))
    try:
        before = file.read()
        known = NAME in (before or "")
        made = [list(keys) for keys in _find_missing(file, before, changes)]
        defaults = [
            list(change.keys)
            for change in changes
            if change.way == "default" and file.find(before, change.keys) is None
        ]
        text = before
        for change in changes:
            text = _apply(file, text, change)
        if text is None or text == before:
            return HostOutcome(host, file.path, "unchanged")
        if before is None:
            file.check_links()
        untouched = record is not None and record.digest == _digest(before or "")
        if untouched:
            backup = None
        else:
            backup = file.back_up()
        folders = [str(folder) for folder in _find_missing_folders(file.path)]
        keys = [list(change.keys) for change in changes if change.way != "default"]
        if backup is not None:
            kept = str(backup)
        else:
            kept = ""
        new = Record(host, keys, made, defaults, _digest(text), kept, folders, before is None)
        if record is not None:
            new = _join(record, new, untouched=untouched)
        try:
            # The record first: a change without one could not be taken back.
            write_records(data_dir, {**records, str(file.path): new})
            try:
                file.write(text, before)
            except BaseException:
                write_records(data_dir, records)
                raise
        except BaseException:
            _leave_nothing(file, backup, folders)
            raise
    except HostFileRefused as refused:
        return HostOutcome(host, file.path, "refused", str(refused))
    except OSError as error:
        return _refuse(host, file, error)
    return HostOutcome(host, file.path, "updated" if known else "added", backup=backup)


def _leave_nothing(file: HostFile, backup: Path | None, folders: Sequence[str]) -> None:
    """Remove what a change that failed had prepared."""
    with contextlib.suppress(OSError):
        if backup is not None:
            HostFile(backup, file.format, file.top).remove()
    for folder in folders:
        # The lowest comes first; one that another program has put something into stays.
        with contextlib.suppress(OSError):
            Path(folder).rmdir()


def _join(earlier: Record, later: Record, *, untouched: bool) -> Record:
    """The record of two writings. ``untouched``: no other program wrote between them.

    A backup with text that we wrote earlier is not a state to return to.
    """
    return replace(
        later,
        keys=[*earlier.keys, *(keys for keys in later.keys if keys not in earlier.keys)],
        made=[*earlier.made, *later.made],
        defaults=[*earlier.defaults, *later.defaults],
        backup=earlier.backup if untouched else "",
        folders=earlier.folders,
        new=earlier.new and untouched,
    )


def remove_from_host(data_dir: Path, host: str, file: HostFile, usual: Sequence[tuple[str, ...]]) -> HostOutcome:
    """Take back what was written into a host's file. If no other program changed it since, it is the earlier file,
    byte for byte; else only our part is removed. ``usual``: the keys to look at where no record is left."""
    return _try_again(host, file, lambda: _remove(data_dir, host, file, usual))


def _remove(data_dir: Path, host: str, file: HostFile, usual: Sequence[tuple[str, ...]]) -> HostOutcome:
    records = read_records(data_dir)
    record = records.pop(str(file.path), None)
    try:
        text = file.read()
        if text is None:
            told = HostOutcome(host, file.path, "not there")
        elif record is not None and record.digest == _digest(text) and _has_earlier(file, record):
            _put_back(file, record, text)
            told = HostOutcome(host, file.path, "removed")
        else:
            rest = _take_out(file, text, [tuple(each) for each in record.keys] if record else usual)
            if record:
                rest = _tidy(file, rest, record)
            if rest != text:
                file.write(rest, text)
            told = HostOutcome(host, file.path, "not there" if rest == text else "removed")
    except HostFileRefused as refused:
        return HostOutcome(host, file.path, "refused", str(refused))
    except OSError as error:
        return _refuse(host, file, error)
    write_records(data_dir, records)
    return told


def _has_earlier(file: HostFile, record: Record) -> bool:
    """Whether the state before is known: a backup, or no file. A file that its user has meanwhile put elsewhere, with a
    link to it, stays."""
    return bool(record.backup) or (record.new and not file.path.is_symlink())


def _refuse(host: str, file: HostFile, error: OSError) -> HostOutcome:
    """The outcome for a file that the system does not let us change: the other hosts are configured all the same."""
    # A new content is first written beside the file, under a name that says nothing to its user.
    named = file.path if str(error.filename or "").endswith(".part") else error.filename or file.path
    why = error.strerror or str(error)
    if error.errno == errno.EPERM:
        why += "; it may be locked or immutable"
    return HostOutcome(host, file.path, "refused", f"{named} cannot be written: {why}")


def _apply(file: HostFile, text: str | None, change: HostChange) -> str | None:
    found = file.find(text, change.keys)
    if change.way == "default":
        if found is not None:
            return text
        return file.with_value(text, change.keys, change.value)
    if change.way == "own":
        if found is not None and not is_ours(found):
            name = ".".join(change.keys)
            raise HostFileRefused(f"{file.path}: {name} is another server; rename or remove it, and run this again")
        if found == change.value:
            return text
        return file.with_value(text, change.keys, change.value)
    if not isinstance(found or [], list):
        raise HostFileRefused(f"{file.path}: {'.'.join(change.keys)} is no list of hooks; it stays as it is")
    new = [*without_our_hooks(found or []), *change.value]
    if found == new:
        return text
    return file.with_value(text, change.keys, new)


def _take_out(file: HostFile, text: str, keys: Sequence[tuple[str, ...]]) -> str:
    for path in keys:
        found = file.find(text, path)
        if isinstance(found, list):
            others = without_our_hooks(found)
        else:
            others = []
        if others:
            if others != found:
                text = file.with_value(text, path, others)
        elif is_ours(found):
            text = file.without(text, path)
    return text


def _tidy(file: HostFile, text: str, record: Record) -> str:
    """The text without what was only there for our part: objects that are empty now, and what was set since it was missing,
    but not beside what others have put into the file's top level."""
    for keys in record.defaults:
        if len(keys) > 1 or set(file.parse(text)) <= {keys[0], *(path[0] for path in record.made)}:
            text = file.without(text, keys)
    for keys in sorted(record.made, key=len, reverse=True):
        if file.find(text, keys) == {}:
            text = file.without(text, keys)
    return text


def _put_back(file: HostFile, record: Record, text: str) -> None:
    if record.new:
        if file.read() != text:
            raise HostFileChanged(f"{file.path} is being changed by others")
        file.remove()
        for folder in record.folders:
            if not any(Path(folder).iterdir()):
                Path(folder).rmdir()
        return
    backup = HostFile(Path(record.backup), file.format, file.top)
    before = backup.read()
    if before is None:
        raise HostFileRefused(f"{record.backup} is gone: it held {file.path} as it was before")
    file.write(before, text)
    backup.remove()


def _find_missing(file: HostFile, text: str | None, changes: Sequence[HostChange]) -> Iterator[tuple[str, ...]]:
    """The objects around the values that are not there yet."""
    paths = {change.keys[:depth] for change in changes for depth in range(1, len(change.keys))}
    return (path for path in sorted(paths) if file.find(text, path) is None)


def _find_missing_folders(path: Path) -> list[Path]:
    """The folders above a file that are not there, the lowest first."""
    return [folder for folder in path.parents if not folder.exists()]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
