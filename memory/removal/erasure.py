"""Erasure for good: everything that is stored of a resource, or of its threads of one name. A receipt says how much
that was, and holds nothing of it.

A caller of the server is shown first how much would go, with a token that confirms it. The token is an HMAC and is not
stored. It stands for a scope, a thread, how many threads and messages there were, and until when it holds, so that no
later message is erased unseen. (What background work makes of it comes and goes.)"""

import base64
import hashlib
import hmac
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.engine.journal_lines import make_line, mark, resource_mark
from layerlore.memory.removal.removal_answers import ErasedMemory, ReceiptRow
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.answers import order_keys
from layerlore.memory.rules.validation import check_id
from layerlore.storage.audit import journal_rows
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Origin, Scope, Tenant
from layerlore.storage.core.transaction import ErasedBytes, Tx
from layerlore.storage.derived import note_rows
from layerlore.storage.removal import erasure
from layerlore.storage.removal.erasure import Counts
from layerlore.storage.threads import events
from layerlore.storage.threads.events import NewEvent

log = logging.getLogger(__name__)

TOKEN_MINUTES = 10
# 15 bytes are 24 characters of base32 without padding.
_MAC_BYTES = 15


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """The erased rows, or (``dry_run``) those that would be erased: rows by table, ``at`` in milliseconds since 1970.

    ``resource`` and ``thread`` are marks (HMAC): the same for the same id, and the id cannot be read from them.
    ``agent`` is None for all agents; ``thread`` is empty for everything. ``bytes`` is None where nothing was erased.
    """

    id: str
    at: int
    tenant: str
    agent: str | None
    resource: str
    thread: str
    counts: Mapping[str, int]
    bytes: ErasedBytes | None
    dry_run: bool

    @property
    def rows(self) -> int:
        """The number of rows in all tables."""
        return sum(self.counts.values())


HiddenHook = Callable[[Tx, ErasureReceipt], Awaitable[None]]
"""Called with the receipt of what was hidden, before the commit; what it raises prevents the commit."""


async def _accept(tx: Tx, receipt: ErasureReceipt) -> None:
    """Let every erasure pass."""


def show_receipt(receipt: ErasureReceipt) -> ReceiptRow:
    """A receipt as an answer has it."""
    row: ReceiptRow = {
        "receipt": receipt.id,
        "at": iso(receipt.at),
        "dry_run": receipt.dry_run,
        "tenant": receipt.tenant,
        "resource_mark": receipt.resource,
        "rows": receipt.rows,
        "counts": dict(sorted(receipt.counts.items())),
    }
    if receipt.agent is not None:
        row["agent"] = receipt.agent
    if receipt.thread:
        row["thread_mark"] = receipt.thread
    if receipt.bytes is not None:
        row["bytes"] = receipt.bytes
    return order_keys(ReceiptRow, row)


def _show_erased(receipt: ErasureReceipt, agent_id: str) -> ErasedMemory:
    return {**show_receipt(receipt), "agent": agent_id}


