"""``layerlore forget``, ``edit`` and ``undo``: a look first, a change, and the way back."""

import json
import os
import pty
import re
import shlex
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

from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

PATIENCE = 60.0  # seconds: only a hang takes so long

Cli = Callable[..., tuple[int, str, str]]
Run = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def kept(tmp_path: Path) -> str:
    """The data folder of a small memory, and in it the id of an entry."""
    anyio.run(_fill, tmp_path)
    return str(tmp_path)


async def _fill(folder: Path) -> None:
    flags = {"data_dir": str(folder), "embedding": {"embedder": "none"}}
    async with Client(build_server(load_settings(flags, environ={}))) as client:
        said = [{"role": "user", "content": "My gate code is 4711."}, {"role": "user", "content": "I like tea."}]
        await client.call_tool("add_messages", {"messages": said, "thread_id": "home"})
        proof = {"evidence": "gate code is 4711", "source": "user_assertion", "thread_id": "home"}
        await client.call_tool("remember", {"content": "Ana's gate code is 4711.", **proof})
        await client.call_tool("update_working_memory", {"content": "likes tea\nhas a cat", "scope": "resource"})


@pytest.fixture
def run(cli: Cli, kept: str) -> Run:
    """A command on that memory: its code, what it prints as JSON, and what it says beside."""

    def ran(*arguments: str) -> tuple[int, Any, str]:
        code, printed, errors = cli("--data-dir", kept, *arguments, "--json")
        return code, json.loads(printed) if printed else None, errors

    return ran


def shown(run: Run, view: str) -> Any:
    return run("show", view)[1]


@pytest.mark.programs
def test_what_is_forgotten_by_words_is_shown_first_and_comes_back(run: Run) -> None:
    code, answer, _ = run("forget", "gate", "code", "--dry-run")
    assert (code, answer["forgotten"]) == (0, False)
    assert "- message #1 of thread home, user" in answer["preview"]
    assert "Ana's gate code is 4711." in answer["preview"]
    assert len(shown(run, "entries")["entries"]) == 1
    code, answer, _ = run("forget", "gate", "code", "--yes")
    assert (code, answer["forgotten"]) == (0, True)
    assert shown(run, "entries")["entries"] == []
    assert run("undo", answer["undo"])[1]["messages"] == 1
    assert len(shown(run, "entries")["entries"]) == 1


