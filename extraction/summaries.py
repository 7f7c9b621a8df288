"""Summaries of what fell out of a thread's window, for threads whose policy wants them: each is made of the one before
it and of what fell out since."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from layerlore.extraction.degenerate import repetition
from layerlore.extraction.heard import check_same, fitting, locked
from layerlore.extraction.kind import Claim, Kind, Material, Refused, Stale, Thinker
from layerlore.extraction.transcript import lines_of, transcript
from layerlore.extraction.wording import worded
from layerlore.memory.engine import Engine
from layerlore.memory.summarising import policy_of, step_of, trimmed
from layerlore.memory.tokens import TokenCounter
from layerlore.memory.window.policy import WindowPolicy
from layerlore.prompts import render
from layerlore.storage import events, messages_behind, observations, summaries, threads
from layerlore.storage.events import NewEvent
from layerlore.storage.records import Json, Message, Origin, Thread
from layerlore.storage.summaries import Summary
from layerlore.storage.transaction import Tx

MOST_MESSAGES = 200
# An answer may be longer than asked for by so much: models count badly.
_LENIENT = 1.25

SCHEMA: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["summary"],
    "properties": {"summary": {"type": "string"}},
}


@dataclass(frozen=True, slots=True)
class Basis:
    """The summary that there was, and the messages behind it. ``most``: tokens that the new one may have. ``more``:
    other messages fell out behind them. ``again``: an answer was refused before."""

    previous: Summary | None
    began: int
    messages: tuple[Message, ...]
    most: int
    counter: TokenCounter
    more: bool
    again: bool


@dataclass(frozen=True, slots=True)
class Readied:
    text: str
    tokens: int
    now: int


class Summariser:
    """Kind ``summary``."""

    name: Kind = "summary"
    source = "summary"

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """The last summary, and what fell out of the window since, up to the claim's seq; None while that is little."""
        thread = await threads.find_uid(tx, claim.scope, claim.thread_uid)
        policy = policy_of(engine, thread) if thread else None
        if thread is None or policy is None or not policy.summarise:
            return None
        previous = await summaries.newest(tx, claim.scope, claim.thread_uid, before=thread.next_seq)
        began, out = await _fell_out(tx, claim, thread, policy, previous)
        if sum(tokens for _, tokens in out) < step_of(policy):
            return None
        upto = out[-1][0]
        found = await messages_behind.between(tx, claim.scope, thread, after=began, upto=upto, most=MOST_MESSAGES)
        told = {line.seq: line for line in lines_of(engine, found, tools=True)}
        messages, _ = fitting(found, told)
        content: Json = {
            "summary": previous.text if previous else "",
            "messages": transcript([told[message.seq] for message in messages if message.seq in told]),
        }
        prompt = render("summary", wish=policy.summary_prompt, tokens=policy.summary_tokens)
        basis = Basis(
            previous,
            began,
            tuple(messages),
            policy.summary_tokens,
            engine.tokens,
            messages[-1].seq < upto,
            claim.attempts > 0,
        )
        return Material(prompt.text, json.dumps(content, ensure_ascii=False), SCHEMA, prompt.version, basis)

    def read(self, answer: Json, material: Material) -> str:
        """The summary. One that is too long is Refused once, and cut if the next is too."""
        basis: Basis = material.basis
        given = answer.get("summary")
        if not isinstance(given, str):
            raise Refused("summary: must be a string")
        text = worded(given).strip()
        if not any(map(str.isalnum, text)):
            raise Refused("summary: is empty; summarise the messages, together with the summary that there is")
        if repetition([line for line in text.splitlines() if line.strip()]) is not None:
            raise Refused("summary: it says the same again and again; say each thing once")
        tokens = basis.counter.text(text)
        if tokens <= basis.most * _LENIENT:
            return text
        if not basis.again:
            raise Refused(f"summary: {tokens} tokens; at most {basis.most} are allowed: keep what is needed to go on")
        return basis.counter.cut(text, basis.most).rstrip() + "…"

    async def ready(self, engine: Engine, material: Material, result: str) -> Readied:
        text = engine.derived_text(result)
        return Readied(text, engine.tokens.text(text), engine.now())

    async def commit(
        self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: Readied, by: Thinker
    ) -> int | None:
        """Store the summary. Raises Stale when messages or the summary before it are not as they were."""
        basis: Basis = material.basis
        thread = await _unchanged(tx, claim, basis)
        first, last = basis.messages[0].seq, basis.messages[-1].seq
        from_seq = basis.previous.from_seq if basis.previous else first
        made = Summary(last, from_seq, result.text, result.tokens, by.model, by.prompt, result.now)
        await summaries.add(tx, claim.scope, claim.thread_uid, made)
        happened = NewEvent("summary_updated", {"from_seq": from_seq, "to_seq": last})
        await events.record(tx, claim.scope, thread, [happened], origin=Origin(claim.kind, ""), now=result.now)
        return claim.seq - 1 if basis.more else None

    def digested(self, material: Material) -> Json | None:
        """Summaries wait for a model: until then a context tells in extracts what fell out of it."""
        return None


async def _fell_out(
    tx: Tx, claim: Claim, thread: Thread, policy: WindowPolicy, previous: Summary | None
) -> tuple[int, Sequence[tuple[int, int]]]:
    """The seq behind which messages are to be summarised, and seq and tokens of those that fell out of the window."""
    observed = thread.observed_seq if policy.limit == "observed" else 0
    began = max(observed, previous.upto_seq if previous else 0)
    sizes = await observations.sizes(tx, claim.scope, claim.thread_uid, after=began, upto=claim.seq)
    out = trimmed(policy, thread, sizes)
    stays = policy.keep_first if policy.drop == "middle" and previous is None else 0
    return (sizes[:stays][-1][0] if stays and sizes else began), out[stays:]


async def _unchanged(tx: Tx, claim: Claim, basis: Basis) -> Thread:
    """The thread, locked, if its last summary and the messages behind it are as they were given."""
    thread = await locked(tx, claim)
    if await summaries.newest(tx, claim.scope, claim.thread_uid, before=thread.next_seq) != basis.previous:
        raise Stale("there is another summary by now")
    last = basis.messages[-1].seq
    now = await messages_behind.between(
        tx, claim.scope, thread, after=basis.began, upto=last, most=len(basis.messages) + 1
    )
    check_same(now, basis.messages)
    return thread
