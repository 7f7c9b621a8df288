"""What a caller is told when a call cannot be done: what was wrong, what is allowed, and nothing from below."""

import logging
from collections.abc import Callable

import pytest
from mcp import Client
from sqlalchemy import text

from layerlore.conformance.seeing_all import see_all
from layerlore.server.runtime.engines import open_engine
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import Settings, load_settings
from layerlore.server.tools.toolsets import DECLARATIONS
from layerlore.storage.core.transaction import Tx

from .calling import Connect, Json, Tools, text_of
from .sample_calls import SAMPLE_CALLS

pytestmark = [pytest.mark.anyio, pytest.mark.eras]


def test_there_is_a_call_for_every_tool() -> None:
    assert sorted(SAMPLE_CALLS) == sorted(declaration.name for declaration in DECLARATIONS)


async def test_every_tool_refuses_an_argument_it_does_not_have_and_names_the_nearest(all_tools: Tools) -> None:
    tools = all_tools
    await tools.say("main", "hello")
    for tool in (await tools.client.list_tools()).tools:
        names = list(tool.input_schema.get("properties", {}))
        for name in names:
            error = await tools.refused(tool.name, **{**SAMPLE_CALLS[tool.name], f"{name}x": "main"})
            assert error.startswith(f"{tool.name} has no argument '{name}x'; did you mean '{name}'? (it takes ")
        error = await tools.refused(tool.name, **{**SAMPLE_CALLS[tool.name], "zzz": 1})
        assert error.startswith(f"{tool.name} has no argument 'zzz' (it takes ")
        for name in names:
            assert name in error
    assert await tools.texts("main") == ["hello"]


async def test_a_misspelt_thread_never_means_another_thread(connect: Connect) -> None:
    async with connect(thread="main") as tools:
        await tools.say("main", "hello")
        await tools.refused("delete_messages", which="all", thread="other")
        await tools.refused("delete_messages", which="last_turn", threadId="other")
        assert await tools.texts("main") == ["hello"]


async def test_a_tool_that_does_not_exist_is_named_with_the_nearest(tools: Tools) -> None:
    assert await tools.unknown("add_message") == "there is no tool 'add_message'; did you mean 'add_messages'?"
    assert len(await tools.unknown("x" * 10_000)) < 200
    assert len(await tools.refused("memory_status", **{"x" * 10_000: 1})) < 200


WRONG: list[tuple[str, Json, str]] = [
    ("add_messages", {}, "messages: "),
    ("add_messages", {"messages": 5}, "messages: must be a list of messages or one message, not a number"),
    ("add_messages", {"messages": "hello"}, "messages: a string must hold JSON"),
    ("plan", {"action": "create", "plan": "hello"}, 'plan: a string must hold a JSON object, such as {"goal": '),
    ("add_messages", {"messages": [], "thread_id": 5}, "thread_id: "),
    ("add_messages", {"messages": [{"content": "x"}]}, "messages[0].role: is missing; allowed: system"),
    ("add_messages", {"messages": [{"role": "user", "contnet": "x"}]}, "did you mean 'content'?"),
    ("add_messages", {"messages": [], "replace": "perhaps"}, "replace: "),
    ("get_messages", {"limit": "many"}, "limit: "),
    ("get_messages", {"detail": "medium"}, "detail: Input should be 'low', 'normal' or 'high'"),
    ("get_messages", {"roles": 5}, "roles: "),
    ("delete_messages", {"which": "ids", "ids": 5}, "ids: "),
    ("get_context", {"max_tokens": 499}, "max_tokens: Input should be greater than or equal to 500"),
    ("get_context", {"format": "yaml"}, "format: Input should be 'text', 'openai', 'responses', 'anthropic', 'gemini'"),
    ("recall_memory", {"query": ["tea"]}, "query: "),
    ("recall_memory", {"query": "tea", "format": "xml"}, "format: Input should be 'text' or 'json'"),
    ("recall_memory", {"query": "tea", "until": "soon"}, "until: must be an ISO 8601 time"),
    ("list_threads", {"order_by": "size"}, "order_by: "),
    ("list_threads", {"metadata": [1]}, "metadata: "),
    ("update_thread", {"title": 5}, "title: "),
    ("update_thread", {"window": 5}, "window: must be the name of a profile, an object of a policy's fields"),
    ("update_thread", {"window": ["short"]}, "window: must be the name of a profile"),
    ("update_thread", {"window": "shrot"}, "window: unknown profile 'shrot'; allowed: default"),
    ("update_thread", {"window": {"profile": "shrot"}}, "window.profile: unknown profile 'shrot'; allowed: default"),
    ("update_thread", {"window": {"profile": 5}}, "window.profile: must be the name of a profile, not a number"),
    ("update_thread", {"window": {"limt": "tokens"}}, "window: unknown key 'limt'"),
    ("update_thread", {"window": "{no"}, "window: it cannot be read as JSON"),
    ("update_thread", {"window": {"max_images": -1}}, "window.max_images: must be 0 to 100,000, not -1"),
    ("update_thread", {"window": {"target": 500}}, "window: target must be below threshold"),
    ("delete_thread", {"thread_id": ["main"]}, "thread_id: "),
    ("submit_memory_job", {"job_id": "", "result": {}}, "job_id: "),
    ("submit_memory_job", {"job_id": "x"}, "result: "),
]


