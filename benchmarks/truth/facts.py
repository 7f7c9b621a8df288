"""Pairs of facts: different ones are both kept, equal ones are recognised, and only the same subject is contradicted."""

from pathlib import Path

from benchmarks.truth.cases import Pair, Sample, pairs_of, read_toml
from benchmarks.truth.figures import Figure
from benchmarks.truth.memory_client import Memory, Note, opened, shows

DIFFERENT = "different facts"
EQUAL = "equal facts"
CONTRADICTIONS = "contradictions"


async def measure_different(folder: Path, sample: Sample) -> list[Figure]:
    """The share of pairs of which both were kept and both are shown by a recall, by kind and for all."""
    cases = sample.of(pairs_of("different_facts"), kind=lambda case: case[0])
    kinds = {kind: Figure(DIFFERENT, f"kept and shown: {kind}") for kind, _ in cases}
    kept = Figure(DIFFERENT, "both kept", 1.0)
    shown = Figure(DIFFERENT, "both kept and shown", 1.0)
    async with opened(folder, "different") as memory:
        await memory.embedder_loaded()
        for kind, pair in cases:
            case = " / ".join(pair)
            are_kept, are_shown = await _remember_both(memory, pair)
            kept.add(are_kept, case)
            for figure in (kinds[kind], shown):
                figure.add(are_kept and are_shown, case)
    return [*kinds.values(), kept, shown]


async def measure_equal(folder: Path, sample: Sample) -> list[Figure]:
    """The share of repetitions that are recognised, by kind and for all."""
    cases = sample.of(pairs_of("equal_facts"), kind=lambda case: case[0])
    kinds = {kind: Figure(EQUAL, f"recognised: {kind}") for kind, _ in cases}
    recognised = Figure(EQUAL, "recognised", 0.5)
    async with opened(folder, "equal") as memory:
        await memory.embedder_loaded()
        for kind, pair in cases:
            _, second = await _remember_pair(memory, pair)
            is_recognised = second.status in ("similar", "refreshed")
            for figure in (kinds[kind], recognised):
                figure.add(is_recognised, " / ".join(pair))
    return [*kinds.values(), recognised]


async def measure_contradictions(folder: Path, sample: Sample) -> list[Figure]:
    """The share of pairs that are called contradictory: of different subjects, and of the same subject."""
    pairs = read_toml("contradictions")
    other = Figure(CONTRADICTIONS, "false: another subject", 0.03, unwanted=True)
    same = Figure(CONTRADICTIONS, "found: the same subject")
    async with opened(folder, "contradictions") as memory:
        await memory.embedder_loaded()
        for name, figure in (("other", other), ("same", same)):
            for pair in sample.of(pairs[name]):
                first, second = await _remember_pair(memory, pair)
                is_contradiction = first.id in second.contradicts or bool(second.hidden)
                figure.add(is_contradiction, " / ".join(pair))
    return [other, same]


async def _remember_both(memory: Memory, pair: Pair) -> tuple[bool, bool]:
    """Whether two entries were made of the pair, and whether a recall shows both."""
    notes = await _remember_pair(memory, pair)
    answer = await memory.recall(pair[0])
    are_kept = all(note.is_new and not note.hidden for note in notes)
    return are_kept, all(shows(answer, text) for text in pair)


async def _remember_pair(memory: Memory, pair: Pair) -> tuple[Note, Note]:
    await memory.erase()
    first = await memory.remember(pair[0], kind="fact")
    second = await memory.remember(pair[1], kind="fact")
    return first, second
