"""The first recall of a connection begins with the user and the open work, so that a model knows them that asks no more."""

from dataclasses import replace
from typing import Any

import pytest

from layerlore.memory.context.injection import OPENING_TOKENS
from layerlore.memory.parts.tokens import load_counter
from layerlore.memory.recall.recall_text import ADVICE
from layerlore.server.access.caller import Caller
from layerlore.server.access.credentials import local_principal
from layerlore.server.access.openings import AGAIN_MS, Openings
from layerlore.storage.core.records import Scope

from ...server.tools.calling import Connect, Tools

pytestmark = pytest.mark.anyio

COUNTER = load_counter()
PROFILE = "Lives in Graz."
PLAN: Any = {"goal": "Book the trip to Lima", "steps": [{"description": "Compare the flights"}]}


async def fill(connect: Connect, profile: str = PROFILE) -> None:
    """A profile, an open plan and a message, of an earlier connection."""
    async with connect() as tools:
        await tools("update_working_memory", content=profile, scope="resource")
        await tools("plan", action="create", plan=PLAN, thread_id="trip")
        await tools.say("home", "My cat is called Mila.")


async def recall(tools: Tools, **arguments: Any) -> Any:
    return await tools("recall_memory", query="What is my cat called?", **arguments)


@pytest.mark.eras
async def test_the_first_recall_of_a_connection_begins_with_the_profile_and_open_work_and_no_later_one(
    connect: Connect,
) -> None:
    await fill(connect)
    async with connect() as tools:
        first, second = await recall(tools), await recall(tools)
    assert first.startswith("<user-profile>")
    assert PROFILE in first
    assert "- plan of thread trip (today): Book the trip to Lima; 0 of 1 steps done; next: Compare the flights" in first
    assert first.endswith(second)
    assert second.startswith("Recalled from earlier conversations")
    async with connect() as tools:
        assert PROFILE in await recall(tools)


async def test_as_json_the_opening_has_a_field_of_its_own(connect: Connect) -> None:
    await fill(connect)
    async with connect() as tools:
        first, second = await recall(tools, format="json"), await recall(tools, format="json")
    assert first.pop("opening").startswith("<user-profile>")
    assert first == second


async def test_the_opening_takes_its_tokens_from_those_of_the_answer(connect: Connect) -> None:
    await fill(connect, profile="The user likes tea of every kind. " * 60)
    for most in (400, 1500):
        async with connect() as tools:
            first, second = await recall(tools, max_tokens=most), await recall(tools, max_tokens=most)
        assert COUNTER.text(first) <= most
        assert COUNTER.text(first.removesuffix(second)) <= OPENING_TOKENS
        assert "Mila" in first


async def test_after_a_context_no_recall_says_the_same_again(connect: Connect) -> None:
    await fill(connect)
    async with connect() as tools:
        context = await tools("get_context")
        assert PROFILE in context
        assert "Book the trip to Lima" in context
        assert PROFILE not in await recall(tools)


async def test_in_a_conversation_with_a_plan_the_opening_has_the_plan_until_it_is_done(connect: Connect) -> None:
    await fill(connect)
    async with connect(thread="trip") as tools:
        first = await recall(tools)
        assert "<plan>" in first
        assert "s1 [pending] build: Compare the flights" in first
        await tools("plan", action="update", plan={"steps": [{"id": "s1", "status": "completed"}]})
    async with connect(thread="trip") as tools:
        assert "Compare the flights" not in await recall(tools)


async def test_there_is_no_opening_where_nothing_is_kept_where_none_is_wanted_and_of_another_user(
    connect: Connect,
) -> None:
    async with connect() as tools:
        await tools.say("home", "My cat is called Mila.")
        assert (await recall(tools)).startswith("Recalled from earlier conversations")
    await fill(connect)
    async with connect() as tools:
        assert PROFILE not in await recall(tools, opening=False)
        read = await tools.client.read_resource("memory://recall?query=cat")
        assert PROFILE not in str(read)
        assert PROFILE in await recall(tools)
    async with connect(resource="ben") as other:
        assert PROFILE not in await recall(other)


def test_a_client_without_a_connection_gets_an_opening_once_in_half_an_hour_in_each_thread() -> None:
    openings, scope = Openings(), Scope("local", "coach", "ana")
    caller = Caller(local_principal("coach", "ana"), scope, "main", "", "a client")
    others = [
        replace(caller, default_thread="other"),
        replace(caller, client="another"),
        replace(caller, scope=Scope("local", "coach", "ben")),
    ]
    assert openings.claim(caller, now=0)
    assert not openings.claim(caller, now=AGAIN_MS - 1)
    assert [openings.claim(each, now=1) for each in others] == [True, True, True]
    assert openings.claim(caller, now=AGAIN_MS)
    assert not openings.claim(replace(caller, by_page=True, default_thread="of the page"), now=0)


async def test_the_first_answer_in_doubt_suggests_other_wordings_and_no_later_one(connect: Connect) -> None:
    await fill(connect)
    async with connect() as tools:
        assert ADVICE not in await recall(tools)
        assert ADVICE not in await tools("recall_memory", queries=["a zeppelin", "an airship"])
        first = await tools("recall_memory", query="Who sold the zeppelin?")
        second = await tools("recall_memory", query="Who sold the zeppelin?")
    assert first == f"{second} {ADVICE}"


async def test_the_suggestion_takes_its_tokens_from_those_of_the_answer(connect: Connect) -> None:
    async with connect() as tools:
        for number in range(60):
            await tools.say("home", f"Number {number}: the cat Mila slept in the garden of a neighbour all afternoon.")
        question = {
            "query": "Which zeppelin, cargo, captain, cabin and cat did the company insure?",
            "max_tokens": 1000,
        }
        first = await tools("recall_memory", **question)
    assert first.endswith(ADVICE)
    assert COUNTER.text(first) <= 1000
