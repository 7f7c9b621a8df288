"""Threads as a caller lists and describes them."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from layerlore.memory.acceptance import check_metadata, check_text
from layerlore.memory.ages import iso
from layerlore.memory.clock_mending import read_mended
from layerlore.memory.cursors import cursor_of, opened
from layerlore.memory.engine import Engine, Sent
from layerlore.memory.pages import fitting
from layerlore.memory.quoting import visible
from layerlore.memory.usage import shown_spent
from layerlore.memory.window.setting import stored_policy
from layerlore.storage import events, threads, usage
from layerlore.storage.damaged import value_of
from layerlore.storage.errors import InvalidInput, LimitExceeded, NotFound
from layerlore.storage.events import NewEvent
from layerlore.storage.records import Json, Scope, Thread
from layerlore.storage.threads import Description, OrderBy
from layerlore.storage.transaction import Tx

# The databases' integers have 64 bits.
_LARGEST = 2**63


def shown_thread(thread: Thread) -> Json:
    """A thread as an answer has it."""
    return {
        "thread_id": thread.thread_id,
        **({"title": title} if (title := visible(thread.title or "")) else {}),
        **({"metadata": thread.metadata} if thread.metadata else {}),
        **({"window": value_of(thread.window_policy)} if thread.window_policy else {}),
        "messages": thread.message_count,
        "tokens": thread.token_count,
        "created_at": iso(thread.created_at),
        "updated_at": iso(thread.updated_at),
    }


async def get_thread(engine: Engine, scope: Scope, thread_id: str) -> Json:
    """One thread by its id; none where it is unknown."""

    async def read(tx: Tx, scope: Scope) -> _Listed:
        try:
            found = await threads.find(tx, scope, thread_id)
        except NotFound:
            return _Listed([], [], None)
        return await _with_usage(tx, scope, [found])

    return {"threads": (await read_mended(engine, scope, read, lambda listed: listed.threads)).shown}


class _Listed(NamedTuple):
    """Threads, the same as an answer has them, and where the next page begins."""

    threads: Sequence[Thread]
    shown: list[Json]
    after: tuple[Any, str] | None


async def _with_usage(tx: Tx, scope: Scope, found: Sequence[Thread], after: tuple[Any, str] | None = None) -> _Listed:
    """With what was spent in those where anything was."""
    spent = await usage.of_threads(tx, scope, [thread.thread_uid for thread in found])
    shown = {uid: {"usage": shown_spent(sums)} for uid, sums in spent.items()}
    rows = [{**shown_thread(thread), **shown.get(thread.thread_uid, {})} for thread in found]
    return _Listed(found, rows, after)


async def list_threads(
    engine: Engine,
    scope: Scope,
    *,
    metadata: Json,
    order_by: OrderBy,
    descending: bool,
    limit: int,
    cursor: str,
) -> Json:
    """Threads whose metadata has every given key with an equal value; ``next_cursor`` continues.

    Raises InvalidInput, LimitExceeded.
    """
    check_metadata(metadata, "metadata", engine.limits)
    order = [order_by, descending, metadata]
    place = _place(cursor, order) if cursor else None

    async def read(tx: Tx, scope: Scope) -> _Listed:
        found, after = await threads.listed(
            tx, scope, metadata=metadata, order_by=order_by, descending=descending, after=place, limit=limit
        )
        return await _with_usage(tx, scope, found, after)

    listed = await read_mended(engine, scope, read, lambda listed: listed.threads)
    shown, after = fitting(listed.shown, engine.limits.answer_bytes), listed.after
    if len(shown) < len(listed.shown):
        last = listed.threads[len(shown) - 1]
        after = threads.order_value(last, order_by), last.thread_uid
    return {
        "threads": shown,
        **({"next_cursor": cursor_of([order, *after])} if after else {}),
    }


def _place(cursor: str, order: list[Any]) -> tuple[Any, str]:
    unknown = InvalidInput("cursor: not one that list_threads gave; leave it out to begin at the first page")
    place = opened(cursor, unknown)
    if not isinstance(place, list) or len(place) != 3:
        raise unknown
    made_for, value, uid = place
    if made_for != order:
        raise InvalidInput("cursor: it belongs to a listing with other arguments; repeat them, or leave the cursor out")
    fits = isinstance(value, str) if order[0] == "title" else type(value) is int and abs(value) < _LARGEST
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
    sent: Sent,
) -> Json:
    """Set the title ("" removes it), merge into the metadata (RFC 7396), and set the window's policy ("" removes it;
    else as ``window.setting`` reads it), making the thread if it is absent. What is None stays.

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
    policy, in_policy = stored_policy(engine, window) if window is not None else (None, 0)
    change, masked = Description(new_title, patch, policy), in_title + in_metadata + in_policy
    now, new_uid = engine.now(), engine.new_id()

    async def write(tx: Tx) -> Json:
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
        told = NewEvent("thread_updated", {"thread_id": thread_id, "changed": changed})
        await events.record_of_resource(tx, scope, told, thread_uid=thread.thread_uid, origin=sent.origin, now=now)
        # What is kept for a repeated request holds no text: what was written is added to the answer below.
        bare = replace(thread, title=None, metadata={}, window_policy=None)
        return {**shown_thread(bare), **({"masked": masked} if masked else {})}

    answer = await engine.write(scope, sent, [title, metadata, window], now, write)
    with contextlib.suppress(NotFound):  # deleted since the first of the repeated requests
        answer = {**answer, **shown_thread(await engine.database.read(threads.find, scope, thread_id))}
    return answer
