"""An example of ours told something in one conversation, and asked about it in another: each run a process of its own."""

import subprocess
import sys
from pathlib import Path

from launch_environment import own_environment
from scripted_model import Call, scripted_model

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = str(Path(sys.executable).with_name("layerlore"))
PATIENCE = 180  # seconds for what takes a few on an idle machine

TOLD, NOTED = "I am Ana, and I never eat meat.", "Noted: no meat for Ana."
ASKED, ANSWERED = "Where shall we eat in Lisbon?", "At the river, where nothing has meat."
ENTRY = "Ana never eats meat."


def remembers(example: str, python: Path, home: Path) -> None:
    """Fails unless what an example was told in one process shows in what its model gets in the next."""
    environment = own_environment(
        HOME=str(home),
        MEMORY_PROGRAM=PROGRAM,
        LAYERLORE_DATA_DIR=str(home / "memory"),
        LAYERLORE_EMBEDDING__EMBEDDER="none",
        OPENAI_API_KEY="sk-test",
        ANTHROPIC_API_KEY="sk-test",
        OPENAI_AGENTS_DISABLE_TRACING="1",
        LANGSMITH_TRACING="false",
    )
    for name in ("PYTHONPATH", "OPENAI_MODEL", "ANTHROPIC_MODEL", "LANGGRAPH_MODEL", "PYDANTIC_AI_MODEL"):
        environment.pop(name, None)

    def run(thread: str, prompt: str, call: Call, last_words: str) -> tuple[list[str], list[str]]:
        """The tools that the model was offered, and what it was shown before and after its call."""
        with scripted_model(call, last_words=last_words) as model:
            found = {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_BASE": f"{model.url}/v1"}
            done = subprocess.run(
                [python, EXAMPLES / example, "--thread", thread, prompt],
                check=False,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                env={**environment, **found, "ANTHROPIC_BASE_URL": model.url},
                cwd=home,
            )
        assert done.returncode == 0, done.stderr[-20_000:]
        assert done.stdout.splitlines()[-1] == last_words
        return model.tools, model.shown

    noting = Call("remember", {"content": ENTRY, "evidence": "I never eat meat"})
    tools, (before, after) = run("monday", TOLD, noting, NOTED)
    assert sorted(tools) == ["recall_memory", "remember", "update_working_memory"]
    assert TOLD in before
    assert ENTRY not in before
    assert "kept" in after

    asking = Call("recall_memory", {"query": "What is noted for Ana: does she eat meat?"})
    _, (before, after) = run("tuesday", ASKED, asking, ANSWERED)
    assert all(text in before for text in (ASKED, ENTRY, TOLD))
    assert NOTED not in before
    assert NOTED in after
