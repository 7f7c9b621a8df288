"""The reflector: fewer observations in the place of many, once they have become too long themselves."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from layerlore.extraction.degenerate import repetition
from layerlore.extraction.heard import locked
from layerlore.extraction.kind import EXTRACTIVE, Claim, Kind, Material, Refused, Stale, Thinker
from layerlore.extraction.noting import NOTE_CHARS, counted
from layerlore.extraction.wording import in_one_line
from layerlore.memory.ages import iso
from layerlore.memory.engine import Engine
from layerlore.memory.trust import TRUSTS, lowest
from layerlore.prompts import render
from layerlore.storage import events, observations, threads
from layerlore.storage.events import NewEvent
from layerlore.storage.observations import MARKERS, Marker, NewObservation, Observation
from layerlore.storage.records import Json, Origin, Scope
from layerlore.storage.transaction import Tx

log = logging.getLogger(__name__)

MOST_LEVEL = 3
"""After attempts at the levels 0 to 3 it is given up, with a warning, until the next activation."""
# What is asked for, as a share of the threshold, at each level.
_TARGETS = (0.5, 0.4, 0.3, 0.2)

SCHEMA: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["merge", "drop"],
    "properties": {
        "merge": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["supersedes", "marker", "text", "refers_to"],
                "properties": {
                    "supersedes": {"type": "array", "items": {"type": "integer"}},
                    "marker": {"type": "string", "enum": list(MARKERS)},
                    "text": {"type": "string"},
                    "refers_to": {"type": ["string", "null"]},
                },
            },
        },
        "drop": {"type": "array", "items": {"type": "integer"}},
    },
}


@dataclass(frozen=True, slots=True)
class Basis:
    """The active rows that are reflected upon, their tokens, and the tokens below which they are to come."""

    rows: tuple[Observation, ...]
    tokens: int
    below: int
    level: int


@dataclass(frozen=True, slots=True)
class Merged:
    """One note in the place of some."""

    supersedes: tuple[int, ...]
    marker: Marker
    text: str
    refers_to: str | None


@dataclass(frozen=True, slots=True)
class Reflection:
    """What is to become of rows: each id has one fate at most."""

    merges: tuple[Merged, ...]
    drops: frozenset[int]


@dataclass(frozen=True, slots=True)
class Readied:
    """The notes as they are stored, beside what each of them supersedes, and what is dropped."""

    made: tuple[NewObservation, ...]
    supersedes: tuple[tuple[int, ...], ...]
    drops: frozenset[int]
    tokens: int
    now: int


class Reflector:
    """Kind ``reflect``. A refused answer is a failed attempt, and the next one asks for fewer and shorter notes."""

    name: Kind = "reflect"
    source = "reflect"

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """The active rows up to the claim's seq; None when they are not too many, or not to be made fewer."""
        rules = engine.observation
        thread = await threads.find_uid(tx, claim.scope, claim.thread_uid)
        active = await observations.listed(tx, claim.scope, claim.thread_uid, "active") if thread else []
        rows = tuple(row for row in active if row.batch <= claim.seq)
        tokens = sum(row.tokens for row in rows)
        if tokens < rules.reflect_tokens:
            return None
        level = claim.attempts
        if level > MOST_LEVEL:
            log.warning(
                "reflect: %d tokens of observations could not be made fewer in %d attempts; they stay as they are",
                tokens,
                level,
            )
            return None
        prompt = render("reflect", level=level, tokens=tokens, target=int(rules.reflect_tokens * _TARGETS[level]))
        content = json.dumps({"observations": [_shown(row) for row in rows]}, ensure_ascii=False)
        basis = Basis(rows, tokens, rules.reflect_tokens, level)
        return Material(prompt.text, content, SCHEMA, prompt.version, basis)

    def read(self, answer: Json, material: Material) -> Reflection:
        return read_reflection(answer, material.basis.rows)

    async def ready(self, engine: Engine, material: Material, result: Reflection) -> Readied:
        """The notes with their tokens. Raises Refused for a reflection that leaves too much."""
        basis: Basis = material.basis
        by_id = {row.observation_id: row for row in basis.rows}
        made = tuple(_made(engine, merged, [by_id[id_] for id_ in merged.supersedes]) for merged in result.merges)
        gone = {id_ for merged in result.merges for id_ in merged.supersedes} | result.drops
        tokens = basis.tokens - sum(by_id[id_].tokens for id_ in gone) + sum(each.tokens for each in made)
        if tokens >= basis.tokens:
            raise Refused(f"the notes would have {tokens} tokens and have {basis.tokens} now: fewer are needed")
        if tokens >= basis.below:
            if basis.level < MOST_LEVEL:
                raise Refused(f"the notes would still have {tokens} tokens; fewer than {basis.below} are needed")
            log.warning("reflect: %d tokens of observations became %d, which is still too many", basis.tokens, tokens)
        return Readied(made, tuple(merged.supersedes for merged in result.merges), result.drops, tokens, engine.now())

    async def commit(
        self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: Readied, by: Thinker
    ) -> int | None:
        """Put the notes in the place of those they supersede. Raises Stale when these are not as they were."""
        basis: Basis = material.basis
        thread = await locked(tx, claim)
        await unchanged(tx, claim.scope, claim.thread_uid, basis.rows)
        ids = await observations.add(
            tx,
            claim.scope,
            claim.thread_uid,
            result.made,
            status="active",
            model=by.model,
            prompt=by.prompt,
            now=result.now,
        )
        away: dict[int, int | None] = dict.fromkeys(result.drops)
        for id_, superseded in zip(ids, result.supersedes, strict=True):
            away |= dict.fromkeys(superseded, id_)
        await observations.put_away(tx, claim.scope, claim.thread_uid, away)
        happened = NewEvent("observations_reflected", {"tokens_before": basis.tokens, "tokens_after": result.tokens})
        await events.record(tx, claim.scope, thread, [happened], origin=Origin(claim.kind, ""), now=result.now)
        return None

    def digested(self, material: Material) -> Json | None:
        """It waits for a model; what is far too much is thinned out by kind ``digest``."""
        return None


