"""Entries: notes that a resource's agent keeps, each with the places in messages that it rests on.

An entry is seen while it is active and one of its sources is: a place in a message that is not deleted, in a thread
that is not, and that still has the text it had. One that a caller gave as its own word needs no source. What is not
seen is not in the index, where an entry is the only message of a thread named after it. Whoever changes entries holds
the resource (``resources.hold``), after the thread, if there is one.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from sqlalchemy import and_, bindparam, delete, exists, func, insert, or_, select, update
from sqlalchemy.dialects import postgresql

from layerlore.storage import installation, search
from layerlore.storage.records import Json, Message, Role, Scope, SearchText
from layerlore.storage.scoping import in_scope, in_thread, of_scope, of_thread, same_thread
from layerlore.storage.statements import any_of
from layerlore.storage.tables import SCOPE, entries, entry_sources, messages, search_rows, threads
from layerlore.storage.transaction import Row, Tx

Status = Literal["active", "superseded", "dropped"]
Origin = Literal["extracted", "remembered", "caller"]
"""``extracted`` by a model in the background, ``remembered`` by a caller who showed evidence, or the caller's own word,
which stands without a source."""

PLACE = "entry:"
SEQ = 1
"""An entry's place in the index: this seq of the thread ``entry:<entry_id>``."""


@dataclass(frozen=True, slots=True)
class Source:
    """What an entry rests on: ``starts`` to ``ends`` of what a message said at this revision; ``label`` says whose word
    that is."""

    thread_uid: str
    seq: int
    revision: int
    starts: int
    ends: int
    label: str


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to be kept. ``seen_at``: when it was said (milliseconds); ``trust``: the lowest of its sources."""

    entry_id: str
    content: str
    kind: str | None
    origin: Origin
    trust: str
    model: str
    prompt: str
    seen_at: int
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as it is kept. ``seen_at``: when it was last said, or, of one that is no longer active, when it ended."""

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


@dataclass(frozen=True, slots=True)
class Shown:
    """A source that can be seen, as an answer tells of it."""

    thread_id: str
    seq: int
    message_id: str
    starts: int
    ends: int
    label: str


def content_hash(content: str) -> str:
    """Equal for texts that differ in white space and case only (SHA-256, n8n's rule)."""
    return hashlib.sha256(" ".join(content.split()).lower().encode()).hexdigest()


def place_of(entry_id: str) -> str:
    """The thread uid of an entry in the index."""
    return PLACE + entry_id


_COLUMNS = tuple(entries.c[name] for name in Entry.__dataclass_fields__)
_source_is_seen = (
    exists()
    .where(
        *(entry_sources.c[name] == entries.c[name] for name in (*SCOPE, "entry_id")),
        same_thread(entry_sources, messages),
        messages.c.seq == entry_sources.c.message_seq,
        messages.c.revision == entry_sources.c.revision,
        messages.c.deletion_uid.is_(None),
        same_thread(entry_sources, threads),
        threads.c.deletion_uid.is_(None),
    )
    .correlate(entries)
)
_seen = and_(entries.c.status == "active", or_(entries.c.origin == "caller", _source_is_seen))

_named = and_(in_scope(entries), any_of(entries.c.entry_id, "ids"))
_SEEN = select(*_COLUMNS).where(_named, _seen)
_COUNT = select(func.count()).select_from(entries).where(in_scope(entries), entries.c.status == "active")
_BY_HASH = select(*_COLUMNS).where(in_scope(entries), entries.c.content_hash == bindparam("hash"))
_INSERT = insert(entries).values(**{name: bindparam(name) for name in (*SCOPE, *Entry.__dataclass_fields__)})
_REVIVE = (
    update(entries)
    .where(in_scope(entries), entries.c.entry_id == bindparam("of_entry"))
    .values(
        **{name: bindparam(f"new_{name}") for name in ("content", "kind", "origin", "trust", "model", "prompt")},
        seen_at=bindparam("new_seen_at"),
        status="active",
        superseded_by=None,
    )
)
# Postgres' form of the insert; SQLite's compiler writes the same words.
_ADD_SOURCE = (
    postgresql.insert(entry_sources)
    .values(
        **{
            name: bindparam(name)
            for name in (
                *(*SCOPE, "entry_id", "thread_uid", "message_seq", "revision", "starts", "ends", "label"),
                "created_at",
            )
        }
    )
    .on_conflict_do_nothing()
)
_END = (
    update(entries)
    .where(_named, entries.c.status == "active")
    .values(status=bindparam("new_status"), superseded_by=bindparam("new_superseded_by"), seen_at=bindparam("now"))
)
_ERASE = delete(entries).where(_named)


