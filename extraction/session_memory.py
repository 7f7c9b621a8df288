"""The session memory: what a conversation is for and where it stands. After each turn a model notes what is new; once
there are enough notes, it writes them into the document."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from layerlore.extraction import documents
from layerlore.extraction.degenerate import repetition
from layerlore.extraction.heard import check_same, heard, locked
from layerlore.extraction.kind import Claim, Kind, Material, Refused, Stale, Thinker
from layerlore.extraction.transcript import transcript
from layerlore.extraction.wording import in_one_line
from layerlore.memory.engine import Engine
from layerlore.memory.trust import trust_of
from layerlore.memory.working_memory import Document
from layerlore.prompts import render
from layerlore.storage import messages_behind, session_notes, thread_cursors, threads, working_memory
from layerlore.storage.document_sources import DocumentSource
from layerlore.storage.records import Json, Message, Thread
from layerlore.storage.session_notes import CATEGORIES, NewNote, Note
from layerlore.storage.transaction import Tx

COMPACTED = 5
"""So many notes are written into the document (n8n's number)."""
MOST_MESSAGES = 200
MOST_NOTES = 20
OF_USERS = ("objective", "decision")
NOTE_CHARS = 500

NOTES: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["notes", "nothing_to_note"],
    "properties": {
        "notes": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["category", "text"],
                "properties": {"category": {"type": "string", "enum": list(CATEGORIES)}, "text": {"type": "string"}},
            },
        },
        "nothing_to_note": {"type": "boolean"},
    },
}
DOCUMENT: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["document"],
    "properties": {"document": {"type": "string"}},
}


