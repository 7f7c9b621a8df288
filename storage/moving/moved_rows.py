"""Rows of the other tables as an import brings them, and the tables that an export writes as they are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Insert,
    Integer,
    Select,
    Table,
    Update,
    bindparam,
    exists,
    or_,
    select,
    update,
)

from layerlore.storage.core import scopes
from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import Values, in_scope, in_thread, of_scope, of_thread, same_thread
from layerlore.storage.core.statements import insert_or_ignore, parameters
from layerlore.storage.core.tables import (
    SCOPE,
    attempts,
    document_sources,
    events,
    metadata,
    observations,
    plans,
    resource_events,
    resources,
    runs,
    session_memories,
    session_notes,
    steps,
    summaries,
    threads,
    user_profiles,
)
from layerlore.storage.core.tables.columns import CONTENT, THREAD
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived.working_memory import version_there
from layerlore.storage.moving.moved_threads import Mode
from layerlore.storage.threads.events import of_visible_message


@dataclass(frozen=True, slots=True)
class MovedColumn:
    """The content of a column: a number (``is_small``: of 32 bits) or a text, and whether it may be null."""

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
    on no thread. ``json``: columns that hold JSON as text. ``shown``: which rows are visible."""

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
        """The columns of a row, beside the thread that it belongs to."""
        known = (*SCOPE, *(("thread_uid",) if self.of_thread else ()))
        return tuple(column.name for column in self.table.c if column.name not in known)

    @property
    def json(self) -> frozenset[str]:
        found = CONTENT.get(self.table.name, {})
        return frozenset(name for name, column in found.items() if column.is_json and name in self.columns)


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
"""Logs, whose rows stay as they were written."""
NOTES = (OBSERVATION, SUMMARY, SESSION_NOTE)
"""Rows made from a thread's messages: they move together or not at all."""
VERSIONS = (PLAN, SESSION_MEMORY, PROFILE)
"""Tables with versions, of which the newest counts."""
MOVED = {each.line: each for each in (*LOGS, RUN, *NOTES, *VERSIONS, RESOURCE_EVENT)}
"""By type of line."""

StoredColumns = Mapping[str, Any]
"""A row by column, as it is stored."""


@dataclass(frozen=True, slots=True)
class RowsOutcome:
    """The outcome for rows: how many were added, were there already, took the place of others, and were left out since
    something else is stored in their place."""

    added: int = 0
    unchanged: int = 0
    replaced: int = 0
    kept: int = 0


@dataclass(frozen=True, slots=True)
class VersionRun:
    """A run of messages, in a thread that is there, that a version was made from."""

    version: int
    thread_uid: str
    from_seq: int
    to_seq: int


def _owner(of: MovedTable, scope: Scope, thread_uid: str) -> Values:
    if of.of_thread:
        return of_thread(scope, thread_uid)
    return of_scope(scope)


def _owned(of: MovedTable) -> Any:
    if of.of_thread:
        return in_thread(of.table)
    return in_scope(of.table)


def _names(of: MovedTable) -> tuple[str, ...]:
    return (*SCOPE, *(("thread_uid",) if of.of_thread else ()), *of.columns)


@cache
def _add(of: MovedTable) -> Insert:
    return insert_or_ignore(of.table, parameters(*_names(of)))


def _keyed(of: MovedTable) -> list[Any]:
    return [of.table.c[name] == bindparam(f"key_{name}") for name in of.key]


@cache
def _one(of: MovedTable) -> Select[Any]:
    # A run's id is its scope's, whichever thread it belongs to.
    if of is RUN:
        owned = in_scope(of.table)
    else:
        owned = _owned(of)
    return select(*(of.table.c[name] for name in of.columns)).where(owned, *_keyed(of))


@cache
def _change(of: MovedTable) -> Update:
    values: dict[Any, Any] = {of.table.c[name]: bindparam(f"new_{name}") for name in of.columns if name not in of.key}
    return update(of.table).where(_owned(of), *_keyed(of)).values(values)


def _key(of: MovedTable, row: StoredColumns) -> StoredColumns:
    return {f"key_{name}": row[name] for name in of.key}