async def erase(
    engine: Engine,
    tenant: Tenant,
    resource_id: str,
    *,
    agent_id: str | None = None,
    thread_id: str = "",
    dry_run: bool = False,
    origin: Origin,
    hidden: HiddenHook = _accept,
) -> ErasureReceipt:
    """Erase everything of a tenant's resource, of all agents or of one; or its threads of a name, live and deleted,
    with what was made from them. It is hidden in one transaction, then erased in small ones, and SQLite's file is
    rewritten. Rows written meanwhile are new and stay. A dry run counts the same and changes nothing. ``hidden`` is
    called in the first transaction, bound to the last agent; if it raises, nothing is erased.

    Nothing kept: a receipt without rows. Raises InvalidInput, LimitExceeded, StorageUnavailable (what was hidden by
    then stays so, and the next erasure removes it).
    """
    check_id(resource_id, "resource", engine.limits.id_chars)
    if agent_id is not None:
        check_id(agent_id, "agent", engine.limits.id_chars)
    if thread_id:
        check_id(thread_id, "thread", engine.limits.thread_id_chars)
    now, id_ = engine.now(), engine.new_id()
    if agent_id is not None:
        agents = [agent_id]
    else:
        agents = await engine.database.read(erasure.agents_of, tenant, resource_id)
    # That it was requested has a line in the journal also if no agent keeps anything.
    scopes = [Scope(tenant.tenant_id, agent, resource_id) for agent in agents or [""]]
    receipt = ErasureReceipt(
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

    async def write(tx: Tx, _: Tenant) -> ErasureReceipt:
        counts = await _hide(engine, tx, scopes, thread_id, origin, now)
        first = replace(receipt, counts=counts, bytes="owed")
        await hidden(tx, first)
        return first

    receipt = await engine.database.write(write, tenant)
    engine.wake.notify()  # what fell back is to be made again
    for scope in scopes:
        if not thread_id:
            # Counts that still wait in memory would write rows of the erased scope again.
            engine.counts.forget(scope)
        await _purge(engine, scope)
    return replace(receipt, bytes=await rewrite_if_owed(engine))


async def _count(tx: Tx, _: Tenant, scopes: Sequence[Scope], thread_id: str) -> Counts:
    counts: Counts = Counter()
    for scope in scopes:
        await tx.enter(scope)
        if not thread_id:
            counts += await erasure.count(tx, scope)
        elif uids := await erasure.find_named(tx, scope, thread_id):
            counts += await erasure.count_threads(tx, scope, thread_id, uids)
    return counts


async def _hide(engine: Engine, tx: Tx, scopes: Sequence[Scope], thread_id: str, origin: Origin, now: int) -> Counts:
    """Hide what is to be erased, with a line in the journal for each agent."""
    counts: Counts = Counter()
    for scope in scopes:
        await tx.enter(scope)
        if thread_id:
            hidden = await _hide_threads(tx, engine, scope, thread_id, origin, now)
        else:
            hidden = await erasure.hide(tx, scope)
        await journal_rows.append(tx, scope, make_line(engine.hmac_key, scope, origin, "done", now, counts=hidden))
        counts += hidden
    return counts


async def _hide_threads(tx: Tx, engine: Engine, scope: Scope, thread_id: str, origin: Origin, now: int) -> Counts:
    hidden = await erasure.hide_threads(tx, scope, thread_id, now=now)
    if hidden.counts:
        await note_rows.refresh_document(tx, scope, None, engine.search_text_of)
        counts = {name: hidden.counts[name] for name in ("threads", "messages")}
        happened = [NewEvent("memory_erased", counts)]
        if "profile" in hidden.fell_back:
            happened.append(NewEvent("profile_updated", {"mode": "fall_back"}))
        for each in happened:
            await events.record_of_resource(tx, scope, each, origin=origin, now=now)
    return hidden.counts


async def _purge(engine: Engine, scope: Scope) -> int:
    erased = 0
    engine.forget_texts(scope)
    while some := await engine.database.write(erasure.purge, scope):
        erased += some
    engine.forget_texts(scope)  # by a reader meanwhile
    return erased


async def finish_erasures(engine: Engine) -> int:
    """Erase the marked rows, after an earlier eraser has ended. Returns how many rows that were."""
    erased = 0
    for scope in await engine.database.read_installation(erasure.unfinished):
        erased += await _purge(engine, scope)
    return erased


async def rewrite_if_owed(engine: Engine) -> ErasedBytes:
    """See to the bytes of what was erased, as the database can."""
    return await engine.database.rewrite_erased()


async def preview_erasure(engine: Engine, scope: Scope, thread_id: str, origin: Origin) -> ErasedMemory:
    """Count what is stored of the scope (or of its threads of that name): a dry run's receipt, and the token that
    confirms it.

    Raises InvalidInput, LimitExceeded, StorageUnavailable.
    """
    receipt = await _erase_scope(engine, scope, thread_id, origin, dry_run=True)
    until = engine.now() // 1000 + TOKEN_MINUTES * 60
    token = _token(engine, scope, thread_id, receipt, until)
    return {**_show_erased(receipt, scope.agent_id), "confirm": token, "confirm_before": iso(until * 1000)}


async def confirm_erasure(engine: Engine, scope: Scope, thread_id: str, token: str, sent: WriteRequest) -> ErasedMemory:
    """Erase what a preview showed at most TOKEN_MINUTES ago, and return the receipt. The same request sent again gets
    the first receipt again, which is stored for a day under its key.

    Raises InvalidInput for a token of something else, or of another time, LimitExceeded, Conflict, StorageUnavailable.
    """
    arguments = [thread_id, token]
    # A repeated call finds nothing left to erase, so the first receipt answers it.
    if (answered := await engine.kept_answer(scope, sent, arguments)) is not None:
        return cast("ErasedMemory", answered)
    seen = await _erase_scope(engine, scope, thread_id, sent.origin, dry_run=True)
    _check(engine, scope, thread_id, seen, token)

    async def hidden(tx: Tx, receipt: ErasureReceipt) -> None:
        # Again, since a message may have come meanwhile. The receipt is stored in the same
        # transaction, so that an interrupted caller gets one.
        _check(engine, scope, thread_id, receipt, token)
        await engine.keep_answer(tx, scope, sent, arguments, _show_erased(receipt, scope.agent_id))

    receipt = await _erase_scope(engine, scope, thread_id, sent.origin, hidden=hidden)
    answer = _show_erased(receipt, scope.agent_id)
    await engine.database.write(engine.keep_answer, scope, sent, arguments, answer)
    return answer


async def _erase_scope(
    engine: Engine,
    scope: Scope,
    thread_id: str,
    origin: Origin,
    *,
    dry_run: bool = False,
    hidden: HiddenHook = _accept,
) -> ErasureReceipt:
    return await erase(
        engine,
        Tenant(scope.tenant_id),
        scope.resource_id,
        agent_id=scope.agent_id,
        thread_id=thread_id,
        dry_run=dry_run,
        origin=origin,
        hidden=hidden,
    )


def _token(engine: Engine, scope: Scope, thread_id: str, receipt: ErasureReceipt, until: int) -> str:
    counts = [receipt.counts.get(name, 0) for name in ("threads", "messages")]
    body = to_json(["erase", scope.tenant_id, scope.agent_id, scope.resource_id, thread_id, *counts, until])
    mac = hmac.new(engine.hmac_key, body.encode(), hashlib.sha256).digest()[:_MAC_BYTES]
    return f"{until:x}-{base64.b32encode(mac).decode().lower()}"


def _check(engine: Engine, scope: Scope, thread_id: str, receipt: ErasureReceipt, token: str) -> None:
    again = "this call erased nothing: call it with dry_run=true, and again with the token that it gives"
    try:
        # The caller wrote this token: without a bound, a number of many digits would take long to read.
        until = int(token.partition("-")[0][:16], 16)
    except ValueError:
        until = 0
    # The HMAC covers the time, so a token with a changed time fails here.
    if not hmac.compare_digest(_token(engine, scope, thread_id, receipt, until).encode(), token.encode()):
        raise InvalidInput(
            "confirm: needs the token that a dry run with the same thread_id gave, and no message may have come or gone "
            f"since; {again}"
        )
    if until * 1000 < engine.now():
        raise InvalidInput(f"confirm: the token was good until {iso(until * 1000)}; {again}")
