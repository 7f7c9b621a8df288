"""record_steps and list_steps: what an agent did, in order, as it was given."""

import json
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.rules.validation import Limits

from ...server.tools.calling import TEXTS, Connect, Json, Tools, examples
from ...server.tools.test_limits import nested
from ..secrets.test_masking import MARK, ONE, TWO

pytestmark = pytest.mark.anyio

STEP = 64 * 1024


@pytest.fixture
def tools(all_tools: Tools) -> Tools:
    return all_tools


def said(content: Any = "hello", operation_id: Any = "op", **rest: Any) -> Json:
    return {"type": "text", "operation_id": operation_id, "content": content, **rest}


async def record(tools: Tools, *steps: Json, thread_id: str = "main") -> Json:
    answer: Json = await tools("record_steps", steps=list(steps), thread_id=thread_id)
    return answer


async def refused(tools: Tools, *steps: Any) -> str:
    return await tools.refused("record_steps", steps=list(steps), thread_id="main")


async def listed(tools: Tools, **arguments: Any) -> list[Json]:
    page = await tools("list_steps", **{"thread_id": "main", "limit": 200, **arguments})
    found: list[Json] = page["steps"]
    return found


def plain(step: Json) -> Json:
    """A step without what the server gives it."""
    return {key: value for key, value in step.items() if key not in ("seq", "created_at")}


WHOLE: Json = {
    "type": "tool_result",
    "operation_id": "op-1",
    "agent_id": "a1",
    "agent_name": "Researcher",
    "sub_agent_id": "s1",
    "sub_agent_name": "Reader",
    "role": "tool",
    "content": "read it",
    "tool_name": "fetch",
    "tool_call_id": "c1",
    "arguments": {"url": "x", "deep": [1, None, {"k": 2.5}]},
    "result": ["page", 7, None],
    "is_error": False,
    "usage": {"prompt_tokens": 3, "completion_tokens": 4, "more": {"of": "it"}},
    "model": "gpt-4o",
    "metadata": {"trace": "t1"},
}


async def test_a_step_comes_back_with_all_that_was_given_and_nothing_more(tools: Tools) -> None:
    answer = await record(tools, {**WHOLE, "created_at": "2025-03-01T10:00:00Z"}, said())
    assert (answer["thread_id"], answer["first"], answer["last"], answer["events"]) == ("main", 1, 2, 0)
    first, second = await listed(tools)
    assert first == {**WHOLE, "seq": 1, "created_at": "2025-03-01T10:00:00.000Z"}
    assert plain(second) == said()
    assert second["created_at"] > first["created_at"]


async def test_reasoning_is_a_step_of_its_own(tools: Tools) -> None:
    thought = {"type": "reasoning", "operation_id": "op", "content": "Which city?", "usage": {"input_tokens": 3}}
    answer = await record(tools, thought)
    assert answer["usage"]["input_tokens"] == 3
    assert [plain(step) for step in await listed(tools)] == [thought]
    assert "belongs to a step of the type tool_call" in await refused(tools, {**thought, "tool_name": "x"})


async def test_voltagents_spelling_and_records_are_understood(tools: Tools) -> None:
    record_of_voltagent = {
        "id": "call_1",
        "conversationId": "main",
        "userId": "u",
        "agentId": "a1",
        "agentName": "Supervisor",
        "operationId": "op",
        "stepIndex": 0,
        "type": "tool_call",
        "role": "assistant",
        "arguments": {"city": "Lima"},
        "usage": None,
        "subAgentId": "s1",
        "subAgentName": "Weather",
        "createdAt": "2025-03-01T10:00:00Z",
    }
    await record(tools, record_of_voltagent)
    assert await listed(tools) == [
        {
            "seq": 1,
            "type": "tool_call",
            "operation_id": "op",
            "id": "call_1",
            "step_index": 0,
            "agent_id": "a1",
            "agent_name": "Supervisor",
            "sub_agent_id": "s1",
            "sub_agent_name": "Weather",
            "role": "assistant",
            "tool_call_id": "call_1",
            "arguments": {"city": "Lima"},
            "created_at": "2025-03-01T10:00:00.000Z",
        }
    ]
    error = await refused(tools, {**record_of_voltagent, "conversationId": "other"})
    assert "steps[0].conversation_id: 'other' is not the conversation of this call, 'main'" in error
    for spelled in ("toolName", "tool_name"):
        await record(tools, {"type": "tool_call", "operationId": "op", spelled: "f", "toolCallId": "c"})
    assert [step.get("tool_name") for step in await listed(tools)] == [None, "f", "f"]


