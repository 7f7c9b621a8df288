"""Notes in the search index: the lines of the profile and of session memories, the steps of plans, attempts and
observations.

Each is indexed as a message of a thread that is named after its place (``plan:<thread_uid>``), at a seq that is made of
its text: a line that stays keeps its row, its vector and the time at which it was written. The index says only where to
look: a note that is found is read from where it stands, so that nothing is shown that is gone from there.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from sqlalchemy import func, select

from layerlore.storage.core.json_text import value_of
from layerlore.storage.core.records import Json, Message, Role, Scope, SearchText, Thread
from layerlore.storage.core.scopes import (
    NOTE_KINDS,
    NoteKind,
    in_scope,
    in_thread,
    note_place,
    of_scope,
    of_thread,
    read_note_place,
)
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import attempts, observations, plans, search_rows
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import working_memory
from layerlore.storage.index import lexical
from layerlore.storage.index.lexical import IndexEntry
from layerlore.storage.threads import threads

_BULLETS = "-*+• \t"


def split_notes(content: str) -> list[str]:
    """The notes of a document: of text its lines, of a JSON object its values, each with its path. A heading stands
    before the lines under it, and is not a note of its own."""
    # Most documents are Markdown, so only a text that begins as an object is parsed.
    if content.lstrip().startswith("{"):
        value = value_of(content)
    else:
        value = None
    if isinstance(value, dict):
        return [f"{path}: {leaf}" for path, leaf in _leaves(value, "") if leaf.strip()]
    return list(_split_lines(content))


def _split_lines(content: str) -> Iterator[str]:
    section = label = ""
    for raw in content.splitlines():
        line = raw.strip()
        if line.startswith("#"):
            section, label = line.lstrip("#").strip(), ""
        elif not line:
            label = ""
        elif line.endswith(":"):
            # An empty field of a template says nothing.
            if line[0] in _BULLETS:
                label = ""
            else:
                label = line.rstrip(":")
        elif text := line.lstrip(_BULLETS):
            heading = label or section
            yield f"{heading}: {text}" if heading else text


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        # Items of a list stand under the path of the list: their numbers say nothing.
        for inner in value:
            yield from _leaves(inner, path)
    elif value is not None:
        yield path, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


MOST_NOTES = 500
"""The most notes of one place that are indexed: the newest attempts and observations, the first lines of a document."""

# Seqs of notes begin above those that messages have, and fit in 31 bits with them.
_FIRST_SEQ = 2**30
_PROFILE: NoteKind = "profile"
_SESSION: NoteKind = "session_memory"
OF_THREAD: tuple[NoteKind, ...] = tuple(kind for kind in NOTE_KINDS if kind != "profile")
OF_MESSAGES: tuple[NoteKind, ...] = ("session_memory", "observation")
"""The notes of a thread that are made from its messages, and go and come with them."""


@dataclass(frozen=True, slots=True)
class IndexedNote:
    """A note as it stands at its place. ``key`` distinguishes it from others with the same text; ``about`` says of a
    step its status, of an attempt its task and whether it failed, of an observation whose word it is."""

    text: str
    said_at: int
    key: str = ""
    about: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotePlace:
    """The notes of one place by their seqs, and the name of their thread, "" for the profile."""

    kind: NoteKind
    thread_id: str
    notes: dict[int, IndexedNote]


_PLAN = select(plans.c.plan, plans.c.created_at).where(in_thread(plans)).order_by(plans.c.revision.desc()).limit(1)
_ATTEMPTS = (
    select(
        *(attempts.c[name] for name in ("task_key", "attempt", "action", "result", "error", "diagnosis")),
        attempts.c.fix_applied,
        attempts.c.created_at,
    )
    .where(in_thread(attempts))
    .order_by(attempts.c.created_at.desc(), attempts.c.task_key.desc(), attempts.c.attempt.desc())
    .limit(MOST_NOTES)
)
_OBSERVATIONS = (
    select(observations.c.observation_id, observations.c.text, observations.c.trust, observations.c.said_at)
    # A row without text only keeps the place of notes that are to be made again.
    .where(in_thread(observations), any_of(observations.c.status, "statuses"), observations.c.text != "")
    .order_by(observations.c.batch.desc(), observations.c.observation_id.desc())
    .limit(MOST_NOTES)
)


async def _read_document(tx: Tx, scope: Scope, thread_uid: str) -> list[IndexedNote]:
    version = await working_memory.read_newest_of(tx, scope, thread_uid)
    if version is None:
        return []
    return [IndexedNote(text, version.created_at) for text in split_notes(version.content)[:MOST_NOTES]]


async def _read_plan(tx: Tx, scope: Scope, thread_uid: str) -> list[IndexedNote]:
    row = await tx.one(_PLAN, **of_thread(scope, thread_uid))
    if row is not None:
        plan = value_of(row[0])
    else:
        plan = None
    if row is None or not isinstance(plan, dict) or not isinstance(plan.get("steps"), list):
        return []
    if plan.get("goal"):
        goal = [IndexedNote(str(plan["goal"]), row[1], about={"status": "goal"})]
    else:
        goal = []
    return [*goal, *(_make_step(step, row[1]) for step in plan["steps"][:MOST_NOTES])]


def _make_step(step: Json, written_at: int) -> IndexedNote:
    result = step.get("result")
    if result:
        text = f"{step['description']} → {result}"
    else:
        text = step["description"]
    # A step with another status becomes another note, which is indexed anew.
    return IndexedNote(
        text, written_at, f"{step['id']} {step['status']}", {"step": step["id"], "status": step["status"]}
    )


async def _read_attempts(tx: Tx, scope: Scope, thread_uid: str) -> list[IndexedNote]:
    found = []
    for task_key, number, action, result, error, diagnosis, fix, logged_at in await tx.all(
        _ATTEMPTS, **of_thread(scope, thread_uid)
    ):
        if error:
            ended = f"{action} → FAILED: {error}"
        else:
            ended = f"{action} → {result}"
        more = [f"{name}: {text}" for name, text in (("Diagnosis", diagnosis), ("Fix applied", fix)) if text]
        text = f"{task_key}: {' | '.join([ended, *more])}"
        about = {"task_key": task_key, "attempt": number, "status": "failed" if error else "done"}
        found.append(IndexedNote(text, logged_at, str(number), about))
    return found


async def _read_observations(tx: Tx, scope: Scope, thread_uid: str) -> list[IndexedNote]:
    rows = await tx.all(_OBSERVATIONS, **of_thread(scope, thread_uid), statuses=["active", "buffered"])
    return [IndexedNote(text, said_at, str(id_), {"trust": trust}) for id_, text, trust, said_at in rows]


_READERS = {
    "profile": _read_document,
    "session_memory": _read_document,
    "plan": _read_plan,
    "attempt": _read_attempts,
    "observation": _read_observations,
}


async def read_place(tx: Tx, scope: Scope, kind: NoteKind, thread_uid: str) -> NotePlace:
    """The notes of a kind as they stand in the thread with this uid, or (empty) in the profile; none of a thread that is
    deleted."""
    if thread_uid:
        thread = await threads.find_uid(tx, scope, thread_uid)
    else:
        thread = None
    if thread_uid and thread is None:
        return NotePlace(kind, "", {})
    found = await _READERS[kind](tx, scope, thread_uid)
    return NotePlace(kind, thread.thread_id if thread else "", _number(kind, found))


def _number(kind: NoteKind, found: Iterable[IndexedNote]) -> dict[int, IndexedNote]:
    numbered: dict[int, IndexedNote] = {}
    for note in found:
        digest = hashlib.sha256("\0".join((kind, note.key, note.text)).encode()).digest()
        seq = _FIRST_SEQ + int.from_bytes(digest[:4], "big") % _FIRST_SEQ
        # Two notes may have the same short digest: the later one takes the next free seq.
        while seq in numbered and numbered[seq] != note:
            if seq < 2 * _FIRST_SEQ - 1:
                seq = seq + 1
            else:
                seq = _FIRST_SEQ
        numbered[seq] = note
    return numbered


_INDEXED = (
    select(search_rows.c.seq, func.max(search_rows.c.said_at)).where(in_thread(search_rows)).group_by(search_rows.c.seq)
)
_ANY = select(search_rows.c.row_id).where(in_scope(search_rows), any_of(search_rows.c.role, "roles")).limit(1)
_ROWS_AT = (
    select(search_rows.c.row_id)
    .where(in_scope(search_rows), any_of(search_rows.c.thread_uid, "places"))
    .order_by(search_rows.c.row_id)
)


async def _read_times(tx: Tx, scope: Scope, place: str) -> dict[int, int]:
    """The seqs that are indexed at a place, each with the time at which its note was written."""
    return {int(seq): int(said_at) for seq, said_at in await tx.all(_INDEXED, **of_thread(scope, place))}


async def refresh(
    tx: Tx,
    scope: Scope,
    thread_uid: str,
    search_text: SearchText,
    kinds: Sequence[NoteKind] = OF_THREAD,
    *,
    anew: bool = False,
) -> int:
    """Bring the index up to date with the notes of these kinds of a thread; the transaction holds the thread. Returns how
    many notes are indexed now that were not before; with ``anew`` all are indexed again.

    Every change of a thread's notes ends with this, and so does what hides, shows or erases them.
    """
    added = 0
    for kind in kinds:
        place = note_place(kind, thread_uid)
        standing = await read_place(tx, scope, kind, thread_uid)
        times = await _read_times(tx, scope, place)
        if anew:
            gone = list(times)
        else:
            gone = [seq for seq in times if seq not in standing.notes]
        if gone:
            await lexical.remove(tx, scope, place, gone)
        new = [
            # A note that is indexed anew keeps the time at which it was first written.
            _make_message(standing, place, seq, note, times.get(seq, note.said_at))
            for seq, note in standing.notes.items()
            if anew or seq not in times
        ]
        await lexical.put(tx, scope, [_make_row(kind, message, search_text) for message in new])
        added += len(new)
    return added


async def refresh_document(tx: Tx, scope: Scope, thread: Thread | None, search_text: SearchText) -> int:
    """Bring the index up to date with the session memory of a thread, or (None) with the profile; the transaction holds
    the thread, or the resource. Returns what ``refresh`` returns."""
    uid, kind = (thread.thread_uid, _SESSION) if thread else ("", _PROFILE)
    return await refresh(tx, scope, uid, search_text, (kind,))


def _make_row(kind: NoteKind, message: Message, search_text: SearchText) -> IndexEntry:
    # A note that is worded as a question says what it is about, and each note stands for itself.
    indexed = replace(search_text(message), asks=0, empty=0, mark=str(message.seq))
    return IndexEntry(message.thread_id, message.seq, kind, message.said_at, indexed)


def _make_message(standing: NotePlace, place: str, seq: int, note: IndexedNote, written_at: int) -> Message:
    """A note in the shape of a message, as what works with rows of the index takes it. Its metadata say what it is."""
    if standing.thread_id:
        thread = {"thread_id": standing.thread_id}
    else:
        thread = {}
    return Message(
        thread_id=place,
        seq=seq,
        id=f"{standing.kind}-{hashlib.sha256(f'{place} {seq}'.encode()).hexdigest()[:12]}",
        role=cast(Role, standing.kind),
        name=None,
        parts=[{"type": "text", "text": note.text}],
        metadata={**thread, **note.about},
        tokens=0,
        encoding="",
        created_at=written_at,
        said_at=written_at,
        revision=1,
    )


async def as_messages(tx: Tx, scope: Scope, keys: Collection[tuple[str, int]]) -> dict[tuple[str, int], Message]:
    """The notes at these places and seqs of the index that are still there, in the shape of messages."""
    wanted: dict[str, list[int]] = {}
    for place, seq in keys:
        wanted.setdefault(place, []).append(seq)
    found: dict[tuple[str, int], Message] = {}
    for place, seqs in wanted.items():
        of = read_note_place(place)
        if of is None:
            continue
        standing = await read_place(tx, scope, *of)
        times = await _read_times(tx, scope, place)
        for seq in seqs:
            if seq in standing.notes:
                note = standing.notes[seq]
                found[place, seq] = _make_message(standing, place, seq, note, times.get(seq, note.said_at))
    return found


async def stand_in(tx: Tx, scope: Scope, thread_uid: str) -> bool:
    """Whether a thread, or (empty ``thread_uid``) the profile, has notes."""
    kinds: Sequence[NoteKind]
    if thread_uid:
        kinds = OF_THREAD
    else:
        kinds = (_PROFILE,)
    for kind in kinds:
        if (await read_place(tx, scope, kind, thread_uid)).notes:
            return True
    return False


async def has_any(tx: Tx, scope: Scope) -> bool:
    """Whether the index of a scope has a note."""
    return await tx.scalar(_ANY, **of_scope(scope), roles=list(NOTE_KINDS)) is not None


async def rows_at(tx: Tx, scope: Scope, places: Sequence[str]) -> list[int]:
    """The row ids, ascending, of the notes at these places of the index."""
    return await tx.scalars(_ROWS_AT, **of_scope(scope), places=list(places))
