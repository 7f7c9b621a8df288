"""How much shorter observations are than what they tell, and what they keep: ``python -m benchmarks.compression
[FILE...]``, see README.md."""

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio

from benchmarks.compressing import Compressed, Told, compressed
from benchmarks.conversations import Conversation, read_set
from benchmarks.kept_values import kept, values_of
from benchmarks.standing_in import NAME, StandIn
from benchmarks.tables import figure, table, verdict, write_json
from benchmarks.tool_run import KINDS, STEPS, Planted, tool_run
from layerlore.extraction.chat.chat_port import Chat, choose_models
from layerlore.extraction.chat.litellm_chat import LitellmChat

MESSAGE_TOKENS = 6_000
EXPECTED = (5.0, 40.0)
"""Times shorter, of work that is mostly tool calls."""
TOOL_RUN = "tool run"
HEADER = (
    *("", "threads", "messages", "tokens", "notes", "their tokens", "ratio"),
    *("values", "kept", "in a window as long", "shown", "reflected", "ratio", "kept"),
)
PLANTED_HEADER = ("planted in the tool run", "values", "kept", "in a window as long", "shown", "reflected: kept")


@dataclass(frozen=True, slots=True)
class Found:
    """Of so many values: how many the observations have, a window of as many tokens would have, the observer was shown
    (None: nobody was), and the observations after one reflection have."""

    values: int = 0
    kept: int = 0
    window: int = 0
    shown: int | None = None
    reflected: int = 0

    def __add__(self, other: "Found") -> "Found":
        shown = None if self.shown is None and other.shown is None else (self.shown or 0) + (other.shown or 0)
        return Found(
            self.values + other.values,
            self.kept + other.kept,
            self.window + other.window,
            shown,
            self.reflected + other.reflected,
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over threads."""

    threads: int = 0
    messages: int = 0
    tokens: int = 0
    notes: int = 0
    extracts: int = 0
    observed: int = 0
    reflected: int = 0
    failures: int = 0
    found: Found = Found()

    def __add__(self, other: "Figures") -> "Figures":
        return Figures(*(getattr(self, name) + getattr(other, name) for name in Figures.__slots__))

    @property
    def ratio(self) -> float:
        return self.tokens / max(1, self.observed)

    @property
    def reflected_ratio(self) -> float:
        return self.tokens / max(1, self.reflected)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    write_json(options.json, anyio.run(_measure, options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compression", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="a conversation set")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of the tool run (default: {STEPS})")
    parser.add_argument("--seed", type=int, default=1, help="of the tool run (default: 1)")
    parser.add_argument(
        "--message-tokens",
        type=int,
        default=MESSAGE_TOKENS,
        help=f"observation.message_tokens (default: {MESSAGE_TOKENS:,})",
    )
    parser.add_argument("--model", default="", help="a model by litellm's name (openai/...); else a stand-in by rules")
    parser.add_argument("--base-url", default="", help="its server, http://localhost:11434/v1")
    parser.add_argument("--key", default="none", help="what that server takes for a key (default: none)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


def _thinkers(options: argparse.Namespace) -> dict[str, Chat | None]:
    """Who notes, by name: nobody but our own extracts, and a model."""
    if not options.model:
        return {"extractive": None, NAME: StandIn()}
    chosen = choose_models(options.model, {}, {})
    return {
        "extractive": None,
        options.model: LitellmChat(chosen, api_base=options.base_url, api_key=options.key, timeout_seconds=600),
    }


async def _measure(options: argparse.Namespace) -> dict[str, Any]:
    report = {}
    sets = {path.stem: read_set(path) for path in options.files}
    for name, chat in _thinkers(options).items():
        began = time.monotonic()
        run, planted = await _of_run(options, chat)
        of_sets = {stem: await _of_set(conversations, options, chat) for stem, conversations in sets.items()}
        rows = {f"{TOOL_RUN}, {options.steps} steps": run, **of_sets}
        report[name] = {
            "figures": {each: _plain(figures) for each, figures in rows.items()},
            "planted": {kind: asdict(found) for kind, found in planted.items()},
            "seconds": time.monotonic() - began,
        }
        print(f"\n## {name}\n\n{_shown(rows, planted)}", flush=True)
        if failures := sum(figures.failures for figures in rows.values()):
            extracts = sum(figures.extracts for figures in rows.values())
            print(f"\n{failures} attempts failed; {extracts} extracts stand in.", flush=True)
    return report


async def _of_run(options: argparse.Namespace, chat: Chat | None) -> tuple[Figures, dict[str, Found]]:
    run = tool_run(options.steps, options.seed)
    done = await compressed([step.messages for step in run], chat, options.message_tokens)
    planted: list[Planted] = [each for step in run for each in step.planted]
    by_kind = {kind: _found(done, [each.value for each in planted if each.kind == kind]) for kind in KINDS}
    return _figures(done, sum(by_kind.values(), Found())), by_kind


async def _of_set(conversations: Sequence[Conversation], options: argparse.Namespace, chat: Chat | None) -> Figures:
    """Each conversation is a thread, all its sessions one after the other."""
    total = Figures()
    for conversation in conversations:
        messages = [message for _, session in conversation.threads for message in session]
        done = await compressed([[message] for message in messages], chat, options.message_tokens)
        values = values_of(message["content"] for message in messages if message["role"] == "user")
        total += _figures(done, _found(done, values))
    return total


def _figures(done: Compressed, found: Found) -> Figures:
    observed, reflected = done.observed, done.reflected
    return Figures(
        *(1, len(done.messages), done.tokens, observed.notes, observed.extracts),
        *(observed.tokens, reflected.tokens, done.failures, found),
    )


def _found(done: Compressed, values: Sequence[str]) -> Found:
    def count(text: str | Told) -> int:
        return len(kept(values, text if isinstance(text, str) else text.text))

    shown = count(done.shown) if done.shown else None
    return Found(
        len(values), count(done.observed), count(done.newest(done.observed.tokens)), shown, count(done.reflected)
    )


def _shown(rows: dict[str, Figures], planted: dict[str, Found]) -> str:
    lines = [table(HEADER, [_row(name, figures) for name, figures in rows.items()])]
    lines.append(
        table(PLANTED_HEADER, [[kind, *_cells(found), _of(found.reflected, found)] for kind, found in planted.items()])
    )
    ratio = next(iter(rows.values())).ratio
    least, most = EXPECTED
    held = verdict(ratio >= least)
    lines.append(f"The tool run: {figure(ratio, 1)} times shorter; expected {least:g} to {most:g} times: {held}")
    return "\n\n".join(lines)


def _row(name: str, figures: Figures) -> list[str]:
    counts = (figures.threads, figures.messages, figures.tokens, figures.notes, figures.observed)
    reflected = (
        f"{figures.reflected:,}",
        figure(figures.reflected_ratio, 1),
        _of(figures.found.reflected, figures.found),
    )
    return [name, *(f"{count:,}" for count in counts), figure(figures.ratio, 1), *_cells(figures.found), *reflected]


def _cells(found: Found) -> list[str]:
    shown = "-" if found.shown is None else _of(found.shown, found)
    return [f"{found.values:,}", _of(found.kept, found), _of(found.window, found), shown]


def _of(count: int, found: Found) -> str:
    return f"{count / found.values:.0%}" if found.values else "-"


def _plain(figures: Figures) -> dict[str, Any]:
    return asdict(figures) | {"ratio": figures.ratio, "reflected_ratio": figures.reflected_ratio}


if __name__ == "__main__":
    main()
