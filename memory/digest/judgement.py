"""The weight of a sentence as a note, and the kind of the note: of a user, and of an agent."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from layerlore.memory.digest.tool_lines import DigestCall
from layerlore.memory.language.sentences import Sentence, find_values
from layerlore.storage.core.records import Role

Marker = Literal["critical", "important", "info", "completion"]
NoteKind = Literal["correction", "rule", "fact", "word", "failure", "result", "prose"]
"""What a note is: a user's correction, rule (or standing wish), fact (what has a value, a name or a date in it), or
other word; a call that failed for good; another call; what an agent says."""

# A sentence that weighs less is filler.
_LEAST = 0.9
_LEAST_OF_USER = 0.7
# Of what an agent says, next to what the person says it works for: in a sentence's words, and in all.
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
# What is ruled where it binds nobody who works for the user: by a system message.
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


def judge_person(sentence: Sentence, place: SpokenPlace, asked: bool) -> Judgement | None:
    """Judge a user's sentence (or a system message's). ``asked``: a question stands before it in its message.

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
    judged = _judge_words(sentence, asked)
    if judged is None or not of_user:
        return judged
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


def _judge_words(sentence: Sentence, asked: bool) -> Judgement | None:
    kinds, worth = sentence.kinds, sentence.worth
    if _is_filler(sentence):
        return None
    if act := _find_act(sentence):
        return _judge_act(sentence, act, _ASKING_AGAIN if asked else _OF_USER)
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
