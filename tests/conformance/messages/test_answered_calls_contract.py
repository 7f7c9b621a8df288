"""The calls that tool results answer, when they stand in other messages."""

import pytest

from layerlore.storage.core.records import Json, Message
from layerlore.storage.core.transaction import Database
from layerlore.storage.messages import indexed_rows, message_pages

from ..building import ANA, BEN, draft, drop, everything, say, tool_call, tool_result

pytestmark = pytest.mark.anyio


def request(message: Message) -> list[str]:
    return [call["name"] for call in message.answered]


async def attached(database: Database, uid: str) -> list[Message]:
    return await database.read(message_pages.attach, ANA, uid, await everything(database, "main"))


async def test_a_result_has_the_latest_call_of_its_id_before_it(database: Database) -> None:
    said: list[tuple[str, list[Json]]] = [
        ("assistant", [tool_call("c1", "first")]),
        ("tool", [tool_result("c1")]),
        ("assistant", [tool_call("c1", "second"), tool_call("c2", "other")]),
        ("user", [{"type": "text", "text": "wait"}]),
        ("tool", [tool_result("c1"), tool_result("c2"), tool_result("c3")]),
        ("assistant", [tool_call("c4", "own"), tool_result("c4")]),
        ("assistant", [tool_call("c1", "later")]),
    ]
    for role, parts in said:
        appended = await say(database, "main", draft(role=role, parts=parts))  # type: ignore[arg-type]
    uid = appended.thread.thread_uid
    found = await attached(database, uid)
    assert [request(message) for message in found] == [[], ["first"], [], [], ["second", "other"], [], []]
    keyed = await database.read(indexed_rows.messages_to_index, ANA, [(uid, 5), (uid, 2)])
    assert {place[1]: request(message) for place, message in keyed.items()} == {2: ["first"], 5: ["second", "other"]}


async def test_the_next_result_of_a_thread_has_the_calls_before_it(database: Database) -> None:
    await say(database, "main", draft(role="assistant", parts=[tool_call("c1"), tool_call("c2")]))
    await say(database, "other", draft(role="assistant", parts=[tool_call("c3")]))
    found = await database.read(message_pages.of_next, ANA, "main", {"c2", "c3"})
    assert [call["id"] for call in found] == ["c2"]
    assert await database.read(message_pages.of_next, BEN, "main", {"c2"}) == []
    await say(database, "main", *(draft() for _ in range(message_pages.REACH)))
    assert await database.read(message_pages.of_next, ANA, "main", {"c2"}) == []


async def test_a_deleted_call_still_says_what_its_result_is(database: Database) -> None:
    await say(database, "main", draft(id="call", role="assistant", parts=[tool_call("c1", "gone")]))
    appended = await say(database, "main", draft("told", role="tool", parts=[tool_result("c1")]))
    kept = await everything(database, "main")
    await drop(database, "main", "ids", ["call"])
    found = await database.read(message_pages.attach, ANA, appended.thread.thread_uid, kept[1:])
    assert request(found[0]) == ["gone"]
