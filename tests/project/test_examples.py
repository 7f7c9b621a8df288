"""The plain loops among the examples remember. Those of frameworks run in ``tests/interop``."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from launch_environment import own_environment
from scripted_model import Call, scripted_model
from source_tree import ROOT
from told_twice import PATIENCE, PROGRAM, remembers

pytestmark = pytest.mark.programs

EXAMPLES = ROOT / "examples"


@pytest.mark.parametrize("example", ["openai_loop.py", "anthropic_loop.py"])
def test_a_plain_loop_knows_in_a_new_process_what_it_was_told_before(example: str, tmp_path: Path) -> None:
    remembers(example, Path(sys.executable), tmp_path)


def test_the_guide_has_a_row_for_every_example() -> None:
    guide = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| \[(\w+\.py)\]\(\1\)", guide, re.MULTILINE)) == sorted(
        path.name for path in EXAMPLES.glob("*.py")
    )


def run_memory_tool(home: Path, *commands: dict[str, Any]) -> list[tuple[str, bool]]:
    """What a model is answered to each command of Anthropic's memory tool, in a process of its own, and whether that is an
    error."""
    script = [Call("memory", command) for command in commands]
    with scripted_model(*script, last_words="Done.") as model:
        environment = own_environment(
            HOME=str(home),
            MEMORY_PROGRAM=PROGRAM,
            LAYERLORE_DATA_DIR=str(home / "memory"),
            LAYERLORE_EMBEDDING__EMBEDDER="none",
            ANTHROPIC_API_KEY="sk-test",
            ANTHROPIC_BASE_URL=model.url,
        )
        for name in ("PYTHONPATH", "ANTHROPIC_MODEL"):
            environment.pop(name, None)
        done = subprocess.run(
            [sys.executable, EXAMPLES / "anthropic_memory_tool.py", "Remember."],
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=environment,
            cwd=home,
        )
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr[-20_000:]
    assert all(each["tools"] == [{"type": "memory_20250818", "name": "memory"}] for each in model.requests)
    results = [json.loads(each)["content"][0] for each in model.results]
    return [(_text_of(each["content"]), bool(each.get("is_error"))) for each in results]


def _text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


def test_anthropics_memory_tool_keeps_its_files_in_the_memory_with_all_six_commands(tmp_path: Path) -> None:
    food, notes = "/memories/people/food.md", "/memories/notes.md"
    answers = run_memory_tool(
        tmp_path,
        {"command": "view", "path": "/memories"},
        {"command": "create", "path": food, "file_text": "# Food\nAna eats meat.\n"},
        {"command": "create", "path": food, "file_text": "again"},
        {"command": "create", "path": "/memories/empty.md", "file_text": ""},
        {"command": "str_replace", "path": food, "old_str": "eats meat", "new_str": "never eats meat"},
        {"command": "insert", "path": food, "insert_line": 2, "insert_text": "She likes pears."},
        {"command": "rename", "old_path": "/memories/people", "new_path": "/memories/persons"},
        {"command": "view", "path": "/memories"},
        {"command": "delete", "path": "/memories/empty.md"},
        {"command": "view", "path": food},
        *({"command": "view", "path": path} for path in ("/memories/../etc/passwd", "/etc/passwd", "/memoriesx")),
        {"command": "rename", "old_path": notes, "new_path": "/memories/../../notes.md"},
        {"command": "delete", "path": "/memories"},
        {"command": "str_replace", "path": "/memories/persons/food.md", "old_str": "a", "new_str": "b"},
    )
    assert answers[:2] == [
        ("Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:\n0B\t/memories", False),
        (f"File created successfully at: {food}", False),
    ]  # fmt: skip
    assert answers[2] == (f"File {food} already exists", True)
    assert answers[3] == ("File created successfully at: /memories/empty.md", False)
    assert "     2\tAna never eats meat." in answers[4][0]
    assert answers[5:7] == [
        (f"The file {food} has been edited.", False),
        ("Successfully renamed /memories/people to /memories/persons", False),
    ]
    assert answers[7][0].splitlines()[1:] == [
        "45B\t/memories",
        "0B\t/memories/empty.md",
        "45B\t/memories/persons/",
        "45B\t/memories/persons/food.md",
    ]
    assert answers[8] == ("Successfully deleted /memories/empty.md", False)
    assert answers[9] == (f"The path {food} does not exist. Please provide a valid path.", True)
    assert [is_error for _, is_error in answers[10:]] == [True] * 6
    assert "would escape /memories" in answers[10][0]

    # Another process reads what the first one wrote, byte for byte.
    (seen,) = run_memory_tool(tmp_path, {"command": "view", "path": "/memories/persons/food.md"})
    assert seen[0].splitlines()[1:] == [
        "     1\t# Food",
        "     2\tAna never eats meat.",
        "     3\tShe likes pears.",
        "     4\t",
    ]
