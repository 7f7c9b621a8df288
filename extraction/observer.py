"""The observer: notes of what was said and done since its cursor, made ahead by a model."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from layerlore.extraction.heard import check_same, locked
from layerlore.extraction.kind import Claim, Kind, Material, Stale, Thinker
from layerlore.extraction.noting import SCHEMA, Noted, Readied, Sources, check_repetition, read_notes, readied
from layerlore.extraction.transcript import Line, lines_of
from layerlore.memory.ages import iso
from layerlore.memory.engine import Engine
from layerlore.memory.observing import ObservationRules, activate
from layerlore.memory.tokens import TokenCounter
from layerlore.memory.trust import trust_of
from layerlore.prompts import render
from layerlore.storage import events, messages_behind, observations, threads
from layerlore.storage.events import NewEvent
from layerlore.storage.observations import Cursor, Observation
from layerlore.storage.records import Json, Message, Origin, Scope, Thread
from layerlore.storage.transaction import Tx

# Rows that one job reads at most.
MOST_MESSAGES = 500
# What is noted already, for the observer to go on from: n8n's and Mastra's numbers.
_KNOWN_ROWS, _KNOWN_TOKENS = 20, 2000
# Around each line: its seq, role and time.
_LINE_TOKENS = 30
_BESIDE = frozenset({"already_noted", "current_task", "next_step"})
# A call may wait for its result, which is then noted together with it, while so few messages stand behind it.
_WAITING = 4


@dataclass(frozen=True, slots=True)
class Basis:
    """What was given: the messages from one cursor to another, and how many tokens a model reads of them.

    ``more``: there is enough behind them to go on at once.
    """

    began: Cursor
    ended: Cursor
    messages: tuple[Message, ...]
    lines: tuple[Json, ...]
    sources: Sources
    tokens: int
    more: bool


class Observer:
    """Kind ``observe``."""

    name: Kind = "observe"
    source = "observe"

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """What was said up to the claim's seq, as much as one call is given; None when it is too little to note."""
        rules = engine.observation
        thread = await threads.find_uid(tx, claim.scope, claim.thread_uid)
        if thread is None:
            return None
        began = Cursor(thread.buffered_seq, thread.buffered_chars)
        found = await messages_behind.between(
            tx, claim.scope, thread, after=began.seq, upto=claim.seq, most=MOST_MESSAGES
        )
        full = len(found) == MOST_MESSAGES
        enough = full or began.chars or sum(message.tokens for message in found) >= rules.step // 2
        if not found or not enough:
            return None
        basis = _taken(engine, rules, began, found, full)
        known = await observations.newest(
            tx, claim.scope, claim.thread_uid, upto=max(basis.ended.seq, began.seq + 1), most=_KNOWN_ROWS
        )
        content: Json = {
            "already_noted": _known(known, engine.tokens),
            "current_task": thread.current_task,
            "next_step": thread.next_step,
            "messages": list(basis.lines),
        }
        prompt = render("observe")
        text = json.dumps(content, ensure_ascii=False)
        return Material(prompt.text, text, SCHEMA, prompt.version, basis, _BESIDE, silent=not basis.lines)

    def read(self, answer: Json, material: Material) -> Noted:
        return check_repetition(read_notes(answer, material.basis.sources))

    async def ready(self, engine: Engine, material: Material, result: Noted) -> Readied:
        basis: Basis = material.basis
        return readied(engine, result, basis.sources, batch=basis.sources.seqs[-1], transcript_tokens=basis.tokens)

    async def commit(
        self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: Readied, by: Thinker
    ) -> int | None:
        """Store the notes ahead, and show them if enough has come together. Raises Stale when messages or the cursor
        are not as they were."""
        basis: Basis = material.basis
        thread = await unchanged(tx, claim, basis.began, basis.messages)
        await store(tx, claim.scope, thread, basis, result, by)
        await tell(tx, engine, claim, thread, basis, result)
        return basis.ended.seq if basis.more else None

    def digested(self, material: Material) -> Json | None:
        """Only silence can be noted without a model; extracts stand in later (kind ``digest``)."""
        if material.basis.lines:
            return None
        told = json.loads(material.content)
        return {**NOTHING, "current_task": told["current_task"], "next_step": told["next_step"]}


NOTHING: Json = {"observations": [], "nothing_to_note": True, "current_task": None, "next_step": None}


async def unchanged(tx: Tx, claim: Claim, began: Cursor, messages: Sequence[Message]) -> Thread:
    """The thread, locked, if its cursor and these messages, which follow it, are as they were read. Raises Stale."""
    thread = await locked(tx, claim)
    if (thread.buffered_seq, thread.buffered_chars) != (began.seq, began.chars):
        raise Stale("others noted these messages meanwhile")
    now = await messages_behind.between(
        tx, claim.scope, thread, after=began.seq, upto=messages[-1].seq, most=len(messages) + 1
    )
    check_same(now, messages)
    return thread


