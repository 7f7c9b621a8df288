"""basic-memory's notes: Markdown files with a front matter, whose observations and relations become notes of ours, and the
rest a conversation of one message."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from layerlore.server.foreign.content import (
    Foreign,
    ForeignConversation,
    ForeignNote,
    Unread,
    as_text,
    find_files,
    read_ms,
    say,
)
from layerlore.server.process.safe_files import UnsafeFile, read_regular
from layerlore.storage.core import linear_re

_MOST_BYTES = 256 * 1024 * 1024
_FRONT = linear_re.compile(r"\A\ufeff?---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", linear_re.DOTALL)
_FIELD = linear_re.compile(r"^(\w+):[ \t]*(.*?)[ \t]*$", linear_re.MULTILINE)
# A link is none: its bracket is followed by a parenthesis.
_OBSERVATION = linear_re.compile(r"^\s*[-*] \[([^\[\]]+)\] +(\S.*)$")
_CHECK_BOXES = (" ", "x", "X", "-")
_RELATION = linear_re.compile(r"^\s*[-*] +(.*?) *\[\[([^\[\]]+)\]\] *(?:\((.*)\))? *$")
_HEADING = linear_re.compile(r"^#+ +(?:Observations|Relations) *$", linear_re.IGNORECASE)
_TITLE = linear_re.compile(r"^# +.*$")


def read_folder(folder: Path) -> Foreign:
    """All notes of a folder and those below it, or the one file."""
    for path in find_files(folder, "*.md"):
        if isinstance(path, Unread):
            yield path
            continue
        if any(name.startswith(".") for name in path.relative_to(folder).parts):
            continue
        try:
            text = read_regular(str(path), _MOST_BYTES).decode().replace("\r\n", "\n")
        except UnicodeDecodeError:
            yield Unread(str(path), "it is no text in UTF-8")
            continue
        except UnsafeFile as error:
            yield Unread(str(path), error.strerror or "")
            continue
        yield from _read_note(text, path, folder)


def _read_note(text: str, path: Path, folder: Path) -> Foreign:
    front = _FRONT.match(text)
    if front:
        given = {name: value.strip("'\"") for name, value in _FIELD.findall(front.group(1))}
    else:
        given = {}
    if path == folder:
        place = path.name
    else:
        place = path.relative_to(folder).as_posix()
    title = as_text(given.get("title")) or path.stem
    at = _find_time(given, path)
    rest: list[str] = []
    for line in text[front.end() if front else 0 :].splitlines():
        note = _read_line(line, title, at)
        if note is not None:
            yield note
        elif not _HEADING.match(line):
            rest.append(line)
    if any(line.strip() and not _TITLE.match(line) for line in rest):
        name = as_text(given.get("permalink")) or place.removesuffix(".md")
        digest = hashlib.sha256(place.encode()).hexdigest()[:16]
        messages = say(f"basic-memory-{digest}", "assistant", [as_text("\n".join(rest))], at)
        metadata = {"source": "basic-memory", "file": place[-200:]}
        yield ForeignConversation(f"basic-memory-{name}"[:255], title, messages, metadata)


def _find_time(given: Mapping[str, str], path: Path) -> int:
    """When the note was changed, as it says itself or as its file does; in milliseconds."""
    times = (read_ms(given[name]) for name in ("modified", "updated", "created", "date") if given.get(name))
    return next((time for time in times if time is not None), int(path.stat().st_mtime * 1000))


def _read_line(line: str, title: str, at: int) -> ForeignNote | None:
    """The observation or the relation that a line is."""
    observed = _OBSERVATION.match(line)
    if observed and observed.group(1) not in _CHECK_BOXES:
        return ForeignNote(f"{observed.group(2).strip()} [{observed.group(1)}]", at, title)
    if related := _RELATION.match(line):
        kind, target, context = related.groups()
        return ForeignNote(f"{title} {kind or 'relates to'} {target}" + (f" ({context})" if context else ""), at)
    return None
