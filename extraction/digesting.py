"""What stands in for observer and reflector, without a model: extracts of a thread whose messages have become too many,
and fewer observations of one that has too many of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from layerlore.extraction import filling, thinning
from layerlore.extraction.filling import Filling
from layerlore.extraction.heard import locked
from layerlore.extraction.kind import Claim, Kind, Material, Thinker
from layerlore.extraction.noting import SCHEMA, Noted, Readied, Sources, read_notes, readied
from layerlore.extraction.observer import MOST_MESSAGES, NOTHING, sources_of, store, tell, unchanged
from layerlore.extraction.reflector import SCHEMA as REFLECTION
from layerlore.extraction.reflector import Reflection, read_reflection
from layerlore.extraction.transcript import without_echoes
from layerlore.memory.digest import digest, notes_of
from layerlore.memory.engine import Engine
from layerlore.memory.observing import ObservationRules
from layerlore.memory.tokens import TokenCounter
from layerlore.storage import messages_behind, observations, threads
from layerlore.storage.observations import Cursor, Observation
from layerlore.storage.records import Json, Message, Scope, Thread
from layerlore.storage.transaction import Tx

PROMPT = "digest/1"
"""Stands for the rules of ``memory.digest`` where others name their prompt."""

# Tokens of messages for one token of extracts, and the least and the most that extracts may have.
_SHARE, _FEWEST, _MOST = 12, 300, 4000


@dataclass(frozen=True, slots=True)
class Basis:
    """The messages that are told in extracts, as they are stored and as extracts are made of them."""

    began: Cursor
    ended: Cursor
    messages: tuple[Message, ...]
    masked: tuple[Message, ...]
    sources: Sources
    counter: TokenCounter
    tokens: int
    more: bool
    current_task: str | None
    next_step: str | None


@dataclass(frozen=True, slots=True)
class TooMany:
    """The observations of which some are dropped."""

    rows: tuple[Observation, ...]
    rules: ObservationRules


@dataclass(frozen=True, slots=True)
class Dropped:
    """Which, and when (ms since 1970)."""

    reflection: Reflection
    now: int


class Digest:
    """Kind ``digest``: extracts take the place of messages beyond the threshold that no model has noted; then the
    least of the observations are dropped, where no model has made fewer of them."""

    name: Kind = "digest"
    source = "digest"

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """What is too much; None when a model came first."""
        thread = await threads.find_uid(tx, claim.scope, claim.thread_uid)
        if thread is None:
            return None
        basis = await filling.first(tx, engine, claim.scope, thread) or await _unnoted(tx, engine, claim.scope, thread)
        if basis is not None:
            return Material("", "", SCHEMA, PROMPT, basis)
        rows = await observations.listed(tx, claim.scope, claim.thread_uid, "active")
        if not thinning.too_many(rows, engine.observation):
            return None
        return Material("", "", REFLECTION, PROMPT, TooMany(tuple(rows), engine.observation))

    def read(self, answer: Json, material: Material) -> Noted | Reflection:
        if isinstance(material.basis, TooMany):
            return read_reflection(answer, material.basis.rows)
        return read_notes(answer, material.basis.sources)

    async def ready(self, engine: Engine, material: Material, result: Noted | Reflection) -> Readied | Dropped:
        if isinstance(result, Reflection):
            return Dropped(result, engine.now())
        basis: Basis | Filling = material.basis
        batch = basis.gap.to_seq if isinstance(basis, Filling) else basis.ended.seq
        return readied(engine, result, basis.sources, batch=batch, transcript_tokens=basis.tokens)

    async def commit(
        self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: Readied | Dropped, by: Thinker
    ) -> int | None:
        """Show the extracts at once. What an observer noted of a part of a long message gives way. Raises Stale."""
        if isinstance(result, Dropped):
            thread = await locked(tx, claim)
            await thinning.commit(tx, claim, thread, material.basis.rows, result.reflection, now=result.now)
            return None
        if isinstance(material.basis, Filling):
            await filling.commit(tx, claim, material.basis, result, by)
            return claim.seq - 1  # there may be more of them
        basis: Basis = material.basis
        thread = await unchanged(tx, claim, basis.began, basis.messages)
        await observations.discard(tx, claim.scope, thread, after=basis.began.seq)
        await store(tx, claim.scope, thread, basis, result, by)
        await tell(tx, engine, claim, thread, basis, result)
        tokens = await observations.active_tokens(tx, claim.scope, claim.thread_uid)
        # It goes on at once, also with the observations, if they are too many by now.
        return claim.seq - 1 if basis.more or tokens >= engine.observation.reflect_stand_in_tokens else None

    def digested(self, material: Material) -> Json | None:
        if isinstance(material.basis, TooMany):
            return thinning.thinned(material.basis.rows, material.basis.rules)
        basis: Basis | Filling = material.basis
        most = min(_MOST, max(_FEWEST, basis.tokens // _SHARE))
        if isinstance(basis, Filling):
            return extracts(basis.masked, basis.counter, most)
        hints = {"current_task": basis.current_task, "next_step": basis.next_step}
        return extracts(basis.masked, basis.counter, most) | hints


async def _unnoted(tx: Tx, engine: Engine, scope: Scope, thread: Thread) -> Basis | None:
    """What is behind the observer's cursor, but for the newest messages, if all that is raw is far too much."""
    rules = engine.observation
    if thread.raw_tokens < rules.stand_in_tokens:
        return None
    ahead = await observations.sizes(tx, scope, thread.thread_uid, after=thread.observed_seq, upto=thread.buffered_seq)
    began = Cursor(thread.buffered_seq, thread.buffered_chars)
    read = await messages_behind.between(tx, scope, thread, after=began.seq, upto=thread.next_seq, most=MOST_MESSAGES)
    found = _but_the_newest(read, thread.raw_tokens - sum(tokens for _, tokens in ahead), rules.keep)
    if not found:
        return None
    return Basis(
        began,
        Cursor(found[-1].seq),
        tuple(found),
        tuple(without_echoes(engine, found)),
        sources_of(found),
        engine.tokens,
        sum(message.tokens for message in found),
        len(found) == MOST_MESSAGES,
        thread.current_task,
        thread.next_step,
    )


def extracts(masked: Sequence[Message], counter: TokenCounter, most_tokens: int) -> Json:
    """Extracts of messages as an observer's answer."""
    notes = digest(notes_of(masked), counter, most_tokens)
    if not notes:
        return NOTHING
    return {
        "observations": [
            {"marker": note.marker, "text": f"{note.role}: {note.text}", "from_seq": note.seq, "to_seq": note.seq}
            for note in notes
        ],
        "nothing_to_note": False,
    }


def _but_the_newest(found: Sequence[Message], tokens: int, keep: int) -> Sequence[Message]:
    """The first of messages, which have so many tokens together with all behind them, as far as ``keep`` tokens remain;
    at least one, which may be too long by itself."""
    left = tokens
    for place, message in enumerate(found):
        left -= message.tokens
        if left < keep:
            return found[: max(1, place)]
    return found
