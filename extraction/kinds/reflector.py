"""The reflector: a model replaces many observations by fewer, once they have become too long."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from layerlore.extraction.kinds.documents import clean_line, find_repetition
from layerlore.extraction.kinds.kind import EXTRACTIVE, AnswerRefused, Author, Claim, Kind, Material, Stale, lock_thread
from layerlore.extraction.kinds.observer import NOTE_CHARS, count_tokens
from layerlore.memory.engine.engine import Engine
from layerlore.memory.rules.ages import iso
from layerlore.memory.text.trust import TRUSTS, find_lowest_trust
from layerlore.prompts import render
from layerlore.storage.core.records import Json, Origin, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import observations
from layerlore.storage.derived.observations import MARKERS, Marker, NewObservation, Observation
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import NewEvent

log = logging.getLogger(__name__)

MOST_LEVEL = 3
"""The last of the levels 0 to 3. After it the reflector gives up, with a warning, until the next activation."""
# The tokens to aim for at each level, as a share of the threshold.
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
class ReflectorInput:
    """The active rows, their tokens, and the limit that the replacement must stay below."""

    rows: tuple[Observation, ...]
    tokens: int
    below: int
    level: int


@dataclass(frozen=True, slots=True)
class MergedNote:
    """One note that supersedes others."""

    supersedes: tuple[int, ...]
    marker: Marker
    text: str
    refers_to: str | None


@dataclass(frozen=True, slots=True)
class Reflection:
    """Which rows are merged and which are dropped. Each id appears once at most."""

    merges: tuple[MergedNote, ...]
    drops: frozenset[int]


@dataclass(frozen=True, slots=True)
class ReflectorResult:
    """The notes as they are stored, the ids that each supersedes, and the ids that are dropped."""

    made: tuple[NewObservation, ...]
    supersedes: tuple[tuple[int, ...], ...]
    drops: frozenset[int]
    tokens: int
    now: int


class Reflector:
    """Kind ``reflect``. A refused answer is a failed attempt, and the next one asks for fewer and shorter notes."""

    name: Kind = "reflect"

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """The active rows up to the claim's seq; None when they are not too many, or when all levels were tried."""
        rules = engine.observation
        thread = await threads.find_uid(tx, claim.scope, claim.thread_uid)
        if thread:
            active = await observations.read(tx, claim.scope, claim.thread_uid, "active")
        else:
            active = []
        # Rows of later batches are left to the next job.
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
        content = json.dumps({"observations": [_show(row) for row in rows]}, ensure_ascii=False)
        inputs = ReflectorInput(rows, tokens, rules.reflect_tokens, level)
        return Material(prompt.text, content, SCHEMA, prompt.version, inputs)

    def read(self, answer: Json, material: Material) -> Reflection:
        return read_reflection(answer, material.inputs.rows)

    async def enrich(self, engine: Engine, material: Material, result: Reflection) -> ReflectorResult:
        """Count the tokens of the notes. Raises AnswerRefused for a reflection that leaves too many."""
        inputs: ReflectorInput = material.inputs
        by_id = {row.observation_id: row for row in inputs.rows}
        made = tuple(_make_row(engine, merged, [by_id[id_] for id_ in merged.supersedes]) for merged in result.merges)
        gone = {id_ for merged in result.merges for id_ in merged.supersedes} | result.drops
        tokens = inputs.tokens - sum(by_id[id_].tokens for id_ in gone) + sum(each.tokens for each in made)
        if tokens >= inputs.tokens:
            raise AnswerRefused(f"the notes would have {tokens} tokens and have {inputs.tokens} now: fewer are needed")
        # The notes are fewer, but still too many. They are refused while a stricter level is left.
        if tokens >= inputs.below:
            if inputs.level < MOST_LEVEL:
                raise AnswerRefused(f"the notes would still have {tokens} tokens; fewer than {inputs.below} are needed")
            log.warning("reflect: %d tokens of observations became %d, which is still too many", inputs.tokens, tokens)
        return ReflectorResult(
            made, tuple(merged.supersedes for merged in result.merges), result.drops, tokens, engine.now()
        )

    async def commit(
        self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: ReflectorResult, by: Author
    ) -> int | None:
        """Replace the superseded observations by the notes. Raises Stale when any of them has changed."""
        inputs: ReflectorInput = material.inputs
        thread = await lock_thread(tx, claim)
        await check_rows_unchanged(tx, claim.scope, claim.thread_uid, inputs.rows)
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
        happened = NewEvent("observations_reflected", {"tokens_before": inputs.tokens, "tokens_after": result.tokens})
        await events.record(tx, claim.scope, thread, [happened], origin=Origin(claim.kind, ""), now=result.now)
        return None


async def check_rows_unchanged(tx: Tx, scope: Scope, thread_uid: str, rows: Sequence[Observation]) -> None:
    """Raises Stale unless all these rows are active and unchanged. Later rows do not matter."""
    now = {row.observation_id: row for row in await observations.read(tx, scope, thread_uid, "active")}
    if any(now.get(row.observation_id) != row for row in rows):
        raise Stale("observations were changed meanwhile")


