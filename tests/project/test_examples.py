"""The plain loops among the examples remember. Those of frameworks run in ``tests/interop``."""

import re
import sys
from pathlib import Path

import pytest
from source_tree import ROOT
from told_twice import remembers

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
