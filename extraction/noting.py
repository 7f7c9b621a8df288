"""The answer of an observer: what it must look like, and the notes that are read from it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from layerlore.extraction.degenerate import repetition
from layerlore.extraction.kind import Refused
from layerlore.extraction.wording import in_one_line
from layerlore.memory.engine import Engine
from layerlore.memory.evidence import told_by_others
from layerlore.memory.observations_text import line
from layerlore.memory.trust import TRUSTS, Trust, lowest
from layerlore.storage.observations import MARKERS, Marker, NewObservation
from layerlore.storage.records import Json

MOST_NOTES = 400
MOST_DETAILS = 20
NOTE_CHARS = 1000
HINT_CHARS = 500
# Notes of a short transcript may be as long as it.
_FEWEST_TOKENS = 400

_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?")
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
class Note:
    """One observation as it was answered; the seqs lie within what was to be noted."""

    marker: Marker
    text: str
    from_seq: int
    to_seq: int
    refers_to: str | None
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Noted:
    """An answer that has been read. No notes: the observer said that there is nothing to note."""

    notes: tuple[Note, ...]
    current_task: str | None
    next_step: str | None


@dataclass(frozen=True, slots=True)
class Readied:
    """The notes as they are stored, and when that is (ms since 1970)."""

    made: tuple[NewObservation, ...]
    current_task: str | None
    next_step: str | None
    now: int


@dataclass(frozen=True, slots=True)
class Sources:
    """What notes may rest on: of each message its seq, whose word it is, and when it was said; in order. ``texts``: what
    was given of them, by seq, where a model says which of them a note rests on."""

    seqs: tuple[int, ...]
    trusts: Mapping[int, Trust]
    said_at: Mapping[int, int]
    texts: Mapping[int, str] = field(default_factory=dict)

    def within(self, first: int, last: int) -> list[int]:
        return [seq for seq in self.seqs if first <= seq <= last] or list(self.seqs)

    def trust(self, text: str, seqs: Sequence[int]) -> Trust:
        """The lowest of those messages; and of others that are trusted less, if the note says what they say."""
        found = lowest(self.trusts[seq] for seq in seqs)
        less = [seq for seq in self.texts if TRUSTS.index(self.trusts[seq]) < TRUSTS.index(found)]
        own = [self.texts[seq] for seq in seqs if seq in self.texts]
        if not less or not told_by_others(text, own, [self.texts[seq] for seq in less]):
            return found
        return lowest(self.trusts[seq] for seq in less)


def read_notes(answer: Json, sources: Sources) -> Noted:
    """The notes of an answer. Raises Refused."""
    listed = answer.get("observations", [])
    if not isinstance(listed, list):
        raise Refused("observations: must be a list of objects with marker, text, from_seq, to_seq")
    if len(listed) > MOST_NOTES:
        raise Refused(f"observations: there are {len(listed)}; at most {MOST_NOTES} are allowed: group what belongs")
    notes = [note for place, each in enumerate(listed) if (note := _note(each, f"observations[{place}]", sources))]
    if not notes and answer.get("nothing_to_note") is not True:
        raise Refused("observations: there is none; if nothing is worth a note, say so with nothing_to_note = true")
    return Noted(tuple(notes), _hint(answer, "current_task"), _hint(answer, "next_step"))


def check_repetition(noted: Noted) -> Noted:
    """The same. Raises Refused for notes that say the same again and again."""
    if (said := repetition([text for note in noted.notes for text in (note.text, *note.details)])) is not None:
        raise Refused(f"observations: {said}; note each thing once")
    return noted


def _note(raw: Any, where: str, sources: Sources) -> Note | None:
    """None for a note without a word."""
    if not isinstance(raw, dict):
        raise Refused(f"{where}: must be an object with marker, text, from_seq, to_seq")
    marker = next((each for each in MARKERS if each == str(raw.get("marker", "")).strip().lower()), None)
    if marker is None:
        raise Refused(f"{where}.marker: must be one of {', '.join(MARKERS)}")
    text, details = raw.get("text"), raw.get("details") or []
    if not isinstance(text, str) or not isinstance(details, list) or not all(isinstance(each, str) for each in details):
        raise Refused(f"{where}: text must be a string, and details a list of strings")
    text = in_one_line(text, NOTE_CHARS)
    if not text:
        return None
    first, last = _range(raw.get("from_seq"), raw.get("to_seq"), sources.seqs)
    refers_to = raw.get("refers_to")
    dated = _DATE.fullmatch(refers_to.strip()) if isinstance(refers_to, str) else None
    told = tuple(filter(None, (in_one_line(each, NOTE_CHARS) for each in details[:MOST_DETAILS])))
    return Note(marker, text, first, last, dated[0] if dated else None, told)


def _range(first: Any, last: Any, seqs: Sequence[int]) -> tuple[int, int]:
    """The seqs as answered, if they lie within the messages; else all: then the note is trusted as little as they."""
    whole = (seqs[0], seqs[-1]) if seqs else (0, 0)
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in (first, last)):
        return whole
    return (first, last) if whole[0] <= first <= last <= whole[1] else whole


def _hint(answer: Json, name: str) -> str | None:
    hint = answer.get(name)
    return (in_one_line(hint, HINT_CHARS) or None) if isinstance(hint, str) else None


def readied(engine: Engine, noted: Noted, sources: Sources, *, batch: int, transcript_tokens: int) -> Readied:
    """The notes with their tokens, trust and times. Raises Refused for notes that are longer than what they tell."""
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
        made.append(counted(engine, row))
        for detail in note.details:
            made.append(counted(engine, replace(row, text=engine.derived_text(detail), refers_to=None, parent=parent)))
    tokens = sum(each.tokens for each in made)
    most = max(_FEWEST_TOKENS, transcript_tokens)
    if tokens > most:
        raise Refused(f"observations: {tokens} tokens, more than the messages have ({most}); notes are to be shorter")
    task, step = (engine.derived_text(hint) if hint else None for hint in (noted.current_task, noted.next_step))
    return Readied(tuple(made), task, step, engine.now())


def counted(engine: Engine, row: NewObservation) -> NewObservation:
    """The row with the tokens of its line."""
    told = line(row.marker, row.said_at, row.text, row.refers_to, child=row.parent is not None)
    return replace(row, tokens=engine.tokens.text(told + "\n"))
