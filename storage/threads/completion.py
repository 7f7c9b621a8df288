"""Ids that begin with what somebody has typed so far, newest first."""

from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, exists, func, select

from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import in_scope, of_scope, same_thread
from layerlore.storage.core.tables import runs, threads
from layerlore.storage.core.transaction import Tx


def _begins(column: ColumnElement[str]) -> ColumnElement[bool]:
    """LIKE would ignore the case on one database, and want its wildcards escaped on both."""
    return func.substr(column, 1, bindparam("typed_chars")) == bindparam("typed")


_live = threads.c.deletion_uid.is_(None)
_THREADS = select(threads.c.thread_id).where(in_scope(threads), _live, _begins(threads.c.thread_id))
_RUNS = select(runs.c.run_id).where(
    in_scope(runs), _begins(runs.c.run_id), exists().where(same_thread(threads, runs), _live)
)


def _newest(query: Select[Any], *order: ColumnElement[Any]) -> Select[Any]:
    return query.order_by(*(column.desc() for column in order)).limit(bindparam("most"))


def _count(query: Select[Any]) -> Select[Any]:
    return select(func.count()).select_from(query.subquery())


_SOME_THREADS, _ALL_THREADS = _newest(_THREADS, threads.c.updated_at, threads.c.thread_uid), _count(_THREADS)
_SOME_RUNS, _ALL_RUNS = _newest(_RUNS, runs.c.created_at, runs.c.run_id), _count(_RUNS)


async def thread_ids(tx: Tx, scope: Scope, typed: str, *, most: int) -> tuple[list[str], int]:
    """The live threads whose id begins so, those updated last first, and how many there are in all."""
    return await _found(tx, scope, typed, most, _SOME_THREADS, _ALL_THREADS)


async def run_ids(tx: Tx, scope: Scope, typed: str, *, most: int) -> tuple[list[str], int]:
    """The runs of live threads whose id begins so, those made last first, and how many there are in all."""
    return await _found(tx, scope, typed, most, _SOME_RUNS, _ALL_RUNS)


async def _found(
    tx: Tx, scope: Scope, typed: str, most: int, some: Select[Any], every: Select[Any]
) -> tuple[list[str], int]:
    asked = {**of_scope(scope), "typed": typed, "typed_chars": len(typed)}
    ids = await tx.scalars(some, **asked, most=most)
    if len(ids) < most:
        return ids, len(ids)
    return ids, int(await tx.scalar(every, **asked))
