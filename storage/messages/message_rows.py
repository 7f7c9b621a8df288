"""Messages: appended under their thread's lock, replaced, read."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from sqlalchemy import Executable, bindparam, func, insert, select, update

from layerlore.storage.core.errors import Conflict
from layerlore.storage.core.json_text import list_of, object_of, parts_of, to_json
from layerlore.storage.core.records import (
    CUSTOM,
    Draft,
    Json,
    Message,
    Origin,
    Role,
    Scope,
    SearchText,
    StoredJson,
    Thread,
    TurnMark,
    TurnSet,
)
from layerlore.storage.core.scopes import in_thread, of_thread
from layerlore.storage.core.statements import any_of, parameters
from layerlore.storage.core.tables import erased_ids, messages
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.tables.columns import THREAD
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.derived import derivations, entries, observations
from layerlore.storage.index import lexical
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.threads import mend

MEDIA = ("image", "file")

_KEY = '"data":"'
_LONG = 4096
# No stored text has it.
_LIGHT_MARK = "\x00"


def loads(text: str) -> list[Json]:
    """All of the parts."""
    cut, pieces = _without_long(text)
    parts: list[Json] = json.loads(cut)
    filled = 0
    for each in _media_in(parts):
        if isinstance(each.get("data"), str) and each["data"].startswith(_LIGHT_MARK):
            each["data"] = pieces[int(each["data"][1:])]
            filled += 1
    # Elsewhere, a field called data may hold anything.
    return parts if filled == len(pieces) else json.loads(text)


def loads_light(text: str) -> list[Json]:
    """The parts, with something else where there was base64: for ``without_data``."""
    cut, pieces = _without_long(text)
    parts: list[Json] = json.loads(cut)
    if not pieces:
        return parts
    marked = sum(str(each.get("data", "")).startswith(_LIGHT_MARK) for each in _media_in(parts))
    return parts if marked == len(pieces) else json.loads(text)


def _without_long(text: str) -> tuple[str, list[str]]:
    """The text with a mark and a number for each long value of a key ``data``, and these."""
    kept: list[str] = []
    pieces: list[str] = []
    done = 0
    if len(text) > _LONG:
        at = text.find(_KEY)
    else:
        at = -1
    while at >= 0:
        begin = at + len(_KEY)
        end = text.find('"', begin)
        if end - begin > _LONG and text.find("\\", begin, end) < 0:
            kept.append(f"{text[done:begin]}\\u0000{len(pieces)}")
            pieces.append(text[begin:end])
            done = end
        at = text.find(_KEY, end)
    return "".join([*kept, text[done:]]), pieces


def _media_in(parts: list[Json]) -> list[Json]:
    found: list[Json] = []
    for part in parts:
        result: Any = part.get("result") if part["type"] == "tool_result" else None
        if isinstance(result, list):
            inside = result
        else:
            inside = [part]
        found += [each for each in inside if isinstance(each, dict) and each.get("type") in MEDIA]
    return found


def as_models_see(parts: list[Json]) -> list[Json]:
    """The parts, each tool's result only as models are shown it."""
    return [_seen(part) if "model_output" in part and part["type"] == "tool_result" else part for part in parts]


def _seen(part: Json) -> StoredJson:
    rest = {key: value for key, value in part.items() if key != "model_output"}
    return {**rest, "result": part["model_output"]}


def without_data(parts: list[Json], seq: int) -> list[Json]:
    """The parts, with a place where there was base64. It does not change its argument."""
    return [_light(part, f"@{seq}.{index}") for index, part in enumerate(parts)]


def _light(part: Json, place: str) -> StoredJson:
    if part["type"] in MEDIA:
        return {**part, "data": place} if "data" in part else part
    result: Any = part.get("result")
    if part["type"] != "tool_result" or not isinstance(result, list):
        return part
    return {**part, "result": [_inner(entry, f"{place}.{index}") for index, entry in enumerate(result)]}


def _inner(entry: Any, place: str) -> Any:
    media = isinstance(entry, dict) and entry.get("type") in MEDIA and isinstance(entry.get("data"), str)
    return {**entry, "data": place} if media else entry


def place_of(part: Json) -> str:
    """Where the base64 of a light image or file stands, as ``SEQ.PART`` or ``SEQ.PART.INNER``; "" if none is left out."""
    data = part.get("data", "")
    return data[1:] if isinstance(data, str) and data.startswith("@") else ""