async def test_what_was_listed_can_be_recorded_again(tools: Tools) -> None:
    await record(tools, WHOLE, said())
    steps = await listed(tools)
    await record(tools, *steps, thread_id="copy")
    assert await listed(tools, thread_id="copy") == steps


async def test_a_call_and_its_result_are_two_steps_in_order_across_operations(tools: Tools) -> None:
    await record(tools, {"type": "tool_call", "operation_id": "a", "tool_name": "f", "tool_call_id": "c"})
    await record(tools, said(operation_id="b"))
    await record(tools, {"type": "tool_result", "operation_id": "a", "tool_call_id": "c", "result": 0})
    assert [(each["seq"], each["type"]) for each in await listed(tools)] == [
        (1, "tool_call"),
        (2, "text"),
        (3, "tool_result"),
    ]
    assert [each["seq"] for each in await listed(tools, operation_id="a")] == [1, 3]
    assert (await listed(tools, operation_id="a"))[1]["result"] == 0
    assert await listed(tools, operation_id="nothing") == []


async def test_steps_come_as_a_json_string_and_as_one_object_too(tools: Tools) -> None:
    await tools("record_steps", steps='[{"type": "text", "operation_id": "op", "content": "1"}]', thread_id="main")
    await tools("record_steps", steps=said("2"), thread_id="main")
    await tools("record_steps", steps='{"type": "text", "operation_id": "op", "content": "3"}', thread_id="main")
    assert [each["content"] for each in await listed(tools)] == ["1", "2", "3"]
    told = await tools.refused("record_steps", steps="[", thread_id="main")
    assert 'a string must hold JSON, such as [{"type": "text", "operation_id": ' in told


async def test_agents_events_go_to_the_log_in_the_order_given(tools: Tools) -> None:
    answer = await record(
        tools,
        {"type": "AgentStart", "operationId": "op"},
        {"type": "ToolExecutionStart", "payload": {"toolCallId": "c", "args": {"a": [1]}}},
        {"type": "tool_call", "operation_id": "op", "tool_name": "f"},
        said(),
        {"type": "Error", "operation_id": "op", "payload": {"message": "no", "operation_id": "op"}},
    )
    assert (answer["first"], answer["last"], answer["events"]) == (1, 2, 3)
    events = (await tools("list_events", thread_id="main"))["events"]
    assert [(each["type"], each["payload"]) for each in events] == [
        ("AgentStart", {"operation_id": "op"}),
        ("ToolExecutionStart", {"toolCallId": "c", "args": {"a": [1]}}),
        ("steps_recorded", {"first": 1, "last": 2}),
        ("Error", {"message": "no", "operation_id": "op"}),
    ]
    only_events = await record(tools, {"type": "AgentEnd"})
    assert only_events == {"thread_id": "main", "events": 1}
    assert len(await listed(tools)) == 2


