"""``layerlore show``: what is remembered, for people."""

import functools
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import anyio
import pytest
from launch_environment import own_environment
from mcp import Client

from layerlore.server.process.program import shell_command
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

PATIENCE = 60.0  # seconds: only a hang takes so long

Cli = Callable[..., tuple[int, str, str]]
KEPT = {"content": "Ana has a sesame allergy, not a peanut allergy.", "kind": "correction"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a small memory, which nothing here changes."""
    kept = tmp_path_factory.mktemp("memory") / "kept"
    anyio.run(_fill, kept)
    return kept


@pytest.fixture
def show(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What the command prints."""
    monkeypatch.setenv("COLUMNS", "150")

    def shown(*arguments: str) -> str:
        code, printed, errors = cli("--data-dir", str(folder), "show", *arguments)
        assert (code, errors) == (0, "")
        return printed

    return shown


LOOKED = "I look.\x1b[2J\n\tin\ta list\r\nand\rin\x0cmy\x0bold\x85books"


async def _fill(folder: Path) -> None:
    settings = load_settings(
        {"data_dir": str(folder), "embedding": {"embedder": "none"}, "toolsets": "all"}, environ={}
    )
    call = {"id": "c1", "type": "function", "function": {"name": "find_recipes", "arguments": '{"without": "nuts"}'}}
    async with Client(build_server(settings)) as client:

        async def do(tool: str, **arguments: Any) -> Any:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result.content
            return result.structured_content

        said = [
            {"role": "user", "content": "I have a peanut allergy."},
            {"role": "assistant", "content": LOOKED, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "Risotto\nand salad"},
            {"role": "user", "content": "No, it is a sesame allergy."},
        ]
        await do("add_messages", messages=said, thread_id="kitchen")
        await do("update_thread", thread_id="kitchen", title="Dinner")
        where = {"source": "user_assertion", "thread_id": "kitchen"}
        await do("remember", content="Ana has a peanut allergy.", evidence="I have a peanut allergy.", **where)
        await do("remember", **KEPT, evidence="No, it is a sesame allergy.", **where)
        await do("remember", content="Deploys go through the staging host first.")
        await do("update_working_memory", content="lives in Lisbon", scope="resource")
        plan = {"goal": "Bake a cake", "steps": [{"description": "buy flour"}]}
        await do("plan", action="create", plan=plan, thread_id="kitchen")
        waits = [{"tool_call_id": "c", "tool_name": "buy"}]
        await do("suspend_run", run_id="shopping", state={}, pending_tool_calls=waits, thread_id="kitchen")


def test_each_view_shows_what_is_kept_and_how_to_mend_it(show: Callable[..., str]) -> None:
    views: dict[tuple[str, ...], tuple[str, ...]] = {
        (): ("conversations, 4 messages in all", "notes for later conversations", "show threads`"),
        ("threads",): ("kitchen", "Dinner", "delete_thread", "erase --thread ID --agent default"),
        ("threads", "--everybody"): ("agent", "default", "kitchen"),
        ("thread", "kitchen"): (
            "kitchen: Dinner",
            "#1 user, 20",
            "  I have a peanut allergy.",
            '  -> find_recipes({"without": "nuts"})',
            "  <- Risotto and salad",
            "delete_messages",
        ),
        ("entries",): (
            "Ana has a sesame allergy, not a peanut allergy. (correction)",
            '  user_assertion, kitchen #4: "No, it is a sesame allergy."',
            '  in place of "Ana has a peanut allergy." (20',
            "Deploys go through the staging host first.",
            "the agent's own word",
            "forget ID`",
        ),
        ("profile",): ("lives in Lisbon", "update_working_memory", "undo last` brings"),
        ("plan",): ("Bake a cake", "0 of 1 steps", "shopping"),
        ("plan", "kitchen"): ("Bake a cake", "buy flour", 'plan(action="update")'),
        ("runs",): ("shopping", "suspended", "buy", "cancel_run"),
        ("runs", "kitchen"): ("shopping",),
        ("events",): ("thread_created", "entries_changed", "profile_updated"),
        ("events", "kitchen"): ("messages_added", "run_suspended", "A log"),
    }
    for arguments, parts in views.items():
        printed = show(*arguments)
        assert not [part for part in parts if part not in printed], (arguments, printed)
        assert "\x1b" not in printed


def test_times_are_those_of_the_users_zone(show: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    message = json.loads(show("thread", "kitchen", "--json"))["messages"][0]
    said = datetime.fromisoformat(message["said_at"]).astimezone(ZoneInfo("Pacific/Kiritimati"))
    monkeypatch.setenv("LAYERLORE_TIME_ZONE", "Pacific/Kiritimati")
    assert f"#1 user, {said:%Y-%m-%d %H:%M} " in show("thread", "kitchen")


def test_tabs_and_line_breaks_of_a_message_are_shown_and_what_controls_a_terminal_is_not(
    show: Callable[..., str],
) -> None:
    printed = show("thread", "kitchen").partition("I look.")[2]
    first, *lines = printed.splitlines()[:7]
    assert first == "\ufffd[2J"
    assert [line.split() for line in lines] == [["in", "a", "list"], ["and"], ["in"], ["my"], ["old"], ["books"]]


def test_json_is_what_the_tools_answer_and_a_limit_says_that_there_is_more(show: Callable[..., str]) -> None:
    found = json.loads(show("entries", "--json"))
    assert [entry["content"] for entry in found["entries"]] == [
        "Deploys go through the staging host first.",
        KEPT["content"],
    ]
    assert "more" not in found
    assert json.loads(show("entries", "--json", "--limit", "1")) == {"entries": found["entries"][:1], "more": True}
    assert "There is more: --limit shows it." in show("entries", "--limit", "1")
    thread = json.loads(show("thread", "kitchen", "--json", "--limit", "3"))
    assert ([message["seq"] for message in thread["messages"]], thread["more"]) == ([2, 3, 4], True)
    assert json.loads(show("events", "--json"))["events"][0]["type"] == "thread_created"
    last = json.loads(show("events", "kitchen", "--json", "--limit", "1"))
    assert ([event["type"] for event in last["events"]], last["more"]) == (["run_suspended"], True)


def test_what_is_not_there_or_does_not_go_together_is_said(cli: Cli, folder: Path, tmp_path: Path) -> None:
    kept = functools.partial(cli, "--data-dir", str(folder), "show")
    for arguments, said in (
        (("thread", "cellar"), f"there is no conversation 'cellar'; `{shell_command('--data-dir')}"),
        (("thread",), "show thread needs the id of a conversation"),
        (("entries", "kitchen"), "show entries takes no conversation; those that do are thread, plan, runs and events"),
        (("runs", "--everybody"), "--everybody goes with threads"),
    ):
        code, _, errors = kept(*arguments)
        assert (code, said in errors) == (1, True), errors
    code, _, errors = cli("--data-dir", str(tmp_path / "none"), "show", "entries")
    assert (code, "nothing is remembered: there is no database" in errors) == (1, True)
    assert "No entry is kept." in kept("entries", "--resource", "ben")[1]


@pytest.mark.programs
def test_a_terminal_gets_pages_in_colour(folder: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "layerlore", "--data-dir", str(folder), "show", "thread", "kitchen"]
    # Lines that come from the pager begin with a sign.
    variables = own_environment(PAGER="sed s/^/@/", LINES="5", COLUMNS="80", TERM="xterm-256color")
    program = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=variables)
    os.close(theirs)
    written = b""
    try:
        while read := os.read(ours, 65_536):
            written += read
    except OSError:  # the other end is closed
        pass
    assert program.wait() == 0
    os.close(ours)
    assert b"@  No, it is a sesame allergy." in written
    assert b"\x1b[1m" in written


async def _wait_for_title(folder: Path) -> None:
    """Say something in a conversation, and wait until background work has named it."""
    settings = load_settings({"data_dir": str(folder), "embedding": {"embedder": "none"}}, environ={})
    async with Client(build_server(settings)) as client:
        said = [
            {"role": "user", "content": "How do I prune an old apple tree in winter?"},
            {"role": "assistant", "content": "Cut the water shoots in February."},
        ]
        await client.call_tool("add_messages", {"messages": said, "thread_id": "garden"})
        with anyio.fail_after(PATIENCE):
            while True:
                listed = (await client.call_tool("list_threads", {})).structured_content
                assert listed is not None
                if "title" in listed["threads"][0]:
                    return


def test_an_event_of_background_work_is_shown_though_no_tool_made_it(cli: Cli, tmp_path: Path) -> None:
    anyio.run(_wait_for_title, tmp_path)
    code, printed, errors = cli("--data-dir", str(tmp_path), "show", "events")
    assert (code, errors) == (0, "")
    (line,) = [line for line in printed.splitlines() if "thread_updated" in line]
    assert "title" in line
