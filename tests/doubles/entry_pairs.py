"""Pairs of entries that say different things, the same, or something of different subjects, from ``entry_pairs.txt``."""

from pathlib import Path

Pair = tuple[str, str]


def read_pairs(kind: str) -> list[Pair]:
    """The pairs of a kind: ``different``, ``same`` or ``other subject``."""
    text = Path(__file__).with_name("entry_pairs.txt").read_text(encoding="utf-8")
    section = text.partition(f"[{kind}]\n")[2].partition("\n[")[0]
    found: list[Pair] = []
    for line in filter(None, section.splitlines()):
        first, _, second = line.partition(" | ")
        found.append((first, second))
    return found
