"""The subject of a request to forget, and the texts about that subject. Strict, since what matches is deleted.

The subject words of a query are those that are left without function words and without the words of the request itself
(*everything I told you about*). A word with a digit is an identifier, and a capitalised one a name: both match whole, a
name also with what a genitive or a plural adds. A word with a digit in it (*10.4.0.99*, *SHOP-812*) must stand in the
text unchanged: its parts alone are everywhere. In German, which writes every noun with a capital, a noun that follows
an article or an adjective is not a name. Other words match in any form.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Literal

from layerlore.memory.language.search_words import (
    find_language,
    find_names,
    find_query_words,
    find_stop_words,
    split_words,
)
from layerlore.memory.language.word_lists import any_expression, word_set
from layerlore.storage.core import linear_re

WordKind = Literal["identifier", "number", "name", "word"]

_TOKEN = linear_re.compile(r"[\p{L}\p{N}\p{M}]+")
_WRITTEN_AS_ONE = linear_re.compile(r"[\p{L}\p{N}\p{M}]+(?:[.:_@#-][\p{L}\p{N}\p{M}]+)+")
_PIECE = linear_re.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{L}\p{N}\p{M}\s]")
_HAS_CASE = linear_re.compile(r"[\p{Ll}\p{Lu}]")
# A number of fewer digits says little: rooms, hours, years.
_TELLING_DIGITS = 5
# Words are cut to these of their forms, if this many letters are left: of those languages, and of any other.
_ENDINGS = (
    ("s", 3, 3),
    ("es", 3, 3),
    ("ed", 4, 4),
    ("ing", 4, 4),
    ("x", 4, 4),
    ("e", 4, 6),
    ("n", 4, 6),
    ("en", 4, 6),
    ("er", 4, 64),
    ("ern", 4, 64),
    ("em", 4, 64),
)
_CHANGED = (("ies", "y", 2), ("ic", "y", 4), ("ing", "e", 3), ("ed", "e", 3), ("aux", "al", 3))
_OF_NAMES = (("s", 2), ("en", 6), ("n", 6))
# Names with this many first letters in common count as the same name.
_ALIKE = 3
# The beginning of a German compound, and what follows it.
_COMPOUND_HEAD, _COMPOUND_TAIL = 6, 4


@dataclass(frozen=True, slots=True)
class SaidWord:
    """A word of a text, folded, and whether it is written with a capital."""

    folded: str
    capital: bool


@dataclass(frozen=True, slots=True)
class TopicWord:
    """A word of a query that names its subject. Words of one ``place`` are alternatives: *Carla and Carlos*."""

    folded: str
    kind: WordKind
    place: int


@dataclass(frozen=True)
class Topic:
    """The subject of a query."""

    words: tuple[TopicWord, ...]
    language: str
    told_apart: bool
    """Whether names can be distinguished from other words, which needs a script with capitals."""
    as_one: tuple[str, ...] = ()
    """A run of characters with a digit in it that is written as one: its words, with a space between."""

    @property
    def by_meaning(self) -> bool:
        """Whether a text may be about it by its meaning alone: no word is a name or an identifier."""
        return self.told_apart and all(word.kind == "word" for word in self.words)

    @cached_property
    def _required(self) -> frozenset[int]:
        """The places of which a text must have a word: identifiers, without them names and numbers."""
        identifiers = frozenset(word.place for word in self.words if word.kind == "identifier")
        # An identifier says more than any name beside it, so it alone must stand in the text.
        return identifiers or frozenset(word.place for word in self.words if word.kind != "word")

    @cached_property
    def _least(self) -> float:
        """How many places a text must match: half of them where an identifier is among them, more than half
        elsewhere."""
        places = len({word.place for word in self.words})
        if any(word.kind == "identifier" for word in self.words):
            return places / 2
        return (places + 1) / 2

    def covers(self, text: str) -> bool:
        """Whether a text is about it, by its words."""
        if not self.words:
            return False
        said = split_said(text)
        german = self.language == "de" or (
            any(word.capital for word in said) and find_language([word.folded for word in said]) == "de"
        )
        matched = {
            word.place for word in self.words if any(_match(word, each, self.language, german=german) for each in said)
        }
        return self._required <= matched and len(matched) >= self._least and self._stands_as_one(text)

    def _stands_as_one(self, text: str) -> bool:
        if self.as_one:
            # With spaces around it, so that 10.4.0.9 is not found in 10.4.0.99.
            said = f" {' '.join(split_words(text))} "
        else:
            said = ""
        return all(f" {each} " in said for each in self.as_one)

    def resembles(self, text: str) -> bool:
        """Whether a name in the text begins as a subject word does, and is another: vectors cannot distinguish
        names."""
        return any(
            said.capital and said.folded[:_ALIKE] == word.folded[:_ALIKE] and len(said.folded) > _ALIKE
            for said in split_said(text)
            for word in self.words
        )


def split_said(text: str) -> list[SaidWord]:
    """The words of a text, in order."""
    return [
        SaidWord(folded, token[0] != token[0].lower())
        for token in dict.fromkeys(_TOKEN.findall(text))
        for folded in split_words(token)
    ]


def find_topic(query: str) -> Topic:
    """Find what a query is about."""
    tokens = _TOKEN.findall(query)
    folded = split_words(query)
    language = find_language(folded)
    subject = query[_end_of_request(query, find_stop_words(folded) - find_names(query)) :]
    sought = find_query_words(subject) or find_query_words(query)
    # Single Latin letters are in every text, and this match deletes.
    telling = [word for word in sought if len(word) > 1 or not word.isascii() or word.isdigit()]
    telling = (
        [word for word in telling if word not in word_set("topics.always_request") | word_set("topics.titles")]
        or telling
        or sought
    )
    # A text of capitals alone says nothing of names.
    if query.isupper():
        names = set()
    else:
        names = _find_capitalised(tokens, language, find_stop_words(folded))
    words = _place(query, [(word, _find_kind(word, names)) for word in telling])
    has_case = all(_HAS_CASE.search(token) or token.isdigit() for token in tokens)
    as_one = [" ".join(split_words(each)) for each in _WRITTEN_AS_ONE.findall(subject) if any(map(str.isdigit, each))]
    return Topic(tuple(words), language, has_case, tuple(as_one))


@cache
def _german_article() -> linear_re.Pattern:
    return linear_re.compile(any_expression("topics.articles", "de"))


def _find_capitalised(tokens: Sequence[str], language: str, stop_words: frozenset[str]) -> set[str]:
    """The words with a capital, folded, without the nouns of German."""
    found: set[str] = set()
    for before, token in zip(("", *tokens), tokens, strict=False):
        if token[0] == token[0].lower():
            continue
        is_noun = language == "de" and (
            _german_article().fullmatch(before.lower())
            or (before[:1].islower() and not stop_words.issuperset(split_words(before)))
        )
        if not is_noun:
            found.update(split_words(token))
    return found


def _end_of_request(query: str, passing: frozenset[str]) -> int:
    """Where the words of the request end: *everything I told you about*; else those that it begins with. Words that
    are ``passing`` may stand among them."""
    end = 0
    for token in _TOKEN.finditer(query):
        folded = split_words(token[0])
        # Behind "about" the subject begins, whatever stood before it.
        if any(word in word_set("topics.about") for word in folded):
            if query[token.end() :].strip():
                return token.end()
            return end
        if any(word in word_set("topics.request") for word in folded):
            if query[token.end() :].strip():
                end = token.end()
        # The first word that belongs to no request is the subject.
        elif not passing.issuperset(folded):
            return end
    return end


def _find_kind(word: str, capitals: set[str]) -> WordKind:
    if any(character.isdigit() for character in word):
        if word.isdigit() and len(word) < _TELLING_DIGITS:
            return "number"
        return "identifier"
    if word in capitals:
        return "name"
    return "word"


def _place(query: str, words: Sequence[tuple[str, WordKind]]) -> list[TopicWord]:
    """The words with their places: names or identifiers that a conjunction or a comma joins are alternatives."""
    kinds = dict(words)
    joining = word_set("topics.joined").union(",;/&+")
    found: dict[str, int] = {}
    previous, between = "", ""
    for token in _PIECE.findall(query):
        folded = split_words(token) or [token]
        for word in folded:
            if word not in kinds:
                between += f" {word}"
                continue
            joined = between.split() and all(each in joining for each in between.split())
            if previous and joined and kinds[word] != "word" and kinds[previous] == kinds[word]:
                found.setdefault(word, found[previous])
            else:
                found.setdefault(word, len(found))
            previous, between = word, ""
    return [TopicWord(word, kind, found.get(word, len(found) + at)) for at, (word, kind) in enumerate(words)]


def _match(word: TopicWord, said: SaidWord, language: str, *, german: bool) -> bool:
    """Whether a word of a text is the one that is searched for, or a form of it."""
    if word.folded == said.folded:
        return True
    if word.kind in ("identifier", "number") or any(character.isdigit() for character in said.folded):
        return False
    # A capitalised word may be a name.
    if word.kind == "name" or (said.capital and not german):
        return any(
            long == short + ending and len(short) >= least
            for ending, least in _OF_NAMES
            for long, short in ((word.folded, said.folded), (said.folded, word.folded))
        )
    inflected = german or language in ("de", "nl", "fr")
    if _find_stems(said.folded, inflected) & _find_stems(word.folded, inflected):
        return True
    return german and _is_compound(said.folded, word.folded)


def _is_compound(long: str, head: str) -> bool:
    """Whether a German word begins with another one, and goes on with more than an ending."""
    return len(head) >= _COMPOUND_HEAD and long.startswith(head) and len(long) - len(head) >= _COMPOUND_TAIL


@lru_cache(maxsize=4096)
def _find_stems(word: str, inflected: bool) -> frozenset[str]:
    """A word without its possible endings."""
    found = {word}
    for ending, least, of_any in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= (least if inflected else of_any):
            found.add(stem)
            # "Planned" and "planning" double the last letter of "plan".
            if ending in ("ed", "ing") and stem[-1] == stem[-2]:
                found.add(stem[:-1])
    for ending, other, least in _CHANGED:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= least:
            found.add(stem + other)
    return frozenset(found)
