"""Reads the memory that hosts keep in Markdown files as notes: a memory folder of Claude Code or Codex, the memory in Claude's
export, and our section of a file that a host, a person or a team also writes (CLAUDE.md, AGENTS.md, MEMORY.md).

Two lines mark the section. The first names its owner, so that the memories of two people never mix in one file. The last
has a short hash of each line that we wrote; every other line in the section is new.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from layerlore.memory.moving.foreign_notes import ForeignNote, UnreadableItem
from layerlore.memory.rules.validation import parse_time
from layerlore.memory.text.trust import Trust
from layerlore.server.process.safe_files import UnsafeFile, find_top, is_there, read_regular
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput, LayerloreError
from layerlore.storage.core.records import Json

_BEGIN = linear_re.compile(
    r"^<!-- layerlore:begin(?: (?P<owner>[0-9a-f]{8}))?(?P<new> new)? -->[ \t]*\r?$", linear_re.MULTILINE
)
_END = linear_re.compile(r"^<!-- layerlore:end(?P<lines>(?: [0-9a-f]{8})*) -->[ \t]*\r?$", linear_re.MULTILINE)
_HASH_CHARS = 8


@dataclass(frozen=True, slots=True)
class MemorySection:
    """A section of a text: where it starts and ends, its lines, its owner ("" if a person wrote the marks), the hashes of
    our own lines, and whether we made the file."""

    starts: int
    ends: int
    lines: tuple[str, ...]
    owner: str
    known: frozenset[str]
    made_file: bool

    @property
    def new_lines(self) -> list[str]:
        """The lines of the section that we did not write."""
        return [line for line in self.lines if _hash(line) not in self.known]


class SectionDamaged(LayerloreError):
    """A text with one mark of a section, or more than two. Its end is unknown, and a guess could remove others' words."""

    def __init__(self) -> None:
        super().__init__("its marks of our section are damaged: remove or mend the lines <!-- layerlore:... -->")


def find_section(text: str) -> MemorySection | None:
    """The section of a text; None without one. Raises SectionDamaged."""
    begins, ends = list(_BEGIN.finditer(text)), list(_END.finditer(text))
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0].start() < begins[0].end():
        raise SectionDamaged
    begin, end = begins[0], ends[0]
    inside = text[begin.end() : end.start()]
    lines = tuple(line.rstrip() for line in inside.splitlines() if line.strip())
    return MemorySection(
        begin.start(),
        end.end(),
        lines,
        begin["owner"] or "",
        frozenset(end["lines"].split()),
        bool(begin["new"]),
    )


def put_section(text: str | None, lines: Sequence[str], owner: str) -> str:
    """The text with these lines as its section, which goes to the end if it is new. The rest stays as it is. None: the
    file does not exist. Raises SectionDamaged."""
    old = find_section(text or "")
    made_file = text is None or (old is not None and old.made_file)
    text = text or ""
    if "\r\n" in text or text.endswith("\r"):
        newline = "\r\n"
    else:
        newline = "\n"
    hashes = [_hash(line) for line in lines if line.strip()]
    begin = f"<!-- layerlore:begin {owner}{' new' if made_file else ''} -->"
    end = " ".join(("<!-- layerlore:end", *hashes, "-->"))
    section = newline.join((begin, *lines, end))
    if old is not None:
        kept_break = "\r" if text[old.starts : old.ends].endswith("\r") else ""
        return text[: old.starts] + section + kept_break + text[old.ends :]
    # Exactly one line break goes in front, whatever the text ends with, since drop_section removes exactly one.
    return text + (newline if text else "") + section + newline


def drop_section(text: str) -> str:
    """The text as it was without its section. Raises SectionDamaged."""
    old = find_section(text)
    if old is None:
        return text
    before, after = text[: old.starts], text[old.ends :]
    # The section ends before the line feed of its last mark, and may include its carriage return.
    after = after.removeprefix("\n")
    shorter = before.removesuffix("\n")
    if shorter != before and "\r\n" in text:
        shorter = shorter.removesuffix("\r")
    # Text behind the section must not join the line in front of it.
    if after and shorter and not shorter.endswith("\n"):
        return before + after
    return shorter + after


def _hash(line: str) -> str:
    return hashlib.sha256(line.strip().encode("utf-8", "replace")).hexdigest()[:_HASH_CHARS]


def name_owner(*names: str) -> str:
    """A short name for an owner, which reveals nothing to a reader of the file."""
    return hashlib.sha256("\0".join(names).encode("utf-8", "replace")).hexdigest()[:_HASH_CHARS]


MemoryFolder = Literal["claude-memory", "codex-memory"]

INDEX = "MEMORY.md"
_CODEX_SUMMARY = "memory_summary.md"
# Codex writes the first two for reading, and the notes at a person's request. It makes the two from its other files.
_CODEX_FILES = (INDEX, _CODEX_SUMMARY, "extensions/ad_hoc/notes/*.md")
# Parts of Codex's files that only lead to other files.
_CODEX_POINTERS = ("rollout_summary_files", "keywords", "What's in Memory")
_CODEX_VERSION = linear_re.compile(r"\A\ufeff?v\d+[ \t]*\r?\n")

