"""Keeping an entry: one that is known is refreshed, one that says what another says is not kept, and a correction takes
the place of what it corrects."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import anyio
import numpy as np
import regex

from layerlore.memory.embedding.port import EmbeddingFailed, Vectors
from layerlore.memory.engine import Engine
from layerlore.memory.search_text import words
from layerlore.memory.trust import TRUSTS, Trust
from layerlore.storage import embedders, entries, search, search_rows, vectors
from layerlore.storage.entries import Entry, NewEntry
from layerlore.storage.records import Scope, SearchText
from layerlore.storage.transaction import Tx
from layerlore.storage.vectors import NewVector

Outcome = Literal["kept", "refreshed", "similar", "forgotten"]

NEAREST = 20
"""How many of the nearest entries a new one is compared with (n8n's)."""
PATIENCE_SECONDS = 10.0
"""So long a batch may take: who hands an answer in waits for it, and a remote embedder may hang."""
CORRECTED_SIMILARITY = 0.6
"""A correction takes the place of the nearest entry that is at least so near: it says something else of the same
thing, so it is less near than a repetition."""
SHARED_WORDS = 0.4
"""The same without vectors: of the words of both, how many both have."""

# What tells two entries apart that are alike otherwise: 8080 and 9090, v1 and v2, error codes.
_TELLING = regex.compile(r"[\p{L}\p{N}]*\p{N}[\p{L}\p{N}]*")
# An embedder hardly hears it: "it works" and "it does not work" are nearer than many a repetition.
_NEGATION = regex.compile(
    r"n['’]t\b|不|没|無|ない|않|안 |\b(?:no|not|never|none|without|cannot|nicht|kein\w*|nie|ohne|pas|jamais|sans|non|mai|senza"
    r"|nunca|sin|não|sem|niet|geen|zonder|bez|не|нет|никогда|без|değil|yok|ليس|لا|لم)\b"
)


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of a text's chunks (of length 1), in their order, and what they are stored under."""

    model: str
    chunks: tuple[Vectors, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of an entry: its id, or that of the one that says the same already; and the ids of those whose place
    it took. ``forgotten``: it was dropped after what it rests on had been said, and stays so."""

    outcome: Outcome
    entry_id: str
    superseded: tuple[str, ...] = ()


def normalized(content: str) -> str:
    """White space as single spaces, none around."""
    return " ".join(content.split())


async def embedded(engine: Engine, contents: Sequence[str]) -> list[Embedded | None]:
    """The vectors of entries, in one batch; None for each where none can be made now: they are then compared by their
    words alone, and get their vectors later."""
    if engine.embedding is None or not contents:
        return [None] * len(contents)
    chunks = [engine.embedded_texts_of_content(content) for content in contents]
    try:
        with anyio.fail_after(PATIENCE_SECONDS):
            made = await engine.embedding.embed([text for texts in chunks for text in texts])
    except (EmbeddingFailed, TimeoutError):
        return [None] * len(contents)
    found: list[Embedded | None] = []
    for texts in chunks:
        some, made = made[: len(texts)], made[len(texts) :]
        whole = tuple(vector for vector in some if vector is not None)
        found.append(Embedded(engine.embedding.embedder.name, whole) if len(whole) == len(texts) else None)
    return found


async def embedded_soon(engine: Engine, content: str) -> Embedded | None:
    """The same for one that somebody waits for: within the patience of a query."""
    if engine.embedding is None:
        return None
    made = [(await engine.embedding.query(text))[0] for text in engine.embedded_texts_of_content(content)]
    whole = tuple(each.vector for each in made if each is not None)
    return Embedded(engine.embedding.embedder.name, whole) if whole and len(whole) == len(made) else None


def says_the_same(one: Embedded, other: Embedded, similarity: float) -> bool:
    """Whether each chunk of one is at least so near to one of the other."""
    return similarity > 0 and _similarity(np.stack(one.chunks), np.stack(other.chunks)) >= similarity


def tells_apart(new: str, known: str) -> bool:
    """Whether the new text has a number or a name with digits that the known one has not, or denies what that says."""
    one, other = new.lower(), known.lower()
    if bool(_NEGATION.search(one)) != bool(_NEGATION.search(other)):
        return True
    return not set(_TELLING.findall(one)) <= set(_TELLING.findall(other))


def _similarity(new: Vectors, known: Vectors) -> float:
    return float((new @ known.T).max(axis=1).min())


async def keep(
    tx: Tx,
    scope: Scope,
    new: NewEntry,
    embedded: Embedded | None,
    *,
    similarity: float,
    said_at: int,
    corrects: Sequence[str] = (),
    now: int,
    search_text: SearchText,
) -> Kept:
    """Keep an entry, in a transaction that holds the resource.

    ``said_at``: when its newest source was stored; what was dropped or superseded later stays so, unless a caller says
    it again. One of the kind ``correction`` takes the place of what it corrects, and any of those in ``corrects``, as far as they are
    trusted no more than it is.
    """
    known = await entries.of_content(tx, scope, new.content)
    if known is not None and known.status != "active" and new.origin == "extracted" and said_at <= known.seen_at:
        return Kept("forgotten", known.entry_id)
    near = await _near(tx, scope, new.content, embedded)
    others = {entry_id: how for entry_id, how in near.items() if known is None or entry_id != known.entry_id}
    seen = await entries.seen(tx, scope, [*others, *corrects])
    # Without vectors only the same words say the same.
    least = similarity if embedded else 1.0
    gone = _corrected(new, seen, others, corrects, least, CORRECTED_SIMILARITY if embedded else SHARED_WORDS)
    if known is None and not gone and similarity > 0:
        for other, how in sorted(others.items(), key=lambda item: -item[1]):
            if how >= least and other in seen and not tells_apart(new.content, seen[other].content):
                return Kept("similar", other)
    entry_id = new.entry_id if known is None else known.entry_id
    if known is None:
        await entries.insert_new(tx, scope, new, now=now, search_text=search_text)
    else:
        await entries.revive(tx, scope, known, new, now=now, search_text=search_text)
    if embedded:
        await _store_vectors(tx, scope, entry_id, embedded)
    await entries.supersede(tx, scope, gone, entry_id, now=now)
    return Kept("kept" if known is None else "refreshed", entry_id, tuple(gone))


def _corrected(
    new: NewEntry,
    seen: dict[str, Entry],
    near: dict[str, float],
    corrects: Sequence[str],
    same: float,
    least: float,
) -> list[str]:
    """Whose place it takes: those named; else, of a correction, all that are as near as what says the same, or the
    nearest one that is near enough."""
    # What somebody said himself gives way to nothing that is trusted less.
    seen = {entry_id: entry for entry_id, entry in seen.items() if _trust(entry) <= _trust(new)}
    gone = [entry_id for entry_id in dict.fromkeys(corrects) if entry_id in seen]
    if gone or new.kind != "correction":
        return gone
    ordered = sorted((entry_id for entry_id in near if entry_id in seen), key=lambda entry_id: -near[entry_id])
    return [entry_id for entry_id in ordered if near[entry_id] >= same] or [
        entry_id for entry_id in ordered[:1] if near[entry_id] >= least
    ]


def _trust(entry: Entry | NewEntry) -> int:
    return TRUSTS.index(cast(Trust, entry.trust))


async def _near(tx: Tx, scope: Scope, content: str, embedded: Embedded | None) -> dict[str, float]:
    """The nearest entries of the scope, and how near each is."""
    if embedded is None:
        return await _sharing_words(tx, scope, content)
    row_ids = [
        await vectors.nearest(
            tx, scope, embedded.model, np.packbits(chunk > 0).tobytes(), most=NEAREST, kinds=("entry",)
        )
        for chunk in embedded.chunks
    ]
    found, floats = await vectors.of_rows(tx, scope, embedded.model, np.unique(np.concatenate(row_ids)))
    of_entry: dict[str, list[int]] = {}
    for at, (uid, _) in _in_order(found.tolist(), await search_rows.places(tx, scope, found)):
        of_entry.setdefault(uid.removeprefix(entries.PLACE), []).append(at)
    new = np.stack(embedded.chunks)
    return {entry_id: _similarity(new, floats[at]) for entry_id, at in of_entry.items()}


def _in_order(row_ids: Sequence[int], places: dict[int, tuple[str, int]]) -> list[tuple[int, tuple[str, int]]]:
    return [(at, places[row_id]) for at, row_id in enumerate(row_ids) if row_id in places]


async def _sharing_words(tx: Tx, scope: Scope, content: str) -> dict[str, float]:
    own = set(words(content))
    rows_of = await search.postings(tx, scope, sorted(own), most=1000, kinds=("entry",))
    row_ids, counts = np.unique(np.concatenate([*rows_of.values(), np.empty(0, np.int64)]), return_counts=True)
    best = row_ids[np.argsort(-counts, kind="stable")[:NEAREST]]
    places = await search_rows.places(tx, scope, best)
    found = await entries.seen(tx, scope, {uid.removeprefix(entries.PLACE) for uid, _ in places.values()})
    others = {entry_id: set(words(entry.content)) for entry_id, entry in found.items()}
    return {entry_id: len(own & other) / len(own | other) for entry_id, other in others.items() if own | other}


async def _store_vectors(tx: Tx, scope: Scope, entry_id: str, embedded: Embedded) -> None:
    """At once, so that the next entry can be compared with this one."""
    dimension = len(embedded.chunks[0])
    if await embedders.agree_on_dimension(tx, embedded.model, dimension) != dimension:
        return
    new = [
        NewVector(row_id, np.packbits(vector > 0).tobytes(), vector.astype("<f4").tobytes())
        for row_id, chunk in await search_rows.chunks_of(tx, scope, entries.place_of(entry_id), entries.SEQ)
        if chunk < len(embedded.chunks)
        for vector in [embedded.chunks[chunk]]
    ]
    await vectors.put(tx, scope, embedded.model, dimension, new)
