"""The pages of docs/guide: their commands do what the pages say, in their order."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from launch_environment import own_environment
from source_tree import ROOT
from typer.testing import CliRunner

from layerlore.server.command_line.app import app

pytestmark = pytest.mark.programs

COMMAND = ROOT / ".venv" / "bin" / "layerlore"
PAGES = ("ask", "correct", "forget", "undo", "move")
# These wait for a browser, need a file or an id of the reader, or erase what the next step needs.
SKIPPED = re.compile(r"layerlore (explore|erase|edit entries ID|forget ID|import ~)")
# They ask first, and a test has no terminal.
ASKING = ("edit", "forget")
# A process of its own for each; the others run in this one, which has their modules loaded.
PROGRAMS = ("chat", "recall")


def commands_of(page: str) -> list[str]:
    text = (ROOT / "docs" / "guide" / f"{page}.md").read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    return [line for line in lines if not SKIPPED.search(line)]


def run_command(line: str, folder: Path) -> str:
    program, *arguments = shlex.split(line)
    assert program == ".venv/bin/layerlore"
    if arguments[0] in ASKING and "--dry-run" not in arguments:
        arguments.append("--yes")
    environment = own_environment(LAYERLORE_DATA_DIR=str(folder / "data"))
    if arguments[0] not in PROGRAMS:
        ended = CliRunner(env=environment).invoke(app, arguments)
        assert ended.exit_code == 0, (line, ended.output)
        return ended.output
    done = subprocess.run(
        [COMMAND, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_each_command_of_the_guide_does_what_its_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = {page: {line: run_command(line, tmp_path) for line in commands_of(page)} for page in PAGES}
    morning, noon, request, explained = printed["ask"].values()
    assert "I have put that into your profile." in morning
    for text in (noon, request, explained):
        assert "I am allergic to peanuts" in text
    assert len(explained) > len(request)
    preview, forgotten = printed["forget"].values()
    assert "This would be forgotten" in preview
    assert "Forgotten: " in forgotten
    listed, undone = printed["undo"].values()
    assert "forget" in listed
    assert undone.startswith("undid ")
    assert (tmp_path / "evening.db").stat().st_size > 0
    assert list((tmp_path / "data").glob("memory.db.before-*"))
