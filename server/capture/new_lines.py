"""The new lines of a transcript, of whatever host: each is read once, as far as it is written whole.

A cursor says how far a file was read, and what stood before that place. A file that is shorter now, or has something else
there, was rewritten: it is read again from its beginning.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from layerlore.server.capture import host_lines
from layerlore.server.capture.host_lines import TranscriptMessage
from layerlore.server.process.safe_files import open_regular, read_regular
from layerlore.storage.core.records import Json

CHUNK_BYTES = 4 * 1024 * 1024
_LONGEST_LINE = 64 * 1024 * 1024
_TAIL_BYTES = 512

LineReader = Callable[[Json], list[TranscriptMessage]]
# For each host: whether a record is one of its lines, and the reader of such a line.
_READERS: dict[str, tuple[Callable[[Json], bool], LineReader]] = {
    "claude-code": (host_lines.is_claude_line, host_lines.read_claude_line),
    "codex": (host_lines.is_codex_line, host_lines.read_codex_line),
    "gemini-cli": (host_lines.is_gemini_record, host_lines.read_gemini_record),
    "vscode": (host_lines.is_copilot_line, host_lines.read_copilot_line),
    "cursor": (host_lines.is_cursor_line, host_lines.read_cursor_line),
}


class KeptCursor(TypedDict):
    """A cursor as it is stored between two reads."""

    offset: int
    tail: str
    counts: list[list[str | int]]
    by_subagent: bool


@dataclass(frozen=True, slots=True)
class TranscriptCursor:
    """How many bytes of a file are read (or messages, of one that is a single document), a digest of the last of them, how
    often each line came that has neither an id nor a time, and whether it is all a sub-agent's."""

    offset: int = 0
    tail: str = ""
    counts: tuple[tuple[str, int], ...] = ()
    by_subagent: bool = False

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> "TranscriptCursor":
        """The cursor that was stored; the beginning for one that cannot be read."""
        try:
            counts = tuple((str(line), int(count)) for line, count in kept.get("counts", ()))
            return cls(int(kept["offset"]), str(kept["tail"]), counts, bool(kept.get("by_subagent")))
        except (KeyError, TypeError, ValueError):
            return cls()

    def keep(self) -> KeptCursor:
        return {
            "offset": self.offset,
            "tail": self.tail,
            "counts": [list(each) for each in self.counts],
            "by_subagent": self.by_subagent,
        }


def read_new(
    path: str, cursor: TranscriptCursor, *, ended: bool = False
) -> tuple[list[TranscriptMessage], TranscriptCursor] | None:
    """The next content of a file, and the position after it; None without new content. ``ended``: the file is
    finished, so that its last line is whole without its end. Raises OSError, of which UnsafeFile for a path that is
    not a file."""
    # Gemini CLI may rewrite one JSON document at each message.
    if path.endswith(".json") and (document := _read_document(path)) is not None:
        return _read_messages(document, cursor)
    with open(open_regular(path), "rb") as file:  # noqa: PTH123 - a descriptor
        if not _fits(file, cursor):
            cursor = TranscriptCursor()
        file.seek(cursor.offset)
        data = _read_lines(file, ended)
        if not data:
            return None
        end = cursor.offset + len(data)
        file.seek(max(0, end - _TAIL_BYTES))
        tail = _digest(file.read(end - max(0, end - _TAIL_BYTES)))
    counts = Counter(dict(cursor.counts))
    lines = [line for line in data.splitlines() if line.strip()]
    # Only the first line of a file says that a sub-agent wrote it, so the cursor keeps the answer.
    by_subagent = cursor.by_subagent or (not cursor.offset and bool(lines) and _is_of_subagent(_parse(lines[0])))
    found = [said for line in lines for said in _read_line(line, counts)]
    if by_subagent:
        found = [replace(each, by_subagent=True) for each in found]
    return found, TranscriptCursor(end, tail, tuple(counts.items()), by_subagent)


def _is_of_subagent(record: Json | None) -> bool:
    return record is not None and (host_lines.is_codex_subagent(record) or host_lines.is_gemini_subagent(record))


def _read_document(path: str) -> Json | None:
    """A transcript that is one document with all messages; None for one of lines."""
    found = _parse(read_regular(path, _LONGEST_LINE))
    if found is not None and isinstance(found.get("messages"), list):
        return found
    return None


def _read_messages(document: Json, cursor: TranscriptCursor) -> tuple[list[TranscriptMessage], TranscriptCursor] | None:
    """The content of a document's unread messages; of all messages if one of the read ones has changed."""
    messages = [each for each in document["messages"] if isinstance(each, dict)]
    # A host rewrites the document and may drop messages in its middle, so the count alone proves nothing.
    if cursor.tail == _digest_messages(messages[: cursor.offset]):
        begin = cursor.offset
    else:
        begin = 0
    if begin == len(messages):
        return None
    found = [said for each in messages[begin:] for said in _read_record(each)]
    if _is_of_subagent(document):
        found = [replace(each, by_subagent=True) for each in found]
    return found, TranscriptCursor(len(messages), _digest_messages(messages))


def _digest_messages(messages: Sequence[Json]) -> str:
    return _digest(json.dumps(messages).encode("utf-8", "replace"))


def _fits(file: Any, cursor: TranscriptCursor) -> bool:
    """Whether the file begins with what was read of it."""
    # A shorter file was rewritten; the digest below finds one that was rewritten and is longer now.
    if file.seek(0, os.SEEK_END) < cursor.offset:
        return False
    begin = max(0, cursor.offset - _TAIL_BYTES)
    file.seek(begin)
    return not cursor.offset or _digest(file.read(cursor.offset - begin)) == cursor.tail


def _read_lines(file: Any, ended: bool) -> bytes:
    """The next whole lines; one that is longer than a chunk is read to its end."""
    data = b""
    while chunk := file.read(CHUNK_BYTES):
        data += chunk
        whole = data.rfind(b"\n") + 1
        if whole:
            return bytes(data[:whole])
        if len(data) > _LONGEST_LINE:  # no transcript has it: it is passed over
            return bytes(data)
    # After the end no more comes, so a last line without a newline is complete if it parses.
    if ended and _parse(data) is not None:
        return bytes(data)
    return b""


def _read_line(line: bytes, counts: Counter[str]) -> list[TranscriptMessage]:
    record = _parse(line)
    if record is None:
        return []
    said = _read_record(record)
    if all(each.id for each in said):
        return said
    # Lines without an id are distinguished by what they say and when or, without a time, by the number of earlier
    # equal lines.
    # The digest of a line is the same at each read, so a line that is read twice keeps its id.
    named = _digest(line)
    if "timestamp" not in record:
        counts[named] += 1
        named = f"{named}-{counts[named]}"
    return [each if each.id else replace(each, id=f"{named}-{number}") for number, each in enumerate(said)]


def _read_record(record: Json) -> list[TranscriptMessage]:
    for host, (is_line, read_line) in _READERS.items():
        if is_line(record):
            return [replace(each, host=host) for each in read_line(record)]
    return []


def _parse(line: bytes) -> Json | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, dict):
        return found
    return None


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12).hexdigest()