def read_reflection(answer: Json, rows: Sequence[Observation]) -> Reflection:
    """Read which rows an answer merges and drops. Unknown ids are ignored. The first merge that names an id takes it, and
    a merge goes before a drop. Critical rows are never dropped, and a note that they are merged into is critical. The
    details under a row go with it, unless the answer names them or they are critical.

    Raises AnswerRefused for an answer that leaves everything as it is, or repeats itself.
    """
    by_id = {row.observation_id: row for row in rows}
    under: dict[int, list[int]] = {}
    for row in rows:
        if row.parent_id is not None:
            under.setdefault(row.parent_id, []).append(row.observation_id)
    named = _read_merges(answer, by_id)
    taken = {id_ for _, ids in named for id_ in ids}
    merges: list[MergedNote] = []
    for raw, ids in named:
        # Details go with their parent, or they would stand without their subject.
        free = [child for id_ in ids for child in under.get(id_, ()) if child not in taken]
        free = [child for child in free if by_id[child].marker != "critical"]
        taken |= set(free)
        merges.append(_merge(raw, [*ids, *free], by_id))
    dropped = {id_ for id_ in _ids(answer.get("drop")) if id_ in by_id} - taken
    dropped |= {child for id_ in dropped for child in under.get(id_, ())} - taken
    # Raw extracts that a reflection did not use are dropped with it.
    if merges:
        dropped |= {row.observation_id for row in rows if row.model == EXTRACTIVE and row.marker == "info"} - taken
    dropped -= {row.observation_id for row in rows if row.marker == "critical"}
    if not merges and not dropped:
        raise AnswerRefused(
            "nothing would change: name ids of the notes in merge (with a text) or drop; critical ones are not dropped"
        )
    _check_texts([merged.text for merged in merges])
    return Reflection(tuple(merges), frozenset(dropped))


def _check_texts(texts: Sequence[str]) -> None:
    """Raises AnswerRefused for a text that comes twice, or repeats itself."""
    if len(set(texts)) < len(texts):
        raise AnswerRefused("merge: two entries have the same text; name all the notes that it replaces in one")
    if (repeated := find_repetition(texts)) is not None:
        raise AnswerRefused(f"merge: {repeated}; say each thing once")


def _read_merges(answer: Json, by_id: Mapping[int, Observation]) -> list[tuple[Json, list[int]]]:
    """The merges that have a text, each with its ids that are known and that no earlier merge took."""
    listed = answer.get("merge", [])
    if not isinstance(listed, list):
        raise AnswerRefused("merge: must be a list of objects with supersedes, marker and text")
    named: list[tuple[Json, list[int]]] = []
    taken: set[int] = set()
    for place, raw in enumerate(listed):
        if not isinstance(raw, dict) or not isinstance(raw.get("text"), str):
            raise AnswerRefused(f"merge[{place}]: must be an object with supersedes (ids), marker and text")
        ids = [id_ for id_ in dict.fromkeys(_ids(raw.get("supersedes"))) if id_ in by_id and id_ not in taken]
        # A merge without a text would only remove its rows.
        if ids and clean_line(raw["text"], 2 * NOTE_CHARS):
            named.append((raw, ids))
            taken |= set(ids)
    return named


def _ids(raw: Any) -> list[int]:
    if isinstance(raw, list):
        given = raw
    else:
        given = []
    return [id_ for id_ in given if isinstance(id_, int) and not isinstance(id_, bool)]


def _merge(raw: Json, ids: Sequence[int], by_id: Mapping[int, Observation]) -> MergedNote:
    markers = {by_id[id_].marker for id_ in ids}
    answered = str(raw.get("marker", "")).strip().lower()
    # For an unknown marker, the most important one of the merged rows counts.
    marker = next((each for each in MARKERS if each == answered), min(markers, key=MARKERS.index))
    refers_to = raw.get("refers_to")
    return MergedNote(
        tuple(sorted(ids)),
        "critical" if "critical" in markers else marker,
        clean_line(raw["text"], 2 * NOTE_CHARS),
        # A date has ten characters.
        refers_to.strip()[:10] or None if isinstance(refers_to, str) else None,
    )


def _make_row(engine: Engine, merged: MergedNote, rows: Sequence[Observation]) -> NewObservation:
    """The note as a row: it takes the place of the last row that it supersedes, and the lowest trust of them."""
    return count_tokens(
        engine,
        NewObservation(
            marker=merged.marker,
            text=engine.derived_text(merged.text),
            said_at=max(row.said_at for row in rows),
            refers_to=merged.refers_to,
            from_seq=min(row.from_seq for row in rows),
            to_seq=max(row.to_seq for row in rows),
            tokens=0,
            # The stored trust is plain text, and this gives it its type.
            trust=find_lowest_trust(trust for row in rows for trust in TRUSTS if trust == row.trust),
            batch=max(row.batch for row in rows),
            level=1 + max(row.level for row in rows),
        ),
    )


class ShownObservation(TypedDict):
    """An observation as the model of a reflection gets it."""

    id: int
    marker: str
    said_at: str
    text: str
    refers_to: NotRequired[str]
    under: NotRequired[int]
    extract: NotRequired[bool]


def _show(row: Observation) -> ShownObservation:
    shown: ShownObservation = {
        "id": row.observation_id,
        "marker": row.marker,
        "said_at": iso(row.said_at),
        "text": row.text,
    }
    if row.refers_to:
        shown["refers_to"] = row.refers_to
    if row.parent_id is not None:
        shown["under"] = row.parent_id
    if row.model == EXTRACTIVE:
        shown["extract"] = True
    return shown
