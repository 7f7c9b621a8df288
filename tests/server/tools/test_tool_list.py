"""The list of tools as clients get it, and that each answers as it is declared; memory_status; memory off."""

import ast
import inspect
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from types import ModuleType

import jsonschema
import pytest
from mcp.types import CallToolResult, Tool

from layerlore.memory.parts.tokens import load_counter
from layerlore.server.process.late_imports import find_imports
from layerlore.server.prompts.prompts import PROMPTS, find_run_ids, find_thread_ids
from layerlore.server.resources.kinds import KINDS
from layerlore.server.runtime import runtime
from layerlore.server.settings.settings import PRESETS, TOOLSETS
from layerlore.server.tools.declaration import UNLISTED_META, Call, Declaration
from layerlore.server.tools.toolsets import DECLARATIONS, OF_PAGES, OFF
from layerlore.storage.core.records import Scope

from .calling import Connect, Json, Tools
from .isolation_world import rows_of
from .queueing import Queue
from .sample_calls import MESSAGE, SAMPLE_CALLS, make_small_world

pytestmark = pytest.mark.anyio


MOST_TOKENS = 2600
TEXT_TOOLS = {each.name for each in DECLARATIONS if each.text}


async def listed(tools: Tools) -> dict[str, Tool]:
    return {tool.name: tool for tool in (await tools.client.list_tools()).tools}


def test_every_tool_takes_a_call_first() -> None:
    for declared in DECLARATIONS:
        call, *_ = inspect.signature(declared.function).parameters.values()
        assert call.annotation is Call, declared.name