async def store(tx: Tx, scope: Scope, thread: Thread, basis: Any, result: Readied, by: Thinker) -> None:
    """Put the notes beside those that were made ahead, and move the observer's cursor."""
    await observations.add(
        tx,
        scope,
        thread.thread_uid,
        result.made,
        status="buffered",
        model=by.model,
        prompt=by.prompt,
        now=result.now,
    )
    await observations.buffer(
        tx, scope, thread, basis.ended, current_task=result.current_task, next_step=result.next_step
    )


async def tell(tx: Tx, engine: Engine, claim: Claim, thread: Thread, basis: Any, result: Readied) -> None:
    """Show what was noted, if the thread's messages are past the threshold, and write to its log."""
    after = await threads.lock_uid(tx, claim.scope, claim.thread_uid)
    assert after is not None
    happened = [
        NewEvent(
            "observations_added",
            {"from_seq": basis.messages[0].seq, "to_seq": basis.messages[-1].seq, "count": len(result.made)},
        )
    ]
    if after.raw_tokens >= engine.observation.message_tokens:
        _, activated = await activate(tx, claim.scope, after, engine.observation, now=result.now)
        happened += activated
    origin = Origin(claim.kind, "")
    await events.record(tx, claim.scope, thread, happened, origin=origin, now=result.now)


def sources_of(messages: Sequence[Message], lines: Iterable[Json] = ()) -> Sources:
    """``lines``: what a model is given of them."""
    return Sources(
        tuple(message.seq for message in messages),
        {message.seq: trust_of(message) for message in messages},
        {message.seq: message.said_at for message in messages},
        {line["seq"]: line["text"] for line in lines},
    )


def _taken(engine: Engine, rules: ObservationRules, began: Cursor, found: Sequence[Message], full: bool) -> Basis:
    """As many of the messages as one call is given; of one that is too long by itself, its next part."""
    lines = {line.seq: line for line in lines_of(engine, found, tools=True)}
    counter = engine.tokens
    first = found[0]
    words = lines[first.seq].text if first.seq in lines else ""
    rest = words[began.chars :]
    if counter.text(rest) > rules.batch:
        part = counter.cut(rest, rules.batch)
        ended = Cursor(began.seq, began.chars + len(part))
        shown = _part(lines[first.seq], began.chars, ended.chars)
        return Basis(
            began, ended, (first,), (shown,), sources_of([first], [shown]), counter.text(part) + _LINE_TOKENS, True
        )
    taken: list[Message] = []
    tokens = 0
    for message in found:
        text = rest if message is first else lines[message.seq].text if message.seq in lines else ""
        more = counter.text(text) + _LINE_TOKENS if text else 0
        if taken and tokens + more > rules.batch:
            break
        taken.append(message)
        tokens += more
    taken = _settled(taken)
    told: list[Json] = []
    for message in taken:
        if message is first and began.chars and rest:
            told.append(_part(lines[first.seq], began.chars, len(words)))
        elif message.seq in lines:
            told.append(lines[message.seq].as_json())
    left = sum(message.tokens for message in found[len(taken) :])
    ended = Cursor(taken[-1].seq)
    return Basis(
        began,
        ended,
        tuple(taken),
        tuple(told),
        sources_of(taken, told),
        tokens,
        full or left >= max(1, rules.step // 2),
    )


def _settled(messages: list[Message]) -> list[Message]:
    """Without the last ones, from a call on that has no result yet."""
    results = {part["tool_call_id"] for each in messages for part in each.parts if part["type"] == "tool_result"}
    for place, message in enumerate(messages):
        waits = any(part["type"] == "tool_call" and part["id"] not in results for part in message.parts)
        if waits and place and len(messages) - place <= _WAITING:
            return messages[:place]
    return messages


def _part(line: Line, starts: int, ends: int) -> Json:
    part = f"characters {starts + 1} to {ends} of {len(line.text)}"
    return {**line.as_json(), "part": part, "text": line.text[starts:ends]}


def _known(rows: Sequence[Observation], counter: TokenCounter) -> list[Json]:
    """The newest notes within their tokens, oldest first."""
    kept: list[Json] = []
    left = _KNOWN_TOKENS
    for row in reversed(rows):
        left -= counter.text(row.text)
        if left < 0:
            break
        kept.append({"marker": row.marker, "said_at": iso(row.said_at), "text": row.text})
    return kept[::-1]
