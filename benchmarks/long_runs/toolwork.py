"""How an agent's work looks in messages: calls of tools, results, and what it says between them."""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from benchmarks.long_runs.draw import Draw
from benchmarks.long_runs.planting import Json, PlantedKind

_T = TypeVar("_T")


@dataclass(slots=True)
class Step:
    """A tool's call and result as messages, and what is planted in the result: its kind, its values, where it stands."""

    messages: list[Json]
    planted: list[tuple[PlantedKind, tuple[str, ...], str]] = field(default_factory=list)


class Toolwork:
    """Makes steps. ``remarks`` are what the agent says before a call, sometimes."""

    def __init__(self, draw: Draw, remarks: Sequence[str]) -> None:
        self._draw = draw
        self._remarks = remarks
        self._numbers = itertools.count(1)

    def step(self, tool: str, arguments: Json, result: Any, *, is_error: bool = False) -> Step:
        call_id = f"call_{next(self._numbers)}_{self._draw.letters(5)}"
        call = {"type": "tool_call", "id": call_id, "name": tool, "arguments": arguments}
        text = result if isinstance(result, str) else json.dumps(result)
        answer: Json = {"type": "tool_result", "tool_call_id": call_id, "name": tool, "result": text}
        if is_error:
            answer["is_error"] = True
        said = self._draw.said(self._draw.one(self._remarks)) if self._draw.chance(0.4) else ""
        before = [{"type": "text", "text": said}] if said else []
        return Step([{"role": "assistant", "parts": [*before, call]}, {"role": "tool", "parts": [answer]}])

    def with_id(self, tool: str, arguments: Json, result: Any, value: str) -> Step:
        """A step whose result has an id that will be needed."""
        step = self.step(tool, arguments, result)
        step.planted.append(("tool's id", (value,), f"{tool} gave {value}"))
        return step

    def with_error(self, tool: str, arguments: Json, result: Any, values: tuple[str, ...], *, marked: bool) -> Step:
        """A step that failed; ``marked``: its result says so itself."""
        step = self.step(tool, arguments, result, is_error=marked)
        step.planted.append(("error", values, f"{tool} failed with {' '.join(values)}"))
        return step


def many(draw: Draw, least: int, most: int, of: Callable[[], _T]) -> list[_T]:
    return [of() for _ in range(draw.number(least, most))]


def paragraphs(draw: Draw, sentences: Sequence[str], least: int, most: int) -> str:
    """An agent's answer of so many sentences, in paragraphs or with points."""
    chosen = [draw.said(sentence) for sentence in draw.random.sample(sentences, draw.number(least, most))]
    if len(chosen) > 3 and draw.chance(0.4):
        return "\n".join([chosen[0], *(f"- {sentence}" for sentence in chosen[1:])])
    return (" " if draw.chance(0.7) else "\n\n").join(chosen)
