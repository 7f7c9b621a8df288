"""The commands that a command suggests are about the memory that it is about itself."""

import functools
import importlib
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
from mcp import Client

from layerlore.server.command_line.app import ENTRIES
from layerlore.server.command_line.commands.show import OF_ONE, View
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

Cli = Callable[..., tuple[int, str, str]]
SUGGESTED = re.compile(r"`([^`\n]*\blayerlore [^`\n]*)`")
OWNER = {"agent": "bot", "resource": "Ana O'Neill"}


async def _fill(folder: Path) -> None:
    flags = {"data_dir": str(folder), "embedding": {"embedder": "none"}, **OWNER}
    async with Client(build_server(load_settings(flags, environ={}))) as client:
        said = [{"role": "user", "content": "My gate code is 4711."}]
        await client.call_tool("add_messages", {"messages": said, "thread_id": "home"})
        proof = {"evidence": "gate code is 4711", "source": "user_assertion", "thread_id": "home"}
        await client.call_tool("remember", {"content": "Ana's gate code is 4711.", **proof})


@pytest.fixture
def about(cli: Cli, tmp_path: Path) -> dict[str, str]:
    """A memory of a tenant in a folder of its own, as the options of a command name it."""
    anyio.run(_fill, tmp_path / "first")
    config = tmp_path / "settings.toml"
    config.write_text('log_level = "error"\n')
    named = {"config": str(config), "data_dir": str(tmp_path / "a folder"), **OWNER, "tenant": "acme"}
    moved = str(tmp_path / "moved.jsonl")
    first = {"data_dir": str(tmp_path / "first"), **OWNER}
    assert cli("export", *options(first), moved)[0] == 0
    assert cli("import", *options(named), moved)[0] == 0
    return named


def options(named: dict[str, str]) -> list[str]:
    return [part for name, value in named.items() for part in (f"--{name.replace('_', '-')}", value)]


@pytest.fixture
def suggestions(cli: Cli) -> Callable[..., list[str]]:
    """The commands that a command prints, whether it succeeds or not."""

    def read(command: str, named: dict[str, str], *arguments: str) -> list[str]:
        _, printed, errors = cli(command, *arguments, *options(named))
        return SUGGESTED.findall(printed + errors)

    return read


def memory_of(cli: Cli, command: str) -> tuple[dict[str, Any], set[str]]:
    """The memory that a command is about, as it reads its own options, and the options that it has. Nothing runs."""
    _, *arguments = shlex.split(command)
    read: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def replace(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def note(flags: dict[str, Any], **values: Any) -> int:
            read.append((flags, values))
            return 0

        return note

    with pytest.MonkeyPatch.context() as patch:
        for entry in ENTRIES.values():
            module = importlib.import_module(f"layerlore.server.command_line.commands.{entry.module}")
            for name in entry.functions:
                patch.setattr(module, name, replace(getattr(module, name)))
        code, _, errors = cli(*arguments)
    assert (code, errors) == (0, ""), command
    ((flags, values),) = read
    return {**flags, **values}, set(values)


def expect_same(cli: Cli, command: str, named: dict[str, str]) -> None:
    found, own = memory_of(cli, command)
    expected = dict(named)
    # Some commands are about a whole installation.
    if "tenant" not in own:
        del expected["tenant"]
    if "keys" in command or "restore" in command:
        expected = {name: expected[name] for name in ("config", "data_dir")}
    assert {name: found.get(name) for name in expected} == expected, command


def test_what_any_view_suggests_is_about_the_memory_that_it_shows(
    cli: Cli, about: dict[str, str], suggestions: Callable[..., list[str]]
) -> None:
    for view in get_args(View):
        found = suggestions("show", about, view, *(["home"] if view == "thread" else []))
        assert found, view
        for command in found:
            expect_same(cli, command, about)
    for view in OF_ONE:
        for command in suggestions("show", about, view, "home"):
            expect_same(cli, command, about)


def test_what_a_refusal_or_a_change_suggests_is_about_the_same_memory(
    cli: Cli, about: dict[str, str], suggestions: Callable[..., list[str]]
) -> None:
    [entry] = json.loads(cli("show", "entries", "--json", *options(about))[1])["entries"]
    installation = {name: value for name, value in about.items() if name != "tenant"}
    place = {name: about[name] for name in ("config", "data_dir")}
    found = [
        *suggestions("show", about, "thread"),
        *suggestions("show", about, "thread", "cellar"),
        *suggestions("edit", about, "entries"),
        *suggestions("edit", about, "thread", "cellar", "--text", "x"),
        *suggestions("edit", about, "entries", entry["id"], "--text", "", "--yes"),
        *suggestions("forget", about, entry["id"], "--yes"),
        *suggestions("edit", about, "profile", "--text", "likes tea", "--yes"),
        *suggestions("edit", about, "profile", "--text", "likes mate", "--yes"),
        *suggestions("undo", about),
        *suggestions("undo", about, "last"),
        *suggestions("usage", about, "--hooks"),
    ]
    assert len(found) == 9
    of_all = [
        *suggestions("keys", place, "revoke", "nothing1"),
        *suggestions("keys", place, "revoke", "no id"),
        *suggestions("install", installation),
        *suggestions("doctor", installation),
    ]
    assert len(of_all) >= 6
    for command in found:
        expect_same(cli, command, about)
    for command in of_all:
        expect_same(cli, command, about)


def test_a_row_of_a_whole_tenant_says_where_its_owner_goes(
    cli: Cli, about: dict[str, str], suggestions: Callable[..., list[str]]
) -> None:
    found = suggestions("show", about, "threads", "--everybody")
    assert found
    for command in found:
        expect_same(cli, command, {**about, "agent": "AGENT", "resource": "USER"})


def test_the_password_in_the_url_of_a_database_is_not_printed_again(
    cli: Cli, suggestions: Callable[..., list[str]]
) -> None:
    url = {"database": "postgresql://ana:secret@127.0.0.1:1/none"}
    _, printed, errors = cli("show", "thread", *options(url))
    assert SUGGESTED.findall(errors)
    assert "secret" not in printed + errors
    of_file = {"database": "sqlite:////tmp/no such folder/ana.db"}
    for command in suggestions("show", of_file, "thread"):
        assert memory_of(cli, command)[0]["database"] == of_file["database"]
