"""Entries as answers show them. This module imports nothing heavy: the list of tools needs it."""

from typing import Annotated, Literal, NotRequired

from pydantic import WithJsonSchema
from typing_extensions import TypedDict

from layerlore.memory.rules.answers import Stored
from layerlore.storage.core.records import Whose


class NamedEntry(TypedDict):
    id: str
    content: NotRequired[Stored[str]]


class RememberedEntry(TypedDict):
    id: str
    status: Literal["kept", "refreshed", "similar"]
    source: str
    content: NotRequired[Stored[str]]
    replaced: NotRequired[list[NamedEntry]]
    undo: NotRequired[str]
    stands: NotRequired[list[str]]
    contradicts: NotRequired[list[str]]
    candidates: NotRequired[list[NamedEntry]]
    similar: NotRequired[list[NamedEntry]]
    note: NotRequired[str]
    whose: NotRequired[Literal["project", "you"]]
    masked: NotRequired[int]
    evidence: NotRequired[Stored[str]]
    unproven: NotRequired[Stored[list[str]]]
    kept_without_kind: NotRequired[str]
    degraded: NotRequired[str]


class MarkedEntry(TypedDict):
    id: str
    pinned: bool
    wrong: bool
    undo: NotRequired[str]


class QuotedSource(TypedDict):
    """A place that an entry rests on, with its words as far as they are still there."""

    thread_id: str
    seq: int
    label: str
    quote: NotRequired[str]


class BroughtQuote(TypedDict):
    """The words that others, who share an entry, brought as its evidence."""

    label: str
    quote: str


class ReplacedEntry(TypedDict):
    id: str
    content: str
    superseded_by: str | None
    superseded_at: str
    created_at: str


class EntryRow(TypedDict):
    id: str
    whose: NotRequired[Whose]
    content: str
    kind: NotRequired[str]
    origin: str
    trust: str
    by: str
    said_at: str
    created_at: str
    pinned: NotRequired[bool]
    expires_at: NotRequired[str]
    unproven: NotRequired[list[str]]
    sources: list[QuotedSource]
    quotes: NotRequired[list[BroughtQuote]]
    contradicted_by: NotRequired[str]
    contradicts: NotRequired[list[str]]
    superseded: NotRequired[list[ReplacedEntry]]
    wrong: NotRequired[bool]


class EntryKind(TypedDict, total=False):
    """The kind of an entry, if it has one."""

    kind: str


class EntryMarks(TypedDict, total=False):
    """The text of an entry before its sources."""

    pinned: bool
    expires_at: str
    unproven: list[str]


# The page lists them for people: a schema of each entry would say nothing to it.
class EntryPage(TypedDict):
    entries: Stored[Annotated[list[EntryRow], WithJsonSchema({"type": "array", "items": {"type": "object"}})]]
    next_cursor: NotRequired[str]
    left_out: NotRequired[int]
