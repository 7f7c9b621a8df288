"""The calls of earlier messages that tool results answer: what a result is depends on what was asked."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from sqlalchemy import bindparam, select

from layerlore.storage.core.damaged_values import parts_of
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import Json, Message, Scope
from layerlore.storage.core.scopes import in_thread, of_thread
from layerlore.storage.core.tables import messages
from layerlore.storage.core.transaction import Tx
from layerlore.storage.messages.light_parts import loads_light
from layerlore.storage.messages.tool_pairs import call_ids, result_ids
from layerlore.storage.threads import threads

REACH = 64
"""A result's call is looked for among so many messages before it. Hosts store it in the one before, or a few."""

_CALLS = (
    select(messages.c.seq, messages.c.parts)
    .where(
        in_thread(messages),
        messages.c.seq >= bindparam("first_seq"),
        messages.c.seq < bindparam("before_seq"),
        messages.c.role == "assistant",
        messages.c.parts.like('%"tool_call"%'),
    )
    .order_by(messages.c.seq)
)


async def of_next(tx: Tx, scope: Scope, thread_id: str, ids: Collection[str]) -> list[Json]:
    """The calls with these ids that results in the next message of a thread would answer; none in a thread that does not
    exist yet."""
    try:
        thread = await threads.find(tx, scope, thread_id)
    except NotFound:
        return []
    return _latest(await _read(tx, scope, thread.thread_uid, thread.next_seq - REACH, thread.next_seq), ids)


async def attach(tx: Tx, scope: Scope, thread_uid: str, found: Sequence[Message]) -> list[Message]:
    """Messages of a thread with the calls that their results answer and that are not in the same message."""
    wanted = {message.seq: result_ids(message.parts) - call_ids(message.parts) for message in found}
    asking = [seq for seq, ids in wanted.items() if ids]
    if not asking:
        return list(found)
    calls = await _read(tx, scope, thread_uid, min(asking) - REACH, max(asking))
    return [
        replace(
            message, answered=tuple(_latest([each for each in calls if each[0] < message.seq], wanted[message.seq]))
        )
        if wanted[message.seq]
        else message
        for message in found
    ]


async def attach_everywhere(
    tx: Tx, scope: Scope, found: Mapping[tuple[str, int], Message]
) -> dict[tuple[str, int], Message]:
    """Messages of several threads, by place (thread uid, seq), each with the calls that its results answer and that are
    not in the same message."""
    attached: dict[tuple[str, int], Message] = {}
    for uid, places in groupby(sorted(found), key=lambda place: place[0]):
        some = [found[place] for place in places]
        attached |= {(uid, message.seq): message for message in await attach(tx, scope, uid, some)}
    return attached


async def _read(tx: Tx, scope: Scope, thread_uid: str, first: int, before: int) -> list[tuple[int, Json]]:
    """The calls in the messages from one seq to before another, deleted ones too, oldest first, each with its seq."""
    rows = await tx.all(_CALLS, **of_thread(scope, thread_uid), first_seq=first, before_seq=before)
    return [(seq, part) for seq, parts in rows for part in parts_of(parts, loads_light) if part["type"] == "tool_call"]


def _latest(calls: Sequence[tuple[int, Json]], ids: Collection[str]) -> list[Json]:
    return list({part["id"]: part for _, part in calls if part["id"] in ids}.values())
