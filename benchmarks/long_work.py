"""How much of long work the next model call still sees: ``python -m benchmarks.long_work --seed 1``, see README.md."""

import argparse
import itertools
import os
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyio

from benchmarks.long_runs.noting import NoteTaker
from benchmarks.long_runs.planting import PLANTED_KINDS, RUN_KINDS, LongRun, Plant, find_shown
from benchmarks.long_runs.played import played
from benchmarks.long_runs.runs import make_run
from benchmarks.tables import table, verdict, write_json
from layerlore.extraction.chat.chat_port import Chat, choose_models
from layerlore.extraction.chat.litellm_chat import LitellmChat
from layerlore.memory.parts.tokens import load_counter

BUDGETS = (2_000, 4_000, 8_000, 16_000, 32_000)
MODELS = ("none", "stand-in", "real")
BASE_URL, MODEL = "LAYERLORE_TEST_LLM_BASE_URL", "LAYERLORE_TEST_LLM_MODEL"
EXPECTED_AT = 8_000
EXPECTED = {"rule": 1.0, "correction": 1.0, "fact": 0.95, "user's id": 0.8, "tool's id": 0.8, "error": 0.8}
"""Shares that must be shown in the default room where no model is."""
LEAST_USED = 0.92
"""Of a budget, whenever something is left out."""
_MISSING_SHOWN = 12