_KEEP = insert(erased_ids).values(**parameters(*THREAD, "id_hash"))
_FIND = select(erased_ids.c.id_hash).where(in_thread(erased_ids), any_of(erased_ids.c.id_hash, "hashes"))
_HIDDEN_BY = select(messages.c.id).where(in_thread(messages), messages.c.deletion_uid == bindparam("deletion_uid"))


async def keep_erased_ids(tx: Tx, scope: Scope, thread_uid: str, deletion_uid: str, calls: Collection[str]) -> None:
    """Keep the ids of the messages that a delete hid, which are to be erased, and those of calls."""
    of = of_thread(scope, thread_uid)
    ids = await tx.scalars(_HIDDEN_BY, **of, deletion_uid=deletion_uid)
    new = {_hash(thread_uid, id_) for id_ in ids} | {_hash(thread_uid, call, "call") for call in calls}
    new -= {*await tx.scalars(_FIND, **of, hashes=sorted(new))}
    if new:
        await tx.many(_KEEP, [{**of, "id_hash": hashed} for hashed in sorted(new)])


async def find_erased_ids(tx: Tx, scope: Scope, thread_uid: str, ids: Collection[str]) -> set[str]:
    """Which of these ids were those of messages that are erased."""
    return await _find(tx, scope, thread_uid, {_hash(thread_uid, id_): id_ for id_ in ids})


async def find_erased_calls(tx: Tx, scope: Scope, thread_uid: str, ids: Collection[str]) -> set[str]:
    """Which of these ids were those of calls that lost their other half to an erasure."""
    return await _find(tx, scope, thread_uid, {_hash(thread_uid, id_, "call"): id_ for id_ in ids})


async def _find(tx: Tx, scope: Scope, thread_uid: str, by_hash: dict[str, str]) -> set[str]:
    if not by_hash:
        return set()
    found = await tx.scalars(_FIND, **of_thread(scope, thread_uid), hashes=sorted(by_hash))
    return {by_hash[hashed] for hashed in found}


def hash_of_message(thread_uid: str, id_: str) -> str:
    """The stored form of an erased message's id."""
    return _hash(thread_uid, id_)


def _hash(thread_uid: str, id_: str, kind: str = "message") -> str:
    return hashlib.sha256("\0".join((thread_uid, kind, id_)).encode()).hexdigest()


def call_ids(parts: Iterable[Json]) -> set[str]:
    """Ids of the tool calls among the parts."""
    return {part["id"] for part in parts if part["type"] == "tool_call"}


def result_ids(parts: Iterable[Json]) -> set[str]:
    """Ids of the calls that the tool results among the parts answer."""
    return {part["tool_call_id"] for part in parts if part["type"] == "tool_result"}


def without(parts: list[Json], ids: Collection[str]) -> list[Json]:
    """The parts less the calls with these ids and the results of them."""
    if not ids:
        return parts
    return [
        part
        for part in parts
        if not (part["type"] == "tool_call" and part["id"] in ids)
        and not (part["type"] == "tool_result" and part["tool_call_id"] in ids)
    ]


@dataclass(frozen=True, slots=True)
class Pair:
    """A call and the messages that answer it, by seq."""

    id: str
    call: int
    results: list[int]


def pairs(messages: Iterable[tuple[int, list[Json]]]) -> list[Pair]:
    """The answered calls of a thread, from its messages' seqs and parts, oldest first.

    A result belongs to the latest call of its id before it: some models count their calls anew in each turn.
    """
    found: list[Pair] = []
    latest: dict[str, Pair] = {}
    for seq, parts in messages:
        for part in parts:
            if part["type"] == "tool_call":
                latest[part["id"]] = Pair(part["id"], seq, [])
                found.append(latest[part["id"]])
            elif part["type"] == "tool_result" and part["tool_call_id"] in latest:
                latest[part["tool_call_id"]].results.append(seq)
    return [pair for pair in found if pair.results]


def orphans(messages: Iterable[tuple[int, list[Json]]], gone: Collection[int]) -> dict[int, dict[str, int]]:
    """The halves that are left alone when the messages ``gone`` go: by the seq of the message that holds them, their
    ids, each with the seq of its other half."""
    left: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for pair in pairs(messages):
        if pair.call in gone:
            for seq in pair.results:
                if seq not in gone:
                    left[seq][pair.id] = pair.call
        elif all(seq in gone for seq in pair.results):
            left[pair.call][pair.id] = pair.results[-1]
    return dict(left)


# created_at may run ahead of the clock by at most this, however late the caller says a message was.
AHEAD_MS = 5 * 60 * 1000


