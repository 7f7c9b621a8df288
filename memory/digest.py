"""What is worth noting of a conversation, told without a model: sentences as they were said, and tool calls with how
they ended.

The same messages give the same notes. What a sentence does is told by its words, in ten languages (``digest_words``);
questions, ids, numbers, dates, URLs, paths, money and errors are told in any. That something is done counts if a person
says so or a tool's result shows it: an agent that merely says it did something has not done it (as in n8n's observer).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from layerlore.memory.blocks import without_blocks
from layerlore.memory.digest_calls import Call, calls_of
from layerlore.memory.digest_sentences import Sentence, bounded, is_marked, read, sentences_of, shortened, values_of
from layerlore.memory.digest_signs import words_of
from layerlore.memory.quoting import quoted_line
from layerlore.memory.tokens import TokenCounter
from layerlore.storage.records import Message, Role

Marker = Literal["critical", "important", "info", "completion"]

MOST_A_MESSAGE = 3
MOST_OF_A_PERSON = 5
"""Of a message to an agent: what is asked for, and the numbers, names and dates that it is asked with."""
# What weighs less is filler.
_LEAST = 0.9
# More than a token of prose has: what is longer than what is left has room for need not be counted.
_CHARS_A_TOKEN = 7
# What a note costs besides its text, in characters, and a little to keep scraps from going first.
_OWN_CHARS = 40
# Of what an agent says, next to what the person says it works for.
_SAID_BY_AGENT = 0.7


@dataclass(frozen=True, slots=True)
class Note:
    """One line of at most 240 characters, from the message with this seq. ``said_at``: ms since 1970. ``weight``: how
    much it matters next to others, about 0.7 to 6.6."""

    marker: Marker
    text: str
    seq: int
    role: Role
    said_at: int
    weight: float


class _Place(NamedTuple):
    """Where a message stands: whether a tool call before it in its turn succeeded, and one failed for good; whether it
    is the last of the agent's in its turn, calls tools itself, and whether people talk to each other, without an
    agent: users of several names, and nobody else."""

    role: Role
    succeeded: bool
    failed: bool
    closing: bool
    calling: bool
    among_people: bool


def notes_of(messages: Sequence[Message]) -> list[Note]:
    """What is worth noting, in the messages' order, at most MOST_A_MESSAGE of one message, or MOST_OF_A_PERSON.

    critical: what a person forbids or always wants, and calls that failed and were not made good by the same tool;
    completion: what is done; important: what is asked, decided, or went wrong; info: the rest.
    """
    calls = calls_of(messages)
    notes: list[Note] = []
    for message, place in zip(messages, _places(messages, calls), strict=True):
        found = _said(message, place)
        if place.calling:
            found += [_called(message, call) for call in calls[message.seq]]
        most = MOST_OF_A_PERSON if place.role == "user" and not place.among_people else MOST_A_MESSAGE
        if len(found) > most:
            kept = sorted(range(len(found)), key=lambda at: (-found[at].weight, at))[:most]
            found = [found[at] for at in sorted(kept)]
        notes += found
    return notes


def _places(messages: Sequence[Message], calls: Mapping[int, Sequence[Call]]) -> list[_Place]:
    """A turn begins with each message of a user."""
    closing: set[int] = set()
    sought = True
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "assistant" and sought:
            closing.add(at)
            sought = False
        sought = sought or messages[at].role == "user"
    among_people = not closing and len({message.name for message in messages if message.role == "user"}) > 1
    places: list[_Place] = []
    succeeded = failed = False
    for at, message in enumerate(messages):
        if message.role == "user":
            succeeded = failed = False
        own = calls.get(message.seq, ())
        places.append(_Place(message.role, succeeded, failed, at in closing, bool(own), among_people))
        succeeded = succeeded or any(call.state == "ok" for call in own)
        failed = failed or any(call.state == "error" and not call.overcome for call in own)
    return places


def _said(message: Message, place: _Place) -> list[Note]:
    """What its sentences and its files' names give to note."""
    found: list[Note] = []
    asked = False
    for part in message.parts:
        if part["type"] == "file" and part.get("file_name"):
            found.append(_note(message, "info", f"file: {' '.join(part['file_name'].split())}", 1.2))
        if part["type"] != "text":
            continue
        text = bounded(without_blocks(part["text"]))
        marked = is_marked(text)
        for each in sentences_of(text):
            sentence = read(each, marked=marked)
            judged = (
                _by_agent(sentence, place, not found)
                if place.role in ("assistant", "tool")
                else _by_person(sentence, place, asked)
            )
            if judged:
                asked = asked or _asks(sentence)
                found.append(_note(message, *judged))
    return found


def _note(message: Message, marker: Marker, text: str, weight: float) -> Note:
    return Note(marker, shortened(text), message.seq, message.role, message.said_at, round(weight, 2))


def _asks(sentence: Sentence) -> bool:
    return sentence.question or "ask" in sentence.kinds


