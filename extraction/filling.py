"""Extracts in the place of notes that went with a message they were made from: what is left there is told again."""

from dataclasses import dataclass

from layerlore.extraction.heard import locked
from layerlore.extraction.kind import Claim, Stale, Thinker
from layerlore.extraction.noting import Readied, Sources
from layerlore.extraction.observer import MOST_MESSAGES, sources_of
from layerlore.extraction.transcript import without_echoes
from layerlore.memory.engine import Engine
from layerlore.memory.tokens import TokenCounter
from layerlore.storage import events, messages_behind, observation_sources, observations
from layerlore.storage.events import NewEvent
from layerlore.storage.observation_sources import Gap
from layerlore.storage.records import Message, Origin, Scope, Thread
from layerlore.storage.transaction import Tx


@dataclass(frozen=True, slots=True)
class Filling:
    """A gap, and the messages that are there up to the seq ``upto``: as they are stored, and as extracts are made of
    them."""

    gap: Gap
    upto: int
    messages: tuple[Message, ...]
    masked: tuple[Message, ...]
    sources: Sources
    counter: TokenCounter
    tokens: int


async def first(tx: Tx, engine: Engine, scope: Scope, thread: Thread) -> Filling | None:
    """The first gap of a thread, if it has any."""
    gaps = await observation_sources.gaps(tx, scope, thread.thread_uid)
    if not gaps:
        return None
    gap = gaps[0]
    found = await _within(tx, scope, thread, gap, gap.to_seq, MOST_MESSAGES)
    upto = found[-1].seq if len(found) == MOST_MESSAGES else gap.to_seq
    tokens = sum(message.tokens for message in found)
    return Filling(
        gap, upto, tuple(found), tuple(without_echoes(engine, found)), sources_of(found), engine.tokens, tokens
    )


async def commit(tx: Tx, claim: Claim, filling: Filling, result: Readied, by: Thinker) -> None:
    """Put the extracts there. Raises Stale when the gap or its messages are not as they were."""
    thread = await locked(tx, claim)
    if filling.gap not in await observation_sources.gaps(tx, claim.scope, claim.thread_uid):
        raise Stale("others told these messages again meanwhile")
    now = await _within(tx, claim.scope, thread, filling.gap, filling.upto, len(filling.messages) + 1)
    if now != list(filling.messages):
        raise Stale("messages were changed or deleted meanwhile")
    await observation_sources.close(tx, claim.scope, claim.thread_uid, filling.gap, filling.upto, now=result.now)
    await observations.add(
        tx,
        claim.scope,
        claim.thread_uid,
        result.made,
        status="active",
        model=by.model,
        prompt=by.prompt,
        now=result.now,
    )
    payload = {"from_seq": filling.gap.from_seq, "to_seq": filling.upto, "count": len(result.made)}
    happened = NewEvent("observations_added", payload)
    await events.record(tx, claim.scope, thread, [happened], origin=Origin(claim.kind, ""), now=result.now)


async def _within(tx: Tx, scope: Scope, thread: Thread, gap: Gap, upto: int, most: int) -> list[Message]:
    return await messages_behind.between(tx, scope, thread, after=gap.from_seq - 1, upto=upto, most=most)
