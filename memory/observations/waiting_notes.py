"""Notes that were made and are not shown yet: observations ahead of their threshold, and what is to be written into the
session memory."""

from layerlore.memory.engine.engine import Engine
from layerlore.memory.observations.observation_answers import QueuedNote, WaitingNotes
from layerlore.memory.observations.observation_text import show_note
from layerlore.memory.rules.pages import fit_entries
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import observations, session_notes
from layerlore.storage.derived.observations import Observation
from layerlore.storage.derived.session_notes import Note
from layerlore.storage.threads import threads

_SHARE = 4  # of an answer that they may take


async def list_waiting_notes(engine: Engine, scope: Scope, thread_id: str) -> WaitingNotes:
    """The newest of a thread's waiting notes, in their order, as many as a part of an answer holds: ``noted_ahead`` and
    ``for_session_memory``, each left out where there is none."""
    ahead, queued = await engine.database.read(_read, scope, thread_id)
    most = engine.limits.answer_bytes // _SHARE
    waiting: WaitingNotes = {}
    if ahead:
        waiting["noted_ahead"] = fit_entries([show_note(row) for row in reversed(ahead)], most)[::-1]
    if queued:
        waiting["for_session_memory"] = fit_entries([_show_note(note) for note in reversed(queued)], most)[::-1]
    return waiting


async def _read(tx: Tx, scope: Scope, thread_id: str) -> tuple[list[Observation], list[Note]]:
    try:
        thread = await threads.find(tx, scope, thread_id)
    except NotFound:
        return [], []
    ahead = await observations.read(tx, scope, thread.thread_uid, "buffered")
    return ahead, await session_notes.queued(tx, scope, thread.thread_uid)


def _show_note(note: Note) -> QueuedNote:
    return {"category": note.category, "text": note.text, "from_seq": note.from_seq, "to_seq": note.to_seq}