async def put_rows(
    tx: Tx, scope: Scope, of: MovedTable, thread_uid: str, rows: Sequence[StoredColumns], mode: Mode = "skip"
) -> RowsOutcome:
    """Add rows whose key is free. Lines of a log are never replaced; for runs, ``mode`` says which of two stays."""
    owner = _owner(of, scope, thread_uid)
    added = unchanged = replaced = kept = 0
    for row in rows:
        if await tx.run(_add(of), **owner, **row):
            added += 1
            continue
        found = await tx.one(_one(of), **owner, **_key(of, row))
        # A row that collides under another key of the table is not found under this one.
        if found is not None:
            stored = dict(zip(of.columns, found, strict=True))
        else:
            stored = {}
        if stored == dict(row):
            unchanged += 1
        elif of is RUN and (mode == "overwrite" or (mode == "merge" and row["updated_at"] > stored["updated_at"])):
            new = {f"new_{name}": value for name, value in row.items() if name not in of.key}
            done = await tx.run(_change(of), **owner, **_key(of, row), **new)
            replaced, kept = replaced + done, kept + 1 - done
        else:
            kept += 1
    if added and of in _COUNT_UP:
        upto = max(row["seq"] for row in rows) + 1
        await tx.run(_COUNT_UP[of], **owner, upto=upto)
    return RowsOutcome(added, unchanged, replaced, kept)


_NUMBERED = {EVENT: threads.c.next_event_seq, STEP: threads.c.next_step_seq}
# Later rows stand behind them, even if the import is interrupted.
_COUNT_UP = {
    of: update(threads).where(in_thread(threads), column < bindparam("upto")).values({column: bindparam("upto")})
    for of, column in _NUMBERED.items()
}


@cache
def _all(of: MovedTable) -> Select[Any]:
    return select(*(of.table.c[name] for name in of.columns)).where(_owned(of))


async def put_notes(
    tx: Tx, scope: Scope, thread_uid: str, rows: Mapping[MovedTable, Sequence[StoredColumns]]
) -> RowsOutcome:
    """Bring the notes on a thread (observations, summaries, what waits for the session memory) if it has none, all
    together. ``added`` is 0 and ``kept`` counts them where it has notes of its own."""
    of = of_thread(scope, thread_uid)
    stored = {
        each: [dict(zip(each.columns, row, strict=True)) for row in await tx.all(_all(each), **of)] for each in NOTES
    }
    count = sum(map(len, rows.values()))
    if any(stored.values()):
        same = all(_sorted(each, stored[each]) == _sorted(each, rows.get(each, ())) for each in NOTES)
        if same:
            return RowsOutcome(unchanged=count)
        return RowsOutcome(kept=count)
    for each, some in rows.items():
        if some:
            await tx.many(_add(each), [{**of, **row} for row in some])
    return RowsOutcome(added=count)


def _sorted(of: MovedTable, rows: Sequence[StoredColumns]) -> list[StoredColumns]:
    return sorted((dict(row) for row in rows), key=lambda row: tuple(row[name] for name in of.key))


_ADD_RUN = insert_or_ignore(
    document_sources,
    parameters(*THREAD, "version", "source_thread_uid", "from_seq", "to_seq"),
)
_CLOSE_PLANS = update(plans).where(in_thread(plans)).values(is_open=0)


@cache
def _versions(of: MovedTable) -> Select[Any]:
    return _all(of).order_by(of.table.c[of.key[0]])


