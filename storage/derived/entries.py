"""Entries: notes that a resource's agent keeps, each with the places in messages that it rests on.

An entry is seen while it is active and one of its sources is: a place in a message that is not deleted, in a thread
that is not, and that still has the text it had. One that a caller gave as its own word needs no source. A hidden entry
is not in the index, where an entry is the only message of a thread named after it. A change of entries holds the
resource (``resource_lock.hold``), after the thread, if there is one.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from sqlalchemy import and_, bindparam, case, delete, exists, func, insert, or_, select, update

from layerlore.storage.core import installation, scopes
from layerlore.storage.core.json_text import list_of, to_json
from layerlore.storage.core.records import Json, Message, Role, Scope, SearchText
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread, same_thread
from layerlore.storage.core.statements import any_of, insert_or_ignore, parameters
from layerlore.storage.core.tables import SCOPE, entries, entry_sources, messages, search_rows, shared_lines, threads
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.index import lexical


def store_words(words: Sequence[str]) -> str | None:
    """The words as they are stored."""
    if words:
        return to_json(list(words))
    return None


def read_words(stored: str | None) -> list[str]:
    """The words that are stored; none if the list is damaged."""
    if stored:
        return [str(word) for word in list_of(stored)]
    return []


Status = Literal["active", "superseded", "dropped", "wrong"]
"""``wrong``: a person marked it so. It stays stored, so that only the user can say it again."""
Origin = Literal["extracted", "remembered", "caller", "shared"]
"""``extracted`` by a model in the background, ``remembered`` by a caller who showed evidence, or the caller's own word;
``shared``: it came in a file that others share. The last two stand without a source."""
OWN_WORD: tuple[Origin, ...] = ("caller", "shared")

PLACE = "entry:"
SEQ = 1
"""The seq of an entry in the index, where its thread is ``entry:<entry_id>``."""


@dataclass(frozen=True, slots=True)
class EntrySource:
    """The sources of an entry: ``starts`` to ``ends`` of what a message said at this revision; ``label`` says whose
    word that is."""

    thread_uid: str
    seq: int
    revision: int
    starts: int
    ends: int
    label: str


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to be kept. ``seen_at``: its time (milliseconds); ``trust``: the lowest of its sources;
    ``expires_at``: when it ends, if it does; ``unproven``: its names and numbers that no quotation contains;
    ``subject``: that of its thread."""

    entry_id: str
    content: str
    kind: str | None
    origin: Origin
    trust: str
    model: str
    prompt: str
    seen_at: int
    sources: tuple[EntrySource, ...] = ()
    expires_at: int | None = None
    unproven: tuple[str, ...] = ()
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as it is stored. ``seen_at``: when it was last said, or when it ended, if it is no longer active;
    ``pinned_at``: when it was pinned, if it is; ``expires_at``: after that it is shown only to a caller that asks for
    its date; ``unproven``: a JSON list of its unproven words, as it is stored. An active entry also has
    ``superseded_by`` if a newer one says otherwise and the user has not decided between the two."""

    entry_id: str
    content: str
    content_hash: str
    kind: str | None
    status: Status
    superseded_by: str | None
    origin: Origin
    trust: str
    model: str
    prompt: str
    created_at: int
    seen_at: int
    pinned_at: int | None = None
    expires_at: int | None = None
    unproven: str | None = None
    subject: str | None = None

    def is_expired(self, now: int) -> bool:
        """Whether it has ended."""
        return self.expires_at is not None and self.expires_at <= now

    @property
    def unproven_words(self) -> list[str]:
        """The names and numbers that no quotation of the entry contains."""
        return read_words(self.unproven)


@dataclass(frozen=True, slots=True)
class ShownSource:
    """A source that can be seen, as an answer shows it."""

    thread_uid: str
    thread_id: str
    seq: int
    message_id: str
    starts: int
    ends: int
    label: str
    revision: int


def content_hash(content: str) -> str:
    """Equal for texts that differ in white space and case only (SHA-256, n8n's rule). It finds an entry; ``content_key``
    decides, since "PATH" and "path" are two things."""
    return hashlib.sha256(" ".join(content.split()).lower().encode()).hexdigest()


def content_key(content: str) -> str:
    """Equal for texts that differ only in white space and in the case of their first letter."""
    text = " ".join(content.split())
    # "UserId" and "userId" are two names.
    rest = text.partition(" ")[0][1:]
    if rest and rest == rest.lower():
        return text[:1].lower() + text[1:]
    return text


def place_of(entry_id: str) -> str:
    """The thread uid of an entry in the index."""
    return PLACE + entry_id


COLUMNS = tuple(entries.c[name] for name in Entry.__dataclass_fields__)
SOURCE_IS_SEEN = (
    exists()
    .where(
        *(entry_sources.c[name] == entries.c[name] for name in (*SCOPE, "entry_id")),
        same_thread(entry_sources, messages),
        messages.c.seq == entry_sources.c.message_seq,
        # The offsets of a source are of one revision: in another text they show something else.
        messages.c.revision == entry_sources.c.revision,
        messages.c.deletion_uid.is_(None),
        same_thread(entry_sources, threads),
        threads.c.deletion_uid.is_(None),
    )
    .correlate(entries)
)
IS_OWN_WORD = or_(*(entries.c.origin == origin for origin in OWN_WORD))
IS_SUPPORTED = or_(IS_OWN_WORD, SOURCE_IS_SEEN)
"""An entry that can be seen unless its status hides it."""
IS_SEEN = and_(entries.c.status == "active", IS_SUPPORTED)

_named = and_(in_scope(entries), any_of(entries.c.entry_id, "ids"))
_SEEN = select(*COLUMNS).where(_named, IS_SEEN)
_COUNT = select(func.count()).select_from(entries).where(in_scope(entries), entries.c.status == "active")
_BY_HASH = select(*COLUMNS).where(in_scope(entries), entries.c.content_hash == bindparam("hash"))
_INSERT = insert(entries).values(**parameters(*SCOPE, *Entry.__dataclass_fields__))
_REVIVE = (
    update(entries)
    .where(in_scope(entries), entries.c.entry_id == bindparam("of_entry"))
    .values(
        **parameters("content", "kind", "origin", "trust", "model", "prompt", "unproven", prefix="new_"),
        seen_at=bindparam("new_seen_at"),
        pinned_at=bindparam("new_pinned_at"),
        expires_at=bindparam("new_expires_at"),
        status="active",
        superseded_by=None,
    )
)
_SOURCE = (*SCOPE, "entry_id", "thread_uid", "message_seq", "revision", "starts", "ends", "label", "created_at")
_ADD_SOURCE = insert_or_ignore(entry_sources, parameters(*_SOURCE))
_END = (
    update(entries)
    .where(_named, entries.c.status == "active")
    .values(status=bindparam("new_status"), superseded_by=bindparam("new_superseded_by"), seen_at=bindparam("now"))
)
# An entry from a file is the user's as long as a visible message of the user says it.
_TRUST_AS_SAID = (
    update(entries)
    .where(_named, entries.c.origin == "shared")
    .values(trust=case((SOURCE_IS_SEEN.where(entry_sources.c.label == "user_assertion"), "user"), else_="shared"))
)
_ERASE = delete(entries).where(_named)
# A shared entry leaves only the record that it is gone, so that it does not come back from others.
_FORGET_SHARED = (
    update(shared_lines)
    .where(
        in_scope(shared_lines),
        shared_lines.c.entry_id.is_not(None),
        ~exists()
        .where(*(entries.c[name] == shared_lines.c[name] for name in (*SCOPE, "entry_id")))
        .correlate(shared_lines),
    )
    .values(entry_id=None, line=None)
)


def _entry(row: Row) -> Entry:
    return Entry(*row)


async def read_seen(tx: Tx, scope: Scope, ids: Collection[str]) -> dict[str, Entry]:
    """The visible ones of these entries, by id."""
    if ids:
        rows = await tx.all(_SEEN, **of_scope(scope), ids=list(ids))
    else:
        rows = ()
    return {entry.entry_id: entry for entry in map(_entry, rows)}


async def count(tx: Tx, scope: Scope) -> int:
    """How many entries are active, seen or not."""
    return int(await tx.scalar(_COUNT, **of_scope(scope)) or 0)


async def of_content(tx: Tx, scope: Scope, content: str, subject: str = "") -> Entry | None:
    """The entry of this content and subject, whatever became of it."""
    rows = map(_entry, await tx.all(_BY_HASH, **of_scope(scope), hash=content_hash(content)))
    of_subject = (each for each in rows if (each.subject or "") == subject)
    return next((each for each in of_subject if content_key(each.content) == content_key(content)), None)


async def insert_new(tx: Tx, scope: Scope, new: NewEntry, *, now: int, search_text: SearchText) -> None:
    """Keep an entry whose content is new in the scope."""
    entry = Entry(
        new.entry_id,
        new.content,
        content_hash(new.content),
        new.kind,
        "active",
        None,
        new.origin,
        new.trust,
        new.model,
        new.prompt,
        now,
        new.seen_at,
        expires_at=new.expires_at,
        unproven=store_words(new.unproven),
        subject=new.subject or None,
    )
    values = {name: getattr(entry, name) for name in Entry.__dataclass_fields__}
    await tx.run(_INSERT, **of_scope(scope), **values)
    await _add_sources(tx, scope, new.entry_id, new.sources, now)
    await index(tx, scope, [entry], search_text)


async def revive(tx: Tx, scope: Scope, known: Entry, new: NewEntry, *, now: int, search_text: SearchText) -> None:
    """Make a known entry active again, since it was repeated now, and add its sources to those it had."""
    # While it is active, an entry of a shared file stays shared: the file still says it.
    stands = known.status == "active" and known.origin == "shared"
    origin: Origin = "shared" if stands else "caller" if "caller" in (known.origin, new.origin) else new.origin
    unproven: Sequence[str] = new.unproven
    # A repetition without a quotation proves nothing. One with quotations proves what either of them contains.
    if known.status == "active" and not new.sources:
        unproven = known.unproven_words
    elif known.status == "active" and (known.unproven or known.origin not in OWN_WORD):
        unproven = [word for word in new.unproven if word in known.unproven_words]
    # It is trusted as its best source is: each of them says all of it. An ended entry begins anew, and is not pinned.
    is_repeated = known.trust == "shared" and new.trust != "user"  # By a model, which makes it no more trusted.
    if is_repeated:
        best = known.trust
    else:
        best = max(known.trust, new.trust, key=TRUSTS.index)
    if known.status == "active":
        trust = best
    else:
        trust = new.trust
    changed = {
        "content": new.content,
        "kind": new.kind or known.kind,
        "origin": origin,
        "trust": trust,
        "model": new.model,
        "prompt": new.prompt,
        "seen_at": max(known.seen_at, new.seen_at) if known.status == "active" else new.seen_at,
        "pinned_at": known.pinned_at if known.status == "active" else None,
        "expires_at": new.expires_at
        or (None if known.status != "active" or known.is_expired(now) else known.expires_at),
        "unproven": store_words(unproven),
    }
    await tx.run(
        _REVIVE,
        **of_scope(scope),
        of_entry=known.entry_id,
        **{f"new_{name}": value for name, value in changed.items()},
    )
    await _add_sources(tx, scope, known.entry_id, new.sources, now)
    await index_anew(tx, scope, known.entry_id, search_text)


# From the least trusted to the most trusted.
TRUSTS = ("web", "tool", "shared", "assistant", "user")


async def _add_sources(tx: Tx, scope: Scope, entry_id: str, sources: Sequence[EntrySource], now: int) -> None:
    rows = [
        {
            **of_thread(scope, source.thread_uid),
            "entry_id": entry_id,
            "message_seq": source.seq,
            "revision": source.revision,
            "starts": source.starts,
            "ends": source.ends,
            "label": source.label,
            "created_at": now,
        }
        for source in sources
    ]
    if rows:
        await tx.many(_ADD_SOURCE, rows)


async def supersede(tx: Tx, scope: Scope, ids: Collection[str], by: str, *, now: int) -> int:
    """Let another entry stand for active ones, which are stored; counts them."""
    return await _end(tx, scope, ids, "superseded", by, now)


async def drop(tx: Tx, scope: Scope, ids: Collection[str], *, now: int) -> int:
    """Let active entries be seen no more; counts them. ``erase_dropped`` ends them for good."""
    return await _end(tx, scope, ids, "dropped", None, now)


async def _end(tx: Tx, scope: Scope, ids: Collection[str], status: Status, by: str | None, now: int) -> int:
    if not ids:
        return 0
    of = {**of_scope(scope), "ids": list(ids)}
    ended = await tx.run(_END, **of, new_status=status, new_superseded_by=by, now=now)
    # An ended entry must not be found, whatever it still rests on.
    for entry_id in ids:
        await lexical.remove_thread(tx, scope, place_of(entry_id))
    return ended


async def erase(tx: Tx, scope: Scope, ids: Collection[str]) -> int:
    """Remove entries for good, with their words and vectors; counts them."""
    if ids:
        erased = await tx.run(_ERASE, **of_scope(scope), ids=list(ids))
    else:
        erased = 0
    if erased:
        # The lines of the shared file repeat the content, so their text goes as well.
        await tx.run(_FORGET_SHARED, **of_scope(scope))
        await installation.owe_rewrite(tx)
    return erased


_SOURCED = select(entry_sources.c.entry_id).where(in_thread(entry_sources)).distinct()
_SOURCED_SEQS = _SOURCED.where(any_of(entry_sources.c.message_seq, "seqs"))


async def sourced_from(tx: Tx, scope: Scope, thread_uid: str, seqs: Collection[int] | None = None) -> list[str]:
    """Ids of the entries with a source in a thread, in these messages of it or in any."""
    of = of_thread(scope, thread_uid)
    if seqs is None:
        return sorted(await tx.scalars(_SOURCED, **of))
    return sorted(await tx.scalars(_SOURCED_SEQS, **of, seqs=list(seqs)))


_INDEXED = (
    select(search_rows.c.thread_uid).where(in_scope(search_rows), any_of(search_rows.c.thread_uid, "places")).distinct()
)


async def hide_unseen(tx: Tx, scope: Scope, ids: Collection[str]) -> None:
    """Take those of these entries out of the index that cannot be seen any more."""
    await _trust_as_said(tx, scope, ids)
    shown = await read_seen(tx, scope, ids)
    for entry_id in sorted(set(ids) - shown.keys()):
        await lexical.remove_thread(tx, scope, place_of(entry_id))


async def show_seen(tx: Tx, scope: Scope, ids: Collection[str], search_text: SearchText) -> None:
    """Put those of these entries into the index that can be seen again."""
    await _trust_as_said(tx, scope, ids)
    shown = await read_seen(tx, scope, ids)
    # An entry that is indexed already keeps its rows and their vectors.
    places = [place_of(entry_id) for entry_id in shown]
    indexed_places = await tx.scalars(_INDEXED, **of_scope(scope), places=places) if places else ()
    indexed = {place.removeprefix(PLACE) for place in indexed_places}
    await index(tx, scope, [shown[entry_id] for entry_id in sorted(shown.keys() - indexed)], search_text)


async def _trust_as_said(tx: Tx, scope: Scope, ids: Collection[str]) -> None:
    if ids:
        await tx.run(_TRUST_AS_SAID, **of_scope(scope), ids=list(ids))


async def index(tx: Tx, scope: Scope, new: Sequence[Entry], search_text: SearchText) -> None:
    """Index entries that are not in the index."""
    for entry in new:
        message = as_message(entry, ())
        row = lexical.IndexEntry(place_of(entry.entry_id), SEQ, "entry", entry.seen_at, search_text(message))
        await lexical.put(tx, scope, [row])


async def index_anew(tx: Tx, scope: Scope, entry_id: str, search_text: SearchText) -> int:
    """Index an entry anew if it can be seen, else take it out of the index; counts it."""
    await lexical.remove_thread(tx, scope, place_of(entry_id))
    shown = await read_seen(tx, scope, [entry_id])
    await index(tx, scope, list(shown.values()), search_text)
    return len(shown)


def as_message(entry: Entry, sources: Sequence[ShownSource]) -> Message:
    """An entry in the shape of a message, as what works with rows of the index takes it. Its metadata say what it is."""
    metadata: Json = {
        **({"kind": entry.kind} if entry.kind else {}),
        "origin": entry.origin,
        "trust": entry.trust,
        **({"pinned": True} if entry.pinned_at is not None else {}),
        **({"expires_at": entry.expires_at} if entry.expires_at is not None else {}),
        **({"unproven": entry.unproven_words} if entry.unproven else {}),
        "sources": [{"thread_id": each.thread_id, "seq": each.seq, "label": each.label} for each in sources],
    }
    return Message(
        thread_id=place_of(entry.entry_id),
        seq=SEQ,
        id=entry.entry_id,
        role=cast(Role, "entry"),
        name=None,
        parts=[{"type": "text", "text": entry.content}],
        metadata=metadata,
        tokens=0,
        encoding="",
        created_at=entry.created_at,
        said_at=entry.seen_at,
        revision=1,
    )


_SOURCES = (
    select(
        entry_sources.c.entry_id,
        threads.c.thread_uid,
        threads.c.thread_id,
        entry_sources.c.message_seq,
        messages.c.id,
        entry_sources.c.starts,
        entry_sources.c.ends,
        entry_sources.c.label,
        entry_sources.c.revision,
    )
    .join_from(entry_sources, threads, same_thread(entry_sources, threads))
    .join(messages, same_thread(entry_sources, messages) & (messages.c.seq == entry_sources.c.message_seq))
    .where(
        in_scope(entry_sources),
        any_of(entry_sources.c.entry_id, "ids"),
        messages.c.revision == entry_sources.c.revision,
        messages.c.deletion_uid.is_(None),
        threads.c.deletion_uid.is_(None),
    )
    .order_by(entry_sources.c.created_at, entry_sources.c.thread_uid, entry_sources.c.message_seq)
)


async def sources_of(tx: Tx, scope: Scope, ids: Collection[str]) -> dict[str, list[ShownSource]]:
    """The sources of entries that can be seen, the first first."""
    found: dict[str, list[ShownSource]] = {entry_id: [] for entry_id in ids}
    for entry_id, *rest in await tx.all(_SOURCES, **of_scope(scope), ids=list(ids)) if ids else ():
        found[entry_id].append(ShownSource(*rest))
    return found


async def as_messages(tx: Tx, scope: Scope, ids: Collection[str]) -> dict[str, Message]:
    """Entries that can be seen, in the shape of messages, by id."""
    shown = await read_seen(tx, scope, ids)
    sources = await sources_of(tx, scope, shown)
    return {entry_id: as_message(entry, sources[entry_id]) for entry_id, entry in shown.items()}


_sources = and_(in_thread(entry_sources), any_of(entry_sources.c.message_seq, "seqs"))
# A replaced message has the next revision, and a source that still holds follows it.
_FOLLOW = update(entry_sources).where(_sources).values(revision=entry_sources.c.revision + 1)
_FORGET = delete(entry_sources).where(_sources)
_without_source = ~exists().where(
    *(entry_sources.c[name] == entries.c[name] for name in (*SCOPE, "entry_id"))
).correlate(entries)
# Own words need no source, so they stay.
_ERASE_UNSOURCED = delete(entries).where(in_scope(entries), ~IS_OWN_WORD, _without_source)


async def follow_replaced(
    tx: Tx, scope: Scope, thread_uid: str, *, same_text: Collection[int], other_text: Collection[int]
) -> None:
    """After messages were replaced: a source follows one that says the same, and is gone with one that does not, and
    with its last source an entry is gone for good."""
    of = of_thread(scope, thread_uid)
    if same_text:
        await tx.run(_FOLLOW, **of, seqs=list(same_text))
    # The ids are read before the sources go, which lead to them.
    if other_text and (ids := await sourced_from(tx, scope, thread_uid, other_text)):
        await tx.run(_FORGET, **of, seqs=list(other_text))
        await drop_sources(tx, scope, ids, erased=True)


async def drop_sources(tx: Tx, scope: Scope, ids: Collection[str], *, erased: bool) -> None:
    """After sources of these entries were hidden, or (``erased``) removed for good: an invisible entry is out of the
    index, and what has no source left is erased."""
    if not ids:
        return
    await scopes.hold(tx, scope)
    if erased:
        await erase_unsourced(tx, scope)
    await hide_unseen(tx, scope, ids)


async def erase_unsourced(tx: Tx, scope: Scope) -> int:
    """After messages were erased for good: the entries that rested on nothing else are, too; counts them."""
    erased = await tx.run(_ERASE_UNSOURCED, **of_scope(scope))
    if erased:
        await tx.run(_FORGET_SHARED, **of_scope(scope))
        await installation.owe_rewrite(tx)
    return erased