MOST_BYTES = 1024 * 1024
"""A file of a host's memory has some kilobytes; a host shows its model 25 of them."""
MOST_FILES = 2_000

_FRONT = linear_re.compile(r"\A\ufeff?---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", linear_re.DOTALL)
_FIELD = linear_re.compile(r"^[ \t]*(\w+):[ \t]*(.*?)[ \t]*$", linear_re.MULTILINE)
_HEADING = linear_re.compile(r"^(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_BOLD_HEADING = linear_re.compile(r"^\*\*([^*]+)\*\*:?[ \t]*$")
_ITEM = linear_re.compile(r"^(?:[-*+]|\d{1,9}[.)])[ \t]+(.*)$")
_FENCE = linear_re.compile(r"^[ \t]*(?:```|~~~)")
_COMMENT = linear_re.compile(r"^[ \t]*<!--[^\n]*-->[ \t]*$")
# A line of Claude Code's index: a link to a file of the folder, and a few words about it.
_LINK = linear_re.compile(r"^\[[^\[\]]*\]\(([^()]+\.md)\)")
_BOLD_LEVEL = 7
_MEMORY_TYPES = ("user", "feedback", "project", "reference")


MemoryNotes = Iterator[ForeignNote | UnreadableItem]


def find_memory_kind(path: Path) -> MemoryFolder | Literal["section"] | None:
    """The kind of a Markdown file or folder: a host's memory, or a file with our section; None for anything else. Raises
    OSError."""
    if path.is_dir():
        if (path / _CODEX_SUMMARY).is_file():
            return "codex-memory"
        return "claude-memory" if (path / INDEX).is_file() else None
    text = read_regular(str(path), MOST_BYTES).decode("utf-8", "replace").replace("\r\n", "\n")
    try:
        if find_section(text) is not None:
            return "section"
    except SectionDamaged as error:
        raise InvalidInput(f"{path}: {error}") from None
    if path.name == _CODEX_SUMMARY:
        return "codex-memory"
    front, _ = read_front(text)
    is_memory = "name" in front and "description" in front and front.get("type") in _MEMORY_TYPES
    return "claude-memory" if is_memory or path.name == INDEX else None


def read_memory(path: Path, of: MemoryFolder) -> MemoryNotes:
    """The notes of a host's memory folder, or of one file of it. Links in the folder are not followed."""
    files = list_memory_files(path, of) if path.is_dir() else [path]
    for file in files[:MOST_FILES]:
        try:
            text = read_text(file, follow=file is path)
            notes = [*read_notes(text, file, of)]
        except (OSError, UnicodeDecodeError, SectionDamaged) as error:
            yield UnreadableItem(str(file), _why(error))
            continue
        yield from notes
    if len(files) > MOST_FILES:
        yield UnreadableItem(str(path), f"it has more than {MOST_FILES:,} files; the others are left out")


def list_memory_files(folder: Path, of: MemoryFolder) -> list[Path]:
    """The files of a memory folder, in order; of Codex's folder only those for reading."""
    patterns = _CODEX_FILES if of == "codex-memory" else ("**/*.md",)
    top = folder.resolve()
    found = {file for pattern in patterns for file in folder.glob(pattern)}
    # A subfolder that is a link leads to another place.
    inside = (file for file in found if file.parent.resolve().is_relative_to(top))
    return sorted(file for file in inside if not any(part.startswith(".") for part in file.relative_to(folder).parts))


def read_section(path: Path) -> MemoryNotes:
    """The notes in our section of a file. In a repository their trust is "shared", since others can change the file."""
    try:
        section = find_section(read_text(path, follow=True))
    except SectionDamaged as error:
        raise InvalidInput(f"{path}: {error}") from None
    except UnicodeDecodeError as error:
        yield UnreadableItem(str(path), _why(error))
        return
    if section is None:
        raise InvalidInput(
            f"{path} has no section of ours: put the notes between the lines <!-- layerlore:begin --> and "
            "<!-- layerlore:end -->"
        )
    shared = is_there(str(Path(find_top(str(path)), ".git")))
    yield from read_lines("\n".join(section.lines), path, "shared" if shared else "assistant")


def read_lines(text: str, path: Path, trust: Trust) -> Iterator[ForeignNote]:
    """Lines of our section as notes."""
    at = find_time({}, path)
    for _, block in read_blocks(text):
        yield ForeignNote(block, at, file=name_file(path), trust=trust)


def read_text(path: Path, *, follow: bool) -> str:
    """The text of a Markdown file, with its line ends. Raises UnsafeFile if it is not a regular file or too large;
    OSError, UnicodeDecodeError."""
    content = read_regular(str(path), MOST_BYTES + 1, follow=follow)
    if len(content) > MOST_BYTES:
        raise UnsafeFile(str(path), f"it has more than {MOST_BYTES:,} bytes")
    return content.decode()


def _why(error: OSError | UnicodeDecodeError | SectionDamaged) -> str:
    if isinstance(error, SectionDamaged):
        return str(error)
    return getattr(error, "strerror", None) or "it is no text in UTF-8"


def read_notes(text: str, file: Path, of: MemoryFolder) -> Iterator[ForeignNote]:
    """The notes in a file's text: a file with a description is one note; in any other file each paragraph and each list
    item is one. Our own section does not count."""
    front, rest = read_front(drop_section(text).replace("\r\n", "\n"))
    at, name = find_time(front, file), name_file(file)
    about = front.get("description") or front.get("name", "")
    if about:
        whole = rest.strip() or about
        yield ForeignNote(whole, at, about if whole != about else "", file=name)
        return
    if of == "codex-memory":
        rest = _CODEX_VERSION.sub("", rest)
    for headings, block in read_blocks(rest):
        link = _LINK.match(block)
        # The index only links to this file, which has its own note.
        if link and (file.parent / link[1]).is_file():
            continue
        if of == "codex-memory" and any(heading in _CODEX_POINTERS for heading in headings):
            continue
        yield ForeignNote(block, at, " / ".join(headings), file=name)


def is_claude_memory(item: Json) -> bool:
    """Whether an item of Claude's export is its memory."""
    return isinstance(item.get("conversations_memory"), str) or isinstance(item.get("project_memories"), dict)


def read_claude_memory(item: Json, at: int) -> Iterator[ForeignNote]:
    """The notes of the memory in Claude's export: about the user, and about each project."""
    account = str(item.get("account_uuid") or "")
    texts = {"": item.get("conversations_memory")}
    projects = item.get("project_memories")
    if isinstance(projects, dict):
        texts.update({str(project): text for project, text in projects.items()})
    for project, text in texts.items():
        if isinstance(text, str):
            name = "/".join(filter(None, ("memories.json", account, project)))
            for headings, block in read_blocks(text.replace("\r\n", "\n")):
                yield ForeignNote(block, at, " / ".join(headings), file=name)


def read_front(text: str) -> tuple[Mapping[str, str], str]:
    """The fields at the beginning of a note, and the text after them. If two fields have the same name, the first one
    counts."""
    front = _FRONT.match(text)
    if front is None:
        return {}, text
    fields = reversed(_FIELD.findall(front[1]))
    return {name: _unquote(value) for name, value in fields}, text[front.end() :]


def _unquote(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == '"':
        return value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return value.strip("'")


def find_time(front: Mapping[str, str], path: Path) -> int:
    """The time of a note's last change, from its fields or else from its file; in milliseconds."""
    for name in ("modified", "updated", "created", "date"):
        try:
            found = parse_time(front.get(name) or None, name)
        except InvalidInput:
            continue
        if found is not None:
            return found
    return int(path.stat().st_mtime * 1000)


def name_file(path: Path) -> str:
    """The name of a file as people write it: ~/ stands for the home folder. Links are not resolved."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100
    try:
        return f"~/{absolute.relative_to(Path.home()).as_posix()}"
    except ValueError:
        return str(absolute)


def read_blocks(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each paragraph, list item and code block of a Markdown text, with the headings above it."""
    headings: dict[int, str] = {}
    block: list[str] = []
    in_code = False

    def end_block() -> Iterator[tuple[tuple[str, ...], str]]:
        if block:
            yield tuple(headings[level] for level in sorted(headings)), "\n".join(block).strip()
            block.clear()

    for line in text.split("\n"):
        is_fence = _FENCE.match(line) is not None
        # Code, including its blank lines, belongs to the paragraph in front of it.
        if is_fence or in_code:
            block.append(line)
            in_code = in_code != is_fence
        elif heading := _read_heading(line):
            yield from end_block()
            headings = {level: each for level, each in headings.items() if level < heading[0]}
            headings[heading[0]] = heading[1]
        elif item := _ITEM.match(line):
            yield from end_block()
            block.append(item[1])
        elif line.strip() and not _COMMENT.match(line):
            block.append(line)
        else:
            yield from end_block()
    yield from end_block()


def _read_heading(line: str) -> tuple[int, str] | None:
    """The level and the text of a heading. A line that is all bold is a heading of the lowest level."""
    if found := _HEADING.match(line):
        return len(found[1]), found[2]
    if bold := _BOLD_HEADING.match(line):
        return _BOLD_LEVEL, bold[1]
    return None


def mark_file(path: Path) -> str:
    """A mark that changes when the file does; "" if it is not a regular file. The file is not opened."""
    try:
        found = path.lstat()
    except OSError:
        return ""
    if not stat.S_ISREG(found.st_mode):
        return ""
    return f"{found.st_ino} {found.st_mtime_ns} {found.st_size}"