async def put_versions(
    tx: Tx,
    scope: Scope,
    of: MovedTable,
    thread_uid: str,
    rows: Sequence[StoredColumns],
    runs: Sequence[VersionRun],
    mode: Mode,
) -> RowsOutcome:
    """Bring the history of a document or a plan. Where the one that is stored goes on from it, or it from that, both become
    one; else the newest of the two (``mode`` says which) is the document, and what is brought of it is one version."""
    if not of.of_thread:
        await scopes.hold(tx, scope)
    owner, number = _owner(of, scope, thread_uid), of.key[0]
    stored = [dict(zip(of.columns, row, strict=True)) for row in await tx.all(_versions(of), **owner)]
    there = {row[number]: _said(of, row) for row in stored}
    brought = sorted((dict(row) for row in rows), key=lambda row: int(row[number]))
    # Two histories are one only if the versions that both have are the same.
    agree = all(there.get(row[number], _said(of, row)) == _said(of, row) for row in brought)
    new = [row for row in brought if row[number] not in there]
    if agree and (not stored or not new or new[0][number] > stored[-1][number]):
        await _add_versions(tx, scope, of, owner, new, runs)
        return RowsOutcome(added=len(new), unchanged=len(brought) - len(new))
    mine, theirs = stored[-1], brought[-1]
    alike = _content(of, mine) == _content(of, theirs)
    newer = mode == "overwrite" or (mode == "merge" and theirs["created_at"] > mine["created_at"])
    if alike or not newer:
        if alike:
            return RowsOutcome(unchanged=len(brought))
        return RowsOutcome(kept=len(brought))
    # The version goes behind the newest one here, under the next number.
    again = {**theirs, number: mine[number] + 1}
    moved = [
        VersionRun(again[number], run.thread_uid, run.from_seq, run.to_seq)
        for run in runs
        if run.version == theirs[number]
    ]
    await _add_versions(tx, scope, of, owner, [again], moved)
    return RowsOutcome(replaced=1, kept=len(brought) - 1)


async def _add_versions(
    tx: Tx,
    scope: Scope,
    of: MovedTable,
    owner: dict[str, Any],
    new: Sequence[StoredColumns],
    runs: Sequence[VersionRun],
) -> None:
    if not new:
        return
    if of is PLAN:
        # Only the newest revision of a plan may be open.
        await tx.run(_CLOSE_PLANS, **owner)
    await tx.many(_add(of), [{**owner, **row} for row in new])
    numbers = {row[of.key[0]] for row in new}
    sources = [
        {
            **of_thread(scope, owner.get("thread_uid", "")),
            "version": run.version,
            "source_thread_uid": run.thread_uid,
            "from_seq": run.from_seq,
            "to_seq": run.to_seq,
        }
        for run in runs
        if run.version in numbers
    ]
    if sources:
        await tx.many(_ADD_RUN, sources)


def _said(of: MovedTable, row: StoredColumns) -> Any:
    """The fields of a version that later ones never change."""
    return {name: row[name] for name in of.columns if name != "is_open"}


def _content(of: MovedTable, row: StoredColumns) -> Any:
    if of is PLAN:
        return row["plan"]
    return row["content"]


_NEXT = select(resources.c.next_event_seq).where(in_scope(resources))
_COUNT_ON = update(resources).where(in_scope(resources)).values(next_event_seq=bindparam("new_next"))


async def put_resource_events(tx: Tx, scope: Scope, rows: Sequence[StoredColumns], next_seq: int) -> RowsOutcome:
    """Bring the log of a resource, or go on with it where what is stored are its first lines; ``next_seq`` is what it counts
    on with. A resource that has a log of its own keeps that."""
    await scopes.hold(tx, scope)
    at = int(await tx.scalar(_NEXT, **of_scope(scope)) or 1)
    known = [row for row in rows if row["seq"] < at]
    for row in known:
        found = await tx.one(_one(RESOURCE_EVENT), **of_scope(scope), **_key(RESOURCE_EVENT, row))
        # A first line that differs means another log, so nothing of it fits here.
        if found is None or dict(zip(RESOURCE_EVENT.columns, found, strict=True)) != dict(row):
            return RowsOutcome(kept=len(rows))
    new = [row for row in rows if row["seq"] >= at]
    if new:
        await tx.many(_add(RESOURCE_EVENT), [{**of_scope(scope), **row} for row in new])
    # The counter never goes back, so that no number of an event is used twice.
    upto = max([at, next_seq, *(row["seq"] + 1 for row in new)])
    await tx.run(_COUNT_ON, **of_scope(scope), new_next=upto)
    return RowsOutcome(added=len(new), unchanged=len(known))
