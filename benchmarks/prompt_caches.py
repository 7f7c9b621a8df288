"""How much of each context of a conversation with large results a provider's prompt cache reuses, and the money that it
saves."""

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.long_runs.played import Played
from benchmarks.tables import table, verdict
from benchmarks.toolwork_threads import Arrival, Workload, make_thread
from benchmarks.turns import shared_beginning
from layerlore.memory.context.context import Format
from layerlore.memory.parts.tokens import load_counter
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.settings.settings import load_settings

ROOMS = (8_000, 30_000, 100_000)
SHAPES: tuple[Format, ...] = ("openai", "responses", "anthropic", "gemini", "ai-sdk", "text")
EXPECTED = {8_000: 0.75, 30_000: 0.85}
"""The share of the characters that is the same prefix as of the call before, with large results of tools."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million input tokens: read anew, read from the cache, and written to it. A cached prefix has at
    least ``least`` tokens, and is a multiple of ``block``."""

    model: str
    anew: float
    cached: float
    written: float
    least: int
    block: int


# List prices and cache rules of 2026-11: developers.openai.com/api/docs/pricing and its guide on prompt caching,
# platform.claude.com/docs/en/about-claude/pricing, ai.google.dev/gemini-api/docs/pricing and its guide on caching.
PRICES: Mapping[str, Price] = {
    "openai": Price("gpt-5.4", 2.50, 0.25, 2.50, 1_024, 128),
    "responses": Price("gpt-5.4", 2.50, 0.25, 2.50, 1_024, 128),
    "anthropic": Price("claude-sonnet-5-5", 2.00, 0.20, 2.50, 1_024, 1),
    "gemini": Price("gemini-3.8-flash", 0.75, 0.075, 0.75, 4_096, 1),
}


@dataclass(slots=True)
class Prefixes:
    """The contexts of consecutive calls in one shape and room. ``lost`` counts the contexts that shared less than half
    of the one before."""

    price: Price | None = None
    calls: int = 0
    characters: int = 0
    shared: int = 0
    lost: int = 0
    dollars: float = 0.0
    dollars_anew: float = 0.0
    _before: str = ""
    _marks: Sequence[int] = ()

    @property
    def share(self) -> float:
        """The share of the characters that the call before began with, too."""
        return self.shared / max(1, self.characters)

    @property
    def saved(self) -> float:
        """The share of the money for input that the cache saves."""
        return 1 - self.dollars / self.dollars_anew if self.dollars_anew else 0.0

    def add(self, sent: str, tokens: int, marks: Sequence[int] | None = None) -> None:
        """Add the context of the next call. ``marks``: the places where it says that a cache may cut (None: it may cut
        anywhere)."""
        shared = shared_beginning(self._before, sent)
        if self.calls:
            self.characters += len(sent)
            self.shared += shared
            self.lost += shared < len(self._before) // 2
        if self.price:
            self._pay(self.price, sent, tokens, shared, marks)
        self.calls += 1
        self._before, self._marks = sent, marks or ()

    def _pay(self, price: Price, sent: str, tokens: int, shared: int, marks: Sequence[int] | None) -> None:
        written = 0
        if marks is not None:
            # Anthropic reads what the call before wrote, up to one of its marks.
            shared = max((mark for mark in self._marks if mark <= shared), default=0)
        cached = int(tokens * shared / max(1, len(sent))) // price.block * price.block
        if cached < price.least:
            cached = 0
        if marks:
            written = max(0, int(tokens * marks[-1] / max(1, len(sent))) - cached)
        anew = tokens - cached - written
        self.dollars += (cached * price.cached + written * price.written + anew * price.anew) / 10**6
        self.dollars_anew += tokens * price.anew / 10**6


@contextlib.asynccontextmanager
async def opened_thread(memory: bool) -> AsyncIterator[Played]:
    """A thread on a store of its own."""
    chosen = {"database": "sqlite://:memory:", "embedding": {"embedder": "none"}, "context": {"memory": memory}}
    engine = await open_engine(load_settings(chosen, environ={}))
    try:
        yield Played(engine, None)
    finally:
        await close_engine(engine)