class MessageRow(NamedTuple):
    """A message as it is stored: a row of COLUMNS."""

    seq: int
    id: str
    role: Role
    name: str | None
    parts: str
    hidden_calls: str | None
    metadata: str
    tokens: int
    encoding: str
    created_at: int
    said_at: int
    revision: int
    turn: str | None
    turn_set: TurnSet | None


COLUMNS = tuple(messages.c[name] for name in MessageRow._fields)


class _KnownMessage(NamedTuple):
    """A stored message with the id of a draft."""

    id: str
    seq: int
    role: str
    name: str | None
    parts: str
    hidden_calls: str | None
    metadata: str
    said_at: int
    tokens: int
    deletion_uid: str | None


_KNOWN = select(*(messages.c[name] for name in _KnownMessage._fields)).where(
    in_thread(messages), any_of(messages.c.id, "ids")
)

_INSERT = insert(messages).values(
    **parameters(
        *THREAD,
        *("seq", "id", "role", "name", "parts", "metadata"),
        *("tokens", "encoding", "created_at", "said_at", "turn", "turn_set"),
    ),
    revision=1,
)
_REPLACE = (
    update(messages)
    .where(in_thread(messages), messages.c.seq == bindparam("at_seq"))
    .values(
        role=bindparam("new_role"),
        name=bindparam("new_name"),
        parts=bindparam("new_parts"),
        hidden_calls=None,
        metadata=bindparam("new_metadata"),
        tokens=bindparam("new_tokens"),
        encoding=bindparam("new_encoding"),
        said_at=func.coalesce(bindparam("new_said_at", type_=messages.c.said_at.type), messages.c.said_at),
        revision=messages.c.revision + 1,
    )
)
_MARK = (
    update(messages)
    .where(in_thread(messages), messages.c.seq == bindparam("at_seq"))
    .values(turn=bindparam("new_turn"), turn_set=bindparam("new_set"))
)
_TOTALS = threads.totals_change(
    {
        "next_seq": bindparam("new_next_seq"),
        "last_created_at": bindparam("new_last_created_at"),
        "message_count": bindparam("new_message_count"),
        "token_count": bindparam("new_token_count"),
        "raw_tokens": bindparam("new_raw_tokens"),
        "next_event_seq": threads_table.c.next_event_seq + bindparam("more_events"),
        "updated_at": bindparam("now"),
    }
)


@dataclass(frozen=True, slots=True)
class DraftOutcome:
    """The outcome of one draft; a deleted one is not stored again, and has no seq (0) once it is erased."""

    id: str
    seq: int
    status: Literal["added", "unchanged", "replaced", "deleted"]


@dataclass(frozen=True, slots=True)
class AppendResult:
    """``more_raw`` is by how much the thread's ``raw_tokens`` changed."""

    thread: Thread
    stored: list[DraftOutcome]
    more_raw: int


def message_of(thread_id: str, row: Row, *, light: bool = True) -> Message:
    """A message from a row of COLUMNS, less the parts whose other half was deleted, and (``light``) as models are shown it:
    without the bytes of its images and files, and of tools' results what they see."""
    stored = MessageRow._make(row)
    shown = parts_of(stored.parts, loads_light if light else loads)
    if stored.hidden_calls:
        shown = without(shown, list_of(stored.hidden_calls))
    if light and '"model_output"' in stored.parts:
        shown = as_models_see(shown)
    if light and '"data"' in stored.parts:
        shown = without_data(shown, stored.seq)
    mark = None
    if stored.turn is not None and stored.turn_set is not None:
        mark = TurnMark(stored.turn, stored.turn_set)
    return Message(
        thread_id,
        stored.seq,
        stored.id,
        stored.role,
        stored.name,
        shown,
        {} if stored.metadata == "{}" else object_of(stored.metadata),
        stored.tokens,
        stored.encoding,
        stored.created_at,
        stored.said_at,
        stored.revision,
        mark=mark,
    )


MakeMessage = Callable[[str, Row], Message]
"""Makes the light message of a thread (by its id) from a row of COLUMNS: ``message_of``, or what remembers what it gave."""


async def read(
    tx: Tx, statement: Executable, thread_id: str, /, make: MakeMessage = message_of, **values: Any
) -> list[Message]:
    """The light messages of a statement that selects COLUMNS of one thread, in its order."""
    found: list[Message] = []

    def take(row: Row) -> bool:
        found.append(make(thread_id, row))
        return True

    await tx.each(statement, take, **values)
    return found


