"""What is kept of a resource as entries, for people who look through it: each with the words it rests on, what says
otherwise, and what it took the place of."""

from collections.abc import Collection, Mapping, Sequence

from layerlore.memory.engine.engine import Engine
from layerlore.memory.entries.quotes import add_quotes
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.pages import fit_entries, read_cursor, write_cursor
from layerlore.memory.rules.validation import check_text
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.records import Json, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, entry_lists
from layerlore.storage.derived.entries import Entry

# What the databases' integers hold.
_LATEST = 2**63


async def list_entries(engine: Engine, scope: Scope, *, limit: int, cursor: str) -> Json:
    """The entries that can be seen, those kept last first: ``entries`` and, if there are more, ``next_cursor``. Raises
    InvalidInput for an unknown cursor."""
    before = _read_place(cursor) if cursor else None
    rows, more = await engine.database.read(_read_page, scope, engine, before, limit)
    fitting = fit_entries([row for _, row in rows], engine.limits.answer_bytes)
    more = more or len(fitting) < len(rows)
    last = rows[len(fitting) - 1][0] if fitting else None
    return {
        "entries": fitting,
        **({"next_cursor": write_cursor([last.created_at, last.entry_id])} if more and last else {}),
    }


async def show_entry(engine: Engine, scope: Scope, entry_id: str) -> Json:
    """One entry as ``list_entries`` gives it; of one that another took the place of, that other one. Raises NotFound."""
    return await engine.database.read(_read_one, scope, engine, entry_id)


async def _read_page(
    tx: Tx, scope: Scope, engine: Engine, before: tuple[int, str] | None, limit: int
) -> tuple[list[tuple[Entry, Json]], bool]:
    page = await entry_lists.read_page(tx, scope, before=before, limit=limit + 1)
    found = page[:limit]
    return list(zip(found, await _describe(tx, scope, engine, found), strict=True)), len(page) > limit


async def _read_one(tx: Tx, scope: Scope, engine: Engine, entry_id: str) -> Json:
    standing = await entry_lists.find_standing(tx, scope, entry_id)
    if standing is None:
        raise NotFound(f"there is no entry {entry_id!r}; memory://entries lists them")
    (described,) = await _describe(tx, scope, engine, [standing])
    return described


async def _describe(tx: Tx, scope: Scope, engine: Engine, found: Sequence[Entry]) -> list[Json]:
    """The rows of an answer: what says nothing is left out."""
    ids = [entry.entry_id for entry in found]
    # Their sources, and the quotations from them.
    messages = await add_quotes(tx, scope, engine, [entries.as_message(entry, ()) for entry in found])
    replaced = await entry_lists.read_replaced(tx, scope, ids)
    newer, older = await _find_pairs(tx, scope, ids)
    return [
        {
            "id": entry.entry_id,
            "content": engine.derived_text(entry.content),
            **({"kind": entry.kind} if entry.kind else {}),
            "origin": entry.origin,
            "trust": entry.trust,
            "by": entry.model,
            "said_at": iso(entry.seen_at),
            "created_at": iso(entry.created_at),
            "sources": message.metadata["sources"],
            **_show_pairs(entry.entry_id, newer, older),
            **_show_replaced(engine, replaced[entry.entry_id]),
        }
        for entry, message in zip(found, messages, strict=True)
    ]


def _show_pairs(entry_id: str, newer: Mapping[str, str], older: Mapping[str, Sequence[str]]) -> Json:
    return {
        **({"contradicted_by": newer[entry_id]} if entry_id in newer else {}),
        **({"contradicts": list(older[entry_id])} if entry_id in older else {}),
    }


def _show_replaced(engine: Engine, replaced: Sequence[Entry]) -> Json:
    shown = [
        {
            "id": entry.entry_id,
            "content": engine.derived_text(entry.content),
            "superseded_by": entry.superseded_by,
            "superseded_at": iso(entry.seen_at),
            "created_at": iso(entry.created_at),
        }
        for entry in replaced
    ]
    return {"superseded": shown} if shown else {}


async def _find_pairs(tx: Tx, scope: Scope, ids: Collection[str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Which newer entry says otherwise than an older one, and which older ones than a newer one, both of which can be
    seen."""
    pairs = await entries.find_contradicted(tx, scope, ids)
    there = await entries.read_seen(tx, scope, {*pairs, *pairs.values()})
    newer = {old: new for old, new in pairs.items() if old in there and new in there}
    older: dict[str, list[str]] = {}
    for old, new in sorted(newer.items()):
        older.setdefault(new, []).append(old)
    return newer, older


def _read_place(cursor: str) -> tuple[int, str]:
    unknown = InvalidInput("cursor: not one that this list gave; leave it out to begin at the newest entry")
    match read_cursor(cursor, unknown):
        case [int(created_at), str(entry_id)] if not isinstance(created_at, bool) and abs(created_at) < _LATEST:
            return created_at, check_text(entry_id, "cursor")
    raise unknown
