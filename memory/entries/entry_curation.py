"""Entries for people who curate them: lists with their evidence, and marks."""

from collections.abc import Collection, Iterator, Sequence

from layerlore.memory.engine.engine import Engine, WriteRequest, make_undo_id, record_act
from layerlore.memory.entries.entry_answers import (
    BroughtQuote,
    EntryKind,
    EntryMarks,
    EntryPage,
    EntryRow,
    MarkedEntry,
    ReplacedEntry,
)
from layerlore.memory.entries.evidence import add_quotes
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.answers import fit_entries, read_cursor, write_cursor
from layerlore.memory.rules.validation import MOST_INTEGER, check_text
from layerlore.storage.core import scopes
from layerlore.storage.core.errors import Conflict, InvalidInput, NotFound
from layerlore.storage.core.records import Message, Scope, StoredJson, Whose
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, entry_curation
from layerlore.storage.derived.entries import Entry
from layerlore.storage.moving import moved_entries
from layerlore.storage.removal.acts import ActPart
from layerlore.storage.threads import events
from layerlore.storage.threads.events import NewEvent

# The entries that are searched for words: in one step, and for one page.
_LOOKED_AT = 500
_MOST_LOOKED_AT = 5_000
# The prefix of a cursor that goes on among the person's entries; other cursors have no dot.
_PERSONS = "you."


async def list_entries(engine: Engine, scope: Scope, *, limit: int, cursor: str, query: str = "") -> EntryPage:
    """The entries that can be seen, those kept last first: ``entries`` and, if there are more, ``next_cursor``. With a
    ``query`` those alone that have each of its words, or the beginning of one, whatever its case; a page may then have
    fewer, since a call reads a limited number of entries. Raises InvalidInput for an unknown cursor."""
    if cursor:
        before = _read_place(cursor)
    else:
        before = None
    words = check_text(query, "query").casefold().split()
    rows, reached = await engine.database.read(_read_page, scope, engine, before, limit, words)
    fitting = fit_entries([row for _, row in rows], engine.limits.answer_bytes)
    if len(fitting) < len(rows):
        # The next page begins behind the last row that fits, not behind the last one that was read.
        last = rows[len(fitting) - 1][0]
        reached = (last.created_at, last.entry_id)
    page: EntryPage = {"entries": fitting}
    if reached:
        page["next_cursor"] = write_cursor([*reached])
    return page


async def list_with_person(engine: Engine, scope: Scope, *, limit: int, cursor: str, query: str = "") -> EntryPage:
    """The entries of a scope, as ``list_entries`` gives them; in a project those of the project, then the person's, each with
    ``whose`` it is. Raises InvalidInput for an unknown cursor."""
    if not scope.person:
        return await list_entries(engine, scope, limit=limit, cursor=cursor, query=query)
    if cursor.startswith(_PERSONS):
        return _mark(
            await list_entries(engine, scope.of_person, limit=limit, cursor=cursor[len(_PERSONS) :], query=query), "you"
        )
    found = _mark(await list_entries(engine, scope, limit=limit, cursor=cursor, query=query), "project")
    left = limit - len(found["entries"])
    if "next_cursor" in found or left <= 0:
        return {"next_cursor": found.get("next_cursor", _PERSONS), "entries": found["entries"]}
    more = _mark(await list_entries(engine, scope.of_person, limit=left, cursor="", query=query), "you")
    both = [*found["entries"], *more["entries"]]
    # The project's rows may leave too few bytes for the person's, which then begin the next page.
    fits = len(fit_entries(both, engine.limits.answer_bytes)) == len(both)
    if not fits:
        found["next_cursor"] = _PERSONS
        return found
    more["entries"] = both
    return more


def _mark(found: EntryPage, whose: Whose) -> EntryPage:
    marked: EntryPage = {"entries": _mark_rows(found["entries"], whose)}
    if "next_cursor" in found:
        marked["next_cursor"] = found["next_cursor"]
        if whose == "you":
            marked["next_cursor"] = _PERSONS + found["next_cursor"]
    return marked


def _mark_rows(rows: Sequence[EntryRow], whose: Whose) -> list[EntryRow]:
    return [{"id": row["id"], "whose": whose, **row} for row in rows]


async def list_wrong(engine: Engine, scope: Scope) -> EntryPage:
    """The entries that were marked as wrong, as ``list_entries`` gives them, those marked last first; in a project the
    project's, then the person's. As many as an answer holds: ``left_out`` counts the others."""
    found: list[EntryRow] = []
    for of in [scope, scope.of_person] if scope.person else [scope]:
        whose: Whose
        if of == scope:
            whose = "project"
        else:
            whose = "you"
        rows = await engine.database.read(_read_wrong, of, engine)
        if scope.person:
            found += _mark_rows(rows, whose)
        else:
            found += rows
    fitting = fit_entries(found, engine.limits.answer_bytes)
    left = len(found) - len(fitting)
    page: EntryPage = {"entries": fitting}
    if left:
        page["left_out"] = left
    return page


async def _read_wrong(tx: Tx, scope: Scope, engine: Engine) -> list[EntryRow]:
    found = await entry_curation.list_wrong(tx, scope)
    described = await _describe(tx, scope, engine, found)
    return [{**row, "wrong": True} for row in described]


