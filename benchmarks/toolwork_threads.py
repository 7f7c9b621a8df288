"""Conversations with large results of tools, the same for the same seed: code, records as JSON, logs and prose."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.sample_text import SampleText

Json = dict[str, Any]

_BEGIN = datetime(2026, 3, 2, 9, tzinfo=UTC)
_SECONDS_BETWEEN = 20


@dataclass(frozen=True, slots=True)
class Workload:
    """``turns`` of a user's message, ``calls`` to tools one after the other and an answer. A result has the first
    number of lines to the second; one in ``rare`` is ``times`` as long."""

    name: str
    turns: int
    calls: int
    lines: tuple[int, int]
    kinds: tuple[str, ...]
    rare: int = 0
    times: int = 1


WORKLOADS = (
    Workload("large results", 36, 1, (50, 230), ("code", "records", "log", "prose")),
    Workload("few huge results", 36, 1, (8, 40), ("log", "code"), rare=6, times=40),
    Workload("many small results", 30, 4, (10, 60), ("records", "log")),
    Workload("code", 24, 3, (40, 160), ("code",)),
    Workload("records", 24, 3, (30, 120), ("records",)),
    Workload("long turns", 5, 24, (20, 150), ("code", "log", "records")),
    Workload("talk", 120, 0, (0, 0), ()),
)


@dataclass(frozen=True, slots=True)
class Arrival:
    """Messages that come together. A model answers them next, if ``is_answered``."""

    messages: list[Json]
    is_answered: bool


def make_thread(workload: Workload, seed: int) -> Iterator[Arrival]:
    """The messages of a conversation in the order in which they come."""
    draw = random.Random(f"{workload.name}/{seed}")
    text = SampleText(draw.randrange(10**6))
    now = _BEGIN
    number = 0

    def arrive(*messages: Json, is_answered: bool) -> Arrival:
        nonlocal now
        now += timedelta(seconds=_SECONDS_BETWEEN)
        return Arrival([{**message, "created_at": now.isoformat()} for message in messages], is_answered)

    for _ in range(workload.turns):
        yield arrive({"role": "user", "content": text.text(8, 40)}, is_answered=True)
        for _ in range(workload.calls):
            number += 1
            kind = draw.choice(workload.kinds)
            lines = draw.randint(*workload.lines)
            if workload.rare and not number % workload.rare:
                lines *= workload.times
            call = {
                "id": f"call-{number}",
                "type": "function",
                "function": {"name": f"read_{kind}", "arguments": json.dumps({"path": f"{kind}/{number}"})},
            }
            yield arrive({"role": "assistant", "tool_calls": [call]}, is_answered=False)
            result = _RESULTS[kind](draw, text, lines)
            yield arrive({"role": "tool", "tool_call_id": call["id"], "content": result}, is_answered=True)
        yield arrive({"role": "assistant", "content": text.text(15, 60)}, is_answered=False)


def _code(draw: random.Random, text: SampleText, lines: int) -> str:
    written: list[str] = []
    while len(written) < lines:
        name, argument, field = text.words(3)
        written += [
            f"def {name}_{argument}({argument}: list[{field.title()}]) -> int:",
            f"    for row in {argument}.{field}(limit={draw.randint(1, 999)}):",
            f"        total += row.{name}[{draw.randint(0, 9)}]",
            "    return total",
            "",
        ]
    return "\n".join(written[:lines])


def _records(draw: random.Random, text: SampleText, lines: int) -> str:
    rows = [
        {
            "id": f"{draw.getrandbits(48):x}",
            "name": " ".join(text.words(2)),
            "amount": draw.randint(1, 10**6) / 100,
            "tags": text.words(2),
            "active": draw.random() < 0.5,
        }
        for _ in range(max(1, lines // 3))
    ]
    return json.dumps({"rows": rows})


def _log(draw: random.Random, text: SampleText, lines: int) -> str:
    return "\n".join(
        f"2026-03-02T{draw.randint(0, 23):02}:{draw.randint(0, 59):02}:{draw.randint(0, 59):02}Z "
        f"{draw.choice(('INFO', 'WARN', 'DEBUG'))} {'.'.join(text.words(2))}: {' '.join(text.words(5))}"
        for _ in range(lines)
    )


def _prose(_: random.Random, text: SampleText, lines: int) -> str:
    return "\n".join(text.text(6, 12) for _ in range(max(1, lines // 2)))


_RESULTS: dict[str, Callable[[random.Random, SampleText, int], str]] = {
    "code": _code,
    "records": _records,
    "log": _log,
    "prose": _prose,
}
