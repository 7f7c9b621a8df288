"""What the tools about messages do."""

from collections.abc import Sequence
from typing import Any, Literal

from layerlore.memory import adding, deleting, reading
from layerlore.memory.reading import Detail, PageRequest, checked_roles
from layerlore.server.actions.answers import Answer
from layerlore.server.actions.call import Call
from layerlore.storage.deletions import Which
from layerlore.storage.errors import InvalidInput
from layerlore.storage.records import Json

# Seqs and offsets are the databases' 64-bit integers.
_LARGEST = 2**63 - 1


async def add_messages(call: Call, messages: Any, thread_id: str, replace: bool, idempotency_key: str) -> Json:
    thread = call.thread(thread_id)
    sent = call.sent(thread_id, key=idempotency_key)
    return await adding.add_messages(call.engine, call.scope, thread, messages, replace=replace, sent=sent)


async def get_messages(
    call: Call,
    thread_id: str,
    limit: int,
    offset: int | None,
    before: int | None,
    after: int | None,
    roles: Sequence[str],
    detail: Detail,
    max_tokens: int | None,
    part: str,
) -> Json | Answer:
    for name, value, least in (
        ("offset", offset, 0),
        ("before", before, 0),
        ("after", after, 0),
        ("max_tokens", max_tokens, 1),
    ):
        if value is not None and not least <= value <= _LARGEST:
            raise InvalidInput(f"{name}: {least} to {_LARGEST} are allowed")
    if part:
        if call.given & {"offset", "before", "after", "max_tokens"} or roles:
            raise InvalidInput(
                "part: names a place in one message; leave offset, before, after, roles and max_tokens out"
            )
        thread = call.thread(thread_id, reads=True)
        shown, media = await reading.get_part(call.engine, call.scope, thread, part)
        return Answer(shown, media, thread) if media else shown
    asked = PageRequest(limit, offset, before, after, checked_roles(roles), detail, max_tokens)
    return await reading.get_messages(call.engine, call.scope, call.thread(thread_id, reads=True), asked)


async def delete_messages(
    call: Call, which: Which | Literal["undo"], ids: Sequence[str], roles: Sequence[str], thread_id: str
) -> Json:
    if which == "undo":
        return await _undo(call, ids, roles, thread_id)
    if which == "all" and not thread_id:
        raise InvalidInput("which='all' empties a conversation: say which one with thread_id")
    return await deleting.delete_messages(
        call.engine,
        call.scope,
        call.thread(thread_id),
        which,
        ids=ids,
        roles=checked_roles(roles),
        sent=call.sent(thread_id),
    )


async def _undo(call: Call, ids: Sequence[str], roles: Sequence[str], thread_id: str) -> Json:
    if roles or len(ids) > 1:
        raise InvalidInput(
            "which='undo' takes ids=[deletion], one that a delete answered with, or thread_id, whose newest delete is undone"
        )
    if ids and thread_id:
        raise InvalidInput("which='undo': the deletion says of which conversation it is: leave thread_id or ids out")
    thread = "" if ids else call.thread(thread_id)
    return await deleting.undo(call.engine, call.scope, thread, ids[0] if ids else "", sent=call.sent(thread_id))
