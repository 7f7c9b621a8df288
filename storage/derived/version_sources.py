"""Versions of working memory documents are there only while everything is that they were made from.

Nothing is marked when a message is deleted: whoever reads versions asks whether one of their messages is, or their
thread, so that they come back with it. Seqs that were not there when a version was made lie in none of its ranges.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    and_,
    bindparam,
    cast,
    exists,
    insert,
    or_,
    select,
    update,
)

from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import in_scope, in_thread, of_thread
from layerlore.storage.core.tables import SCOPE, document_sources, messages, session_memories, threads, user_profiles
from layerlore.storage.core.transaction import Tx

ERASED = "erased"
"""The change of a version whose content was erased with a message. Its number is never given again."""

_deleted = messages.alias("deleted")
_gone_thread = threads.alias("gone_thread")


def _lies_in(sources: FromClause) -> ColumnElement[bool]:
    """Deleted messages within ranges. Written out, as the index on such rows has it."""
    return and_(
        *(_deleted.c[name] == sources.c[name] for name in SCOPE),
        _deleted.c.thread_uid == sources.c.source_thread_uid,
        _deleted.c.seq.between(sources.c.from_seq, sources.c.to_seq),
        _deleted.c.deletion_uid.is_not(None),
    )


def _is_gone(sources: FromClause) -> ColumnElement[bool]:
    thread = and_(
        *(_gone_thread.c[name] == sources.c[name] for name in SCOPE),
        _gone_thread.c.thread_uid == sources.c.source_thread_uid,
        _gone_thread.c.deletion_uid.is_not(None),
    )
    return or_(exists().where(_lies_in(sources)).correlate(sources), exists().where(thread).correlate(sources))


_sources = document_sources.alias("sources")


def _of(versions: FromClause, thread_uid: Any) -> ColumnElement[bool]:
    """The sources of versions."""
    return and_(
        *(_sources.c[name] == versions.c[name] for name in SCOPE),
        _sources.c.thread_uid == thread_uid,
        _sources.c.version == versions.c.version,
    )


def version_there(versions: FromClause) -> ColumnElement[bool]:
    """Of versions of documents: no message that one was made from is deleted, nor the thread of one."""
    uid = versions.c.thread_uid if "thread_uid" in versions.c else ""
    return and_(
        versions.c.change != ERASED, ~exists().where(_of(versions, uid), _is_gone(_sources)).correlate(versions)
    )


_DELETED_WITHIN = (
    select(_deleted.c.seq)
    .where(
        *(_deleted.c[name] == bindparam(name) for name in (*SCOPE, "thread_uid")),
        _deleted.c.seq.between(bindparam("from_seq"), bindparam("to_seq")),
        _deleted.c.deletion_uid.is_not(None),
    )
    .order_by(_deleted.c.seq)
)


async def deleted_within(tx: Tx, scope: Scope, thread_uid: str, from_seq: int, to_seq: int) -> list[int]:
    """The seqs of a thread's deleted messages from one seq to another, both included, in order."""
    return await tx.scalars(_DELETED_WITHIN, **of_thread(scope, thread_uid), from_seq=from_seq, to_seq=to_seq)


_NAMED = ("source_thread_uid", "from_seq", "to_seq")
_TAKE_OVER = insert(document_sources).from_select(
    [*SCOPE, "thread_uid", "version", *_NAMED],
    select(
        *(document_sources.c[name] for name in (*SCOPE, "thread_uid")),
        cast(bindparam("new_version"), BigInteger),
        *(document_sources.c[name] for name in _NAMED),
    ).where(in_thread(document_sources), document_sources.c.version == bindparam("of_version")),
)


async def take_over(tx: Tx, scope: Scope, thread_uid: str, version: int, *, of_version: int) -> None:
    """Write down that a new version holds the words of another: it was made from the same messages."""
    of = of_thread(scope, thread_uid)
    await tx.run(_TAKE_OVER, **of, new_version=version, of_version=of_version)


_ERASE, _ERASE_OF_THREAD = (
    tuple(
        update(table)
        .where(in_scope(table), table.c.change != ERASED, exists().where(_of(table, uid), *which).correlate(table))
        .values(content="", change=ERASED)
        for table, uid in ((session_memories, session_memories.c.thread_uid), (user_profiles, ""))
    )
    for which in (
        (
            _sources.c.source_thread_uid == bindparam("thread_uid"),
            exists()
            .where(_lies_in(_sources), _deleted.c.deletion_uid == bindparam("deletion_uid"))
            .correlate(_sources),
        ),
        (_sources.c.source_thread_uid == bindparam("thread_uid"),),
    )
)


async def erase(tx: Tx, scope: Scope, thread_uid: str, deletion_uid: str) -> None:
    """Erase the versions that were made from the messages of one delete, just before these are erased."""
    for statement in _ERASE:
        await tx.run(statement, **of_thread(scope, thread_uid), deletion_uid=deletion_uid)


async def erase_of_thread(tx: Tx, scope: Scope, thread_uid: str) -> None:
    """Erase the versions that were made from a thread, just before it is erased."""
    for statement in _ERASE_OF_THREAD:
        await tx.run(statement, **of_thread(scope, thread_uid))