async def append(
    tx: Tx,
    scope: Scope,
    thread_id: str,
    drafts: Sequence[Draft],
    *,
    new_uid: str,
    replace_known: bool,
    now: int,
    search_text: SearchText,
    origin: Origin | None = None,
) -> AppendResult:
    """Append the drafts to a thread, which the first message makes. All or nothing. A draft whose id the thread has
    stays in place: unchanged, or replaced if ``replace_known``. A deleted or erased one is left out, so that a list
    that is sent again does not bring it back. Seqs are assigned without gaps and never again. A mark of a turn is set
    also on what is there already; ``created_at`` is ``max(said_at, last + 1)``, so that it strictly increases (the rule
    of n8n's AgentMessageList), and at most AHEAD_MS ahead of the clock. ``search_text`` indexes what is replaced. With
    an ``origin`` the thread's log has what was added and replaced.

    Raises Conflict for an id with other content.
    """
    thread = await mend(tx, scope, await threads.lock_or_make(tx, scope, thread_id, new_uid, now), now)
    of = of_thread(scope, thread.thread_uid)
    # An id that was made for this call is neither stored nor erased.
    given = [draft.id for draft in drafts if not draft.has_new_id]
    met = map(_KnownMessage._make, await tx.all(_KNOWN, **of, ids=given) if given else [])
    known = {old.id: old for old in met}
    erased: set[str] = set()
    # Most threads lost no message, and then nothing is read.
    if thread.next_seq - 1 > thread.message_count:
        erased = await find_erased_ids(tx, scope, thread.thread_uid, [id_ for id_ in given if id_ not in known])
    seq, last, tokens, raw, added = thread.next_seq, thread.last_created_at, thread.token_count, thread.raw_tokens, 0
    stored: list[DraftOutcome] = []
    rows: list[dict[str, Any]] = []
    indexed: list[lexical.IndexEntry] = []
    for draft in drafts:
        if (old := known.get(draft.id)) is not None:
            outcome, token_change = await _meet_again(tx, scope, thread, old, draft, replace_known)
            stored.append(outcome)
            tokens += token_change
            # The raw tokens are those of the messages behind the observer's cursor.
            if outcome.seq > thread.observed_seq:
                raw += token_change
            if outcome.status == "replaced" and draft.role != CUSTOM:
                await lexical.remove(tx, scope, thread.thread_uid, [outcome.seq])
                indexed.append(_indexed_again(thread, outcome.seq, draft, old, search_text))
            continue
        if draft.id in erased:
            stored.append(DraftOutcome(draft.id, 0, "deleted"))
            continue
        last = max(min(draft.said_at if draft.said_at is not None else now, now + AHEAD_MS), last + 1)
        said_at = _said(draft, last, now)
        rows.append({**of, **_values(draft), **_marked(draft), "seq": seq, "created_at": last, "said_at": said_at})
        stored.append(DraftOutcome(draft.id, seq, "added"))
        if draft.role != CUSTOM:
            indexed.append(lexical.IndexEntry(thread.thread_uid, seq, draft.role, said_at, draft.indexed))
            tokens, raw, added = tokens + draft.tokens, raw + draft.tokens, added + 1
        seq += 1
    if rows:
        await tx.many(_INSERT, rows)
    await lexical.put(tx, scope, indexed)
    await _pass_on_replaced(tx, scope, thread, known, drafts, stored, now)
    happened = events.list_changes((each.status, each.seq) for each in stored) if origin is not None else []
    after = replace(
        thread,
        next_event_seq=thread.next_event_seq + len(happened),
        next_seq=seq,
        last_created_at=last,
        message_count=thread.message_count + added,
        token_count=tokens,
        raw_tokens=raw,
        updated_at=now if indexed or rows else thread.updated_at,
    )
    await _count(tx, of, after, len(happened))
    if origin is not None and happened:
        await events.record_counted(tx, scope, thread, happened, thread.next_event_seq, origin=origin, now=now)
    return AppendResult(after, stored, raw - thread.raw_tokens)


async def _pass_on_replaced(
    tx: Tx,
    scope: Scope,
    thread: Thread,
    known: dict[str, _KnownMessage],
    drafts: Sequence[Draft],
    stored: Sequence[DraftOutcome],
    now: int,
) -> None:
    """Update what was made of replaced messages: some say the same as before, others do not."""
    same: list[int] = []
    other: list[int] = []
    for draft, outcome in zip(drafts, stored, strict=True):
        if outcome.status == "replaced" and draft.role != CUSTOM:
            old = known[draft.id]
            says_the_same = (old.role, old.parts) == (draft.role, to_json(draft.parts))
            (same if says_the_same else other).append(outcome.seq)
    if same or other:
        await entries.follow_replaced(tx, scope, thread.thread_uid, same_text=same, other_text=other)
        await observations.changed(tx, scope, thread.thread_uid, other, now=now)
    if other:
        await derivations.replaced(tx, scope, thread, other, now=now)


