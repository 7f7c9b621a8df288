"""What belongs to another scope and what does not exist at all give one and the same answer, from every function."""

import inspect
import pkgutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest

from memstrata import storage
from memstrata.storage import (
    adding,
    counts,
    deletions,
    hits,
    idempotency,
    messages,
    orphans,
    restoration,
    search,
    threads,
)
from memstrata.storage.idempotency import Request
from memstrata.storage.records import ROLES, Json, Scope, Thread
from memstrata.storage.threads import Description
from memstrata.storage.transaction import Database, Tx

from .building import ANA, NOW, draft, drop, rows, say, search_text, tool_call, tool_result, uid

pytestmark = pytest.mark.anyio

TABLES = ("threads", "messages", "search_rows", "deletions", "idempotency")
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
        "counts.of_scope_now": counts.of_scope_now,
        "deletions.delete_messages": lambda tx, who: _delete(tx, who, "ids", ["a"]),
        "deletions.delete_messages, all": lambda tx, who: _delete(tx, who, "all", []),
        "deletions.delete_messages, last_turn": lambda tx, who: _delete(tx, who, "last_turn", []),
        "deletions.delete_thread": lambda tx, who: deletions.delete_thread(
            tx, who, "main", deletion_uid="d", erase=True, now=NOW
        ),
        "hits.matching": lambda tx, who: hits.matching(
            tx, who, known.row_ids, thread_id=None, since=None, until=None, roles=ROLES
        ),
        "hits.matching, of the thread": lambda tx, who: hits.matching(
            tx, who, known.row_ids, thread_id="main", since=None, until=None, roles=ROLES
        ),
        "idempotency.once": lambda tx, who: idempotency.once(tx, who, Request("k", "other body"), NOW, kept),
        "messages.append": lambda tx, who: messages.append(
            tx, who, "main", [_A, _T], new_uid=known.thread_uid, replace_known=True, now=NOW
        ),
        "messages.page": lambda tx, who: messages.page(tx, who, "main", roles=ROLES, limit=9),
        "messages.neighbours": lambda tx, who: messages.neighbours(
            tx, who, known.thread_uid, "main", 2, before=9, after=9
        ),
        "restoration.listed": restoration.listed,
        "restoration.restore": lambda tx, who: restoration.restore(
            tx, who, known.deletion_uid, now=NOW, search_text=search_text
        ),
        "search.postings": lambda tx, who: search.postings(tx, who, ["apple"], most=9),
        "search.size": search.size,
        "search.put": lambda tx, who: search.put(tx, who, [search.Entry(known.thread_uid, 1, "apple")]),
        "search.remove": lambda tx, who: search.remove(tx, who, known.thread_uid, [1, 2, 3]),
        "search.remove_thread": lambda tx, who: search.remove_thread(tx, who, known.thread_uid),
        "threads.describe": lambda tx, who: threads.describe(
            tx, who, "main", Description("New", {"k": 2}), new_uid=known.thread_uid, now=NOW, check=lambda _: None
        ),
        "threads.find": lambda tx, who: threads.find(tx, who, "main"),
        "threads.listed": lambda tx, who: threads.listed(
            tx, who, metadata={}, order_by="title", descending=False, after=None, limit=9
        ),
        "threads.lock": lambda tx, who: threads.lock(tx, who, "main"),
        "threads.lock_or_make": lambda tx, who: threads.lock_or_make(tx, who, "main", known.thread_uid, NOW),
        "orphans.settle": lambda tx, who: orphans.settle(tx, who, made, [1], search_text),
        "orphans.index_again": lambda tx, who: orphans.index_again(tx, who, made, [], search_text),
    }


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


_A = draft(id="a", role="assistant", parts=[tool_call("c1"), {"type": "text", "text": "apple"}])
_T = draft(id="t", role="tool", parts=[tool_result("c1")])


class Undone(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


async def answer(database: Database, call: Call, who: Scope) -> str:
    """What a call answers or raises, in words without the caller's own name; it is undone."""

    async def unit(tx: Tx) -> None:
        raise Undone(await call(tx, who))

    try:
        await database.write(unit)
    except Undone as undone:
        return repr(undone.value)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must be the same
        return f"{type(error).__name__}: {error}".replace(", ".join((who.tenant_id, who.agent_id, who.resource_id)), "")
    raise AssertionError("a unit that raises was committed")


async def contents(database: Database) -> list[Any]:
    return [sorted(await database.read(rows, f"SELECT * FROM {table}"), key=repr) for table in TABLES]


async def test_a_stranger_gets_the_answers_that_an_empty_database_gives(database: Database) -> None:
    known = Known(uid(), uid(), range(1, 50))
    empty = {name: await answer(database, call, ANA) for name, call in calls(known).items()}

    made = await say(database, "main", _A, _T, draft("apple", id="b"))
    deleted = await drop(database, "main", "ids", ["b"])
    await database.write(
        threads.describe, ANA, "main", Description("Old", {"k": 1}), new_uid=uid(), now=NOW, check=lambda _: None
    )

    async def kept(_: Tx) -> Json:
        return {"answer": "old"}

    await database.write(idempotency.once, ANA, Request("k", "body"), NOW, kept)
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
    assert calls(met).keys() - told_apart <= {"search.remove", "search.remove_thread", "orphans.index_again"}


def test_every_function_that_takes_a_scope_is_among_the_calls() -> None:
    modules = [import_module(f"memstrata.storage.{found.name}") for found in pkgutil.iter_modules(storage.__path__)]
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
