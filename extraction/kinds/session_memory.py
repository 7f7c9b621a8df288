"""The writer of session memory: what a conversation is for and where it stands. The first turn that has something to keep
begins the document; after that a model notes what is new in each turn, and writes the notes into the document once they
are enough, or once the conversation rests. A turn in which the user corrects something goes into the document at once."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from layerlore.extraction.kinds import documents
from layerlore.extraction.kinds.documents import clean_line, find_repetition
from layerlore.extraction.kinds.kind import (
    AnswerRefused,
    Author,
    Claim,
    JobEnd,
    JobMaterial,
    JsonSchema,
    Kind,
    Material,
    ModelAnswer,
    NewMessages,
    Stale,
    TurnPart,
    check_unchanged,
    lines_as_json,
    lock_thread,
    read_new,
)
from layerlore.memory.documents.denied_lines import corrects_document, find_since
from layerlore.memory.documents.working_memory import WorkingMemoryDocument, parse_value
from layerlore.memory.engine.engine import Engine
from layerlore.memory.text.trust import find_trust
from layerlore.prompts import render
from layerlore.storage.core.records import Json, Message, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import session_notes, working_memory
from layerlore.storage.derived.session_notes import CATEGORIES, NewNote, Note
from layerlore.storage.derived.working_memory import DocumentSource
from layerlore.storage.messages import message_pages
from layerlore.storage.threads import threads

COMPACTED = 5
"""The number of waiting notes that are written into the document together (n8n's number). Without a document, one is
enough."""
MOST_MESSAGES = 200
MOST_NOTES = 20
OF_USERS = ("objective", "decision")
NOTE_CHARS = 500

NOTES: JsonSchema = {
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
DOCUMENT: JsonSchema = {
    "type": "object",
    "additionalProperties": False,
    "required": ["document"],
    "properties": {"document": {"type": "string"}},
}
_MEMBER: JsonSchema = {"type": ["string", "object"]}


@dataclass(frozen=True, slots=True)
class MessageSpan:
    """The messages that are read.

    ``began``: the cursor; ``read_from``: the seq after which reading began (messages in between say nothing);
    ``ended``: where the cursor moves to. ``more``: further messages follow.
    """

    began: int
    read_from: int
    ended: int
    messages: tuple[Message, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class NotesInput:
    """The messages to make notes of. ``queued``: the notes that wait already. ``begins``: no document exists yet, and a
    user's words will begin it."""

    reading: MessageSpan
    queued: tuple[Note, ...]
    begins: bool


@dataclass(frozen=True, slots=True)
class DocumentInput:
    """The document to write: of the present one, of ``notes`` among those that wait (``queued``), and of messages, if
    there are any."""

    reading: MessageSpan | None
    notes: tuple[Note, ...]
    queued: tuple[Note, ...]
    document: WorkingMemoryDocument


@dataclass(frozen=True, slots=True)
class NotesResult:
    """New notes, the time (ms since 1970) once they can be stored, and how many of the answer wait already."""

    notes: tuple[NewNote, ...]
    now: int = 0
    repeated: int = 0


@dataclass(frozen=True, slots=True)
class DocumentResult:
    """The new document, None if the present one needs no change; and the time (ms since 1970) once it can be stored.
    ``repeated``: the answer is what the document says already."""

    content: str | None
    now: int = 0
    repeated: bool = False


class SessionMemoryWriter:
    """Kind ``session_memory``."""

    name: Kind = "session_memory"

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """The messages after the cursor, to be noted; or, when the document is to be written, the document with the notes
        and, if a user speaks in them, the messages."""
        thread = await threads.find_uid(tx, claim.scope, claim.thread_uid)
        if thread is None:
            return None
        stored = await working_memory.read_current(tx, claim.scope, thread.thread_id)
        document = WorkingMemoryDocument("thread", thread.thread_id, engine.working_memory.of("thread"), stored)
        queued = await session_notes.queued(tx, claim.scope, claim.thread_uid)
        # Notes from before a clear wait until the next document takes them out of the queue.
        notes = [note for note in queued if not _was_cleared(document, note)]
        began = await threads.read_cursor(tx, claim.scope, claim.thread_uid, "session_seq")

        async def read(after: int) -> list[Message]:
            return await message_pages.read_between(
                tx, claim.scope, thread, after=after, upto=claim.seq, most=MOST_MESSAGES
            )

        found = await read_new(read, engine, began, most=MOST_MESSAGES, tools=True)
        # A document that holds only its template counts as none.
        is_empty = not documents.has_content(document.content, document.rules)
        # Without a user's words, the document would begin with what tools brought.
        if found and _a_user_speaks(found.messages):
            told = found
        else:
            told = None
        rested = bool(notes) and (found is None or _rested(engine, notes[-1], found.messages[0]))
        corrected = told is not None and _corrects(document, told)
        if len(notes) >= COMPACTED or rested or corrected or (is_empty and (notes or told)):
            return _prepare_document(engine, claim, document, notes, queued, began, told)
        if found:
            return _prepare_notes(claim, document, notes, began, found, begins=is_empty)
        return None

    def read(self, answer: ModelAnswer, material: Material) -> NotesResult | DocumentResult:
        inputs: NotesInput | DocumentInput = material.inputs
        if isinstance(inputs, NotesInput):
            return _read_notes(answer, inputs)
        return DocumentResult(documents.read_document(answer, inputs.document) or None)

    async def enrich(
        self, engine: Engine, material: Material, result: NotesResult | DocumentResult
    ) -> NotesResult | DocumentResult:
        """Mask the notes or the document. Raises AnswerRefused if the document's format, schema or limit does not take it."""
        if isinstance(result, NotesResult):
            masked = tuple(NewNote(note.category, engine.derived_text(note.text)) for note in result.notes)
            return NotesResult(masked, engine.now(), result.repeated)
        content = result.content and documents.fit_to_store(engine, material.inputs.document, result.content)
        return DocumentResult(content, engine.now(), repeated=bool(result.content) and content is None)

    async def commit(
        self,
        tx: Tx,
        claim: Claim,
        engine: Engine,
        material: Material,
        result: NotesResult | DocumentResult,
        by: Author,
    ) -> JobEnd:
        """Queue the notes, or store the document and take its notes out of the queue; and move the cursor. Raises Stale
        when messages, notes, cursor or document have changed."""
        thread = await lock_thread(tx, claim)
        if isinstance(result, NotesResult):
            return await _queue(tx, engine, claim, thread, material.inputs, result, by)
        return await _store(tx, engine, claim, thread, material.inputs, result, by)


def _a_user_speaks(messages: Sequence[Message]) -> bool:
    return any(find_trust(message) == "user" for message in messages)


def _rested(engine: Engine, note: Note, following: Message) -> bool:
    """Whether the conversation rested between a note and the message after it. The clock does not count: the same material
    is read again when a host's model has answered."""
    return following.created_at - note.created_at >= engine.working_memory.idle_ms


def _corrects(document: WorkingMemoryDocument, told: NewMessages) -> bool:
    """Whether the user corrects something in messages that the document does not know."""
    if document.changed is None:
        return False
    since = find_since(document.changed)
    unknown = [message for message in told.messages if message.created_at > since]
    return corrects_document(unknown, document.content, is_json=document.rules.format == "json")


def _was_cleared(document: WorkingMemoryDocument, note: Note) -> bool:
    """Whether the document was cleared after the note was made: then the note must not come back."""
    changed = document.changed
    return changed is not None and changed.change == "clear" and note.created_at <= changed.created_at


def _prepare_notes(
    claim: Claim,
    document: WorkingMemoryDocument,
    notes: Sequence[Note],
    began: int,
    found: NewMessages,
    *,
    begins: bool,
) -> Material:
    content: JobMaterial = {
        "session_memory": parse_value(document),
        "already_noted": _as_json(notes),
        "messages": lines_as_json(found.lines),
    }
    prompt = render("session_notes", most=MOST_NOTES)
    given = {name: content[name] for name in ("session_memory", "already_noted")}
    turn = TurnPart({"session_notes": True}, NOTES["properties"]["notes"], _read_member_notes, given, found.lines)
    inputs = NotesInput(_reading(claim, began, found), tuple(notes), begins)
    return Material(prompt.text, json.dumps(content, ensure_ascii=False), NOTES, prompt.version, inputs, turn=turn)


def _prepare_document(
    engine: Engine,
    claim: Claim,
    document: WorkingMemoryDocument,
    notes: Sequence[Note],
    queued: Sequence[Note],
    began: int,
    found: NewMessages | None,
) -> Material:
    if found:
        lines = found.lines
    else:
        lines = ()
    content: JobMaterial = {
        "session_memory": parse_value(document),
        "notes": _as_json(notes),
        "messages": lines_as_json(lines),
    }
    form = documents.describe_form(engine, document)
    prompt = render("session_document", form=form)
    given = {name: content[name] for name in ("session_memory", "notes")}
    asks: Mapping[str, Any] = {"session_document": form, "notes": bool(notes)}
    turn = TurnPart(asks, _MEMBER, lambda given: {"document": given}, given, lines)
    if found:
        reading = _reading(claim, began, found)
    else:
        reading = None
    inputs = DocumentInput(reading, tuple(notes), tuple(queued), document)
    return Material(prompt.text, json.dumps(content, ensure_ascii=False), DOCUMENT, prompt.version, inputs, turn=turn)


def _reading(claim: Claim, began: int, found: NewMessages) -> MessageSpan:
    if found.more:
        ended = found.messages[-1].seq
    else:
        ended = claim.seq
    return MessageSpan(began, found.read_from, ended, found.messages, found.more)


def _as_json(notes: Sequence[Note]) -> list[Json]:
    return [{"category": note.category, "text": note.text} for note in notes]


def _read_member_notes(given: Any) -> ModelAnswer:
    # Beside other kinds, an empty list says that nothing is worth a note.
    return {"notes": given, "nothing_to_note": not given}


def _read_notes(answer: ModelAnswer, inputs: NotesInput) -> NotesResult:
    """The notes of an answer that are not queued yet. Raises AnswerRefused."""
    given = answer.get("notes")
    if not isinstance(given, list):
        raise AnswerRefused("notes: must be a list of objects with category and text, which may be empty")
    if len(given) > MOST_NOTES:
        raise AnswerRefused(f"notes: there are {len(given)}; at most {MOST_NOTES} are allowed: note what matters")
    notes = [_read_note(each, f"notes[{place}]") for place, each in enumerate(given)]
    if not _a_user_speaks(inputs.reading.messages):
        # Only a user states objectives and decisions; what tools bring is a state of things.
        notes = [replace(note, category="state") if note.category in OF_USERS else note for note in notes]
    distinct = list(dict.fromkeys(note for note in notes if note.text))
    if not distinct and answer.get("nothing_to_note") is not True:
        raise AnswerRefused("notes: there is none; if nothing is worth a note, say so with nothing_to_note = true")
    if (repeated := find_repetition([note.text for note in distinct])) is not None:
        raise AnswerRefused(f"notes: {repeated}; note each thing once")
    # A repeated job may bring notes that already wait.
    waiting = {(note.category, note.text) for note in inputs.queued}
    new = tuple(note for note in distinct if (note.category, note.text) not in waiting)
    return NotesResult(new, repeated=len(notes) - len(new))


def _read_note(raw: Any, where: str) -> NewNote:
    if isinstance(raw, dict):
        category = raw.get("category")
    else:
        category = None
    if category not in CATEGORIES:
        raise AnswerRefused(f"{where}.category: must be one of {', '.join(CATEGORIES)}")
    text = raw.get("text")
    if not isinstance(text, str):
        raise AnswerRefused(f"{where}.text: must be a string")
    return NewNote(category, clean_line(text, NOTE_CHARS))


async def _check_reading(tx: Tx, claim: Claim, thread: Thread, reading: MessageSpan) -> None:
    """Raises Stale if the cursor or the messages after it have changed."""
    if await threads.read_cursor(tx, claim.scope, claim.thread_uid, "session_seq") != reading.began:
        raise Stale("others noted these messages meanwhile")
    last = reading.messages[-1].seq
    now = await message_pages.read_between(
        tx, claim.scope, thread, after=reading.read_from, upto=last, most=len(reading.messages) + 1
    )
    check_unchanged(now, reading.messages)


async def _queue(
    tx: Tx, engine: Engine, claim: Claim, thread: Thread, inputs: NotesInput, result: NotesResult, by: Author
) -> JobEnd:
    uid, reading = claim.thread_uid, inputs.reading
    await _check_reading(tx, claim, thread, reading)
    await session_notes.add(
        tx,
        claim.scope,
        uid,
        result.notes,
        from_seq=reading.messages[0].seq,
        to_seq=reading.messages[-1].seq,
        model=by.model,
        prompt=by.prompt,
        now=result.now,
    )
    await threads.move_cursor(tx, claim.scope, uid, "session_seq", reading.ended)
    waiting = len(inputs.queued) + len(result.notes)
    goes_on = reading.more or waiting >= COMPACTED
    due_at = None
    # Fewer notes wait until the conversation rests; then the next job writes them into the document.
    if not goes_on and waiting and not inputs.begins:
        newest = result.now if result.notes else inputs.queued[-1].created_at
        due_at = newest + engine.working_memory.idle_ms
    return JobEnd(
        claim.seq - 1 if goes_on or due_at is not None else None,
        kept=(f"session_memory: {len(result.notes)} notes",) if result.notes else (),
        duplicates=(f"session_memory: {result.repeated} notes",) if result.repeated else (),
        due_at=due_at,
    )


async def _store(
    tx: Tx, engine: Engine, claim: Claim, thread: Thread, inputs: DocumentInput, result: DocumentResult, by: Author
) -> JobEnd:
    uid, reading = claim.thread_uid, inputs.reading
    if await session_notes.queued(tx, claim.scope, uid) != list(inputs.queued):
        raise Stale("the notes changed meanwhile")
    stored = await working_memory.read_current(tx, claim.scope, thread.thread_id)
    # Another writer's version would be replaced by one that knows nothing of it.
    if stored != inputs.document.changed:
        raise Stale("somebody changed the document meanwhile")
    if reading is not None:
        await _check_reading(tx, claim, thread, reading)
    if result.content is not None:
        sources = [DocumentSource(uid, note.from_seq, note.to_seq) for note in inputs.notes]
        if reading is not None:
            sources.append(DocumentSource(uid, reading.messages[0].seq, reading.messages[-1].seq))
        await documents.store_document(
            tx, engine, claim, thread, inputs.document, result.content, sources, by, now=result.now
        )
    # All queued notes go, also those from before a clear, which must not come back.
    await session_notes.take_out(tx, claim.scope, uid, [note.note_id for note in inputs.queued])
    if reading is not None:
        await threads.move_cursor(tx, claim.scope, uid, "session_seq", reading.ended)
    # The cursor may still be behind the claim: the next job reads the messages that this one left.
    cursor = await threads.read_cursor(tx, claim.scope, uid, "session_seq")
    return JobEnd(
        claim.seq - 1 if cursor < claim.seq and (reading is None or reading.more) else None,
        kept=("session_memory",) if result.content is not None else (),
        duplicates=("session_memory: it says that already",) if result.repeated else (),
    )
