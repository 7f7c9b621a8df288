"""Content masked in place: rows are read a page at a time, masked outside of any transaction, and changed only where
they still are what was masked.

Rows of deleted threads and deleted messages are changed like the others: they can be restored. A change of a thread's
rows holds the thread, then the resource, as every edit does.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import Column, Select, Table, Update, bindparam, delete, func, insert, select, update

from layerlore.storage.core import installation, scopes
from layerlore.storage.core.records import Scope, SearchText, Thread
from layerlore.storage.core.scopes import NoteKind, behind, in_scope, in_thread, of_scope, of_thread, same_thread
from layerlore.storage.core.statements import any_of, parameters
from layerlore.storage.core.tables import (
    SCOPE,
    attempts,
    entries,
    entry_sources,
    messages,
    metadata,
    observations,
    plans,
    session_memories,
    user_profiles,
)
from layerlore.storage.core.tables import jobs as jobs_table
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.tables.columns import CONTENT
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries as kept
from layerlore.storage.derived import note_rows
from layerlore.storage.index import lexical
from layerlore.storage.jobs import job_rows
from layerlore.storage.messages import indexed_rows
from layerlore.storage.threads import threads

Key = tuple[Any, ...]
OffsetMap = Callable[[int, int], tuple[int, int]]
"""Maps places in the text of a message to places in its masked text."""

# The columns beside the content: tokens are counted of it, and a message's revision says which text it has.
_BESIDE: dict[str, tuple[str, ...]] = {
    "messages": ("revision", "deletion_uid"),
    "observations": ("marker", "said_at", "parent_id"),
}
# More rows than any index has.
_ALL_ROWS = 2**40


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row: its place in the scope, and by column its content and what is read beside it."""

    key: Key
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """A row that is to be another. ``before`` has the columns that change as they were (and a message's revision);
    ``after`` has them masked, and what is counted anew. ``moved`` is passed for a message."""

    key: Key
    before: dict[str, Any]
    after: dict[str, Any]
    secrets: int
    moved: OffsetMap = field(default=lambda starts, ends: (starts, ends))


@dataclass(frozen=True, slots=True)
class StoredChanges:
    """The changes that were made: all of rows that were not changed meanwhile. ``thread``: None if it is deleted, or
    the rows hang on none."""

    made: list[Change]
    thread: Thread | None = None


def _key_of(table: Table) -> tuple[str, ...]:
    """The columns that name a row within its scope."""
    return tuple(column.name for column in table.primary_key if column.name not in SCOPE)


def _read(table: Table) -> tuple[str, ...]:
    thread = ("thread_uid",) if "thread_uid" in table.c else ()
    return tuple(dict.fromkeys((*_key_of(table), *thread, *CONTENT[table.name], *_BESIDE.get(table.name, ()))))


def _columns(table: Table, names: Collection[str]) -> list[Column[Any]]:
    return [table.c[name] for name in names]


@cache
def _page(table: Table, continued: bool) -> Select[Any]:
    key = _columns(table, _key_of(table))
    query = select(*_columns(table, _read(table))).where(in_scope(table))
    if continued:
        query = query.where(behind(key))
    return query.order_by(*key).limit(bindparam("most"))


async def page(tx: Tx, scope: Scope, of: str, *, after: Key | None, most: int) -> list[StoredRow]:
    """The next rows of a table with content behind a key, in the order of keys, deleted ones included."""
    table = metadata.tables[of]
    names = _key_of(table)
    values = scopes.after(dict(zip(names, after or (), strict=False)))
    rows = await tx.all(_page(table, after is not None), **of_scope(scope), **values, most=most)
    found = [dict(zip(_read(table), row, strict=True)) for row in rows]
    return [StoredRow(tuple(row[name] for name in names), row) for row in found]


@cache
def _change(table: Table, before: tuple[str, ...], after: tuple[str, ...]) -> Update:
    where = [table.c[name] == bindparam(f"at_{name}") for name in _key_of(table)]
    where += [table.c[name] == bindparam(f"old_{name}") for name in before]
    values: dict[str, Any] = {**parameters(*after, prefix="new_")}
    if table is messages:
        # Evidence that still points into the old text must not fit the new one.
        values["revision"] = table.c.revision + 1
    return update(table).where(in_scope(table), *where).values(values)


