"""What a client sends for what it does not mean: null, or the empty value of each type."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from mcp.types import Tool

from layerlore.server.runtime import runtime
from layerlore.server.tools.declaration import Declaration
from layerlore.server.tools.toolsets import DECLARATIONS

from .calling import Connect, Json, Tools, text_of
from .queueing import Queue
from .sample_calls import MESSAGE, SAMPLE_CALLS

pytestmark = pytest.mark.anyio

# Calls with the fewest arguments that mean something; "$claim" is what an earlier answer gave.
_CALLS: list[tuple[str, Json]] = [
    ("add_messages", {"messages": [{"role": "user", "content": "Tea is served at four.", "id": MESSAGE}]}),
    ("add_messages", {"messages": [{"role": "assistant", "content": "And cake at five."}]}),
    ("get_messages", {}),
    ("get_messages", {"before": 2}),
    ("get_messages", {"after": 1}),
    ("get_messages", {"offset": 1}),
    ("get_context", {}),
    ("recall_memory", {"query": "tea"}),
    ("remember", {"content": "Tea is served at four."}),
    ("remember", {"content": "Tea comes at four", "evidence": "served at four"}),
    ("forget", {"query": "cake"}),
    ("update_working_memory", {"content": "tea"}),
    ("update_working_memory", {"content": "cake", "scope": "resource"}),
    ("update_working_memory", {"content": "coffee"}),
    ("get_working_memory", {}),
    ("clear_working_memory", {"scope": "resource"}),
    ("plan", {"action": "create", "plan": {"goal": "Serve tea", "steps": [{"description": "boil water"}]}}),
    ("plan", {"action": "update", "plan": {"steps": [{"id": "s1", "status": "completed", "result": "hot"}]}}),
    ("plan", {"action": "update", "plan": {"current_phase": "execute"}}),
    ("plan", {"action": "review"}),
    ("plan", {"action": "review", "revision": 1}),
    ("update_thread", {"title": "Tea"}),
    ("update_thread", {"metadata": {"k": 1}}),
    ("update_thread", {"window": {"limit": "messages", "max_messages": 20}}),
    ("list_threads", {}),
    ("suspend_run", {"run_id": "r1", "state": {"step": 1}}),
    ("list_runs", {}),
    ("decide_run", {"run_id": "r1", "decisions": [{"data": 1}]}),
    ("get_run", {"run_id": "r1"}),
    ("resume_run", {"run_id": "r1"}),
    ("complete_run", {"run_id": "r1", "claim": "$claim"}),
    ("complete_run", {"run_id": "r2"}),
    ("start_run", {"run_id": "r3"}),
    ("update_run", {"run_id": "r3", "claim": "$claim"}),
    ("update_run", {"run_id": "r3", "claim": "$claim", "state": {"step": 1}}),
    ("cancel_run", {"run_id": "r3"}),
    ("record_steps", {"steps": [{"type": "text", "operation_id": "op", "content": "tea"}]}),
    ("list_steps", {}),
    ("list_events", {}),
    ("log_attempt", {"task_key": "tea", "action": "boil", "result": "hot"}),
    ("get_briefing", {"task": "serve tea"}),
    ("next_memory_job", {}),
    ("submit_memory_job", {"job_id": "$job_id", "result": {"entries": []}}),
    ("memory_status", {}),
]
_DELETIONS: list[tuple[str, Json]] = [
    ("delete_messages", {"which": "last_turn"}),
    ("delete_thread", {"thread_id": "main"}),
    ("erase_memory", {}),
    ("erase_memory", {"dry_run": False, "confirm": "$confirm"}),
]


def _needed(declared: Declaration) -> Json:
    """The sample call of a tool, without the conversation where it may be left out."""
    needed = declared.tool.parameters.get("required", [])
    sample = SAMPLE_CALLS[declared.name]
    return {name: value for name, value in sample.items() if name != "thread_id" or name in needed}


_OTHERS = [each for each in DECLARATIONS if each.name in SAMPLE_CALLS.keys() - dict([*_CALLS, *_DELETIONS])]
# Every tool: those without a call above with their sample call.
CALLS = [*_CALLS, *((each.name, _needed(each)) for each in _OTHERS), *_DELETIONS]
# What differs from one call to the next that is otherwise the same.
_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z?"), "<time>"),
    (re.compile(r"(?<=confirm=)\W*\w+|[0-9a-f-]{36}\.e\d+-\w+"), "<token>"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f-]{20,}|\b[A-Za-z0-9+/_-]{20,}={0,2}"), "<id>"),
    (re.compile(r"\bu_[a-z2-7]{8}\b"), "<undo>"),
    (re.compile(r"person-\w+"), "<person>"),
    (re.compile(r'"waiting":\[.*?\]|"due":\d+'), "<jobs, which fall due with time>"),
)

Fill = Callable[[Json], Any]


def null(_: Json) -> None:
    """As Pydantic and the strict modes of several SDKs fill in."""


def empty(schema: Json) -> Any:
    """The empty value of the type, as OpenAI's strict mode makes a model give one."""
    if "enum" in schema:
        return ""
    if schema.get("type") == "object":
        return {name: empty(each) for name, each in schema.get("properties", {}).items()}
    if schema.get("type") == "boolean":
        return "Default true." in schema.get("description", "")
    return {"integer": 0, "array": []}.get(schema.get("type", ""), "")