@dataclass(frozen=True, slots=True)
class Noting:
    """The cursor, where reading began (what is between says nothing), and the messages behind it of which notes are to
    be made. ``queued``: what waits already. ``more``: there are others behind them."""

    began: int
    read_from: int
    ended: int
    messages: tuple[Message, ...]
    queued: tuple[Note, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Compacting:
    """The notes that are to be written into the document, and all that wait."""

    notes: tuple[Note, ...]
    queued: tuple[Note, ...]
    document: Document


@dataclass(frozen=True, slots=True)
class Noted:
    notes: tuple[NewNote, ...]
    now: int = 0


@dataclass(frozen=True, slots=True)
class Compacted:
    """The new document; None: the one that there is says it all."""

    content: str | None
    now: int = 0


class SessionMemory:
    """Kind ``session_memory``."""

    name: Kind = "session_memory"
    source = "session_memory"

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """The notes that wait, if there are enough of them; else what was said and done behind the cursor."""
        thread = await threads.find_uid(tx, claim.scope, claim.thread_uid)
        if thread is None:
            return None
        stored = await working_memory.current(tx, claim.scope, thread.thread_id)
        document = Document("thread", thread.thread_id, engine.working_memory.of("thread"), stored)
        queued = await session_notes.queued(tx, claim.scope, claim.thread_uid)
        notes = [note for note in queued if not _was_cleared(document, note)]
        if len(notes) >= COMPACTED:
            return _compaction(engine, document, notes, queued)
        began = await thread_cursors.read(tx, claim.scope, claim.thread_uid, "session_seq")

        async def read(after: int) -> list[Message]:
            return await messages_behind.between(
                tx, claim.scope, thread, after=after, upto=claim.seq, most=MOST_MESSAGES
            )

        found = await heard(read, engine, began, most=MOST_MESSAGES, tools=True)
        if found is None:
            return None
        content: Json = {
            "session_memory": documents.shown(document),
            "already_noted": [{"category": note.category, "text": note.text} for note in notes],
            "messages": transcript(found.lines),
        }
        ended = found.messages[-1].seq if found.more else claim.seq
        prompt = render("session_notes", most=MOST_NOTES)
        basis = Noting(began, found.read_from, ended, found.messages, tuple(notes), found.more)
        return Material(prompt.text, json.dumps(content, ensure_ascii=False), NOTES, prompt.version, basis)

    def read(self, answer: Json, material: Material) -> Noted | Compacted:
        basis: Noting | Compacting = material.basis
        if isinstance(basis, Noting):
            return Noted(_notes(answer, basis))
        return Compacted(documents.read_document(answer, basis.document) or None)

    async def ready(self, engine: Engine, material: Material, result: Noted | Compacted) -> Noted | Compacted:
        """Fit to be stored. Raises Refused for what the document's format, schema or limit does not take."""
        if isinstance(result, Noted):
            told = tuple(NewNote(note.category, engine.derived_text(note.text)) for note in result.notes)
            return Noted(told, engine.now())
        content = result.content and documents.fit_to_store(engine, material.basis.document, result.content)
        return Compacted(content, engine.now())

    async def commit(
        self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: Noted | Compacted, by: Thinker
    ) -> int | None:
        """Queue the notes and move the cursor; or store the document and take the notes out of the queue. Raises Stale
        when messages, notes, cursor or document are not as they were."""
        thread = await locked(tx, claim)
        if isinstance(result, Noted):
            due = await _queue(tx, claim, thread, material.basis, result, by)
        else:
            due = await _compact(tx, claim, thread, material.basis, result, by)
        return claim.seq - 1 if due else None

    def digested(self, material: Material) -> Json | None:
        """Session memory waits for a model."""
        return None


def _was_cleared(document: Document, note: Note) -> bool:
    """Whether somebody emptied the document after the note was made: then it is not to come back."""
    changed = document.changed
    return changed is not None and changed.change == "clear" and note.created_at <= changed.created_at


def _compaction(engine: Engine, document: Document, notes: Sequence[Note], queued: Sequence[Note]) -> Material:
    content: Json = {
        "session_memory": documents.shown(document),
        "notes": [{"category": note.category, "text": note.text} for note in notes],
    }
    prompt = render("session_memory", form=documents.form(engine, document))
    basis = Compacting(tuple(notes), tuple(queued), document)
    return Material(prompt.text, json.dumps(content, ensure_ascii=False), DOCUMENT, prompt.version, basis)


def _notes(answer: Json, basis: Noting) -> tuple[NewNote, ...]:
    """The notes of an answer that do not wait already. Raises Refused."""
    given = answer.get("notes")
    if not isinstance(given, list):
        raise Refused("notes: must be a list of objects with category and text, which may be empty")
    if len(given) > MOST_NOTES:
        raise Refused(f"notes: there are {len(given)}; at most {MOST_NOTES} are allowed: note what matters")
    notes = [_note(each, f"notes[{place}]") for place, each in enumerate(given)]
    if not any(trust_of(message) == "user" for message in basis.messages):
        # What is wanted and what is decided is a user's to say; what tools bring only tells how things stand.
        notes = [replace(note, category="state") if note.category in OF_USERS else note for note in notes]
    told = list(dict.fromkeys(note for note in notes if note.text))
    if not told and answer.get("nothing_to_note") is not True:
        raise Refused("notes: there is none; if nothing is worth a note, say so with nothing_to_note = true")
    if (said := repetition([note.text for note in told])) is not None:
        raise Refused(f"notes: {said}; note each thing once")
    waiting = {(note.category, note.text) for note in basis.queued}
    return tuple(note for note in told if (note.category, note.text) not in waiting)


def _note(raw: Any, where: str) -> NewNote:
    category = raw.get("category") if isinstance(raw, dict) else None
    if category not in CATEGORIES:
        raise Refused(f"{where}.category: must be one of {', '.join(CATEGORIES)}")
    text = raw.get("text")
    if not isinstance(text, str):
        raise Refused(f"{where}.text: must be a string")
    return NewNote(category, in_one_line(text, NOTE_CHARS))


async def _queue(tx: Tx, claim: Claim, thread: Thread, basis: Noting, result: Noted, by: Thinker) -> bool:
    """Returns whether there is more to do."""
    uid = claim.thread_uid
    if await thread_cursors.read(tx, claim.scope, uid, "session_seq") != basis.began:
        raise Stale("others noted these messages meanwhile")
    last = basis.messages[-1].seq
    now = await messages_behind.between(
        tx, claim.scope, thread, after=basis.read_from, upto=last, most=len(basis.messages) + 1
    )
    check_same(now, basis.messages)
    await session_notes.add(
        tx,
        claim.scope,
        uid,
        result.notes,
        from_seq=basis.messages[0].seq,
        to_seq=last,
        model=by.model,
        prompt=by.prompt,
        now=result.now,
    )
    await thread_cursors.move(tx, claim.scope, uid, "session_seq", basis.ended)
    return basis.more or len(basis.queued) + len(result.notes) >= COMPACTED


async def _compact(tx: Tx, claim: Claim, thread: Thread, basis: Compacting, result: Compacted, by: Thinker) -> bool:
    """Returns whether there is more to do."""
    uid = claim.thread_uid
    if await session_notes.queued(tx, claim.scope, uid) != list(basis.queued):
        raise Stale("the notes changed meanwhile")
    stored = await working_memory.current(tx, claim.scope, thread.thread_id)
    if stored != basis.document.changed:
        raise Stale("somebody changed the document meanwhile")
    if result.content is not None:
        sources = [DocumentSource(uid, note.from_seq, note.to_seq) for note in basis.notes]
        await documents.store(tx, claim, thread, basis.document, result.content, sources, by, now=result.now)
    await session_notes.take_out(tx, claim.scope, uid, [note.note_id for note in basis.queued])
    return await thread_cursors.read(tx, claim.scope, uid, "session_seq") < claim.seq
