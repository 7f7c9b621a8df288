"""The tables whose rows are written to an export as they are, and what names a row there.

Not among them: messages, threads, entries and the ids of what was erased, which have statements of their own, and what is
made again from them (the index, vectors, counts, jobs).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import BigInteger, ColumnElement, Integer, Table, exists, or_

from layerlore.storage.core.content_columns import CONTENT
from layerlore.storage.core.scopes import same_thread
from layerlore.storage.core.tables import (
    SCOPE,
    attempts,
    events,
    metadata,
    observations,
    plans,
    resource_events,
    runs,
    session_memories,
    session_notes,
    steps,
    summaries,
    threads,
    user_profiles,
)
from layerlore.storage.derived.version_sources import version_there
from layerlore.storage.threads.events import of_visible_message

_JSON_FORMS = {"json", "parts", "body", "window"}


@dataclass(frozen=True, slots=True)
class MovedColumn:
    """What a column holds: a number (``is_small``: of 32 bits) or a text, and whether it may be null."""

    name: str
    is_number: bool
    is_small: bool
    nullable: bool


def describe_columns(table: str, names: Iterable[str]) -> list[MovedColumn]:
    """The columns of these names of a table."""
    found = [metadata.tables[table].c[name] for name in names]
    return [
        MovedColumn(
            each.name,
            is_number=isinstance(each.type, BigInteger | Integer),
            is_small=isinstance(each.type, Integer) and not isinstance(each.type, BigInteger),
            nullable=bool(each.nullable),
        )
        for each in found
    ]


@dataclass(frozen=True, slots=True)
class MovedTable:
    """``line``: the type of its lines. ``key`` names a row within its thread, or within the resource where the table hangs
    on no thread. ``json``: columns that hold JSON as text. ``shown``: which rows anybody sees."""

    line: str
    table: Table
    key: tuple[str, ...]
    shown: ColumnElement[bool] | None = None

    @property
    def of_thread(self) -> bool:
        """Whether each row belongs to one thread."""
        return "thread_uid" in self.table.c and not self.table.c.thread_uid.nullable

    @property
    def columns(self) -> tuple[str, ...]:
        """What is read of a row, beside the thread that it belongs to."""
        known = (*SCOPE, *(("thread_uid",) if self.of_thread else ()))
        return tuple(column.name for column in self.table.c if column.name not in known)

    @property
    def json(self) -> frozenset[str]:
        found = CONTENT.get(self.table.name, {})
        return frozenset(name for name, column in found.items() if column.form in _JSON_FORMS and name in self.columns)


_of_live_thread = exists().where(same_thread(threads, resource_events), threads.c.deletion_uid.is_(None))

EVENT = MovedTable("event", events, ("seq",), of_visible_message(events))
STEP = MovedTable("step", steps, ("seq",), of_visible_message(steps))
ATTEMPT = MovedTable("attempt", attempts, ("task_key", "attempt"))
RUN = MovedTable("run", runs, ("run_id",))
PLAN = MovedTable("plan", plans, ("revision",))
OBSERVATION = MovedTable("observation", observations, ("observation_id",))
SUMMARY = MovedTable("summary", summaries, ("upto_seq",))
SESSION_NOTE = MovedTable("session_note", session_notes, ("note_id",))
SESSION_MEMORY = MovedTable("session_memory", session_memories, ("version",), version_there(session_memories))
PROFILE = MovedTable("profile", user_profiles, ("version",), version_there(user_profiles))
RESOURCE_EVENT = MovedTable(
    "resource_event", resource_events, ("seq",), or_(resource_events.c.thread_uid.is_(None), _of_live_thread)
)

LOGS = (EVENT, STEP, ATTEMPT)
"""Each row stays as it was written."""
NOTES = (OBSERVATION, SUMMARY, SESSION_NOTE)
"""Made from a thread's messages, and of one piece: they are moved together or not at all."""
VERSIONS = (PLAN, SESSION_MEMORY, PROFILE)
"""The newest row is what counts."""
MOVED = {each.line: each for each in (*LOGS, RUN, *NOTES, *VERSIONS, RESOURCE_EVENT)}
"""By type of line."""
