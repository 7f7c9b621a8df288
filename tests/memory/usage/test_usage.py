"""Tokens and money of recorded steps: exact sums by thread and by model, priced from the shipped list."""

import asyncio
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.usage.model_usage import ModelUsage, load_prices

from ...server.tools.calling import Connect, Json, Tools, examples

pytestmark = pytest.mark.anyio

MODEL = "gpt-4o-mini"


@pytest.fixture
def tools(all_tools: Tools) -> Tools:
    return all_tools


def used(entered: int, left: int, model: str = MODEL, **usage: Any) -> Json:
    counts = {"input_tokens": entered, "output_tokens": left, **usage}
    return {"type": "text", "operation_id": "op", "usage": counts, **({"model": model} if model else {})}


def nano(entered: int, left: int, model: str = MODEL) -> int:
    cost = load_prices().cost(model, ModelUsage(entered, left))
    assert cost is not None
    return cost


async def record(tools: Tools, *steps: Json, thread_id: str = "main", **arguments: Any) -> Json:
    answer: Json = await tools("record_steps", steps=list(steps), thread_id=thread_id, **arguments)
    return answer


async def of_threads(tools: Tools) -> dict[str, Json]:
    return {row["thread_id"]: row.get("usage", {}) for row in (await tools("list_threads"))["threads"]}


async def of_resource(tools: Tools) -> Json:
    usage: Json = (await tools("memory_status"))["usage"]
    return usage


async def test_steps_with_usage_are_summed_for_their_thread_and_by_model(tools: Tools) -> None:
    answer = await record(tools, used(1000, 100), used(0, 7, cost=0.5), {**used(1, 1), "usage": None, "content": "x"})
    assert answer["usage"] == {
        "input_tokens": 1000,
        "output_tokens": 107,
        "cost_usd": (nano(1000, 100) + 500_000_000) / 10**9,
    }
    await record(tools, used(10, 1, "gpt-4o"), used(5, 5, "my-own"), thread_id="other")
    await tools.say("silent", "hello")
    threads = await of_threads(tools)
    assert threads["main"] == answer["usage"]
    assert threads["other"] == {
        "input_tokens": 15,
        "output_tokens": 6,
        "cost_usd": nano(10, 1, "gpt-4o") / 10**9,
        "unpriced_calls": 1,
    }
    assert threads["silent"] == {}
    (row,) = (await tools("list_threads", thread_id="main"))["threads"]
    assert row["usage"] == answer["usage"]
    status = await of_resource(tools)
    assert (status["calls"], status["input_tokens"], status["output_tokens"]) == (4, 1015, 113)
    assert [model["model"] for model in status["models"]] == [MODEL, "gpt-4o", "my-own"]
    assert status["models"][2] == {
        "model": "my-own",
        "calls": 1,
        "input_tokens": 5,
        "output_tokens": 5,
        "cost_usd": 0.0,
        "unpriced_calls": 1,
    }


async def test_steps_without_usage_have_none(tools: Tools) -> None:
    answer = await record(tools, {"type": "text", "operation_id": "op", "content": "x"})
    assert "usage" not in answer
    assert await of_threads(tools) == {"main": {}}
    assert await of_resource(tools) == {
        "calls": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "cost_usd": 0.0,
        "models": [],
    }


async def test_the_model_is_that_of_the_step_else_that_of_its_usage_else_none(tools: Tools) -> None:
    of_usage = {"usage": {"input_tokens": 1, "model": "b"}}
    await record(tools, used(1, 1, "a") | of_usage, used(1, 1, "") | of_usage, used(1, 1, ""))
    assert sorted(model.get("model", "") for model in (await of_resource(tools))["models"]) == ["", "a", "b"]


async def test_a_call_sent_again_is_counted_once_and_a_refused_one_not_at_all(tools: Tools) -> None:
    meta = {"layerlore/idempotency-key": "k1"}
    first = await record(tools, used(1, 2), meta=meta)
    assert await record(tools, used(1, 2), meta=meta) == first
    await tools.refused("record_steps", steps=[used(1, 2), used(1, 2) | {"message_id": "none"}], thread_id="main")
    assert (await of_resource(tools))["calls"] == 1


async def test_what_was_spent_stays_when_its_thread_is_erased(connect: Connect) -> None:
    async with connect(toolsets="all", retention={"deleted_days": 0}) as tools:
        await record(tools, used(1000, 100))
        before = await of_resource(tools)
        await tools("delete_thread", thread_id="main")
        assert await of_resource(tools) == before
        await record(tools, used(1, 1))
        assert (await of_threads(tools))["main"]["input_tokens"] == 1
        assert (await of_resource(tools))["input_tokens"] == 1001


async def test_no_tool_shows_what_another_resource_spent(connect: Connect) -> None:
    async with connect(toolsets="all", resource="ana") as ana, connect(toolsets="all", resource="ben") as ben:
        await record(ana, used(1000, 100))
        assert (await of_resource(ben))["calls"] == 0
        await record(ben, used(1, 1))
        assert (await of_threads(ben))["main"]["input_tokens"] == 1
        assert (await of_resource(ben))["input_tokens"] == 1


@pytest.mark.databases
async def test_writers_at_once_lose_no_token(connect: Connect) -> None:
    async with connect(toolsets="all") as one, connect(toolsets="all") as two:
        await asyncio.gather(
            *(record(on, used(3, 2), used(1, 1, "x"), thread_id=str(n % 2)) for n in range(8) for on in (one, two))
        )
        usage = await of_resource(one)
        assert (usage["calls"], usage["input_tokens"], usage["output_tokens"]) == (32, 64, 48)
        assert usage["cost_usd"] == 16 * nano(3, 2) / 10**9
        assert [each["unpriced_calls"] for each in (await of_threads(two)).values()] == [8, 8]


COUNTS = st.integers(0, 10**7)
STEPS = st.builds(used, COUNTS, COUNTS, st.sampled_from([MODEL, "gpt-4o", "my-own", ""])) | st.builds(
    lambda step, cost: {**step, "usage": {**step["usage"], "cost": cost / 10**6}},
    st.builds(used, COUNTS, COUNTS, st.sampled_from([MODEL, "my-own"])),
    st.integers(0, 10**7),
)


@pytest.mark.databases
@examples(20)
@given(calls=st.lists(st.lists(STEPS, min_size=1, max_size=4), min_size=1, max_size=3))
async def test_sums_are_exact_for_any_sequence_of_steps(tools: Tools, calls: list[list[Json]]) -> None:
    thread = uuid.uuid4().hex
    entered = left = cost = unpriced = 0
    for steps in calls:
        await record(tools, *steps, thread_id=thread)
        for step in steps:
            usage = step["usage"]
            entered, left = entered + usage["input_tokens"], left + usage["output_tokens"]
            known = load_prices().cost(step.get("model", ""), ModelUsage(usage["input_tokens"], usage["output_tokens"]))
            if "cost" in usage:
                cost += round(usage["cost"] * 10**6) * 1000
            elif known is None:
                unpriced += 1
            else:
                cost += known
    (row,) = (await tools("list_threads", thread_id=thread))["threads"]
    assert row["usage"] == {
        "input_tokens": entered,
        "output_tokens": left,
        "cost_usd": cost / 10**9,
        **({"unpriced_calls": unpriced} if unpriced else {}),
    }