@dataclass(slots=True)
class Shown:
    """What was shown of one run in each room: ids of plants, and tokens."""

    ours: dict[int, set[str]] = field(default_factory=dict)
    newest: dict[int, set[str]] = field(default_factory=dict)
    tokens: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measured:
    run: LongRun
    shown: Shown
    tokens: int
    """Of all messages."""
    done: dict[str, int]
    failures: dict[str, int]
    seconds: float

    def list_lost(self) -> list[tuple[int, int, Plant]]:
        """What a room shows and the next larger one does not."""
        rooms = sorted(self.shown.ours)
        return [
            (small, large, plant)
            for small, large in itertools.pairwise(rooms)
            for plant in self.run.planted
            if plant.id in self.shown.ours[small] - self.shown.ours[large]
        ]

    def list_unused(self) -> list[int]:
        """The rooms that are less used than they must be though something is left out, or more than there is."""
        return [
            room
            for room, used in self.shown.tokens.items()
            if used > room or (used < LEAST_USED * room and self._leaves_out(room))
        ]

    def _leaves_out(self, room: int) -> bool:
        return self.tokens > room or len(self.shown.ours[room]) < len(self.run.planted)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    write_json(options.json, anyio.run(_measure_all, options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_work", description=__doc__)
    parser.add_argument("--seed", type=int, action="append", metavar="N", help="of a run; several times (default: 1)")
    parser.add_argument("--budget", type=int, action="append", metavar="N", help=f"tokens (default: {BUDGETS})")
    parser.add_argument("--kind", choices=RUN_KINDS, action="append", help="of run; several times (default: all)")
    parser.add_argument(
        "--model",
        choices=MODELS,
        action="append",
        help=f"who takes notes; several times (default: none and stand-in); real: the one that {BASE_URL} serves",
    )
    parser.add_argument("--missing", action="store_true", help="list what is not shown in the default room")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


async def _measure_all(options: argparse.Namespace) -> dict[str, Any]:
    budgets = sorted(set(options.budget or BUDGETS))
    runs = [make_run(kind, seed) for kind in options.kind or RUN_KINDS for seed in options.seed or [1]]
    report: dict[str, Any] = {}
    for model in dict.fromkeys(options.model or ["none", "stand-in"]):
        found = []
        for run in runs:
            found.append(await _measure(run, _chat(model), budgets))
            print(f"{model}: {run.kind}, seed {run.seed} is done", file=sys.stderr, flush=True)
        print(f"\n## Model: {model}\n\n{_text(found, budgets, model)}", flush=True)
        if options.missing:
            print(f"\n{_missing(found, min(budgets, key=lambda room: abs(room - EXPECTED_AT)))}", flush=True)
        report[model] = [_plain(each) for each in found]
    return report


def _chat(model: str) -> Chat | None:
    if model != "real":
        return NoteTaker() if model == "stand-in" else None
    if not (base := os.environ.get(BASE_URL, "")):
        raise SystemExit(f"{BASE_URL} names no server")
    name = f"openai/{os.environ.get(MODEL, 'default')}"
    chosen = choose_models("none", {"observe": name, "reflect": name}, {})
    return LitellmChat(chosen, api_base=base, api_key="none", timeout_seconds=600)


async def _measure(run: LongRun, chat: Chat | None, budgets: Sequence[int]) -> Measured:
    began = time.monotonic()
    shown, counter = Shown(), load_counter()
    async with played(run, chat) as thread:
        for room, newest in zip(budgets, await thread.newest(budgets), strict=True):
            text = await thread.context(room)
            shown.ours[room], shown.newest[room] = find_shown(run.planted, text), find_shown(run.planted, newest)
            shown.tokens[room] = counter.text(text)
        tokens = await thread.tokens()
    return Measured(run, shown, tokens, dict(thread.done), dict(thread.failures), time.monotonic() - began)


def _text(found: Sequence[Measured], budgets: Sequence[int], model: str) -> str:
    parts = [_table_of_runs(found, budgets)]
    for kind in dict.fromkeys(each.run.kind for each in found):
        of_kind = [each for each in found if each.run.kind == kind]
        parts.append(f"{kind}, {len(of_kind)} runs:\n\n{_table_of_shares(of_kind, budgets)}")
    if len({each.run.kind for each in found}) > 1:
        parts.append(f"All:\n\n{_table_of_shares(found, budgets)}")
    parts += _verdicts(found, budgets, model)
    return "\n\n".join(parts)


def _table_of_runs(found: Sequence[Measured], budgets: Sequence[int]) -> str:
    header = ("run", "messages", "tokens", "planted", *(f"used of {room:,}" for room in budgets), "failures", "seconds")
    rows = [
        [
            f"{each.run.kind} {each.run.seed}",
            *(f"{count:,}" for count in (len(each.run.messages), each.tokens, len(each.run.planted))),
            *(f"{each.shown.tokens[room] / room:.0%}" for room in budgets),
            str(sum(each.failures.values())),
            f"{each.seconds:.0f}",
        ]
        for each in found
    ]
    return table(header, rows)


def _table_of_shares(found: Sequence[Measured], budgets: Sequence[int]) -> str:
    header = ("shown (newest messages in the same room)", "planted", *(f"{room:,}" for room in budgets))
    rows = []
    for kind in PLANTED_KINDS:
        cells = [f"{_share(found, kind, room):.0%} ({_share(found, kind, room, ours=False):.0%})" for room in budgets]
        rows.append([kind, str(_count(found, kind)), *cells])
    return table(header, rows)


def _count(found: Sequence[Measured], kind: str) -> int:
    return sum(plant.kind == kind for each in found for plant in each.run.planted)


def _share(found: Sequence[Measured], kind: str, room: int, *, ours: bool = True) -> float:
    """Of all that is planted of the kind."""
    seen = sum(
        plant.id in (each.shown.ours if ours else each.shown.newest)[room]
        for each in found
        for plant in each.run.planted
        if plant.kind == kind
    )
    return seen / max(1, _count(found, kind))


def _verdicts(found: Sequence[Measured], budgets: Sequence[int], model: str) -> list[str]:
    lines = []
    if model == "none" and EXPECTED_AT in budgets:
        shares = {kind: _share(found, kind, EXPECTED_AT) for kind in EXPECTED}
        told = (f"{kind} {share:.1%} of {EXPECTED[kind]:.0%}" for kind, share in shares.items())
        holds = all(share >= EXPECTED[kind] for kind, share in shares.items())
        lines.append(f"Expected at {EXPECTED_AT:,}: {verdict(holds)} ({', '.join(told)})")
    lost = [
        f"{small:,} -> {large:,}: {plant.kind} {plant.values}"
        for each in found
        for small, large, plant in each.list_lost()
    ]
    lines.append(
        "\n".join([f"More room never shows less: {verdict(not lost)} ({len(lost)} lost)", *lost[:_MISSING_SHOWN]])
    )
    unused = [f"{each.run.kind} {each.run.seed}: {room:,}" for each in found for room in each.list_unused()]
    lines.append(
        f"At least {LEAST_USED:.0%} of the room used where something is left out, and no more than all: "
        f"{verdict(not unused)}" + (f" ({'; '.join(unused[:_MISSING_SHOWN])})" if unused else "")
    )
    return lines


def _missing(found: Sequence[Measured], room: int) -> str:
    by_kind: dict[str, list[str]] = defaultdict(list)
    for each in found:
        for plant in each.run.planted:
            if plant.id not in each.shown.ours[room]:
                turn = f"turn {plant.turn} of {len(each.run.turns)}"
                by_kind[plant.kind].append(f"{plant.id} ({turn}): {plant.sentence} {plant.values}")
    lines = [f"{kind}:\n  " + "\n  ".join(missing) for kind, missing in by_kind.items()]
    return "\n".join([f"Not shown in {room:,}:", *lines])


def _plain(measured: Measured) -> dict[str, Any]:
    """As JSON."""
    run, shown = measured.run, measured.shown
    return {
        "kind": run.kind,
        "seed": run.seed,
        "messages": len(run.messages),
        "tokens": measured.tokens,
        "used": {str(room): tokens for room, tokens in shown.tokens.items()},
        "planted": [
            asdict(plant)
            | {
                "values": list(plant.values),
                "shown": [room for room in shown.ours if plant.id in shown.ours[room]],
                "newest": [room for room in shown.newest if plant.id in shown.newest[room]],
            }
            for plant in run.planted
        ],
        "lost": [[small, large, plant.id] for small, large, plant in measured.list_lost()],
        "unused": measured.list_unused(),
        "done": measured.done,
        "failures": measured.failures,
        "seconds": measured.seconds,
    }


if __name__ == "__main__":
    main()