async def show_entry(engine: Engine, scope: Scope, entry_id: str) -> EntryRow:
    """One entry as ``list_entries`` gives it; of one that another took the place of, that other one. Raises NotFound."""
    return await engine.database.read(_read_one, scope, engine, entry_id)


async def _read_page(
    tx: Tx, scope: Scope, engine: Engine, before: tuple[int, str] | None, limit: int, words: Sequence[str]
) -> tuple[list[tuple[Entry, EntryRow]], tuple[int, str] | None]:
    """The entries of a page, and the place of the last one that was examined if there are more behind it."""
    found: list[Entry] = []
    looked_at = 0
    while True:
        if words:
            most = _LOOKED_AT
        else:
            most = limit
        # One more than the page shows whether another page follows.
        page = await entry_curation.read_page(tx, scope, before=before, limit=most + 1)
        for entry in page[:most]:
            if _has_words(engine, entry, words):
                found.append(entry)
            before = (entry.created_at, entry.entry_id)
            looked_at += 1
            if len(found) == limit:
                break
        whole = len(page) <= most and (not page or before == (page[-1].created_at, page[-1].entry_id))
        if whole or len(found) == limit or looked_at >= _MOST_LOOKED_AT:
            described = await _describe(tx, scope, engine, found)
            return list(zip(found, described, strict=True)), None if whole else before


def _has_words(engine: Engine, entry: Entry, words: Sequence[str]) -> bool:
    if words:
        # Searched as it is shown: a masked secret must not be found by a guess at it.
        text = engine.derived_text(entry.content).casefold()
    else:
        text = ""
    return all(word in text for word in words)


async def _read_one(tx: Tx, scope: Scope, engine: Engine, entry_id: str) -> EntryRow:
    standing = await entry_curation.find_standing(tx, scope, entry_id)
    if standing is None:
        raise NotFound(f"there is no entry {entry_id!r}; memory://entries lists them")
    (described,) = await _describe(tx, scope, engine, [standing])
    return described


async def _describe(tx: Tx, scope: Scope, engine: Engine, found: Sequence[Entry]) -> list[EntryRow]:
    """The rows of an answer: what says nothing is left out."""
    ids = [entry.entry_id for entry in found]
    # Their sources, and the quotations from them.
    messages = await add_quotes(tx, scope, engine, [entries.as_message(entry, ()) for entry in found])
    replaced = await entry_curation.read_replaced(tx, scope, ids)
    newer, older = await _find_pairs(tx, scope, ids)
    brought = await moved_entries.read_quotes(
        tx, scope, [entry.entry_id for entry in found if entry.origin in entries.OWN_WORD]
    )
    rows: list[EntryRow] = []
    for entry, message in zip(found, messages, strict=True):
        row = _show_entry(engine, entry, message)
        _add_brought(engine, row, brought.get(entry.entry_id, []))
        if entry.entry_id in newer:
            row["contradicted_by"] = newer[entry.entry_id]
        if entry.entry_id in older:
            row["contradicts"] = older[entry.entry_id]
        _add_replaced(engine, row, replaced[entry.entry_id])
        rows.append(row)
    return rows


def _show_entry(engine: Engine, entry: Entry, message: Message) -> EntryRow:
    kind: EntryKind = {}
    if entry.kind:
        kind["kind"] = entry.kind
    marks: EntryMarks = {}
    if entry.pinned_at is not None:
        marks["pinned"] = True
    if entry.expires_at is not None:
        marks["expires_at"] = iso(entry.expires_at)
    if entry.unproven:
        marks["unproven"] = entry.unproven_words
    return {
        "id": entry.entry_id,
        "content": engine.derived_text(entry.content),
        **kind,
        "origin": entry.origin,
        "trust": entry.trust,
        "by": entry.model,
        "said_at": iso(entry.seen_at),
        "created_at": iso(entry.created_at),
        **marks,
        "sources": message.metadata["sources"],
    }


def _add_brought(engine: Engine, row: EntryRow, quotes: Sequence[StoredJson]) -> None:
    """Add the words that others, who share the entry, brought as its evidence."""
    shown: list[BroughtQuote] = []
    for quote in quotes:
        text = engine.derived_text(str(quote.get("text", "")))
        shown.append({"label": quote.get("label", ""), "quote": text})
    if shown:
        row["quotes"] = shown


def _add_replaced(engine: Engine, row: EntryRow, replaced: Sequence[Entry]) -> None:
    """Add the entries whose place it took."""
    shown: list[ReplacedEntry] = []
    for entry in replaced:
        gone: ReplacedEntry = {
            "id": entry.entry_id,
            "content": engine.derived_text(entry.content),
            "superseded_by": entry.superseded_by,
            "superseded_at": iso(entry.seen_at),
            "created_at": iso(entry.created_at),
        }
        shown.append(gone)
    if shown:
        row["superseded"] = shown