async def measure_prefixes(
    workload: Workload,
    seed: int,
    *,
    rooms: Sequence[int] = ROOMS,
    shapes: Sequence[Format] = SHAPES,
    memory: bool = True,
) -> dict[tuple[str, int], Prefixes]:
    """The prefixes by shape and room: a context before every call of a model. ``newest`` is no shape, but the baseline:
    the newest messages that fit, whole, as chat completions take them."""
    found: dict[tuple[Format, int], Prefixes] = {
        (shape, room): Prefixes(PRICES.get(shape)) for shape in shapes for room in rooms
    }
    sliding = {room: Prefixes(PRICES["openai"]) for room in rooms}
    counter = load_counter()
    newest: list[tuple[str, int]] = []
    async with opened_thread(memory) as thread:
        for arrival in make_thread(workload, seed):
            await thread.add(arrival.messages)
            newest += _list_sent(arrival, counter.text)
            if not arrival.is_answered:
                continue
            for (shape, room), prefixes in found.items():
                answer = await thread.shaped_context(room, shape)
                prefixes.add(*_flatten(answer, counter.text))
            for room, prefixes in sliding.items():
                prefixes.add(*_slide(newest, room))
    every: dict[tuple[str, int], Prefixes] = {("newest", room): prefixes for room, prefixes in sliding.items()}
    for (shape, room), prefixes in found.items():
        every[shape, room] = prefixes
    return every


def render_prefixes(found: Mapping[tuple[str, int], Prefixes]) -> str:
    """A table with a row for each shape, and the money for input by the prices of its provider."""
    rooms = sorted({room for _, room in found})
    header = ["shape", "model"]
    for room in rooms:
        header += [f"share at {room:,}", "lost", "saved", "$ of $"]
    rows: dict[str, list[str]] = {}
    for (shape, _), prefixes in sorted(found.items(), key=lambda each: each[0][1]):
        price = prefixes.price
        row = rows.setdefault(shape, [shape, price.model if price else ""])
        row += [f"{prefixes.share:.0%}", str(prefixes.lost)]
        if price:
            row += [f"{prefixes.saved:.0%}", f"{prefixes.dollars:.2f} of {prefixes.dollars_anew:.2f}"]
        else:
            row += ["", ""]
    expected = [
        f"openai at {room:,}: {share:.0%} expected: {verdict(found['openai', room].share >= share)}"
        for room, share in EXPECTED.items()
        if ("openai", room) in found
    ]
    return "\n\n".join([table(header, rows.values()), *expected])


def _list_sent(arrival: Arrival, count: Callable[[str], int]) -> list[tuple[str, int]]:
    lines = [
        json.dumps({name: value for name, value in message.items() if name != "created_at"}, ensure_ascii=False)
        for message in arrival.messages
    ]
    return [(line, count(line)) for line in lines]


def _slide(newest: Sequence[tuple[str, int]], room: int) -> tuple[str, int]:
    kept: list[str] = []
    used = 0
    for line, tokens in reversed(newest):
        if used + tokens > room:
            break
        used += tokens
        kept.append(line)
    return "\n".join(reversed(kept)), used


def _flatten(answer: Any, count: Callable[[str], int]) -> tuple[str, int, list[int] | None]:
    """A context as one text in the order in which a provider reads it, its tokens, and the places of its cache
    breakpoints (None: in a shape that has none)."""
    if isinstance(answer, str):
        return answer, count(answer), None
    lines: list[str] = []
    marks: list[int] = []
    length = 0
    for block in _list_blocks(answer):
        marked = block.pop("cache_control", None)
        lines.append(json.dumps(block, ensure_ascii=False, sort_keys=True))
        length += len(lines[-1]) + 1
        if marked:
            marks.append(length)
    return "\n".join(lines), answer["report"]["tokens"], marks or None


def _list_blocks(answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The blocks of a provider's request: what is for the system, then those of each message."""
    system = answer.get("system", answer.get("systemInstruction", []))
    if isinstance(system, str):
        system = [{"text": system}]
    elif isinstance(system, dict):
        system = system["parts"]
    yield from (dict(block) for block in system)
    for message in next(answer[name] for name in ("messages", "input", "contents") if name in answer):
        content = message.get("content", message.get("parts"))
        if isinstance(content, list):
            # A block that moves from one message to the next is another for the cache.
            yield from ({"role": message.get("role"), **block} for block in content)
        else:
            yield dict(message)
