"""The stand-in for observer and reflector without a model.

It extracts messages once a thread has too many that are not noted, fills the gaps that removed notes left, and drops
observations once a thread has too many of them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from layerlore.extraction.kinds.kind import (
    EXTRACTIVE,
    Author,
    Claim,
    Kind,
    Material,
    ModelAnswer,
    Stale,
    check_unchanged,
    lock_thread,
)
from layerlore.extraction.kinds.observer import (
    MOST_MESSAGES,
    NOTHING,
    SCHEMA,
    NoteSources,
    ObserverAnswer,
    ObserverResult,
    collect_sources,
    enrich_notes,
    lock_unchanged,
    publish_notes,
    read_notes,
    store_notes,
)
from layerlore.extraction.kinds.reflector import SCHEMA as REFLECTION
from layerlore.extraction.kinds.reflector import Reflection, check_rows_unchanged, read_reflection
from layerlore.memory.digest.digest import digest, take_notes
from layerlore.memory.engine.engine import Engine
from layerlore.memory.language.sentences import find_values
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.settings.note_settings import ObservationRules
from layerlore.storage.core.records import Message, Origin, Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import observations
from layerlore.storage.derived.observations import Cursor, Gap, Marker, Observation
from layerlore.storage.messages import message_pages
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import NewEvent

PROMPT = "digest/2"
"""Names the rules of ``memory.digest.digest`` where other kinds name their prompt."""

# Tokens of messages for each token of extracts, and the fewest and the most tokens of extracts.
_SHARE, _FEWEST, _MOST = 12, 300, 4000
# The order in which observations are dropped; critical ones stay.
_ORDER: tuple[Marker, ...] = ("info", "completion", "important")
# Observations are dropped until this share of the threshold is left.
_TARGET = 0.5


@dataclass(frozen=True, slots=True)
class DigestInput:
    """The messages to extract: as they are stored, and masked, as extracts are made of them."""

    began: Cursor
    ended: Cursor
    messages: tuple[Message, ...]
    masked: tuple[Message, ...]
    sources: NoteSources
    counter: TokenCounter
    tokens: int
    more: bool
    current_task: str | None
    next_step: str | None


@dataclass(frozen=True, slots=True)
class GapInput:
    """A gap that removed notes left, and its messages up to the seq ``upto``: as they are stored, and masked."""

    gap: Gap
    upto: int
    messages: tuple[Message, ...]
    masked: tuple[Message, ...]
    sources: NoteSources
    counter: TokenCounter
    tokens: int


@dataclass(frozen=True, slots=True)
class SurplusInput:
    """The active observations of which some are dropped."""

    rows: tuple[Observation, ...]
    rules: ObservationRules


@dataclass(frozen=True, slots=True)
class SurplusResult:
    """The observations to drop, and the time (ms since 1970)."""

    reflection: Reflection
    now: int


class Digester:
    """Kind ``digest``: extracts replace messages beyond the threshold that no model has noted. Then the least important
    observations are dropped, if no model has made them fewer."""

    name: Kind = "digest"

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """The first gap, else the messages beyond the threshold, else the observations; None when a model came first."""
        thread = await threads.find_uid(tx, claim.scope, claim.thread_uid)
        if thread is None:
            return None
        inputs: DigestInput | GapInput | None = await _first_gap(tx, engine, claim.scope, thread)
        if inputs is None:
            inputs = await _unnoted(tx, engine, claim.scope, thread)
        # No model reads this material, so it has neither instructions nor content.
        if inputs is not None:
            return Material("", "", SCHEMA, PROMPT, inputs)
        rows = await observations.read(tx, claim.scope, claim.thread_uid, "active")
        if not _need_thinning(rows, engine.observation):
            return None
        return Material("", "", REFLECTION, PROMPT, SurplusInput(tuple(rows), engine.observation))

    def read(self, answer: ModelAnswer, material: Material) -> ObserverAnswer | Reflection:
        if isinstance(material.inputs, SurplusInput):
            return read_reflection(answer, material.inputs.rows)
        return read_notes(answer, material.inputs.sources)

    async def enrich(
        self, engine: Engine, material: Material, result: ObserverAnswer | Reflection
    ) -> ObserverResult | SurplusResult:
        if isinstance(result, Reflection):
            return SurplusResult(result, engine.now())
        inputs: DigestInput | GapInput = material.inputs
        if isinstance(inputs, GapInput):
            batch = inputs.gap.to_seq
        else:
            batch = inputs.ended.seq
        return enrich_notes(engine, result, inputs.sources, batch=batch, transcript_tokens=inputs.tokens)

    async def commit(
        self,
        tx: Tx,
        claim: Claim,
        engine: Engine,
        material: Material,
        result: ObserverResult | SurplusResult,
        by: Author,
    ) -> int | None:
        """Show the extracts at once, in place of notes that an observer made of a part of a long message; or drop the
        observations. Raises Stale."""
        if isinstance(result, SurplusResult):
            await _drop(tx, claim, material.inputs.rows, result)
            return None
        if isinstance(material.inputs, GapInput):
            await _fill_gap(tx, claim, material.inputs, result, by)
            return claim.seq - 1  # there may be more gaps
        inputs: DigestInput = material.inputs
        thread = await lock_unchanged(tx, claim, inputs.began, inputs.messages)
        # Notes on a part of a long message would stand beside the extract of all of it.
        await observations.discard(tx, claim.scope, thread, after=inputs.began.seq)
        await store_notes(tx, claim.scope, thread, inputs.ended, result, by)
        await publish_notes(tx, engine, claim, thread, inputs.messages, result)
        tokens = await observations.active_tokens(tx, claim.scope, claim.thread_uid)
        # Go on at once with more messages, or with the observations if there are too many of them by now.
        goes_on = inputs.more or tokens >= engine.observation.reflect_stand_in_tokens
        if goes_on:
            return claim.seq - 1
        return None

    def digest(self, material: Material) -> ModelAnswer | None:
        if isinstance(material.inputs, SurplusInput):
            return _choose_drops(material.inputs.rows, material.inputs.rules)
        inputs: DigestInput | GapInput = material.inputs
        most = min(_MOST, max(_FEWEST, inputs.tokens // _SHARE))
        answer = _extract(inputs.masked, inputs.counter, most)
        if isinstance(inputs, GapInput):
            return answer
        return answer | {"current_task": inputs.current_task, "next_step": inputs.next_step}


async def _unnoted(tx: Tx, engine: Engine, scope: Scope, thread: Thread) -> DigestInput | None:
    """The messages after the observer's cursor except the newest ones, if the thread has far too many raw tokens."""
    rules = engine.observation
    if thread.raw_tokens < rules.stand_in_tokens:
        return None
    # Notes made ahead cover these messages, though they are not shown yet.
    ahead = await observations.sizes(tx, scope, thread.thread_uid, after=thread.observed_seq, upto=thread.buffered_seq)
    began = Cursor(thread.buffered_seq, thread.buffered_chars)
    read = await message_pages.read_between(
        tx, scope, thread, after=began.seq, upto=thread.next_seq, most=MOST_MESSAGES
    )
    found = _without_newest(read, thread.raw_tokens - sum(tokens for _, tokens in ahead), rules.keep)
    if not found:
        return None
    return DigestInput(
        began=began,
        ended=Cursor(found[-1].seq),
        messages=tuple(found),
        masked=_mask(engine, found),
        sources=collect_sources(found),
        counter=engine.tokens,
        tokens=sum(message.tokens for message in found),
        more=len(found) == MOST_MESSAGES,
        current_task=thread.current_task,
        next_step=thread.next_step,
    )


