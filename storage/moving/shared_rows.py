"""Lines that a resource shares through a file, as they are kept, and the entries that say them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, case, insert, select, update

from layerlore.storage.core.damaged_values import value_of
from layerlore.storage.core.records import Json, Scope, SearchText
from layerlore.storage.core.scopes import in_scope, of_scope
from layerlore.storage.core.statements import any_of, insert_or_update, refused
from layerlore.storage.core.tables import SCOPE, entries, shared_lines
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries as kept
from layerlore.storage.derived.entries import COLUMNS, IS_TOLD, Entry


@dataclass(frozen=True, slots=True)
class SharedRow:
    """A line by its id. ``line`` None: what it said was forgotten. ``own``: whether it was written here; of a document: the
    version that it has here."""

    share_id: str
    entry_id: str | None
    own: int
    line: str | None


@dataclass(frozen=True, slots=True)
class ToldEntry:
    """An entry. ``told``: nobody forgot it or marked it as wrong, and what it rests on is there."""

    entry: Entry
    told: bool


_NAMES = tuple(SharedRow.__dataclass_fields__)
_ALL = (
    select(*(shared_lines.c[name] for name in _NAMES)).where(in_scope(shared_lines)).order_by(shared_lines.c.share_id)
)
_OF_ENTRIES = (
    select(shared_lines.c.entry_id, shared_lines.c.line)
    .where(in_scope(shared_lines), shared_lines.c.own == 0, any_of(shared_lines.c.entry_id, "ids"))
    .order_by(shared_lines.c.share_id)
)
_PUT = insert_or_update(
    shared_lines,
    {name: bindparam(name) for name in (*SCOPE, *_NAMES)},
    keys=(*SCOPE, "share_id"),
    changes={name: refused(shared_lines)[name] for name in ("entry_id", "own", "line")},
)
_is_told = case((IS_TOLD, 1), else_=0)
_ENTRIES = select(*COLUMNS, _is_told).where(in_scope(entries)).order_by(entries.c.entry_id)
_ENTRY = tuple(Entry.__dataclass_fields__)
_ADD = insert(entries).values(**{name: bindparam(name) for name in (*SCOPE, *_ENTRY)})
_CHANGE = (
    update(entries)
    .where(in_scope(entries), entries.c.entry_id == bindparam("of_entry"))
    .values({entries.c[name]: bindparam(f"new_{name}") for name in _ENTRY if name != "entry_id"})
)


async def read_lines(tx: Tx, scope: Scope) -> list[SharedRow]:
    """What the scope shares, as it was last written or read, and what was forgotten."""
    return [SharedRow(*row) for row in await tx.all(_ALL, **of_scope(scope))]


async def read_quotes(tx: Tx, scope: Scope, entry_ids: Collection[str]) -> dict[str, list[Json]]:
    """The words that entries rest on which came from others, by the entries that have any."""
    found: dict[str, list[Json]] = {}
    rows = await tx.all(_OF_ENTRIES, **of_scope(scope), ids=list(entry_ids)) if entry_ids else ()
    for entry_id, line in rows:
        quotes = value_of(line).get("quotes") if line is not None else None
        if isinstance(quotes, list):
            found.setdefault(str(entry_id), []).extend(quotes)
    return found


async def put_lines(tx: Tx, scope: Scope, rows: Sequence[SharedRow]) -> None:
    """Keep lines, in place of those with their ids."""
    for row in rows:
        await tx.run(_PUT, **of_scope(scope), **{name: getattr(row, name) for name in _NAMES})


async def read_entries(tx: Tx, scope: Scope) -> list[ToldEntry]:
    """All entries of the scope, the forgotten ones included."""
    rows = await tx.all(_ENTRIES, **of_scope(scope))
    return [
        ToldEntry(entry, bool(told) and entry.status in ("active", "superseded"))
        for *columns, told in rows
        for entry in [Entry(*columns)]
    ]


async def add_entry(tx: Tx, scope: Scope, entry: Entry, *, search_text: SearchText) -> None:
    """Add an entry whose id and content are new in the scope."""
    await tx.run(_ADD, **of_scope(scope), **{name: getattr(entry, name) for name in _ENTRY})
    await kept.index_anew(tx, scope, entry.entry_id, search_text)


async def change_entry(tx: Tx, scope: Scope, entry: Entry, *, search_text: SearchText) -> None:
    """Have an entry be this."""
    new = {f"new_{name}": getattr(entry, name) for name in _ENTRY if name != "entry_id"}
    await tx.run(_CHANGE, **of_scope(scope), of_entry=entry.entry_id, **new)
    await kept.index_anew(tx, scope, entry.entry_id, search_text)
