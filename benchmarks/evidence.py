"""How much of a question's evidence stands in what a model was shown.

One rule for every system. White space is normalised, and a text also counts as ours quotes it.

- A turn is shown if its whole text stands there. A text of less than SHORT characters must stand behind a colon and a
  space, as what a speaker said, since "Yes." stands in much else.
- A turn longer than LONG characters is also shown if one of its sentences that answer stands there whole. A sentence
  answers if it has SHORT characters and shares a word with the question or the set's answer, function words apart.
- Strictly, a long turn that is not there whole counts with the share of all its sentences of SHORT characters.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.conversations import Conversation, Question
from layerlore.memory.language.search_words import find_query_words, split_words
from layerlore.memory.text.quotation import join_lines, quote_line

LONG = 400
SHORT = 30

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_MOST_WORDS = 1000


@dataclass(frozen=True, slots=True)
class Shown:
    """Shares, 0 to 1, of a question's evidence: by the rule, and strictly."""

    share: float
    strict: float


@dataclass(frozen=True, slots=True)
class _Text:
    """A text in the spellings in which it may be shown: as it was said, and as ours quotes it."""

    spellings: tuple[str, ...]

    def stands_in(self, shown: str) -> bool:
        return any(spelling in shown for spelling in self.spellings)

    def place_in(self, shown: str) -> int:
        """Where it first stands; -1 if it does not."""
        return max(shown.find(spelling) for spelling in self.spellings)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn of the evidence; its sentences only if it is long, and which of them answer."""

    whole: _Text
    sentences: tuple[_Text, ...] = ()
    answering: tuple[_Text, ...] = ()


class Evidence:
    """The evidence of one question, ready to be looked for in answers."""

    def __init__(self, question: Question, texts: Mapping[str, str]) -> None:
        """``texts`` has the text of each message by its id. The turns keep their order in it."""
        words = {*_content_words(question.text), *_content_words(question.answer)}
        self._turns = [_turn(text, words) for name, text in texts.items() if name in question.evidence]
        self._missing = len(question.evidence) - len(self._turns)

    def shown_in(self, answer: str) -> Shown:
        """How much of it stands in the answer; evidence that is no message of the conversation never does."""
        shown = join_lines(answer)
        found = [_scores(turn, shown) for turn in self._turns]
        count = len(found) + self._missing
        return Shown(sum(share for share, _ in found) / count, sum(strict for _, strict in found) / count)

    def places_in(self, answer: str) -> list[int]:
        """Where each of its turns first stands in the answer, by the same rule; -1 if the turn is not shown."""
        shown = join_lines(answer)
        return [_place(turn, shown) for turn in self._turns] + [-1] * self._missing


def texts_of(conversation: Conversation) -> dict[str, str]:
    """The text of each message of a conversation by its id."""
    return {message["id"]: message["content"] for _, thread in conversation.threads for message in thread}


def _content_words(text: str) -> list[str]:
    return find_query_words(text, most=_MOST_WORDS) if text.strip() else []


def _turn(text: str, words: set[str]) -> _Turn:
    if len(text) <= LONG:
        return _Turn(_spelled(text))
    sentences = [each for each in _SENTENCE_END.split(text) if len(join_lines(each)) >= SHORT]
    answering = [each for each in sentences if words.intersection(split_words(each))]
    return _Turn(_spelled(text), _all_spelled(sentences), _all_spelled(answering))


def _all_spelled(texts: Iterable[str]) -> tuple[_Text, ...]:
    return tuple(map(_spelled, texts))


def _spelled(text: str) -> _Text:
    spellings = dict.fromkeys((join_lines(text), quote_line(text)))
    return _Text(tuple(each if len(each) >= SHORT else f": {each}" for each in spellings))


def _place(turn: _Turn, shown: str) -> int:
    whole = turn.whole.place_in(shown)
    if whole >= 0:
        return whole
    parts = [sentence.place_in(shown) for sentence in turn.answering]
    return min((place for place in parts if place >= 0), default=-1)


def _scores(turn: _Turn, shown: str) -> tuple[float, float]:
    if turn.whole.stands_in(shown):
        return 1.0, 1.0
    if not turn.sentences:
        return 0.0, 0.0
    share = float(any(sentence.stands_in(shown) for sentence in turn.answering))
    return share, sum(sentence.stands_in(shown) for sentence in turn.sentences) / len(turn.sentences)