def _mask(engine: Engine, messages: Sequence[Message]) -> tuple[Message, ...]:
    return tuple(replace(message, parts=engine.derived_parts(message.parts)) for message in messages)


def _without_newest(found: Sequence[Message], tokens: int, keep: int) -> Sequence[Message]:
    """The first of some messages, so that ``keep`` tokens remain after them; at least one, which may be too long by
    itself. ``tokens``: of the messages and of everything after them."""
    left = tokens
    for place, message in enumerate(found):
        left -= message.tokens
        if left < keep:
            return found[: max(1, place)]
    return found


def _extract(masked: Sequence[Message], counter: TokenCounter, most_tokens: int) -> ModelAnswer:
    """Extracts of messages in the shape of an observer's answer."""
    notes = digest(take_notes(masked), counter, most_tokens)
    if not notes:
        return NOTHING
    return {
        "observations": [
            {"marker": note.marker, "text": f"{note.role}: {note.text}", "from_seq": note.seq, "to_seq": note.seq}
            for note in notes
        ],
        "nothing_to_note": False,
    }


async def _first_gap(tx: Tx, engine: Engine, scope: Scope, thread: Thread) -> GapInput | None:
    """The first gap of a thread, if it has any."""
    gaps = await observations.gaps(tx, scope, thread.thread_uid)
    if not gaps:
        return None
    gap = gaps[0]
    found = await _read_gap(tx, scope, thread, gap, gap.to_seq, MOST_MESSAGES)
    return GapInput(
        gap=gap,
        upto=found[-1].seq if len(found) == MOST_MESSAGES else gap.to_seq,
        messages=tuple(found),
        masked=_mask(engine, found),
        sources=collect_sources(found),
        counter=engine.tokens,
        tokens=sum(message.tokens for message in found),
    )


