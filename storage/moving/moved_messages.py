"""Messages as an import brings them: each at its own seq where that is free, with its own times."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import bindparam, insert, select

from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import CUSTOM, Draft, Scope, SearchText, Thread
from layerlore.storage.core.scopes import in_thread, of_thread
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import SCOPE, messages
from layerlore.storage.core.transaction import Tx
from layerlore.storage.index import lexical
from layerlore.storage.messages import addition, erased_ids
from layerlore.storage.messages.messages import AHEAD_MS
from layerlore.storage.moving.moved_threads import Mode
from layerlore.storage.threads import threads

Status = Literal["added", "unchanged", "replaced", "kept", "deleted"]

_COLUMNS = ("id", "role", "name", "parts", "metadata", "tokens", "encoding", "created_at", "said_at", "revision")
_MARKS = ("turn", "turn_set")
_INSERT = insert(messages).values(
    **{name: bindparam(name) for name in (*SCOPE, "thread_uid", "seq", *_COLUMNS, *_MARKS)}
)
_KNOWN = select(
    messages.c.id,
    messages.c.seq,
    messages.c.revision,
    messages.c.deletion_uid,
    messages.c.role,
    messages.c.name,
    messages.c.parts,
    messages.c.metadata,
).where(in_thread(messages), any_of(messages.c.id, "ids"))
_COUNT = threads.totals_change(
    {
        name: bindparam(f"new_{name}")
        for name in ("next_seq", "last_created_at", "message_count", "token_count", "raw_tokens")
    }
)


@dataclass(frozen=True, slots=True)
class MovedMessage:
    """A message ready to be stored, and the seq, time and revision that it had."""

    draft: Draft
    seq: int
    created_at: int
    revision: int


@dataclass(frozen=True, slots=True)
class MessagePut:
    """Where a message is now. ``kept``: another text is stored under its id, and stays. ``deleted``: it was, here."""

    status: Status
    seq: int
    revision: int


async def put_messages(
    tx: Tx,
    scope: Scope,
    thread_uid: str,
    moved: Sequence[MovedMessage],
    mode: Mode,
    *,
    now: int,
    search_text: SearchText,
) -> list[MessagePut]:
    """Add the messages that a thread has not, in their order; what it has stays, or is replaced as ``mode`` says.

    Raises Conflict for a tool result whose call is deleted here. Nothing is put into a thread that is deleted.
    """
    thread = await threads.lock_uid(tx, scope, thread_uid)
    if thread is None:
        return [MessagePut("deleted", 0, 0) for _ in moved]
    of = of_thread(scope, thread_uid)
    ids = [each.draft.id for each in moved]
    known = {row[0]: row for row in await tx.all(_KNOWN, **of, ids=ids)}
    new = [each.draft.id for each in moved if each.draft.id not in known]
    erased = await erased_ids.find(tx, scope, thread_uid, new) if new else set()
    puts: list[MessagePut] = []
    fresh: list[tuple[MovedMessage, int]] = []
    replaced: list[Draft] = []
    next_seq = thread.next_seq
    for each in moved:
        if (row := known.get(each.draft.id)) is not None:
            put = _meet(row, each, mode)
            replaced += [each.draft] if put.status == "replaced" else []
        elif each.draft.id in erased:
            put = MessagePut("deleted", 0, 0)
        else:
            put = MessagePut("added", max(each.seq, next_seq), each.revision)
            next_seq = put.seq + 1
            fresh.append((each, put.seq))
        puts.append(put)
    await _insert(tx, scope, thread, fresh, next_seq, now)
    lost_some = thread.next_seq - 1 > thread.message_count
    if replaced or (lost_some and _has_calls(fresh)):
        # Has whatever depends on them follow, and no half of a tool call stand alone.
        again = [*replaced, *(each.draft for each, _ in fresh)]
        await addition.add(
            tx, scope, thread.thread_id, again, new_uid=thread_uid, replace_known=True, now=now, search_text=search_text
        )
    return puts


def _meet(row: Sequence[Any], each: MovedMessage, mode: Mode) -> MessagePut:
    _, seq, revision, deletion_uid, *stored = row
    draft = each.draft
    if deletion_uid is not None:
        return MessagePut("deleted", seq, revision)
    if stored == [draft.role, draft.name, to_json(draft.parts), to_json(draft.metadata)]:
        return MessagePut("unchanged", seq, revision)
    if mode == "overwrite" or (mode == "merge" and each.revision > revision):
        return MessagePut("replaced", seq, revision + 1)
    return MessagePut("kept", seq, revision)


def _has_calls(fresh: Sequence[tuple[MovedMessage, int]]) -> bool:
    return any(part["type"] in ("tool_call", "tool_result") for each, _ in fresh for part in each.draft.parts)


async def _insert(
    tx: Tx, scope: Scope, thread: Thread, fresh: Sequence[tuple[MovedMessage, int]], next_seq: int, now: int
) -> None:
    if not fresh:
        return
    of = of_thread(scope, thread.thread_uid)
    last, tokens, raw = thread.last_created_at, 0, 0
    rows: list[dict[str, Any]] = []
    indexed: list[lexical.IndexEntry] = []
    for each, seq in fresh:
        draft = each.draft
        last = max(min(each.created_at, now + AHEAD_MS), last + 1)
        said_at = draft.said_at if draft.said_at is not None else last
        rows.append(
            {
                **of,
                "seq": seq,
                "id": draft.id,
                "role": draft.role,
                "name": draft.name,
                "parts": to_json(draft.parts),
                "metadata": to_json(draft.metadata),
                "tokens": draft.tokens,
                "encoding": draft.encoding,
                "created_at": last,
                "said_at": said_at,
                "revision": each.revision,
                "turn": draft.mark and draft.mark.turn,
                "turn_set": draft.mark and draft.mark.set,
            }
        )
        if draft.role == CUSTOM:
            continue
        indexed.append(lexical.IndexEntry(thread.thread_uid, seq, draft.role, said_at, draft.indexed))
        tokens += draft.tokens
        raw += draft.tokens if seq > thread.observed_seq else 0
    await tx.many(_INSERT, rows)
    await lexical.put(tx, scope, indexed)
    await tx.run(
        _COUNT,
        **of,
        new_next_seq=next_seq,
        new_last_created_at=last,
        new_message_count=thread.message_count + len(indexed),
        new_token_count=thread.token_count + tokens,
        new_raw_tokens=thread.raw_tokens + raw,
    )
