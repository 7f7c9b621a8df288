"""The tutorial is a day that happens as it is told."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from launch_environment import own_environment
from source_tree import ROOT

pytestmark = pytest.mark.programs

COMMAND = ROOT / ".venv" / "bin" / "layerlore"
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def test_each_step_of_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    lines = [line for block in re.findall(r"```sh\n(.*?)```", TUTORIAL, re.DOTALL) for line in block.splitlines()]
    printed = {}
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == ".venv/bin/layerlore"
        done = subprocess.run(
            [COMMAND, *arguments],
            cwd=tmp_path,
            env=own_environment(LAYERLORE_DATA_DIR=str(tmp_path / "data")),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        printed[line] = done.stdout
    noon, asked, explained = (text for line, text in printed.items() if "am I allergic" in line)
    for text in (noon, asked, explained):
        assert "I am allergic to peanuts" in text
    assert len(explained) > len(asked)
    assert (tmp_path / "evening.db").stat().st_size > 0
