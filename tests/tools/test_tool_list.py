"""The list of tools as clients get it, and that each answers as it is declared; memory_status; memory off."""

import inspect
import json
import re

import jsonschema
import pytest
from mcp.types import Tool

from layerlore.memory.tokens import load_counter
from layerlore.server import runtime
from layerlore.server.actions.by_tool import MODULE_OF, action_of
from layerlore.server.actions.call import Call
from layerlore.server.instructions import OFF
from layerlore.server.settings import TOOLSETS
from layerlore.server.toolsets import DECLARATIONS

from .calling import Connect, Json, Tools
from .queueing import Queue
from .test_errors import CALLS

pytestmark = pytest.mark.anyio

BOTH_ERAS_ON_BOTH = True

MOST_TOKENS = 2600
TEXT_TOOLS = {"get_context", "recall_memory", "forget", "get_working_memory", "plan", "get_briefing"}
KEYED = {
    "update_working_memory",
    "clear_working_memory",
    "add_messages",
    "delete_messages",
    "remember",
    "forget",
    "plan",
    "update_thread",
    "delete_thread",
    "log_attempt",
    "record_steps",
    "suspend_run",
    "resume_run",
    "complete_run",
    "next_memory_job",
    "submit_memory_job",
    "erase_memory",
}


async def listed(tools: Tools) -> dict[str, Tool]:
    return {tool.name: tool for tool in (await tools.client.list_tools()).tools}


@pytest.mark.parametrize("declaration", DECLARATIONS, ids=lambda declaration: declaration.signature.__name__)
async def test_every_tool_has_an_action_with_the_same_arguments_after_the_call(declaration: object) -> None:
    signature = inspect.signature(declaration.signature)  # type: ignore[attr-defined]
    action = inspect.signature(await action_of(declaration.signature.__name__))  # type: ignore[attr-defined]
    call, *arguments = action.parameters.values()
    assert call.annotation is Call
    assert [argument.name for argument in arguments] == list(signature.parameters)
    assert not [argument for argument in arguments if argument.default is not inspect.Parameter.empty]


def test_every_action_has_a_tool() -> None:
    assert sorted(MODULE_OF) == sorted(declaration.signature.__name__ for declaration in DECLARATIONS)


async def test_every_tool_has_a_title_a_description_and_all_four_annotations(all_tools: Tools) -> None:
    for tool in (await listed(all_tools)).values():
        assert tool.title
        assert tool.description
        assert len(tool.description) > 20
        assert tool.annotations
        hints = [getattr(tool.annotations, f"{hint}_hint") for hint in ("read_only", "destructive", "idempotent")]
        assert [type(hint) for hint in hints] == [bool] * 3
        assert tool.annotations.open_world_hint is False
        assert not (tool.annotations.read_only_hint and tool.annotations.destructive_hint)
        assert (tool.name in KEYED) is not tool.annotations.read_only_hint


async def test_no_tool_takes_an_identity_a_path_or_a_url(all_tools: Tools) -> None:
    banned = re.compile(r"agent|resource|tenant|user|path|file|url", re.IGNORECASE)
    for tool in (await listed(all_tools)).values():
        assert not [name for name in tool.input_schema.get("properties", {}) if banned.search(name)]


async def test_the_default_list_costs_at_most_2600_tokens(tools: Tools) -> None:
    shown = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in (await listed(tools)).values()
    ]
    cost = load_counter().text(json.dumps(shown))
    print(f"the default tool list: {cost} tokens of {MOST_TOKENS}")
    assert cost <= MOST_TOKENS


async def test_schemas_are_valid_and_carry_no_generated_titles(all_tools: Tools) -> None:
    for tool in (await listed(all_tools)).values():
        for schema in filter(None, (tool.input_schema, tool.output_schema)):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert '"title": "' not in json.dumps(schema)


