"""Observations: when they are made, which ones wait, and their text for a model."""

from collections.abc import Sequence
from dataclasses import replace

from layerlore.memory.digest.digest import find_worth, weigh_extract
from layerlore.memory.engine.engine import Engine
from layerlore.memory.observations.observation_answers import (
    NoteRow,
    ObservationPage,
    ObservationRow,
    QueuedNote,
    WaitingNotes,
)
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.rules.ages import day, iso
from layerlore.memory.rules.answers import fit_entries, order_keys
from layerlore.memory.settings.note_settings import ObservationRules
from layerlore.memory.text.quotation import quote_line, wrap_block
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import observations, session_notes
from layerlore.storage.derived.observations import Observation
from layerlore.storage.derived.session_notes import Note
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Kind
from layerlore.storage.threads import threads
from layerlore.storage.threads.events import NewEvent

CLOSING = "\n</value>\n</observations>"

_ABOUT = "Notes on the earlier part of this conversation, oldest first, times in UTC; newer notes hold over older ones."
# The weight of a model's notes next to extracts, whose own weight depends on their content and length.
_OF_A_USER = {"critical": 0.65, "important": 0.36, "completion": 0.36, "info": 0.2}
_OF_OTHERS = {"critical": 0.32, "important": 0.2, "completion": 0.2, "info": 0.1}
EXTRACTED = "digest/"
"""The prefix of the prompt name of notes that no model made."""
# The tags and the description, and a line that heads a day.
_FRAME_TOKENS = 64
_DAY_TOKENS = 8


def count_observations(rows: Sequence[Observation]) -> int:
    """The most tokens that the block of these rows takes; 0 without any."""
    days = len({day(row.said_at) for row in rows})
    if rows:
        return sum(row.tokens for row in rows) + _FRAME_TOKENS + _DAY_TOKENS * days
    return 0


def render_observations(rows: Sequence[Observation], counter: TokenCounter, most_tokens: int | None = None) -> str:
    """Render the ``<observations>`` block of rows, which are in the thread's order; "" if none exist.

    With ``most_tokens`` those that matter most: what is shown with fewer tokens is also shown with more.
    """
    if most_tokens is None or sum(row.tokens for row in rows) <= most_tokens:
        text = _render_block(rows)
        if most_tokens is None or counter.text(text) <= most_tokens:
            return text
    shown = _choose_fitting(rows, most_tokens)
    text = _render_block(shown)
    while shown and counter.text(text) > most_tokens:
        # Tokens were counted row by row, and the whole block may take a few more.
        shown.remove(max(shown, key=_rank))
        text = _render_block(shown)
    return text


def render_line(marker: str, said_at: int, text: str, refers_to: str | None, *, child: bool) -> str:
    """Render one note: ``- [important] 14:05 The user moved the launch (about 2025-07-01)``."""
    if refers_to:
        about = f" (about {quote_line(refers_to)})"
    else:
        about = ""
    if child:
        return f"  - {quote_line(text)}{about}"
    return f"- [{marker}] {iso(said_at)[11:16]} {quote_line(text)}{about}"


def _render_block(rows: Sequence[Observation]) -> str:
    if not rows:
        return ""
    shown = {row.observation_id for row in rows}
    lines: list[str] = []
    today = ""
    for row in rows:
        # Without its parent in the block a note stands on its own, with marker and time.
        child = row.parent_id in shown
        if not child and day(row.said_at) != today:
            today = day(row.said_at)
            lines.append(today)
        lines.append(render_line(row.marker, row.said_at, row.text, row.refers_to, child=child))
    return wrap_block("observations", "\n".join(lines), _ABOUT)


def _choose_fitting(rows: Sequence[Observation], most_tokens: int) -> list[Observation]:
    """The longest beginning of the rows in the order of their rank that fits, in the thread's order."""
    left = most_tokens - _FRAME_TOKENS
    kept: set[int] = set()
    days: set[str] = set()
    for row in sorted(rows, key=_rank):
        left -= row.tokens + (0 if day(row.said_at) in days else _DAY_TOKENS)
        if left < 0:
            break
        kept.add(row.observation_id)
        days.add(day(row.said_at))
    return [row for row in rows if row.observation_id in kept]


def _rank(row: Observation) -> tuple[bool, float, int]:
    """The user's rules and corrections come first, then the most important notes for their room, newer ones before
    older ones."""
    of_user = row.trust == "user"
    if row.prompt.startswith(EXTRACTED):
        weight = weigh_extract(row.text)
    else:
        weight = 0.0
    # A model chose how long its notes are.
    if weight:
        worth = find_worth(weight, row.text)
    else:
        worth = (_OF_A_USER if of_user else _OF_OTHERS)[row.marker]
    return not (of_user and row.marker == "critical"), -worth, -row.observation_id


