"""Daily use: two small stores with profile, plans, attempts and session memory, and the questions of their users."""

from pathlib import Path
from typing import Any

from benchmarks.truth.cases import Sample, read_json
from benchmarks.truth.figures import Figure
from benchmarks.truth.memory_client import Memory, opened, shows

PART = "daily use"


async def measure(folder: Path, sample: Sample) -> list[Figure]:
    """The share of questions for which a recall shows every text that it must."""
    figures = []
    for number, store in enumerate(read_json("daily_use")):
        shown = Figure(PART, f"shown: {store['name']}")
        resource = f"daily-{number}"
        async with opened(folder, resource) as memory:
            for tool, *arguments in store["calls"]:
                await _prepare(memory, tool, arguments)
            await memory.vectors_made()
        async with opened(folder, resource) as memory:
            for question, texts in sample.of(store["questions"]):
                answer = await memory.recall(question)
                shown.add(all(shows(answer, text) for text in texts), question)
        figures.append(shown)
    return figures


async def _prepare(memory: Memory, tool: str, arguments: list[Any]) -> None:
    """Call a tool with its arguments; "say" adds messages to a thread."""
    if tool == "say":
        thread_id, texts = arguments
        await memory.say(texts, thread_id)
    else:
        await memory.call(tool, **arguments[0])
