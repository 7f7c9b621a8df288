"""The digest of a conversation, made without a model: verbatim sentences, and tool calls with their outcomes.

The same messages give the same notes. The act of a sentence is recognised by its words, in ten languages
(``language.phrases``); questions, ids, numbers, dates, URLs, paths, money and errors are recognised in any. The weight of a
sentence as a note, and the kind of the note, depend on whether a user or an agent says it. That something is done counts if
a person says so or a tool's result shows it: an agent that merely says it did something has not done it (as in n8n's
observer).
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol, TypeVar

from layerlore.memory.digest.tool_lines import DigestCall, read_call_line, read_calls
from layerlore.memory.language.phrases import find_words
from layerlore.memory.language.sentences import (
    Sentence,
    bound_text,
    find_values,
    is_marked,
    read_of_person,
    read_sentence,
    shorten,
    split_sentences,
)
from layerlore.memory.parts.own_parts import strip_messages
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.text.quotation import quote_line
from layerlore.storage.core.records import Message, Role

Marker = Literal["critical", "important", "info", "completion"]
NoteKind = Literal["correction", "rule", "fact", "word", "failure", "result", "prose"]
"""The kind of a note: a user's correction, rule (or standing wish), fact (with a value, a name or a date), or other
word; a call that failed for good; another call; an agent's word."""

# A sentence that weighs less is filler.
_LEAST = 0.9
_LEAST_OF_USER = 0.7
# An agent's words weigh less than those of the person it works for: first the worth of a sentence, then its whole weight.
_SAID_BY_AGENT = 0.7
_AGENT_SHARE = 0.5
_OUTCOME = 0.8
# The extra weight of a user's word. People who talk to each other get none.
_RULED, _CORRECTED = 6.5, 8.0
_FACT, _TOLD_OF_SELF, _WORD = 2.5, 0.8, 0.6
_PASTED = 0.9
Act = Literal["done", "decision", "error", "question"]
_OF_USER: dict[Act, float] = {"done": 2.0, "decision": 1.9, "error": 1.7, "question": 1.5}
# The first question is what a message is about.
_ASKING_AGAIN: dict[Act, float] = {**_OF_USER, "question": 1.0}
_AMONG_PEOPLE: dict[Act, float] = {"done": 1.0, "decision": 0.9, "error": 1.0, "question": 0.6}
# Rules of a system message, which do not bind the user's agent.
_RULED_BY_SYSTEM = 4.0


# The extra weight of a call whose result gives an id or an address, if it changed something or looked it up, or speaks
# of an error.
_GIVES, _GIVES_LOOKED_UP, _WARNS = 2.2, 1.4, 1.4


class SpokenPlace(NamedTuple):
    """Where a message stands: whether a tool call before it in its turn succeeded, and one failed for good; whether it
    is the last of the agent's in its turn, calls tools itself, and whether people talk to each other, without an
    agent: users of several names alone."""

    role: Role
    succeeded: bool
    failed: bool
    closing: bool
    calling: bool
    among_people: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """The note about a sentence."""

    marker: Marker
    weight: float
    kind: NoteKind


def asks(sentence: Sentence) -> bool:
    """Whether a sentence asks something, or for something."""
    return sentence.question or "ask" in sentence.kinds


def judge_person(sentence: Sentence, place: SpokenPlace, asked_before: bool) -> Judgement | None:
    """Judge a user's sentence (or a system message's). ``asked_before``: a question stands before it in its message.

    Requests between people do not bind an agent: there what they say of themselves weighs
    most (*Don't give up! Let's meet soon. How was Rome?*)."""
    if place.among_people:
        return _judge_among_people(sentence)
    if sentence.pasted:
        return _judge_pasted(sentence)
    of_user = place.role == "user"
    if of_user and sentence.correcting and not _is_filler(sentence):
        return Judgement("critical", _CORRECTED + sentence.worth, "correction")
    if sentence.ruling:
        return Judgement("critical", (_RULED if of_user else _RULED_BY_SYSTEM) + sentence.worth, "rule")
    judged = _judge_words(sentence, asked_before)
    if judged is None or not of_user:
        return judged
    # People ask for facts about themselves after a long time, so these weigh more than plain words.
    told = "fact" in sentence.kinds and not sentence.question
    if told:
        marker: Marker
        if judged.marker == "info":
            marker = "important"
        else:
            marker = judged.marker
        return Judgement(marker, judged.weight + _FACT + _TOLD_OF_SELF, "fact")
    if sentence.values or sentence.names or "when" in sentence.kinds:
        return replace(judged, weight=judged.weight + _FACT, kind="fact")
    return replace(judged, weight=judged.weight + _WORD)