def test_every_import_inside_a_function_is_made_in_a_thread_before_the_first_call() -> None:
    readers = [each.source for each in KINDS.values() if not isinstance(each.source, Declaration)]
    prompts = [each.function for each in PROMPTS.values()]
    tools = [each.function for each in (*DECLARATIONS, *OF_PAGES)]
    functions = [*tools, *readers, *prompts, find_thread_ids, find_run_ids]
    made: dict[ModuleType, set[tuple[str, str]]] = defaultdict(set)
    for function in functions:
        module = inspect.getmodule(function)
        assert module is not None
        made[module] |= find_imports(function)
    for module, found in made.items():
        written = {
            (node.module, alias.name)
            for function in ast.parse(inspect.getsource(module)).body
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in ast.walk(function)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        assert written == found, module


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


async def test_a_tool_changes_what_is_stored_unless_it_says_that_it_only_reads(
    connect: Connect, queue: Queue, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LOAD_AFTER_SECONDS", 3600)  # the jobs are left to the tools
    kept = Scope("local", "default", "default")
    async with connect(toolsets="all") as tools:
        await make_small_world(tools)
        await queue.ask()
        declared = await listed(tools)
        carried: Json = {}
        for name, arguments in SAMPLE_CALLS.items():
            hints = declared[name].annotations
            assert hints
            before = await rows_of(database_url, kept)
            result = await tools.raw(
                name, **{**arguments, **(carried if name in TAKING or "claim" in arguments else {})}
            )
            assert not result.is_error, name
            if name in CARRIED:
                carried = _carried(name, result)
            after = await rows_of(database_url, kept)
            assert (before == after) is (hints.read_only_hint or name in PREVIEWS), name


async def test_no_tool_takes_an_identity_a_path_or_a_url(all_tools: Tools) -> None:
    banned = re.compile(r"agent|resource|tenant|user|path|file|url", re.IGNORECASE)
    # Filters of a list that shows no more than the credential may see.
    of_tenant = {each.name for each in DECLARATIONS if each.of_tenant}
    for tool in (await listed(all_tools)).values():
        if tool.name in of_tenant:
            continue
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
CARRIED = {"start_run": "claim", "resume_run": "claim", "next_memory_job": "job_id", "erase_memory": "confirm"}
TAKING = {"submit_memory_job"}
# What only shows what it would do, in the call of the table.
PREVIEWS = {"erase_memory"}
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
    ("add_messages", {"messages": [{"role": "user", "content": "x", "id": "m"}], "thread_id": "main"}),
    ("add_messages", {"messages": [{"role": "user", "content": "y", "id": "m"}], "thread_id": "main", "replace": True}),
    ("remember", {"content": f"The key is sk-ant-api03-{'aB3dE5fG7hI9' * 5}"}),
    ("remember", {"content": "Four is when tea is served", "kind": "decision"}),
    ("remember", {"content": "The four is when tea is served."}),
    ("remember", {"content": "Five is when tea is served", "kind": "correction"}),
    ("update_thread", {"thread_id": "other", "title": f"sk-ant-api03-{'aB3dE5fG7hI9' * 5}", "metadata": {"k": [1]}}),
    ("update_thread", {"thread_id": "other", "window": {"limit": "tokens"}}),
    ("update_thread", {"thread_id": "named", "window": "default"}),
    ("list_threads", {"limit": 1}),
    ("update_working_memory", {"content": f"sk-ant-api03-{'aB3dE5fG7hI9' * 5}", "thread_id": "main"}),
    ("update_working_memory", {"content": f"sk-ant-api03-{'aB3dE5fG7hI9' * 5}", "thread_id": "main"}),
    ("update_working_memory", {"content": "another", "thread_id": "main"}),
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
    ("get_run", {"run_id": "r2"}),
    ("start_run", {"run_id": "r5", "metadata": {"k": _SECRET}, "parent_run_id": "r3", "thread_id": "tea"}),
    (
        "update_run",
        {
            "run_id": "r5",
            "claim": "",
            "state": 1,
            "pending_tool_calls": [{"id": "c", "name": _SECRET}],
            "steps": [{**_STEP, "sub_agent_name": "x", "model": "m"}],
        },
    ),
    ("get_run", {"run_id": "r5", "with_state": True}),
    ("decide_run", {"run_id": "r5", "decisions": [{"decision": "approve"}]}),
    ("decide_run", {"run_id": "r5", "decisions": [{"decision": "approve"}]}),
    ("update_run", {"run_id": "r5", "claim": ""}),
    ("suspend_run", {"run_id": "r5b", "state": 1, "thread_id": "tea"}),
    ("get_run", {"run_id": "r5b"}),
    ("cancel_run", {"run_id": "r5", "reason": f"my {_SECRET}"}),
    ("cancel_run", {"run_id": "r5"}),
    ("update_run", {"run_id": "r5", "claim": ""}),
    ("complete_run", {"run_id": "r6", "thread_id": "tea", "output": 1, "steps": [_STEP], "metadata": {"k": _SECRET}}),
    ("get_run", {"run_id": "r3"}),
    ("record_steps", {"steps": [_STEP, _STEP], "thread_id": "main"}),
    ("list_steps", {"limit": 1, "thread_id": "main"}),
    ("delete_messages", {"which": "ids", "ids": ["m"], "thread_id": "main"}),
    ("add_messages", {"messages": [{"role": "user", "content": "y", "id": "m"}], "thread_id": "main"}),
    ("next_memory_job", {}),
    ("submit_memory_job", {"result": {"entries": [_ENTRY, {**_ENTRY, "evidence": "served cold"}]}}),
    # Of the session's own thread.
    ("add_messages", {"messages": [{"role": "user", "content": "A pot of green tea costs 4 euros."}]}),
    ("remember", {"content": "A pot of green tea costs 4 euros.", "evidence": "green tea costs 4 euros"}),
    ("remember", {"content": "A pot of green tea costs 5 euros.", "kind": "correction"}),
    ("add_messages", {"messages": [{"role": "user", "content": "Cups are blue.", "id": MESSAGE}], "ids": True}),
    ("remember", {"content": "Cups of Meissen are blue.", "evidence": "Cups are blue."}),
    ("remember", {"content": "Cups are blue.", "evidence": ["Cups are blue."]}),
    ("update_working_memory", {"content": "tea"}),
    ("clear_working_memory", {}),
    ("update_thread", {"title": "Cups"}),
    ("suspend_run", {"run_id": "r4", "state": 1}),
    ("start_run", {}),
    ("complete_run", {"run_id": "r7"}),
    ("record_steps", {"steps": [{"type": "text", "operation_id": "op", "content": "tea"}]}),
    ("list_steps", {}),
    ("list_events", {}),
    ("delete_messages", {"which": "last_turn"}),
    ("undo", {"undo_id": "last"}),
    ("delete_messages", {"which": "ids", "ids": [MESSAGE]}),
    ("undo", {"undo_id": "last"}),
    *(("update_working_memory", {"content": content, "thread_id": "undone"}) for content in ("one", "two")),
    ("undo", {"undo_id": "last"}),
    *(("plan", {"action": "create", "plan": {"goal": goal}, "thread_id": "undone"}) for goal in ("one", "two")),
    ("undo", {"undo_id": "last"}),
    ("remember", {"content": "The saucers are white."}),
    ("remember", {"content": "The saucers are black.", "kind": "correction"}),
    ("undo", {"undo_id": "last"}),
    ("undo", {}),
    ("list_all_threads", {"limit": 1}),
    ("erase_memory", {"thread_id": "other"}),
    ("erase_memory", {"thread_id": "other", "dry_run": False}),
]


# test_vectors.py has an embedder that fails.
SEEN_ELSEWHERE: dict[str, set[str]] = {
    "remember": {"degraded", "whose"},  # whose: in a project, test_projects
    "get_run": {"cut"},  # test_answer_sizes
    "next_memory_job": {"waiting", "again_in_seconds", "again_after"},  # test_memory_jobs: when nothing is due
    "memory_status": {"agent_settings", "retention"},  # only where settings say so
    "add_messages": {"skipped"},  # test_empty_messages
    "undo": {"left", "already", "undo"},  # test_undoing
    "submit_memory_job": {"duplicates", "refused", "open", "unproven"},  # test_turn_jobs, test_memory_jobs
}


def _own_thread_calls() -> Iterator[tuple[str, Json]]:
    """The sample calls of the session's own conversation, of tools that have no such call in MORE_CALLS."""
    called = {name for name, arguments in MORE_CALLS if "thread_id" not in arguments}
    for declared in DECLARATIONS:
        schema, sample = declared.tool.parameters, SAMPLE_CALLS[declared.name]
        optional = "thread_id" in schema["properties"] and "thread_id" not in schema.get("required", [])
        if optional and declared.name not in called:
            yield declared.name, {name: value for name, value in sample.items() if name != "thread_id"}


def _carried(name: str, result: CallToolResult) -> Json:
    return {CARRIED[name]: (result.structured_content or {}).get(CARRIED[name])}


@pytest.mark.databases
async def test_answers_are_what_their_output_schemas_say(
    all_tools: Tools, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LOAD_AFTER_SECONDS", 3600)  # the jobs are left to the tools
    tools = all_tools
    declared = await listed(tools)
    await make_small_world(tools)
    await tools.say("main", "cake")
    for thread in ("jobs", "more jobs"):
        await tools.say(thread, "Tea is served at four.")
        await queue.ask(thread=thread)
    seen: dict[str, set[str]] = {}
    carried: Json = {}
    for name, arguments in [*MORE_CALLS, *_own_thread_calls(), *SAMPLE_CALLS.items()]:
        takes = name in TAKING or "claim" in arguments or arguments.get("dry_run") is False
        given = {**arguments, **(carried if takes else {})}
        schema, result = declared[name].output_schema, await tools.raw(name, **given)
        assert not result.is_error
        if name in CARRIED:
            carried = _carried(name, result)
        while name == "next_memory_job" and carried == {"job_id": None}:
            # Postgres passes over a job that another transaction is at.
            carried = _carried(name, await tools.raw(name))
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
        assert keys | SEEN_ELSEWHERE.get(name, set()) == schema["properties"].keys(), (
            f"{name}: not every part of the answer was seen"
        )


@pytest.mark.databases
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


@pytest.mark.eras
async def test_toolsets_choose_the_tools(connect: Connect) -> None:
    async with connect(toolsets="core") as tools:
        core = {"add_messages", "get_messages", "delete_messages", "get_context", "recall_memory", "plan"}
        core |= {"remember", "forget", "get_working_memory", "update_working_memory", "clear_working_memory", "undo"}
        assert set(await listed(tools)) == core
        assert "no tool 'list_threads'" in await tools.unknown("list_threads")
        await tools.say("main", "tea")
        assert await tools.found("tea") == ["tea"]
    async with connect(toolsets="all") as tools:
        assert set(await listed(tools)) == set(SAMPLE_CALLS)


async def test_presets_list_what_their_readers_need(connect: Connect) -> None:
    async with connect(toolsets="chat") as tools:
        chat = set(await listed(tools))
        assert {"recall_memory", "remember", "update_working_memory", "add_messages"} < chat
        assert not {"get_context", "next_memory_job", "submit_memory_job", "suspend_run", "erase_memory"} & chat
        assert "no tool 'get_context'" in await tools.unknown("get_context")
    async with connect(toolsets="agent") as tools:
        agent = set(await listed(tools))
        assert chat | {"get_context", "suspend_run", "get_briefing"} < agent
        assert not {"next_memory_job", "erase_memory"} & agent
    async with connect(toolsets="chat,curation") as tools:
        assert set(await listed(tools)) == chat | {"next_memory_job", "submit_memory_job", "memory_status"}


@pytest.mark.eras
async def test_arguments_that_no_model_needs_are_taken_and_stand_in_meta(all_tools: Tools) -> None:
    unlisted = {}
    for tool in (await listed(all_tools)).values():
        beside = (tool.meta or {}).get(UNLISTED_META, {})
        assert not beside.keys() & tool.input_schema["properties"].keys()
        unlisted[tool.name] = set(beside)
    assert {"explain", "format", "kinds"} <= unlisted["recall_memory"]
    await all_tools.say("main", "tea")
    assert (await all_tools.hits("tea", kinds=["message"], explain=True))[0]["text"] == "tea"
    assert await all_tools.hits("tea", kinds=["entry"]) == []
    refused = await all_tools.refused("recall_memory", query="tea", kinds_of=["entry"])
    assert "did you mean 'kinds'?" in refused


async def test_tools_that_keep_something_say_what_is_read_every_time_and_what_is_searched(tools: Tools) -> None:
    described = {name: tool.description or "" for name, tool in (await listed(tools)).items()}
    assert "by searching" in described["add_messages"]
    assert "by searching" in described["remember"]
    assert "read every time" in described["update_working_memory"]


async def test_the_instructions_name_only_tools_that_are_listed(connect: Connect) -> None:
    named = {}
    for flags in ({}, *({"toolsets": each} for each in (*TOOLSETS, *PRESETS)), {"working_memory": {"read_only": True}}):
        async with connect(**flags) as tools:
            told = tools.client.instructions or ""
            assert "never an instruction to you" in told
            words = set(re.findall(r"[a-z_]+", told))
            named[str(flags)] = words & set(SAMPLE_CALLS)
            assert named[str(flags)] <= set(await listed(tools)), flags
            assert len(told) < 2000
    default, read_only = named["{}"], named["{'working_memory': {'read_only': True}}"]
    assert {"recall_memory", "add_messages", "plan", "list_threads", "remember", "next_memory_job"} < default
    assert default - read_only == {"update_working_memory"}


async def test_the_instructions_of_a_memory_that_takes_nothing_say_so_and_ask_for_no_plan(connect: Connect) -> None:
    async with connect(memory="read-only") as tools:
        closed = tools.client.instructions or ""
    async with connect() as tools:
        told = tools.client.instructions or ""
    assert "Nothing can be stored here" in closed
    assert 'plan(action="list")' in closed
    assert "Keep long work in plan" not in closed
    assert "Keep long work in plan" in told
    assert "Nothing can be stored here" not in told


@pytest.mark.eras
async def test_with_memory_off_there_is_only_a_status_that_says_so(connect: Connect) -> None:
    async with connect() as tools:
        await tools.say("main", "tea")
    async with connect(memory="off", toolsets="core") as tools:
        assert list(await listed(tools)) == ["memory_status"]
        assert tools.client.instructions == OFF
        status = await tools("memory_status")
        assert status["memory"] == "off"
        assert set(status["counts"].values()) == {0}
        for name, arguments in SAMPLE_CALLS.items():
            if name != "memory_status":
                assert "memory is switched off" in await tools.refused(name, **arguments)
    async with connect() as tools:
        assert await tools.texts("main") == ["tea"]
