"""The subjects of threads: whom or what a conversation is about, which its metadata names. A conversation about one
customer does not see the memories about another."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlalchemy import bindparam, select

from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.index_rows import PackedIntegers, RowIdArray, unpacked
from layerlore.storage.core.records import SUBJECT_KEY, Json, Scope
from layerlore.storage.core.scopes import in_scope, note_places, of_scope
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import entries, entry_sources, search_rows, threads
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived.entries import PLACE
from layerlore.storage.threads.threads import COLUMNS, find, make_thread

KEY = SUBJECT_KEY
"""The key of a thread's metadata."""
EVERY = "*"
"""Stands for every subject."""

# A first filter: the key may also stand in another place, so the metadata is parsed afterwards.
_named = threads.c.metadata.like(f'%"{KEY}"%')
_NAMED = select(*COLUMNS).where(in_scope(threads), threads.c.deletion_uid.is_(None), _named)
_of_them = any_of(entry_sources.c.thread_uid, "uids")
_resting = select(entry_sources.c.entry_id).where(in_scope(entry_sources), _of_them)
_SOURCES = select(entry_sources.c.entry_id, entry_sources.c.thread_uid).where(
    in_scope(entry_sources), entry_sources.c.entry_id.in_(_resting)
)
_KEPT_ELSEWHERE = select(entries.c.entry_id).where(
    in_scope(entries), entries.c.subject.is_not(None), entries.c.subject != bindparam("subject")
)
_ROWS = select(PackedIntegers(search_rows.c.row_id)).where(
    in_scope(search_rows), any_of(search_rows.c.thread_uid, "uids")
)


@dataclass(frozen=True, slots=True)
class OtherSubjects:
    """All that is about another subject: the uids and names of threads, the ids of entries that were stored in these
    or whose sources all lie in these, and the rows of the index of both, ascending."""

    uids: frozenset[str] = frozenset()
    thread_ids: frozenset[str] = frozenset()
    entry_ids: frozenset[str] = frozenset()
    rows: RowIdArray = field(default_factory=lambda: np.empty(0, np.int64))


def subject_in(metadata: Json) -> str:
    """The subject that a thread's or a message's metadata names; "" if it names none."""
    value = metadata.get(KEY)
    # In Python a bool is an int, but it is not a name.
    is_name = isinstance(value, str | int) and not isinstance(value, bool)
    if is_name:
        return str(value).strip()
    return ""


async def read_subject(tx: Tx, scope: Scope, thread_id: str) -> str:
    """The subject of a thread; "" for one without, and for an unknown one."""
    try:
        return subject_in((await find(tx, scope, thread_id)).metadata)
    except NotFound:
        return ""


async def find_others(tx: Tx, scope: Scope, subject: str) -> OtherSubjects:
    """The rows that a thread with the subject is not shown. Without a subject, or with EVERY, it is shown
    everything."""
    if subject in ("", EVERY):
        return OtherSubjects()
    found = [make_thread(row) for row in await tx.all(_NAMED, **of_scope(scope))]
    others = [each for each in found if subject_in(each.metadata) not in ("", subject)]
    kept_elsewhere = await tx.scalars(_KEPT_ELSEWHERE, **of_scope(scope), subject=subject)
    if not others and not kept_elsewhere:
        return OtherSubjects()
    uids = frozenset(each.thread_uid for each in others)
    of: dict[str, Any] = {**of_scope(scope), "uids": sorted(uids)}
    sources: defaultdict[str, set[str]] = defaultdict(set)
    for entry_id, thread_uid in await tx.all(_SOURCES, **of):
        sources[entry_id].add(thread_uid)
    # An entry that a thread of this subject supports as well may be shown here.
    quoted_elsewhere = frozenset(entry_id for entry_id, of_entry in sources.items() if of_entry <= uids)
    entry_ids = quoted_elsewhere.union(map(str, kept_elsewhere))
    notes = [place for uid in sorted(uids) for place in note_places(uid)]
    of["uids"] = [*sorted(uids), *notes, *(PLACE + entry_id for entry_id in sorted(entry_ids))]
    rows = unpacked(await tx.scalar(_ROWS, **of))
    return OtherSubjects(uids, frozenset(each.thread_id for each in others), entry_ids, rows)