def empty_text(schema: Json) -> str:
    return ""


def filled(schemas: Json, given: Json, fill: Fill) -> Json:
    """What is given, with a value for every property that is not, in the objects within too."""
    made = {name: fill(schema) for name, schema in schemas.items() if name not in given}
    return made | {name: _within(schemas[name], value, fill) for name, value in given.items()}


def _within(schema: Json, value: Any, fill: Fill) -> Any:
    schemas = schema.get("properties")
    if isinstance(value, dict) and schemas:
        return filled(schemas, value, fill)
    if isinstance(value, list) and "items" in schema:
        return [_within(schema["items"], each, fill) if set(each) <= _keys(schema["items"]) else each for each in value]
    return value


def _keys(schema: Json) -> set[str]:
    return set(schema.get("properties", {}))


async def answers(tools: Tools, queue: Queue, person: str, fill: Fill | None) -> list[str]:
    """What each call is answered, the other arguments left out or filled in."""
    listed: dict[str, Tool] = {tool.name: tool for tool in (await tools.client.list_tools()).tools}
    carried: Json = {}
    told = []
    for name, arguments in CALLS:
        if name == "next_memory_job":
            await queue.ask(thread="main", resource=person)
        given = {key: carried[value[1:]] if str(value).startswith("$") else value for key, value in arguments.items()}
        sent = filled(listed[name].input_schema["properties"], given, fill) if fill else given
        result = await tools.raw(name, **sent)
        assert not result.is_error, (name, sent, text_of(result))
        carried |= result.structured_content or {}
        told.append(f"{name} {json.dumps(arguments)}: {masked(text_of(result))}")
    return told


def masked(text: str) -> str:
    for pattern, mask in _VARYING:
        text = pattern.sub(mask, text)
    return text


async def test_every_tool_has_such_a_call(all_tools: Tools) -> None:
    assert {tool.name for tool in (await all_tools.client.list_tools()).tools} == {name for name, _ in CALLS}


