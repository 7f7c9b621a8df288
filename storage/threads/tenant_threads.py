"""The conversations of a whole tenant, across its agents and resources, for its operator."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from sqlalchemy import Select, bindparam, select, tuple_

from layerlore.storage.core.json_text import object_of
from layerlore.storage.core.records import Json, Tenant
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import threads
from layerlore.storage.core.transaction import Tx
from layerlore.storage.threads.threads import equals

Moment = Literal["created_at", "updated_at"]
# If metadata filters the threads, this number of rows is read at a time.
_CHOSEN_FROM = 200
_SHOWN = ("agent_id", "resource_id", "thread_uid", "thread_id", "title", "metadata")
_COUNTED = ("message_count", "token_count", "created_at", "updated_at")


@dataclass(frozen=True, slots=True)
class ThreadFilter:
    """Which conversations; what is None asks for nothing. ``since`` and ``until`` are of ``moment``, in milliseconds
    since 1970, both included."""

    agents: Collection[str] | None = None
    resource_id: str | None = None
    since: int | None = None
    until: int | None = None
    metadata: Mapping[str, Any] | None = None
    moment: Moment = "updated_at"
    descending: bool = True


@dataclass(frozen=True, slots=True)
class TenantThread:
    """A conversation, and whose it is."""

    agent_id: str
    resource_id: str
    thread_uid: str
    thread_id: str
    title: str | None
    metadata: Json
    message_count: int
    token_count: int
    created_at: int
    updated_at: int


@cache
def _page(moment: Moment, descending: bool, given: tuple[str, ...]) -> Select[Any]:
    value = threads.c[moment]
    place = tuple_(value, threads.c.thread_uid)
    start = tuple_(bindparam("after_value", type_=value.type), bindparam("after_uid"))
    conditions = {
        "agents": any_of(threads.c.agent_id, "agents"),
        "resource_id": threads.c.resource_id == bindparam("resource_id"),
        "since": value >= bindparam("since"),
        "until": value <= bindparam("until"),
        "after_uid": place < start if descending else place > start,
    }
    return (
        select(*(threads.c[name] for name in (*_SHOWN, *_COUNTED)))
        .where(
            threads.c.tenant_id == bindparam("tenant_id"),
            threads.c.deletion_uid.is_(None),
            *(conditions[name] for name in given),
        )
        .order_by(*(column.desc() if descending else column.asc() for column in (value, threads.c.thread_uid)))
        .limit(bindparam("page_size"))
    )


async def read_page(
    tx: Tx, tenant: Tenant, wanted: ThreadFilter, *, after: tuple[int, str] | None, limit: int
) -> tuple[list[TenantThread], tuple[int, str] | None]:
    """Live conversations of the tenant, and behind which the next page goes on; None: there are no more."""
    filters: dict[str, Any] = {
        "agents": None if wanted.agents is None else list(wanted.agents),
        "resource_id": wanted.resource_id,
        "since": wanted.since,
        "until": wanted.until,
    }
    given = {name: value for name, value in filters.items() if value is not None}
    sought = wanted.metadata or {}
    page_size = _CHOSEN_FROM if sought else limit + 1
    chosen: list[TenantThread] = []
    while True:
        behind = dict(zip(("after_value", "after_uid"), after, strict=True)) if after else {}
        names = (*given, *(["after_uid"] if after else []))
        rows = await tx.all(
            _page(wanted.moment, wanted.descending, names),
            tenant_id=tenant.tenant_id,
            page_size=page_size,
            **given,
            **behind,
        )
        for agent, resource, uid, thread_id, title, metadata, *counted in rows:
            found = TenantThread(agent, resource, uid, thread_id, title, object_of(metadata), *counted)
            if all(name in found.metadata and equals(found.metadata[name], value) for name, value in sought.items()):
                if len(chosen) == limit:
                    return chosen, after
                chosen.append(found)
            after = (getattr(found, wanted.moment), uid)
        if len(rows) < page_size:
            return chosen, None
