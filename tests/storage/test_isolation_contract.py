"""What belongs to another scope and what does not exist at all give one and the same answer, from every function."""

import inspect
import pkgutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import pytest

from layerlore import storage
from layerlore.storage import (
    adding,
    attempts,
    changes,
    clock_mending,
    completion,
    counts,
    deletions,
    events,
    idempotency,
    job_setbacks,
    jobs,
    journal,
    message_pages,
    messages,
    orphans,
    plans,
    recent_threads,
    reindexing,
    restoration,
    run_listing,
    runs,
    search,
    search_rows,
    steps,
    threads,
    usage,
    vectors,
    windows,
    working_memory,
)
from layerlore.storage.attempts import NewAttempt
from layerlore.storage.events import NewEvent
from layerlore.storage.idempotency import Request
from layerlore.storage.journal import Line as JournalLine
from layerlore.storage.records import ROLES, Json, Origin, Scope, Thread
from layerlore.storage.run_listing import Wanted
from layerlore.storage.runs import Checkpoint, Claim, Run
from layerlore.storage.steps import NewStep
from layerlore.storage.threads import Description
from layerlore.storage.transaction import Database, Tx
from layerlore.storage.usage import Line, Spent

from .building import ANA, NOW, draft, drop, indexed, rows, say, search_text, tool_call, tool_result, uid
from .derivation_calls import SILENT as SILENT_OF_DERIVATIONS
from .derivation_calls import derivation_calls
from .document_calls import SILENT as SILENT_OF_DOCUMENTS
from .document_calls import TABLES as TABLES_OF_DOCUMENTS
from .document_calls import distilled, document_calls
from .entry_calls import SILENT, entry_calls, remembered
from .erasing_calls import SILENT as SILENT_OF_ERASING
from .erasing_calls import erasing_calls
from .observation_calls import SILENT as SILENT_OF_OBSERVATIONS
from .observation_calls import observation_calls, observed
from .redacting_calls import redacting_calls
from .vectoring import DIMENSION, MODEL, embed_all, new, unit

pytestmark = pytest.mark.anyio

