"""Acts: what one call did that can be undone, as places of what is stored. They hold no content, and go with the
threads that they name."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import bindparam, delete, insert, or_, select, update

from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import in_scope, of_scope
from layerlore.storage.core.statements import parameters
from layerlore.storage.core.tables import SCOPE, undo_parts
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.transaction import Tx

RETENTION = "retention"
"""The tool of the deletes that the rules of retention make."""
SESSION_MEMORY = "session_memory"
PROFILE = "profile"
"""The tools of the documents that background work writes."""
SERVER_TOOLS = (RETENTION, SESSION_MEMORY, PROFILE)
"""The tools of acts that no caller asked for. An undo of the last act passes over them."""

PartKind = Literal["deletion", "document", "plan", "dropped", "superseded", "kept", "refreshed", "pinned", "wrong"]


@dataclass(frozen=True, slots=True)
class ActPart:
    """One thing that an act did. ``deletion``: a delete of this uid (``ref``); ``document``: a session memory, or without
    a thread the profile, changed from one version to another; ``plan``: likewise, in revisions; ``dropped``: an entry;
    ``superseded``: an entry whose place another took, which was ``kept`` for it, or was there before (``refreshed``);
    ``pinned`` and ``wrong``: a mark of an entry, with 1 for a version where it has the mark, else 0."""

    kind: PartKind
    ref: str = ""
    thread_uid: str | None = None
    before_version: int = 0
    after_version: int = 0


@dataclass(frozen=True, slots=True)
class Act:
    """The effect of one call, and its time (milliseconds since 1970). ``undone``: nothing of it is left to undo.
    ``thread_ids``: the names of the threads, in the order of the parts, None for those of none."""

    undo_id: str
    tool: str
    created_at: int
    undone: bool
    parts: tuple[ActPart, ...]
    open_parts: tuple[int, ...]
    thread_ids: tuple[str | None, ...] = ()


_PART = tuple(ActPart.__dataclass_fields__)
_INSERT = insert(undo_parts).values(**parameters(*SCOPE, "undo_id", "part", *_PART, "tool", "created_at"))
_this = undo_parts.c.undo_id == bindparam("of_act")
_ROWS = (
    select(
        undo_parts.c.undo_id,
        undo_parts.c.tool,
        undo_parts.c.created_at,
        undo_parts.c.undone_at,
        undo_parts.c.part,
        threads_table.c.thread_id,
        *(undo_parts.c[name] for name in _PART),
    )
    .select_from(
        # Outer, since what an act did to the profile or an entry hangs on no thread.
        undo_parts.outerjoin(
            threads_table,
            (undo_parts.c.tenant_id == threads_table.c.tenant_id)
            & (undo_parts.c.agent_id == threads_table.c.agent_id)
            & (undo_parts.c.resource_id == threads_table.c.resource_id)
            & (undo_parts.c.thread_uid == threads_table.c.thread_uid),
        )
    )
    .where(in_scope(undo_parts), undo_parts.c.created_at >= bindparam("since"))
)
_ONE = _ROWS.where(_this).order_by(undo_parts.c.part)
_IDS = (
    select(undo_parts.c.undo_id)
    .where(in_scope(undo_parts), undo_parts.c.created_at >= bindparam("since"), undo_parts.c.undone_at.is_(None))
    .group_by(undo_parts.c.undo_id, undo_parts.c.created_at)
    .order_by(undo_parts.c.created_at.desc(), undo_parts.c.undo_id.desc())
    .limit(bindparam("most"))
)
_IDS_OF_CALLERS = _IDS.where(*(undo_parts.c.tool != name for name in SERVER_TOOLS))
_IDS_OF_SERVER = _IDS.where(or_(*(undo_parts.c.tool == name for name in SERVER_TOOLS)))
_OF_DOCUMENTS = (
    _ROWS.with_only_columns(threads_table.c.thread_id, undo_parts.c.before_version, undo_parts.c.undo_id)
    .where(
        undo_parts.c.kind == "document",
        (undo_parts.c.thread_uid.is_(None)) | (threads_table.c.deletion_uid.is_(None)),
    )
    .order_by(undo_parts.c.created_at)
)
_LOCK = select(undo_parts.c.part).where(in_scope(undo_parts), _this).order_by(undo_parts.c.part).with_for_update()
_MARK = (
    update(undo_parts)
    .where(in_scope(undo_parts), _this, undo_parts.c.part == bindparam("of_part"))
    .values(undone_at=bindparam("now"))
)
_MARK_RESTORED = (
    update(undo_parts)
    .where(in_scope(undo_parts), undo_parts.c.ref == bindparam("deletion_uid"), undo_parts.c.kind == "deletion")
    .values(undone_at=bindparam("now"))
)
_FORGET = delete(undo_parts).where(in_scope(undo_parts), undo_parts.c.created_at < bindparam("before"))


async def record(
    tx: Tx, scope: Scope, undo_id: str, tool: str, parts: Sequence[ActPart], *, now: int, kept_since: int
) -> None:
    """Write down what a call did, and forget the acts of before ``kept_since`` (milliseconds since 1970)."""
    # Old acts go with the next one, so no job has to sweep this table.
    await tx.run(_FORGET, **of_scope(scope), before=kept_since)
    shared = {**of_scope(scope), "undo_id": undo_id, "tool": tool, "created_at": now}
    rows = [
        {**shared, "part": number, **{name: getattr(part, name) for name in _PART}}
        for number, part in enumerate(parts, 1)
    ]
    await tx.many(_INSERT, rows)


async def list_version_acts(tx: Tx, scope: Scope, thread_id: str, *, since: int) -> dict[int, str]:
    """By the version that a document had before an act, the newest such act; an empty ``thread_id`` is the resource's
    document. Undone acts count, too: they can bring their version back again."""
    rows = await tx.all(_OF_DOCUMENTS, **of_scope(scope), since=since)
    return {version: undo_id for name, version, undo_id in rows if (name or "") == thread_id}


async def read(tx: Tx, scope: Scope, undo_id: str, *, since: int) -> Act | None:
    """The act of this id, unless it is unknown, or was before ``since`` (milliseconds since 1970)."""
    rows = await tx.all(_ONE, **of_scope(scope), of_act=undo_id, since=since)
    if not rows:
        return None
    _, tool, created_at, *_ = rows[0]
    return Act(
        undo_id,
        tool,
        created_at,
        undone=all(row[3] is not None for row in rows),
        parts=tuple(ActPart(*row[6:]) for row in rows),
        open_parts=tuple(at for at, row in enumerate(rows) if row[3] is None),
        thread_ids=tuple(row[5] for row in rows),
    )


async def lock(tx: Tx, scope: Scope, undo_id: str, *, since: int) -> Act | None:
    """The act, held until the transaction ends, as ``read`` gives it."""
    # The outer join of the read cannot be locked, so the rows are locked before it.
    await tx.all(_LOCK, **of_scope(scope), of_act=undo_id)
    return await read(tx, scope, undo_id, since=since)


async def list_open(tx: Tx, scope: Scope, *, since: int, most: int, by_server: bool = False) -> list[Act]:
    """The acts of callers, or those of the server itself, that can be undone, the newest first."""
    statement = _IDS_OF_SERVER if by_server else _IDS_OF_CALLERS
    ids = await tx.scalars(statement, **of_scope(scope), since=since, most=most)
    found = [await read(tx, scope, undo_id, since=since) for undo_id in ids]
    return [act for act in found if act is not None]


async def mark_undone(tx: Tx, scope: Scope, act: Act, places: Sequence[int], *, now: int) -> None:
    """Note that these parts (by their places in the act) are undone."""
    # Places are counted from 0 in the act, parts are numbered from 1.
    numbers = await tx.scalars(_LOCK, **of_scope(scope), of_act=act.undo_id)
    for place in places:
        await tx.run(_MARK, **of_scope(scope), of_act=act.undo_id, of_part=numbers[place], now=now)


async def mark_restored(tx: Tx, scope: Scope, deletion_uid: str, *, now: int) -> None:
    """Note that a delete was undone, by whatever way."""
    await tx.run(_MARK_RESTORED, **of_scope(scope), deletion_uid=deletion_uid, now=now)
