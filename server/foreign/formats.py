"""Which program a file or folder is from, and what reads it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

from layerlore.memory.moving.foreign_notes import ForeignNote, UnreadableItem
from layerlore.server.capture.event_capture import as_captured
from layerlore.server.capture.host_lines import TranscriptCursor, as_object, read_new
from layerlore.server.capture.memory_notes import (
    find_memory_kind,
    is_claude_memory,
    read_claude_memory,
    read_memory,
    read_section,
)
from layerlore.server.capture.message_cleanup import Cleaner, IgnoredPaths
from layerlore.server.foreign import chat_exports, note_files
from layerlore.server.foreign.chat_exports import (
    Foreign,
    ForeignConversation,
    find_files,
    open_items,
    read_lines,
)
from layerlore.server.foreign.note_files import is_mem0, read_mem0, read_server_memory
from layerlore.server.process.safe_files import open_regular, read_regular
from layerlore.server.settings.sections import CaptureSettings
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.records import Json

_LOOKED_AT = 50
"""Lines in which the session and its folder are named."""


def read_transcripts(path: Path, rules: CaptureSettings) -> Foreign:
    """The transcripts of a folder and those below it, or the one file, each a conversation under its session's id. The
    one that was changed longest ago comes first, since a session is mostly older than those that were forked from it."""
    for file in sorted(find_files(path, "*.jsonl"), key=_find_age):
        if isinstance(file, UnreadableItem):
            yield file
            continue
        try:
            # A pipe named like a transcript would block the import.
            session, folder = _identify(file)
        except OSError as error:
            yield UnreadableItem(str(file), error.strerror or "")
            continue
        ignored = IgnoredPaths(folder or str(file.parent))
        if ignored.is_everything:
            yield UnreadableItem(str(file), "its folder is left out by a .layerloreignore")
            continue
        cleaner, cursor = Cleaner(rules, ignored, set()), TranscriptCursor()
        # A transcript is read in parts, and each part becomes a piece of the same conversation.
        while (found := read_new(str(file), cursor, ended=True)) is not None:
            said, cursor = found
            kept = cleaner.clean(said)
            # The last of equal ids is the most complete, as hosts write a message again when it grows.
            messages: list[Json] = [{**as_captured(each)} for each in {each.id: each for each in kept}.values()]
            if messages:
                yield ForeignConversation(session, "", messages)


def _find_age(file: Path | UnreadableItem) -> float:
    try:
        return file.stat().st_mtime if isinstance(file, Path) else 0
    except OSError:
        return 0


def is_transcript(line: object) -> bool:
    """Whether a line is one of Claude Code's or Codex's."""
    given = as_object(line)
    of_codex = isinstance(given.get("payload"), dict) and isinstance(given.get("type"), str)
    return of_codex or ("sessionId" in given and "type" in given)


def _identify(file: Path) -> tuple[str, str]:
    """The session of a transcript, and the folder that it was in. A sub-agent's lies under the name of its file."""
    session = folder = ""
    with open(open_regular(str(file)), "rb") as lines:  # noqa: PTH123 - a descriptor
        # The session and the folder stand in the first lines, and a transcript can have gigabytes.
        for _, line in zip(range(_LOOKED_AT), lines, strict=False):
            try:
                given = as_object(json.loads(line))
            except (ValueError, RecursionError):
                continue
            payload = as_object(given.get("payload"))
            if given.get("type") == "session_meta":
                named = payload.get("id")
            else:
                named = given.get("sessionId")
            session = session or str(named or "")
            folder = folder or str(payload.get("cwd") or given.get("cwd") or "")
    # A sub-agent's file names the session of its parent, so the file's own name counts then.
    return (session if session and session in file.name else file.stem), folder


Format = Literal[
    "layerlore",
    "shared",
    "chatgpt",
    "claude",
    "claude-code",
    "codex",
    "server-memory",
    "mem0",
    "basic-memory",
    "claude-mem",
    "claude-memory",
    "codex-memory",
    "section",
]
FORMATS: tuple[Format, ...] = get_args(Format)
_SQLITE = b"SQLite format 3\0"
_TRIED_LINES = 20
_TRIED_ITEMS = 20
_EXPORT_FILES = ("conversations*.json", "memories*.json", "memories/*.json")
"""The files of an export that was unpacked: large ones are numbered."""


@dataclass(slots=True)
class ReadProgress:
    """How many bytes of a file were read, as far as its reader can say."""

    done: int = 0