def _entry(row: Row) -> Entry:
    return Entry(*row)


async def seen(tx: Tx, scope: Scope, ids: Collection[str]) -> dict[str, Entry]:
    """Of these entries those that can be seen, by id."""
    rows = await tx.all(_SEEN, **of_scope(scope), ids=list(ids)) if ids else ()
    return {entry.entry_id: entry for entry in map(_entry, rows)}


async def count(tx: Tx, scope: Scope) -> int:
    """How many entries are active, seen or not."""
    row = await tx.one(_COUNT, **of_scope(scope))
    return int(row[0]) if row else 0


async def of_content(tx: Tx, scope: Scope, content: str) -> Entry | None:
    """The entry of this content, whatever became of it."""
    row = await tx.one(_BY_HASH, **of_scope(scope), hash=content_hash(content))
    return None if row is None else _entry(row)


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
    )
    values = {name: getattr(entry, name) for name in Entry.__dataclass_fields__}
    await tx.run(_INSERT, **of_scope(scope), **values)
    await _add_sources(tx, scope, new.entry_id, new.sources, now)
    await index(tx, scope, [entry], search_text)


async def revive(tx: Tx, scope: Scope, known: Entry, new: NewEntry, *, now: int, search_text: SearchText) -> None:
    """Make a known entry active again, as it was said now, and add its sources to those it had."""
    own_word = "caller" in (known.origin, new.origin)
    # It is trusted as its best source is: each of them says all of it. What had ended begins anew.
    trust = max(known.trust, new.trust, key=_TRUSTS.index) if known.status == "active" else new.trust
    changed = {
        "content": new.content,
        "kind": new.kind or known.kind,
        "origin": "caller" if own_word else new.origin,
        "trust": trust,
        "model": new.model,
        "prompt": new.prompt,
        "seen_at": max(known.seen_at, new.seen_at) if known.status == "active" else new.seen_at,
    }
    await tx.run(
        _REVIVE,
        **of_scope(scope),
        of_entry=known.entry_id,
        **{f"new_{name}": value for name, value in changed.items()},
    )
    await _add_sources(tx, scope, known.entry_id, new.sources, now)
    await index_anew(tx, scope, known.entry_id, search_text)


_TRUSTS = ("web", "tool", "assistant", "user")


async def _add_sources(tx: Tx, scope: Scope, entry_id: str, sources: Sequence[Source], now: int) -> None:
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
    """Let another entry stand for active ones, which are kept; counts them."""
    return await _end(tx, scope, ids, "superseded", by, now)


async def drop(tx: Tx, scope: Scope, ids: Collection[str], *, now: int) -> int:
    """Let active entries be seen no more; counts them. ``erase_dropped`` ends them for good."""
    return await _end(tx, scope, ids, "dropped", None, now)


async def _end(tx: Tx, scope: Scope, ids: Collection[str], status: Status, by: str | None, now: int) -> int:
    if not ids:
        return 0
    of = {**of_scope(scope), "ids": list(ids)}
    ended = await tx.run(_END, **of, new_status=status, new_superseded_by=by, now=now)
    for entry_id in ids:
        await search.remove_thread(tx, scope, place_of(entry_id))
    return ended


async def erase(tx: Tx, scope: Scope, ids: Collection[str]) -> int:
    """Remove entries for good, with their words and vectors; counts them."""
    erased = await tx.run(_ERASE, **of_scope(scope), ids=list(ids)) if ids else 0
    if erased:
        await installation.owe_rewrite(tx)
    return erased


_SOURCED = select(entry_sources.c.entry_id).where(in_thread(entry_sources)).distinct()
_SOURCED_SEQS = _SOURCED.where(any_of(entry_sources.c.message_seq, "seqs"))


