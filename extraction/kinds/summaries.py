"""The summariser of messages that fell out of a thread's window, for threads whose policy wants it. Each summary is made
from the one before it and the messages that fell out since."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from layerlore.extraction.kinds.documents import clean_text, find_repetition
from layerlore.extraction.kinds.kind import (
    AnswerRefused,
    Author,
    Claim,
    Kind,
    Material,
    Stale,
    check_unchanged,
    lines_as_json,
    lock_thread,
    read_lines,
    take_fitting,
)
from layerlore.memory.engine.engine import Engine
from layerlore.memory.messages.overflow import count_step, find_policy, find_trimmed
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.window.policy import WindowPolicy
from layerlore.prompts import render
from layerlore.storage.core.records import Json, Message, Origin, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import observations, session_notes
from layerlore.storage.derived.session_notes import Summary
from layerlore.storage.messages import message_pages
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import NewEvent

MOST_MESSAGES = 200
# An answer may exceed the limit by this factor: models count badly.
_LENIENT = 1.25

SCHEMA: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["summary"],
    "properties": {"summary": {"type": "string"}},
}


@dataclass(frozen=True, slots=True)
class SummaryInput:
    """The previous summary, and the messages after it.

    ``began``: the seq after which the messages begin. ``most``: tokens that the new summary may have. ``more``: further
    messages fell out. ``again``: an earlier answer was refused.
    """

    previous: Summary | None
    began: int
    messages: tuple[Message, ...]
    most: int
    counter: TokenCounter
    more: bool
    again: bool


@dataclass(frozen=True, slots=True)
class SummaryResult:
    """The summary with its tokens, and the time (ms since 1970)."""

    text: str
    tokens: int
    now: int


class Summariser:
    """Kind ``summary``."""

    name: Kind = "summary"

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """The last summary, and the messages that fell out since, up to the claim's seq; None while they are few."""
        thread = await threads.find_uid(tx, claim.scope, claim.thread_uid)
        if thread:
            policy = find_policy(engine, thread)
        else:
            policy = None
        if thread is None or policy is None or not policy.summarise:
            return None
        previous = await session_notes.newest(tx, claim.scope, claim.thread_uid, before=thread.next_seq)
        began, out = await _find_trimmed(tx, claim, thread, policy, previous)
        # A model is called once for several messages, and not for each one that leaves the window.
        if sum(tokens for _, tokens in out) < count_step(policy):
            return None
        upto = out[-1][0]
        found = await message_pages.read_between(tx, claim.scope, thread, after=began, upto=upto, most=MOST_MESSAGES)
        lines = {line.seq: line for line in read_lines(engine, found, tools=True)}
        messages, _ = take_fitting(found, lines)
        content: Json = {
            "summary": previous.text if previous else "",
            "messages": lines_as_json([lines[message.seq] for message in messages if message.seq in lines]),
        }
        prompt = render("summary", wish=policy.summary_prompt, tokens=policy.summary_tokens)
        inputs = SummaryInput(
            previous,
            began,
            tuple(messages),
            policy.summary_tokens,
            engine.tokens,
            messages[-1].seq < upto,
            claim.attempts > 0,
        )
        return Material(prompt.text, json.dumps(content, ensure_ascii=False), SCHEMA, prompt.version, inputs)

    def read(self, answer: Json, material: Material) -> str:
        """The summary. Raises AnswerRefused for one that is too long, once; the next one is cut."""
        inputs: SummaryInput = material.inputs
        given = answer.get("summary")
        if not isinstance(given, str):
            raise AnswerRefused("summary: must be a string")
        text = clean_text(given).strip()
        if not any(map(str.isalnum, text)):
            raise AnswerRefused("summary: is empty; summarise the messages, together with the present summary")
        if find_repetition([line for line in text.splitlines() if line.strip()]) is not None:
            raise AnswerRefused("summary: it says the same again and again; say each thing once")
        tokens = inputs.counter.text(text)
        if tokens <= inputs.most * _LENIENT:
            return text
        if not inputs.again:
            raise AnswerRefused(
                f"summary: {tokens} tokens; at most {inputs.most} are allowed: keep what is needed to go on"
            )
        return inputs.counter.cut(text, inputs.most).rstrip() + "…"

    async def enrich(self, engine: Engine, material: Material, result: str) -> SummaryResult:
        text = engine.derived_text(result)
        return SummaryResult(text, engine.tokens.text(text), engine.now())

    async def commit(
        self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: SummaryResult, by: Author
    ) -> int | None:
        """Store the summary. Raises Stale when the messages or the previous summary have changed."""
        inputs: SummaryInput = material.inputs
        thread = await _lock_unchanged(tx, claim, inputs)
        first, last = inputs.messages[0].seq, inputs.messages[-1].seq
        if inputs.previous:
            from_seq = inputs.previous.from_seq
        else:
            from_seq = first
        made = Summary(last, from_seq, result.text, result.tokens, by.model, by.prompt, result.now)
        await session_notes.add_summary(tx, claim.scope, claim.thread_uid, made)
        happened = NewEvent("summary_updated", {"from_seq": from_seq, "to_seq": last})
        await events.record(tx, claim.scope, thread, [happened], origin=Origin(claim.kind, ""), now=result.now)
        if inputs.more:
            # A seq below the claim's keeps the job due for the remaining messages.
            return claim.seq - 1
        return None


async def _find_trimmed(
    tx: Tx, claim: Claim, thread: Thread, policy: WindowPolicy, previous: Summary | None
) -> tuple[int, Sequence[tuple[int, int]]]:
    """The seq after which messages are summarised, and the seq and tokens of each message that fell out of the window."""
    if policy.limit == "observed":
        observed = thread.observed_seq
    else:
        observed = 0
    began = max(observed, previous.upto_seq if previous else 0)
    sizes = await observations.sizes(tx, claim.scope, claim.thread_uid, after=began, upto=claim.seq)
    out = find_trimmed(policy, thread, sizes)
    # The first messages stay in such a window, and need no summary.
    if policy.drop == "middle" and previous is None:
        stays = policy.keep_first
    else:
        stays = 0
    return (sizes[:stays][-1][0] if stays and sizes else began), out[stays:]


async def _lock_unchanged(tx: Tx, claim: Claim, inputs: SummaryInput) -> Thread:
    """The thread, locked. Raises Stale if its last summary or the messages after it have changed."""
    thread = await lock_thread(tx, claim)
    if await session_notes.newest(tx, claim.scope, claim.thread_uid, before=thread.next_seq) != inputs.previous:
        raise Stale("there is a newer summary")
    last = inputs.messages[-1].seq
    now = await message_pages.read_between(
        tx, claim.scope, thread, after=inputs.began, upto=last, most=len(inputs.messages) + 1
    )
    check_unchanged(now, inputs.messages)
    return thread