def find_format(path: Path) -> Format:
    """The format of a file or folder. Raises InvalidInput for one that is not known, NotFound and OSError."""
    if not path.exists():
        raise NotFound(f"there is no file {path}")
    # Checked before the content, since a pipe can be read only once.
    _refuse_no_file(path)
    if path.is_dir():
        for file in _find_export_files(path):
            if isinstance(file, Path) and (found := _find_in_items(file)) is not None:
                return found
        if next(path.rglob("*.jsonl"), None) is not None:
            return "claude-code"
        if memory := find_memory_kind(path):
            return memory
        if next(path.rglob("*.md"), None) is not None:
            return "basic-memory"
        raise InvalidInput(
            f"{path} has neither conversations (conversations*.json), transcripts (.jsonl) nor notes (.md); --from says "
            "what it is"
        )
    if path.suffix == ".md":
        return find_memory_kind(path) or "basic-memory"
    # The content decides: a database may have any ending.
    if read_regular(str(path), len(_SQLITE)) == _SQLITE:
        return "claude-mem"
    found = _find_in_lines(path) or _find_in_items(path)
    if found is None:
        raise InvalidInput(f"{path} is in no format that is known; --from names one: {', '.join(FORMATS)}")
    return found


def _find_export_files(folder: Path) -> Iterator[Path | UnreadableItem]:
    for pattern in _EXPORT_FILES:
        yield from find_files(folder, pattern)


def _refuse_no_file(path: Path) -> None:
    """A pipe or a device: its reader would wait, and reads it more than once. Raises InvalidInput."""
    if path.exists() and not path.is_dir() and not path.is_file():
        raise InvalidInput(f"{path} is no regular file: copy what it gives into a file first")


def _find_in_lines(path: Path) -> Format | None:
    if path.suffix not in (".jsonl", ".ndjson", ".json", ".log", ""):
        return None
    for _, line in islice(_read_short_lines(path), _TRIED_LINES):
        if isinstance(line, dict):
            if line.get("record") == "header":
                return "layerlore"
            if is_transcript(line):
                if "payload" in line:
                    return "codex"
                return "claude-code"
            if line.get("type") in ("entity", "relation"):
                return "server-memory"
    return None


def _read_short_lines(path: Path) -> Iterator[tuple[int, object]]:
    """Nothing of a file that is one long line."""
    with path.open("rb") as file:
        # A JSON document in one line may have gigabytes, and is tried item by item instead.
        if not file.read(1_000_000).count(b"\n"):
            size = path.stat().st_size
            if size > 1_000_000:
                return
    yield from read_lines(path)


def _find_in_items(path: Path) -> Format | None:
    try:
        with open_items(path) as items:
            formats = (_find_in_item(item) for item, _ in islice(items, _TRIED_ITEMS) if isinstance(item, dict))
            # A file may be cut off behind the item that says what it is.
            return next(filter(None, formats), None)
    except InvalidInput:
        return None


def _find_in_item(item: Json) -> Format | None:
    if chat_exports.is_chatgpt(item):
        return "chatgpt"
    if chat_exports.is_claude(item):
        return "claude"
    if is_claude_memory(item):
        return "claude"
    if is_mem0(item):
        return "mem0"
    return None


def list_resources(path: Path, of: Format) -> list[str]:
    """The people whose memories a file names, sorted. Only mem0's do. Raises InvalidInput and OSError."""
    if of != "mem0":
        return []
    return sorted({each.resource for each in read_mem0(path) if isinstance(each, ForeignNote) and each.resource})


def read_foreign(path: Path, of: Format, rules: CaptureSettings, progress: ReadProgress) -> Foreign:
    """The format of another program's file or folder. Raises InvalidInput, NotFound and OSError."""
    _refuse_no_file(path)
    match of:
        case "chatgpt" | "claude":
            return _read_conversations(path, progress)
        case "server-memory":
            return read_server_memory(path)
        case "mem0":
            return read_mem0(path)
        case "basic-memory":
            return note_files.read_folder(path)
        case "claude-mem":
            return note_files.read(path)
        case "claude-code" | "codex":
            return read_transcripts(path, rules)
        case "claude-memory" | "codex-memory":
            return read_memory(path, of)
        case "section":
            return read_section(path)
    raise InvalidInput(f"{of} is read line by line")


def _read_conversations(path: Path, progress: ReadProgress) -> Foreign:
    if not path.is_dir():
        yield from _read_conversation_file(path, "", progress)
        return
    for file in _find_export_files(path):
        if isinstance(file, UnreadableItem):
            yield file
            continue
        try:
            yield from _read_conversation_file(file, f"{file.name}, ", progress)
        # One bad file must not end the import of the others.
        except InvalidInput as error:
            yield UnreadableItem(str(file), str(error))
        except OSError as error:
            yield UnreadableItem(str(file), error.strerror or "")


def _read_conversation_file(path: Path, where: str, progress: ReadProgress) -> Foreign:
    with open_items(path) as items:
        for number, (item, done) in enumerate(items, 1):
            progress.done = done
            place = f"{where}item {number}"
            if not isinstance(item, dict):
                yield UnreadableItem(place, "it is no object")
                continue
            if chat_exports.is_chatgpt(item):
                found = chat_exports.read_chatgpt(item)
            elif chat_exports.is_claude(item):
                found = chat_exports.read_claude(item)
            elif is_claude_memory(item):
                yield from read_claude_memory(item, int(path.stat().st_mtime * 1000))
                continue
            else:
                yield UnreadableItem(place, "it is no conversation")
                continue
            yield from chat_exports.list_unread(item, place)
            if found.messages:
                yield found
