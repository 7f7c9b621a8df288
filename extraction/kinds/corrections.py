"""What corrections correct, found by their meaning once an embedder is there, if it was not when they were kept."""

from dataclasses import dataclass

from layerlore.extraction.kinds.kind import Author, Claim, Kind, Material
from layerlore.memory.embedding.port import EmbeddingFailed
from layerlore.memory.engine.engine import Engine
from layerlore.memory.entries import entries as keeping
from layerlore.memory.entries.entries import EmbeddedText
from layerlore.storage.core import resource_lock
from layerlore.storage.core.records import Json, Origin
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, entry_lists
from layerlore.storage.derived.entries import Entry
from layerlore.storage.threads import events
from layerlore.storage.threads.events import NewEvent

PROMPT = "corrections/1"
"""Names the rule where other kinds name their prompt."""
MOST = 50
SCHEMA: Json = {"type": "object"}


@dataclass(frozen=True, slots=True)
class EmbeddedCorrections:
    """Corrections with their vectors, and the time (ms since 1970)."""

    corrections: tuple[tuple[Entry, EmbeddedText], ...]
    now: int


class CorrectionDecider:
    """Kind ``corrections``: it asks no model."""

    name: Kind = "corrections"

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """The corrections that took no entry's place; None where there are none, or where words alone decide."""
        undecided = await entry_lists.list_undecided(tx, claim.scope, most=MOST)
        if not undecided or engine.embedding is None:
            return None
        return Material("", "", SCHEMA, PROMPT, tuple(undecided))

    def read(self, answer: Json, material: Material) -> tuple[Entry, ...]:
        undecided: tuple[Entry, ...] = material.inputs
        return undecided

    async def enrich(self, engine: Engine, material: Material, result: tuple[Entry, ...]) -> EmbeddedCorrections:
        """Embed them. Raises EmbeddingFailed while no embedder is there: the job is tried again."""
        made = await keeping.embed_contents(engine, [each.content for each in result])
        if any(each is None for each in made):
            raise EmbeddingFailed("the embedder is not there yet")
        found = [(entry, each) for entry, each in zip(result, made, strict=True) if each is not None]
        return EmbeddedCorrections(tuple(found), engine.now())

    async def commit(
        self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: EmbeddedCorrections, by: Author
    ) -> int | None:
        """Let each correction that is still there take the place of what it corrects."""
        await resource_lock.hold(tx, claim.scope)
        changed: list[str] = []
        for entry, embedded in result.corrections:
            there = (await entries.read_seen(tx, claim.scope, [entry.entry_id])).get(entry.entry_id)
            if there is None or there.content != entry.content:
                continue
            similarity = engine.entries.dedupe_similarity
            gone = await keeping.correct_later(tx, claim.scope, there, embedded, similarity=similarity, now=result.now)
            changed += [entry.entry_id, *gone] if gone else []
        if changed:
            happened = NewEvent("entries_changed", {"ids": list(dict.fromkeys(changed))})
            origin = Origin(claim.kind, "")
            await events.record_of_resource(tx, claim.scope, happened, origin=origin, now=result.now)
        return None

    def digest(self, material: Material) -> Json | None:
        return {}