@pytest.mark.parametrize("fill", [null, empty, empty_text], ids=lambda fill: fill.__name__)
async def test_a_call_that_fills_in_what_it_does_not_mean_is_answered_as_one_that_leaves_it_out(
    connect: Connect, queue: Queue, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LOAD_AFTER_SECONDS", 3600)  # the jobs are left to the tools
    told = []
    for person, filling in (("person-a", None), ("person-b", fill)):
        async with connect(toolsets="all", resource=person, thread="main") as tools:
            told.append(await answers(tools, queue, person, filling))
    for plain, filled_in in zip(*told, strict=True):
        assert filled_in == plain


async def test_what_would_do_harm_is_never_guessed_from_what_is_empty(connect: Connect) -> None:
    async with connect(toolsets="all", thread="main") as tools:
        await tools.say("main", "tea")
        for nothing in (None, ""):
            sent = {"which": "all", "ids": [], "roles": [], "thread_id": nothing}
            assert "say which one with thread_id" in await tools.refused("delete_messages", **sent)
            assert "thread_id" in await tools.refused("delete_thread", thread_id=nothing)
            assert "content: needed" in await tools.refused("update_working_memory", content=nothing)
        assert await tools.texts("main") == ["tea"]


async def test_an_empty_value_says_what_it_is_documented_to_in_a_call_that_leaves_something_out(
    connect: Connect,
) -> None:
    async with connect(toolsets="all", thread="main") as tools:
        await tools.say("main", "one", "two")
        assert await tools.texts("main", limit=1, offset=0) == ["one"]
        assert await tools.texts("main", limit=1, after=0) == ["one"]
        await tools("update_thread", title="Tea", metadata={"k": 1})
        assert "title" not in await tools("update_thread", title="")
        await tools("update_working_memory", content="tea", expected_version=0)
        assert "expected_version" in await tools.refused("update_working_memory", content="cake", expected_version=0)
        plan = {"goal": "Serve tea", "iteration": 3, "steps": [{"description": "boil", "result": "hot"}]}
        await tools("plan", action="create", plan=plan)
        change = {"iteration": 0, "steps": [{"id": "s1", "result": ""}]}
        changed = await tools("plan", action="update", plan=change, format="json")
        assert changed["plan"]["iteration"] == 0
        assert "result" not in changed["plan"]["steps"][0]


async def test_all_arguments_given_with_only_a_title_keep_the_window_and_the_metadata(connect: Connect) -> None:
    async with connect(thread="main") as tools:
        await tools("update_thread", title="Tea", metadata={"k": 1}, window={"limit": "messages", "max_messages": 20})
        before = await tools("update_thread", title="Cake")
        after = await tools("update_thread", thread_id="", title="Cake", metadata={}, window="")
        assert {**after, "updated_at": ""} == {**before, "updated_at": ""}
        error = await tools.refused("update_thread", thread_id="", title="", metadata={}, window="")
        assert "nothing to update" in error


async def test_a_null_within_what_is_stored_is_as_if_it_was_not_there(connect: Connect) -> None:
    nothing = dict.fromkeys(
        (
            "id",
            "name",
            "created_at",
            "metadata",
            "files",
            "tool_calls",
            "function_call",
            "refusal",
            "audio",
            "annotations",
        )
    )
    call = {"id": "c1", "type": "function", "function": {"name": "boil", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Boil water."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "hot", "tool_call_id": "c1"},
        {"role": "assistant", "content": [{"type": "text", "text": "It is hot."}]},
    ]
    step = {"type": "text", "operation_id": "op", "content": "tea"}
    pending = {"tool_call_id": "c1", "tool_name": None, "suspended": None, "resume_schema": None}
    async with connect(toolsets="all") as tools:
        await tools.add("plain", *messages)
        await tools.add("null", *({**nothing, **message} for message in messages))
        part = {"type": "text", "text": "x", "citations": None, "cache_control": None}
        await tools.add("parts", {"role": "user", "content": [part]})
        assert [each["parts"] for each in await tools.messages("null")] == [
            each["parts"] for each in await tools.messages("plain")
        ]
        assert [each["metadata"] for each in await tools.messages("null") if "metadata" in each] == []
        await tools("record_steps", steps=[{**step, "agent_id": None, "usage": None, "metadata": None}])
        await tools("suspend_run", run_id="r", state=1, pending_tool_calls=[pending], metadata=None)
        plan = {
            "goal": "Serve tea",
            "current_phase": None,
            "steps": [{"description": "boil", "id": None, "result": None}],
        }
        assert "boil" in await tools("plan", action="create", plan=plan)


async def test_an_argument_that_is_needed_is_missing_when_it_is_null(all_tools: Tools) -> None:
    for tool in (await all_tools.client.list_tools()).tools:
        if needed := tool.input_schema.get("required", []):
            assert needed[0] in await all_tools.refused(tool.name, **dict.fromkeys(needed))
