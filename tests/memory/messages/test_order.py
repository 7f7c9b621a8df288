"""Order: seqs, times, and many calls at once."""

from datetime import UTC, datetime, timedelta

import anyio
import pytest

from ...server.tools.calling import Json, Tools

pytestmark = [pytest.mark.anyio, pytest.mark.databases]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def at(content: str, time: object) -> Json:
    return {"role": "user", "content": content, "created_at": time}


async def test_said_at_is_the_time_as_given_whatever_the_order(tools: Tools) -> None:
    await tools.add(
        "main",
        at("later", "2024-03-15T12:00:00+02:00"),
        at("earlier", "2023-01-01"),
        at("before 1970", "1969-07-20T20:17:40.123Z"),
        at("milliseconds", 1_700_000_000_000),
    )
    kept = await tools.messages("main")
    assert [message["seq"] for message in kept] == [1, 2, 3, 4]
    assert [message["said_at"] for message in kept] == [
        "2024-03-15T10:00:00.000Z",
        "2023-01-01T00:00:00.000Z",
        "1969-07-20T20:17:40.123Z",
        "2023-11-14T22:13:20.000Z",
    ]


async def test_created_at_strictly_increases_and_begins_with_what_was_said(tools: Tools) -> None:
    await tools.add("main", at("a", "2024-03-15"), at("b", "2024-03-15"), at("c", "2020-01-01"))
    await tools.say("main", "now", "now", "now")
    created = [moment(message["created_at"]) for message in await tools.messages("main")]
    first = moment("2024-03-15T00:00:00Z")
    assert created[:3] == [first, first + timedelta(milliseconds=1), first + timedelta(milliseconds=2)]
    assert created == sorted(set(created))


async def test_created_at_is_at_most_five_minutes_ahead_and_said_at_is_not_touched(tools: Tools) -> None:
    await tools.add("main", at("far", "2999-01-01"))
    (message,) = await tools.messages("main")
    ahead = moment(message["created_at"]) - datetime.now(UTC)
    assert timedelta(minutes=4) < ahead <= timedelta(minutes=5)
    assert message["said_at"] == "2999-01-01T00:00:00.000Z"


async def test_a_message_without_a_time_was_said_now(tools: Tools) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    await tools.say("main", "hello")
    (message,) = await tools.messages("main")
    assert before <= moment(message["said_at"]) <= datetime.now(UTC)
    assert message["said_at"] == message["created_at"]


async def test_deleting_leaves_holes_and_no_seq_is_given_twice(tools: Tools) -> None:
    await tools.say("main", "one", "two")
    await tools.say("main", "three")
    await tools("delete_messages", which="last_turn", thread_id="main")
    assert (await tools.say("main", "four"))["messages"][0]["seq"] == 4
    assert [message["seq"] for message in await tools.messages("main")] == [1, 2, 4]


async def test_sixty_four_calls_at_once_are_all_kept_each_in_one_piece(tools: Tools) -> None:
    async def add(number: int) -> None:
        thread = f"thread {number % 4}"
        await tools.say(thread, f"{number} first", f"{number} second")

    async with anyio.create_task_group() as tasks:
        for number in range(64):
            tasks.start_soon(add, number)
    for remainder in range(4):
        messages = await tools.messages(f"thread {remainder}")
        assert [message["seq"] for message in messages] == list(range(1, 33))
        texts = [message["parts"][0]["text"].split() for message in messages]
        assert [number for number, place in texts[::2]] == [number for number, place in texts[1::2]]
        assert {(int(number), place) for number, place in texts} == {
            (number, place) for number in range(remainder, 64, 4) for place in ("first", "second")
        }
        created = [message["created_at"] for message in messages]
        assert created == sorted(set(created))
        assert await tools.messages(f"thread {remainder}") == messages
    counts = (await tools("memory_status"))["counts"]
    assert (counts["threads"], counts["messages"]) == (4, 128)


async def test_all_kinds_of_calls_at_once_are_answered(tools: Tools) -> None:
    await tools.say("main", *(f"green tea {number}" for number in range(8)))
    answers: list[object] = []

    async def call(tool: str, **arguments: object) -> None:
        answers.append(await tools(tool, **arguments))

    async with anyio.create_task_group() as tasks:
        for number in range(16):
            tasks.start_soon(lambda n=number: call("update_thread", thread_id="main", title=f"title {n}"))
            tasks.start_soon(lambda: call("recall_memory", query="tea"))
            tasks.start_soon(lambda: call("get_messages", thread_id="main"))
            tasks.start_soon(
                lambda n=number: call("add_messages", thread_id=f"t{n}", messages=[at("x", 1_700_000_000 + n)])
            )
    assert len(answers) == 64
    assert (await tools("memory_status"))["counts"]["threads"] == 17
