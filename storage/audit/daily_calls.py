"""How often each tool was called on each day, how long it took, what was shown to models, and what hooks kept.

Counts are gathered in memory and added together: a row for each scope, day and tool (or host of hooks). A scope
without stored rows has none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import bindparam, delete, select

from layerlore.storage.audit.usage_rows import DAYS_KEPT
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.scopes import in_scope, of_scope
from layerlore.storage.core.statements import insert_or_update, refused
from layerlore.storage.core.tables import SCOPE, WAITS, daily_calls, resources, threads
from layerlore.storage.core.transaction import Tx

Source = Literal["tool", "hook"]
NO_WAITS = (0,) * len(WAITS)


@dataclass(frozen=True, slots=True)
class CallCount:
    """Calls of a tool on a day (whole days since 1970, of UTC), or of the hooks of a host. ``tokens`` were shown to a model,
    ``messages`` kept by hooks. ``waits``: how many calls were answered within each of ``WAIT_BOUNDS_MS`` and in no fewer,
    then how many took longer; hooks have none."""

    day: int
    source: Source
    name: str
    calls: int = 0
    failed: int = 0
    tokens: int = 0
    messages: int = 0
    waits: tuple[int, ...] = NO_WAITS


_SUMS = ("calls", "failed", "tokens", "messages", *WAITS)
_new = refused(daily_calls)
_ADD = insert_or_update(
    daily_calls,
    {column.name: bindparam(column.name) for column in daily_calls.c},
    keys=(*SCOPE, "day", "source", "name"),
    changes={name: daily_calls.c[name] + _new[name] for name in _SUMS},
)
# An erasure of the resource waits for these counts, or these counts see that it is gone.
_KNOWN = (
    select(resources.c.next_event_seq).where(in_scope(resources)).with_for_update(read=True, key_share=True),
    select(threads.c.thread_uid)
    .where(in_scope(threads), threads.c.deletion_uid.is_(None))
    .limit(1)
    .with_for_update(read=True, key_share=True),
)
_DROP_OLD_DAYS = delete(daily_calls).where(in_scope(daily_calls), daily_calls.c.day < bindparam("oldest"))
_BY_DAY = (
    select(daily_calls.c.day, daily_calls.c.source, daily_calls.c.name, *(daily_calls.c[name] for name in _SUMS))
    .where(in_scope(daily_calls), daily_calls.c.day >= bindparam("since_day"))
    .order_by(daily_calls.c.day, daily_calls.c.source, daily_calls.c.name)
)


async def add(tx: Tx, tenant: Tenant, counts: Sequence[tuple[Scope, Sequence[CallCount]]], *, today: int) -> None:
    """Add counts to those of the scopes of a tenant; days that are too long ago go. On Postgres, a writer to one of
    them waits meanwhile: give few at a time."""
    # In one order, so that two writers of the same scopes never wait for each other.
    for scope, of_it in sorted(counts, key=lambda each: (each[0].agent_id, each[0].resource_id)):
        own = {**of_scope(scope), "tenant_id": tenant.tenant_id}
        # A scope that was erased meanwhile gets no new rows: nothing of it may be left.
        if not await _is_known(tx, own):
            continue
        rows = [
            {
                **own,
                "day": each.day,
                "source": each.source,
                "name": each.name,
                "calls": each.calls,
                "failed": each.failed,
                "tokens": each.tokens,
                "messages": each.messages,
                **dict(zip(WAITS, each.waits, strict=True)),
            }
            for each in sorted(of_it, key=lambda each: (each.day, each.source, each.name))
        ]
        await tx.many(_ADD, rows)
        # Old days go with the next write of their scope, so no job has to sweep this table.
        await tx.run(_DROP_OLD_DAYS, **own, oldest=today - DAYS_KEPT)


async def _is_known(tx: Tx, own: Mapping[str, str]) -> bool:
    for statement in _KNOWN:
        if await tx.one(statement, **own) is not None:
            return True
    return False


async def by_day(tx: Tx, scope: Scope, since_day: int) -> list[CallCount]:
    """The counts of the scope since a day, the oldest first."""
    return [
        CallCount(int(day), source, name, calls, failed, tokens, messages, tuple(waits))
        for day, source, name, calls, failed, tokens, messages, *waits in await tx.all(
            _BY_DAY, **of_scope(scope), since_day=since_day
        )
    ]
