"""Retention: messages that a rule takes away, and owners that hold something whose time has passed."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    exists,
    select,
    text,
    tuple_,
    union_all,
    update,
)

from layerlore.storage.core import installation, scopes
from layerlore.storage.core.installation import Look
from layerlore.storage.core.records import CUSTOM, Scope, SearchText
from layerlore.storage.core.scopes import behind, in_scope, in_thread, of_scope, of_thread, same_thread
from layerlore.storage.core.tables import (
    SCOPE,
    deletions,
    entries,
    entry_sources,
    idempotency,
    messages,
    resources,
    runs,
    session_memories,
    user_profiles,
)
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.transaction import Tx
from layerlore.storage.index import lexical
from layerlore.storage.messages import orphans
from layerlore.storage.messages.message_rows import read
from layerlore.storage.removal.deletions import BY_IDS, CHANGE_COUNTS, HIDE, DeleteResult, raw_tokens
from layerlore.storage.threads import threads
from layerlore.storage.work.runs import EXPIRED


@dataclass(frozen=True, slots=True)
class TimePlace:
    """A place in the time order of a resource's messages: ``said_at`` is milliseconds since 1970."""

    said_at: int
    thread_uid: str = ""
    seq: int = 0


@dataclass(frozen=True, slots=True)
class OldMessage:
    """A message that a rule takes away. ``evidence``: an entry rests on it."""

    thread_id: str
    id: str
    place: TimePlace
    evidence: bool


@dataclass(frozen=True, slots=True)
class LongThread:
    """A thread with more messages than a rule leaves it: those before the seq ``before`` go."""

    thread_uid: str
    before: int


_live_messages = messages.join(threads_table, same_thread(messages, threads_table))
_visible = and_(messages.c.deletion_uid.is_(None), threads_table.c.deletion_uid.is_(None))
_counted = messages.c.role != CUSTOM
_order = (messages.c.said_at, messages.c.thread_uid, messages.c.seq)
_FOUND = select(
    threads_table.c.thread_id,
    messages.c.id,
    *_order,
    exists()
    .where(same_thread(entry_sources, messages), entry_sources.c.message_seq == messages.c.seq)
    .correlate(messages)
    .label("evidence"),
).select_from(_live_messages)


def _place(name: str) -> Any:
    kinds: dict[str, Any] = {"said_at": BigInteger(), "thread_uid": Text(), "seq": BigInteger()}
    return tuple_(*(bindparam(f"{name}_{column}", type_=kind) for column, kind in kinds.items()))


_NEWEST_BY_TIME = (
    select(*_order)
    .select_from(_live_messages)
    .where(in_scope(messages), _visible, _counted)
    .order_by(*(column.desc() for column in _order))
    .offset(bindparam("skipped"))
    .limit(1)
)
# Messages of user interfaces do not count, but they expire like all others.
_BEFORE_TIME = (
    _FOUND.where(in_scope(messages), _visible, tuple_(*_order) > _place("after"), tuple_(*_order) < _place("before"))
    .order_by(*_order)
    .limit(bindparam("most"))
)
# The thread's own count decides, so that short threads are not read.
_LONG = (
    select(threads_table.c.thread_uid)
    .where(
        in_scope(threads_table),
        threads_table.c.deletion_uid.is_(None),
        threads_table.c.message_count > bindparam("kept"),
    )
    .order_by(threads_table.c.thread_uid)
)
_NEWEST_OF_THREAD = (
    select(messages.c.seq)
    .where(in_thread(messages), messages.c.deletion_uid.is_(None), _counted)
    .order_by(messages.c.seq.desc())
    .offset(bindparam("skipped"))
    .limit(1)
)
_BEFORE_SEQ = (
    _FOUND.where(
        in_thread(messages),
        _visible,
        messages.c.seq > bindparam("after_seq"),
        messages.c.seq < bindparam("before_seq"),
    )
    .order_by(messages.c.seq)
    .limit(bindparam("most"))
)


async def find_newest(tx: Tx, scope: Scope, kept: int) -> TimePlace | None:
    """The place before which the messages of a resource go of which the newest ``kept`` stay; None: all stay."""
    # The oldest message that stays: all before it go.
    row = await tx.one(_NEWEST_BY_TIME, **of_scope(scope), skipped=kept - 1)
    if row is None:
        return None
    return TimePlace(*row)


async def find_before(tx: Tx, scope: Scope, before: TimePlace, after: TimePlace, most: int) -> list[OldMessage]:
    """The oldest messages of a resource before a place and behind another, in their order."""
    bounds = {"before": before, "after": after}
    given = {f"{name}_{key}": getattr(at, key) for name, at in bounds.items() for key in TimePlace.__slots__}
    return _list(await tx.all(_BEFORE_TIME, **of_scope(scope), **given, most=most))


async def list_long(tx: Tx, scope: Scope, kept: int) -> list[LongThread]:
    """The threads of which the newest ``kept`` messages stay and others go."""
    found = []
    for uid in await tx.scalars(_LONG, **of_scope(scope), kept=kept):
        seq = await tx.scalar(_NEWEST_OF_THREAD, **of_thread(scope, uid), skipped=kept - 1)
        found.append(LongThread(uid, int(seq)))
    return found