async def test_a_wrong_value_is_refused_by_name_with_what_is_allowed(tools: Tools) -> None:
    for tool, arguments, told in WRONG:
        assert told in await tools.refused(tool, **arguments), (tool, arguments)


async def test_lists_and_objects_may_come_as_json_text(tools: Tools) -> None:
    await tools.say("main", "tea")
    assert await tools.found("tea", roles='["user"]') == ["tea"]
    assert (await tools("update_thread", thread_id="main", metadata='{"k": 1}'))["metadata"] == {"k": 1}
    assert await tools.found('["tea"]') == ["tea"]


async def spoil(settings: Settings) -> None:
    """Make what is stored unreadable, and what would be written unwritable, under a running server."""

    async def change(tx: Tx) -> None:
        await see_all(tx)
        await tx.run(text("ALTER TABLE threads RENAME COLUMN metadata TO gone"))
        await tx.run(text("DROP TABLE idempotency"))
        await tx.run(text("DROP TABLE runs"))
        await tx.run(text("DROP TABLE jobs"))
        await tx.run(text("ALTER TABLE entries RENAME COLUMN content TO gone"))

    engine = await open_engine(settings)
    try:
        await engine.database.write_installation(change)
    finally:
        await engine.database.close()


async def test_an_unexpected_failure_says_so_and_nothing_of_what_it_was(
    all_tools: Tools, settings_for: Callable[..., Settings], caplog: pytest.LogCaptureFixture
) -> None:
    tools = all_tools
    await tools.say("main", "hello")
    await spoil(settings_for())
    # An id that names no act has nothing to undo.
    untouched = ("undo", "memory_status")
    touching = {name: arguments for name, arguments in SAMPLE_CALLS.items() if name not in untouched}
    for meta in (None, {"layerlore/idempotency-key": "k"}):
        for tool, arguments in touching.items():
            caplog.clear()
            with caplog.at_level(logging.ERROR):
                result = await tools.raw(tool, meta=meta, **arguments)
            assert result.is_error
            assert text_of(result) == f"{tool} failed unexpectedly; the server's log says why"
            (record,) = [record for record in caplog.records if record.name == "layerlore.server.runtime.tool_server"]
            assert record.exc_info


@pytest.mark.parametrize(
    "url",
    ["sqlite:////dev/null/nowhere/memory.db", "postgresql://ana:hunter2@127.0.0.1:1/memory"],
    ids=["file", "server"],
)
async def test_a_memory_that_cannot_be_opened_is_an_error_of_every_call_without_its_password(url: str) -> None:
    settings = load_settings({"database": url, "toolsets": "all"}, environ={})
    async with Client(build_server(settings)) as client:
        tools = Tools(client)
        assert len((await client.list_tools()).tools) == len(SAMPLE_CALLS)
        for tool, arguments in SAMPLE_CALLS.items():
            error = await tools.refused(tool, **arguments)
            assert error.startswith("the memory cannot be opened: ")
            assert "hunter2" not in error
