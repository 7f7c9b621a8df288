"""The recipes of CONTRIBUTING.md, followed literally in a copy of the source tree."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from source_tree import PACKAGES, ROOT

pytestmark = pytest.mark.programs

GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^## (Add [^\n]+)\n(.*?)(?=^## |\Z)", GUIDE, re.MULTILINE | re.DOTALL))
# That the new tool needs no other list than the recipe says: a few of the tests that try every tool.
EVERY_TOOL = [
    f"tests/server/tools/{each}"
    for each in (
        "test_errors.py::test_there_is_a_call_for_every_tool",
        "test_leaving_out.py::test_every_tool_has_such_a_call",
        "test_tool_list.py::test_a_tool_changes_what_is_stored_unless_it_says_that_it_only_reads",
    )
]
COPIED = (*PACKAGES, ".dev", "docs", "tests", "pyproject.toml")


def copy_tree(folder: Path) -> None:
    left_out = shutil.ignore_patterns("__pycache__", "interop", "node_modules")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=left_out)
        else:
            shutil.copy(ROOT / name, folder / name)


def follow(recipe: str, folder: Path) -> list[str]:
    """Do what the recipe shows. Returns the tests that it adds."""
    added = []
    for language, path, text in re.findall(
        r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', recipe, re.MULTILINE | re.DOTALL
    ):
        if language == "diff":
            change_files(text, folder)
        else:
            (folder / path).write_text(text, encoding="utf-8")
            added += [path] * path.startswith("tests/")
    return added


def change_files(diff: str, folder: Path) -> None:
    """Apply a diff whose hunks have no line numbers: what a hunk takes out or keeps must stand in the file once."""
    for path, hunks in re.findall(r"^--- a/\S+\n\+\+\+ b/(\S+)\n(.*?)(?=^--- a/|\Z)", diff, re.MULTILINE | re.DOTALL):
        source = (folder / path).read_text(encoding="utf-8")
        for hunk in hunks.split("@@\n")[1:]:
            lines = hunk.splitlines(keepends=True)
            old, new = ("".join(line[1:] or line for line in lines if line[0] != sign) for sign in "+-")
            assert source.count(old) == 1, f"{path} has this {source.count(old)} times: {old}"
            source = source.replace(old, new)
        (folder / path).write_text(source, encoding="utf-8")


def test_the_guide_has_the_recipes_that_it_promises() -> None:
    assert list(RECIPES) == ["Add a tool", "Add an embedder", "Add a kind of job"]


def test_the_recipes_give_code_that_passes_its_tests_and_the_rules_of_the_layout(tmp_path: Path) -> None:
    copy_tree(tmp_path)
    added = [test for recipe in RECIPES.values() for test in follow(recipe, tmp_path)]
    assert len(added) == len(RECIPES)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", *added, *EVERY_TOOL, "tests/project/test_layout.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / ".dev")},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