def _is_filler(sentence: Sentence) -> bool:
    if sentence.values:
        return False
    return sentence.telling < 1 or ("polite" in sentence.kinds and sentence.telling <= 2)


def _is_done(sentence: Sentence) -> bool:
    return "done" in sentence.kinds and "open" not in sentence.kinds and not sentence.question


def _by_person(sentence: Sentence, place: _Place, asked: bool) -> tuple[Marker, str, float] | None:
    """The marker and the weight of a user's sentence (or of a system message's). ``asked``: something is asked before
    it in its message.

    What people ask each other, or tell each other to do, binds no agent: there what they tell of themselves weighs
    most (*Don't give up! Let's meet soon. How was Rome?*)."""
    kinds, text, worth = sentence.kinds, sentence.text, sentence.worth
    others = place.among_people
    if "rule" in kinds and not others and not sentence.question and (sentence.telling > 1 or sentence.values):
        return "critical", text, 4 + worth
    if _is_filler(sentence):
        return None
    if _is_done(sentence):
        return "completion", text, (1 if others else 2) + worth
    if "decision" in kinds and not sentence.question:
        return "important", text, (0.9 if others else 1.9) + worth
    if "error" in kinds:
        return "important", text, (1 if others else 1.7) + worth
    if _asks(sentence):
        # The first is what the message is about.
        weight = (0.6 if others else 1.0 if asked else 1.5) + worth
        return ("important", text, weight) if sentence.telling > 1 or sentence.values else None
    weight = (0.9 if "self" in kinds else 0.8 if "rule" in kinds else 0.5) + worth
    return ("info", text, weight) if weight >= _LEAST and sentence.telling > 1 else None


def _by_agent(sentence: Sentence, place: _Place, first: bool) -> tuple[Marker, str, float] | None:
    """The marker and the weight of an agent's sentence; ``first``: nothing before it in its message is noted."""
    kinds = sentence.kinds
    if _is_filler(sentence) or sentence.text.endswith((":", "：")) or ("announced" in kinds and place.calling):
        return None
    worth = _SAID_BY_AGENT * sentence.worth
    # How a turn ended that had tools at work is told in the first sentence of its last message.
    outcome = 0.8 if place.closing and first and (place.succeeded or place.failed) else 0
    if _is_done(sentence) and place.succeeded and not place.failed and place.closing:
        return "completion", sentence.text, 1.8 + worth + outcome
    if "decision" in kinds and "announced" not in kinds and not sentence.question:
        return "important", sentence.text, 1.0 + worth + outcome
    if "error" in kinds and (sentence.values or place.failed):
        return "important", sentence.text, 0.9 + worth + outcome
    weight = (0.6 if first or sentence.question else 0.3) + worth + outcome
    return ("info", sentence.text, weight) if weight >= _LEAST and sentence.telling > 1 else None


def _called(message: Message, call: Call) -> Note:
    """A call is at least as much worth as a plain sentence: it is what was done."""
    worth = 0.2 * min(len(values_of(call.text)), 4)
    marker: Marker
    if call.state == "error":
        marker, weight = ("important", 1.4) if call.overcome else ("critical", 3.5)
    elif call.state == "open":
        marker, weight = "info", 1.2
    elif call.changes or call.recovered:
        marker, weight = "completion", 2.0 if call.recovered else 1.7
    else:
        marker, weight = "info", 0.9
    return _note(message, marker, call.text, weight + worth)


def digest(notes: Iterable[Note], counter: TokenCounter, most_tokens: int) -> list[Note]:
    """The weightiest notes that fit, in chronological order: ``as_lines`` of them has at most ``most_tokens``.

    Of notes that differ only in case and marks the newest stands for all.
    """
    ordered = sorted(notes, key=lambda note: note.seq)
    newest = {tuple(words_of(note.text)): at for at, note in enumerate(ordered)}
    # The most weight for its room: a long note has to be worth two short ones.
    worth = {at: ordered[at].weight / math.sqrt(len(ordered[at].text) + _OWN_CHARS) for at in newest.values()}
    kept: list[int] = []
    left = most_tokens
    for at in sorted(worth, key=lambda at: (-worth[at], -at)):
        line = f"{_line(ordered[at])}\n"
        if len(line) > left * _CHARS_A_TOKEN:
            continue
        cost = counter.text(line)
        if cost <= left:
            kept.append(at)
            left -= cost
    # Lines may count otherwise together than each alone.
    while kept and counter.text(as_lines(ordered[at] for at in sorted(kept))) > most_tokens:
        kept.pop()
    return [ordered[at] for at in sorted(kept)]


def as_lines(notes: Iterable[Note]) -> str:
    """One note a line: ``- #12 user: ...``."""
    return "\n".join(map(_line, notes))


def _line(note: Note) -> str:
    return f"- #{note.seq} {note.role}: {quoted_line(note.text)}"
