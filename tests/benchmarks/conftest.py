"""The benchmarks run once for all tests, on little input, all at once: most of their time is the starting of servers."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # the benchmarks belong to the repository and are not installed

PATIENCE = 1200.0  # seconds: only a hang takes so long

SET = [
    {
        "id": "first",
        "speakers": ["Ann", "Bob"],
        "sessions": [
            {
                "id": "one",
                "date": "2024-05-01T10:00:00",
                "turns": [
                    {"id": "1", "speaker": "Ann", "text": "The zebra drank lemonade.", "caption": ""},
                    {"id": "2", "speaker": "Bob", "text": "My bicycle has a flat tyre.", "caption": "a red bicycle"},
                ],
            },
            {
                "id": "two",
                "date": "2024-05-02T10:00:00",
                "turns": [{"id": "3", "speaker": "Ann", "role": "assistant", "text": "Understood.", "caption": ""}],
            },
        ],
        "questions": [
            {"question": "Which zebra drank something?", "category": "1", "answer": "Ann's", "evidence": ["1"]},
            {"question": "Whose bicycle has a flat tyre?", "category": "1", "answer": "Bob's", "evidence": ["2"]},
            {"question": "Any giraffe?", "category": "5", "answer": "none", "evidence": ["3"]},
            {"question": "Without evidence?", "category": "2", "answer": "", "evidence": []},
        ],
    },
    {
        "id": "second",
        "speakers": ["Cem"],
        "sessions": [
            {
                "id": "one",
                "date": "2024-06-01T10:00:00",
                "turns": [
                    {"id": "1", "speaker": "Cem", "text": "My sister bakes bread.", "date": "2024-06-01T11:00:00"}
                ],
            }
        ],
        "questions": [{"question": "Who bakes bread?", "category": "2", "answer": "she", "evidence": ["1"]}],
    },
]


@dataclass
class Run:
    """A benchmark that was started, and the files that its output and its figures go to."""

    started: "subprocess.Popen[bytes]"
    printed: Path
    figures: Path

    def result(self) -> tuple[str, Any]:
        """What it printed, and its figures; it must end well."""
        code = self.started.wait(PATIENCE)
        printed = self.printed.read_text(encoding="utf-8")
        assert code == 0, printed
        return printed, json.loads(self.figures.read_text(encoding="utf-8"))

    def rows(self) -> list[list[str]]:
        """The cells of every line of its tables."""
        lines = [line for line in self.result()[0].splitlines() if line[:1] == "|"]
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def start(folder: Path, name: str, *arguments: str) -> Run:
    printed, figures = folder / f"{name}.txt", folder / f"{name}.json"
    command = [sys.executable, "-m", f"benchmarks.{name.partition('-')[0]}", *arguments, "--json", str(figures)]
    with printed.open("wb") as output:
        started = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    return Run(started, printed, figures)


@pytest.fixture(scope="session")
def conversation_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of two small conversations."""
    file = tmp_path_factory.mktemp("conversations") / "set.json"
    file.write_text(json.dumps(SET), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, conversation_set: Path) -> Iterator[dict[str, Run]]:
    folder = tmp_path_factory.mktemp("benchmarks")
    sets = str(conversation_set)
    few = ["--rounds", "1", "--calls", "2", "--starts", "1", "--state-rounds", "1", "--backlog", "60"]
    started = {
        "recall": start(folder, "recall", sets),
        "recall-words": start(folder, "recall-words", sets, "--embedder", "none"),
        "lived": start(folder, "lived", sets, "--plot", str(folder / "plots" / "lived.svg")),
        "multilingual": start(folder, "multilingual", "--languages", "en", "ja"),
        "nearest": start(folder, "nearest", sets, "--sizes", "3", "100", "--kept", str(folder / "kept.npz")),
        "calls": start(folder, "calls", "--sizes", "20", *few, "--folder", str(folder)),
        "sharing": start(folder, "sharing", "--starts", "1", "--hosts", "2"),
        "load": start(folder, "load", "--quick"),
        "compression": start(folder, "compression", sets, "--steps", "10", "--message-tokens", "5000"),
        "context": start(folder, "context", "--sizes", "20", "60", "--rounds", "1", "--calls", "2", "--turns", "5"),
        "ledger": start(folder, "ledger", "--sizes", "20", "60", "--rounds", "1", "--calls", "3", "--settle", "0"),
        "noisy_tenant": start(
            folder, "noisy_tenant", "--rounds", "1", "--seconds", "5", "--lead", "1", "--rate", "6", "--allowed", "20"
        ),
        "hostile": start(
            folder, "hostile", "--images", "2", "--seconds", "1", "--lead", "1", "--rate", "6", "--quiet", "2"
        ),
    }
    yield started
    for run in started.values():
        run.started.kill()
        run.started.wait()
