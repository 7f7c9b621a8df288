"""``layerlore export`` and ``import``: files as people move them, what is printed, and what a kill leaves."""

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from launch_environment import own_environment
from mcp import Client

from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

pytestmark = pytest.mark.programs

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def told(cli: Cli, tmp_path: Path) -> Cli:
    """The command line, with a memory of 300 messages in the folder ``here``; of ``ben`` there is one."""
    said = [{"role": "user", "content": f"pear {number}"} for number in range(100)]
    for thread in range(3):
        call(tmp_path / "here", "add_messages", {"messages": said, "thread_id": f"t{thread}"})
    call(tmp_path / "here", "remember", {"content": "The pears ripen in the cellar."})
    call(tmp_path / "here", "add_messages", {"messages": said[:1], "thread_id": "t0"}, resource="ben")
    return functools.partial(cli)


def call(folder: Path, tool: str, arguments: dict[str, Any], **flags: Any) -> Any:
    async def called() -> Any:
        given = {"data_dir": str(folder), "embedding": {"embedder": "none"}, **flags}
        async with Client(build_server(load_settings(given, environ={}))) as client:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result.content
            return result.structured_content

    return anyio.run(called)


def lines_of(file: Path) -> list[str]:
    """All but the header, which says when the export was made."""
    return file.read_text("utf-8").splitlines()[1:]


def test_what_is_exported_from_one_place_is_imported_in_another_and_only_once(told: Cli, tmp_path: Path) -> None:
    here, there = (f"--data-dir={tmp_path / name}" for name in ("here", "there"))
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    code, out, err = told(here, "export", str(first))
    assert (code, err) == (0, "")
    assert out.startswith(f"exported agent 'default' and resource 'default' to {first}: ")
    assert first.stat().st_mode & 0o077 == 0, "nobody else may read it"

    dry = told(there, "import", str(first), "--dry-run")
    assert dry[0] == 0
    assert f"would import {first} (layerlore) for agent 'default'" in dry[1]
    assert not (tmp_path / "there").exists() or not list((tmp_path / "there").glob("*.db"))

    code, out, err = told(there, "import", str(first))
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines() if "message " in line] == [["message", "300"]]
    again = json.loads(told(there, "import", str(first), "--json")[1])
    assert again["counts"]["message"] == {"unchanged": 300}
    assert (again["skipped"], again["masked"]) == ([], 0)
    assert told(there, "export", str(second))[0] == 0
    assert lines_of(second) == lines_of(first)
    assert "pears ripen" in told(there, "recall", "where do the pears ripen?")[1]


def test_an_import_that_is_killed_goes_on_where_it_was(told: Cli, tmp_path: Path) -> None:
    here, there = (f"--data-dir={tmp_path / name}" for name in ("here", "there"))
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    told(here, "export", str(first))
    program = [sys.executable, "-m", "layerlore.server", there, "import", "-"]
    variables = own_environment() | {"LAYERLORE_EMBEDDING__EMBEDDER": "none"}
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=variables) as killed:
        assert killed.stdin is not None
        killed.stdin.write(b"".join(first.read_bytes().splitlines(keepends=True)[:280]))
        killed.stdin.flush()
        while '"record":"message"' not in told(there, "export", "-")[1]:
            assert killed.poll() is None
        killed.kill()
    assert told(there, "import", str(first))[0] == 0
    told(there, "export", str(second))
    assert lines_of(second) == lines_of(first)


def test_all_agents_and_resources_move_each_to_its_own_place_if_it_is_asked_for(told: Cli, tmp_path: Path) -> None:
    here, there = (f"--data-dir={tmp_path / name}" for name in ("here", "there"))
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    assert told(here, "export", "--everyone", str(first))[0] == 0
    code, _, err = told(there, "import", str(first), "--dry-run")
    assert code == 1
    assert "the file holds several agents or resources: --everyone stores each" in err
    assert told(there, "import", str(first))[0] == 1
    assert told(there, "export", "-")[1].count('"record":"message"') == 0
    assert told(there, "import", "--everyone", str(first))[0] == 0
    assert told(there, "export", "--everyone", str(second))[0] == 0
    assert lines_of(second) == lines_of(first)


def test_a_broken_line_of_an_export_is_named_and_all_others_are_stored(told: Cli, tmp_path: Path) -> None:
    here, there = (f"--data-dir={tmp_path / name}" for name in ("here", "there"))
    file = tmp_path / "first.jsonl"
    told(here, "export", str(file))
    lines = file.read_text("utf-8").splitlines(keepends=True)
    (first, *_) = (number for number, line in enumerate(lines) if '"record":"message"' in line)
    lines[first] = lines[first][:30] + "\n"
    lines[first + 1] = "[1]\n"
    file.write_text("".join(lines), "utf-8")
    code, out, err = told(there, "import", str(file), "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["counts"]["message"] == {"added": 298}
    assert [(each["kind"], each["where"], each["why"]) for each in found["skipped"]][:2] == [
        ("line", f"line {first + 1}", "it is no JSON"),
        ("line", f"line {first + 2}", "it is no JSON object"),
    ]
    assert "pears ripen" in told(there, "recall", "where do the pears ripen?")[1]


@pytest.mark.parametrize("broken", ['{"record":"scope","agent', '{"record":"scope","agent":7,"resource":"ben"}'])
def test_lines_whose_scope_is_broken_come_into_no_other_scope(told: Cli, tmp_path: Path, broken: str) -> None:
    here, there = (f"--data-dir={tmp_path / name}" for name in ("here", "there"))
    file = tmp_path / "first.jsonl"
    told(here, "export", "--everyone", str(file))
    lines = file.read_text("utf-8").splitlines(keepends=True)
    (_, second) = (number for number, line in enumerate(lines) if '"record":"scope"' in line)
    lines[second] = f"{broken}\n"
    file.write_text("".join(lines), "utf-8")
    found = json.loads(told(there, "import", "--everyone", str(file), "--json")[1])
    assert sorted(found["counts"]["message"].values()) == [1, 300]
    assert "the line with its scope is broken" in {each["why"] for each in found["skipped"]}


def test_what_cannot_be_exported_or_imported_is_said_in_one_line(told: Cli, tmp_path: Path) -> None:
    here, there = (f"--data-dir={tmp_path / name}" for name in ("here", "there"))
    file, other = tmp_path / "first.jsonl", tmp_path / "other.jsonl"
    assert told(there, "export", str(file))[::2] == (
        1,
        f"layerlore: nothing is stored: there is no database at {tmp_path / 'there' / 'memory.db'}\n",
    )
    assert not list(tmp_path.glob("*.part"))
    told(here, "export", str(file))
    assert told(here, "export", str(file))[::2] == (
        1,
        f"layerlore: {file} exists, and an export never replaces a file: name another one\n",
    )
    whole = file.read_text("utf-8").splitlines(keepends=True)
    for text, said in (
        ("".join(whole[:200]), "the file ends in the middle: what is in it was stored, and the rest is missing"),
        ("".join(whole[:200])[:-20], "the file ends in the middle: what is in it was stored, and the rest is missing"),
        ('["tea"]\n', "the file ends in the middle"),
        ('{"record":"header","format":"diary"}\n', "this is not an export of layerlore: its format is 'diary'"),
        ('{"record":"header","format":"layerlore","version":99}\n', "the file has version 99 of the format"),
        ('{"record":"thread","thread":"t"}\n', "a line with a scope must come before what belongs to it"),
    ):
        other.write_text(text, "utf-8")
        code, _, err = told(there, "import", "--from", "layerlore", str(other))
        assert code == 1
        assert said in err
        assert "Traceback" not in err
