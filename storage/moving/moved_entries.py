"""Entries as an import or a shared file brings them. One content is one entry."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from sqlalchemy import bindparam, case, insert, select, update

from layerlore.storage.core import scopes
from layerlore.storage.core.json_text import value_of
from layerlore.storage.core.records import Json, Scope, SearchText
from layerlore.storage.core.scopes import in_scope, of_scope, of_thread
from layerlore.storage.core.statements import any_of, insert_or_ignore, insert_or_update, parameters, refused
from layerlore.storage.core.tables import SCOPE, entries, entry_sources, messages, shared_lines
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries as kept
from layerlore.storage.derived.entries import COLUMNS, IS_SUPPORTED, Entry
from layerlore.storage.moving.moved_threads import Mode

EntryStatus = Literal["added", "unchanged", "replaced", "kept", "forgotten", "unproven"]

_ADD = insert(entries).values(**parameters(*SCOPE, *Entry.__dataclass_fields__))
_TAKEN = select(entries.c.entry_id).where(in_scope(entries), entries.c.entry_id == bindparam("of_entry"))
_CHANGED = (
    *("kind", "status", "superseded_by", "origin", "trust", "model", "prompt", "seen_at", "pinned_at"),
    *("expires_at", "unproven", "subject"),
)
_CHANGE = (
    update(entries)
    .where(in_scope(entries), entries.c.entry_id == bindparam("of_entry"))
    .values({entries.c[name]: bindparam(f"new_{name}") for name in _CHANGED})
)
_OF_ACTOR = (
    select(entries.c.entry_id)
    .where(
        in_scope(entries),
        entries.c.model == bindparam("actor"),
        entries.c.status == "active",
        entries.c.trust != "user",
    )
    .order_by(entries.c.entry_id)
)
_SOURCE = ("thread_uid", "message_seq", "revision", "starts", "ends", "label", "created_at")
_ADD_SOURCE = insert_or_ignore(entry_sources, parameters(*SCOPE, "entry_id", *_SOURCE))
_LIES = select(messages.c.revision).where(
    in_scope(messages),
    messages.c.thread_uid == bindparam("thread_uid"),
    messages.c.seq == bindparam("message_seq"),
    messages.c.deletion_uid.is_(None),
)
_RENAME = (
    update(entries)
    .where(in_scope(entries), entries.c.superseded_by == bindparam("old_id"))
    .values(superseded_by=bindparam("new_id"))
)


@dataclass(frozen=True, slots=True)
class MovedSource:
    """The place of an entry in a message of an existing thread."""

    thread_uid: str
    message_seq: int
    revision: int
    starts: int
    ends: int
    label: str
    created_at: int


@dataclass(frozen=True, slots=True)
class MovedEntry:
    """An entry as it was stored, and what it rests on."""

    entry: Entry
    sources: tuple[MovedSource, ...]


@dataclass(frozen=True, slots=True)
class EntryOutcome:
    """The outcome for an entry, and its id here. ``unproven``: nothing that it rests on is here."""

    status: EntryStatus
    entry_id: str


async def put_entries(
    tx: Tx,
    scope: Scope,
    moved: Sequence[MovedEntry],
    mode: Mode,
    *,
    new_ids: Mapping[str, str],
    search_text: SearchText,
) -> list[EntryOutcome]:
    """Add entries whose content is new in the scope, and to the others the sources that they have not. ``new_ids``: by id,
    another one if the id is in use. An entry that was forgotten here, or marked as wrong, after its last
    mention there stays so, and a pinned one stays pinned unless it is overwritten."""
    await scopes.hold(tx, scope)
    return [await _put(tx, scope, each, mode, new_ids, search_text) for each in moved]


async def _put(
    tx: Tx, scope: Scope, moved: MovedEntry, mode: Mode, new_ids: Mapping[str, str], search_text: SearchText
) -> EntryOutcome:
    entry, of = moved.entry, of_scope(scope)
    sources = [each for each in moved.sources if await _lies(tx, scope, each)]
    if entry.origin not in kept.OWN_WORD and not sources:
        return EntryOutcome("unproven", entry.entry_id)
    # One content is one entry, whatever id it had elsewhere.
    known = await kept.of_content(tx, scope, entry.content, entry.subject or "")
    if known is None:
        # Another content may have this id here.
        taken = await tx.one(_TAKEN, **of, of_entry=entry.entry_id)
        if taken:
            entry_id = new_ids[entry.entry_id]
        else:
            entry_id = entry.entry_id
        values = {each.name: getattr(entry, each.name) for each in fields(Entry)}
        await tx.run(_ADD, **of, **(values | {"entry_id": entry_id}))
        await _add_sources(tx, scope, entry_id, sources)
        await kept.index_anew(tx, scope, entry_id, search_text)
        return EntryOutcome("added", entry_id)
    # An old export must not bring back an entry that was forgotten here.
    denied = known.status in ("dropped", "wrong") and known.status != entry.status
    if denied and (mode == "skip" or known.seen_at >= entry.seen_at):
        return EntryOutcome("forgotten", known.entry_id)
    is_newer = entry.seen_at > known.seen_at
    # A pin on either side holds.
    if mode == "merge" and known.status == entry.status == "active":
        pinned_at = max(known.pinned_at or 0, entry.pinned_at or 0) or None
        # A repetition by another makes the user's word no less.
        weaker = kept.TRUSTS.index(entry.trust) < kept.TRUSTS.index(known.trust)
        entry = replace(known if weaker else entry, pinned_at=pinned_at)
    more = await _add_sources(tx, scope, known.entry_id, sources)
    same = all(getattr(known, name) == getattr(entry, name) for name in _CHANGED)
    takes = not same and (mode == "overwrite" or (mode == "merge" and is_newer))
    if takes:
        new = {f"new_{name}": getattr(entry, name) for name in _CHANGED}
        await tx.run(_CHANGE, **of, of_entry=known.entry_id, **new)
    if takes or more:
        await kept.index_anew(tx, scope, known.entry_id, search_text)
    status: EntryStatus = "replaced" if takes else "unchanged" if same else "kept"
    return EntryOutcome(status, known.entry_id)


async def list_of_actor(tx: Tx, scope: Scope, actor: str) -> list[str]:
    """The ids of the active entries that an actor kept, and that are not the user's word, too."""
    return [str(entry_id) for (entry_id,) in await tx.all(_OF_ACTOR, **of_scope(scope), actor=actor)]


