"""A name without a visible character is refused for something new; what has one already is still read and deleted."""

from collections.abc import Callable
from pathlib import Path

import pytest

from layerlore.memory.rules.validation import check_id
from layerlore.server.access.caller import AGENT_META, RESOURCE_META, THREAD_META
from layerlore.server.settings.settings import SettingsError, load_launched, load_served
from layerlore.server.tools import declaration
from layerlore.server.tools.toolsets import DECLARATIONS

from .calling import Tools, text_of
from .sample_calls import make_small_world, sample_call

pytestmark = pytest.mark.anyio

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tools(all_tools: Tools) -> Tools:
    return all_tools


BLANK = pytest.mark.parametrize("blank", [" ", "\u200b", "\u00a0\u2060 "])
REFUSED = "at least one of its 1 to 255 characters must be visible"


@BLANK
async def test_no_tool_stores_under_a_blank_thread(tools: Tools, blank: str) -> None:
    await make_small_world(tools)
    stored = 0
    takes_thread = [
        each.name for each in (await tools.client.list_tools()).tools if "thread_id" in each.input_schema["properties"]
    ]
    rights = {tool.name: tool.right for tool in DECLARATIONS}
    for name in takes_thread:
        result = await tools.raw(name, **{**sample_call(name, {}), "thread_id": blank})
        text = text_of(result)
        if rights[name] == "write":
            assert result.is_error, name
            assert REFUSED in text, (name, text)
            stored += 1
        else:
            assert REFUSED not in text, (name, text)
    assert stored > 5


@BLANK
async def test_a_run_a_step_and_an_attempt_need_a_visible_name(tools: Tools, blank: str) -> None:
    for name, arguments in (
        ("start_run", {"run_id": blank}),
        ("suspend_run", {"run_id": blank, "state": {}}),
        ("start_run", {"run_id": "r", "workflow_id": blank}),
        ("record_steps", {"steps": [{"type": "text", "operation_id": blank, "content": "tea"}]}),
        ("plan", {"action": "create", "plan": {"goal": "tea", "steps": [{"id": blank, "description": "boil"}]}}),
        ("log_attempt", {"task_key": blank, "action": "boil", "result": "hot"}),
    ):
        assert "characters must be visible" in await tools.refused(name, **arguments, thread_id="home"), name


@BLANK
async def test_a_request_names_no_blank_thread_agent_or_resource(tools: Tools, blank: str) -> None:
    for meta in (THREAD_META, AGENT_META, RESOURCE_META):
        refused = await tools.refused("get_messages", meta={meta: blank})
        assert f"_meta['{meta}']: has blanks and invisible characters only" in refused


@BLANK
@pytest.mark.parametrize("option", ["agent", "resource", "thread"])
def test_no_server_starts_under_a_blank_name_and_commands_still_read_it(
    cli: Cli, tmp_path: Path, blank: str, option: str
) -> None:
    named = (f"--{option}", blank, "--data-dir", str(tmp_path))
    refused = f"layerlore: {option}: has blanks and invisible characters only; at least one character must be visible\n"
    assert cli("serve", *named) == (2, "", refused)
    flags = {option: blank, "data_dir": str(tmp_path)}
    with pytest.raises(SettingsError, match="at least one character must be visible"):
        load_served(flags, {})
    assert load_launched(flags, {}).model_dump()[option] == blank
    assert "there is no database at" in cli("show", *named)[2]
    if option != "thread":
        assert f"{option}: has blanks" in cli("import", *named, "-")[2]


async def test_a_blank_thread_of_an_older_version_is_read_and_deleted(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(declaration, "check_new_id", check_id)
        await tools.say(" ", "My gate code is 4711.", "I like tea.")
        await tools("update_working_memory", content="at the gate", thread_id=" ")
    assert await tools.texts(" ") == ["My gate code is 4711.", "I like tea."]
    assert (await tools("list_threads", thread_id=" "))["threads"][0]["messages"] == 2
    assert "4711" in await tools("recall_memory", query="gate code", thread_id=" ")
    await tools("delete_messages", which="last_turn", thread_id=" ")
    await tools("clear_working_memory", thread_id=" ")
    await tools("delete_thread", thread_id=" ")
    assert (await tools("list_threads"))["threads"] == []
    # The erasure finds the deleted thread under its name, too.
    assert (await tools("erase_memory", thread_id=" "))["rows"] > 0
