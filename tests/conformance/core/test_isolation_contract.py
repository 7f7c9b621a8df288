"""What belongs to another scope and what does not exist at all give one and the same answer, from every function."""

import inspect
import pkgutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from layerlore import storage
from layerlore.storage.audit import daily_calls, idempotency, journal_rows, usage_rows
from layerlore.storage.audit.daily_calls import CallCount
from layerlore.storage.audit.idempotency import Request
from layerlore.storage.audit.journal_rows import JournalLine
from layerlore.storage.audit.usage_rows import UsageLine, UsageSums
from layerlore.storage.core.index_rows import IndexedRow
from layerlore.storage.core.records import ROLES, Json, Message, Origin, Scope, Tenant, Thread
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.derived import observations, subjects, working_memory
from layerlore.storage.derived.observations import Cursor
from layerlore.storage.index import lexical, vectors
from layerlore.storage.jobs import job_rows
from layerlore.storage.messages import indexed_rows, message_pages, message_rows, orphans, windows
from layerlore.storage.removal import deletions
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import NewEvent
from layerlore.storage.threads.threads import Description
from layerlore.storage.work import plans, runs, steps
from layerlore.storage.work.runs import NO_ANSWERS, Checkpoint, Run, RunClaim, RunEnd, RunFilter
from layerlore.storage.work.steps import NewAttempt, NewStep

from ..building import ANA, NOW, draft, drop, indexed, rows, say, search_text, tool_call, tool_result, uid
from ..derivation_calls import SILENT as SILENT_OF_DERIVATIONS
from ..derivation_calls import derivation_calls
from ..document_calls import SILENT as SILENT_OF_DOCUMENTS
from ..document_calls import TABLES as TABLES_OF_DOCUMENTS
from ..document_calls import distilled, document_calls
from ..entry_calls import SILENT, entry_calls, remembered
from ..erasing_calls import SILENT as SILENT_OF_ERASING
from ..erasing_calls import acted, erasing_calls
from ..moving_calls import SILENT as SILENT_OF_MOVING
from ..moving_calls import moving_calls
from ..note_calls import SILENT as SILENT_OF_NOTES
from ..note_calls import note_calls, noted
from ..observation_calls import SILENT as SILENT_OF_OBSERVATIONS
from ..observation_calls import observation_calls, observed
from ..reading_calls import reading_calls
from ..redacting_calls import redacting_calls
from ..vectoring import DIMENSION, MODEL, embed_all, new, unit

pytestmark = pytest.mark.anyio

TABLES = (
    "threads",
    "messages",
    "search_rows",
    "search_vectors",
    "deletions",
    "erased_ids",
    "undo_parts",
    "idempotency",
    "resources",
    "events",
    "resource_events",
    "steps",
    "usage",
    "daily_usage",
    "daily_calls",
    "runs",
    "plans",
    "attempts",
    "session_memories",
    "user_profiles",
    "jobs",
    "job_turns",
    "entries",
    "entry_sources",
    "observations",
    *TABLES_OF_DOCUMENTS,
)
# Each differs from ANA by one name.
STRANGERS = (Scope("local", "agent", "ben"), Scope("local", "other", "ana"), Scope("other", "agent", "ana"))

Call = Callable[[Tx, Scope], Awaitable[Any]]


@dataclass(frozen=True)
class Known:
    """What a stranger may have got to know about ANA's data."""

    thread_uid: str
    deletion_uid: str
    row_ids: Sequence[int]


