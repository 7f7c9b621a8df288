"""The answer of an observer: its schema, and the notes that are read from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from layerlore.extraction.kinds.kind import AnswerRefused
from layerlore.extraction.kinds.model_text import clean_line, find_repetition
from layerlore.memory.engine.engine import Engine
from layerlore.memory.entries.evidence import rests_on_others
from layerlore.memory.observations.observation_text import render_line
from layerlore.memory.text.trust import TRUSTS, Trust, find_lowest_trust
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json
from layerlore.storage.derived.observations import MARKERS, Marker, NewObservation

MOST_NOTES = 400
MOST_DETAILS = 20
NOTE_CHARS = 1000
HINT_CHARS = 500
# Notes may always have this many tokens, however short the transcript is.
_FEWEST_TOKENS = 400

_DATE = linear_re.compile(r"\d{4}-\d{2}(-\d{2})?")
_OR_NULL = {"type": ["string", "null"]}

SCHEMA: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["observations", "nothing_to_note", "current_task", "next_step"],
    "properties": {
        "observations": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["marker", "text", "from_seq", "to_seq", "refers_to", "details"],
                "properties": {
                    "marker": {"type": "string", "enum": list(MARKERS)},
                    "text": {"type": "string"},
                    "from_seq": {"type": "integer"},
                    "to_seq": {"type": "integer"},
                    "refers_to": _OR_NULL,
                    "details": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
        "nothing_to_note": {"type": "boolean"},
        "current_task": _OR_NULL,
        "next_step": _OR_NULL,
    },
}


@dataclass(frozen=True, slots=True)
class ObserverNote:
    """One observation of an answer. Its seqs lie within the messages that were to be noted."""

    marker: Marker
    text: str
    from_seq: int
    to_seq: int
    refers_to: str | None
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ObserverAnswer:
    """An observer's answer after it was checked. No notes: the observer found nothing to note."""

    notes: tuple[ObserverNote, ...]
    current_task: str | None
    next_step: str | None


@dataclass(frozen=True, slots=True)
class ObserverResult:
    """The notes as they are stored, and the time (ms since 1970)."""

    made: tuple[NewObservation, ...]
    current_task: str | None
    next_step: str | None
    now: int


@dataclass(frozen=True, slots=True)
class NoteSources:
    """The messages that notes are made from, in order: their seqs, how far each is trusted, and when it was said.

    ``texts``: the text of each message that a model was given, by seq, if a model names the sources of its notes.
    """

    seqs: tuple[int, ...]
    trusts: Mapping[int, Trust]
    said_at: Mapping[int, int]
    texts: Mapping[int, str] = field(default_factory=dict)

    def within(self, first: int, last: int) -> list[int]:
        return [seq for seq in self.seqs if first <= seq <= last] or list(self.seqs)

    def trust(self, text: str, seqs: Sequence[int]) -> Trust:
        """The lowest trust of these messages, and of less trusted ones whose words the note repeats."""
        found = find_lowest_trust(self.trusts[seq] for seq in seqs)
        less = [seq for seq in self.texts if TRUSTS.index(self.trusts[seq]) < TRUSTS.index(found)]
        own = [self.texts[seq] for seq in seqs if seq in self.texts]
        if not less or not rests_on_others(text, own, [self.texts[seq] for seq in less]):
            return found
        return find_lowest_trust(self.trusts[seq] for seq in less)


def read_notes(answer: Json, sources: NoteSources) -> ObserverAnswer:
    """Check an answer and return its notes. Raises AnswerRefused."""
    listed = answer.get("observations", [])
    if not isinstance(listed, list):
        raise AnswerRefused("observations: must be a list of objects with marker, text, from_seq, to_seq")
    if len(listed) > MOST_NOTES:
        raise AnswerRefused(
            f"observations: there are {len(listed)}; at most {MOST_NOTES} are allowed: group what belongs"
        )
    read = [_read_note(each, f"observations[{place}]", sources) for place, each in enumerate(listed)]
    notes = [note for note in read if note is not None]
    if not notes and answer.get("nothing_to_note") is not True:
        raise AnswerRefused(
            "observations: there is none; if nothing is worth a note, say so with nothing_to_note = true"
        )
    return ObserverAnswer(tuple(notes), _hint(answer, "current_task"), _hint(answer, "next_step"))


