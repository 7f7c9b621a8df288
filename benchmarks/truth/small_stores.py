"""Stores of 1 to 20 messages: after each message, the questions about all that was said so far."""

from pathlib import Path

from benchmarks.truth.cases import Sample, read_toml
from benchmarks.truth.figures import Figure
from benchmarks.truth.memory_client import is_nothing, opened, shows

PART = "small stores"
BANDS = ((1, 5), (6, 10), (11, 15), (16, 20))


async def measure(folder: Path, sample: Sample) -> list[Figure]:
    """The share shown by the number of messages, and how often things that nobody said are answered with nothing."""
    shown = {band: Figure(PART, f"shown, {band[0]} to {band[1]} messages") for band in BANDS}
    nothing = Figure(PART, "never said: nothing")
    async with opened(folder, "small") as memory:
        await memory.embedder_loaded()
        for store in read_toml("small_stores")["stores"]:
            asked_sizes = sample.of(range(1, len(store["messages"]) + 1), kind=_band)
            await memory.erase()
            for size, text in enumerate(store["messages"], 1):
                await memory.say([text])
                if size not in asked_sizes:
                    continue
                counted = shown[_band(size)]
                for needed, question, answer in store["questions"]:
                    if needed <= size:
                        is_shown = shows(await memory.recall(question), answer)
                        counted.add(is_shown, f"{store['name']}, {size} messages: {question}")
                for question in store["never"]:
                    found = await memory.recall(question)
                    nothing.add(is_nothing(found), f"{store['name']}, {size} messages: {question}")
    return [*shown.values(), nothing]


def _band(size: int) -> tuple[int, int]:
    return next(band for band in BANDS if band[0] <= size <= band[1])