def test_what_can_be_undone_is_listed_with_times_of_the_users_zone(
    run: Run, cli: Cli, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("edit", "profile", "--text", "likes coffee", "--yes")
    [act, *_] = run("undo")[1]["acts"]
    monkeypatch.setenv("LAYERLORE_TIME_ZONE", "Pacific/Kiritimati")
    _, listed, _ = cli("--data-dir", kept, "undo")
    done, until = (
        datetime.fromisoformat(act[name]).astimezone(ZoneInfo("Pacific/Kiritimati")) for name in ("at", "until")
    )
    assert f"{done:%Y-%m-%d %H:%M}" in listed
    assert f"{until:%Y-%m-%d}" in listed


def test_the_command_that_undoes_a_change_is_about_the_same_memory(cli: Cli, kept: str) -> None:
    about = ("--data-dir", kept, "--resource", "Ana O'Neill")
    assert cli(*about, "edit", "profile", "--text", "likes tea", "--yes")[0] == 0
    _, told, _ = cli(*about, "edit", "profile", "--text", "likes coffee", "--yes")
    [command] = re.findall(r"`(.+)` undoes it", told)
    program, *arguments = shlex.split(command)
    assert Path(program).name == "layerlore"
    assert cli(*arguments)[0] == 0
    assert json.loads(cli(*about, "show", "profile", "--json")[1])["content"] == "likes tea"


def test_an_entry_is_forgotten_by_its_id(run: Run) -> None:
    (entry,) = shown(run, "entries")["entries"]
    code, answer, _ = run("forget", entry["id"], "--yes")
    assert (code, answer["note"]) == (0, "Forgotten: 1 entry.")
    assert run("forget", entry["id"], "--yes")[0] == 1
    assert run("undo", "last")[1]["entries"] == 1


def test_an_entry_that_a_person_corrects_gives_its_place_whoever_said_it(run: Run) -> None:
    (old,) = shown(run, "entries")["entries"]
    code, answer, _ = run("edit", "entries", old["id"], "--text", "Ana's gate code is 9000.", "--yes")
    assert (code, [each["id"] for each in answer["replaced"]]) == (0, [old["id"]])
    (new,) = shown(run, "entries")["entries"]
    assert (new["content"], new["trust"]) == ("Ana's gate code is 9000.", "user")
    assert run("undo", answer["undo"])[1]["entries"] == 1
    (back,) = shown(run, "entries")["entries"]
    assert {**back, "said_at": old["said_at"]} == old


def test_a_document_and_a_title_are_edited_with_a_look_at_the_difference(run: Run) -> None:
    code, answer, _ = run("edit", "profile", "--text", "likes mate\nhas a cat", "--dry-run")
    assert (code, answer) == (
        0,
        {"changed": False, "preview": "--- before\n+++ after\n-likes tea\n+likes mate\n has a cat"},
    )
    _, answer, _ = run("edit", "profile", "--text", "likes mate\nhas a cat", "--yes")
    assert shown(run, "profile")["content"] == "likes mate\nhas a cat"
    assert run("edit", "profile", "--text", "likes mate\nhas a cat", "--yes")[1] == {"changed": False}
    assert run("undo", answer["undo"])[1]["documents"] == 1
    assert shown(run, "profile")["content"] == "likes tea\nhas a cat"
    assert run("edit", "thread", "home", "--text", "Home", "--yes")[1]["title"] == "Home"
    assert "title" not in run("edit", "thread", "home", "--text", "", "--yes")[1]
    assert run("edit", "session", "home", "--text", "at the gate", "--yes")[1]["version"] == 1


@pytest.mark.programs
def test_control_c_at_a_question_ends_the_command_and_changes_nothing(run: Run, kept: str) -> None:
    """A terminal turns the key into a signal for the program that it controls."""
    (entry,) = shown(run, "entries")["entries"]
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "layerlore.server", "--data-dir", kept, "forget", entry["id"]]
    with subprocess.Popen(
        ["setsid", "--ctty", *command], stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs, env=own_environment()
    ) as asked:
        said = b""
        while b"[y/N]" not in said:
            said += os.read(ours, 1024)
        os.write(ours, b"\x03")
        assert asked.wait(PATIENCE) != 0
    os.close(ours)
    os.close(theirs)
    assert len(shown(run, "entries")["entries"]) == 1


def test_an_editor_gives_the_new_text(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "sed -i s/tea/mate/")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert run("edit", "profile", "--yes")[1]["dropped"] == ["likes tea"]
    assert shown(run, "profile")["content"] == "likes mate\nhas a cat"


def test_where_nothing_would_change_a_command_says_so_and_needs_no_consent(run: Run) -> None:
    code, answer, errors = run("forget", "zeppelin")
    assert (code, errors) == (0, "")
    assert answer["forgotten"] is False
    assert "nothing to forget" in answer["note"]
    assert run("edit", "profile", "--text", "likes tea\nhas a cat") == (0, {"changed": False}, "")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("forget", "gate"), "--yes to do it without asking"),
        (("forget", "0" * 8 + "-0000" * 3 + "-" + "0" * 12), "there is no entry"),
        (("edit", "profile", "--text", "x"), "--yes to do it without asking"),
        (("edit", "profile"), "give the new text with --text"),
        (("edit", "profile", "home", "--text", "x", "--yes"), "edit profile takes no id"),
        (("edit", "entries", "--text", "x", "--yes"), "edit entries needs an id"),
        (("edit", "entries", "none", "--text", "x", "--yes"), "there is no entry 'none'"),
        (("edit", "entries", "none", "--text", "x"), "there is no entry 'none'"),
        (("edit", "entries", "none"), "there is no entry 'none'"),
        (("edit", "thread", "none", "--text", "x", "--yes"), "there is no conversation 'none'"),
        (("undo", "u_nothing1"), "there is nothing to undo under 'u_nothing1'"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line_and_changes_nothing(
    run: Run, arguments: tuple[str, ...], why: str
) -> None:
    code, printed, errors = run(*arguments)
    assert code in (1, 2)
    assert printed is None
    assert why in errors
    assert errors.count("\n") == 1
    assert run("undo")[1] == {"acts": []}