def _judge_words(sentence: Sentence, asked_before: bool) -> Judgement | None:
    kinds, worth = sentence.kinds, sentence.worth
    if _is_filler(sentence):
        return None
    if act := _find_act(sentence):
        return _judge_act(sentence, act, _ASKING_AGAIN if asked_before else _OF_USER)
    weight = 0.5 + worth
    if "fact" in kinds or "self" in kinds:
        weight = 0.9 + worth
    elif "rule" in kinds:
        weight = 0.8 + worth
    told = sentence.content_words > 1 or "fact" in kinds or sentence.values + sentence.names > 0
    if weight >= _LEAST_OF_USER and told:
        return Judgement("info", weight, "word")
    return None


def _find_act(sentence: Sentence) -> Act | None:
    """The speech act of a sentence; None for a plain statement."""
    if _is_done(sentence):
        return "done"
    if "decision" in sentence.kinds and not sentence.question:
        return "decision"
    if "error" in sentence.kinds:
        return "error"
    if asks(sentence):
        return "question"
    return None


def _judge_act(sentence: Sentence, act: Act, weights: Mapping[Act, float]) -> Judgement | None:
    """Judge what a sentence does; None for a question without anything that it asks for."""
    # "Really?" and "And then?" ask, but name nothing that a note could keep.
    if act == "question" and sentence.content_words <= 1 and not sentence.values:
        return None
    return Judgement("completion" if act == "done" else "important", weights[act] + sentence.worth, "word")


def _judge_pasted(sentence: Sentence) -> Judgement | None:
    """A program's output is not the word of the user who shows it."""
    if "error" in sentence.kinds:
        return Judgement("important", 1.7 + sentence.worth, "word")
    if sentence.values:
        return Judgement("info", _PASTED, "word")
    return None


def _judge_among_people(sentence: Sentence) -> Judgement | None:
    kinds, worth = sentence.kinds, sentence.worth
    if _is_filler(sentence):
        return None
    if act := _find_act(sentence):
        return _judge_act(sentence, act, _AMONG_PEOPLE)
    weight = (0.9 if "self" in kinds else 0.8 if "rule" in kinds else 0.5) + worth
    if weight >= _LEAST and sentence.content_words > 1:
        return Judgement("info", weight, "word")
    return None


def judge_agent(sentence: Sentence, place: SpokenPlace, first: bool) -> Judgement | None:
    """Judge an agent's sentence; ``first``: nothing before it in its message is noted."""
    # "Let me look at the file" is followed by the call itself, which has a note of its own.
    announces = "announced" in sentence.kinds and place.calling
    if _is_filler(sentence) or sentence.text.endswith((":", "：")) or announces:
        return None
    marker, weight = _weigh_prose(sentence, place, first)
    weight += _SAID_BY_AGENT * sentence.worth
    if first and place.closing and (place.succeeded or place.failed):
        # The first sentence of a turn's last message says how the turn ended, if tools were at work in it.
        weight += _OUTCOME
    if marker == "info" and (weight < _LEAST or sentence.content_words <= 1):
        return None
    return Judgement(marker, _AGENT_SHARE * weight, "prose")