async def unchanged(tx: Tx, scope: Scope, thread_uid: str, rows: Sequence[Observation]) -> None:
    """Raises Stale unless all these rows are active and as they were read. What came after them does not matter."""
    now = {row.observation_id: row for row in await observations.listed(tx, scope, thread_uid, "active")}
    if any(now.get(row.observation_id) != row for row in rows):
        raise Stale("observations were changed meanwhile")


def read_reflection(answer: Json, rows: Sequence[Observation]) -> Reflection:
    """What an answer makes of the rows. Ids that are not among them are ignored; the first merge that names an id has
    it, and a merge counts more than a drop; critical rows are never dropped, and what they are merged into is critical.
    What is under a row goes with it, unless it has a fate of its own or is critical.

    Raises Refused for an answer that leaves everything as it is, or repeats itself.
    """
    by_id = {row.observation_id: row for row in rows}
    under: dict[int, list[int]] = {}
    for row in rows:
        if row.parent_id is not None:
            under.setdefault(row.parent_id, []).append(row.observation_id)
    named = _named(answer, by_id)
    taken = {id_ for _, ids in named for id_ in ids}
    merges: list[Merged] = []
    for raw, ids in named:
        free = [child for id_ in ids for child in under.get(id_, ()) if child not in taken]
        free = [child for child in free if by_id[child].marker != "critical"]
        taken |= set(free)
        merges.append(_merged(raw, [*ids, *free], by_id))
    dropped = {id_ for id_ in _ids(answer.get("drop")) if id_ in by_id} - taken
    dropped |= {child for id_ in dropped for child in under.get(id_, ())} - taken
    # Raw extracts that a reflection did not take up have been stood in for long enough.
    if merges:
        dropped |= {id_ for id_, row in by_id.items() if row.model == EXTRACTIVE and row.marker == "info"} - taken
    dropped -= {id_ for id_, row in by_id.items() if row.marker == "critical"}
    if not merges and not dropped:
        raise Refused(
            "nothing would change: name ids of the notes in merge (with a text) or drop; critical ones are not dropped"
        )
    texts = [merged.text for merged in merges]
    if len(set(texts)) < len(texts):
        raise Refused("merge: two entries have the same text; name all the notes that it replaces in one")
    if (said := repetition(texts)) is not None:
        raise Refused(f"merge: {said}; say each thing once")
    return Reflection(tuple(merges), frozenset(dropped))


def _named(answer: Json, by_id: Mapping[int, Observation]) -> list[tuple[Json, list[int]]]:
    """The merges that say something, each with those of its ids that are known and that no earlier one has."""
    listed = answer.get("merge", [])
    if not isinstance(listed, list):
        raise Refused("merge: must be a list of objects with supersedes, marker and text")
    named: list[tuple[Json, list[int]]] = []
    taken: set[int] = set()
    for place, raw in enumerate(listed):
        if not isinstance(raw, dict) or not isinstance(raw.get("text"), str):
            raise Refused(f"merge[{place}]: must be an object with supersedes (ids), marker and text")
        ids = [id_ for id_ in dict.fromkeys(_ids(raw.get("supersedes"))) if id_ in by_id and id_ not in taken]
        if ids and in_one_line(raw["text"], 2 * NOTE_CHARS):
            named.append((raw, ids))
            taken |= set(ids)
    return named


def _ids(raw: Any) -> list[int]:
    given = raw if isinstance(raw, list) else []
    return [id_ for id_ in given if isinstance(id_, int) and not isinstance(id_, bool)]


def _merged(raw: Json, ids: Sequence[int], by_id: Mapping[int, Observation]) -> Merged:
    markers = {by_id[id_].marker for id_ in ids}
    answered = str(raw.get("marker", "")).strip().lower()
    marker = next((each for each in MARKERS if each == answered), min(markers, key=MARKERS.index))
    refers_to = raw.get("refers_to")
    return Merged(
        tuple(sorted(ids)),
        "critical" if "critical" in markers else marker,
        in_one_line(raw["text"], 2 * NOTE_CHARS),
        refers_to.strip()[:10] or None if isinstance(refers_to, str) else None,
    )


def _made(engine: Engine, merged: Merged, rows: Sequence[Observation]) -> NewObservation:
    """It stands where the last of those it supersedes stood, and is trusted as little as the least of them."""
    return counted(
        engine,
        NewObservation(
            marker=merged.marker,
            text=engine.derived_text(merged.text),
            said_at=max(row.said_at for row in rows),
            refers_to=merged.refers_to,
            from_seq=min(row.from_seq for row in rows),
            to_seq=max(row.to_seq for row in rows),
            tokens=0,
            trust=lowest(trust for row in rows for trust in TRUSTS if trust == row.trust),
            batch=max(row.batch for row in rows),
            level=1 + max(row.level for row in rows),
        ),
    )


def _shown(row: Observation) -> Json:
    under = {"under": row.parent_id} if row.parent_id is not None else {}
    refers = {"refers_to": row.refers_to} if row.refers_to else {}
    extract = {"extract": True} if row.model == EXTRACTIVE else {}
    return {
        "id": row.observation_id,
        "marker": row.marker,
        "said_at": iso(row.said_at),
        "text": row.text,
        **refers,
        **under,
        **extract,
    }