WRONG: list[tuple[Any, str]] = [
    ("hello", "steps[1]: must be an object"),
    (
        {"operation_id": "op", "content": "x"},
        "steps[1].type: is missing; allowed: text, reasoning, tool_call, tool_result, Agent",
    ),
    (said(type="tool-call"), "steps[1].type: unknown type 'tool-call'; allowed: text"),
    (said(type="tool-call"), "did you mean 'tool_call'?"),
    (said(type="agentstart"), "did you mean 'AgentStart'?"),
    (said(type=["text"]), "steps[1].type: unknown type a list"),
    ({"type": "text", "content": "x"}, "steps[1].operation_id: is missing"),
    (said(operation_id=5), "steps[1].operation_id: must be a string"),
    (said(contents="x"), "steps[1]: unknown key 'contents'; allowed: type, operation_id, id, step_index, agent_id"),
    (said(contents="x"), "did you mean 'content'?"),
    (said(toolNames="x"), "did you mean 'tool_name'?"),
    (said(agentId="a", agent_id="a"), "steps[1]: agent_id is given twice, as 'agent_id' and in another spelling"),
    (said(content=["x"]), "steps[1].content: must be a string, not a list"),
    (said(role="bot"), "steps[1].role: unknown role 'bot'; allowed: system, user, assistant, tool"),
    (said(tool_name="f"), "steps[1].tool_name: belongs to a step of the type tool_call or tool_result"),
    ({"type": "text", "operation_id": "op"}, "steps[1]: says nothing; a step of the type text has content or usage"),
    ({"type": "tool_call", "operation_id": "op", "role": "assistant"}, "has tool_name or tool_call_id or arguments"),
    ({"type": "tool_call", "operation_id": "op", "tool_name": "f", "result": 1}, "a call and its result are two steps"),
    ({"type": "tool_call", "operation_id": "op", "tool_name": "f", "is_error": True}, "of the type tool_result"),
    ({"type": "tool_result", "operation_id": "op", "result": 1, "is_error": "no"}, "is_error: must be true or false"),
    (said(agent_name="x" * 256), "steps[1].agent_name: 256 characters; at most 255 are allowed"),
    (said(metadata=[1]), "steps[1].metadata: must be a JSON object"),
    (said(created_at="yesterday"), "steps[1].created_at: must be an ISO 8601 time"),
    (said(usage={"tokens": 1}), "steps[1].usage: no known token count"),
    (said(usage={"input_tokens": -1}), "steps[1].usage.input_tokens: must be a whole number of tokens"),
    (said(content="half \ud83d"), "U+D83D"),
    (said("x" * STEP), "65,536 are allowed in one step, so shorten its content"),
    ({"type": "tool_call", "operation_id": "op", "arguments": nested(65)}, "nested more than 64 levels deep"),
    ({"type": "AgentStart", "content": "x"}, "steps[1]: unknown key 'content'; allowed: type, operation_id, payload"),
    ({"type": "AgentStart", "payload": "x"}, "steps[1].payload: must be a JSON object"),
    ({"type": "AgentStart", "payload": nested(65)}, "nested more than 64 levels deep"),
    ({"type": "AgentStart", "payload": {"x": "x" * STEP}}, "65,536 are allowed in one step, so shorten its x"),
    ({"type": "AgentStart", "operation_id": "a", "payload": {"operation_id": "b"}}, "differs from the operation_id"),
]


async def test_what_is_wrong_is_named_with_its_place_and_nothing_is_recorded(tools: Tools) -> None:
    await tools.say("main", "hello")
    for step, told in WRONG:
        assert told in await refused(tools, said(), step)
    assert await listed(tools) == []
    assert len((await tools("list_events", thread_id="main"))["events"]) == 1


async def test_a_call_has_one_to_a_hundred_steps(tools: Tools) -> None:
    answer = await record(tools, *[said()] * 99, {"type": "TurnEnd"})
    assert (answer["last"], answer["events"]) == (99, 1)
    assert "101 in one call; at most 100 are allowed" in await refused(tools, *[said()] * 101)
    assert "at least one step is needed" in await refused(tools)
    assert "must be a list of steps or one step" in await tools.refused("record_steps", steps=5, thread_id="main")


async def test_a_step_is_as_large_as_its_limit(tools: Tools, connect: Connect) -> None:
    content = "x" * (STEP - len('{"content":""}'))
    await record(tools, said(content))
    assert (await listed(tools))[0]["content"] == content
    await refused(tools, said(content + "x"))
    await record(tools, {"type": "tool_call", "operation_id": "op", "arguments": nested(64)})
    await record(tools, {"type": "AgentStart", "payload": {"k": nested(63)}})
    async with connect(toolsets="all", limits={"step_bytes": 30, "steps_per_call": 2}) as small:
        await record(small, said("x" * 16), said(), thread_id="small")
        assert "30 are allowed" in await refused(small, said("x" * 17))
        assert "2 are allowed" in await refused(small, *[said()] * 3)


@pytest.mark.databases
async def test_a_page_goes_on_with_its_cursor_until_there_is_no_more(tools: Tools) -> None:
    await record(tools, *(said(str(n), "ab"[n % 2]) for n in range(10)))
    for arguments, expected in (({}, range(10)), ({"operation_id": "b"}, range(1, 10, 2))):
        seen, cursor = [], ""
        while True:
            page = await tools("list_steps", thread_id="main", limit=2, cursor=cursor, **arguments)
            seen += [int(step["content"]) for step in page["steps"]]
            cursor = page.get("next_cursor", "")
            if not cursor:
                break
        assert seen == list(expected)