async def _make(tx: Tx, scope: Scope, table: Table, change: Change, **more: Any) -> bool:
    """Change a row if it is as it was. Returns whether it was."""
    after = {**change.after, **more}
    statement = _change(table, tuple(change.before), tuple(after))
    key = {f"at_{name}": value for name, value in zip(_key_of(table), change.key, strict=True)}
    old = {f"old_{name}": value for name, value in change.before.items()}
    new = {f"new_{name}": value for name, value in after.items()}
    return await tx.run(statement, **of_scope(scope), **key, **old, **new) == 1


_HOLD = select(threads_table.c.thread_uid).where(in_thread(threads_table)).with_for_update()


async def put(
    tx: Tx,
    scope: Scope,
    of: str,
    thread_uid: str,
    changes: Sequence[Change],
    *,
    search_text: SearchText,
    now: int,
) -> StoredChanges:
    """Change rows of a table with content that hang on one thread, or (empty ``thread_uid``) on none, and with them what
    is made of them: of messages the index, the counts of the thread and the places of evidence, of entries the index
    and the hash."""
    table, thread = metadata.tables[of], None
    if thread_uid:
        # A deleted thread is locked as well, since its rows are masked, too.
        await tx.all(_HOLD, **of_thread(scope, thread_uid))
        thread = await threads.find_uid(tx, scope, thread_uid)
    if table in (entries, jobs_table) or not thread_uid:
        await scopes.hold(tx, scope)
    if table is messages:
        made = await _put_messages(tx, scope, thread_uid, changes, search_text, now)
    elif table is entries:
        made = [each for each in changes if await _put_entry(tx, scope, each, search_text, now)]
    elif table is attempts:
        made = [each for each in changes if await _put_attempt(tx, scope, each)]
    else:
        made = [each for each in changes if await _make(tx, scope, table, each)]
    if made:
        await installation.owe_rewrite(tx)
    if made and (kind := _NOTES.get(table)) is not None:
        await note_rows.refresh(tx, scope, thread_uid, search_text, (kind,))
    return StoredChanges(made, thread)


_NOTES: dict[Table, NoteKind] = {
    user_profiles: "profile",
    session_memories: "session_memory",
    plans: "plan",
    attempts: "attempt",
    observations: "observation",
}


_COUNT = threads.totals_change(
    {
        "token_count": threads_table.c.token_count + bindparam("more_tokens"),
        "raw_tokens": threads_table.c.raw_tokens + bindparam("more_raw"),
    }
)
_COUNTED = select(messages.c.seq, messages.c.tokens, threads_table.c.observed_seq).where(
    in_thread(messages),
    any_of(messages.c.seq, "seqs"),
    messages.c.deletion_uid.is_(None),
    same_thread(messages, threads_table),
)


async def _put_messages(
    tx: Tx, scope: Scope, thread_uid: str, changes: Sequence[Change], search_text: SearchText, now: int
) -> list[Change]:
    of = of_thread(scope, thread_uid)
    # Read before the change: the difference of the tokens needs the old numbers.
    counted = await tx.all(_COUNTED, **of, seqs=[each.key[1] for each in changes])
    made = [each for each in changes if await _make(tx, scope, messages, each)]
    if not made:
        return []
    after = {each.key[1]: each.after["tokens"] for each in made if "tokens" in each.after}
    more = [(seq, after[seq] - tokens, observed) for seq, tokens, observed in counted if seq in after]
    raw = sum(number for seq, number, observed in more if seq > observed)
    await tx.run(_COUNT, **of, more_tokens=sum(number for _, number, _ in more), more_raw=raw)
    await scopes.hold(tx, scope)
    await _move_sources(tx, of, {each.key[1]: each for each in made})
    await indexed_rows.rebuild_rows(tx, scope, thread_uid, [each.key[1] for each in made], search_text)
    # The input of a job about one of them has its content.
    await job_rows.fence_off(tx, scope, now=now)
    return made