async def _read_gap(tx: Tx, scope: Scope, thread: Thread, gap: Gap, upto: int, most: int) -> list[Message]:
    return await message_pages.read_between(tx, scope, thread, after=gap.from_seq - 1, upto=upto, most=most)


async def _fill_gap(tx: Tx, claim: Claim, inputs: GapInput, result: ObserverResult, by: Author) -> None:
    """Store the extracts of a gap's messages. Raises Stale if the gap or its messages have changed."""
    thread = await lock_thread(tx, claim)
    if inputs.gap not in await observations.gaps(tx, claim.scope, claim.thread_uid):
        raise Stale("others filled this gap meanwhile")
    now = await _read_gap(tx, claim.scope, thread, inputs.gap, inputs.upto, len(inputs.messages) + 1)
    check_unchanged(now, inputs.messages)
    await observations.close(tx, claim.scope, claim.thread_uid, inputs.gap, inputs.upto, now=result.now)
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
    payload = {"from_seq": inputs.gap.from_seq, "to_seq": inputs.upto, "count": len(result.made)}
    event = NewEvent("observations_added", payload)
    await events.record(tx, claim.scope, thread, [event], origin=Origin(claim.kind, ""), now=result.now)


def _need_thinning(rows: Sequence[Observation], rules: ObservationRules) -> bool:
    """Whether active rows are too many to wait for a model any longer, and some of them can be dropped."""
    enough = sum(row.tokens for row in rows) >= rules.reflect_stand_in_tokens
    return enough and any(row.marker != "critical" for row in rows)


def _choose_drops(rows: Sequence[Observation], rules: ObservationRules) -> ModelAnswer:
    """A reflector's answer that drops the oldest of the least important rows until half the threshold is left, if that
    is possible. Among rows of one marker the extracts of what agents and tools said go first, and of those the ones whose
    ids and numbers occur in other rows, or that have none."""
    left = sum(row.tokens for row in rows)
    values = {row.observation_id: _values(row) for row in rows}
    counts = Counter(value for each in values.values() for value in each)
    drops: list[int] = []
    for marker, from_user, lossless in product(_ORDER, (False, True), (True, False)):
        for row in rows:
            if left <= rules.reflect_tokens * _TARGET:
                break
            if row.marker != marker or row.observation_id not in values or _is_from_user(row) != from_user:
                continue
            own = values[row.observation_id]
            loses = any(counts[value] == 1 for value in own)
            if lossless and loses:
                continue
            drops.append(row.observation_id)
            left -= row.tokens
            counts.subtract(values.pop(row.observation_id))
    return {"merge": [], "drop": drops}


def _is_from_user(row: Observation) -> bool:
    """Whether a row reports a user's words; a row that a model wrote may report them, too."""
    return row.model != EXTRACTIVE or row.text.startswith("user: ")


def _values(row: Observation) -> frozenset[str]:
    return frozenset(value for value in find_values(row.text) if any(sign.isdigit() for sign in value))


async def _drop(tx: Tx, claim: Claim, rows: Sequence[Observation], result: SurplusResult) -> None:
    """Drop the rows. Raises Stale if any of them has changed."""
    thread = await lock_thread(tx, claim)
    await check_rows_unchanged(tx, claim.scope, claim.thread_uid, rows)
    drops = result.reflection.drops
    await observations.put_away(tx, claim.scope, claim.thread_uid, dict.fromkeys(drops))
    before = sum(row.tokens for row in rows)
    after = before - sum(row.tokens for row in rows if row.observation_id in drops)
    event = NewEvent("observations_reflected", {"tokens_before": before, "tokens_after": after})
    await events.record(tx, claim.scope, thread, [event], origin=Origin(claim.kind, ""), now=result.now)
