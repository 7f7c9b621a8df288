"""One attempt at a job: read its material, get an answer, and store the result together with the job's end."""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import anyio

from layerlore.extraction.chat.port import Chat, ChatFailed
from layerlore.extraction.kinds.kind import (
    EXTRACTIVE,
    AnswerRefused,
    Author,
    Digesting,
    Ended,
    Enriching,
    JobKind,
    Joining,
    Material,
    MendableAnswer,
    PartialAnswer,
)
from layerlore.memory.engine.engine import Engine, Sent
from layerlore.prompts import render
from layerlore.storage.audit import spending, usage
from layerlore.storage.audit.usage import Spent, UsageLine
from layerlore.storage.core import resource_lock
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import Json, Origin, Tenant
from layerlore.storage.core.scopes import NoteKind
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import notes
from layerlore.storage.jobs import jobs
from layerlore.storage.jobs.jobs import Claim, Kind

log = logging.getLogger(__name__)


class NoModel(Exception):
    """The kind has no model, and no answer without one: the job waits for the host's model."""


async def attempt(engine: Engine, kind: JobKind, claim: Claim, chat: Chat | None) -> None:
    """Do a claimed job. If this raises, nothing is stored. Without a chat the answer is the kind's own digest. A model is
    asked once more for what is refused of its answer about a turn.

    Raises AnswerRefused, Stale, Fenced, NoModel, ChatFailed, StorageUnavailable, and any error of a defect.
    """
    engine = engine.for_agent(claim.scope.agent_id)
    if engine.memory != "on":  # the memory was closed since the job was asked for
        await engine.database.write(jobs.finish, claim, now=engine.now())
        return
    material = await prepare(engine, kind, claim)
    if material is None:
        return
    result = await _find_result(engine, kind, claim, material, chat)
    for reason in await _store(engine, result):
        log.warning("%s: left out of an answer: %s", kind.name, reason)


async def _find_result(engine: Engine, kind: JobKind, claim: Claim, material: Material, chat: Chat | None) -> "Result":
    """The checked answer. Raises AnswerRefused if nothing of it can be stored, asked again or not."""
    answer, by = await _answer(engine, kind, claim, material, chat)
    first: Result | None = None
    try:
        first = await judge_answer(engine, kind, claim, material, answer, by)
        wrong = first.mendable
    except AnswerRefused as refused:
        if chat is None or material.turn is None:
            raise
        wrong = (refused.for_model,)
    if first is not None and (not wrong or chat is None or material.turn is None):
        return first
    again = ask_again(material, answer, wrong)
    try:
        corrected, by = await _answer(engine, kind, claim, again, chat)
        second = await judge_answer(engine, kind, claim, again, corrected, by)
    except (AnswerRefused, ChatFailed):
        if first is None:
            raise
        return first
    if first is None or not isinstance(kind, Joining):
        return second
    return replace(second, value=kind.join(first.value, second.value, material))


def ask_again(material: Material, answer: Json, wrong: Sequence[str]) -> Material:
    """The material once more, with the answer that was refused and the reasons."""
    content = {**json.loads(material.content), "refused_answer": answer, "refused": list(wrong)}
    instructions = f"{material.instructions}\n\n{render('refused').text}"
    return replace(material, instructions=instructions, content=json.dumps(content, ensure_ascii=False), again=True)


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
    """A checked answer of one kind, that can be stored. ``refused``: why parts of it are left out; ``mendable``: which of
    them its author can mend; ``stays_open``: the job is not ended, and waits for these."""

    kind: JobKind
    claim: Claim
    material: Material
    value: Any
    by: Author
    refused: tuple[str, ...] = ()
    mendable: tuple[str, ...] = ()
    stays_open: bool = False


async def judge_answer(
    engine: Engine, kind: JobKind, claim: Claim, material: Material, answer: Json, by: Author
) -> Result:
    """Check an answer to the material, and make it what can be stored. Raises AnswerRefused, Stale."""
    read = value = kind.read(answer, material)
    if isinstance(kind, Enriching):
        value = await kind.enrich(engine, material, value)
    partial = value if isinstance(value, PartialAnswer) else read
    refused = tuple(partial.refused) if isinstance(partial, PartialAnswer) else ()
    mendable = tuple(value.mendable) if isinstance(value, MendableAnswer) else ()
    return Result(kind, claim, material, value, by, refused, mendable)


# The notes that a kind of job writes, which are to be found at once.
_NOTES: dict[Kind, NoteKind] = {
    "profile": "profile",
    "session_memory": "session_memory",
    "observe": "observation",
    "reflect": "observation",
    "digest": "observation",
}


async def store_result(tx: Tx, engine: Engine, result: Result, *, now: int) -> Ended:
    """Store an answer together with its job's end, unless the job stays open. Raises Stale, and Fenced once another worker has the job: then the
    whole transaction must be undone."""
    claim = result.claim
    # A fenced worker would meet rows that another one wrote. The check and the job's end are in one transaction.
    if await jobs.find_held(tx, claim.scope, claim.thread_uid, claim.kind, claim.epoch) is None:
        raise jobs.Fenced("another worker has the job")
    found = await result.kind.commit(tx, claim, engine, result.material, result.value, result.by)
    ended = found if isinstance(found, Ended) else Ended(found)
    if (note := _NOTES.get(claim.kind)) is not None:
        uid = "" if note == "profile" else claim.thread_uid
        await notes.refresh(tx, claim.scope, uid, engine.search_text_of, (note,))
    if result.stays_open:
        await jobs.note_failure(tx, claim, error="; ".join(result.mendable), now=now)
    else:
        await jobs.finish(tx, claim if ended.done_seq is None else replace(claim, seq=ended.done_seq), now=now)
    return replace(ended, refused=(*result.refused, *ended.refused))


async def conclude(
    engine: Engine, kind: JobKind, claim: Claim, material: Material, answer: Json, by: Author
) -> Sequence[str]:
    """Check an answer to the material, and store it together with the job's end, or store nothing.

    Returns why parts of the answer were left out. Raises AnswerRefused, Stale, Fenced, StorageUnavailable.
    """
    return await _store(engine, await judge_answer(engine, kind, claim, material, answer, by))


class _Stored(TypedDict):
    refused: list[str]


async def _store(engine: Engine, result: Result) -> Sequence[str]:
    now, claim = engine.now(), result.claim

    async def store(tx: Tx) -> _Stored:
        ended = await store_result(tx, engine, result, now=now)
        return {"refused": list(ended.refused)}

    # This write also wakes the worker, since it may have made other jobs due.
    stored = await engine.write(
        claim.scope, Sent(Origin(result.kind.name, "", f"job:{result.kind.name}")), [], now, store
    )
    return stored["refused"]


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