async def find_in_thread(tx: Tx, scope: Scope, thread: LongThread, after: int, most: int) -> list[OldMessage]:
    """The oldest messages of a thread that go, of those with a seq above ``after``, in order."""
    of = of_thread(scope, thread.thread_uid)
    return _list(await tx.all(_BEFORE_SEQ, **of, after_seq=after, before_seq=thread.before, most=most))


def _list(rows: Any) -> list[OldMessage]:
    return [
        OldMessage(thread_id, id_, TimePlace(said_at, uid, seq), bool(evidence))
        for thread_id, id_, said_at, uid, seq, evidence in rows
    ]


async def erase_alone(
    tx: Tx,
    scope: Scope,
    thread_id: str,
    ids: Collection[str],
    *,
    deletion_uid: str,
    now: int,
    search_text: SearchText,
) -> DeleteResult:
    """Erase messages of a thread at once, and leave what was made from them. A tool call whose result goes, or a result
    whose call goes, goes too. Raises NotFound for an unknown thread."""
    thread = await threads.lock(tx, scope, thread_id)
    of = of_thread(scope, thread.thread_uid)
    gone = await read(tx, BY_IDS, thread_id, **of, ids=list(ids))
    if not gone:
        return DeleteResult(thread, [], None)
    emptied = await orphans.settle(tx, scope, thread, {message.seq for message in gone}, search_text, now=now)
    gone += [half.message for half in emptied]
    seqs = [message.seq for message in gone]
    await lexical.remove(tx, scope, thread.thread_uid, seqs)
    await tx.run(HIDE, **of, seqs=seqs, new_deletion_uid=deletion_uid)
    await orphans.erase(tx, scope, thread.thread_uid, deletion_uid, keeps_versions=True)
    await installation.owe_rewrite(tx)
    counted = sum(message.role != CUSTOM for message in gone)
    tokens, raw = sum(message.tokens for message in gone), raw_tokens(gone, thread)
    await tx.run(CHANGE_COUNTS, **of, more_messages=-counted, more_tokens=-tokens, more_raw=-raw, now=now)
    after = await threads.find(tx, scope, thread_id)
    return DeleteResult(after, sorted(gone, key=lambda message: message.seq), None)


_COUNT = (
    update(resources)
    .where(in_scope(resources))
    .values(retired_messages=resources.c.retired_messages + bindparam("more"))
)
_COUNTED = select(resources.c.retired_messages).where(in_scope(resources))


async def count(tx: Tx, scope: Scope, more: int) -> None:
    """Count messages that a rule took away."""
    await scopes.hold(tx, scope)
    await tx.run(_COUNT, **of_scope(scope), more=more)


async def read_count(tx: Tx, scope: Scope) -> int:
    """How many messages of a resource rules have taken away."""
    return int(await tx.scalar(_COUNTED, **of_scope(scope)) or 0)


FIRST = Scope("", "", "")
"""Before every scope."""


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds since 1970: what was deleted, cleared or dropped before the first is erased, and so are answers
    that were stored before the second."""

    deleted_before: int
    answered_before: int


def _of(table: Table, *past: ColumnElement[bool]) -> Select[Any]:
    """A condition in a form for which SQLite searches by time, and does not walk all scopes in order."""
    return select(*(table.c[name].op("||")("").label(name) for name in SCOPE)).where(*past)


def _page(found: Any) -> Select[Any]:
    """The next scopes behind one, each once."""
    columns = [found.c[name] for name in SCOPE]
    return (
        select(*columns)
        .distinct()
        .where(behind(columns))
        .order_by(*columns)
        .limit(bindparam("most", type_=BigInteger()))
    )


_deleted: BindParameter[int] = bindparam("deleted_before", type_=BigInteger())
# Written out where an index on some of the rows serves no other form.
_cleared = text("change = 'clear'")
_ERASABLE = Look(
    "layerlore_scopes_to_erase",
    _page(
        union_all(
            _of(deletions, deletions.c.deleted_at < _deleted, deletions.c.deleted_at > 0),
            _of(idempotency, idempotency.c.created_at < bindparam("answered_before")),
            _of(session_memories, _cleared, session_memories.c.created_at < _deleted),  # type: ignore[arg-type]
            _of(user_profiles, _cleared, user_profiles.c.created_at < _deleted),  # type: ignore[arg-type]
            _of(entries, text("status = 'dropped'"), entries.c.seen_at < _deleted),  # type: ignore[arg-type]
        ).subquery()
    ),
    tuple((name, "text") for name in SCOPE),
)
_WITH_EXPIRED_RUNS = Look(
    "layerlore_scopes_with_expired_runs",
    _page(_of(runs, EXPIRED).subquery()),
    tuple((name, "text") for name in SCOPE),
)


async def erasable(tx: Tx, times: Times, *, after: Scope, most: int = 100) -> list[Scope]:
    """The next scopes behind ``after`` of which something is to be erased."""
    given = {"deleted_before": times.deleted_before, "answered_before": times.answered_before}
    return [Scope(*row) for row in await _ERASABLE.rows(tx, **scopes.after(of_scope(after)), **given, most=most)]


async def with_expired_runs(tx: Tx, now: int, *, after: Scope, most: int = 100) -> list[Scope]:
    """The next scopes behind ``after`` with runs that have an expired checkpoint and no holder."""
    return [
        Scope(*row) for row in await _WITH_EXPIRED_RUNS.rows(tx, **scopes.after(of_scope(after)), now=now, most=most)
    ]
