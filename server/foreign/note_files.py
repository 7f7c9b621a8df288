"""Notes of other memories (basic-memory, claude-mem, files of entries) as our entries and messages."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from layerlore.memory.moving.foreign_notes import ForeignNote, UnreadableItem
from layerlore.memory.rules.validation import Limits, check_new_id
from layerlore.server.capture.memory_notes import find_time, read_front
from layerlore.server.foreign.chat_exports import (
    Foreign,
    ForeignConversation,
    as_list,
    as_object,
    as_text,
    find_files,
    open_items,
    read_expiry,
    read_lines,
    read_ms,
    say,
)
from layerlore.server.process.safe_files import read_regular
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json
from layerlore.storage.drivers.foreign_file import ForeignFile

_MEM0_LISTS = ("results", "memories")


def read_server_memory(path: Path) -> Foreign:
    """The observations of each entity, and the relations, as notes. The file has no times: its own counts."""
    at = int(path.stat().st_mtime * 1000)
    for number, line in read_lines(path):
        given, where = as_object(line), f"line {number}"
        if given.get("type") == "entity":
            yield from _read_entity(given, at, where)
        elif given.get("type") == "relation":
            words = [as_text(given.get(key)) for key in ("from", "relationType", "to")]
            if all(words):
                yield ForeignNote(" ".join(words), at)
            else:
                yield UnreadableItem(where, "a relation needs the texts from, relationType and to")
        else:
            yield UnreadableItem(where, "neither an entity nor a relation")


def _read_entity(given: Json, at: int, where: str) -> Foreign:
    name, kind = as_text(given.get("name")), as_text(given.get("entityType"))
    observations = given.get("observations", [])
    if not name:
        yield UnreadableItem(where, "an entity needs a name")
        return
    if not isinstance(observations, list):
        yield UnreadableItem(where, "the observations of an entity must be a list")
        return
    if kind:
        about = f"{name} ({kind})"
    else:
        about = name
    # An entity without observations is still a fact.
    for each in observations or ["known, and nothing noted"]:
        if text := as_text(each):
            yield ForeignNote(text, at, about)
        else:
            yield UnreadableItem(where, "an observation must be a text")


def read_mem0(path: Path) -> Foreign:
    """Memories, each with the person it is about."""
    at = int(path.stat().st_mtime * 1000)
    with open_items(path) as items:
        for number, item in enumerate(_list_memories(item for item, _ in items), 1):
            try:
                yield _read_memory(item, at)
            except InvalidInput as error:
                yield UnreadableItem(f"memory {number}", str(error))


def _read_memory(item: Any, at: int) -> ForeignNote:
    """Raises InvalidInput for one that cannot be read."""
    if not isinstance(item, dict):
        raise InvalidInput("it is no object")
    # Versions of mem0 differ in the name of the text.
    text = as_text(item.get("memory")) or as_text(item.get("content")) or as_text(item.get("data"))
    if not text:
        raise InvalidInput("it has no text")
    user = item.get("user_id")
    if user is None or user == "":
        resource = ""
    else:
        # Some programs number their users.
        resource = check_new_id(str(user) if isinstance(user, int) else user, "user_id", Limits().id_chars)
    said = read_ms(item.get("updated_at")) or read_ms(item.get("created_at")) or at
    return ForeignNote(text, said, resource=resource, expires_at=read_expiry(item.get("expiration_date")))


def is_mem0(item: Json) -> bool:
    """Whether an item is a memory, or what holds a list of them."""
    objects = [each for each in _list_held(item) if isinstance(each, dict)]
    return all(isinstance(each.get("memory"), str) for each in objects[:1])


def _list_memories(items: Iterator[Any]) -> Iterator[Any]:
    for item in items:
        yield from _list_held(item)


def _list_held(item: Any) -> list[Any]:
    """The memories in an item, which may be one of them or an answer with a list of them."""
    given = as_object(item)
    return next((as_list(given[name]) for name in _MEM0_LISTS if name in given), [item])


_MOST_BYTES = 256 * 1024 * 1024
# A link does not match, since a parenthesis follows its bracket.
_OBSERVATION = linear_re.compile(r"^\s*[-*] \[([^\[\]]+)\] +(\S.*)$")
_CHECK_BOXES = (" ", "x", "X", "-")
_RELATION = linear_re.compile(r"^\s*[-*] +(.*?) *\[\[([^\[\]]+)\]\] *(?:\((.*)\))? *$")
_HEADING = linear_re.compile(r"^#+ +(?:Observations|Relations) *$", linear_re.IGNORECASE)
_TITLE = linear_re.compile(r"^# +.*$")


def read_folder(folder: Path) -> Foreign:
    """All notes of a folder and those below it, or the one file."""
    for path in find_files(folder, "*.md"):
        if isinstance(path, UnreadableItem):
            yield path
            continue
        # Hidden folders hold settings of the program and its trash, not notes.
        if any(name.startswith(".") for name in path.relative_to(folder).parts):
            continue
        try:
            text = read_regular(str(path), _MOST_BYTES).decode().replace("\r\n", "\n")
        except UnicodeDecodeError:
            yield UnreadableItem(str(path), "it is no text in UTF-8")
            continue
        except OSError as error:
            yield UnreadableItem(str(path), error.strerror or "")
            continue
        yield from _read_note(text, path, folder)


def _read_note(text: str, path: Path, folder: Path) -> Foreign:
    given, body = read_front(text)
    if path == folder:
        place = path.name
    else:
        place = path.relative_to(folder).as_posix()
    title = as_text(given.get("title")) or path.stem
    at = find_time(given, path)
    rest: list[str] = []
    for line in body.splitlines():
        note = _read_line(line, title, at)
        if note is not None:
            yield note
        elif not _HEADING.match(line):
            rest.append(line)
    # A note with nothing but a title and observations needs no conversation.
    if any(line.strip() and not _TITLE.match(line) for line in rest):
        name = as_text(given.get("permalink")) or place.removesuffix(".md")
        # The place, not the title, identifies a note: titles may repeat.
        digest = hashlib.sha256(place.encode()).hexdigest()[:16]
        messages = say(f"basic-memory-{digest}", "assistant", [as_text("\n".join(rest))], at)
        metadata = {"source": "basic-memory", "file": place[-200:]}
        yield ForeignConversation(f"basic-memory-{name}"[:255], title, messages, metadata)


def _read_line(line: str, title: str, at: int) -> ForeignNote | None:
    """The observation or the relation that a line is."""
    observed = _OBSERVATION.match(line)
    # A task list looks the same as an observation.
    if observed and observed.group(1) not in _CHECK_BOXES:
        return ForeignNote(f"{observed.group(2).strip()} [{observed.group(1)}]", at, title)
    if related := _RELATION.match(line):
        kind, target, context = related.groups()
        return ForeignNote(f"{title} {kind or 'relates to'} {target}" + (f" ({context})" if context else ""), at)
    return None


# Newer names first: versions before 8 named the two sessions after the programs that had them.
_CONTENT_SESSION = ("content_session_id", "claude_session_id")
_MEMORY_SESSION = ("memory_session_id", "sdk_session_id")
_SUMMARY = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def read(path: Path) -> Foreign:
    """All sessions, one after the other."""
    with ForeignFile(path) as file:
        for session in file.rows("sdk_sessions", "started_at_epoch"):
            asked_by, noted_by = _first(session, _CONTENT_SESSION), _first(session, _MEMORY_SESSION)
            messages = [
                # Prompts and observations are under different session ids of one session.
                *(_read_prompt(row) for row in file.rows("user_prompts", "id", _CONTENT_SESSION, asked_by)),
                *(_read_observation(row) for row in file.rows("observations", "id", _MEMORY_SESSION, noted_by)),
                *(_read_summary(row) for row in file.rows("session_summaries", "id", _MEMORY_SESSION, noted_by)),
            ]
            # The three tables have their own ids, so only the time gives the order.
            said = sorted((each for some in messages for each in some), key=lambda each: each["created_at"] or 0)
            if not said:
                continue
            metadata = {"source": "claude-mem", "project": as_text(session.get("project"))[:200]}
            title = as_text(session.get("custom_title")) or as_text(session.get("user_prompt"))
            yield ForeignConversation(f"claude-mem-{asked_by or session['id']}", title, said, metadata)


def _first(row: Json, names: tuple[str, ...]) -> str:
    return next((as_text(row[name]) for name in names if row.get(name)), "")


def _read_prompt(row: Json) -> list[Json]:
    return say(f"prompt-{row['id']}", "user", [as_text(row.get("prompt_text"))], read_ms(row.get("created_at_epoch")))


def _read_observation(row: Json) -> list[Json]:
    heading = ": ".join(text for name in ("title", "subtitle") if (text := as_text(row.get(name))))
    facts = [f"- {text}" for each in _list(row.get("facts")) if (text := as_text(each))]
    told = [heading, as_text(row.get("narrative")) or as_text(row.get("text")), "\n".join(facts)]
    files = [
        text for name in ("files_read", "files_modified") for each in _list(row.get(name)) if (text := as_text(each))
    ]
    metadata = {"kind": as_text(row.get("type")), **({"files": files[:50]} if files else {})}
    text = "\n".join(each for each in told if each)
    at = read_ms(row.get("created_at_epoch"))
    return say(f"observation-{row['id']}", "assistant", [text], at, metadata=metadata)


def _read_summary(row: Json) -> list[Json]:
    told = [f"{name.replace('_', ' ')}: {text}" for name in _SUMMARY if (text := as_text(row.get(name)))]
    at = read_ms(row.get("created_at_epoch"))
    return say(f"summary-{row['id']}", "assistant", ["\n".join(told)], at, metadata={"kind": "summary"})


def _list(stored: Any) -> list[Any]:
    try:
        if isinstance(stored, str):
            found = json.loads(stored)
        else:
            found = []
    except (ValueError, RecursionError):
        return []
    if isinstance(found, list):
        return found
    return []
