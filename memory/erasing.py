"""Erasing for good: everything that is kept of a resource, or of its threads of one name. A receipt tells how much that
was, and holds nothing of it."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from layerlore.memory.acceptance import check_id
from layerlore.memory.ages import iso
from layerlore.memory.engine import Engine
from layerlore.memory.journaling import line_of, mark, resource_mark
from layerlore.storage import erasable, erasing, events, installation, journal
from layerlore.storage.erasable import Counts
from layerlore.storage.errors import StorageUnavailable
from layerlore.storage.events import NewEvent
from layerlore.storage.records import Json, Origin, Scope, Tenant
from layerlore.storage.sqlite_database import SqliteDatabase
from layerlore.storage.transaction import Tx

log = logging.getLogger(__name__)

Bytes = Literal["erased", "owed", "vacuum"]
"""What became of the bytes. ``erased``: the SQLite file was rewritten and its log emptied. ``owed``: another process is
at the file; a running server, or the next one to start, rewrites it within a minute. ``vacuum``: Postgres reuses the
space by itself; its old log files and backups are the operator's."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was erased, or (``dry_run``) would be: rows by table, ``at`` in milliseconds since 1970.

    ``resource`` and ``thread`` are marks (HMAC): the same for the same id, and they tell nobody the id. ``agent`` is
    None for all agents; ``thread`` is empty for everything. ``bytes`` is None where nothing was erased.
    """

    id: str
    at: int
    tenant: str
    agent: str | None
    resource: str
    thread: str
    counts: Mapping[str, int]
    bytes: Bytes | None
    dry_run: bool

    @property
    def rows(self) -> int:
        """In all."""
        return sum(self.counts.values())


Hidden = Callable[[Tx, Receipt], Awaitable[None]]
"""Hears what was hidden, before that is committed; raises what keeps it from being."""


async def _accepted(tx: Tx, receipt: Receipt) -> None:
    """Whatever it was."""


def shown(receipt: Receipt) -> Json:
    """A receipt as an answer has it."""
    return {
        "receipt": receipt.id,
        "at": iso(receipt.at),
        "dry_run": receipt.dry_run,
        "tenant": receipt.tenant,
        **({"agent": receipt.agent} if receipt.agent is not None else {}),
        "resource_mark": receipt.resource,
        **({"thread_mark": receipt.thread} if receipt.thread else {}),
        "rows": receipt.rows,
        "counts": dict(sorted(receipt.counts.items())),
        **({"bytes": receipt.bytes} if receipt.bytes is not None else {}),
    }


async def erase(
    engine: Engine,
    tenant: Tenant,
    resource_id: str,
    *,
    agent_id: str | None = None,
    thread_id: str = "",
    dry_run: bool = False,
    origin: Origin,
    hidden: Hidden = _accepted,
) -> Receipt:
    """Erase everything of a tenant's resource, of all agents or of one; or its threads of a name, live and deleted, with
    what was made from them. It is hidden in one transaction, then erased in small ones, and SQLite's file is rewritten.
    What is written meanwhile is new and stays. A dry run counts the same and changes nothing.
    ``hidden`` is called in the first transaction, bound to the last agent; if it raises, nothing is erased.

    Nothing kept: a receipt without rows. Raises InvalidInput, LimitExceeded, StorageUnavailable (what was hidden by then
    stays so, and is erased by whoever comes next).
    """
    check_id(resource_id, "resource", engine.limits.id_chars)
    if agent_id is not None:
        check_id(agent_id, "agent", engine.limits.id_chars)
    if thread_id:
        check_id(thread_id, "thread", engine.limits.thread_id_chars)
    now, id_ = engine.now(), engine.new_id()
    agents = [agent_id] if agent_id is not None else await engine.database.read(erasable.agents_of, tenant, resource_id)
    # That it was asked for has a line in the journal also if no agent keeps anything.
    scopes = [Scope(tenant.tenant_id, agent, resource_id) for agent in agents or [""]]
    receipt = Receipt(
        id_,
        now,
        tenant.tenant_id,
        agent_id,
        resource_mark(engine.hmac_key, resource_id),
        mark(engine.hmac_key, "thread", thread_id) if thread_id else "",
        Counter(),
        None,
        dry_run,
    )
    if dry_run:
        return replace(receipt, counts=await engine.database.read(_count, tenant, scopes, thread_id))

    async def write(tx: Tx, _: Tenant) -> Receipt:
        counts = await _hide(engine, tx, scopes, thread_id, origin, now)
        first = replace(receipt, counts=counts, bytes="owed")
        await hidden(tx, first)
        return first

    receipt = await engine.database.write(write, tenant)
    engine.wake.tell()  # what fell back is to be made again
    for scope in scopes:
        await _purge(engine, scope)
    return replace(receipt, bytes=await rewrite_if_owed(engine))


async def _count(tx: Tx, _: Tenant, scopes: Sequence[Scope], thread_id: str) -> Counts:
    counts: Counts = Counter()
    for scope in scopes:
        await tx.enter(scope)
        if not thread_id:
            counts += await erasable.count(tx, scope)
        elif uids := await erasable.named(tx, scope, thread_id):
            counts += await erasable.count_threads(tx, scope, thread_id, uids)
    return counts


async def _hide(engine: Engine, tx: Tx, scopes: Sequence[Scope], thread_id: str, origin: Origin, now: int) -> Counts:
    """With a line in the journal for each agent."""
    counts: Counts = Counter()
    for scope in scopes:
        await tx.enter(scope)
        hidden = await _hide_threads(tx, scope, thread_id, origin, now) if thread_id else await erasing.hide(tx, scope)
        await journal.append(tx, scope, line_of(engine.hmac_key, scope, origin, "done", now, counts=hidden))
        counts += hidden
    return counts


async def _hide_threads(tx: Tx, scope: Scope, thread_id: str, origin: Origin, now: int) -> Counts:
    hidden = await erasing.hide_threads(tx, scope, thread_id, now=now)
    if hidden.counts:
        told = {name: hidden.counts[name] for name in ("threads", "messages")}
        happened = [NewEvent("memory_erased", told)]
        if "profile" in hidden.fell_back:
            happened.append(NewEvent("profile_updated", {"mode": "fall_back"}))
        for each in happened:
            await events.record_of_resource(tx, scope, each, origin=origin, now=now)
    return hidden.counts


async def _purge(engine: Engine, scope: Scope) -> int:
    erased = 0
    engine.forget_made(scope)
    while some := await engine.database.write(erasing.purge, scope):
        erased += some
    engine.forget_made(scope)  # by whoever was reading meanwhile
    return erased


async def finish_erasures(engine: Engine) -> int:
    """Erase what is marked, after whoever was at it came to an end. Returns how many rows that were."""
    erased = 0
    for scope in await engine.database.read_installation(erasing.unfinished):
        erased += await _purge(engine, scope)
    return erased


async def rewrite_if_owed(engine: Engine) -> Bytes:
    """Rewrite SQLite's file if bytes of what was erased may be left in it."""
    database = engine.database
    if not isinstance(database, SqliteDatabase):
        return "vacuum"
    owed = await database.read_installation(installation.rewrite_owed)
    if owed is None:
        return "erased"
    try:
        if not await database.rewrite():
            return "owed"
    except StorageUnavailable as error:
        log.warning("what was erased may have left bytes in the file; it is rewritten later: %s", error)
        return "owed"
    await database.write_installation(installation.rewritten, owed)
    return "erased"
