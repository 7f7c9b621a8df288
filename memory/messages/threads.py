"""Threads as a caller lists and describes them, with the policy of their window."""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.messages.message_answers import (
    ListedThread,
    MaskedSecrets,
    ThreadNaming,
    ThreadPage,
    ThreadRow,
    ThreadsFound,
    ThreadUsage,
    ThreadWindow,
    UpdatedThread,
)
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.answers import fit_entries, read_cursor, write_cursor
from layerlore.memory.rules.validation import (
    MOST_INTEGER,
    check_metadata,
    check_text,
    count_json_bytes,
    describe,
    load_json,
)
from layerlore.memory.text.quotation import make_visible
from layerlore.memory.usage.model_usage import present_spent
from layerlore.memory.window.policy import WindowPolicy, dump_policy, read_policy
from layerlore.storage.audit import usage_rows
from layerlore.storage.core.errors import InvalidInput, LimitExceeded, NotFound, StorageUnavailable
from layerlore.storage.core.json_text import to_json, value_of
from layerlore.storage.core.records import Json, Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.threads import events, threads
from layerlore.storage.threads import threads as thread_lists
from layerlore.storage.threads.events import NewEvent
from layerlore.storage.threads.threads import Description, OrderBy, is_ahead, mend

T = TypeVar("T")


async def read_repaired(
    engine: Engine,
    scope: Scope,
    read: Callable[[Tx, Scope], Awaitable[T]],
    threads_in: Callable[[T], Iterable[Thread]],
) -> T:
    """Read; if threads in the answer lie in the future, bring them back and read again. Raises what ``read`` raises."""
    found = await engine.database.read(read, scope)
    now = engine.now()
    uids = [thread.thread_uid for thread in threads_in(found) if is_ahead(thread, now)]
    if not uids:
        return found
    # While nothing can be written, an answer with wrong times is better than none.
    with suppress(StorageUnavailable):
        await engine.database.write(_mend_all, scope, uids, now)
        found = await engine.database.read(read, scope)
    return found


async def _mend_all(tx: Tx, scope: Scope, uids: list[str], now: int) -> None:
    # Locked in one order, so that two calls never wait for each other.
    for uid in sorted(uids):
        if (thread := await threads.lock_uid(tx, scope, uid)) is not None:
            await mend(tx, scope, thread, now)


WINDOW = "window"
PROFILE = "profile"

FORMS = (
    'the name of a profile, an object of a policy\'s fields (with "profile": NAME over that profile, else over the '
    'server\'s default), or "" or null to remove it'
)


def show_thread(thread: Thread) -> ThreadRow:
    """A thread as an answer has it."""
    naming: ThreadNaming = {}
    title = make_visible(thread.title or "")
    if title:
        naming["title"] = title
    if thread.metadata:
        naming["metadata"] = thread.metadata
    window: ThreadWindow = {}
    if thread.window_policy:
        window["window"] = value_of(thread.window_policy)
    return {
        "thread_id": thread.thread_id,
        **naming,
        **window,
        "messages": thread.message_count,
        "tokens": thread.token_count,
        "created_at": iso(thread.created_at),
        "updated_at": iso(thread.updated_at),
    }


async def get_thread(engine: Engine, scope: Scope, thread_id: str) -> ThreadPage:
    """Read one thread by its id; the list is empty where it is unknown."""

    async def read(tx: Tx, scope: Scope) -> _ThreadList:
        try:
            found = await threads.find(tx, scope, thread_id)
        except NotFound:
            return _ThreadList([], [], None)
        return await _add_usage(tx, scope, [found])

    return {"threads": (await read_repaired(engine, scope, read, lambda listed: listed.threads)).shown}


class _ThreadList(NamedTuple):
    """Threads as rows and as an answer has them, and where the next page begins."""

    threads: Sequence[Thread]
    shown: list[ListedThread]
    after: tuple[Any, str] | None


async def _add_usage(
    tx: Tx, scope: Scope, found: Sequence[Thread], after: tuple[Any, str] | None = None
) -> _ThreadList:
    """Show the threads, with the usage of those that have any."""
    spent = await usage_rows.of_threads(tx, scope, [thread.thread_uid for thread in found])
    rows: list[ListedThread] = []
    for thread in found:
        used: ThreadUsage = {}
        if thread.thread_uid in spent:
            used["usage"] = present_spent(spent[thread.thread_uid])
        rows.append({**show_thread(thread), **used})
    return _ThreadList(found, rows, after)