def _weigh_prose(sentence: Sentence, place: SpokenPlace, first: bool) -> tuple[Marker, float]:
    """The weight and the kind of an agent's sentence, by its act."""
    kinds = sentence.kinds
    if _is_done(sentence) and place.closing and place.succeeded and not place.failed:
        return "completion", 1.8
    if "decision" in kinds and "announced" not in kinds and not sentence.question:
        return "important", 1.0
    if "error" in kinds and (sentence.values or place.failed):
        return "important", 0.9
    return "info", 0.6 if first or sentence.question else 0.3


def judge_call(call: DigestCall) -> Judgement:
    """Judge a call: it is at least as much worth as a plain sentence, since it is what was done."""
    worth = 0.2 * min(len(find_values(call.text)), 4)
    kind: NoteKind = "result"
    marker: Marker
    if call.state == "error":
        # A failure that the same tool made good needs no more attention.
        marker, weight = ("important", 1.6) if call.overcome else ("critical", 4.2)
        if call.overcome:
            kind = "result"
        else:
            kind = "failure"
    elif call.state == "open":
        marker, weight = "info", 1.2
    elif call.changes or call.recovered:
        marker, weight = "completion", (2.0 if call.recovered else 1.7) + (_GIVES if call.gives else 0)
    else:
        marker, weight = "info", 0.9 + (_GIVES_LOOKED_UP if call.gives else 0)
    if call.warns:
        marker, weight = "important", weight + _WARNS
    return Judgement(marker, weight + worth, kind)


def _is_filler(sentence: Sentence) -> bool:
    if sentence.values:
        return False
    return sentence.content_words < 1 or ("polite" in sentence.kinds and sentence.content_words <= 2)


def _is_done(sentence: Sentence) -> bool:
    return "done" in sentence.kinds and "open" not in sentence.kinds and not sentence.question


MOST_A_MESSAGE = 3
MOST_OF_A_PERSON = 40
"""The most notes of one message to an agent: room for all its rules and corrections."""
MOST_FACTS = 12
"""The most of them that are neither corrections nor rules: enough for a message of a few sentences."""
# Those of them that state no fact.
_MOST_WORDS = 8
_RULING: frozenset[NoteKind] = frozenset({"correction", "rule"})
OF_USERS: frozenset[NoteKind] = _RULING | {"fact"}
"""The kinds of a user's rules, corrections and facts."""
# More characters than a token of prose has: a text too long for the room by this measure need not be counted.
_CHARS_A_TOKEN = 7
# The characters of a note besides its text, and some more, so that scraps do not rank first.
_OWN_CHARS = 40


@dataclass(frozen=True, slots=True)
class DigestNote:
    """One line of at most 240 characters, from the message with this seq. ``said_at``: ms since 1970. ``weight``: how
    much it matters next to others of any message: about 7 to 10 of a correction or a rule, 3 to 6 of another fact from
    the user, 3 to 5 of a call that failed or gave an id, 0.5 to 2.5 of the rest. ``place``: the order among the notes on
    its message."""

    marker: Marker
    text: str
    seq: int
    role: Role
    said_at: int
    weight: float
    kind: NoteKind = "word"
    place: int = 0


def take_notes(messages: Sequence[Message]) -> list[DigestNote]:
    """Note what is worth keeping and no echo, in the messages' order, at most MOST_A_MESSAGE of one message, or of a
    person's MOST_OF_A_PERSON.

    critical: what a person corrects, forbids or always wants, and calls that failed and were not made good by the same
    tool; completion: what is done; important: facts about the person, requests, decisions and failures; info:
    the rest.
    """
    return [note for each in note_messages(messages, {}).values() for note in each.notes]


class MessageNotes(NamedTuple):
    """The notes on a message, and a hash of what they were made of: its revision, its place, and its calls."""

    made_of: int
    notes: list[DigestNote]