async def _find_pairs(tx: Tx, scope: Scope, ids: Collection[str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Which newer entry says otherwise than an older one, and which older ones than a newer one, both of which can be
    seen."""
    pairs = await entry_curation.find_contradicted(tx, scope, ids)
    there = await entries.read_seen(tx, scope, {*pairs, *pairs.values()})
    newer = {old: new for old, new in pairs.items() if old in there and new in there}
    older: dict[str, list[str]] = {}
    for old, new in sorted(newer.items()):
        older.setdefault(new, []).append(old)
    return newer, older


def _read_place(cursor: str) -> tuple[int, str]:
    unknown = InvalidInput("cursor: not one that this list gave; leave it out to begin at the newest entry")
    match read_cursor(cursor, unknown):
        # int() also matches True, which no cursor has.
        case [int(created_at), str(entry_id)] if not isinstance(created_at, bool) and abs(created_at) <= MOST_INTEGER:
            return created_at, check_text(entry_id, "cursor")
    raise unknown


async def mark_entry(
    engine: Engine,
    scope: Scope,
    entry_id: str,
    *,
    pinned: bool | None,
    wrong: bool | None,
    accepted: bool = False,
    sent: WriteRequest,
) -> MarkedEntry:
    """Mark an entry, or take a mark back; None leaves a mark as it is. ``accepted``: the user takes over what a shared file
    brought. In a project the entry may be the person's.

    Returns ``id``, ``pinned``, ``wrong`` and, where that changed something, ``undo``. Raises Conflict, InvalidInput, NotFound.
    """
    if pinned is None and wrong is None and not accepted:
        raise InvalidInput("pinned, wrong, accepted: give at least one of them; accepted can be true only")
    if accepted and wrong:
        raise InvalidInput("accepted, wrong: what the user accepts is not wrong; give one of the two")
    if pinned and wrong:
        raise InvalidInput(
            "pinned, wrong: what is wrong is told to nobody, so it cannot be pinned; give one of the two"
        )
    check_text(entry_id, "entry_id")
    owner = await _find_owner(engine, scope, entry_id)
    now, undo_id = engine.now(), make_undo_id(engine)

    async def write(tx: Tx) -> MarkedEntry:
        # Held before the entry is read, so that no other call changes its marks in between.
        await scopes.hold(tx, owner)
        was = await entry_curation.read_markable(tx, owner, entry_id)
        if was is None:
            raise _unknown(entry_id)
        # Checked again here, since the mark may be from an earlier call.
        if pinned and was.status == "wrong" and wrong is None:
            raise Conflict(
                f"entry {entry_id!r} is marked as wrong, so it cannot be pinned; wrong=false takes that mark back"
            )
        parts = list(_list_changes(was, pinned, wrong))
        for part in parts:
            await set_mark(tx, engine, owner, part.kind == "pinned", entry_id, bool(part.after_version), now)
        accepts = accepted and await entry_curation.accept(tx, owner, entry_id)
        if parts or accepts:
            happened = NewEvent("entries_changed", {"ids": [entry_id]})
            await events.record_of_resource(tx, owner, happened, origin=sent.origin, now=now)
        after = {part.kind: bool(part.after_version) for part in parts}
        return {
            "id": entry_id,
            "pinned": after.get("pinned", was.pinned_at is not None),
            "wrong": after.get("wrong", was.status == "wrong"),
            **await record_act(tx, engine, owner, undo_id, sent.origin.tool, parts, now),
        }

    given = [entry_id, pinned, wrong, *([accepted] if accepted else [])]
    return await engine.write(owner, sent, given, now, write)


def _list_changes(was: Entry, pinned: bool | None, wrong: bool | None) -> Iterator[ActPart]:
    """The change of the marks. A mark as wrong ends the pin."""
    is_pinned, is_wrong = was.pinned_at is not None, was.status == "wrong"
    if wrong is not None and wrong != is_wrong:
        yield ActPart("wrong", was.entry_id, None, int(is_wrong), int(wrong))
    if wrong:
        pinned = False
    if pinned is not None and pinned != is_pinned:
        yield ActPart("pinned", was.entry_id, None, int(is_pinned), int(pinned))


async def set_mark(tx: Tx, engine: Engine, scope: Scope, is_pin: bool, entry_id: str, marked: bool, now: int) -> None:
    """Pin an entry, or mark it as wrong, or take that back, in a transaction that holds the resource."""
    if is_pin:
        await entry_curation.pin(tx, scope, entry_id, at=now if marked else None)
    elif marked:
        await entry_curation.mark_wrong(tx, scope, entry_id, now=now)
    else:
        # A wrong entry is not in the search index, so it needs its texts again.
        await entry_curation.unmark_wrong(tx, scope, entry_id, search_text=engine.search_text_of)


async def _find_owner(engine: Engine, scope: Scope, entry_id: str) -> Scope:
    """The owner of the entry: in a project the project's or the person's. Raises NotFound."""
    for of in [scope, scope.of_person] if scope.person else [scope]:
        if await engine.database.read(entry_curation.read_markable, of, entry_id) is not None:
            return of
    raise _unknown(entry_id)


def _unknown(entry_id: str) -> NotFound:
    return NotFound(f"there is no entry {entry_id!r}; nothing was marked. memory://entries lists them")
