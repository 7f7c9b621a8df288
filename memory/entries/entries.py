"""Entries as they are stored: one that is known is refreshed, one that says the same as another is not kept again, and
a correction takes the place of the one entry that it corrects. Everything else is stored beside what is there."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, cast

import anyio
import numpy as np

from layerlore.memory.embedding.port import EmbeddingFailed, Vectors
from layerlore.memory.engine.engine import Engine
from layerlore.memory.language.search_words import split_words
from layerlore.memory.language.statements import contradicts, is_other_value, says_same
from layerlore.memory.language.word_lists import expressions
from layerlore.memory.rules.ages import is_line_expired
from layerlore.memory.text.trust import TRUSTS, Trust
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Message, Scope, SearchText
from layerlore.storage.core.scopes import read_note_place
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, entry_curation
from layerlore.storage.derived.entries import PLACE, Entry, NewEntry
from layerlore.storage.index import lexical, vectors
from layerlore.storage.messages import indexed_rows

Outcome = Literal["kept", "refreshed", "similar", "forgotten", "wrong"]

NEAREST = 20
"""How many of the nearest entries a new one is compared with (n8n's)."""
MOST_NAMED = 3
"""The most entries that an answer names beside a new one."""
PATIENCE_SECONDS = 10.0
"""Seconds that a batch may take: the caller of submit_memory_job waits for it, and a remote embedder may hang."""
_SHARED_WORDS = 0.5
"""Entries with this share of their words in common are alike, whatever their vectors say."""
_LIKELY = 0.6
"""The share of the bound of similarity from which on a correction may mean an entry."""


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """The vectors of a text's chunks (of length 1), in their order, and what they are stored under."""

    model: str
    chunks: tuple[Vectors, ...]


@dataclass(frozen=True, slots=True)
class KeptEntry:
    """The outcome of keeping an entry: its id, or the id of the one that says the same already, and the ids of those
    whose place it took. ``forgotten``: it was dropped after its sources were said, and stays so; ``wrong``: the user
    marked it, or another that says the same, as wrong, and did not say it again. ``standing``: entries that it would
    have corrected, but that are trusted more; ``against``: entries that say otherwise, and stay beside it;
    ``candidates``: entries that a correction may have meant; ``similar``: entries that say something like it;
    ``pinned``: it is pinned since one whose place it took was."""

    outcome: Outcome
    entry_id: str
    superseded: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class _CorrectionEffect:
    """The ids of the entries whose place a correction takes, of those that stand since they are trusted more, and of
    those that say something else of the same."""

    gone: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()


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


def _similarity(new: Vectors, known: Vectors) -> float:
    # Every chunk of the new text needs a close chunk of the known one: any new part makes another entry.
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
    it again. It takes the place of ``replaces`` in any case, and that of those in ``corrects`` as far as they are trusted no
    more than it is. One of the kind ``correction`` that names none takes the place of the one entry that gives another value
    for the same thing, if there is exactly one.
    """
    known = await entries.of_content(tx, scope, new.content, new.subject)
    # Extraction may read old messages again: it must not bring back what the user dropped after them.
    if known is not None and known.status != "active" and new.origin == "extracted" and said_at <= known.seen_at:
        return KeptEntry("forgotten", known.entry_id)
    wrong = None if known is not None and known.status == "active" else await _find_wrong(tx, scope, new.content)
    # Only the user's own newer words outweigh the user's mark.
    if wrong is not None and (new.trust != "user" or (new.origin == "extracted" and said_at <= wrong.seen_at)):
        return KeptEntry("wrong", wrong.entry_id)
    own = "" if known is None else known.entry_id
    # A similarity of 0 turns deduplication off; 1.0 keeps the division by it defined.
    near = await _find_near(tx, scope, new.content, embedded, similarity or 1.0)
    found = await entries.read_seen(tx, scope, [*near, *corrects])
    current = {entry_id: entry for entry_id, entry in found.items() if entry_id != own and not entry.is_expired(now)}
    # An entry about another subject says nothing about this one.
    seen = {entry_id: entry for entry_id, entry in current.items() if entry.subject in (None, new.subject)}
    nearest = [entry_id for entry_id in sorted(near, key=lambda each: -near[each]) if entry_id in seen]
    if replaces:
        corrected = _CorrectionEffect((replaces,) if replaces != own else ())
    else:
        corrected = _find_corrected(new, seen, nearest, corrects)
    beside = [entry_id for entry_id in nearest if entry_id not in corrected.gone]
    if known is None and not corrected.gone and similarity > 0:
        # The user's words stay beside what a file brought in other words.
        compared = [each for each in beside if new.trust != "user" or seen[each].trust != "shared"]
        said = next((each for each in compared if says_same(new.content, seen[each].content)), None)
        adds = new.origin != "extracted" and (new.sources or new.expires_at)
        if said is not None and not adds:
            return KeptEntry("similar", said)
        if said is not None:
            # The entry keeps its text, and gets the evidence and the end that the repetition brings.
            known, new = seen[said], replace(new, content=seen[said].content)
            beside.remove(said)
    rivals = {*corrected.standing, *corrected.rivals}
    against = [
        seen[entry_id]
        for entry_id in dict.fromkeys([*beside, *corrected.standing])
        if entry_id in rivals or contradicts(new.content, seen[entry_id].content)
    ]
    entry_id = new.entry_id if known is None else known.entry_id
    if known is None:
        await entries.insert_new(tx, scope, new, now=now, search_text=search_text)
    else:
        await entries.revive(tx, scope, known, new, now=now, search_text=search_text)
    if embedded:
        await _store_vectors(tx, scope, entry_id, embedded)
    # After the new entry is stored, since the old rows name it.
    await entries.supersede(tx, scope, corrected.gone, entry_id, now=now)
    pinned = await entry_curation.inherit_pin(tx, scope, entry_id, corrected.gone, now=now)
    await _mark_contradicted(tx, scope, entry_id, new.seen_at, against)
    is_open = new.kind == "correction" and not corrected.gone
    likely = [entry_id for entry_id in beside if near[entry_id] >= _LIKELY]
    return KeptEntry(
        "kept" if known is None else "refreshed",
        entry_id,
        corrected.gone,
        corrected.standing,
        tuple(entry.entry_id for entry in against),
        tuple(likely[:MOST_NAMED]) if is_open else (),
        tuple([entry_id for entry_id in beside if near[entry_id] >= 1][:MOST_NAMED]),
        pinned,
    )


async def _find_wrong(tx: Tx, scope: Scope, content: str) -> Entry | None:
    """An entry that is marked as wrong and says the same."""
    key = entries.content_key(content)
    for entry in await entry_curation.list_wrong(tx, scope):
        if entries.content_key(entry.content) == key or says_same(content, entry.content):
            return entry
    return None


async def _mark_contradicted(tx: Tx, scope: Scope, entry_id: str, seen_at: int, against: Sequence[Entry]) -> None:
    """Note of each entry that another says otherwise, by the newer one."""
    await entry_curation.mark_contradicted(
        tx, scope, [each.entry_id for each in against if each.seen_at <= seen_at], entry_id
    )
    newer = max((each for each in against if each.seen_at > seen_at), key=lambda each: each.seen_at, default=None)
    if newer is not None:
        await entry_curation.mark_contradicted(tx, scope, [entry_id], newer.entry_id)


def _find_corrected(
    new: NewEntry, seen: Mapping[str, Entry], nearest: Sequence[str], corrects: Sequence[str]
) -> _CorrectionEffect:
    """The earlier statement that an entry corrects: those named; else, of a correction, the one entry that gives
    another value for the same. A user's statement yields only to one that is trusted as much."""
    if corrects:
        meant = [entry_id for entry_id in dict.fromkeys(corrects) if entry_id in seen]
    elif new.kind == "correction":
        meant = [entry_id for entry_id in nearest if is_other_value(new.content, seen[entry_id].content)]
        # The one that is meant cannot be known, so none is replaced and the caller chooses.
        if len(meant) > 1:
            return _CorrectionEffect(rivals=tuple(meant))
    else:
        return _CorrectionEffect()
    gone = tuple(entry_id for entry_id in meant if _trust(seen[entry_id]) <= _trust(new))
    return _CorrectionEffect(gone, tuple(entry_id for entry_id in meant if entry_id not in gone))


def _trust(entry: Entry | NewEntry) -> int:
    return TRUSTS.index(cast(Trust, entry.trust))


async def _find_near(
    tx: Tx, scope: Scope, content: str, embedded: EmbeddedText | None, similarity: float
) -> dict[str, float]:
    """The nearest entries of the scope by their words and their vectors, and how near each is: from 1 on they are alike."""
    shared = await _find_sharing_words(tx, scope, content)
    near = {entry_id: share / _SHARED_WORDS for entry_id, share in shared.items()}
    if embedded:
        by_meaning = await _find_by_vectors(tx, scope, embedded)
    else:
        by_meaning = {}
    for entry_id, cosine in by_meaning.items():
        near[entry_id] = max(near.get(entry_id, 0.0), cosine / similarity)
    return near


async def _find_by_vectors(tx: Tx, scope: Scope, embedded: EmbeddedText) -> dict[str, float]:
    row_ids = [
        # The signs of the numbers choose the candidates, and the whole vectors decide below.
        await vectors.nearest(
            tx, scope, embedded.model, np.packbits(chunk > 0).tobytes(), most=NEAREST, kinds=("entry",)
        )
        for chunk in embedded.chunks
    ]
    found, floats = await vectors.of_rows(tx, scope, embedded.model, np.unique(np.concatenate(row_ids)))
    of_entry: dict[str, list[int]] = {}
    places = await indexed_rows.places(tx, scope, found)
    for at, row_id in enumerate(found.tolist()):
        if row_id in places:
            of_entry.setdefault(places[row_id][0].removeprefix(entries.PLACE), []).append(at)
    new = np.stack(embedded.chunks)
    return {entry_id: _similarity(new, floats[at]) for entry_id, at in of_entry.items()}


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
    # Vectors of another length under the same model name cannot be compared.
    if await vectors.agree_on_dimension(tx, embedded.model, dimension) != dimension:
        return
    new = [
        vectors.make_vector(row_id, embedded.chunks[chunk])
        for row_id, chunk in await indexed_rows.chunks_of(tx, scope, entries.place_of(entry_id), entries.SEQ)
        if chunk < len(embedded.chunks)
    ]
    await vectors.put(tx, scope, embedded.model, dimension, new)


def is_expired(found: Message, now: int) -> bool:
    """Whether it is an entry or a line of a document that has ended."""
    if read_note_place(found.thread_id) is not None:
        return any(is_line_expired(part["text"], now) for part in found.parts if part["type"] == "text")
    # The metadata of any other message are its client's own.
    if found.thread_id.startswith(PLACE):
        expires_at = found.metadata.get("expires_at")
    else:
        expires_at = None
    return isinstance(expires_at, int) and expires_at <= now


def drop_expired(found: Iterable[Message], now: int) -> list[Message]:
    """The messages without those that have ended."""
    return [message for message in found if not is_expired(message, now)]


@cache
def user_word() -> linear_re.Pattern:
    """The words for the user, folded."""
    return linear_re.compile("|".join(expressions("evidence.users")))


@cache
def _of_myself() -> linear_re.Pattern:
    return linear_re.compile(rf"^\W*(?:{'|'.join(expressions('evidence.of_myself'))})\b", linear_re.IGNORECASE)


@cache
def _this_project() -> linear_re.Pattern:
    return linear_re.compile("|".join(expressions("evidence.this_project")), linear_re.IGNORECASE)


def tells_of_user(content: str, kind: str = "") -> bool:
    """Whether a note to keep is about the user, whatever project it came up in: what the user prefers, or what it says of
    the user or in the first person. An entry about a decision, or about this project, belongs to the project."""
    if kind == "decision" or _this_project().search(content):
        return False
    # Notes name their subject within the first three words: "The user prefers tea."
    return kind == "preference" or bool(
        _of_myself().search(content) or any(user_word().fullmatch(word) for word in split_words(content)[:3])
    )
