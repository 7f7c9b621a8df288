"""The way in: messages of any known shape, parsed, masked, counted, and appended in one transaction."""

from typing import Any

from memstrata.memory.engine import Engine
from memstrata.memory.message_shapes import Incoming, parse_messages
from memstrata.memory.parts import MEDIA
from memstrata.storage import messages
from memstrata.storage.idempotency import Request, once
from memstrata.storage.messages import Appended
from memstrata.storage.records import Draft, Json, Scope
from memstrata.storage.transaction import Tx


async def add_messages(
    engine: Engine, scope: Scope, thread_id: str, raw: Any, *, replace: bool, request: Request | None
) -> Json:
    """Append messages to a thread, all or none. Nothing is answered before the commit.

    Returns ``thread_id``, ``messages`` (id, seq, and status added | unchanged | replaced), ``masked`` (how many
    secrets were masked) and the thread's ``totals``. Raises InvalidInput, LimitExceeded, Conflict.
    """
    incoming = parse_messages(raw, engine.limits)
    drafts, masked = await drafts_of(engine, incoming)
    now, new_uid = engine.now(), engine.new_id()

    async def write(tx: Tx) -> Json:
        appended = await messages.append(tx, scope, thread_id, drafts, new_uid=new_uid, replace_known=replace, now=now)
        return _answer(appended, masked)

    answer, _ = await engine.database.write(once, scope, request, now, write)
    return answer


async def drafts_of(engine: Engine, incoming: list[Incoming]) -> tuple[list[Draft], int]:
    """Mask, count and cut into words what was parsed. Returns the drafts, and how many secrets were masked."""
    entered = [_masked(engine, message) for message in incoming]
    counts = await engine.tokens.count_all([parts for _, parts, _, _ in entered])
    drafts = [
        Draft(
            id=message.id or engine.new_id(),
            role=message.role,
            name=name,
            parts=parts,
            metadata=metadata,
            said_at=message.created_at,
            tokens=tokens,
            encoding=engine.tokens.name,
            search_text=engine.search_text(name, parts),
        )
        for message, (name, parts, metadata, _), tokens in zip(incoming, entered, counts, strict=True)
    ]
    return drafts, sum(found for _, _, _, found in entered)


def _masked(engine: Engine, message: Incoming) -> tuple[str | None, list[Json], Json, int]:
    name, in_name = engine.masked(message.name) if message.name else (message.name, 0)
    metadata, in_metadata = engine.masked(message.metadata)
    parts: list[Json] = []
    in_parts = 0
    for part in message.parts:
        # Base64 is no text: looking for keys in it finds nothing but chance.
        payload = {"data": part["data"]} if part["type"] in MEDIA and "data" in part else {}
        rest, found = engine.masked({key: value for key, value in part.items() if key not in payload})
        parts.append({key: payload.get(key, rest.get(key)) for key in part})
        in_parts += found
    return name, parts, metadata, in_name + in_metadata + in_parts


def _answer(appended: Appended, masked: int) -> Json:
    return {
        "thread_id": appended.thread.thread_id,
        "messages": [{"id": stored.id, "seq": stored.seq, "status": stored.status} for stored in appended.stored],
        **({"masked": masked} if masked else {}),
        "totals": {"messages": appended.thread.message_count, "tokens": appended.thread.token_count},
    }