_of_messages = (in_thread(entry_sources), any_of(entry_sources.c.message_seq, "seqs"))
_SOURCES = select(*entry_sources.c).where(*_of_messages).order_by(*entry_sources.primary_key)
_FORGET_SOURCES = delete(entry_sources).where(*_of_messages)
_NAMES = tuple(column.name for column in entry_sources.c)
_ADD_SOURCE = insert(entry_sources).values(**parameters(*_NAMES))


async def _move_sources(tx: Tx, of: dict[str, Any], made: Mapping[int, Change]) -> None:
    """Let evidence follow its message: to its new revision, and to where it stands in the masked text."""
    rows = await tx.all(_SOURCES, **of, seqs=list(made))
    if not rows:
        return
    sources: dict[Key, dict[str, Any]] = {}
    for row in rows:
        source = dict(zip(_NAMES, row, strict=True))
        change = made[source["message_seq"]]
        if source["revision"] == change.before["revision"]:
            source["starts"], source["ends"] = change.moved(source["starts"], source["ends"])
        source["revision"] += 1
        # Two places may become one in the masked text.
        sources.setdefault(tuple(source[column.name] for column in entry_sources.primary_key), source)
    # Removed and written anew, since a moved place may take the key of another one.
    await tx.run(_FORGET_SOURCES, **of, seqs=list(made))
    await tx.many(_ADD_SOURCE, list(sources.values()))


_named = (in_scope(entries), entries.c.entry_id == bindparam("of_entry"))
_ENTRY = select(entries.c.status, entries.c.created_at, entries.c.subject).where(*_named)
_REHASH = update(entries).where(*_named).values(content_hash=bindparam("new_hash"))


async def _put_entry(tx: Tx, scope: Scope, change: Change, search_text: SearchText, now: int) -> bool:
    """If two entries say the same once they are masked, one is found by that text: the active one, of two active ones
    the older, by which the other is superseded."""
    content: str = change.after["content"]
    (entry_id,) = change.key
    own = await tx.one(_ENTRY, **of_scope(scope), of_entry=entry_id)
    if own is None:
        other = None
    else:
        other = await kept.of_content(tx, scope, content, own[2] or "")
    # Until it is known which one is, under a hash that no content has.
    if own is None or not await _make(tx, scope, entries, change, content_hash=entry_id):
        return False
    mine = True
    if other is not None:
        status, created_at, _ = own
        both_active = status == other.status == "active"
        if both_active:
            mine = created_at < other.created_at
        else:
            mine = status == "active"
        winner, loser = (entry_id, other.entry_id) if mine else (other.entry_id, entry_id)
        await tx.run(_REHASH, **of_scope(scope), of_entry=loser, new_hash=loser)
        if both_active:
            await kept.supersede(tx, scope, [loser], winner, now=now)
    if mine:
        await tx.run(_REHASH, **of_scope(scope), of_entry=entry_id, new_hash=kept.content_hash(content))
    await kept.index_anew(tx, scope, entry_id, search_text)
    return True


_LAST_ATTEMPT = select(func.max(attempts.c.attempt)).where(
    in_thread(attempts), attempts.c.task_key == bindparam("task_key")
)


async def _put_attempt(tx: Tx, scope: Scope, change: Change) -> bool:
    """Attempts whose task gets the name of another follow those of that."""
    if "task_key" not in change.after:
        return await _make(tx, scope, attempts, change)
    of = of_thread(scope, change.key[0])
    number = (await tx.scalar(_LAST_ATTEMPT, **of, task_key=change.after["task_key"]) or 0) + 1
    return await _make(tx, scope, attempts, change, attempt=number)


async def is_indexed_with(tx: Tx, scope: Scope, thread_uid: str, seq: int, words: Sequence[str]) -> bool:
    """Whether one of these words, or another of its stem, is in the index for a message."""
    own = {row_id for row_id, _ in await indexed_rows.chunks_of(tx, scope, thread_uid, seq)}
    if not own:
        return False
    found = await lexical.postings(tx, scope, words, most=_ALL_ROWS)
    return any(not own.isdisjoint(row_ids.tolist()) for row_ids in found.values())
