"""Halves of tool calls whose other half is deleted: hidden, shown again, and erased together with it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import bindparam, delete, or_, select, update

from layerlore.storage import observation_sources, search, sources_there
from layerlore.storage.damaged import list_of, parts_of
from layerlore.storage.json_text import to_json
from layerlore.storage.messages import COLUMNS, HIDDEN_CALLS, message_of
from layerlore.storage.records import Json, Message, Scope, SearchText, Thread
from layerlore.storage.scoping import in_thread, of_thread
from layerlore.storage.statements import any_of
from layerlore.storage.tables import messages
from layerlore.storage.tool_pairs import orphans, without
from layerlore.storage.transaction import Row, Tx

_PARTS = COLUMNS.index(messages.c.parts)

# Deleted ones too: they tell which halves are gone.
_WITH_TOOLS = (
    select(*COLUMNS, messages.c.deletion_uid)
    .where(in_thread(messages), or_(messages.c.parts.like('%"tool_call%'), messages.c.parts.like('%"tool_result%')))
    .order_by(messages.c.seq)
)
_HIDE_CALLS = (
    update(messages)
    .where(in_thread(messages), messages.c.seq == bindparam("at_seq"))
    .values(hidden_calls=bindparam("new_hidden_calls"))
)
_STRIP = _HIDE_CALLS.values(parts=bindparam("new_parts"))
_ERASE_DELETION = delete(messages).where(in_thread(messages), messages.c.deletion_uid == bindparam("deletion_uid"))
_GO_WITH = (
    update(messages)
    .where(in_thread(messages), any_of(messages.c.seq, "seqs"))
    .values(deletion_uid=bindparam("deletion_uid"))
)


@dataclass(frozen=True, slots=True)
class Emptied:
    """A visible message that holds nothing but halves whose other half is deleted, and one delete that hid such."""

    message: Message
    deletion_uid: str | None


async def settle(
    tx: Tx, scope: Scope, thread: Thread, gone: Collection[int], search_text: SearchText, *, now: int
) -> list[Emptied]:
    """Hide the halves whose other half is deleted or in ``gone``, show the others, and index what changed anew.

    Returns the messages, not in ``gone``, of which nothing would be left: they are for the caller to hide.
    """
    of = of_thread(scope, thread.thread_uid)
    rows = await tx.all(_WITH_TOOLS, **of)
    deleted_by: dict[int, str | None] = {row[0]: row[-1] for row in rows if row[-1] is not None}
    alone = orphans(_seqs_and_parts(rows), {*deleted_by, *gone})
    emptied: list[Emptied] = []
    changed: list[int] = []
    for row in rows:
        seq, hidden, wanted = row[0], _hidden_calls(row), alone.get(row[0], {})
        if seq in deleted_by or seq in gone or hidden == set(wanted):
            continue
        message = message_of(thread.thread_id, row[:-1])
        rest = without(parts_of(row[_PARTS]), wanted)
        if rest:
            await tx.run(_HIDE_CALLS, **of, at_seq=seq, new_hidden_calls=_stored(wanted))
            await index_again(tx, scope, thread, [replace(message, parts=rest)], search_text)
            changed.append(seq)
        else:
            emptied.append(Emptied(message, next(filter(None, map(deleted_by.get, wanted.values())), None)))
    await observation_sources.changed(tx, scope, thread.thread_uid, changed, now=now)
    return emptied


async def erase(tx: Tx, scope: Scope, thread_uid: str, deletion_uid: str) -> None:
    """Erase the messages that one delete hid, the halves of tool calls elsewhere whose other half they held, and the
    documents that were made from them."""
    of = of_thread(scope, thread_uid)
    rows = await tx.all(_WITH_TOOLS, **of)
    erased = {row[0] for row in rows if row[-1] == deletion_uid}
    alone = orphans(_seqs_and_parts(rows), erased) if erased else {}
    for row in rows:
        if wanted := alone.get(row[0]):
            rest, hidden = without(parts_of(row[_PARTS]), wanted), _hidden_calls(row) - wanted.keys()
            if rest:
                await tx.run(_STRIP, **of, at_seq=row[0], new_parts=to_json(rest), new_hidden_calls=_stored(hidden))
            else:
                await tx.run(_GO_WITH, **of, seqs=[row[0]], deletion_uid=deletion_uid)
    await sources_there.erase(tx, scope, thread_uid, deletion_uid)
    await tx.run(_ERASE_DELETION, **of, deletion_uid=deletion_uid)


async def index_again(
    tx: Tx, scope: Scope, thread: Thread, changed: Sequence[Message], search_text: SearchText
) -> None:
    """Index messages anew, whether or not they are in the index."""
    await search.remove(tx, scope, thread.thread_uid, [message.seq for message in changed])
    entries = [
        search.Entry(thread.thread_uid, message.seq, message.role, message.said_at, search_text(message))
        for message in changed
    ]
    await search.put(tx, scope, entries)


def _seqs_and_parts(rows: Sequence[Row]) -> list[tuple[int, list[Json]]]:
    return [(row[0], parts_of(row[_PARTS])) for row in rows]


def _hidden_calls(row: Row) -> set[str]:
    return set(list_of(row[HIDDEN_CALLS])) if row[HIDDEN_CALLS] else set()


def _stored(hidden_calls: Collection[str]) -> str | None:
    return to_json(sorted(hidden_calls)) if hidden_calls else None