async def list_observations(engine: Engine, scope: Scope, thread_id: str, before: int | None = None) -> ObservationPage:
    """List the newest active observations of a thread in their order, as many as an answer holds; with ``before`` only
    the first ``before`` are considered.

    Returns ``observations`` (with the trust of their sources, how many reflections they went through, and which model
    wrote them), ``observed_seq`` (they cover the thread up to there) and, where they are known, ``current_task`` and
    ``next_step``. ``next`` continues with the older ones. An unknown thread has no observations yet.
    """
    try:
        thread, rows = await engine.database.read(_read_observations, scope, thread_id)
    except NotFound:
        thread, rows = Thread("", thread_id, None), []
    if before is not None:
        wanted = rows[: max(0, before)]
    else:
        wanted = rows
    # The newest are to fit first; then the page is in the order of the thread again.
    shown = fit_entries([_show_observation(row) for row in reversed(wanted)], engine.limits.answer_bytes)[::-1]
    left = len(wanted) - len(shown)
    page: ObservationPage = {
        "thread_id": thread_id,
        "observations": shown,
        "observed_seq": thread.observed_seq,
        "tokens": sum(row.tokens for row in rows),
    }
    if left:
        page["left_out"] = left
        page["next"] = {"before": left}
    if thread.current_task:
        page["current_task"] = thread.current_task
    if thread.next_step:
        page["next_step"] = thread.next_step
    return order_keys(ObservationPage, page)


async def _read_observations(tx: Tx, scope: Scope, thread_id: str) -> tuple[Thread, list[Observation]]:
    thread = await threads.find(tx, scope, thread_id)
    return thread, await observations.read(tx, scope, thread.thread_uid, "active")


def _show_observation(row: Observation) -> ObservationRow:
    note = show_note(row)
    if row.refers_to is not None:
        note["refers_to"] = row.refers_to
    if row.parent_id is not None:
        note["under"] = row.parent_id
    return {
        "id": row.observation_id,
        **order_keys(NoteRow, note),
        "reflections": row.level,
        "model": row.model,
    }


def show_note(row: Observation) -> NoteRow:
    """A note, the time of its subject, and its source messages."""
    return {
        "marker": row.marker,
        "text": row.text,
        "said_at": iso(row.said_at),
        "from_seq": row.from_seq,
        "to_seq": row.to_seq,
        "trust": row.trust,
    }


# An observer that started at the same time comes first, if it is quick.
_PATIENCE_MS = 30_000


async def request_observation(
    tx: Tx, scope: Scope, thread: Thread, more_raw: int, rules: ObservationRules, *, now: int
) -> list[NewEvent]:
    """The jobs that an append makes due, in its transaction: mostly nothing. ``thread`` is as the append left it.

    Returns what is to be written to the thread's log.
    """
    raw = thread.raw_tokens
    if more_raw <= 0:
        return []
    happened: list[NewEvent] = []
    # The count passes each step once, so a long thread requests a job a step and not one a message.
    rose = raw // rules.step > (raw - more_raw) // rules.step
    passed = raw >= rules.message_tokens > raw - more_raw
    # Notes that were made ahead take effect at once, without a wait for a model.
    if raw >= rules.message_tokens and thread.buffered_seq > thread.observed_seq:
        thread, happened = await activate_observations(tx, scope, thread, rules, now=now)
    wanted: list[tuple[Kind, int, int]] = []
    if rose or passed:
        wanted.append(("observe", thread.next_seq - 1, now))
        # If no model takes notes in time, extracts stand in for them.
        if thread.raw_tokens >= rules.stand_in_tokens:
            wanted.append(_digest(thread, now))
    if wanted:
        await job_rows.request_many(tx, scope, thread.thread_uid, wanted, now=now)
    return happened


def _digest(thread: Thread, now: int) -> tuple[Kind, int, int]:
    # Events are counted on with every change, so that this is above whatever was done.
    return "digest", thread.next_seq + thread.next_event_seq, now + _PATIENCE_MS


async def activate_observations(
    tx: Tx, scope: Scope, thread: Thread, rules: ObservationRules, *, now: int
) -> tuple[Thread, list[NewEvent]]:
    """Put the notes that were made ahead in the place of their messages, and ask for a reflection if they are many.

    Returns the thread as it is then, and what is to be written to its log.
    """
    # Read again: what was replaced by an append may have moved the observer's cursor back.
    found = await threads.lock_uid(tx, scope, thread.thread_uid)
    if found is not None:
        activated = await observations.activate(tx, scope, found, keep=rules.keep)
    else:
        activated = None
    if activated is None:
        return thread, []
    wanted: list[tuple[Kind, int, int]] = []
    if activated.tokens >= rules.reflect_tokens:
        wanted.append(("reflect", activated.observed_seq, now))
    if activated.tokens >= rules.reflect_stand_in_tokens:
        wanted.append(_digest(thread, now))
    if wanted:
        await job_rows.request_many(tx, scope, thread.thread_uid, wanted, now=now)
    after = replace(thread, observed_seq=activated.observed_seq, raw_tokens=activated.raw_tokens)
    return after, [NewEvent("observations_activated", {"observed_seq": activated.observed_seq})]


_SHARE = 4  # of an answer that they may take


async def list_waiting_notes(engine: Engine, scope: Scope, thread_id: str) -> WaitingNotes:
    """The newest of a thread's waiting notes, in their order, as many as a part of an answer holds: ``noted_ahead`` and
    ``for_session_memory``, each left out if none exists."""
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