async def sourced_from(tx: Tx, scope: Scope, thread_uid: str, seqs: Collection[int] | None = None) -> list[str]:
    """Ids of the entries with a source in a thread, in these messages of it or in any."""
    of = of_thread(scope, thread_uid)
    rows = await (tx.all(_SOURCED, **of) if seqs is None else tx.all(_SOURCED_SEQS, **of, seqs=list(seqs)))
    return sorted(row[0] for row in rows)


_INDEXED = (
    select(search_rows.c.thread_uid).where(in_scope(search_rows), any_of(search_rows.c.thread_uid, "places")).distinct()
)


async def hide_unseen(tx: Tx, scope: Scope, ids: Collection[str]) -> None:
    """Take those of these entries out of the index that cannot be seen any more."""
    shown = await seen(tx, scope, ids)
    for entry_id in sorted(set(ids) - shown.keys()):
        await search.remove_thread(tx, scope, place_of(entry_id))


async def show_seen(tx: Tx, scope: Scope, ids: Collection[str], search_text: SearchText) -> None:
    """Put those of these entries into the index that can be seen again."""
    shown = await seen(tx, scope, ids)
    places = [place_of(entry_id) for entry_id in shown]
    rows = await tx.all(_INDEXED, **of_scope(scope), places=places) if places else ()
    indexed = {row[0].removeprefix(PLACE) for row in rows}
    await index(tx, scope, [shown[entry_id] for entry_id in sorted(shown.keys() - indexed)], search_text)


async def index(tx: Tx, scope: Scope, new: Sequence[Entry], search_text: SearchText) -> None:
    """Index entries that are not in the index."""
    for entry in new:
        message = as_message(entry, ())
        row = search.Entry(place_of(entry.entry_id), SEQ, "entry", entry.seen_at, search_text(message))
        await search.put(tx, scope, [row])


async def index_anew(tx: Tx, scope: Scope, entry_id: str, search_text: SearchText) -> int:
    """Index an entry anew if it can be seen, else take it out of the index; counts it."""
    await search.remove_thread(tx, scope, place_of(entry_id))
    shown = await seen(tx, scope, [entry_id])
    await index(tx, scope, list(shown.values()), search_text)
    return len(shown)


def as_message(entry: Entry, sources: Sequence[Shown]) -> Message:
    """An entry in the shape of a message, as what works with rows of the index takes it. Its metadata say what it is."""
    told: Json = {
        **({"kind": entry.kind} if entry.kind else {}),
        "origin": entry.origin,
        "trust": entry.trust,
        "sources": [{"thread_id": each.thread_id, "seq": each.seq, "label": each.label} for each in sources],
    }
    return Message(
        thread_id=place_of(entry.entry_id),
        seq=SEQ,
        id=entry.entry_id,
        role=cast(Role, "entry"),
        name=None,
        parts=[{"type": "text", "text": entry.content}],
        metadata=told,
        tokens=0,
        encoding="",
        created_at=entry.created_at,
        said_at=entry.seen_at,
        revision=1,
    )


_SOURCES = (
    select(
        entry_sources.c.entry_id,
        threads.c.thread_id,
        entry_sources.c.message_seq,
        messages.c.id,
        entry_sources.c.starts,
        entry_sources.c.ends,
        entry_sources.c.label,
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


async def sources_of(tx: Tx, scope: Scope, ids: Collection[str]) -> dict[str, list[Shown]]:
    """The sources of entries that can be seen, the first first."""
    found: dict[str, list[Shown]] = {entry_id: [] for entry_id in ids}
    for entry_id, *rest in await tx.all(_SOURCES, **of_scope(scope), ids=list(ids)) if ids else ():
        found[entry_id].append(Shown(*rest))
    return found


async def as_messages(tx: Tx, scope: Scope, ids: Collection[str]) -> dict[str, Message]:
    """Entries that can be seen, in the shape of messages, by id."""
    shown = await seen(tx, scope, ids)
    sources = await sources_of(tx, scope, shown)
    return {entry_id: as_message(entry, sources[entry_id]) for entry_id, entry in shown.items()}