async def _lies(tx: Tx, scope: Scope, source: MovedSource) -> bool:
    """Whether the message exists with the text that the source was found in."""
    of = of_thread(scope, source.thread_uid)
    revision = await tx.scalar(_LIES, **of, message_seq=source.message_seq)
    return revision is not None and int(revision) == source.revision


async def _add_sources(tx: Tx, scope: Scope, entry_id: str, sources: Sequence[MovedSource]) -> int:
    more = 0
    for source in sources:
        values: dict[str, Any] = {name: getattr(source, name) for name in _SOURCE}
        more += await tx.run(_ADD_SOURCE, **of_scope(scope), entry_id=entry_id, **values)
    return more


async def rename(tx: Tx, scope: Scope, ids: Mapping[str, str]) -> None:
    """Have entries name those that took their place by the ids that these have here. ``ids``: the id it had elsewhere, and the
    one that the same content has here."""
    await scopes.hold(tx, scope)
    for old, new in ids.items():
        # If an entry has the old id here, references to it are right already.
        if await tx.one(_TAKEN, **of_scope(scope), of_entry=old) is None:
            await tx.run(_RENAME, **of_scope(scope), old_id=old, new_id=new)


@dataclass(frozen=True, slots=True)
class SharedRow:
    """A line by its id. ``line`` None: what it said was forgotten. ``own``: whether it was written here; of a document: the
    version that it has here."""

    share_id: str
    entry_id: str | None
    own: int
    line: str | None


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry, and whether it can be shared (``is_shareable``): it is not forgotten, not marked as wrong, and its sources exist."""

    entry: Entry
    is_shareable: bool


_NAMES = tuple(SharedRow.__dataclass_fields__)
_ALL = (
    select(*(shared_lines.c[name] for name in _NAMES)).where(in_scope(shared_lines)).order_by(shared_lines.c.share_id)
)
_OF_ENTRIES = (
    select(shared_lines.c.entry_id, shared_lines.c.line)
    # Only lines of others: the messages that own lines quote are here.
    .where(in_scope(shared_lines), shared_lines.c.own == 0, any_of(shared_lines.c.entry_id, "ids"))
    .order_by(shared_lines.c.share_id)
)
_PUT = insert_or_update(
    shared_lines,
    parameters(*SCOPE, *_NAMES),
    keys=(*SCOPE, "share_id"),
    changes={name: refused(shared_lines)[name] for name in ("entry_id", "own", "line")},
)
_is_supported = case((IS_SUPPORTED, 1), else_=0)
_ENTRIES = select(*COLUMNS, _is_supported).where(in_scope(entries)).order_by(entries.c.entry_id)
_ENTRY = tuple(Entry.__dataclass_fields__)
_ADD_LINE = insert(entries).values(**parameters(*SCOPE, *_ENTRY))
_CHANGE_LINE = (
    update(entries)
    .where(in_scope(entries), entries.c.entry_id == bindparam("of_entry"))
    .values({entries.c[name]: bindparam(f"new_{name}") for name in _ENTRY if name != "entry_id"})
)


async def read_lines(tx: Tx, scope: Scope) -> list[SharedRow]:
    """The entries that the scope shares, as last written or read, and the forgotten ones."""
    return [SharedRow(*row) for row in await tx.all(_ALL, **of_scope(scope))]


async def read_quotes(tx: Tx, scope: Scope, entry_ids: Collection[str]) -> dict[str, list[Json]]:
    """The words that entries rest on which came from others, by the entries that have any."""
    found: dict[str, list[Json]] = {}
    if entry_ids:
        rows = await tx.all(_OF_ENTRIES, **of_scope(scope), ids=list(entry_ids))
    else:
        rows = ()
    for entry_id, line in rows:
        if line is not None:
            quotes = value_of(line).get("quotes")
        else:
            quotes = None
        if isinstance(quotes, list):
            found.setdefault(str(entry_id), []).extend(quotes)
    return found


async def put_lines(tx: Tx, scope: Scope, rows: Sequence[SharedRow]) -> None:
    """Keep lines, in place of those with their ids."""
    for row in rows:
        await tx.run(_PUT, **of_scope(scope), **{name: getattr(row, name) for name in _NAMES})


async def read_entries(tx: Tx, scope: Scope) -> list[StoredEntry]:
    """All entries of the scope, the forgotten ones included."""
    rows = await tx.all(_ENTRIES, **of_scope(scope))
    return [
        StoredEntry(entry, bool(is_supported) and entry.status in ("active", "superseded"))
        for *columns, is_supported in rows
        for entry in [Entry(*columns)]
    ]


async def add_entry(tx: Tx, scope: Scope, entry: Entry, *, search_text: SearchText) -> None:
    """Add an entry whose id and content are new in the scope."""
    await tx.run(_ADD_LINE, **of_scope(scope), **{name: getattr(entry, name) for name in _ENTRY})
    await kept.index_anew(tx, scope, entry.entry_id, search_text)


async def change_entry(tx: Tx, scope: Scope, entry: Entry, *, search_text: SearchText) -> None:
    """Replace the stored fields of an entry."""
    new = {f"new_{name}": getattr(entry, name) for name in _ENTRY if name != "entry_id"}
    await tx.run(_CHANGE_LINE, **of_scope(scope), of_entry=entry.entry_id, **new)
    await kept.index_anew(tx, scope, entry.entry_id, search_text)