async def list_threads(
    engine: Engine,
    scope: Scope,
    *,
    metadata: Json,
    order_by: OrderBy,
    descending: bool,
    limit: int,
    cursor: str,
) -> ThreadPage:
    """List threads whose metadata has every given key with an equal value; ``next_cursor`` continues.

    Raises InvalidInput, LimitExceeded.
    """
    check_metadata(metadata, "metadata", engine.limits)
    order = [order_by, descending, metadata]
    if cursor:
        place = _parse_place(cursor, order)
    else:
        place = None
    wanted = threads.ThreadFilter(metadata=metadata, order_by=order_by, descending=descending)

    async def read(tx: Tx, scope: Scope) -> _ThreadList:
        found, after = await threads.read_page(tx, scope, wanted, after=place, limit=limit)
        return await _add_usage(tx, scope, [each.thread for each in found], after)

    listed = await read_repaired(engine, scope, read, lambda listed: listed.threads)
    shown, after = fit_entries(listed.shown, engine.limits.answer_bytes), listed.after
    if len(shown) < len(listed.shown):
        # The cursor names the last thread that is shown, not the last one that was read.
        last = listed.threads[len(shown) - 1]
        after = threads.order_value(last, order_by), last.thread_uid
    page: ThreadPage = {"threads": shown}
    if after:
        page["next_cursor"] = write_cursor([order, *after])
    return page


async def find_threads(engine: Engine, scope: Scope, *, query: str, offset: int, limit: int) -> ThreadsFound:
    """The threads at a place of the list, changed last first, and in ``total`` how many it has; with a ``query`` those alone
    whose title or id has each of its words, whatever their case. There may be fewer than wanted, where they are large."""
    words = check_text(query, "query").casefold().split()

    def fits(thread_id: str, title: str) -> bool:
        folded = f"{title} {thread_id}".casefold()
        return all(word in folded for word in words)

    total = 0

    async def read(tx: Tx, scope: Scope) -> _ThreadList:
        nonlocal total
        if words:
            total, found = await thread_lists.search_at(tx, scope, fits, offset, limit)
        else:
            total, found = await thread_lists.read_at(tx, scope, offset, limit)
        return await _add_usage(tx, scope, found)

    listed = await read_repaired(engine, scope, read, lambda listed: listed.threads)
    return {"threads": fit_entries(listed.shown, engine.limits.answer_bytes), "total": total}


def _parse_place(cursor: str, order: list[Any]) -> tuple[Any, str]:
    unknown = InvalidInput("cursor: not one that list_threads gave; leave it out to begin at the first page")
    place = read_cursor(cursor, unknown)
    if not isinstance(place, list) or len(place) != 3:
        raise unknown
    made_for, value, uid = place
    # The place is a value of the column that the list was sorted by: in another order it means nothing.
    if made_for != order:
        raise InvalidInput("cursor: it belongs to a listing with other arguments; repeat them, or leave the cursor out")
    if order[0] == "title":
        fits = isinstance(value, str)
    else:
        # The database refuses larger numbers, and a bool passes for an int.
        fits = type(value) is int and abs(value) <= MOST_INTEGER
    if not fits or not isinstance(uid, str):
        raise unknown
    return check_text(value, "cursor") if isinstance(value, str) else value, check_text(uid, "cursor")