TABLES = (
    "threads",
    "messages",
    "search_rows",
    "search_vectors",
    "deletions",
    "idempotency",
    "resources",
    "events",
    "resource_events",
    "steps",
    "usage",
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
        "adding.add": lambda tx, who: adding.add(
            tx,
            who,
            "main",
            [_A, _T],
            new_uid=known.thread_uid,
            replace_known=True,
            now=NOW,
            search_text=search_text,
        ),
        "attempts.listed": lambda tx, who: attempts.listed(tx, who, "main", task_key="", limit=9),
        "attempts.listed, of a task": lambda tx, who: attempts.listed(tx, who, "main", task_key="k", limit=9),
        "attempts.log": lambda tx, who: attempts.log(tx, who, "main", _TRIED, new_uid=known.thread_uid, now=NOW),
        "attempts.newest": lambda tx, who: attempts.newest(tx, who, said, task_key="", limit=9),
        "changes.look": lambda tx, who: changes.look(
            tx, who, changes.Watched({"main": None}, ["r"], True, 0, totals=True)
        ),
        "clock_mending.mend": lambda tx, who: clock_mending.mend(tx, who, replace(said, updated_at=2 * NOW), NOW),
        "completion.run_ids": lambda tx, who: completion.run_ids(tx, who, "", most=9),
        "completion.thread_ids": lambda tx, who: completion.thread_ids(tx, who, "", most=9),
        "counts.of_scope_now": counts.of_scope_now,
        "deletions.delete_messages": lambda tx, who: _delete(tx, who, "ids", ["a"]),
        "deletions.delete_messages, all": lambda tx, who: _delete(tx, who, "all", []),
        "deletions.delete_messages, last_turn": lambda tx, who: _delete(tx, who, "last_turn", []),
        "deletions.delete_thread": lambda tx, who: deletions.delete_thread(
            tx, who, "main", deletion_uid="d", erase=True, now=NOW
        ),
        "events.last_of_resource": events.last_of_resource,
        "events.listed": lambda tx, who: events.listed(tx, who, "main", after=0, types=[], limit=9),
        "events.listed, of a type": lambda tx, who: events.listed(tx, who, "main", after=0, types=["e"], limit=9),
        "events.listed_of_resource": lambda tx, who: events.listed_of_resource(tx, who, after=0, types=[], limit=9),
        "events.record": lambda tx, who: events.record(tx, who, made, [NewEvent("e")], origin=_ORIGIN, now=NOW),
        "events.record_of_resource": lambda tx, who: events.record_of_resource(
            tx, who, NewEvent("e"), origin=_ORIGIN, now=NOW
        ),
        "events.record_of_resource, of a thread": lambda tx, who: events.record_of_resource(
            tx, who, NewEvent("e"), thread_uid=known.thread_uid, origin=_ORIGIN, now=NOW
        ),
        "idempotency.once": lambda tx, who: idempotency.once(tx, who, Request("k", "other body"), NOW, kept),
        "jobs.claim_in": lambda tx, who: jobs.claim_in(tx, who, jobs.KINDS, holder="new", now=NOW, lease_ms=9),
        "job_setbacks.forget_thread": lambda tx, who: job_setbacks.forget_thread(tx, who, known.thread_uid),
        "jobs.held": lambda tx, who: jobs.held(tx, who, known.thread_uid, "observe", 1),
        "jobs.request": lambda tx, who: jobs.request(
            tx, who, known.thread_uid, "observe", 9, due_at=NOW, now=NOW, revive=True
        ),
        "jobs.request_many": lambda tx, who: jobs.request_many(
            tx, who, known.thread_uid, [("observe", 9, NOW)], now=NOW
        ),
        "jobs.resume": lambda tx, who: jobs.resume(tx, who, None, NOW),
        "jobs.waiting": lambda tx, who: jobs.waiting(tx, who, NOW),
        "journal.append": lambda tx, who: journal.append(tx, who, _JOURNALED),
        "messages.append": lambda tx, who: messages.append(
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
        "message_pages.fill": lambda tx, who: message_pages.fill(
            tx, who, "main", message_pages.Light, roles=ROLES, limit=9
        ),
        **derivation_calls(known.thread_uid, known.deletion_uid),
        **document_calls(known.thread_uid),
        **entry_calls(known.thread_uid),
        **observation_calls(known.thread_uid),
        **erasing_calls(known.thread_uid),
        **redacting_calls(known.thread_uid),
        "messages.ids_there": lambda tx, who: messages.ids_there(tx, who, known.thread_uid, ["a", "b"]),
        "windows.whole": lambda tx, who: _whole(tx, who, known.thread_uid),
        "windows.neighbours": lambda tx, who: windows.neighbours(
            tx, who, known.thread_uid, "main", 2, before=9, after=9
        ),
        "plans.change": lambda tx, who: _plan(tx, who, known.thread_uid, {"goal": "new"}),
        "plans.kept": lambda tx, who: plans.kept(tx, who, "main", [1]),
        "plans.newest": lambda tx, who: plans.newest(tx, who, said),
        "reindexing.rebuild": lambda tx, who: reindexing.rebuild(tx, who, known.thread_uid, [1, 2, 3], search_text),
        "restoration.listed": restoration.listed,
        "restoration.restore": lambda tx, who: restoration.restore(
            tx, who, known.deletion_uid, now=NOW, search_text=search_text
        ),
        "restoration.erase_expired": lambda tx, who: restoration.erase_expired(
            tx, who, deleted_before=NOW + 9, answered_before=NOW + 9
        ),
        "run_listing.expire": lambda tx, who: run_listing.expire(tx, who, now=NOW * 2),
        "run_listing.listed": lambda tx, who: run_listing.listed(tx, who, Wanted(), after=None, limit=9),
        "run_listing.listed, of the thread": lambda tx, who: run_listing.listed(
            tx, who, Wanted(thread_id="main"), after=None, limit=9
        ),
        "runs.claim": lambda tx, who: runs.claim(
            tx, who, _run(made), Claim(9, "9.x", "who", NOW, NOW), resumed="[1]", now=NOW
        ),
        "runs.content": lambda tx, who: runs.content(tx, who, _run(made)),
        "runs.create": lambda tx, who: runs.create(tx, who, made, "r", _CHECKPOINT, now=NOW),
        "runs.find": lambda tx, who: runs.find(tx, who, "r"),
        "runs.finish": lambda tx, who: runs.finish(tx, who, _run(made), "failed", output="1", now=NOW),
        "runs.held": lambda tx, who: runs.held(tx, who, made, "r"),
        "runs.is_hidden": lambda tx, who: runs.is_hidden(tx, who, "hidden"),
        "runs.lock": lambda tx, who: runs.lock(tx, who, "r"),
        "runs.suspend": lambda tx, who: runs.suspend(tx, who, _run(made), _CHECKPOINT, now=NOW),
        "search.postings": lambda tx, who: search.postings(tx, who, ["apple"], most=9),
        "counts.live": counts.live,
        "search.put": lambda tx, who: search.put(
            tx, who, [search.Entry(known.thread_uid, 1, "user", NOW, indexed("apple"))]
        ),
        "search.remove": lambda tx, who: search.remove(tx, who, known.thread_uid, [1, 2, 3]),
        "search.remove_thread": lambda tx, who: search.remove_thread(tx, who, known.thread_uid),
        "search_rows.around": lambda tx, who: search_rows.around(tx, who, known.row_ids),
        "search_rows.messages_of": lambda tx, who: search_rows.messages_of(
            tx, who, [(known.thread_uid, seq) for seq in (1, 2, 3)]
        ),
        "search_rows.places": lambda tx, who: search_rows.places(tx, who, known.row_ids),
        "search_rows.passing": lambda tx, who: search_rows.passing(
            tx, who, thread_id=None, since=None, until=None, roles=ROLES
        ),
        "search_rows.passing, in the thread": lambda tx, who: search_rows.passing(
            tx, who, thread_id="main", since=None, until=None, roles=ROLES
        ),
        "steps.listed": lambda tx, who: steps.listed(tx, who, "main", operation_id="", after=0, limit=9),
        "steps.listed, of an operation": lambda tx, who: steps.listed(
            tx, who, "main", operation_id="op", after=0, limit=9
        ),
        "steps.message_seqs": lambda tx, who: steps.message_seqs(tx, who, made, ["a", "t"]),
        "steps.record": lambda tx, who: steps.record(tx, who, made, [NewStep("op", "text", {}, NOW)], now=NOW),
        "recent_threads.elsewhere": lambda tx, who: recent_threads.elsewhere(tx, who, "main", "test", since=0),
        "threads.describe": lambda tx, who: threads.describe(
            tx, who, "main", Description("New", {"k": 2}), new_uid=known.thread_uid, now=NOW, check=lambda _: None
        ),
        "threads.find": lambda tx, who: threads.find(tx, who, "main"),
        "threads.listed": lambda tx, who: threads.listed(
            tx, who, metadata={}, order_by="title", descending=False, after=None, limit=9
        ),
        "threads.lock": lambda tx, who: threads.lock(tx, who, "main"),
        "threads.lock_uid": lambda tx, who: threads.lock_uid(tx, who, known.thread_uid),
        "threads.lock_or_make": lambda tx, who: threads.lock_or_make(tx, who, "main", known.thread_uid, NOW),
        "usage.add": lambda tx, who: usage.add(tx, who, known.thread_uid, [_LINE], now=NOW),
        "usage.by_thread": usage.by_thread,
        "usage.of_resource": usage.of_resource,
        "usage.of_threads": lambda tx, who: usage.of_threads(tx, who, [known.thread_uid]),
        "vectors.count_there": lambda tx, who: vectors.count_there(tx, who, known.row_ids),
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
        "working_memory.current": lambda tx, who: working_memory.current(tx, who, "main"),
        "working_memory.current, of the resource": lambda tx, who: working_memory.current(tx, who, ""),
        "working_memory.erase_cleared": lambda tx, who: working_memory.erase_cleared(tx, who, cleared_before=NOW + 9),
        "working_memory.kept": lambda tx, who: working_memory.kept(tx, who, "main", version=1),
        "working_memory.kept, of the resource": lambda tx, who: working_memory.kept(tx, who, "", version=1),
        "orphans.settle": lambda tx, who: orphans.settle(tx, who, made, [1], search_text, now=NOW),
        "working_memory.newest": lambda tx, who: working_memory.newest(tx, who, said),
        "working_memory.newest, of the resource": lambda tx, who: working_memory.newest(tx, who, None),
        "orphans.index_again": lambda tx, who: orphans.index_again(tx, who, made, [], search_text),
    }


async def _logged(tx: Tx, scope: Scope, thread: Thread) -> None:
    """Steps, events and usage of ANA's."""
    await steps.record(tx, ANA, thread, [NewStep("op", "text", {}, NOW)], now=NOW)
    await events.record(tx, ANA, thread, [NewEvent("e")], origin=_ORIGIN, now=NOW)
    await events.record_of_resource(tx, ANA, NewEvent("e"), origin=_ORIGIN, now=NOW)
    await usage.add(tx, ANA, thread.thread_uid, [_LINE], now=NOW)


async def _ran(tx: Tx, scope: Scope, thread: Thread) -> None:
    """A run of ANA's, and one of a thread that she deleted."""
    await runs.create(tx, ANA, thread, "r", _CHECKPOINT, now=NOW)
    gone = await threads.lock_or_make(tx, ANA, "gone", uid(), NOW)
    await runs.create(tx, ANA, gone, "hidden", _CHECKPOINT, now=NOW)
    await deletions.delete_thread(tx, ANA, "gone", deletion_uid=uid(), erase=False, now=NOW)


async def _worked(tx: Tx, scope: Scope, thread: Thread) -> None:
    """A plan, an attempt and both documents of ANA's."""
    await _plan(tx, ANA, thread.thread_uid, {"goal": "old"})
    for thread_id in ("main", ""):
        await _keep(tx, ANA, thread_id, thread.thread_uid, "old")
    await attempts.log(tx, ANA, "main", _TRIED, new_uid=uid(), now=NOW)


async def _queued(tx: Tx, scope: Scope, thread: Thread) -> None:
    """Jobs of ANA's: one that somebody works on, one that is due, one that is dead."""
    for kind in ("title", "observe", "summary"):
        await jobs.request(tx, ANA, thread.thread_uid, kind, 1, due_at=NOW, now=NOW)
    for kind in ("title", "observe"):
        claim = await jobs.claim_in(tx, ANA, [kind], holder="old", now=NOW, lease_ms=9)
        assert claim is not None
        if kind == "title":
            await jobs.fail(tx, claim, error="no", retry_at=NOW, dead=True, now=NOW)


async def _whole(tx: Tx, who: Scope, thread_uid: str) -> list[int]:
    found: list[int] = []
    thread = Thread(thread_uid, "main", None)
    await windows.whole(tx, who, thread, [1, 2], lambda message: found.append(message.seq) is None)
    return found


def _plan(tx: Tx, who: Scope, new_uid: str, made: Json) -> Awaitable[Any]:
    return plans.change(
        tx, who, "main", lambda _: made, expected_revision=None, actor="client", new_uid=new_uid, now=NOW
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
_LINE = Line("m", "steps", Spent(1, 2, 3, 4, 5))
_CHECKPOINT = Checkpoint('{"s":1}', "[]", "w", {}, None, None)
_A = draft(id="a", role="assistant", parts=[tool_call("c1"), {"type": "text", "text": "apple"}])
_T = draft(id="t", role="tool", parts=[tool_result("c1")])


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

    made = await say(database, "main", _A, _T, draft("apple", id="b"), draft("pear", id="c"))
    deleted = await drop(database, "main", "ids", ["b"])
    await database.write(
        threads.describe, ANA, "main", Description("Old", {"k": 1}), new_uid=uid(), now=NOW, check=lambda _: None
    )

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
        | SILENT_OF_OBSERVATIONS
        | {
            "search.remove",
            "search.remove_thread",
            "orphans.index_again",
            "journal.append",
            "job_setbacks.forget_thread",
            "jobs.request",
            "jobs.request_many",
            "usage.add",
            "restoration.erase_expired",
            "run_listing.expire",
            "working_memory.erase_cleared",
            "runs.claim",
            "runs.finish",
            "runs.suspend",
        }
    )


def test_every_function_that_takes_a_scope_is_among_the_calls() -> None:
    modules = [import_module(f"layerlore.storage.{found.name}") for found in pkgutil.iter_modules(storage.__path__)]
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
