"""The addition of messages of any known shape: they are parsed, masked, counted, and appended in one transaction."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from layerlore.memory.engine.engine import Engine, WriteRequest, work_on_long_text
from layerlore.memory.messages import overflow
from layerlore.memory.messages.message_answers import AddedMessages, SkippedEntry, StoredMessage, Totals
from layerlore.memory.messages.overflow import find_policy, may_trim
from layerlore.memory.observations import observation_text
from layerlore.memory.parts.message_shapes import IncomingMessage, read_messages
from layerlore.memory.parts.own_parts import list_unanswered
from layerlore.memory.parts.parts import part_texts
from layerlore.memory.rules.validation import check_metadata
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import CUSTOM, Draft, Json, Scope, StoredJson
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived.subjects import KEY, subject_in
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import GatheringRule, Kind
from layerlore.storage.messages import message_pages, orphans
from layerlore.storage.messages.message_rows import AppendResult, as_models_see
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import NewEvent
from layerlore.storage.threads.threads import Description

# More text than this, in characters, is prepared in a thread: the event loop must not wait for it.
_INLINE_CHARS = 4_000
DEBOUNCE_MS = 2_000
"""Milliseconds in which further messages join the work that a turn made due."""
GATHERED_MS, GATHERED = 900_000, 12
"""Turns in which a user only asks, thanks or greets wait until this many messages have gathered, or this time is over.
Any other turn makes them due with it."""
# The spoken messages before an answer in which the user's is searched for.
_BEFORE = 6

_EACH_TURN: tuple[Kind, ...] = ("entries", "profile", "session_memory")


async def add_messages(
    engine: Engine, scope: Scope, thread_id: str, raw: Any, *, replace: bool, sent: WriteRequest
) -> AddedMessages:
    """Append messages to a thread, all or none. Nothing is answered before the commit.

    Returns ``thread_id``, ``messages`` (id, seq, and status added | unchanged | replaced), ``skipped_deleted`` (ids of
    messages that were deleted, which are not stored again), ``skipped`` (index and reason of messages that say nothing,
    which are not stored), ``masked`` (how many secrets were masked) and the thread's
    ``totals``.

    Raises InvalidInput, LimitExceeded, Conflict.
    """
    read = read_messages(raw, engine.limits)
    incoming = read.messages
    skipped: list[SkippedEntry] = [{"index": each.index, "reason": each.reason} for each in read.skipped]
    # Messages that say nothing make no thread, so a new thread stays unknown.
    if not incoming:
        nothing: AddedMessages = {"thread_id": thread_id, "messages": []}
        if skipped:
            nothing["skipped"] = skipped
        nothing["totals"] = await _read_totals(engine, scope, thread_id)
        return nothing
    body = [
        [each.id, each.role, each.name, each.parts, each.metadata, each.created_at]
        + ([each.mark.turn, each.mark.set] if each.mark else [])
        for each in incoming
    ]
    now, new_uid = engine.now(), engine.new_id()
    # Prepared before the transaction, in which other writers of the thread wait for its lock.
    answered = await _read_answered(engine, scope, thread_id, incoming)
    drafts, masked = await make_drafts(engine, incoming, now, answered)

    async def write(tx: Tx) -> AddedMessages:
        appended = await orphans.add_beside_deleted(
            tx,
            scope,
            thread_id,
            drafts,
            new_uid=new_uid,
            replace_known=replace,
            now=now,
            search_text=engine.search_text_of,
            origin=sent.origin,
        )
        # Jobs are requested in this transaction: none is lost if the process ends after the commit.
        noted = await observation_text.request_observation(
            tx, scope, appended.thread, appended.more_raw, engine.observation, now=now
        )
        await request_turn_work(tx, engine, scope, appended, drafts, now=now)
        named = await _name_subject(tx, engine, scope, appended, drafts, now=now)
        if happened := [*noted, *named]:
            await events.record(tx, scope, appended.thread, happened, origin=sent.origin, now=now)
        return _answer(appended, masked)

    answer = await engine.write(scope, sent, [body, replace], now, write)
    if skipped:
        answer["skipped"] = skipped
    return answer


async def _read_totals(engine: Engine, scope: Scope, thread_id: str) -> Totals:
    """The totals of a thread to which nothing is added; those of one that does not exist are 0."""
    try:
        thread = await engine.database.read(threads.find, scope, thread_id)
    except NotFound:
        return {"messages": 0, "tokens": 0}
    return {"messages": thread.message_count, "tokens": thread.token_count}


async def _name_subject(
    tx: Tx, engine: Engine, scope: Scope, appended: AppendResult, drafts: Sequence[Draft], *, now: int
) -> list[NewEvent]:
    """Give a thread the subject that its first message names, unless it has one. Returns the events of that."""
    first = appended.stored[0]
    subject = subject_in(drafts[0].metadata)
    # A later message must not move the thread, and what is remembered of it, to another subject.
    if (first.seq, first.status) != (1, "added") or not subject or subject_in(appended.thread.metadata):
        return []
    change = Description(None, {KEY: subject})
    uid = appended.thread.thread_uid
    await threads.describe(
        tx,
        scope,
        appended.thread.thread_id,
        change,
        new_uid=uid,
        now=now,
        check=lambda merged: check_metadata(merged, "metadata", engine.limits),
    )
    return [NewEvent("thread_updated", {"changed": ["metadata"]})]


async def _read_answered(
    engine: Engine, scope: Scope, thread_id: str, incoming: Sequence[IncomingMessage]
) -> list[Json]:
    """The calls that are stored already and that results among the messages answer."""
    ids = list_unanswered(part for message in incoming for part in message.parts)
    if ids:
        return await engine.database.read(message_pages.of_next, scope, thread_id, ids)
    return []


async def make_drafts(
    engine: Engine, incoming: list[IncomingMessage], now: int, answered: Sequence[Json] = ()
) -> tuple[list[Draft], int]:
    """Mask parsed messages, count their tokens and make their search text. Returns the drafts, and how many secrets
    were masked. ``answered``: calls of messages before them that their results answer."""
    size = sum(len(text) for message in incoming for part in message.parts for text in part_texts(part))
    if size <= _INLINE_CHARS:
        return _make_drafts(engine, incoming, now, answered)
    return await work_on_long_text(_make_drafts, engine, incoming, now, answered)


def _make_drafts(
    engine: Engine, incoming: list[IncomingMessage], now: int, answered: Sequence[Json]
) -> tuple[list[Draft], int]:
    entered = [_mask(engine, message) for message in incoming]
    # A result is found by the words of its call, too, which may be in an earlier message.
    calls = _list_answered([each.parts for each in entered], answered)
    drafts: list[Draft] = []
    for message, masked, of_others in zip(incoming, entered, calls, strict=True):
        seen = as_models_see(masked.parts)
        if message.created_at is not None:
            said_at = message.created_at
        else:
            said_at = now
        draft = Draft(
            id=message.id or engine.new_id(),
            has_new_id=not message.id,
            role=message.role,
            name=masked.name,
            parts=masked.parts,
            metadata=masked.metadata,
            said_at=message.created_at,
            # A custom message is never shown to a model, so it takes no room of a context.
            tokens=0 if message.role == CUSTOM else engine.tokens.parts(seen),
            encoding=engine.tokens.name,
            indexed=engine.search_text(masked.name, seen, masked.metadata, said_at, of_others),
            answered=of_others,
            mark=message.mark,
        )
        drafts.append(draft)
    return drafts, sum(masked.secrets for masked in entered)


def _list_answered(messages: Sequence[list[Json]], before: Sequence[Json]) -> list[tuple[Json, ...]]:
    """For the parts of each message the calls of others before it that its results answer, the latest of each id."""
    called = {part["id"]: part for part in before}
    found = []
    for parts in messages:
        found.append(tuple(called[call_id] for call_id in sorted(list_unanswered(parts)) if call_id in called))
        called |= {part["id"]: part for part in parts if part["type"] == "tool_call"}
    return found


@dataclass(frozen=True, slots=True)
class _MaskedMessage:
    """A message with its secrets masked, and their number."""

    name: str | None
    parts: list[StoredJson]
    metadata: StoredJson
    secrets: int


def _mask(engine: Engine, message: IncomingMessage) -> _MaskedMessage:
    name, in_name = engine.masked(message.name) if message.name else (message.name, 0)
    metadata, in_metadata = engine.masked(message.metadata)
    parts, in_parts = engine.masked_parts(message.parts)
    return _MaskedMessage(name, parts, metadata, in_name + in_metadata + in_parts)


def _answer(appended: AppendResult, masked: int) -> AddedMessages:
    thread = appended.thread
    kept: list[StoredMessage] = []
    skipped: list[str] = []
    for stored in appended.stored:
        if stored.status == "deleted":
            skipped.append(stored.id)
        else:
            kept.append({"id": stored.id, "seq": stored.seq, "status": stored.status})
    answer: AddedMessages = {"thread_id": thread.thread_id, "messages": kept}
    if skipped:
        answer["skipped_deleted"] = skipped
    if masked:
        answer["masked"] = masked
    answer["totals"] = {"messages": thread.message_count, "tokens": thread.token_count}
    return answer


def count_added(answer: AddedMessages) -> AddedMessages:
    """The answer of ``add_messages`` in few tokens, for a model that reads it each turn: how many messages were stored, and
    their seqs as ranges (``14-15``)."""
    statuses = Counter(message["status"] for message in answer["messages"])
    seqs = _render_ranges([message["seq"] for message in answer["messages"]])
    counted: AddedMessages = {"stored": statuses["added"], "seqs": seqs}
    if statuses["unchanged"]:
        counted["unchanged"] = statuses["unchanged"]
    if statuses["replaced"]:
        counted["replaced"] = statuses["replaced"]
    rest = answer.copy()
    rest.pop("thread_id", None)
    rest.pop("messages", None)
    rest.pop("totals", None)
    return {**counted, **rest}


def _render_ranges(seqs: Sequence[int]) -> str:
    """``3, 14-15``: numbers in the order in which they stand, those that follow each other as one range."""
    ranges: list[list[int]] = []
    for seq in seqs:
        if ranges and seq == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], seq]
        else:
            ranges.append([seq])
    return ", ".join("-".join(map(str, each)) for each in ranges)


async def request_turn_work(
    tx: Tx, engine: Engine, scope: Scope, appended: AppendResult, drafts: Sequence[Draft], *, now: int
) -> None:
    """Ask for the work that the end of a turn makes due, in the append's transaction and with one statement.

    A turn ends with an assistant's message after a user's. Work that finds nothing to do is done.
    """
    thread = appended.thread
    if not _ends_turn(appended, drafts):
        return
    seq, soon_at = thread.next_seq - 1, now + DEBOUNCE_MS
    is_small = not await _says_something(tx, scope, appended, drafts)
    if is_small:
        turn_at = now + GATHERED_MS
    else:
        turn_at = soon_at
    # A profile is a person's: what a project's conversations say makes none.
    unwanted = {"" if engine.entries.enabled else "entries", "profile" if scope.person else ""}
    each_turn = [kind for kind in _EACH_TURN if kind not in unwanted]
    at_once: list[Kind] = []
    if engine.titles.enabled and thread.title is None and thread.title_by is None:
        at_once.append("title")
    if may_trim(find_policy(engine, thread), thread):
        at_once.append("summary")
    await job_rows.request_many(
        tx,
        scope,
        thread.thread_uid,
        [*((kind, seq, turn_at) for kind in each_turn), *((kind, seq, soon_at) for kind in at_once)],
        now=now,
        gathering=GatheringRule(soon_at, GATHERED) if is_small else None,
    )


async def _says_something(tx: Tx, scope: Scope, appended: AppendResult, drafts: Sequence[Draft]) -> bool:
    """Whether the user says something in the turn that ends, or the assistant worked with tools in it."""
    added = _list_added(appended, drafts)
    if any(overflow.works(draft.parts) for draft, _ in added):
        return True
    user_words = [draft.parts for draft, _ in added if draft.role == "user"]
    if not user_words:
        # A host may send the user's message and the answer in two calls.
        before = await message_pages.read_spoken_before(tx, scope, appended.thread, upto=added[0][1] - 1, most=_BEFORE)
        since: list[list[Json]] = []
        for message in reversed(before):
            if message.role == "user":
                user_words = [message.parts]
                break
            since.append(message.parts)
        # Rather a job without a result than a turn that is never read.
        if not user_words or any(map(overflow.works, since)):
            return True
    return any(map(overflow.tells, user_words))


def _list_added(appended: AppendResult, drafts: Sequence[Draft]) -> list[tuple[Draft, int]]:
    """The messages that were not there before, each with its seq."""
    return [
        (draft, stored.seq) for draft, stored in zip(drafts, appended.stored, strict=True) if stored.status == "added"
    ]


def _ends_turn(appended: AppendResult, drafts: Sequence[Draft]) -> bool:
    added = _list_added(appended, drafts)
    # Behind an earlier message the user's part of the turn may be stored already.
    user_spoke = bool(added) and added[0][1] > 1
    for draft, _ in added:
        if draft.role == "user":
            user_spoke = True
        elif user_spoke and draft.role == "assistant" and _answers(draft):
            return True
    return False


def _answers(draft: Draft) -> bool:
    """Whether a message says something, and waits for no tool."""
    done = {part["tool_call_id"] for part in draft.parts if part["type"] == "tool_result"}
    waits = any(part["type"] == "tool_call" and part["id"] not in done for part in draft.parts)
    return not waits and any(part["type"] == "text" and part["text"].strip() for part in draft.parts)
