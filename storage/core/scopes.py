"""Conditions that bind a statement to a scope, pages of its rows, and the lock of a resource."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeVar, get_args

from sqlalchemy import ColumnElement, Executable, FromClause, Table, and_, bindparam, select, tuple_

from layerlore.storage.core.records import Scope
from layerlore.storage.core.statements import VectorOf, WithIds, insert_or_update, parameters
from layerlore.storage.core.tables import SCOPE, jobs, resources, search_vectors
from layerlore.storage.core.transaction import Row, Tx

Values = dict[str, Any]
"""The values of a statement, by the names of its parameters."""


def in_scope(table: FromClause) -> ColumnElement[bool]:
    """Rows of the scope whose values ``of_scope`` gives."""
    return and_(
        table.c.tenant_id == bindparam("tenant_id"),
        table.c.agent_id == bindparam("agent_id"),
        table.c.resource_id == bindparam("resource_id"),
    )


def named_in_scope(table: Table) -> ColumnElement[bool]:
    """Rows of the scope that are already named by their ids: written so that no index on the scope can serve, which
    SQLite's planner would otherwise walk for the whole scope."""
    return and_(
        WithIds(table.c.tenant_id) == bindparam("tenant_id"),
        *(table.c[name].op("||")("") == bindparam(name) for name in ("agent_id", "resource_id")),
    )


def vector_of(rows: FromClause) -> ColumnElement[bool]:
    """Vectors of the rows of the index."""
    same_tenant = VectorOf(search_vectors.c.tenant_id, rows.c.tenant_id)
    return and_(same_tenant, search_vectors.c.row_id == rows.c.row_id)


def in_thread(table: FromClause) -> ColumnElement[bool]:
    """Rows of one thread of the scope, whose values ``of_thread`` gives."""
    return and_(in_scope(table), table.c.thread_uid == bindparam("thread_uid"))


def same_thread(left: FromClause, right: FromClause) -> ColumnElement[bool]:
    """The join of two tables' rows of the same thread."""
    return and_(
        left.c.tenant_id == right.c.tenant_id,
        left.c.agent_id == right.c.agent_id,
        left.c.resource_id == right.c.resource_id,
        left.c.thread_uid == right.c.thread_uid,
    )


def of_scope(scope: Scope) -> Values:
    return {"tenant_id": scope.tenant_id, "agent_id": scope.agent_id, "resource_id": scope.resource_id}


def of_thread(scope: Scope, thread_uid: str) -> Values:
    return {**of_scope(scope), "thread_uid": thread_uid}


Kind = Literal["entry", "message"]
KINDS: tuple[Kind, ...] = ("entry", "message")
"""The parts of the index that can be searched alone. Notes lie beside the messages."""

NoteKind = Literal["profile", "session_memory", "plan", "attempt", "observation"]
NOTE_KINDS: tuple[NoteKind, ...] = get_args(NoteKind)
RecallKind = Literal["entry", "message", "profile", "session_memory", "plan", "attempt", "observation"]
RECALL_KINDS: tuple[RecallKind, ...] = get_args(RecallKind)
"""The roles of rows that a recall can find. Entries and notes have their kind as their role in the index."""

_PREFIXES: dict[NoteKind, str] = {
    "profile": "profile:",
    "session_memory": "session:",
    "plan": "plan:",
    "attempt": "attempt:",
    "observation": "observation:",
}
_KINDS_BY_PREFIX = {prefix: kind for kind, prefix in _PREFIXES.items()}
PROFILE_PLACE = _PREFIXES["profile"]
"""The place of the profile's lines in the index: the thread that they are messages of."""


def note_place(kind: NoteKind, thread_uid: str) -> str:
    """Where a thread's notes of a kind stand in the index: the thread that they are messages of."""
    return _PREFIXES[kind] + thread_uid


def note_places(thread_uid: str) -> list[str]:
    """Where all notes of a thread stand in the index."""
    return [prefix + thread_uid for kind, prefix in _PREFIXES.items() if kind != "profile"]


def read_note_place(place: str) -> tuple[NoteKind, str] | None:
    """The kind of the notes at a place of the index, and the uid of their thread; None for a thread's own uid, which has
    no colon, and for an entry's place."""
    prefix, colon, uid = place.partition(":")
    kind = _KINDS_BY_PREFIX.get(prefix + colon)
    if kind is None:
        return None
    return (kind, uid)


def index_kinds(kinds: Collection[RecallKind]) -> tuple[Kind, ...]:
    """The parts of the index in which things of these kinds stand."""
    entry: tuple[Kind, ...]
    if "entry" in kinds:
        entry = ("entry",)
    else:
        entry = ()
    others: tuple[Kind, ...]
    if any(kind != "entry" for kind in kinds):
        others = ("message",)
    else:
        others = ()
    return entry + others


@lru_cache(maxsize=4096)
def scope_token(scope: Scope, kind: Kind = "message") -> str:
    """The opaque name of a scope in the search index. Digits only, so that no stemmer touches it."""
    name = "\0".join((scope.tenant_id, scope.agent_id, scope.resource_id, *(("entry",) if kind == "entry" else ())))
    return str(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big"))


T = TypeVar("T")

READ_CHARS = 4 * 1024 * 1024
"""The most characters of the texts that are read for one page."""


def behind(columns: Sequence[ColumnElement[Any]]) -> ColumnElement[bool]:
    """Rows behind the one whose values ``after`` gives."""
    # A comparison of rows is one range of an index; the same written with AND and OR is not.
    return tuple_(*columns) > tuple_(*(bindparam(f"after_{each.key}", type_=each.type) for each in columns))


def after(of: Mapping[str, T]) -> dict[str, T]:
    """The values of the columns, by name, in the row that a page is to follow."""
    return {f"after_{name}": value for name, value in of.items()}


async def some(tx: Tx, statement: Executable, /, **values: Any) -> tuple[list[Row], bool]:
    """The first rows of an answer, at least one, and whether reading stopped before its end since they were long."""
    found: list[Row] = []
    left, stopped = READ_CHARS, False

    def take(row: Row) -> bool:
        nonlocal left, stopped
        # The limit is checked before a row is added, so even a row longer than the limit gets a page.
        if left < 0:
            stopped = True
            return False
        found.append(row)
        left -= sum(len(value) for value in row if isinstance(value, str))
        return True

    await tx.each(statement, take, **values)
    return found, stopped


# It changes nothing but holds the row, which is made if it is absent.
_HOLD = insert_or_update(
    resources,
    {**parameters(*SCOPE), "next_event_seq": 1},
    keys=SCOPE,
    changes={"next_event_seq": resources.c.next_event_seq},
)


async def hold(tx: Tx, scope: Scope) -> None:
    """Hold the resource until the transaction ends."""
    await tx.run(_HOLD, **of_scope(scope))


_LOCK = select(resources.c.next_event_seq).where(in_scope(resources)).with_for_update()


async def lock(tx: Tx, scope: Scope) -> bool:
    """Lock the resource until the transaction ends, if it is known; never make it. Returns whether it is known. A
    resource without any write, or one that was erased, is not."""
    return await tx.one(_LOCK, **of_scope(scope)) is not None


_JOBS = select(jobs.c.kind).where(in_thread(jobs)).with_for_update()


async def still_known(tx: Tx, scope: Scope, thread_uid: str) -> bool:
    """Whether the resource was not erased while a worker did a job of a thread: the job, or anything of the resource,
    is still there. Holds that row."""
    return bool(await tx.all(_JOBS, **of_thread(scope, thread_uid))) or await lock(tx, scope)