async def update_thread(
    engine: Engine,
    scope: Scope,
    thread_id: str,
    *,
    title: str | None,
    metadata: Json | None,
    window: Any = None,
    sent: WriteRequest,
) -> UpdatedThread:
    """Set the title ("" removes it), merge into the metadata (RFC 7396), and set the window's policy ("" removes it;
    else see ``make_stored_policy``), making the thread if it is absent. A value of None changes nothing.

    Returns the thread, and in ``masked`` how many secrets were masked.

    Raises InvalidInput, LimitExceeded, Conflict.
    """
    limits = engine.limits
    if title is not None:
        title = check_text(title, "title").strip()
        if len(title) > limits.title_chars:
            raise LimitExceeded(f"title: {len(title)} characters; at most {limits.title_chars} are allowed")
    if metadata is not None:
        check_metadata(metadata, "metadata", limits)
    new_title, in_title = engine.masked(title)
    patch, in_metadata = engine.masked(metadata)
    policy, in_policy = make_stored_policy(engine, window) if window is not None else (None, 0)
    change, masked = Description(new_title, patch, policy), in_title + in_metadata + in_policy
    now, new_uid = engine.now(), engine.new_id()

    async def write(tx: Tx) -> UpdatedThread:
        thread = await threads.describe(
            tx,
            scope,
            thread_id,
            change,
            new_uid=new_uid,
            now=now,
            check=lambda merged: check_metadata(merged, "metadata after merging", limits),
        )
        given = (("title", title), ("metadata", metadata), ("window", policy))
        changed = [name for name, value in given if value is not None]
        updated = NewEvent("thread_updated", {"changed": changed})
        await events.record(tx, scope, thread, [updated], origin=sent.origin, now=now)
        # The log of the resource has it, too, for readers that follow no single thread.
        for_resource = NewEvent("thread_updated", {"thread_id": thread_id, "changed": changed})
        await events.record_of_resource(
            tx, scope, for_resource, thread_uid=thread.thread_uid, origin=sent.origin, now=now
        )
        # The stored answer for a repeated request holds no text: what was written is added to the answer below.
        bare = replace(thread, title=None, metadata={}, window_policy=None)
        secrets: MaskedSecrets = {}
        if masked:
            secrets["masked"] = masked
        return {**show_thread(bare), **secrets}

    answer = await engine.write(scope, sent, [title, metadata, window], now, write)
    with contextlib.suppress(NotFound):  # deleted since the first of the repeated requests
        answer = {**answer, **show_thread(await engine.database.read(threads.find, scope, thread_id))}
    return answer


def make_stored_policy(engine: Engine, raw: Any) -> tuple[str, int]:
    """The JSON to store for a profile's name or an object of a policy's fields ("" for "", which removes it), and how
    many secrets were masked.

    An object becomes a whole policy: the values of its profile or of the server's default are stored with it.

    Raises InvalidInput, LimitExceeded.
    """
    given = _read(raw)
    if given == "":
        return "", 0
    if isinstance(given, str):
        engine.windows.profile(given, WINDOW)
        return to_json(given), 0
    check_metadata(given, WINDOW, engine.limits)
    policy, masked = _policy(engine, given)
    size = count_json_bytes(policy)
    if size > engine.limits.metadata_bytes:
        raise LimitExceeded(
            f"{WINDOW}: {size:,} bytes of JSON with what it is set over; "
            f"at most {engine.limits.metadata_bytes:,} are allowed"
        )
    return to_json(policy), masked


def _read(raw: Any) -> Json | str:
    if isinstance(raw, str):
        raw = check_text(raw, WINDOW).strip()
        if raw.startswith("{"):
            try:
                raw = load_json(raw, WINDOW)
            except ValueError as error:
                raise InvalidInput(f"{WINDOW}: it cannot be read as JSON: {error}; allowed: {FORMS}") from None
    if not isinstance(raw, str | dict):
        raise InvalidInput(f"{WINDOW}: must be {FORMS}, not {describe(raw)}")
    return raw


def _policy(engine: Engine, given: Json) -> tuple[Json, int]:
    fields = {key: value for key, value in given.items() if key != PROFILE}
    name = given.get(PROFILE)
    if name is not None and not isinstance(name, str):
        raise InvalidInput(f"{WINDOW}.{PROFILE}: must be the name of a profile, not {describe(name)}")
    if name is None:
        base = engine.windows.default
    else:
        base = engine.windows.profile(name, f"{WINDOW}.{PROFILE}")
    masked = 0

    def mask(parts: list[Json]) -> tuple[list[Json], int]:
        nonlocal masked
        clean, found = engine.masked_parts(parts)
        masked += found
        return clean, found

    policy = dump_policy(read_policy(fields, WINDOW, base, engine.tokens, engine.limits, mask))
    # Masking makes text longer: what is stored must be within the limits, too, or it could not be read again.
    read_policy(policy, WINDOW, WindowPolicy(), engine.tokens, engine.limits, engine.masked_parts)
    return policy, masked
