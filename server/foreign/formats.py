"""Which program a file or folder is from, and what reads it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

from layerlore.server.foreign import basic_memory, chatgpt, claude, claude_mem
from layerlore.server.foreign.content import Foreign, ForeignConversation, Unread
from layerlore.server.foreign.entry_files import is_mem0, read_mem0, read_server_memory
from layerlore.server.foreign.foreign_transcripts import is_transcript, read_transcripts
from layerlore.server.foreign.json_files import open_items, read_lines
from layerlore.server.process.safe_files import read_regular
from layerlore.server.settings.capture import CaptureSettings
from layerlore.storage.core.errors import InvalidInput, NotFound

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
]
FORMATS: tuple[Format, ...] = get_args(Format)
_SQLITE = b"SQLite format 3\0"
_TRIED_LINES = 20


@dataclass(slots=True)
class ReadProgress:
    """How many bytes of a file were read, as far as its reader can say."""

    done: int = 0


def find_format(path: Path) -> Format:
    """The format of a file or folder. Raises InvalidInput for one that is not known, NotFound and OSError."""
    if not path.exists():
        raise NotFound(f"there is no file {path}")
    _refuse_no_file(path)
    if path.is_dir():
        if next(path.rglob("*.jsonl"), None) is not None:
            return "claude-code"
        if next(path.rglob("*.md"), None) is not None:
            return "basic-memory"
        raise InvalidInput(f"{path} has neither transcripts (.jsonl) nor notes (.md); --from says what it is")
    if path.suffix == ".md":
        return "basic-memory"
    if read_regular(str(path), len(_SQLITE)) == _SQLITE:
        return "claude-mem"
    found = _find_in_lines(path) or _find_in_items(path)
    if found is None:
        raise InvalidInput(f"{path} is in no format that is known; --from names one: {', '.join(FORMATS)}")
    return found


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
        if not file.read(1_000_000).count(b"\n"):
            size = path.stat().st_size
            if size > 1_000_000:
                return
    yield from read_lines(path)


def _find_in_items(path: Path) -> Format | None:
    try:
        with open_items(path) as items:
            first = next(items, None)
    except InvalidInput:
        return None
    if first is None:
        return None
    item, _ = first
    if chatgpt.reads(item):
        return "chatgpt"
    if claude.reads(item):
        return "claude"
    if is_mem0(item):
        return "mem0"
    return None


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
            return basic_memory.read_folder(path)
        case "claude-mem":
            return claude_mem.read(path)
        case "claude-code" | "codex":
            return read_transcripts(path, rules)
    raise InvalidInput(f"{of} is read line by line")


def _read_conversations(path: Path, progress: ReadProgress) -> Foreign:
    with open_items(path) as items:
        for number, (item, done) in enumerate(items, 1):
            progress.done = done
            reader = next((each for each in (chatgpt, claude) if each.reads(item)), None)
            if reader is None:
                yield Unread(f"item {number}", "it is no conversation")
                continue
            found: ForeignConversation = reader.read(item)
            if found.messages:
                yield found
