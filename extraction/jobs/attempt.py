"""One attempt at a job: read its material, get an answer, and store the result together with the job's end."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from layerlore.extraction.chat.port import Chat, ChatFailed
from layerlore.extraction.kinds.kind import (
    EXTRACTIVE,
    Author,
    Digesting,
    Ended,
    Enriching,
    JobKind,
    Material,
    PartialAnswer,
)
from layerlore.memory.engine.engine import Engine, Sent
from layerlore.storage.audit import spending, usage
from layerlore.storage.audit.usage import Spent, UsageLine
from layerlore.storage.core import resource_lock
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import Json, Origin, Tenant
from layerlore.storage.core.transaction import Tx
from layerlore.storage.jobs import jobs
from layerlore.storage.jobs.jobs import Claim

log = logging.getLogger(__name__)


class NoModel(Exception):
    """The kind has no model, and no answer without one: the job waits for the host's model."""


async def attempt(engine: Engine, kind: JobKind, claim: Claim, chat: Chat | None) -> None:
    """Do a claimed job. If this raises, nothing is stored. Without a chat the answer is the kind's own digest.

    Raises AnswerRefused, Stale, Fenced, NoModel, ChatFailed, StorageUnavailable, and any error of a defect.
    """
    engine = engine.for_agent(claim.scope.agent_id)
    if engine.memory != "on":  # the memory was closed since the job was asked for
        await engine.database.write(jobs.finish, claim, now=engine.now())
        return
    material = await prepare(engine, kind, claim)
    if material is None:
        return
    answer, by = await _answer(engine, kind, claim, material, chat)
    for reason in await conclude(engine, kind, claim, material, answer, by):
        log.warning("%s: left out of an answer: %s", kind.name, reason)


async def prepare(engine: Engine, kind: JobKind, claim: Claim) -> Material | None:
    """Read the job's material. None: there is nothing to do, and the job is finished. Raises Fenced, StorageUnavailable."""
    try:
        material = await engine.database.read(kind.prepare, claim, engine)
    except NotFound:  # deleted since the job was asked for
        material = None
    if material is None:
        await engine.database.write(jobs.finish, claim, now=engine.now())
    return material


@dataclass(frozen=True, slots=True)
class Result:
    """A checked answer of one kind, that can be stored. ``refused``: why parts of it are left out."""

    kind: JobKind
    claim: Claim
    material: Material
    value: Any
    by: Author
    refused: tuple[str, ...] = ()


async def judge_answer(
    engine: Engine, kind: JobKind, claim: Claim, material: Material, answer: Json, by: Author
) -> Result:
    """Check an answer to the material, and make it what can be stored. Raises AnswerRefused, Stale."""
    read = value = kind.read(answer, material)
    if isinstance(kind, Enriching):
        value = await kind.enrich(engine, material, value)
    partial = value if isinstance(value, PartialAnswer) else read
    refused = tuple(partial.refused) if isinstance(partial, PartialAnswer) else ()
    return Result(kind, claim, material, value, by, refused)


async def store_result(tx: Tx, engine: Engine, result: Result, *, now: int) -> Ended:
    """Store an answer together with its job's end. Raises Stale, and Fenced once another worker has the job: then the
    whole transaction must be undone."""
    claim = result.claim
    # A fenced worker would meet rows that another one wrote. The check and the job's end are in one transaction.
    if await jobs.find_held(tx, claim.scope, claim.thread_uid, claim.kind, claim.epoch) is None:
        raise jobs.Fenced("another worker has the job")
    found = await result.kind.commit(tx, claim, engine, result.material, result.value, result.by)
    ended = found if isinstance(found, Ended) else Ended(found)
    await jobs.finish(tx, claim if ended.done_seq is None else replace(claim, seq=ended.done_seq), now=now)
    return replace(ended, refused=(*result.refused, *ended.refused))


async def conclude(
    engine: Engine, kind: JobKind, claim: Claim, material: Material, answer: Json, by: Author
) -> Sequence[str]:
    """Check an answer to the material, and store it together with the job's end, or store nothing.

    Returns why parts of the answer were left out. Raises AnswerRefused, Stale, Fenced, StorageUnavailable.
    """
    result = await judge_answer(engine, kind, claim, material, answer, by)
    now = engine.now()

    async def store(tx: Tx) -> Json:
        ended = await store_result(tx, engine, result, now=now)
        return {"refused": list(ended.refused)}

    # This write also wakes the worker, since it may have made other jobs due.
    stored = await engine.write(claim.scope, Sent(Origin(kind.name, "", f"job:{kind.name}")), [], now, store)
    refused: list[str] = stored["refused"]
    return refused


async def _answer(
    engine: Engine, kind: JobKind, claim: Claim, material: Material, chat: Chat | None
) -> tuple[Json, Author]:
    if chat is None or material.silent:
        digest = kind.digest(material) if isinstance(kind, Digesting) else None
        if digest is None:
            raise NoModel()
        return digest, Author(EXTRACTIVE, material.prompt)
    try:
        answer = await chat.answer(kind.name, material)
    except ChatFailed as error:
        await _count(engine, kind, claim, chat.model(kind.name), error.spent)
        raise
    # Count the cost before the answer is checked.
    await _count(engine, kind, claim, answer.model, answer.usage)
    return answer.json, Author(answer.model, material.prompt)


async def _count(engine: Engine, kind: JobKind, claim: Claim, model: str, spent: Spent) -> None:
    if spent == Spent():
        return
    with anyio.CancelScope(shield=True):
        await engine.database.write(_add, claim, UsageLine(model, kind.name, spent), now=engine.now())


async def _add(tx: Tx, claim: Claim, line: UsageLine, *, now: int) -> None:
    spent = line.spent
    # Nothing is kept about a resource that was erased meanwhile, except the sums that budgets need.
    if await resource_lock.still_known(tx, claim.scope, claim.thread_uid):
        await usage.add(tx, claim.scope, claim.thread_uid, [line], now=now)
    tokens = spent.input_tokens + spent.output_tokens
    await spending.add(tx, spending.OfDay(tokens, spent.cost_nano_usd), now=now)
    await spending.add_of_tenant(tx, Tenant(claim.scope.tenant_id), tokens, now=now)
