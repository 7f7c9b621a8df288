"""Entries as they are kept: one that is known is refreshed, one that repeats another is not kept, and a correction
takes the place of what it corrects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import anyio
import numpy as np
import regex

from layerlore.memory.embedding.port import EmbeddingFailed, Vectors
from layerlore.memory.engine.engine import Engine
from layerlore.memory.entries.contradictions import contradicts
from layerlore.memory.parts.search_words import split_words
from layerlore.memory.text.trust import TRUSTS, Trust
from layerlore.storage.core.records import Scope, SearchText
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, entry_marks
from layerlore.storage.derived.entries import Entry, NewEntry
from layerlore.storage.index import embedders, lexical, vectors
from layerlore.storage.index.vectors import NewVector
from layerlore.storage.messages import indexed_rows

Outcome = Literal["kept", "refreshed", "similar", "forgotten", "wrong"]

NEAREST = 20
"""How many of the nearest entries a new one is compared with (n8n's)."""
PATIENCE_SECONDS = 10.0
"""Seconds that a batch may take: the caller of submit_memory_job waits for it, and a remote embedder may hang."""
CORRECTED_SIMILARITY = 0.6
"""A correction takes the place of the nearest entry that is at least so near: it says something else of the same
thing, so it is less near than a repetition."""
SHARED_WORDS = 0.4
"""The threshold of a correction without vectors: the share of words that both entries have, of the words of either."""

WRONG_WORDS = 0.75
"""What shares so many of its words with an entry that is marked as wrong says the same: wrong ones have no vectors."""

# What distinguishes two entries that are alike otherwise: 8080 and 9090, v1 and v2, error codes.
_DETAIL = regex.compile(r"[\p{L}\p{N}]*\p{N}[\p{L}\p{N}]*")
# An embedder hardly notices it: "it works" and "it does not work" are nearer than many a repetition.
_NEGATION = regex.compile(
    r"n['’]t\b|不|没|無|ない|않|안 |\b(?:no|not|never|none|without|cannot|nicht|kein\w*|nie|ohne|pas|jamais|sans|non|mai|senza"
    r"|nunca|sin|não|sem|niet|geen|zonder|bez|не|нет|никогда|без|değil|yok|ليس|لا|لم)\b"
)


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """The vectors of a text's chunks (of length 1), in their order, and what they are stored under."""

    model: str
    chunks: tuple[Vectors, ...]


@dataclass(frozen=True, slots=True)
class KeptEntry:
    """The outcome of keeping an entry: its id, or the id of the one that says the same already, and the ids of those
    whose place it took. ``forgotten``: it was dropped after what it rests on had been said, and stays so; ``wrong``: the user
    marked it, or another that says the same, as wrong, and did not say it again. ``standing``:
    what it would have corrected, but is trusted more; ``against``: what says otherwise, and stays beside it; ``pinned``:
    it is pinned since one whose place it took was."""

    outcome: Outcome
    entry_id: str
    superseded: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    pinned: bool = False


def normalize(content: str) -> str:
    """Collapse white space to single spaces and strip it at both ends."""
    return " ".join(content.split())


def cut_at_word(content: str, most: int) -> str:
    """A content of at most ``most`` characters, cut at the end of a word."""
    if len(content) <= most:
        return content
    end = content.rfind(" ", 0, most + 1)
    return content[: end if end > 0 else most].rstrip()


async def embed_contents(engine: Engine, contents: Sequence[str]) -> list[EmbeddedText | None]:
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
    found: list[EmbeddedText | None] = []
    for texts in chunks:
        some, made = made[: len(texts)], made[len(texts) :]
        whole = tuple(vector for vector in some if vector is not None)
        found.append(EmbeddedText(engine.embedding.embedder.name, whole) if len(whole) == len(texts) else None)
    return found


async def embed_soon(engine: Engine, content: str) -> tuple[EmbeddedText | None, str]:
    """The vectors of one entry that a caller waits for, within the time a query may take; None and why, if they are not
    ready. Without an embedder there is nothing to say."""
    if engine.embedding is None:
        return None, ""
    chunks: list[Vectors] = []
    for text in engine.embedded_texts_of_content(content):
        made, reason = await engine.embedding.query(text)
        if made is None:
            return None, reason
        chunks.append(made.vector)
    return (EmbeddedText(engine.embedding.embedder.name, tuple(chunks)) if chunks else None), ""


def is_repetition(one: EmbeddedText, other: EmbeddedText, similarity: float) -> bool:
    """Whether each chunk of ``one`` is at least as near as ``similarity`` to a chunk of ``other``."""
    return similarity > 0 and _similarity(np.stack(one.chunks), np.stack(other.chunks)) >= similarity


def differs_in_detail(new: str, known: str) -> bool:
    """Whether the new text has a number or a name with digits that the known one has not, or denies what that says."""
    one, other = new.lower(), known.lower()
    if bool(_NEGATION.search(one)) != bool(_NEGATION.search(other)):
        return True
    return not set(_DETAIL.findall(one)) <= set(_DETAIL.findall(other))


def _similarity(new: Vectors, known: Vectors) -> float:
    return float((new @ known.T).max(axis=1).min())


async def keep_entry(
    tx: Tx,
    scope: Scope,
    new: NewEntry,
    embedded: EmbeddedText | None,
    *,
    similarity: float,
    said_at: int,
    corrects: Sequence[str] = (),
    replaces: str = "",
    now: int,
    search_text: SearchText,
) -> KeptEntry:
    """Keep an entry, in a transaction that holds the resource.

    ``said_at``: when its newest source was stored; what was dropped or superseded later stays so, unless a caller says
    it again. One of the kind ``correction`` takes the place of what it corrects, and any
    of those in ``corrects``, as far as they are trusted no more than it is; and it takes that of ``replaces`` in any case.
    """
    known = await entries.of_content(tx, scope, new.content)
    if known is not None and known.status != "active" and new.origin == "extracted" and said_at <= known.seen_at:
        return KeptEntry("forgotten", known.entry_id)
    wrong = None if known is not None and known.status == "active" else await _find_wrong(tx, scope, new.content)
    if wrong is not None and (new.trust != "user" or (new.origin == "extracted" and said_at <= wrong.seen_at)):
        return KeptEntry("wrong", wrong.entry_id)
    near = await _find_near(tx, scope, new.content, embedded)
    others = {entry_id: how for entry_id, how in near.items() if known is None or entry_id != known.entry_id}
    seen = await entries.read_seen(tx, scope, [*others, *corrects])
    # Without vectors only the same words say the same.
    least = similarity if embedded else 1.0
    gone, standing = _find_corrected(
        new, seen, others, corrects, least, CORRECTED_SIMILARITY if embedded else SHARED_WORDS
    )
    if replaces and (known is None or replaces != known.entry_id):
        gone, standing = (
            [*gone, *([] if replaces in gone else [replaces])],
            [each for each in standing if each != replaces],
        )
    beside = {entry_id: entry for entry_id, entry in seen.items() if entry_id in others and entry_id not in gone}
    against = [
        entry
        for entry_id, entry in beside.items()
        if contradicts(new.content, entry.content, alike=0 < least <= others[entry_id])
    ]
    if known is None and not gone and similarity > 0:
        unlike = {entry.entry_id for entry in against}
        alike = {entry_id: how for entry_id, how in others.items() if how >= least and entry_id not in unlike}
        said = _find_repeated(new.content, seen, alike)
        if said is not None:
            return KeptEntry("similar", said)
    entry_id = new.entry_id if known is None else known.entry_id
    if known is None:
        await entries.insert_new(tx, scope, new, now=now, search_text=search_text)
    else:
        await entries.revive(tx, scope, known, new, now=now, search_text=search_text)
    if embedded:
        await _store_vectors(tx, scope, entry_id, embedded)
    await entries.supersede(tx, scope, gone, entry_id, now=now)
    pinned = await entry_marks.inherit_pin(tx, scope, entry_id, gone, now=now)
    await _mark_contradicted(tx, scope, entry_id, new.seen_at, against)
    return KeptEntry(
        "kept" if known is None else "refreshed",
        entry_id,
        tuple(gone),
        tuple(standing),
        tuple(entry.entry_id for entry in against),
        pinned,
    )


async def _find_wrong(tx: Tx, scope: Scope, content: str) -> Entry | None:
    """An entry that is marked as wrong and has nearly the same words."""
    own = set(split_words(content))
    for entry in await entry_marks.list_wrong(tx, scope):
        other = set(split_words(entry.content))
        same = entry.content_hash == entries.content_hash(content)
        alike = bool(own | other) and len(own & other) / len(own | other) >= WRONG_WORDS
        if same or (alike and not differs_in_detail(content, entry.content)):
            return entry
    return None


def _find_repeated(content: str, seen: Mapping[str, Entry], alike: Mapping[str, float]) -> str | None:
    """The id of the nearest entry (``alike``: how near each is) that says the content already."""
    nearest = sorted(alike, key=lambda entry_id: -alike[entry_id])
    there = (entry_id for entry_id in nearest if entry_id in seen)
    return next((entry_id for entry_id in there if not differs_in_detail(content, seen[entry_id].content)), None)


async def correct_later(
    tx: Tx, scope: Scope, correction: Entry, embedded: EmbeddedText, *, similarity: float, now: int
) -> list[str]:
    """Let a correction that was kept without vectors take the place of what it corrects, of what was said before it; the
    ids of that. The transaction holds the resource."""
    near = await _find_near(tx, scope, correction.content, embedded)
    seen = await entries.read_seen(tx, scope, [entry_id for entry_id in near if entry_id != correction.entry_id])
    older = {entry_id: entry for entry_id, entry in seen.items() if entry.seen_at <= correction.seen_at}
    gone, _ = _find_corrected(correction, older, near, (), similarity, CORRECTED_SIMILARITY)
    await entries.supersede(tx, scope, gone, correction.entry_id, now=now)
    await entry_marks.inherit_pin(tx, scope, correction.entry_id, gone, now=now)
    return gone


async def _mark_contradicted(tx: Tx, scope: Scope, entry_id: str, seen_at: int, against: Sequence[Entry]) -> None:
    """Note of each entry that another says otherwise, by the newer one."""
    await entries.mark_contradicted(tx, scope, [each.entry_id for each in against if each.seen_at <= seen_at], entry_id)
    newer = max((each for each in against if each.seen_at > seen_at), key=lambda each: each.seen_at, default=None)
    if newer is not None:
        await entries.mark_contradicted(tx, scope, [entry_id], newer.entry_id)


def _find_corrected(
    new: NewEntry | Entry,
    seen: dict[str, Entry],
    near: dict[str, float],
    corrects: Sequence[str],
    same: float,
    least: float,
) -> tuple[list[str], list[str]]:
    """The ids of the entries whose place the new one takes: those named; else, of a correction, all that are as near as
    what says the same, or the nearest one that is near enough: of equally near ones the most trusted, then the newest.
    And the ids of those that stand, since they are trusted more: what somebody said himself gives way to nothing that is trusted less."""
    if corrects:
        meant = [entry_id for entry_id in dict.fromkeys(corrects) if entry_id in seen]
    elif new.kind == "correction":
        ordered = sorted(
            (entry_id for entry_id in near if entry_id in seen),
            key=lambda entry_id: (-near[entry_id], -_trust(seen[entry_id]), -seen[entry_id].seen_at, entry_id),
        )
        open_to_it = [entry_id for entry_id in ordered if _trust(seen[entry_id]) <= _trust(new)]
        standing = [entry_id for entry_id in ordered[:1] if near[entry_id] >= least and entry_id not in open_to_it]
        repeated = [entry_id for entry_id in open_to_it if near[entry_id] >= same]
        return repeated or [entry_id for entry_id in open_to_it[:1] if near[entry_id] >= least], standing
    else:
        return [], []
    gone = [entry_id for entry_id in meant if _trust(seen[entry_id]) <= _trust(new)]
    return gone, [entry_id for entry_id in meant if entry_id not in gone]


def _trust(entry: Entry | NewEntry) -> int:
    return TRUSTS.index(cast(Trust, entry.trust))


async def _find_near(tx: Tx, scope: Scope, content: str, embedded: EmbeddedText | None) -> dict[str, float]:
    """The nearest entries of the scope, and how near each is."""
    if embedded is None:
        return await _find_sharing_words(tx, scope, content)
    row_ids = [
        await vectors.nearest(
            tx, scope, embedded.model, np.packbits(chunk > 0).tobytes(), most=NEAREST, kinds=("entry",)
        )
        for chunk in embedded.chunks
    ]
    found, floats = await vectors.of_rows(tx, scope, embedded.model, np.unique(np.concatenate(row_ids)))
    of_entry: dict[str, list[int]] = {}
    for at, (uid, _) in _match_places(found.tolist(), await indexed_rows.places(tx, scope, found)):
        of_entry.setdefault(uid.removeprefix(entries.PLACE), []).append(at)
    new = np.stack(embedded.chunks)
    return {entry_id: _similarity(new, floats[at]) for entry_id, at in of_entry.items()}


def _match_places(row_ids: Sequence[int], places: dict[int, tuple[str, int]]) -> list[tuple[int, tuple[str, int]]]:
    return [(at, places[row_id]) for at, row_id in enumerate(row_ids) if row_id in places]


async def _find_sharing_words(tx: Tx, scope: Scope, content: str) -> dict[str, float]:
    own = set(split_words(content))
    rows_of = await lexical.postings(tx, scope, sorted(own), most=1000, kinds=("entry",))
    row_ids, counts = np.unique(np.concatenate([*rows_of.values(), np.empty(0, np.int64)]), return_counts=True)
    best = row_ids[np.argsort(-counts, kind="stable")[:NEAREST]]
    places = await indexed_rows.places(tx, scope, best)
    found = await entries.read_seen(tx, scope, {uid.removeprefix(entries.PLACE) for uid, _ in places.values()})
    others = {entry_id: set(split_words(entry.content)) for entry_id, entry in found.items()}
    return {entry_id: len(own & other) / len(own | other) for entry_id, other in others.items() if own | other}


async def _store_vectors(tx: Tx, scope: Scope, entry_id: str, embedded: EmbeddedText) -> None:
    """Store the vectors at once, so that the next entry can be compared with this one."""
    dimension = len(embedded.chunks[0])
    if await embedders.agree_on_dimension(tx, embedded.model, dimension) != dimension:
        return
    new = [
        NewVector(row_id, np.packbits(vector > 0).tobytes(), vector.astype("<f4").tobytes())
        for row_id, chunk in await indexed_rows.chunks_of(tx, scope, entries.place_of(entry_id), entries.SEQ)
        if chunk < len(embedded.chunks)
        for vector in [embedded.chunks[chunk]]
    ]
    await vectors.put(tx, scope, embedded.model, dimension, new)