def note_messages(messages: Sequence[Message], known: Mapping[int, MessageNotes]) -> dict[int, MessageNotes]:
    """The input of ``take_notes``, by the messages' seqs. ``known``: earlier notes of the thread, which are reused if
    the message, its place and its calls are the same."""
    # Blocks that came from this memory must not become notes a second time.
    messages = strip_messages(messages)
    calls = read_calls(messages)
    found: dict[int, MessageNotes] = {}
    for message, place in zip(messages, _find_places(messages, calls), strict=True):
        own = calls.get(message.seq, ())
        # A later call may overcome an earlier one, so the notes of an old message can change, too.
        made_of = hash((message.revision, message.tokens, place, *own))
        before = known.get(message.seq)
        if before is None or before.made_of != made_of:
            notes = _note_sentences(message, place)
            if place.calling:
                notes += [_note(message, judge_call(call), call.text) for call in own]
            chosen = [replace(note, place=number) for number, note in enumerate(_choose(notes, place))]
            before = MessageNotes(made_of, chosen)
        found[message.seq] = before
    return found


def _find_places(messages: Sequence[Message], calls: Mapping[int, Sequence[DigestCall]]) -> list[SpokenPlace]:
    """A turn begins with each message of a user."""
    closing: set[int] = set()
    sought = True
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "assistant" and sought:
            closing.add(at)
            sought = False
        sought = sought or messages[at].role == "user"
    # Without an assistant's message, several names mean a chat between people.
    among_people = not closing and len({message.name for message in messages if message.role == "user"}) > 1
    places: list[SpokenPlace] = []
    succeeded = failed = False
    for at, message in enumerate(messages):
        if message.role == "user":
            succeeded = failed = False
        own = calls.get(message.seq, ())
        places.append(SpokenPlace(message.role, succeeded, failed, at in closing, bool(own), among_people))
        succeeded = succeeded or any(call.state == "ok" for call in own)
        failed = failed or any(call.state == "error" and not call.overcome for call in own)
    return places


def _note_sentences(message: Message, place: SpokenPlace) -> list[DigestNote]:
    """Note a message's sentences and the names of its files."""
    found: list[DigestNote] = []
    asked_before = False
    for part in message.parts:
        if part["type"] == "file" and part.get("file_name"):
            named = Judgement("info", 1.2, "word")
            found.append(_note(message, named, f"file: {' '.join(part['file_name'].split())}"))
        if part["type"] != "text":
            continue
        agent = place.role in ("assistant", "tool")
        # A user's text is read whole: a rule may stand in the middle of a long one.
        text = bound_text(part["text"], whole=place.role == "user" and not place.among_people)
        for sentence in _read_plainly(text) if agent or place.among_people else read_of_person(text):
            if agent:
                judged = judge_agent(sentence, place, not found)
            else:
                judged = judge_person(sentence, place, asked_before)
            # Only a noted question makes the ones after it weigh less.
            if judged:
                asked_before = asked_before or asks(sentence)
                found.append(_note(message, judged, sentence.text))
    return found


def _read_plainly(text: str) -> Iterator[Sentence]:
    marked = is_marked(text)
    return (read_sentence(each, marked=marked) for each in split_sentences(text))


def _note(message: Message, judged: Judgement, text: str) -> DigestNote:
    weight = round(judged.weight, 2)
    return DigestNote(judged.marker, shorten(text), message.seq, message.role, message.said_at, weight, judged.kind)


def _choose(found: list[DigestNote], place: SpokenPlace) -> list[DigestNote]:
    """The weightiest notes of one message, in their order."""
    of_user = place.role == "user" and not place.among_people
    if of_user:
        most = MOST_OF_A_PERSON
    else:
        most = MOST_A_MESSAGE
    # With this number of notes none of the limits applies.
    if len(found) <= (_MOST_WORDS if of_user else most):
        return found
    facts, words = (MOST_FACTS, _MOST_WORDS) if of_user else (most, most)
    kept: list[int] = []
    for at in sorted(range(len(found)), key=lambda at: (-found[at].weight, at)):
        kind = found[at].kind
        if len(kept) == most or (kind not in _RULING and not facts) or (kind == "word" and not words):
            continue
        kept.append(at)
        facts -= kind not in _RULING
        words -= kind == "word"
    return [found[at] for at in sorted(kept)]