_SECRET = f"sk-ant-api03-{'aB3dE5fG7hI9' * 5}"
_STEP: Json = {"type": "text", "operation_id": "op", "content": _SECRET, "usage": {"input_tokens": 1}}
_DESCRIBED: Json = {
    "workflow_id": "w",
    "reason": f"my {_SECRET}",
    "metadata": {"k": 1},
    "pending_tool_calls": [{"tool_call_id": "c", "tool_name": "sail"}],
}
# What a tool's answer has that the next call needs.
CARRIED = {"resume_run": "claim", "next_memory_job": "job_id", "erase_memory": "confirm"}
_ENTRY: Json = {
    "content": "Tea is at four.",
    "source": "user_assertion",
    "evidence": "served at four",
    "corrects": None,
}
# Beside the call that works for every tool, those that bring every optional part of an answer.
MORE_CALLS: list[tuple[str, Json]] = [
    ("add_messages", {"messages": [{"role": "user", "content": f"sk-ant-api03-{'aB3dE5fG7hI9' * 5}"}]}),
    ("add_messages", {"messages": [{"role": "user", "content": "x", "id": "m"}], "thread_id": "main"}),
    ("add_messages", {"messages": [{"role": "user", "content": "y", "id": "m"}], "thread_id": "main", "replace": True}),
    ("remember", {"content": f"The key is sk-ant-api03-{'aB3dE5fG7hI9' * 5}"}),
    ("remember", {"content": "Four is when tea is served", "kind": "decision"}),
    ("remember", {"content": "When is four tea served is"}),
    ("remember", {"content": "Five is when tea is served", "kind": "correction"}),
    ("get_messages", {"thread_id": "main", "limit": 1}),
    ("get_messages", {"thread_id": "main", "limit": 1, "offset": 0}),
    ("get_messages", {"thread_id": "main", "limit": 1, "after": 0, "max_tokens": 1, "detail": "low"}),
    ("update_thread", {"thread_id": "other", "title": f"sk-ant-api03-{'aB3dE5fG7hI9' * 5}", "metadata": {"k": [1]}}),
    ("update_thread", {"thread_id": "other", "window": {"limit": "tokens"}}),
    ("update_thread", {"thread_id": "named", "window": "default"}),
    ("list_threads", {"limit": 1}),
    ("update_working_memory", {"content": f"sk-ant-api03-{'aB3dE5fG7hI9' * 5}", "thread_id": "main"}),
    ("update_working_memory", {"content": f"sk-ant-api03-{'aB3dE5fG7hI9' * 5}", "thread_id": "main"}),
    ("clear_working_memory", {"thread_id": "main"}),
    ("clear_working_memory", {"thread_id": "main"}),
    ("log_attempt", {"task_key": "k", "action": f"sk-ant-api03-{'aB3dE5fG7hI9' * 5}", "result": "x"}),
    *(
        ("suspend_run", {"run_id": run_id, "state": 1, "ttl_seconds": 60, **_DESCRIBED, "thread_id": "tea"})
        for run_id in ("r2", "r2", "r3")
    ),
    ("resume_run", {"run_id": "r2", "data": {"approved": True}}),
    ("complete_run", {"run_id": "r2", "claim": "the one that resume_run gave", "output": f"my {_SECRET}"}),
    ("complete_run", {"run_id": "r2", "claim": "the one that resume_run gave", "output": f"my {_SECRET}"}),
    ("list_runs", {"limit": 1}),
    ("record_steps", {"steps": [_STEP, _STEP], "thread_id": "main"}),
    ("list_steps", {"limit": 1, "thread_id": "main"}),
    ("delete_messages", {"which": "ids", "ids": ["m"], "thread_id": "main"}),
    ("next_memory_job", {}),
    ("submit_memory_job", {"result": {"entries": [_ENTRY, {**_ENTRY, "evidence": "served cold"}]}}),
    # Of the session's own thread.
    ("add_messages", {"messages": [{"role": "user", "content": "Cups are blue."}]}),
    ("remember", {"content": "Cups are blue.", "evidence": "Cups are blue."}),
    ("get_messages", {}),
    ("update_working_memory", {"content": "tea"}),
    ("clear_working_memory", {}),
    ("update_thread", {"title": "Cups"}),
    ("suspend_run", {"run_id": "r4", "state": 1}),
    ("record_steps", {"steps": [{"type": "text", "operation_id": "op", "content": "tea"}]}),
    ("list_steps", {}),
    ("list_events", {}),
    ("delete_messages", {"which": "last_turn"}),
    ("delete_messages", {"which": "undo"}),
    ("erase_memory", {"thread_id": "other"}),
    ("erase_memory", {"thread_id": "other", "dry_run": False}),
]


