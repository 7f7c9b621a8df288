"""What is planted in a run, and where it can be seen again."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from benchmarks.kept_values import kept

Json = dict[str, Any]

PlantedKind = Literal["rule", "correction", "fact", "user's id", "tool's id", "error"]
PLANTED_KINDS: tuple[PlantedKind, ...] = get_args(PlantedKind)
RunKind = Literal["coding", "operations", "support"]
RUN_KINDS: tuple[RunKind, ...] = get_args(RunKind)


@dataclass(frozen=True, slots=True)
class Plant:
    """``values``: what tells it, all in one line. ``turn``: where it stands, counted from 0."""

    id: str
    kind: PlantedKind
    values: tuple[str, ...]
    sentence: str
    turn: int

    def is_shown(self, lines: Sequence[str]) -> bool:
        # Most lines have not even the first value, and a run has many lines.
        first = self.values[0].lower()
        return any(first in line.lower() and len(kept(self.values, line)) == len(self.values) for line in lines)


@dataclass(slots=True)
class Turn:
    """What a host adds one after the other before the user speaks again: its messages in calls of ``add_messages``."""

    calls: list[list[Json]] = field(default_factory=list)

    @property
    def messages(self) -> list[Json]:
        return [message for call in self.calls for message in call]


@dataclass(frozen=True, slots=True)
class LongRun:
    kind: RunKind
    seed: int
    turns: list[Turn]
    planted: list[Plant]

    @property
    def messages(self) -> list[Json]:
        return [message for turn in self.turns for message in turn.messages]


def list_texts(message: Json) -> list[str]:
    """What a message of a run says, part by part; of a call its arguments."""
    parts = message.get("parts") or [{"type": "text", "text": message["content"]}]
    return [
        json.dumps(part["arguments"]) if "arguments" in part else part.get("text") or part["result"] for part in parts
    ]


def list_lines(text: str) -> list[str]:
    """The lines of a text, and of the texts that stand in it as JSON."""
    return text.replace("\\n", "\n").splitlines()


def find_shown(planted: Sequence[Plant], text: str) -> set[str]:
    """The ids of what a text shows."""
    lines = list_lines(text)
    return {plant.id for plant in planted if plant.is_shown(lines)}