async def test_a_page_of_large_steps_ends_early(tools: Tools) -> None:
    content = "x" * (STEP - 100)
    for _ in range(3):
        await record(tools, *[said(content)] * 4)
    page = await tools("list_steps", thread_id="main", limit=200)
    assert len(page["steps"]) == Limits().answer_bytes // (2 * STEP) - 1
    rest = await tools("list_steps", thread_id="main", limit=200, cursor=page["next_cursor"])
    assert [step["seq"] for step in page["steps"] + rest["steps"]] == list(range(1, 13))
    assert "next_cursor" not in rest


async def test_a_cursor_belongs_to_its_listing(tools: Tools) -> None:
    await record(tools, *[said()] * 3)
    cursor = (await tools("list_steps", thread_id="main", limit=1))["next_cursor"]
    other = {"operation_id": "op", "cursor": cursor, "thread_id": "main"}
    assert "another operation_id" in await tools.refused("list_steps", **other)
    for broken in ("x", "ü", cursor[:-6], "W10=", "WyJhIiwiIix0cnVlXQ=="):
        assert "not one that list_steps gave" in await tools.refused("list_steps", cursor=broken, thread_id="main")
    await record(tools, *[said()] * 3, thread_id="other")
    assert "another conversation" in await tools.refused("list_steps", cursor=cursor, thread_id="other")
    await tools("delete_thread", thread_id="main")
    await record(tools, *[said()] * 3)
    assert "an earlier one of that name" in await tools.refused("list_steps", cursor=cursor, thread_id="main")


async def test_a_step_made_from_a_message_is_hidden_with_it(tools: Tools, connect: Connect) -> None:
    await tools.add("main", {"role": "user", "content": "a", "id": "m1"}, {"role": "user", "content": "b", "id": "m2"})
    await record(
        tools,
        said("of m1", message_id="m1"),
        said("plain"),
        {"type": "TurnStart", "message_id": "m1", "payload": {"of": "m1"}},
        said("of m2", messageId="m2"),
    )
    assert (await listed(tools))[0]["message_id"] == "m1"
    await tools("delete_messages", which="ids", ids=["m1"], thread_id="main")
    assert [step["content"] for step in await listed(tools)] == ["plain", "of m2"]
    events = (await tools("list_events", thread_id="main"))["events"]
    assert [event["type"] for event in events] == ["messages_added", "steps_recorded", "messages_deleted"]
    for unknown in ("m1", "m9"):
        error = await refused(tools, said(), said(message_id=unknown))
        assert f"steps[1].message_id: there is no message {unknown!r} in this conversation" in error
    await tools.add("elsewhere", {"role": "user", "content": "c", "id": "m7"})
    assert "no message 'm7'" in await refused(tools, said(message_id="m7"))
    assert "no message 'm7'" in await tools.refused(
        "record_steps", steps=[said(message_id="m7")], thread_id="not yet made"
    )
    assert "not yet made" not in str(await tools("list_threads"))
    async with connect(toolsets="all", retention={"deleted_days": 0}) as erasing:
        await erasing("delete_messages", which="all", thread_id="main")
        assert [step["content"] for step in await listed(erasing)] == ["plain"]


async def test_secrets_are_masked_wherever_they_come_in_and_the_answer_counts_them(tools: Tools) -> None:
    steps: list[Json] = [
        said(f"the key is {ONE}"),
        said(operation_id=ONE, agent_name=ONE, model=ONE, usage={"input_tokens": 1}),
        {"type": "tool_call", "operation_id": "op", "tool_name": ONE, "arguments": {"deep": [ONE], TWO: 1}},
        {"type": "tool_result", "operation_id": "op", "result": ONE, "metadata": {"k": ONE}},
        {"type": "AgentStart", "payload": {"password": TWO, "list": [ONE]}},
    ]
    assert [(await record(tools, step))["masked"] for step in steps] == [1, 3, 3, 2, 2]
    shown = str([await listed(tools), await tools("list_events", thread_id="main"), await tools("memory_status")])
    assert not [secret for secret in (ONE, TWO) if secret in shown]
    assert MARK.search(shown)
    assert [step["content"] for step in await listed(tools, operation_id=ONE)] == ["hello"]
    assert "masked" not in await record(tools, said())


