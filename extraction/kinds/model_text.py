"""Text that a model wrote: cleaned before anything is made of it, and checked for repetition."""

from collections.abc import Sequence

from layerlore.memory.text.echoes import strip_blocks
from layerlore.memory.text.quotation import join_lines, make_visible

# Mastra's rule for long texts: more than two fifths of all windows of this many characters occurred before.
_LONG, _WINDOW, _REPEATED = 2000, 200, 0.4
# The same within one note.
_NOTE, _NOTE_WINDOW, _NOTE_REPEATED = 200, 20, 0.6
# Of this many notes or more, over half must differ.
_NOTES = 4


def clean_text(text: str) -> str:
    """Remove our own blocks, invisible characters, and what no database takes: NUL and lone surrogates."""
    return strip_blocks(make_visible(text.encode(errors="replace").decode()))


def clean_line(text: str, most: int) -> str:
    """Clean a text and put it on one line of at most ``most`` characters."""
    line = join_lines(clean_text(text))
    return line if len(line) <= most else line[: most - 1] + "…"


def find_repetition(notes: Sequence[str]) -> str | None:
    """How notes repeat themselves, in words for their author; None if they do not."""
    normalized = [" ".join(note.lower().split()) for note in notes]
    distinct = len(set(normalized))
    if len(normalized) >= _NOTES and distinct <= len(normalized) / 2:
        return f"{len(normalized) - distinct} of {len(normalized)} notes repeat another one"
    for place, note in enumerate(normalized, 1):
        if len(note) >= _NOTE and _share_repeated(note, _NOTE_WINDOW) > _NOTE_REPEATED:
            return f"note {place} repeats itself"
    joined = "\n".join(normalized)
    if len(joined) >= _LONG and _share_repeated(joined, _WINDOW) > _REPEATED:
        return "the notes repeat long passages"
    return None


def _share_repeated(text: str, window: int) -> float:
    """The share of windows, one starting at each character, that occurred before."""
    count = len(text) - window + 1
    return 1 - len({text[at : at + window] for at in range(count)}) / count