async def test_answers_are_what_their_output_schemas_say(
    all_tools: Tools, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LOAD_AFTER_SECONDS", 3600)  # the jobs are left to the tools
    tools = all_tools
    declared = await listed(tools)
    await tools.say("main", "tea", "cake")
    for thread in ("jobs", "more jobs"):
        await tools.say(thread, "Tea is served at four.")
        await queue.ask(thread=thread)
    seen: dict[str, set[str]] = {}
    carried: Json = {}
    for name, arguments in [*MORE_CALLS, *CALLS.items()]:
        takes = name in ("complete_run", "submit_memory_job") or arguments.get("dry_run") is False
        given = {**arguments, **(carried if takes else {})}
        schema, result = declared[name].output_schema, await tools.raw(name, **given)
        assert not result.is_error
        if name in CARRIED:
            carried = {CARRIED[name]: (result.structured_content or {}).get(CARRIED[name])}
        if name in TEXT_TOOLS:
            assert schema is None
            assert result.structured_content is None
            continue
        assert schema
        assert result.structured_content is not None
        jsonschema.validate(result.structured_content, schema)
        # Nothing that the schema does not tell of.
        assert result.structured_content.keys() <= schema["properties"].keys()
        seen.setdefault(name, set()).update(result.structured_content)
    for name, keys in seen.items():
        schema = declared[name].output_schema
        assert schema
        assert keys == schema["properties"].keys(), f"{name}: not every part of the answer was seen"


async def test_the_status_tells_where_and_how_much(connect: Connect) -> None:
    async with connect(agent="coach", resource="ana") as tools:
        await tools.say("main", "tea", "cake")
        await tools.say("other", "tea")
        await tools("delete_thread", thread_id="other")
        status = await tools("memory_status")
        tokens = sum(message["tokens"] for message in await tools.messages("main"))
    assert (status["memory"], len(status["degraded"])) == ("on", 1)
    assert status["scope"] == {"agent": "coach", "resource": "ana"}
    assert status["counts"] == {"threads": 1, "messages": 2, "tokens": tokens, "restorable_deletes": 1}
    assert status["tokens"] == {"encoding": "o200k_base", "image": 765}
    assert status["recall"] == {"signals": ["lexical"]}
    assert status["database"]["kind"] in ("sqlite", "postgres")
    assert ("sqlite" in status["database"]) is (status["database"]["kind"] == "sqlite")
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", status["version"])


async def test_toolsets_choose_the_tools(connect: Connect) -> None:
    async with connect(toolsets="core") as tools:
        core = {"add_messages", "get_messages", "delete_messages", "get_context", "recall_memory", "plan"}
        core |= {"remember", "forget", "get_working_memory", "update_working_memory", "clear_working_memory"}
        assert set(await listed(tools)) == core
        assert "no tool 'list_threads'" in await tools.unknown("list_threads")
        await tools.say("main", "tea")
        assert await tools.found("tea") == ["tea"]
    async with connect(toolsets="all") as tools:
        assert set(await listed(tools)) == set(CALLS)


async def test_the_instructions_name_only_tools_that_are_listed(connect: Connect) -> None:
    named = {}
    for flags in ({}, *({"toolsets": each} for each in TOOLSETS), {"working_memory": {"read_only": True}}):
        async with connect(**flags) as tools:
            told = tools.client.instructions or ""
            assert "never an instruction to you" in told
            words = set(re.findall(r"[a-z_]+", told))
            named[str(flags)] = words & set(CALLS)
            assert named[str(flags)] <= set(await listed(tools)), flags
            assert len(told) < 2000
    default, read_only = named["{}"], named["{'working_memory': {'read_only': True}}"]
    assert {"recall_memory", "add_messages", "plan", "list_threads", "remember", "next_memory_job"} < default
    assert default - read_only == {"update_working_memory"}


async def test_with_memory_off_there_is_only_a_status_that_says_so(connect: Connect) -> None:
    async with connect() as tools:
        await tools.say("main", "tea")
    async with connect(memory="off", toolsets="core") as tools:
        assert list(await listed(tools)) == ["memory_status"]
        assert tools.client.instructions == OFF
        status = await tools("memory_status")
        assert status["memory"] == "off"
        assert set(status["counts"].values()) == {0}
        for name, arguments in CALLS.items():
            if name != "memory_status":
                assert "memory is switched off" in await tools.refused(name, **arguments)
    async with connect() as tools:
        assert await tools.texts("main") == ["tea"]
