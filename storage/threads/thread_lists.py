"""The live threads of a scope at any place of their list, changed last first, for whoever scrolls through thousands."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Select, bindparam, func, select

from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.scopes import in_scope, of_scope
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import threads
from layerlore.storage.core.transaction import Tx
from layerlore.storage.threads.threads import COLUMNS, make_thread

_MOST_LOOKED_AT = 100_000

_live = threads.c.deletion_uid.is_(None)


def _newest(*columns: Any) -> Select[Any]:
    query = select(*columns).where(in_scope(threads), _live)
    return query.order_by(threads.c.updated_at.desc(), threads.c.thread_uid.desc()).limit(bindparam("most"))


_COUNT = select(func.count()).select_from(threads).where(in_scope(threads), _live)
_PAGE = _newest(*COLUMNS).offset(bindparam("skipped"))
_NAMES = _newest(threads.c.thread_uid, threads.c.thread_id, threads.c.title)
_CHOSEN = select(*COLUMNS).where(in_scope(threads), _live, any_of(threads.c.thread_uid, "uids"))


async def read_at(tx: Tx, scope: Scope, offset: int, limit: int) -> tuple[int, list[Thread]]:
    """How many threads there are, and those at a place of the list."""
    rows = await tx.all(_PAGE, **of_scope(scope), skipped=offset, most=limit)
    return int(await tx.scalar(_COUNT, **of_scope(scope)) or 0), [make_thread(row) for row in rows]


async def search_at(
    tx: Tx, scope: Scope, fits: Callable[[str, str], bool], offset: int, limit: int
) -> tuple[int, list[Thread]]:
    """The same of those alone whose id and title (or "") fit, among the newest 100,000."""
    names = await tx.all(_NAMES, **of_scope(scope), most=_MOST_LOOKED_AT)
    found = [uid for uid, thread_id, title in names if fits(thread_id, title or "")]
    return len(found), await _read_chosen(tx, scope, found[offset : offset + limit])


async def _read_chosen(tx: Tx, scope: Scope, uids: Sequence[str]) -> list[Thread]:
    by_uid = {
        each.thread_uid: each for each in map(make_thread, await tx.all(_CHOSEN, **of_scope(scope), uids=list(uids)))
    }
    return [by_uid[uid] for uid in uids]
