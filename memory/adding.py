"""The way in: messages of any known shape, parsed, masked, counted, and appended in one transaction."""

import asyncio
from typing import Any

from layerlore.memory import observing, turns
from layerlore.memory.engine import Engine, Sent
from layerlore.memory.message_shapes import Incoming, parse_messages
from layerlore.memory.parts import part_texts
from layerlore.storage import adding, events
from layerlore.storage.events import NewEvent
from layerlore.storage.messages import Appended
from layerlore.storage.records import Draft, Json, Scope
from layerlore.storage.transaction import Tx

# More text than this, in characters, is prepared in a thread: the event loop must not wait for it.
_INLINE_CHARS = 4_000


async def add_messages(engine: Engine, scope: Scope, thread_id: str, raw: Any, *, replace: bool, sent: Sent) -> Json:
    """Append messages to a thread, all or none. Nothing is answered before the commit.

    Returns ``thread_id``, ``messages`` (id, seq, and status added | unchanged | replaced), ``masked`` (how many
    secrets were masked) and the thread's ``totals``.

    Raises InvalidInput, LimitExceeded, Conflict.
    """
    incoming = parse_messages(raw, engine.limits)
    body = [[each.id, each.role, each.name, each.parts, each.metadata, each.created_at] for each in incoming]
    now, new_uid = engine.now(), engine.new_id()
    drafts, masked = await drafts_of(engine, incoming, now)

    async def write(tx: Tx) -> Json:
        appended = await adding.add(
            tx,
            scope,
            thread_id,
            drafts,
            new_uid=new_uid,
            replace_known=replace,
            now=now,
            search_text=engine.search_text_of,
        )
        noted = await observing.after_append(tx, scope, appended.thread, appended.more_raw, engine.observation, now=now)
        await turns.after_append(tx, engine, scope, appended, drafts, now=now)
        if happened := [*_happened(appended), *noted]:
            await events.record(tx, scope, appended.thread, happened, origin=sent.origin, now=now)
        return _answer(appended, masked)

    return await engine.write(scope, sent, [body, replace], now, write)


def _happened(appended: Appended) -> list[NewEvent]:
    """What the log says: the seqs of what was added, and of what was replaced."""
    found = []
    for type_, status in (("messages_added", "added"), ("messages_replaced", "replaced")):
        seqs = [stored.seq for stored in appended.stored if stored.status == status]
        if seqs:
            found.append(NewEvent(type_, {"seqs": seqs}))
    return found


async def drafts_of(engine: Engine, incoming: list[Incoming], now: int) -> tuple[list[Draft], int]:
    """Mask, count and cut into words what was parsed. Returns the drafts, and how many secrets were masked."""
    size = sum(len(text) for message in incoming for part in message.parts for text in part_texts(part))
    if size <= _INLINE_CHARS:
        return _drafts(engine, incoming, now)
    return await asyncio.to_thread(_drafts, engine, incoming, now)


def _drafts(engine: Engine, incoming: list[Incoming], now: int) -> tuple[list[Draft], int]:
    entered = [_masked(engine, message) for message in incoming]
    drafts = [
        Draft(
            id=message.id or engine.new_id(),
            role=message.role,
            name=name,
            parts=parts,
            metadata=metadata,
            said_at=message.created_at,
            tokens=engine.tokens.parts(parts),
            encoding=engine.tokens.name,
            indexed=engine.search_text(
                name, parts, metadata, message.created_at if message.created_at is not None else now
            ),
        )
        for message, (name, parts, metadata, _) in zip(incoming, entered, strict=True)
    ]
    return drafts, sum(found for _, _, _, found in entered)


def _masked(engine: Engine, message: Incoming) -> tuple[str | None, list[Json], Json, int]:
    name, in_name = engine.masked(message.name) if message.name else (message.name, 0)
    metadata, in_metadata = engine.masked(message.metadata)
    parts, in_parts = engine.masked_parts(message.parts)
    return name, parts, metadata, in_name + in_metadata + in_parts


def _answer(appended: Appended, masked: int) -> Json:
    return {
        "thread_id": appended.thread.thread_id,
        "messages": [{"id": stored.id, "seq": stored.seq, "status": stored.status} for stored in appended.stored],
        **({"masked": masked} if masked else {}),
        "totals": {"messages": appended.thread.message_count, "tokens": appended.thread.token_count},
    }
