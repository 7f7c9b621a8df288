"""The examples run as their guide says."""

import os
import re
import subprocess
import sys
from pathlib import Path

from fake_openai import fake_openai
from source_tree import ROOT

GUIDE = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")


def run(folder: Path, said: str, **environment: str) -> str:
    """What the chat prints in the thread `trip` for these lines."""
    (line,) = re.findall(r"^\.venv/bin/python (\S+)$", GUIDE, re.MULTILINE)
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    done = subprocess.run(
        [sys.executable, str(ROOT / line), "--data-dir", str(folder), "--thread", "trip"],
        input=said,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**quiet, "LAYERLORE_EMBEDDING__EMBEDDER": "none", **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_chat_shows_what_a_model_would_get_and_goes_on_with_a_conversation(tmp_path: Path) -> None:
    run(tmp_path, "We leave for Lisbon on 3 May.\n")
    shown = run(tmp_path, "When do we leave?\n")
    assert "user: We leave for Lisbon on 3 May." in shown
    assert shown.rstrip().endswith("user: When do we leave?")


def test_the_chat_sends_the_context_to_a_model_and_stores_its_answer(tmp_path: Path) -> None:
    with fake_openai() as model:
        model.reply = "On 3 May."
        environment = {"OPENAI_API_KEY": "sk-example", "OPENAI_BASE_URL": model.url}
        said = "We leave for Lisbon on 3 May. When is that?\nThanks.\n"
        assert run(tmp_path, said, **environment) == "On 3 May.\n" * 2
    asked = model.requests[-1]["messages"]
    assert [message["role"] for message in asked] == ["system", "user", "assistant", "user"]
    assert asked[2]["content"] == "On 3 May."
