"""What ``layerlore demo`` shows, and what it tells people to paste."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from layerlore.memory.recall.recall_text import UNSURE
from layerlore.server.command_line.commands.demo import DemoFailed, make_snippets, run_demo, show_connecting
from layerlore.server.hosts.catalog import NAME
from layerlore.server.process.program import launch_command, shell_command
from layerlore.server.settings.local_key import read_or_make_key
from layerlore.server.settings.settings import Settings

pytestmark = pytest.mark.programs

CLIENTS = Path(__file__).parents[3] / "configs" / "clients"
PLACEHOLDER = "/path/to/layerlore/.venv/bin/layerlore"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints, its own temporary folders apart and a database of the user's in the environment."""
    folder = tmp_path_factory.mktemp("demo")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAYERLORE_")}
    ended = subprocess.run(
        [sys.executable, "-m", "layerlore.server", "demo", "--data-dir", str(folder / "mine")],
        env=kept | {"TMPDIR": str(folder), "LAYERLORE_DATABASE": f"sqlite://{folder}/mine.db"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert list(folder.iterdir()) == []
    return ended.stdout


def section(shown: str, number: int) -> str:
    return shown.partition(f"\n{number}. ")[2].partition("\n\n")[0]


def test_the_demo_remembers_across_processes_and_invents_nothing(shown: str) -> None:
    assert "She is allergic to nuts." in section(shown, 1)
    assert "answers after" in section(shown, 2)
    assert re.match(r"What is Mira allergic to\?  \(recall_memory, \d+ ms\)\n", section(shown, 3))
    assert "allergic to nuts" in section(shown, 3).partition("\n")[2]
    assert UNSURE not in section(shown, 3)
    assert UNSURE in section(shown, 5)
    assert "2 threads, 8 messages" in section(shown, 7)


def test_the_demo_finds_what_was_said_in_other_words(shown: str) -> None:
    assert re.search(r"8 vectors, made by use-multilingual-v3 on this machine  \(ready after \d+\.\d s\)", shown)
    question, _, answer = section(shown, 4).partition("  (recall_memory, ")
    (found,) = (line for line in answer.splitlines() if re.match(r"\s*#\d+ .*Ilse", line))
    assert "Grandma Ilse bakes it." in found
    assert not set(re.findall(r"\w+", question.lower())) & set(re.findall(r"\w+", found.lower()))
    assert "semantic" in answer


def test_the_demo_shows_that_a_secret_was_masked(shown: str) -> None:
    token = re.search(r"ghp_\w+", section(shown, 1))
    assert token is not None
    assert "1 secret masked" in section(shown, 1)
    read_back = section(shown, 6)
    assert re.search(r"\[masked:github-token:[0-9a-f]{8}\]", read_back)
    assert token[0] not in read_back


def test_the_demo_is_short_and_plain_where_there_is_no_terminal(shown: str) -> None:
    assert "\x1b" not in shown
    assert len(shown.splitlines()) < 80


def test_the_demo_ends_with_lines_that_can_be_pasted(shown: str) -> None:
    for snippet in make_snippets(launch_command()):
        assert f"{snippet.host}: {snippet.where}\n{snippet.text}\n" in shown
    assert re.search(r": `\S+ --data-dir \S+/mine serve`, then http://127.0.0.1:8765/mcp", shown)
    assert "Authorization: Bearer KEY" in shown
    assert "/mine/http-key" in shown


def test_a_server_that_does_not_start_is_named_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'the disk is gone' >&2\nexit 1\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(DemoFailed, match="the last line of its log: the disk is gone"):
        run_demo(Settings(data_dir=tmp_path))
    assert "Connect your agents" not in capsys.readouterr().out


def test_the_file_of_the_key_is_told_and_the_key_never(tmp_path: Path, capsys: Any) -> None:
    key = read_or_make_key(tmp_path)
    show_connecting(Console(), Settings(data_dir=tmp_path, http={"port": 9999}))
    out = capsys.readouterr().out
    assert key not in out
    assert f"Authorization: Bearer KEY\nKEY is in {tmp_path}/http-key\n" in out
    assert "http://127.0.0.1:9999/mcp" in out


@pytest.mark.parametrize(
    ("file", "key", "entry"),
    [
        ("claude-desktop.json", "mcpServers", {"command": PLACEHOLDER, "args": []}),
        ("cursor.json", "mcpServers", {"command": PLACEHOLDER, "args": []}),
        ("vscode.json", "servers", {"type": "stdio", "command": PLACEHOLDER, "args": []}),
    ],
)
def test_the_shipped_snippets_are_what_the_hosts_read(file: str, key: str, entry: dict[str, Any]) -> None:
    assert json.loads((CLIENTS / file).read_text(encoding="utf-8")) == {key: {NAME: entry}}


def test_the_shipped_snippets_are_what_the_demo_prints_for_a_checkout_elsewhere() -> None:
    printed = {snippet.file: snippet.text + "\n" for snippet in make_snippets([PLACEHOLDER])}
    assert printed == {file.name: file.read_text(encoding="utf-8") for file in CLIENTS.iterdir()}


def test_odd_paths_survive_in_every_snippet() -> None:
    path = '/Users/Zoë "Z" O\'Neil/$HOME \\/bin/layerlore'
    for snippet in make_snippets([path]):
        if snippet.file.endswith(".json"):
            (servers,) = json.loads(snippet.text).values()
            assert servers[NAME]["command"] == path
        else:
            assert shlex.split(snippet.text)[-2:] == ["--", path]


def test_hosts_launch_the_program_beside_the_running_python_and_without_one_that_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    monkeypatch.setattr(sys, "executable", str(python))
    assert launch_command() == (str(python), "-m", "layerlore.server")
    program = tmp_path / "layerlore"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    assert launch_command() == (str(program),)


def test_people_are_told_the_bare_name_only_where_it_is_this_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("a b", "elsewhere"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "layerlore").write_text("#!/bin/sh\n")
        (tmp_path / folder / "layerlore").chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "a b" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "elsewhere"))
    assert shlex.split(shell_command("serve")) == [str(tmp_path / "a b" / "layerlore"), "serve"]
    monkeypatch.setenv("PATH", str(tmp_path / "a b"))
    assert shell_command("serve") == "layerlore serve"