def calls(known: Known) -> dict[str, Call]:
    """Every public function of the stores that takes a scope, with arguments that name ANA's things."""
    made = Thread(known.thread_uid, "main", None)
    said = replace(made, next_seq=9)

    async def kept(_: Tx) -> Json:
        return {"answer": "new"}

    return {
        "orphans.add_beside_deleted": lambda tx, who: orphans.add_beside_deleted(
            tx,
            who,
            "main",
            [_A, _T],
            new_uid=known.thread_uid,
            replace_known=True,
            now=NOW,
            search_text=search_text,
        ),
        "steps.read_attempts": lambda tx, who: steps.read_attempts(tx, who, "main", task_key="", limit=9),
        "steps.read_attempts, of a task": lambda tx, who: steps.read_attempts(tx, who, "main", task_key="k", limit=9),
        "steps.log": lambda tx, who: steps.log(tx, who, "main", _TRIED, new_uid=known.thread_uid, now=NOW),
        "steps.read_newest": lambda tx, who: steps.read_newest(tx, who, said, task_key="", limit=9),
        "events.look": lambda tx, who: events.look(
            tx, who, events.WatchRequest({"main": None}, ["r"], True, 0, totals=True)
        ),
        "threads.mend": lambda tx, who: threads.mend(tx, who, replace(said, updated_at=2 * NOW), NOW),
        "threads.run_ids": lambda tx, who: threads.run_ids(tx, who, "", most=9),
        "threads.thread_ids": lambda tx, who: threads.thread_ids(tx, who, "", most=9),
        "threads.count_scope": threads.count_scope,
        "deletions.delete_messages": lambda tx, who: _delete(tx, who, "ids", ["a"]),
        "deletions.delete_messages, all": lambda tx, who: _delete(tx, who, "all", []),
        "deletions.delete_messages, last_turn": lambda tx, who: _delete(tx, who, "last_turn", []),
        "deletions.delete_thread": lambda tx, who: deletions.delete_thread(
            tx, who, "main", deletion_uid="d", erase=True, now=NOW
        ),
        "message_pages.find_copied": lambda tx, who: message_pages.find_copied(tx, who, "other", {"a": NOW}),
        "message_rows.find_erased_ids": lambda tx, who: message_rows.find_erased_ids(tx, who, known.thread_uid, ["y"]),
        "message_rows.find_erased_calls": lambda tx, who: message_rows.find_erased_calls(
            tx, who, known.thread_uid, ["c9"]
        ),
        "message_rows.keep_erased_ids": lambda tx, who: message_rows.keep_erased_ids(
            tx, who, known.thread_uid, known.deletion_uid, []
        ),
        "events.last_of_resource": events.last_of_resource,
        "events.read_page": lambda tx, who: events.read_page(tx, who, "main", after=0, types=[], limit=9),
        "events.read_page, of a type": lambda tx, who: events.read_page(tx, who, "main", after=0, types=["e"], limit=9),
        "events.read_page_of_resource": lambda tx, who: events.read_page_of_resource(
            tx, who, after=0, types=[], limit=9
        ),
        "events.record": lambda tx, who: events.record(tx, who, made, [NewEvent("e")], origin=_ORIGIN, now=NOW),
        "events.record_counted": lambda tx, who: events.record_counted(
            tx, who, made, [NewEvent("e")], 1, origin=_ORIGIN, now=NOW
        ),
        "events.record_of_resource": lambda tx, who: events.record_of_resource(
            tx, who, NewEvent("e"), origin=_ORIGIN, now=NOW
        ),
        "events.record_of_resource, of a thread": lambda tx, who: events.record_of_resource(
            tx, who, NewEvent("e"), thread_uid=known.thread_uid, origin=_ORIGIN, now=NOW
        ),
        "idempotency.once": lambda tx, who: idempotency.once(tx, who, Request("k", "other body"), NOW, kept),
        "job_rows.claim_in": lambda tx, who: job_rows.claim_in(
            tx, who, job_rows.KINDS, holder="new", now=NOW, lease_ms=9
        ),
        "job_rows.claim_beside": lambda tx, who: job_rows.claim_beside(
            tx, who, known.thread_uid, job_rows.KINDS, holder="new", now=NOW, lease_ms=9, also_at=0
        ),
        "job_rows.list_held": lambda tx, who: job_rows.list_held(tx, who, job_rows.KINDS, holder="old", now=NOW),
        "job_rows.forget_thread": lambda tx, who: job_rows.forget_thread(tx, who, known.thread_uid),
        "job_rows.find_held": lambda tx, who: job_rows.find_held(tx, who, known.thread_uid, "observe", 1),
        "job_rows.request": lambda tx, who: job_rows.request(
            tx, who, known.thread_uid, "observe", 9, due_at=NOW, now=NOW, revive=True
        ),
        "job_rows.request_many": lambda tx, who: job_rows.request_many(
            tx, who, known.thread_uid, [("observe", 9, NOW)], now=NOW
        ),
        "job_rows.resume": lambda tx, who: job_rows.resume(tx, who, None, NOW),
        "job_rows.list_waiting": lambda tx, who: job_rows.list_waiting(tx, who, NOW),
        "journal_rows.append": lambda tx, who: journal_rows.append(tx, who, _JOURNALED),
        "message_rows.append": lambda tx, who: message_rows.append(
            tx,
            who,
            "main",
            [_A, _T],
            new_uid=known.thread_uid,
            replace_known=True,
            now=NOW,
            search_text=search_text,
        ),
        "message_pages.page": lambda tx, who: message_pages.page(tx, who, "main", roles=ROLES, limit=9),
        "message_pages.find_turn": lambda tx, who: message_pages.find_turn(tx, who, "main", "t1"),
        "message_pages.fill": lambda tx, who: message_pages.fill(
            tx, who, "main", message_pages.Light, roles=ROLES, limit=9
        ),
        **derivation_calls(known.thread_uid, known.deletion_uid),
        **document_calls(known.thread_uid),
        **entry_calls(known.thread_uid),
        **observation_calls(known.thread_uid),
        **erasing_calls(known.thread_uid),
        **reading_calls(known.thread_uid),
        **moving_calls(known.thread_uid),
        **note_calls(made),
        **redacting_calls(known.thread_uid),
        "message_pages.ids_there": lambda tx, who: message_pages.ids_there(tx, who, known.thread_uid, ["a", "b"]),
        "windows.whole": lambda tx, who: _whole(tx, who, known.thread_uid),
        "windows.state_between": lambda tx, who: windows.state_between(tx, who, said, after=0, before=99),
        "windows.neighbours": lambda tx, who: windows.neighbours(
            tx, who, known.thread_uid, "main", 2, before=9, after=9
        ),
        "plans.change": lambda tx, who: _plan(tx, who, known.thread_uid, {"goal": "new"}),
        "plans.read_history": lambda tx, who: plans.read_history(tx, who, "main", [1]),
        "plans.read_newest": lambda tx, who: plans.read_newest(tx, who, said),
        "indexed_rows.rebuild_rows": lambda tx, who: indexed_rows.rebuild_rows(
            tx, who, known.thread_uid, [1, 2, 3], search_text
        ),
        "deletions.list_deletions": deletions.list_deletions,
        "deletions.restore": lambda tx, who: deletions.restore(
            tx, who, known.deletion_uid, now=NOW, search_text=search_text
        ),
        "deletions.erase_expired": lambda tx, who: deletions.erase_expired(
            tx, who, deleted_before=NOW + 9, answered_before=NOW + 9
        ),
        "runs.expire": lambda tx, who: runs.expire(tx, who, now=NOW * 2),
        "runs.read_page": lambda tx, who: runs.read_page(tx, who, RunFilter(NOW), after=None, limit=9),
        "runs.read_page, of the thread": lambda tx, who: runs.read_page(
            tx, who, RunFilter(NOW, thread_id="main"), after=None, limit=9
        ),
        "runs.claim": lambda tx, who: runs.claim(
            tx, who, _run(made), RunClaim(9, "9.x", "who", NOW, NOW), answers=NO_ANSWERS, now=NOW
        ),
        "runs.answer": lambda tx, who: runs.answer(tx, who, _run(made), NO_ANSWERS, now=NOW),
        "runs.change": lambda tx, who: runs.change(
            tx, who, _run(made), _CHECKPOINT, answers=NO_ANSWERS, until=NOW, now=NOW
        ),
        "runs.renew": lambda tx, who: runs.renew(tx, who, _run(made), until=NOW),
        "runs.spend": lambda tx, who: runs.spend(tx, who, made, "r", "[]"),
        "runs.read_spent": lambda tx, who: runs.read_spent(tx, who, made, "r"),
        "runs.read_spent_below": lambda tx, who: runs.read_spent_below(tx, who, "r", most=9),
        "runs.content": lambda tx, who: runs.content(tx, who, _run(made)),
        "runs.create": lambda tx, who: runs.create(tx, who, made, "r", _CHECKPOINT, now=NOW),
        "runs.find": lambda tx, who: runs.find(tx, who, "r"),
        "runs.finish": lambda tx, who: runs.finish(tx, who, _run(made), RunEnd("failed", "1", "who"), now=NOW),
        "runs.lock_run": lambda tx, who: runs.lock_run(tx, who, made, "r"),
        "runs.is_hidden": lambda tx, who: runs.is_hidden(tx, who, "hidden"),
        "runs.lock": lambda tx, who: runs.lock(tx, who, "r"),
        "runs.suspend": lambda tx, who: runs.suspend(tx, who, _run(made), _CHECKPOINT, now=NOW),
        "lexical.postings": lambda tx, who: lexical.postings(tx, who, ["apple"], most=9),
        "threads.count_live": threads.count_live,
        "lexical.put": lambda tx, who: lexical.put(
            tx, who, [lexical.IndexEntry(known.thread_uid, 1, "user", NOW, indexed("apple"))]
        ),
        "lexical.remove": lambda tx, who: lexical.remove(tx, who, known.thread_uid, [1, 2, 3]),
        "lexical.remove_thread": lambda tx, who: lexical.remove_thread(tx, who, known.thread_uid),
        "indexed_rows.around": lambda tx, who: _rows_around(tx, who, known.row_ids),
        "search.around": lambda tx, who: tx.backend.search.around(tx, who, np.array(known.row_ids, np.int64), 2),
        "indexed_rows.messages_of": lambda tx, who: indexed_rows.messages_of(
            tx, who, [(known.thread_uid, seq) for seq in (1, 2, 3)]
        ),
        "indexed_rows.find_unembedded": lambda tx, who: indexed_rows.find_unembedded(tx, who, "unused", most=9),
        "plans.find_suspended": lambda tx, who: plans.find_suspended(tx, who, known.thread_uid, now=NOW, most=9),
        "plans.find_open": lambda tx, who: plans.find_open(tx, who, other_than="", now=NOW, most=9),
        "indexed_rows.places": lambda tx, who: indexed_rows.places(tx, who, known.row_ids),
        "indexed_rows.passing": lambda tx, who: indexed_rows.passing(
            tx, who, thread_id=None, since=None, until=None, roles=ROLES
        ),
        "indexed_rows.passing, in the thread": lambda tx, who: indexed_rows.passing(
            tx, who, thread_id="main", since=None, until=None, roles=ROLES
        ),
        "steps.read_page": lambda tx, who: steps.read_page(tx, who, "main", operation_id="", after=0, limit=9),
        "steps.read_page, of an operation": lambda tx, who: steps.read_page(
            tx, who, "main", operation_id="op", after=0, limit=9
        ),
        "steps.message_seqs": lambda tx, who: steps.message_seqs(tx, who, made, ["a", "t"]),
        "steps.record": lambda tx, who: steps.record(tx, who, made, [NewStep("op", "text", {}, NOW)], now=NOW),
        "threads.find_elsewhere": lambda tx, who: threads.find_elsewhere(tx, who, "main", "test", since=0),
        "subjects.find_others": lambda tx, who: subjects.find_others(tx, who, "coffee"),
        "subjects.read_subject": lambda tx, who: subjects.read_subject(tx, who, "main"),
        "threads.find_tasks": lambda tx, who: threads.find_tasks(tx, who, most=9),
        "threads.describe": lambda tx, who: threads.describe(
            tx, who, "main", Description("New", {"k": 2}), new_uid=known.thread_uid, now=NOW, check=lambda _: None
        ),
        "threads.find": lambda tx, who: threads.find(tx, who, "main"),
        "threads.read_page": lambda tx, who: threads.read_page(
            tx, who, threads.ThreadFilter(order_by="title", descending=False), after=None, limit=9
        ),
        "threads.lock": lambda tx, who: threads.lock(tx, who, "main"),
        "threads.lock_uid": lambda tx, who: threads.lock_uid(tx, who, known.thread_uid),
        "threads.lock_or_make": lambda tx, who: threads.lock_or_make(tx, who, "main", known.thread_uid, NOW),
        "windows.find_begin": lambda tx, who: windows.find_begin(tx, who, said, _SAID),
        "windows.find_last_said": lambda tx, who: windows.find_last_said(tx, who, said),
        "usage_rows.add": lambda tx, who: usage_rows.add(tx, who, known.thread_uid, [_LINE], now=NOW),
        "daily_calls.by_day": lambda tx, who: daily_calls.by_day(tx, who, 0),
        "usage_rows.by_day": lambda tx, who: usage_rows.by_day(tx, who, 0),
        "usage_rows.by_thread": usage_rows.by_thread,
        "usage_rows.of_resource": usage_rows.of_resource,
        "usage_rows.of_threads": lambda tx, who: usage_rows.of_threads(tx, who, [known.thread_uid]),
        "vectors.count_there": lambda tx, who: vectors.count_there(tx, who, known.row_ids),
        "vectors.find_lacking": lambda tx, who: vectors.find_lacking(tx, who, "unused", known.row_ids),
        "vectors.nearest": lambda tx, who: vectors.nearest(tx, who, MODEL, bytes(DIMENSION // 8), most=9),
        "vectors.nearest_among": lambda tx, who: vectors.nearest_among(
            tx, who, MODEL, bytes(DIMENSION // 8), known.row_ids, most=9
        ),
        "vectors.of_rows": lambda tx, who: vectors.of_rows(tx, who, MODEL, known.row_ids),
        "vectors.put": lambda tx, who: vectors.put(
            tx, who, "another", DIMENSION, [new(row_id, unit()[0]) for row_id in known.row_ids]
        ),
        "vectors.progress": lambda tx, who: vectors.progress(tx, who, MODEL),
        "windows.between": lambda tx, who: windows.between(tx, who, said, after=0, before=9, first=1, newest=1),
        "windows.first": lambda tx, who: windows.first(tx, who, said, most=9),
        "windows.latest_from_user": lambda tx, who: windows.latest_from_user(tx, who, said),
        "windows.newest": lambda tx, who: windows.newest(tx, who, said, most=9),
        "working_memory.change": lambda tx, who: _keep(tx, who, "main", known.thread_uid, "new"),
        "working_memory.change, of the resource": lambda tx, who: _keep(tx, who, "", "", "new"),
        "working_memory.read_current": lambda tx, who: working_memory.read_current(tx, who, "main"),
        "working_memory.read_current, of the resource": lambda tx, who: working_memory.read_current(tx, who, ""),
        "working_memory.show_forgotten": lambda tx, who: working_memory.show_forgotten(tx, who, said, after=0, upto=9),
        "working_memory.erase_cleared": lambda tx, who: working_memory.erase_cleared(tx, who, cleared_before=NOW + 9),
        "working_memory.read_history": lambda tx, who: working_memory.read_history(tx, who, "main", version=1),
        "working_memory.read_history, of the resource": lambda tx, who: working_memory.read_history(
            tx, who, "", version=1
        ),
        "orphans.settle": lambda tx, who: orphans.settle(tx, who, made, [1], search_text, now=NOW),
        "working_memory.read_newest": lambda tx, who: working_memory.read_newest(tx, who, said),
        "working_memory.read_newest, of the resource": lambda tx, who: working_memory.read_newest(tx, who, None),
        "orphans.index_again": lambda tx, who: orphans.index_again(tx, who, made, [], search_text),
    }


async def _logged(tx: Tx, scope: Scope, thread: Thread) -> None:
    """Steps, events, usage and calls of ANA's."""
    await steps.record(tx, ANA, thread, [NewStep("op", "text", {}, NOW)], now=NOW)
    await events.record(tx, ANA, thread, [NewEvent("e")], origin=_ORIGIN, now=NOW)
    await events.record_of_resource(tx, ANA, NewEvent("e"), origin=_ORIGIN, now=NOW)
    await usage_rows.add(tx, ANA, thread.thread_uid, [_LINE], now=NOW)
    await daily_calls.add(
        tx, Tenant(ANA.tenant_id), [(ANA, [CallCount(NOW // 86_400_000, "tool", "plan", 1)])], today=0
    )


async def _ran(tx: Tx, scope: Scope, thread: Thread) -> None:
    """A run of ANA's, and one of a thread that she deleted."""
    await runs.create(tx, ANA, thread, "r", _CHECKPOINT, now=NOW)
    await runs.create(tx, ANA, thread, "below", _CHECKPOINT, now=NOW, parent_run_id="r")
    gone = await threads.lock_or_make(tx, ANA, "gone", uid(), NOW)
    await runs.create(tx, ANA, gone, "hidden", _CHECKPOINT, now=NOW)
    await deletions.delete_thread(tx, ANA, "gone", deletion_uid=uid(), erase=False, now=NOW)


async def _worked(tx: Tx, scope: Scope, thread: Thread) -> None:
    """A plan, an attempt and both documents of ANA's."""
    await _plan(tx, ANA, thread.thread_uid, {"goal": "old"})
    for thread_id in ("main", ""):
        await _keep(tx, ANA, thread_id, thread.thread_uid, "old")
    await steps.log(tx, ANA, "main", _TRIED, new_uid=uid(), now=NOW)


async def _queued(tx: Tx, scope: Scope, thread: Thread) -> None:
    """Jobs of ANA's: one that somebody works on, one that is due, one that is dead."""
    for kind in ("title", "observe", "summary"):
        await job_rows.request(tx, ANA, thread.thread_uid, kind, 1, due_at=NOW, now=NOW)
    for kind in ("title", "observe"):
        claim = await job_rows.claim_in(tx, ANA, [kind], holder="old", now=NOW, lease_ms=9)
        assert claim is not None
        if kind == "title":
            await job_rows.fail(tx, claim, error="no", retry_at=NOW, dead=True, now=NOW)


async def _rows_around(tx: Tx, who: Scope, row_ids: Sequence[int]) -> list[IndexedRow]:
    return list(await indexed_rows.around(tx, who, row_ids))


async def _whole(tx: Tx, who: Scope, thread_uid: str) -> list[int]:
    found: list[int] = []
    thread = Thread(thread_uid, "main", None)
    await windows.whole(tx, who, thread, [1, 2], lambda message: found.append(message.seq) is None)
    return found


def _plan(tx: Tx, who: Scope, new_uid: str, made: Json) -> Awaitable[Any]:
    return plans.change(
        tx,
        who,
        "main",
        lambda _: made,
        expected_revision=None,
        actor="client",
        new_uid=new_uid,
        now=NOW,
        is_open=bool,
    )


def _keep(tx: Tx, who: Scope, thread_id: str, new_uid: str, content: str) -> Awaitable[Any]:
    return working_memory.change(
        tx,
        who,
        thread_id,
        lambda *_: content,
        how="replace",
        expected_version=None,
        origin=_ORIGIN,
        new_uid=new_uid,
        now=NOW,
    )


def _run(thread: Thread) -> Run:
    return Run(
        "r", "main", thread.thread_uid, "", "suspended", {}, "[]", None, 0, None, None, None, None, None, NOW, NOW
    )


def _delete(tx: Tx, who: Scope, which: deletions.Which, ids: list[str]) -> Awaitable[Any]:
    return deletions.delete_messages(
        tx,
        who,
        "main",
        which,
        ids=ids,
        roles=ROLES,
        deletion_uid="d",
        erase=True,
        now=NOW,
        search_text=search_text,
    )


_ORIGIN = Origin("client", "tool")
_TRIED = NewAttempt("k", "try", "ended")
_JOURNALED = JournalLine(NOW, "key:k", "client", "tool", "done", "mark")
_LINE = UsageLine("m", "steps", UsageSums(1, 2, 3, 4, 5))
_CHECKPOINT = Checkpoint('{"s":1}', "[]", "w", {}, None, None)
_A = draft(id="a", role="assistant", parts=[tool_call("c1"), {"type": "text", "text": "apple"}])
_T = draft(id="t", role="tool", parts=[tool_result("c1")])
_X = draft(id="x", role="assistant", parts=[tool_call("c9"), {"type": "text", "text": "apple"}])
_Y = draft(id="y", role="tool", parts=[tool_result("c9")])
_SAID = Message("main", 5, "x", "user", None, [], {}, 0, "", 0, 0, 1)


class Undone(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


async def answer(database: Database, call: Call, who: Scope) -> str:
    """What a call answers or raises, in words without the caller's own name; it is undone."""

    async def unit(tx: Tx, scope: Scope) -> None:
        raise Undone(await call(tx, who))

    try:
        await database.write(unit, who)
    except Undone as undone:
        return repr(undone.value)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must be the same
        return f"{type(error).__name__}: {error}".replace(", ".join((who.tenant_id, who.agent_id, who.resource_id)), "")
    raise AssertionError("a unit that raises was committed")


async def contents(database: Database) -> list[Any]:
    return [sorted(await database.read_installation(rows, f"SELECT * FROM {table}"), key=repr) for table in TABLES]


async def test_a_stranger_gets_the_answers_that_an_empty_database_gives(database: Database) -> None:
    known = Known(uid(), uid(), range(1, 50))
    empty = {name: await answer(database, call, ANA) for name, call in calls(known).items()}

    made = await say(database, "main", _A, _T, draft("apple", id="b"), draft("pear", id="c"), _X, _Y)
    await drop(database, "main", "ids", ["y"], erase=True)
    deleted = await drop(database, "main", "ids", ["b"])
    described = Description("Old", {"k": 1, "subject": "tea"})
    await database.write(threads.describe, ANA, "main", described, new_uid=uid(), now=NOW, check=lambda _: None)

    async def kept(_: Tx) -> Json:
        return {"thread_id": "old"}

    await database.write(idempotency.once, ANA, Request("k", "body"), NOW, kept)
    await database.write(_logged, ANA, made.thread)
    await database.write(_ran, ANA, made.thread)
    await database.write(_worked, ANA, made.thread)
    await database.write(_queued, ANA, made.thread)
    await database.write(remembered, ANA, made.thread)
    await database.write(observed, ANA, made.thread)
    await database.write(distilled, ANA, made.thread)
    await database.write(acted, ANA, made.thread)
    await database.write(noted, ANA, made.thread)
    with_cursor = await database.write(threads.lock_or_make, ANA, "noted", uid(), NOW)
    await database.write(observations.buffer, ANA, with_cursor, Cursor(0), current_task="tea", next_step=None)
    await embed_all(database)
    before = await contents(database)
    assert all(before), "every table holds something of ANA's"
    assert deleted.deletion_uid is not None
    met = Known(made.thread.thread_uid, deleted.deletion_uid, known.row_ids)

    def plain(text: str) -> str:
        """Without the ids that the caller brought."""
        return text.replace(met.thread_uid, known.thread_uid).replace(met.deletion_uid, known.deletion_uid)

    for stranger in STRANGERS:
        for name, call in calls(met).items():
            assert plain(await answer(database, call, stranger)) == empty[name], name
    assert await contents(database) == before
    told_apart = {name for name, call in calls(met).items() if plain(await answer(database, call, ANA)) != empty[name]}
    # These answer nothing; what they did to ANA's rows would have shown above.
    assert (
        calls(met).keys() - told_apart
        <= SILENT
        | SILENT_OF_DERIVATIONS
        | SILENT_OF_DOCUMENTS
        | SILENT_OF_ERASING
        | SILENT_OF_MOVING
        | SILENT_OF_NOTES
        | SILENT_OF_OBSERVATIONS
        | {
            "lexical.remove",
            "lexical.remove_thread",
            "search.around",  # of what the process has in memory, which is nothing here
            "orphans.index_again",
            "journal_rows.append",
            # Where statements wait for each other, an error comes with the commit.
            "lexical.put",
            "events.record_counted",
            "message_rows.keep_erased_ids",
            "windows.find_begin",
            "job_rows.forget_thread",
            "job_rows.request",
            "job_rows.request_many",
            "usage_rows.add",
            "deletions.erase_expired",
            "runs.expire",
            "working_memory.erase_cleared",
            "runs.answer",
            "runs.change",
            "runs.claim",
            "runs.renew",
            "runs.spend",
            "runs.finish",
            "runs.suspend",
        }
    )


def test_every_function_that_takes_a_scope_is_among_the_calls() -> None:
    modules = [import_module(found.name) for found in pkgutil.walk_packages(storage.__path__, "layerlore.storage.")]
    public = {
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in modules
        for name, function in vars(module).items()
        if inspect.iscoroutinefunction(function)
        and function.__module__ == module.__name__
        and not name.startswith("_")
        and "scope" in inspect.signature(function).parameters
    }
    assert public == {name.partition(",")[0] for name in calls(Known("t", "d", ()))}