class RatedNote(NamedTuple):
    """A note with what ranks it among others: the hash of its words, and what it is worth for its room."""

    note: DigestNote
    said: int
    worth: float


class NoteRating(Protocol):
    """An object with the fields of a RatedNote."""

    @property
    def note(self) -> DigestNote: ...
    @property
    def said(self) -> int: ...
    @property
    def worth(self) -> float: ...


R = TypeVar("R", bound=NoteRating)


def rate_note(note: DigestNote) -> RatedNote:
    """Rate a note. It takes longer than to rank it, so what is ranked again keeps its rating."""
    return RatedNote(note, hash(tuple(find_words(note.text))), find_worth(note.weight, note.text))


def rank_notes(notes: Iterable[DigestNote]) -> list[DigestNote]:
    """The notes in the order of ``rank_rated``."""
    return [each.note for each in rank_rated(map(rate_note, notes))]


def rank_rated(notes: Iterable[R]) -> list[R]:
    """The notes in the order in which they are chosen, however much room there is: the user's corrections and rules,
    then the most weight for its length.

    If notes differ only in case and marks, the weightiest stands for all; among equals, the newest.
    """
    ordered = sorted(notes, key=lambda each: each.note.seq)
    return [ordered[at] for at in _rank(ordered)]


def _rank(ordered: Sequence[NoteRating]) -> list[int]:
    chosen: dict[int, int] = {}
    for at, each in enumerate(ordered):
        other = chosen.get(each.said)
        if other is None or each.note.weight >= ordered[other].note.weight:
            # Notes come in the order of their seqs, so among equals the newest stays.
            chosen[each.said] = at
    ranks = [(ordered[at].note.kind not in _RULING, -ordered[at].worth, -at) for at in chosen.values()]
    return [-at for _, _, at in sorted(ranks)]


def find_worth(weight: float, text: str) -> float:
    """The worth of a note for its room: a long one has to be worth two short ones."""
    return weight / math.sqrt(len(text) + _OWN_CHARS)


@lru_cache(maxsize=8192)
def weigh_extract(text: str) -> float:
    """The weight of a note that stays one line, ``user: ...`` or ``assistant: search(...) -> ok: ...``, for all
    that the line shows of it."""
    role, _, said = text.partition(": ")
    if role != "user":
        call = read_call_line(said)
    else:
        call = None
    if call:
        return judge_call(call).weight
    place = SpokenPlace("user" if role == "user" else "assistant", False, False, False, False, False)
    read = read_of_person(said) if role == "user" else [read_sentence(said)]
    judged = [judge_person(each, place, False) if role == "user" else judge_agent(each, place, True) for each in read]
    return max((each.weight for each in judged if each), default=0.0)


def digest(notes: Iterable[DigestNote], counter: TokenCounter, most_tokens: int) -> list[DigestNote]:
    """The first of ``rank_notes`` that fit, in chronological order: ``render_notes`` of them has at most
    ``most_tokens``. A note that is chosen with fewer tokens is also chosen with more."""
    ordered = sorted(notes, key=lambda note: note.seq)
    kept: list[int] = []
    left = most_tokens
    for at in _rank([*map(rate_note, ordered)]):
        line = f"{_line(ordered[at])}\n"
        # A line that cannot fit is not counted: that would cost the most for the longest lines.
        if len(line) <= left * _CHARS_A_TOKEN:
            left -= counter.text(line)
        else:
            left -= left + 1
        if left < 0:
            break
        kept.append(at)
    # Lines may count otherwise together than each alone.
    while kept and counter.text(render_notes(ordered[at] for at in sorted(kept))) > most_tokens:
        kept.pop()
    return [ordered[at] for at in sorted(kept)]


def render_notes(notes: Iterable[DigestNote]) -> str:
    """One note a line: ``- #12 user: ...``."""
    return "\n".join(map(_line, notes))


def _line(note: DigestNote) -> str:
    return f"- #{note.seq} {note.role}: {quote_line(note.text)}"
