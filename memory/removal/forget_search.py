"""What a query to forget finds: the entries, messages, observations and lines of documents that are about it."""

from dataclasses import dataclass, field

from layerlore.memory.documents import document_lines
from layerlore.memory.engine.engine import Engine
from layerlore.memory.parts.parts import plain_text
from layerlore.memory.recall.recall import RecallRequest, find_hits, prepare_recall
from layerlore.memory.recall.results import RecallResult
from layerlore.memory.removal.topics import Topic, find_topic
from layerlore.memory.settings.documents import DocumentScope
from layerlore.memory.text.quotation import join_lines, quote_text
from layerlore.storage.core.records import Message, Scope
from layerlore.storage.removal import forget_candidates
from layerlore.storage.removal.forget_candidates import KeptPlace, Noted, WrittenDocument

MOST_HITS = 50
"""Entries and messages in one preview."""
MOST_PLACES = 10
"""Places in one preview that a forget does not change."""
# Of titles, plans, attempts and runs so many of the newest are looked at.
_PLACES_LOOKED_AT = 200
# So many are looked at: most of what a recall finds is not about the query, however well it ranks.
_LOOKED_AT = 200
# An entry that has no telling word must come this near to the best hit of a recall that is sure.
_BY_MEANING = 0.8


@dataclass(frozen=True, slots=True)
class ForgetPreview:
    """A preview of what would be forgotten. ``lines`` are those of each document that are about the query. ``kept``:
    places that are about it and stay as they are, each with its first text that is."""

    entries: list[Message] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    observations: list[Noted] = field(default_factory=list)
    lines: list[tuple[WrittenDocument, list[str]]] = field(default_factory=list)
    kept: list[tuple[KeptPlace, str]] = field(default_factory=list)

    @property
    def nothing(self) -> bool:
        return not (self.entries or self.messages or self.observations or self.lines)


async def search(engine: Engine, scope: Scope, query: str) -> ForgetPreview:
    """Search one memory for what is about a query."""
    topic = find_topic(query)
    asked = RecallRequest([query], limit=_LOOKED_AT, neighbours=False, floor=0.0)
    # Without what a recall shows beside: an entry that says otherwise is not what is to be forgotten.
    recalled = await engine.database.read(find_hits, scope, await prepare_recall(engine, scope, asked, engine.recall))
    noted = await engine.database.read(forget_candidates.list_notes, scope)
    written = await engine.database.read(forget_candidates.list_documents, scope)
    places = await engine.database.read(forget_candidates.list_kept_places, scope, most=_PLACES_LOOKED_AT)
    # Notes are looked through below, all of them.
    about = [hit for hit in recalled.hits if not hit.is_note and topic.covers(show_text(hit.message))]
    found = [hit.message for hit in about if hit.is_entry] or _find_by_meaning(topic, recalled)
    spoken = [hit.message for hit in about if not hit.is_entry]
    return ForgetPreview(
        found[:MOST_HITS],
        spoken[: MOST_HITS - len(found[:MOST_HITS])],
        [each for each in noted if topic.covers(each.text)],
        [
            (each, some)
            for each in written
            if (some := [line for line in _list_lines(engine, each) if topic.covers(line)])
        ],
        [(each, text) for each in places if (text := _find_in_place(topic, each))],
    )


def _find_in_place(topic: Topic, place: KeptPlace) -> str:
    """The first text of a place that is about a topic; empty if none is."""
    for text in place.texts:
        lines = document_lines.list_lines(text, is_json=text.startswith("{"))
        if found := next((line for line in lines if topic.covers(line)), None):
            return found
    whole = " ".join(place.texts) if place.kind == "attempt" else ""
    return whole if topic.covers(whole) else ""


def _find_by_meaning(topic: Topic, recalled: RecallResult) -> list[Message]:
    """The entries that surely mean the query, though they have none of its words: *dentist* for *dental appointment*."""
    hits = recalled.hits
    if not (topic.by_meaning and hits and recalled.confidence == "sure" and "semantic" in recalled.signals):
        return []
    least = _BY_MEANING * hits[0].score
    return [
        hit.message
        for hit in hits
        if hit.is_entry and hit.score >= least and not topic.resembles(show_text(hit.message))
    ]


def _list_lines(engine: Engine, written: WrittenDocument) -> list[str]:
    as_json = is_json(engine, "thread" if written.thread_uid else "resource")
    return document_lines.list_lines(written.content, is_json=as_json)


def is_json(engine: Engine, of: DocumentScope) -> bool:
    """Whether documents of this scope are JSON."""
    return engine.working_memory.of(of).format == "json"


def show_text(message: Message) -> str:
    """The text of a message or an entry in one line."""
    return join_lines(plain_text(message.parts, quote_text))
