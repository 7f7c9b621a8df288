"""Exports: a scope written as lines, in an order in which an import can store each as it comes.

Nothing that is deleted is written, nor what was made from it. Reads are short, so that servers may write meanwhile: what
is added to a thread during the export may be in it or not, and what is noted of a thread agrees with its messages.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from layerlore.memory.engine.engine import Engine
from layerlore.memory.moving.line_forms import (
    FORMAT,
    RECORD,
    VERSION,
    Line,
    make_row_line,
    make_state_line,
    make_thread_line,
)
from layerlore.storage.core.records import Message, Scope, Tenant
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived.entries import Entry
from layerlore.storage.messages import place_rows
from layerlore.storage.moving import shown_rows
from layerlore.storage.moving.moved_rows import (
    LOGS,
    NOTES,
    PLAN,
    PROFILE,
    RESOURCE_EVENT,
    RUN,
    SESSION_MEMORY,
    MovedTable,
)
from layerlore.storage.moving.shown_rows import EntryRun
from layerlore.storage.threads import events

_MESSAGES = 200
_ROWS = 500
_ENTRY_FIELDS = (
    *("kind", "status", "superseded_by", "origin", "trust", "model", "prompt", "created_at", "seen_at"),
    *("pinned_at", "expires_at", "unproven", "subject"),
)


@dataclass(frozen=True, slots=True)
class ThreadEnd:
    """The rows of a thread that are read last, at one moment: messages that came meanwhile, and, if none are left, its
    notes, documents and state."""

    messages: list[Message]
    lines: list[Line] | None


async def list_scopes(engine: Engine, tenant_id: str) -> list[Scope]:
    """The scopes of a tenant of which anything is stored."""
    found: list[Scope] = []
    after = Scope(tenant_id, "", "")
    cluster = await engine.database.cluster_of(Tenant(tenant_id))
    while some := await cluster.read_installation(place_rows.scopes_after, after, _ROWS):
        found += [scope for scope in some if scope.tenant_id == tenant_id]
        after = some[-1]
        # Scopes come in the order of their tenants: only those of others follow.
        if after.tenant_id > tenant_id:
            break
    return found


async def write_lines(engine: Engine, scopes: Sequence[Scope], program: str) -> AsyncIterator[list[Line]]:
    """The lines of an export, some at a time: a header, each scope, and an end that counts them."""
    counts: dict[str, int] = {}
    header = {RECORD: "header", "format": FORMAT, "version": VERSION, "scopes": len(scopes)}
    yield [{**header, "exported_at": engine.now(), "program": program}]
    for scope in scopes:
        yield [{RECORD: "scope", "agent": scope.agent_id, "resource": scope.resource_id}]
        async for lines in _write_scope(engine, scope):
            for line in lines:
                counts[line[RECORD]] = counts.get(line[RECORD], 0) + 1
            yield lines
    yield [{RECORD: "end", "counts": counts}]


async def _write_scope(engine: Engine, scope: Scope) -> AsyncIterator[list[Line]]:
    for uid in await engine.database.read(shown_rows.list_uids, scope):
        async for lines in _write_thread(engine, scope, uid):
            yield lines
    async for lines in _write_entries(engine, scope):
        yield lines
    yield await engine.database.read(_read_profile, scope)
    async for lines in _write_resource_events(engine, scope):
        yield lines


async def _write_thread(engine: Engine, scope: Scope, uid: str) -> AsyncIterator[list[Line]]:
    # It may have been deleted since the list of threads was read.
    row = await engine.database.read(shown_rows.read_thread, scope, uid)
    if row is None:
        return
    name = row["thread_id"]
    yield [make_thread_line(row), *_erased(name, await engine.database.read(shown_rows.list_erased, scope, uid))]
    last = 0
    while some := await engine.database.read(shown_rows.read_messages, scope, uid, name, after=last, most=_MESSAGES):
        yield [_message_line(name, message) for message in some]
        last = some[-1].seq
    # Behind the messages, since rows of a log may refer to them.
    for of in (*LOGS, RUN):
        async for rows in _read_all(engine, scope, of, uid):
            yield [make_row_line(of, each, thread=name) for each in rows]
    while True:
        # Repeated until no new message is left, so that the notes agree with the messages before them.
        ending = await engine.database.read(_read_ending, scope, uid, name, last)
        yield [_message_line(name, message) for message in ending.messages]
        if ending.lines is not None:
            yield ending.lines
            return
        last = ending.messages[-1].seq


def _erased(name: str, hashes: list[str]) -> list[Line]:
    return [
        {RECORD: "erased", "thread": name, "id_hashes": hashes[at : at + _ROWS]} for at in range(0, len(hashes), _ROWS)
    ]


def _message_line(name: str, message: Message) -> Line:
    return {
        RECORD: "message",
        "thread": name,
        "seq": message.seq,
        "id": message.id,
        "role": message.role,
        **({"name": message.name} if message.name is not None else {}),
        "parts": message.parts,
        **({"metadata": message.metadata} if message.metadata else {}),
        "created_at": message.created_at,
        "said_at": message.said_at,
        **({"revision": message.revision} if message.revision != 1 else {}),
        **({"turn": message.mark.turn, "set": message.mark.set} if message.mark else {}),
    }


async def _read_all(engine: Engine, scope: Scope, of: MovedTable, uid: str) -> AsyncIterator[list[dict[str, Any]]]:
    after: list[Any] | None = None
    while rows := await engine.database.read(shown_rows.read_page, scope, of, uid, after=after, most=_ROWS):
        yield rows
        after = [rows[-1][name] for name in of.key]


async def _read_whole(tx: Tx, scope: Scope, of: MovedTable, uid: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: list[Any] | None = None
    while rows := await shown_rows.read_page(tx, scope, of, uid, after=after, most=_ROWS):
        found += rows
        after = [rows[-1][name] for name in of.key]
    return found


async def _read_ending(tx: Tx, scope: Scope, uid: str, name: str, last: int) -> ThreadEnd:
    found = await shown_rows.read_messages(tx, scope, uid, name, after=last, most=_MESSAGES)
    row = await shown_rows.read_thread(tx, scope, uid)
    if row is None:  # deleted since: what was written of it stays written
        return ThreadEnd(found, [])
    if len(found) == _MESSAGES:
        return ThreadEnd(found, None)
    lines = [
        make_row_line(of, each, thread=name) for of in (*NOTES, PLAN) for each in await _read_whole(tx, scope, of, uid)
    ]
    lines += await _read_versions(tx, scope, SESSION_MEMORY, uid, thread=name)
    return ThreadEnd(found, [*lines, make_state_line(row)])


async def _read_versions(tx: Tx, scope: Scope, of: MovedTable, uid: str, **more: Any) -> list[Line]:
    rows = await _read_whole(tx, scope, of, uid)
    runs = await shown_rows.document_runs(tx, scope, uid, [row["version"] for row in rows])
    names = await shown_rows.names_of(tx, scope, sorted({run.thread_uid for run in runs}))
    sources: dict[int, list[Line]] = {}
    for run in runs:
        # A deleted thread is not in the export, so nothing in it may name the thread.
        if run.thread_uid in names:
            place = {"thread": names[run.thread_uid], "from_seq": run.from_seq, "to_seq": run.to_seq}
            sources.setdefault(run.version, []).append(place)
    return [
        make_row_line(of, row, **more) | ({"sources": sources[row["version"]]} if row["version"] in sources else {})
        for row in rows
    ]


async def _read_profile(tx: Tx, scope: Scope) -> list[Line]:
    return await _read_versions(tx, scope, PROFILE, "")


async def _write_entries(engine: Engine, scope: Scope) -> AsyncIterator[list[Line]]:
    after: str | None = None
    while True:
        found, runs, names = await engine.database.read(shown_rows.read_entries, scope, after=after, most=_MESSAGES)
        if not found:
            return
        yield [_entry_line(entry, runs.get(entry.entry_id, []), names) for entry in found]
        after = found[-1].entry_id


def _entry_line(entry: Entry, runs: list[EntryRun], names: dict[str, str]) -> Line:
    line: Line = {RECORD: "entry", "entry_id": entry.entry_id, "content": entry.content}
    line |= {name: getattr(entry, name) for name in _ENTRY_FIELDS if getattr(entry, name) is not None}
    sources = [
        {
            "thread": names[run.thread_uid],
            "seq": run.seq,
            "revision": run.revision,
            "starts": run.starts,
            "ends": run.ends,
            "label": run.label,
            "created_at": run.created_at,
        }
        for run in runs
        if run.thread_uid in names
    ]
    return line | ({"sources": sources} if sources else {})


async def _write_resource_events(engine: Engine, scope: Scope) -> AsyncIterator[list[Line]]:
    async for rows in _read_all(engine, scope, RESOURCE_EVENT, ""):
        uids = sorted({row["thread_uid"] for row in rows if row["thread_uid"]})
        names = await engine.database.read(shown_rows.names_of, scope, uids)
        yield [
            make_row_line(RESOURCE_EVENT, row) | ({"thread": names[row["thread_uid"]]} if row["thread_uid"] else {})
            for row in rows
            if not row["thread_uid"] or row["thread_uid"] in names
        ]
    # Where the log is imported its numbers go on from here, so that none means two events.
    last = await engine.database.read(events.last_of_resource, scope)
    yield [{RECORD: "resource_state", "next_event_seq": last + 1}]
