"""The settings of single agents on one server: server < agent < thread."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from layerlore.memory.parts.tokens import TokenCounter
from layerlore.server.access.credentials import RIGHTS, Principal
from layerlore.server.runtime.engines import check_rules, window_rules
from layerlore.server.settings.settings import Settings, SettingsError, load_settings

from ..gated_server import Told, answer, connected, refused, served, settings_in

COUNTER = TokenCounter(None)
HOST = Principal("key:host", "acme", frozenset({"plain", "support"}), "ana", frozenset(RIGHTS))
SUPPORT: Any = {
    "window": {"limit": "messages", "max_messages": 1},
    "working_memory": {"read_only": True, "thread": {"format": "markdown", "template": "# Case\n"}},
    "entries": {"enabled": False},
    "recall": {"floor": 1.0},
    "context": {"memory": False},
}


def of(**agents: Any) -> Settings:
    return load_settings({"agents": agents}, environ={})


def test_what_an_agent_is_given_takes_the_place_of_the_servers_and_the_rest_stays() -> None:
    server = {
        "window": {"limit": "tokens", "max_tokens": 900},
        "recall": {"floor": 0.2, "sure": 0.6},
        "working_memory": {"max_bytes": 999, "thread": {"format": "json", "json_schema": {"type": "object"}}},
    }
    own = {"window": {"max_tokens": 300}, "recall": {"floor": 0.4}, "working_memory": {"thread": {}}}
    settings = load_settings({**server, "agents": {"support": own}}, environ={})
    check_rules(settings, COUNTER)
    support = settings.for_agent("support")
    assert (support.recall.floor, support.recall.sure) == (0.4, 0.6)
    # A document is given as a whole: this one has no schema of the server's.
    assert (support.working_memory.max_bytes, support.working_memory.thread.format) == (999, "text")
    window = window_rules(support, COUNTER).default
    assert (window.limit, window.max_tokens) == ("tokens", 300)
    assert settings.for_agent("other") is settings


def test_a_variable_has_them_as_json_and_a_file_as_tables(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("[agents.support.entries]\nenabled = false\n")
    found = load_settings(config=str(tmp_path / "settings.toml"), environ={})
    assert found.for_agent("support").entries.enabled is False
    given = {"LAYERLORE_AGENTS": '{"support": {"entries": {"enabled": false}}}'}
    assert load_settings(environ=given).for_agent("support").entries.enabled is False


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (
            {"recal": {}},
            "agents.support.recal (from flag --recal): no such setting; did you mean agents.support.recall",
        ),
        (
            {"memory": "sometimes"},
            "agents.support.memory (from flag --memory): Input should be 'on', 'read-only' or 'off'",
        ),
        ({"recall": {"flor": 0.1}}, "no such setting; did you mean agents.support.recall.floor?"),
        ({"http": {"port": 1}}, "agents.support.http (from flag --http): no such setting"),
        ({"recall": {"floor": 1.5}}, "agents.support.recall.floor (from flag --floor): Input should be less than"),
        ({"working_memory": {"thread": {"format": "markdown"}}}, "agents.support.working_memory.thread"),
        (
            {"working_memory": {"max_bytes": 5, "thread": {"format": "markdown", "template": "# long"}}},
            "agents.support.working_memory.thread.template: 6 bytes; agents.support.working_memory.max_bytes is 5",
        ),
        (
            {"working_memory": {"thread": {"format": "json", "json_schema": {"type": "strin"}}}},
            "agents.support.working_memory.thread.json_schema.type",
        ),
        ({"window": {"trim": "threshold"}}, 'agents.support.window: trim="threshold" goes with limit="messages" only'),
    ],
)
def test_what_is_unknown_or_impossible_is_an_error_that_names_the_agent(own: Any, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check_rules(of(support=own), COUNTER)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_agent_without_a_name_is_an_error() -> None:
    with pytest.raises(SettingsError, match="an agent's name is 1 to 255 characters"):
        of(**{"": {}})


async def _listed(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


async def _shown(client: Client) -> int:
    context = await answer(client, "get_context", thread_id="main", format="json")
    return str(context).count("green tea at")


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_two_agents_of_one_server_each_have_their_own_rules(tmp_path: Path, mode: str) -> None:
    said = [{"role": "user", "content": f"green tea at {hour} o'clock"} for hour in range(3)]
    settings = settings_in(tmp_path, agents={"support": SUPPORT})
    async with (
        served(settings, Told(host=HOST)) as url,
        connected(url, "host", mode, **{"Layerlore-Agent": "plain"}) as plain,
        connected(url, "host", mode, **{"Layerlore-Agent": "support"}) as support,
    ):
        gone = {"remember", "update_working_memory", "clear_working_memory"}
        assert await _listed(plain) - await _listed(support) == gone
        for name in gone:
            with pytest.raises(MCPError, match=f"there is no tool '{name}'"):
                await support.call_tool(name, {"content": "x"})
        for client in (plain, support):
            await answer(client, "add_messages", messages=said, thread_id="main")
            await answer(
                client, "add_messages", messages=[{"role": "assistant", "content": "Noted."}], thread_id="main"
            )
        waiting = [(await answer(client, "memory_status"))["jobs"]["waiting"] for client in (plain, support)]
        assert [any(job["kind"] == "entries" for job in jobs) for jobs in waiting] == [True, False]
        found = await plain.call_tool("recall_memory", {"query": "green tea"})
        assert "green tea at" in str(found.content)
        assert "Nothing relevant" in str((await support.call_tool("recall_memory", {"query": "green tea"})).content)
        assert "keeps no entries" in await refused(support, "recall_memory", query="tea", kinds=["entry"])
        kept = await answer(support, "get_working_memory", thread_id="main", format="json")
        assert (kept["format"], kept["template"]) == ("markdown", "# Case\n")
        assert (await answer(support, "memory_status"))["agent_settings"] == {
            **SUPPORT,
            "working_memory": {**SUPPORT["working_memory"], "thread": {"format": "markdown", "template": "# Case\n"}},
        }
        assert "agent_settings" not in await answer(plain, "memory_status")
        # A conversation's own window goes before its agent's.
        assert (await _shown(plain), await _shown(support)) == (3, 1)
        await answer(support, "update_thread", thread_id="main", window={"max_messages": 3})
        assert await _shown(support) == 2


@pytest.mark.parametrize(
    ("given", "mode"),
    [(False, "off"), ("off", "off"), (True, "on"), ("read-only", "read-only"), ("readOnly", "read-only")],
)
def test_the_memory_of_an_agent_has_a_mode(given: Any, mode: str) -> None:
    settings = of(support={"memory": given})
    assert settings.for_agent("support").memory == mode
    assert settings.for_agent("other").memory == "on"
    # Without a database there is nothing to switch on.
    assert (
        load_settings({"memory": "off", "agents": {"support": {"memory": given}}}).for_agent("support").memory == "off"
    )


CLOSED = {"plain": {}, "off": {"memory": False}, "reader": {"memory": "read-only"}}
READER = Principal("key:host", "acme", frozenset(CLOSED), "ana", frozenset(RIGHTS))


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_whose_memory_is_off_stores_and_recalls_nothing(tmp_path: Path, mode: str) -> None:
    said = {"messages": [{"role": "user", "content": "green tea"}], "thread_id": "tea"}
    async with (
        served(settings_in(tmp_path), Told(host=READER)) as url,
        connected(url, "host", mode, **{"Layerlore-Agent": "off"}) as client,
    ):
        await answer(client, "add_messages", **said)
    settings = settings_in(tmp_path, agents=CLOSED)
    async with (
        served(settings, Told(host=READER)) as url,
        connected(url, "host", mode, **{"Layerlore-Agent": "off"}) as client,
    ):
        assert await _listed(client) == {"memory_status"}
        assert (await answer(client, "memory_status"))["memory"] == "off"
        for tool, arguments in (("add_messages", said), ("recall_memory", {"query": "tea"}), ("get_context", {})):
            error = await refused(client, tool, **arguments)
            assert "memory is switched off for this agent (agents.off.memory = off)" in error
        assert not (await client.list_prompts()).prompts
        assert [str(each.uri) for each in (await client.list_resources()).resources] == ["memory://status"]
        with pytest.raises(MCPError, match="memory is switched off"):
            await client.read_resource("memory://threads/tea/messages")
        with pytest.raises(MCPError, match="memory is switched off"):
            await client.get_prompt("resume_work", {})
    # Switched on again, it has what it had.
    async with (
        served(settings_in(tmp_path), Told(host=READER)) as url,
        connected(url, "host", mode, **{"Layerlore-Agent": "off"}) as client,
    ):
        assert (await answer(client, "get_messages", thread_id="tea", format="json"))["total"] == 1


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_whose_memory_is_read_only_reads_and_changes_nothing(tmp_path: Path, mode: str) -> None:
    said = {"messages": [{"role": "user", "content": "green tea"}], "thread_id": "tea"}
    async with (
        served(settings_in(tmp_path), Told(host=READER)) as url,
        connected(url, "host", mode, **{"Layerlore-Agent": "reader"}) as client,
    ):
        await answer(client, "add_messages", **said)
    settings = settings_in(tmp_path, agents=CLOSED, toolsets=["all"])
    async with (
        served(settings, Told(host=READER)) as url,
        connected(url, "host", mode, **{"Layerlore-Agent": "reader"}) as client,
    ):
        tools = await _listed(client)
        assert {"get_messages", "recall_memory", "get_context", "get_working_memory", "plan", "list_runs"} <= tools
        assert not tools & {"add_messages", "remember", "forget", "update_working_memory", "erase_memory", "start_run"}
        assert (await answer(client, "get_messages", thread_id="tea", format="json"))["total"] == 1
        assert "green tea" in str((await client.call_tool("recall_memory", {"query": "green tea"})).content)
        assert "There is no plan" in str((await client.call_tool("plan", {"action": "review"})).content)
        writes: list[tuple[str, Any]] = [
            ("add_messages", said),
            ("remember", {"content": "Ana likes tea."}),
            ("forget", {"query": "tea"}),
            ("delete_messages", {"which": "all", "thread_id": "tea"}),
            ("plan", {"action": "create", "plan": {"goal": "x"}}),
        ]
        for tool, arguments in writes:
            error = await refused(client, tool, **arguments)
            assert "memory is read-only for this agent (agents.reader.memory = read-only)" in error
        assert (await answer(client, "get_messages", thread_id="tea", format="json"))["total"] == 1
        async with connected(url, "host", mode, **{"Layerlore-Agent": "plain"}) as plain:
            await answer(plain, "add_messages", **said)


@pytest.mark.anyio
async def test_an_agent_may_be_allowed_what_the_server_denies(tmp_path: Path) -> None:
    rules = {"working_memory": {"read_only": True}, "entries": {"enabled": False}}
    own = {"working_memory": {"read_only": False}, "entries": {"enabled": True}}
    settings = settings_in(tmp_path, **rules, agents={"support": own})
    anybody = replace(HOST, agents=None)
    async with served(settings, Told(host=HOST, any=anybody)) as url:
        async with connected(url, "host", **{"Layerlore-Agent": "support"}) as support:
            await answer(support, "remember", content="Deploys go through the staging host first.")
            await answer(support, "update_working_memory", content="x", scope="resource")
        async with connected(url, "any") as nobody:
            # Who names no agent sees what the server's own settings list.
            assert "remember" not in await _listed(nobody)
