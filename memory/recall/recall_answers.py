"""The hits of a recall as a program reads them."""

from typing import Literal, NotRequired, TypedDict

from layerlore.memory.entries.entry_answers import QuotedSource
from layerlore.storage.core.records import Role, Whose

Signal = Literal["lexical", "semantic"]
Confidence = Literal["sure", "unsure", "nothing"]


class AddedScores(TypedDict, total=False):
    """The part of a hit's score from each signal (``memory.recall.weights``)."""

    lexical: float
    context: float
    semantic: float
    speaker: float
    role: float
    session: float
    asks: float
    empty: float
    same: float
    answers: float
    answered: float
    followed: float


class ShownScore(AddedScores):
    """The parts of a hit's score."""

    query: int
    relevance: float
    ranking: float
    cosine: float | None
    recency: float
    words: list[str]
    context_words: list[str]


class NoteAbout(TypedDict, total=False):
    """The subject of a note: its thread, of a step or an attempt how it stands, and of a line of a session memory the
    ``newer`` words that deny it."""

    thread_id: str
    step: str
    task_key: str
    attempt: int
    status: str
    trust: str
    newer: str


class EntryAbout(TypedDict, total=False):
    """The facts about an entry beside its text and its kind."""

    origin: str
    trust: str
    pinned: bool
    expires_at: str
    unproven: list[str]
    sources: list[QuotedSource]
    newer: str
    older: list[str]


class RecalledMessage(TypedDict, total=False):
    """A message that is a hit, or stands beside one."""

    id: str
    seq: int
    role: Role
    name: str
    trust: str
    text: str
    said_at: str


class RecalledHit(RecalledMessage, total=False):
    """A hit: an entry, a message or a note, as ``kind`` says; it has the keys of EntryAbout or NoteAbout. ``newer_than``:
    the id of an earlier message that gives another value for the same thing."""

    kind: str
    whose: Whose
    about: str
    thread_id: str
    step: str
    task_key: str
    attempt: int
    status: str
    origin: str
    pinned: bool
    expires_at: str
    unproven: list[str]
    sources: list[QuotedSource]
    newer: str
    older: list[str]
    newer_than: str
    age: str
    score: float
    parts: ShownScore
    before: list[RecalledMessage]
    after: list[RecalledMessage]


class DegradedParts(TypedDict, total=False):
    """The parts that failed, and the reasons."""

    degraded: list[str]


class Certainty(TypedDict, total=False):
    """How sure the hits are, where they are not."""

    confidence: Confidence
    note: str


class RecallAnswer(TypedDict):
    """The hits, best first, and what is to be known of them all."""

    degraded: NotRequired[list[str]]
    hits: list[RecalledHit]
    confidence: NotRequired[Confidence]
    note: NotRequired[str]
    signals: list[Signal]
    held_back: NotRequired[int]
    words: NotRequired[list[str]]
    cut: NotRequired[str]
    opening: NotRequired[str]