async def _count(tx: Tx, of: dict[str, Any], after: Thread, more_events: int) -> None:
    row = {
        **of,
        "new_next_seq": after.next_seq,
        "new_last_created_at": after.last_created_at,
        "new_message_count": after.message_count,
        "new_token_count": after.token_count,
        "new_raw_tokens": after.raw_tokens,
        "more_events": more_events,
        "now": after.updated_at,
    }
    await tx.many(_TOTALS, [row])


def _indexed_again(
    thread: Thread, seq: int, draft: Draft, old: _KnownMessage, search_text: SearchText
) -> lexical.IndexEntry:
    """The entry of a replaced message. Its words hold its day, which it keeps unless the call names another."""
    if draft.said_at is not None:
        said_at = draft.said_at
    else:
        said_at = old.said_at
    message = Message(
        thread.thread_id,
        seq,
        draft.id,
        draft.role,
        draft.name,
        as_models_see(draft.parts),
        draft.metadata,
        draft.tokens,
        draft.encoding,
        created_at=said_at,
        said_at=said_at,
        revision=1,
        answered=draft.answered,
    )
    return lexical.IndexEntry(thread.thread_uid, seq, draft.role, said_at, search_text(message))


def _said(draft: Draft, created_at: int, now: int) -> int:
    """The time as given; else when it was stored, which is never in the future, as created_at may be."""
    return draft.said_at if draft.said_at is not None else min(created_at, now)


def _marked(draft: Draft) -> dict[str, str | None]:
    if draft.mark is None:
        return {"turn": None, "turn_set": None}
    return {"turn": draft.mark.turn, "turn_set": draft.mark.set}


def _values(draft: Draft) -> dict[str, str | int | None]:
    return {
        "id": draft.id,
        "role": draft.role,
        "name": draft.name,
        "parts": to_json(draft.parts),
        "metadata": to_json(draft.metadata),
        "tokens": draft.tokens,
        "encoding": draft.encoding,
    }


async def _meet_again(
    tx: Tx, scope: Scope, thread: Thread, old: _KnownMessage, draft: Draft, replace_known: bool
) -> tuple[DraftOutcome, int]:
    """A draft whose id is there already. Returns what became of it, and the change of the thread's tokens."""
    if old.deletion_uid is not None:
        return DraftOutcome(old.id, old.seq, "deleted"), 0
    if draft.mark is not None:
        of = of_thread(scope, thread.thread_uid)
        await tx.run(_MARK, **of, at_seq=old.seq, new_turn=draft.mark.turn, new_set=draft.mark.set)
    values = _values(draft)
    # A message that was read can be sent again: then the parts whose other half is deleted are not among them.
    shown = old.parts
    if old.hidden_calls:
        shown = to_json(without(parts_of(old.parts), list_of(old.hidden_calls)))
    same_text = (old.role, old.name) == (values["role"], values["name"]) and (
        values["parts"] in (old.parts, shown) or await _is_same_but_erased(tx, scope, thread, old, draft)
    )
    same_rest = old.metadata == values["metadata"] and draft.said_at in (None, old.said_at)
    if same_text and (same_rest or not replace_known):
        return DraftOutcome(old.id, old.seq, "unchanged"), 0
    if not replace_known:
        raise Conflict(
            f"message {old.id!r} is stored with other content (seq {old.seq}): use another id, or replace=true to replace it"
        )
    if CUSTOM in (old.role, draft.role) and old.role != draft.role:
        raise Conflict(f"message {old.id!r} is stored with the role {old.role} (seq {old.seq}): use another id")
    changes = {f"new_{column}": value for column, value in values.items() if column != "id"}
    await tx.run(_REPLACE, **of_thread(scope, thread.thread_uid), **changes, at_seq=old.seq, new_said_at=draft.said_at)
    return DraftOutcome(old.id, old.seq, "replaced"), draft.tokens - old.tokens


async def _is_same_but_erased(tx: Tx, scope: Scope, thread: Thread, old: _KnownMessage, draft: Draft) -> bool:
    """Whether the draft has exactly the stored parts and halves of calls that an erasure took."""
    stored = parts_of(old.parts)
    lost = (call_ids(draft.parts) | result_ids(draft.parts)) - call_ids(stored) - result_ids(stored)
    if not lost or to_json(without(draft.parts, lost)) != old.parts:
        return False
    return lost == await find_erased_calls(tx, scope, thread.thread_uid, lost)