def check_repetition(noted: ObserverAnswer) -> ObserverAnswer:
    """Return the answer unchanged. Raises AnswerRefused for notes that say the same again and again."""
    repeated = find_repetition([text for note in noted.notes for text in (note.text, *note.details)])
    if repeated is not None:
        raise AnswerRefused(f"observations: {repeated}; note each thing once")
    return noted


def _read_note(raw: Any, where: str, sources: NoteSources) -> ObserverNote | None:
    """None for a note without text."""
    if not isinstance(raw, dict):
        raise AnswerRefused(f"{where}: must be an object with marker, text, from_seq, to_seq")
    marker = next((each for each in MARKERS if each == str(raw.get("marker", "")).strip().lower()), None)
    if marker is None:
        raise AnswerRefused(f"{where}.marker: must be one of {', '.join(MARKERS)}")
    text, details = raw.get("text"), raw.get("details") or []
    if not isinstance(text, str) or not isinstance(details, list) or not all(isinstance(each, str) for each in details):
        raise AnswerRefused(f"{where}: text must be a string, and details a list of strings")
    text = clean_line(text, NOTE_CHARS)
    if not text:
        return None
    first, last = _range(raw.get("from_seq"), raw.get("to_seq"), sources.seqs)
    refers_to = raw.get("refers_to")
    dated = _DATE.fullmatch(refers_to.strip()) if isinstance(refers_to, str) else None
    lines = tuple(filter(None, (clean_line(each, NOTE_CHARS) for each in details[:MOST_DETAILS])))
    return ObserverNote(marker, text, first, last, dated[0] if dated else None, lines)


def _range(first: Any, last: Any, seqs: Sequence[int]) -> tuple[int, int]:
    """The seqs of the answer if they lie within the messages, else all of them, which lowers the note's trust to theirs."""
    whole = (seqs[0], seqs[-1]) if seqs else (0, 0)
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in (first, last)):
        return whole
    return (first, last) if whole[0] <= first <= last <= whole[1] else whole


def _hint(answer: Json, name: str) -> str | None:
    hint = answer.get(name)
    return (clean_line(hint, HINT_CHARS) or None) if isinstance(hint, str) else None


def enrich_notes(
    engine: Engine, noted: ObserverAnswer, sources: NoteSources, *, batch: int, transcript_tokens: int
) -> ObserverResult:
    """Add tokens, trust and times to the notes. Raises AnswerRefused for notes that are longer than the messages."""
    made: list[NewObservation] = []
    for note in dict.fromkeys(noted.notes):
        seqs = sources.within(note.from_seq, note.to_seq)
        row = NewObservation(
            marker=note.marker,
            text=engine.derived_text(note.text),
            said_at=sources.said_at[seqs[0]],
            refers_to=note.refers_to,
            from_seq=note.from_seq,
            to_seq=note.to_seq,
            tokens=0,
            trust=sources.trust("\n".join([note.text, *note.details]), seqs),
            batch=batch,
        )
        parent = len(made)
        made.append(count_tokens(engine, row))
        for detail in note.details:
            made.append(
                count_tokens(engine, replace(row, text=engine.derived_text(detail), refers_to=None, parent=parent))
            )
    tokens = sum(each.tokens for each in made)
    most = max(_FEWEST_TOKENS, transcript_tokens)
    if tokens > most:
        raise AnswerRefused(
            f"observations: {tokens} tokens, more than the messages have ({most}); notes are to be shorter"
        )
    task, step = (engine.derived_text(hint) if hint else None for hint in (noted.current_task, noted.next_step))
    return ObserverResult(tuple(made), task, step, engine.now())


def count_tokens(engine: Engine, row: NewObservation) -> NewObservation:
    """The row with its tokens: those of the line that shows it."""
    shown = render_line(row.marker, row.said_at, row.text, row.refers_to, child=row.parent is not None)
    return replace(row, tokens=engine.tokens.text(shown + "\n"))
