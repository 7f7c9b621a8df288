"""What a watcher reads of what happened since it last looked."""

from collections.abc import Sequence
from typing import Any

import pytest

from layerlore.storage.core.records import Origin, Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.removal import deletions
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import MOST_EVENTS, NewEvent, ThreadMark, WatchRequest, WatchResult

from ..building import ANA, BEN, NOW, draft, execute, new_scope, say, uid

pytestmark = pytest.mark.anyio

ME = Origin("test", "")


async def happen(database: Database, thread_id: str, *types: str, scope: Scope = ANA, message_seq: Any = None) -> None:
    """Record events of a thread, which is made if it is absent."""

    async def record(tx: Tx, scope: Scope, new_uid: str) -> None:
        thread = await threads.lock_or_make(tx, scope, thread_id, new_uid, NOW)
        happened = [NewEvent(type_, message_seq=message_seq) for type_ in types]
        await events.record(tx, scope, thread, happened, origin=ME, now=NOW)

    await database.write(record, scope, uid())


async def happen_to_resource(database: Database, *happened: NewEvent, scope: Scope = ANA) -> None:
    async def record(tx: Tx, scope: Scope) -> None:
        for event in happened:
            await events.record_of_resource(tx, scope, event, origin=ME, now=NOW)

    await database.write(record, scope)


async def look(database: Database, watched: WatchRequest, scope: Scope = ANA) -> WatchResult:
    return await database.read(events.look, scope, watched)


async def marks(database: Database, *thread_ids: str) -> dict[str, ThreadMark]:
    return (await look(database, WatchRequest(dict.fromkeys(thread_ids)))).marks


async def types_since(database: Database, before: dict[str, ThreadMark]) -> dict[str, Any]:
    found = await look(database, WatchRequest(before))
    return {thread_id: types and sorted(types) for thread_id, types in found.types.items()}


async def test_a_first_look_says_where_things_are_and_not_what_was(database: Database) -> None:
    await happen(database, "main", "messages_added", "plan_updated")
    await happen_to_resource(database, NewEvent("profile_updated"))
    found = await look(database, WatchRequest({"main": None, "none": None}, [], resource=True))
    assert (found.marks["main"].seq, found.marks["none"]) == (2, ThreadMark())
    assert (found.types, found.resource_seq, found.resource_events) == ({}, 2, [])


async def test_new_events_are_found_by_thread_and_type_and_only_once(database: Database) -> None:
    for thread_id in ("a", "b", "quiet"):
        await happen(database, thread_id, "messages_added")
    before = await marks(database, "a", "b", "quiet", "none")
    assert await types_since(database, before) == {}
    await happen(database, "a", "plan_updated", "plan_updated", "messages_added")
    await happen(database, "b", "run_suspended")
    await happen(database, "unwatched", "plan_updated")
    await happen(database, "quiet", "plan_updated", scope=BEN)
    assert await types_since(database, before) == {"a": ["messages_added", "plan_updated"], "b": ["run_suspended"]}
    after = await marks(database, "a", "b", "quiet", "none")
    assert (after["a"].seq, after["b"].seq, after["quiet"]) == (4, 2, before["quiet"])
    assert await types_since(database, after) == {}


async def test_a_thread_that_comes_goes_or_is_made_again_has_another_mark(database: Database) -> None:
    seen = [await marks(database, "main")]
    await happen(database, "main", "messages_added")
    seen.append(await marks(database, "main"))
    for erase in (False, True):
        await database.write(deletions.delete_thread, ANA, "main", deletion_uid=uid(), erase=erase, now=NOW)
        seen.append(await marks(database, "main"))
        await happen(database, "main", *["messages_added"] * 3)
        seen.append(await marks(database, "main"))
    assert [mark["main"].uid is None for mark in seen] == [True, False] * 3
    assert len({mark["main"].uid for mark in seen}) == 4
    assert (await look(database, WatchRequest(seen[1]))).types == {}


async def test_events_that_are_gone_with_their_message_may_have_been_anything(database: Database) -> None:
    await say(database, "main", draft())
    before = await marks(database, "main")
    await happen(database, "main", "messages_added", message_seq=1)
    await happen(database, "main", "plan_updated")
    assert await types_since(database, before) == {"main": ["messages_added", "plan_updated"]}
    await database.write_installation(execute, "DELETE FROM messages")
    assert await types_since(database, before) == {"main": None}


async def test_more_new_events_than_are_read_may_have_been_anything(database: Database) -> None:
    await happen(database, "main", "messages_added")
    before = await marks(database, "main")
    await happen(database, "main", *["plan_updated"] * MOST_EVENTS)
    assert await types_since(database, before) == {"main": ["plan_updated"]}
    await happen(database, "main", "plan_updated")
    assert await types_since(database, before) == {"main": None}


async def test_events_of_the_resource_are_found_in_order_with_what_they_say(database: Database) -> None:
    async def since(seq: int) -> Sequence[tuple[str, Any]] | None:
        found = await look(database, WatchRequest(resource=True, resource_seq=seq))
        assert found.resource_seq == 3
        return found.resource_events

    await happen_to_resource(database, NewEvent("profile_updated"), scope=BEN)
    await happen_to_resource(
        database, NewEvent("profile_updated"), NewEvent("thread_updated", {"changed": ["title"]}), NewEvent("other")
    )
    assert await since(1) == [("thread_updated", {"changed": ["title"]}), ("other", {})]
    assert await since(3) == []
    assert await since(4) is None  # it was erased, and began anew
    assert await since(3 - MOST_EVENTS - 1) is None
    await database.write_installation(execute, "DELETE FROM resource_events WHERE seq = 2")
    assert await since(1) is None
    assert await since(2) == [("other", {})]


async def test_the_totals_of_a_scope_differ_after_any_event_of_a_thread(database: Database) -> None:
    async def totals() -> tuple[int, int]:
        return (await look(database, WatchRequest(totals=True), scope)).totals

    scope = new_scope()
    seen = [await totals()]
    for thread_id in ("a", "b", "a"):
        await happen(database, thread_id, "plan_updated", scope=scope)
        seen.append(await totals())
    assert seen == [(0, 0), (1, 2), (2, 4), (2, 5)]
    await happen(database, "a", "plan_updated", scope=BEN)
    assert await totals() == (2, 5)
    await database.write(deletions.delete_thread, scope, "a", deletion_uid=uid(), erase=False, now=NOW)
    assert await totals() == (1, 2)


async def test_a_run_differs_once_anything_of_it_changed(database: Database) -> None:
    async def states() -> list[Any]:
        found = await look(database, WatchRequest(run_ids=["r", "none"]))
        return [found.runs.get("r"), found.runs.get("none")]

    await happen(database, "main", "messages_added")
    seen = [await states()]
    mark = (await marks(database, "main"))["main"]
    await database.write_installation(
        execute,
        "INSERT INTO runs (tenant_id, agent_id, resource_id, run_id, thread_uid, workflow_id, status, metadata, pending,"
        " resumed, epoch, created_at, updated_at)"
        " VALUES ('local', 'agent', 'ana', 'r', :uid, '', 'suspended', '{}', '[]', '{}', 0, 1, 1)",
        uid=mark.uid,
    )
    seen.append(await states())
    for change in ("status = 'running', epoch = 1", "answered = '[1]'", "updated_at = 2"):
        await database.write_installation(execute, f"UPDATE runs SET {change}")
        seen.append(await states())
    assert len({repr(state) for state in seen}) == 5
    assert await states() == seen[-1]
    await database.write(deletions.delete_thread, ANA, "main", deletion_uid=uid(), erase=False, now=NOW)
    assert await states() == [None, None]
