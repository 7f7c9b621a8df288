"""Corrections: exactly the old entry is replaced, and nothing that is true is hidden."""

from dataclasses import dataclass
from pathlib import Path

from benchmarks.truth.cases import Json, Sample, read_toml
from benchmarks.truth.figures import Figure
from benchmarks.truth.memory_client import Memory, Note, opened, shows

PART = "corrections"


@dataclass(slots=True)
class Corrected:
    """Counts what corrections did. ``harmed`` is about the entries that stay true."""

    named: Figure
    alone: Figure
    shown: Figure
    harmed: Figure


async def measure(folder: Path, sample: Sample) -> list[Figure]:
    """What corrections replace, with ``replaces`` and without, and what they hide that is true."""
    data = read_toml("corrections")
    counted = Corrected(
        named=Figure(PART, "with replaces: exactly the old one", 1.0),
        alone=Figure(PART, "without replaces: exactly the old one"),
        shown=Figure(PART, "the correction is shown", 1.0),
        harmed=Figure(PART, "clean pairs: a true entry is hidden", 0.0, unwanted=True),
    )
    unrelated = Figure(PART, "unrelated entries: hidden", 0.0, unwanted=True)
    async with opened(folder, "corrections") as memory:
        await memory.embedder_loaded()
        for case in sample.of(data["clean"]):
            await _correct(memory, case, counted, names_old=True)
            await _correct(memory, case, counted, names_old=False)
        for case in sample.of(data["unrelated"]):
            is_hidden = await _correct_beside(memory, case)
            unrelated.add(is_hidden, f"{case['stays']} / {case['correction']}")
    return [counted.named, counted.alone, counted.shown, counted.harmed, unrelated]


async def _correct(memory: Memory, case: Json, counted: Corrected, *, names_old: bool) -> None:
    await memory.erase()
    beside = {text: await memory.remember(text, kind="fact") for text in case["beside"]}
    old = await memory.remember(case["old"], kind="fact")
    replaces = old.id if names_old else ""
    new = await memory.remember(case["new"], kind="correction", replaces=replaces)
    await memory.corrections_made()
    answer = await memory.recall(case["new"])
    hidden = [text for text, note in beside.items() if await _is_hidden(memory, text, note, new)]
    name = f"{case['old']} / {case['new']}"
    replaced = counted.named if names_old else counted.alone
    # A replacement may take the id of the old entry.
    is_replaced = set(new.hidden) == {old.id} or (not new.hidden and new.id == old.id)
    replaced.add(is_replaced and not shows(answer, case["old"]), name)
    counted.shown.add(shows(answer, case["new"]), name)
    for text in beside:
        counted.harmed.add(text in hidden, f"{name}: {text}")


async def _correct_beside(memory: Memory, case: Json) -> bool:
    """Whether a correction of something else hides the entry."""
    await memory.erase()
    stays = await memory.remember(case["stays"], kind="fact")
    correction = await memory.remember(case["correction"], kind="correction")
    await memory.corrections_made()
    return await _is_hidden(memory, case["stays"], stays, correction)


async def _is_hidden(memory: Memory, text: str, entry: Note, correction: Note) -> bool:
    return entry.id in correction.hidden or not shows(await memory.recall(text), text)
