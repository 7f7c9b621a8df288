"""What was said, clause by clause: which of it only asks, and which is denied, uncertain, conditional or over."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Protocol

import regex

from layerlore.memory.entries.claim_signs import (
    CONDITION,
    CONTRADICTS_BEFORE,
    FORMERLY,
    HEDGE,
    INTENT,
    RETRACTION,
    WISH,
    find_negations,
    states_condition,
)
from layerlore.memory.entries.claim_words import CONSENT, DECIDES, DEEDS, LIKES, WISHES, find_meanings, is_one_of
from layerlore.memory.entries.telling_tables import CALENDAR_KEYS
from layerlore.memory.entries.telling_words import (
    TellingWord,
    find_stem,
    is_number_stated,
    is_same_name,
    is_same_word,
    join_groups,
    list_telling,
    transliterate,
)
from layerlore.memory.parts.search_words import split_words
from layerlore.memory.parts.speech_acts import find_clauses, find_question, find_sentences, fold_sentence

_AT = attrgetter("at")
# A shorter name is only itself.
_SHORT_NAME = 4
# A clause with so few words goes on with what was begun before it: neither tea, nor coffee.
_LISTED_WORDS = 3
# Somebody else's words: between quotation marks, quoted lines, and lines that begin with who speaks.
_CITED = regex.compile(
    r"[\"“„«「『](?=\S)(?:[^\"“”„«»「」『』\s]+\s+){2,}[^\"“”„«»「」『』]*[\"”“»」』]|[「『][^「」『』]{6,}[」』]"
    r"|^\s*>[^\n]*",
    regex.MULTILINE,
)
_SPEAKING = regex.compile(
    r"^\s*(?:\[[^\]\n]{1,20}\]\s*)?(\p{Lu}[\p{L}.'-]*)(?: \p{Lu}[\p{L}.'-]*)?: [^\n]*", regex.MULTILINE
)


class Meanings(Protocol):
    """How near words are in meaning, in any language."""

    def is_near(self, word: TellingWord, others: Sequence[TellingWord]) -> bool:
        """Whether a telling word of an entry means what one of the others means."""
        ...


@dataclass(frozen=True)
class Clause:
    """A clause of what was said, ``begin`` to ``end`` of the text, in lower case, and what is true of it. ``asked``: it is
    part of a question; ``retracted``: it is taken back behind it; ``cited``: it stands in quotation marks, or in what was
    pasted; ``answered``: it is the agent's, and the message agrees with it or denies it."""

    text: str
    begin: int
    end: int
    telling: tuple[TellingWord, ...]
    asked: bool = False
    negated: bool = False
    hedged: bool = False
    conditional: bool = False
    former: bool = False
    intended: bool = False
    retracted: bool = False
    cited: bool = False
    answered: bool = False

    @cached_property
    def words(self) -> frozenset[str]:
        """All words of it, folded."""
        return frozenset(split_words(self.text))

    @cached_property
    def numbers(self) -> list[str]:
        return [*(word.key for word in self.telling if word.kind == "number"), *join_groups(self.text)]

    def states(self, word: TellingWord, meanings: Meanings | None) -> bool:
        """Whether the clause says a telling word of an entry."""
        if word.kind == "number":
            return is_number_stated(word.key, self.numbers, self.words)
        if word.key.startswith(CALENDAR_KEYS):
            return any(each.key == word.key for each in self.telling)
        if word.key in self.words or word.key in self.keys:
            return True
        if word.kind == "name":
            if any(is_same_name(word.key, other) for other in self.words):
                return True
            if len(word.key) > _SHORT_NAME and any(len(other) > _SHORT_NAME for other in self._find_forms(word.key)):
                return True
        elif self._find_forms(word.key) or self._states_in_other_words(word):
            return True
        return meanings is not None and not is_deed(word) and meanings.is_near(word, self.telling)

    @cached_property
    def keys(self) -> frozenset[str]:
        return frozenset(each.key for each in self.telling)

    @cached_property
    def _words_by_stem(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for word in self.words:
            for key in {find_stem(word), word[:_SHORT_NAME]}:
                found.setdefault(key, []).append(word)
        return found

    @cached_property
    def _meanings(self) -> frozenset[int]:
        return frozenset(number for word in self.words for number in find_meanings(word))

    def _find_forms(self, key: str) -> list[str]:
        """The words of the clause that are forms of another."""
        near = {*self._words_by_stem.get(find_stem(key), ()), *self._words_by_stem.get(key[:_SHORT_NAME], ())}
        return [other for other in near if is_same_word(key, other)]

    def _states_in_other_words(self, word: TellingWord) -> bool:
        own = find_meanings(word.key)
        if own & self._meanings:
            return True
        if is_deed(word):
            return False
        if is_one_of(word.key, LIKES) and any(is_one_of(other, WISHES) for other in self.words):
            return True
        if self.text.isascii() and word.key.isascii():
            return False
        latin = transliterate(word.key)
        return any(is_same_word(latin, transliterate(other)) for other in self.words if not other.isascii())


def is_deed(word: TellingWord) -> bool:
    """Whether a word says that somebody bound himself, or somebody else."""
    return word.kind == "word" and any(is_one_of(word.key, listed) for listed in DEEDS)


def is_settling(word: TellingWord) -> bool:
    """Whether a word says that somebody agreed or chose, which an answer does."""
    return word.kind == "word" and (is_one_of(word.key, CONSENT) or is_one_of(word.key, DECIDES))


@dataclass(frozen=True)
class Statement:
    """What a message says: its clauses, and those of the agent's that it answers; beside what was known before it."""

    clauses: Sequence[Clause]
    asked_before: Sequence[Clause] = field(default=())
    known: Sequence[Clause] = field(default=())

    @property
    def told(self) -> list[Clause]:
        """The clauses that do more than ask."""
        return [*self._own, *self.known]

    @property
    def _own(self) -> list[Clause]:
        return [*(each for each in self.clauses if not each.asked), *self.asked_before]

    def find_stating(self, word: TellingWord, meanings: Meanings | None) -> list[Clause]:
        """The clauses that say a telling word: of what was known only where the message does not."""
        own = [each for each in self._own if each.states(word, meanings)]
        return own or [each for each in self.known if each.states(word, meanings)]

    def find_at(self, begin: int, end: int) -> list[Clause]:
        """The clauses of the message that stand in a span of it."""
        return [each for each in self.clauses if each.begin < end and begin < each.end]


def read_clauses(text: str, *, answered: bool = False) -> list[Clause]:
    """The clauses of a text. ``answered``: of an agent's, to which an answer was given."""
    found: list[Clause] = []
    telling = list_telling(text)
    cited = [place.span() for place in _CITED.finditer(text)]
    speaking = list(_SPEAKING.finditer(text))
    if len({place[1] for place in speaking}) > 1:
        cited += [place.span() for place in speaking]
    for begin, end in find_sentences(text):
        sentence = _read_sentence(text[begin:end], begin, telling, answered=answered)
        found += sentence
        taken_back = [begin + place.end() for place in RETRACTION.finditer(fold_sentence(text[begin:end]))]
        if taken_back:
            # The clause that takes back, and all before it; what follows it is how it is.
            found = [replace(each, retracted=each.retracted or each.begin < taken_back[-1]) for each in found]
    return [replace(each, cited=any(each.begin >= at and each.begin < to for at, to in cited)) for each in found]


def _read_sentence(sentence: str, at: int, telling: Sequence[TellingWord], *, answered: bool) -> list[Clause]:
    low = fold_sentence(sentence)
    asks_from = -1 if answered or WISH.search(low) else find_question(sentence)
    conditional = states_condition(low)
    found: list[Clause] = []
    negated = hedged = False
    for begin, end in find_clauses(low):
        clause = low[begin:end]
        own = 0 if CONTRADICTS_BEFORE.fullmatch(clause) else find_negations(clause)
        listed = len(clause.split()) <= _LISTED_WORDS
        negated = own % 2 == 1 if own or not listed else negated
        hedged = HEDGE.search(clause) is not None or (hedged and listed)
        found.append(
            Clause(
                clause,
                at + begin,
                at + end,
                tuple(telling[bisect_left(telling, at + begin, key=_AT) : bisect_left(telling, at + end, key=_AT)]),
                asked=asks_from >= 0 and end > asks_from,
                negated=negated,
                hedged=hedged,
                conditional=conditional or CONDITION.search(clause) is not None,
                former=FORMERLY.search(clause) is not None,
                intended=INTENT.search(clause) is not None,
                answered=answered,
            )
        )
    return found
