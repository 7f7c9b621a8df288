"""What a model says when it no longer says anything: the same again and again."""

from collections.abc import Sequence

# Mastra's rule for long texts: more than two fifths of all windows of so many characters were there before.
_LONG, _WINDOW, _REPEATED = 2000, 200, 0.4
# The same within one note.
_NOTE, _NOTE_WINDOW, _NOTE_REPEATED = 200, 20, 0.6
# From so many notes on, most must differ.
_NOTES = 4


def repetition(notes: Sequence[str]) -> str | None:
    """How notes repeat themselves, in words for whoever wrote them; None: they do not."""
    told = [" ".join(note.lower().split()) for note in notes]
    if len(told) >= _NOTES and len(set(told)) <= len(told) / 2:
        return f"{len(told) - len(set(told))} of {len(told)} notes repeat another one"
    for place, note in enumerate(told, 1):
        if len(note) >= _NOTE and _repeated(note, _NOTE_WINDOW) > _NOTE_REPEATED:
            return f"note {place} repeats itself"
    joined = "\n".join(told)
    if len(joined) >= _LONG and _repeated(joined, _WINDOW) > _REPEATED:
        return "the notes repeat long passages"
    return None


def _repeated(text: str, window: int) -> float:
    """The share of windows, one at each character, that were there before."""
    count = len(text) - window + 1
    return 1 - len({text[at : at + window] for at in range(count)}) / count
