"""One attempt at a job: its material is read, an answer found, and what it says stored together with the job's end."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio

from layerlore.extraction.chat.port import Chat, ThinkingFailed
from layerlore.extraction.kind import EXTRACTIVE, InPart, JobKind, Material, Readied, Thinker
from layerlore.memory.engine import Engine, Sent
from layerlore.storage import jobs, resources, spending, tenant_spending, usage
from layerlore.storage.errors import NotFound
from layerlore.storage.jobs import Claim
from layerlore.storage.records import Json, Origin, Tenant
from layerlore.storage.transaction import Tx
from layerlore.storage.usage import Line, Spent

log = logging.getLogger(__name__)


class NoThinker(Exception):
    """There is no model for this kind, and it has no answer without one: the job waits for the host's."""


async def attempt(engine: Engine, kind: JobKind, claim: Claim, chat: Chat | None) -> None:
    """Do a claimed job, or raise what kept it from being done; then nothing of it is stored. Without a chat the answer
    is the kind's own digest.

    Raises Refused, Stale, Fenced, NoThinker, ThinkingFailed, StorageUnavailable, or whatever a defect raises.
    """
    material = await prepared(engine, kind, claim)
    if material is None:
        return
    answer, by = await _answer(engine, kind, claim, material, chat)
    stored = await conclude(engine, kind, claim, material, answer, by)
    for reason in stored.get("refused", ()):
        log.warning("%s: left out of an answer: %s", kind.name, reason)


async def prepared(engine: Engine, kind: JobKind, claim: Claim) -> Material | None:
    """What the job is about; None when there is nothing to do: then it is done. Raises Fenced, StorageUnavailable."""
    try:
        material = await engine.database.read(kind.prepare, claim, engine)
    except NotFound:  # deleted since the job was asked for
        material = None
    if material is None:
        await engine.database.write(jobs.finish, claim, now=engine.now())
    return material


async def conclude(
    engine: Engine,
    kind: JobKind,
    claim: Claim,
    material: Material,
    answer: Json,
    by: Thinker,
    sent: Sent | None = None,
    arguments: Sequence[Any] = (),
) -> Json:
    """Check what somebody answered to the material, and store it together with the job's end, or nothing of it.

    ``sent``: by whom, with which arguments, where it is a caller who may send it again. Returns ``kind`` and, where
    parts of the answer were left out, why (``refused``). Raises Refused, Stale, Fenced, StorageUnavailable.
    """
    read = result = kind.read(answer, material)
    if isinstance(kind, Readied):
        result = await kind.ready(engine, material, result)
    refused = list(read.refused) if isinstance(read, InPart) else []
    now = engine.now()

    async def store(tx: Tx) -> Json:
        await _store(tx, engine, kind, claim, material, result, by, now=now)
        return {"kind": kind.name, **({"refused": refused} if refused else {})}

    # It also tells the worker, for which it may have made other work due.
    return await engine.write(claim.scope, sent or _by_job(kind), list(arguments), now, store)


def _by_job(kind: JobKind) -> Sent:
    return Sent(Origin(kind.name, "", f"job:{kind.name}"))


async def _store(
    tx: Tx,
    engine: Engine,
    kind: JobKind,
    claim: Claim,
    material: Material,
    result: Any,
    by: Thinker,
    *,
    now: int,
) -> None:
    # Who is fenced off would meet rows that somebody else wrote. What decides is the end: it is of one transaction.
    if await jobs.held(tx, claim.scope, claim.thread_uid, claim.kind, claim.epoch) is None:
        raise jobs.Fenced("somebody else has the job")
    done_seq = await kind.commit(tx, claim, engine, material, result, by)
    await jobs.finish(tx, claim if done_seq is None else replace(claim, seq=done_seq), now=now)


async def _answer(
    engine: Engine, kind: JobKind, claim: Claim, material: Material, chat: Chat | None
) -> tuple[Json, Thinker]:
    if chat is None or material.silent:
        digested = kind.digested(material)
        if digested is None:
            raise NoThinker()
        return digested, Thinker(EXTRACTIVE, material.prompt)
    try:
        answer = await chat.answer(kind.name, material)
    except ThinkingFailed as error:
        await _count(engine, kind, claim, chat.model(kind.name), error.spent)
        raise
    # Before anybody looks at it: what it cost, it cost.
    await _count(engine, kind, claim, answer.model, answer.usage)
    return answer.json, Thinker(answer.model, material.prompt)


async def _count(engine: Engine, kind: JobKind, claim: Claim, model: str, spent: Spent) -> None:
    if spent == Spent():
        return
    with anyio.CancelScope(shield=True):
        await engine.database.write(_add, claim, Line(model, kind.source, spent), now=engine.now())


async def _add(tx: Tx, claim: Claim, line: Line, *, now: int) -> None:
    spent = line.spent
    # Of a resource that was erased meanwhile nothing is kept; that it was spent is.
    if await resources.still_known(tx, claim.scope, claim.thread_uid):
        await usage.add(tx, claim.scope, claim.thread_uid, [line], now=now)
    tokens = spent.input_tokens + spent.output_tokens
    await spending.add(tx, spending.OfDay(tokens, spent.cost_nano_usd), now=now)
    await tenant_spending.add(tx, Tenant(claim.scope.tenant_id), tokens, now=now)