async def test_steps_sent_again_are_recorded_once(tools: Tools) -> None:
    keyed: Json = {"thread_id": "main", "meta": {"layerlore/idempotency-key": "k1"}}
    steps = [said(f"secret {ONE}", usage={"input_tokens": 1}), {"type": "AgentEnd"}]
    first = await tools("record_steps", steps=steps, **keyed)
    assert await tools("record_steps", steps=json.dumps(steps), **keyed) == first
    assert "new key" in await tools.refused("record_steps", steps=steps[:1], **keyed)
    assert len(await listed(tools)) == 1
    assert len((await tools("list_events", thread_id="main"))["events"]) == 2


async def test_a_foreign_thread_is_as_unknown_as_any_other(tools: Tools, connect: Connect) -> None:
    await tools.add("main", {"role": "user", "content": "a", "id": "m1"})
    await record(tools, said("a secret garden"))
    async with connect(toolsets="all", resource="ben") as other:
        foreign = await other("list_steps", thread_id="main")
        assert foreign | {"thread_id": "nobody"} == await other("list_steps", thread_id="nobody")
        foreign = await refused(other, said(message_id="m1"))
        assert foreign.replace("m1", "m9") == await refused(other, said(message_id="m9"))
        assert (await record(other, said("mine")))["first"] == 1
        assert [step["content"] for step in await listed(other)] == ["mine"]
    assert [step["content"] for step in await listed(tools)] == ["a secret garden"]


async def test_a_thread_that_steps_made_is_listed_and_its_time_moves_on(tools: Tools) -> None:
    await record(tools, said())
    (made,) = (await tools("list_threads"))["threads"]
    assert (made["thread_id"], made["messages"]) == ("main", 0)
    await record(tools, said())
    (changed,) = (await tools("list_threads"))["threads"]
    assert changed["created_at"] <= made["updated_at"] <= changed["updated_at"]


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\x00"), min_size=1, max_size=20)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(st.none() | inner, max_size=3) | st.dictionaries(NAMES, st.none() | inner, max_size=3),
    max_leaves=6,
)
ANYWHERE: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("agent_id", "agent_name", "sub_agent_id", "sub_agent_name", "model"), NAMES),
    "role": st.sampled_from(["system", "user", "assistant", "tool"]),
    "content": TEXTS,
    "usage": st.fixed_dictionaries({"input_tokens": st.integers(0, 10**6)}, optional={"details": VALUES}),
    "metadata": st.dictionaries(NAMES, VALUES, max_size=3),
}


def steps_of(type_: str, needed: Json, optional: Json) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({"type": st.just(type_), "operation_id": NAMES, **needed}, optional=optional)


STEPS = st.one_of(
    steps_of("text", {"content": ANYWHERE["content"]}, {key: ANYWHERE[key] for key in ANYWHERE if key != "content"}),
    steps_of("tool_call", {"tool_name": NAMES}, {**ANYWHERE, "tool_call_id": NAMES, "arguments": VALUES}),
    steps_of(
        "tool_result",
        {"tool_call_id": NAMES},
        {**ANYWHERE, "tool_name": NAMES, "arguments": VALUES, "result": VALUES, "is_error": st.booleans()},
    ),
)


def exact(step: Json) -> dict[str, str]:
    """To be compared by: in Python true is 1, and 1 is 1.0."""
    return {key: repr(value) for key, value in step.items()}


@pytest.mark.databases
@examples(25)
@given(steps=st.lists(STEPS, min_size=1, max_size=4))
async def test_any_step_comes_back_as_it_was(tools: Tools, steps: list[Json]) -> None:
    thread = uuid.uuid4().hex
    answer = await record(tools, *steps, thread_id=thread)
    found = await listed(tools, thread_id=thread)
    if "masked" not in answer:
        assert [exact(plain(step)) for step in found] == [exact(step) for step in steps]
    assert [step["seq"] for step in found] == list(range(1, len(steps) + 1))
