"""Our section of a file that a host, a person or a team writes too: CLAUDE.md, AGENTS.md, MEMORY.md.

Two lines mark it. The first names its owner, so that the memories of two people never mix in one file. The last has a
short hash of each line that we wrote, so that a line of somebody else in it is known as new.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import LayerloreError

_BEGIN = linear_re.compile(
    r"^<!-- layerlore:begin(?: (?P<owner>[0-9a-f]{8}))?(?P<new> new)? -->[ \t]*\r?$", linear_re.MULTILINE
)
_END = linear_re.compile(r"^<!-- layerlore:end(?P<lines>(?: [0-9a-f]{8})*) -->[ \t]*\r?$", linear_re.MULTILINE)
_HASH_CHARS = 8


@dataclass(frozen=True, slots=True)
class MemorySection:
    """A section in a text: where it starts and ends, its lines, whose it is ("" if a person wrote the marks), the hashes
    of our own lines, and whether we made the file."""

    starts: int
    ends: int
    lines: tuple[str, ...]
    owner: str
    known: frozenset[str]
    made_file: bool

    @property
    def new_lines(self) -> list[str]:
        """The lines that somebody else wrote into it."""
        return [line for line in self.lines if _hash(line) not in self.known]


class SectionDamaged(LayerloreError):
    """A text with one mark of a section, or more than two: where the section ends is a guess, and a guess could take what
    others wrote."""

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
    """The text with these lines as its section, at the end if it has none yet. Everything else stays as it is. None: there
    is no file. Raises SectionDamaged."""
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
    # Exactly one line break goes in front, whatever the text ends with, so that exactly one is taken away again.
    return text + (newline if text else "") + section + newline


def drop_section(text: str) -> str:
    """The text as it was without its section. Raises SectionDamaged."""
    old = find_section(text)
    if old is None:
        return text
    before, after = text[: old.starts], text[old.ends :]
    # The match ends before the line feed of the last mark, and may have taken its carriage return.
    after = after.removeprefix("\n")
    shorter = before.removesuffix("\n")
    if shorter != before:
        shorter = shorter.removesuffix("\r") if "\r\n" in text else shorter
    # What somebody wrote behind the section must not join the line in front of it.
    if after and shorter and not shorter.endswith("\n"):
        return before + after
    return shorter + after


def _hash(line: str) -> str:
    return hashlib.sha256(line.strip().encode("utf-8", "replace")).hexdigest()[:_HASH_CHARS]


def name_owner(*names: str) -> str:
    """A short name for an owner, which tells a reader of the file nothing."""
    return hashlib.sha256("\0".join(names).encode("utf-8", "replace")).hexdigest()[:_HASH_CHARS]
