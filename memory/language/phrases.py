"""Phrases by which the digest recognises what a sentence does, laid out so that a sentence is searched once.

A phrase that begins with ``^`` counts only where a clause begins: *never push* forbids, *I have never been there* does
not. The longest phrase that begins at a word counts, so that one of the kind ``nothing`` can take back what a shorter
one says: *don't worry*, *must have been*.
"""

import string
from functools import cache
from typing import Literal, NamedTuple, get_args

from layerlore.memory.language import word_lists

Kind = Literal[
    "rule",
    "ask",
    "self",
    "decision",
    "error",
    "done",
    "open",
    "when",
    "polite",
    "announced",
    "nothing",
    "correction",
    "amending",
    "wish",
    "fact",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
MARKS = frozenset(",;:")
"""A clause begins behind one of these."""

# These words are common, and recognised without a look at each place.
_RECOGNISED_ALONE: tuple[Kind, ...] = ("self", "when", "polite", "open")
_BLANKED = set(string.punctuation) - MARKS | set("“”‘’«»‹›„…–—·•¿¡。！？、，：；（）「」")
_SPACED = str.maketrans(dict.fromkeys(_BLANKED, " "))


def find_words(text: str) -> list[str]:
    """The words of a text in lower case, and the commas, semicolons and colons between them, in order."""
    bare = text.lower().translate(_SPACED)
    for mark in ",;:":
        # Marks become words of their own, since a clause begins behind them.
        if mark in bare:
            bare = bare.replace(mark, f" {mark} ")
    return bare.split()


class Signs(NamedTuple):
    """The meanings of a word: alone; alone where a clause begins; and, by the word that follows it, the rests of the
    longer phrases that it begins, the longest first, each with whether it counts only where a clause begins."""

    alone: frozenset[Kind]
    opening: frozenset[Kind]
    longer: dict[str, list[tuple[tuple[str, ...], bool, Kind]]]


@cache
def phrase_signs() -> dict[str, Signs]:
    """By their first word, all phrases but those of ``single_words``."""
    found: dict[str, Signs] = {}
    for kind in KINDS:
        known = single_words().get(kind, frozenset())
        for phrase in word_lists.phrases(f"phrases.{kind}"):
            first, *rest = find_words(phrase)
            if first not in known or rest:
                found[first] = _add_phrase(found.get(first), kind, rest, begins=phrase.startswith("^"))
    return found


def _add_phrase(known: Signs | None, kind: Kind, rest: list[str], *, begins: bool) -> Signs:
    signs = known or Signs(frozenset(), frozenset(), {})
    if rest:
        longer = signs.longer.setdefault(rest[0], [])
        longer.append((tuple(rest), begins, kind))
        # The longest first, so that the search stops at the first length that fits.
        longer.sort(key=lambda entry: -len(entry[0]))
        return signs
    alone = signs.alone if begins else signs.alone | {kind}
    return Signs(alone, signs.opening | {kind}, signs.longer)


@cache
def first_words() -> frozenset[str]:
    """The words with which a phrase of ``phrase_signs`` begins."""
    return frozenset(phrase_signs())


@cache
def single_words() -> dict[Kind, frozenset[str]]:
    """The kinds that single words say wherever they stand."""
    found: dict[Kind, frozenset[str]] = {}
    for kind in _RECOGNISED_ALONE:
        split = map(find_words, word_lists.phrases(f"phrases.{kind}"))
        found[kind] = frozenset(phrase[0] for phrase in split if len(phrase) == 1)
    return found


@cache
def unspaced_phrases() -> tuple[tuple[Kind, str], ...]:
    """The phrases of scripts that put no space between words: they count anywhere in a sentence."""
    found: list[tuple[Kind, str]] = []
    for kind in KINDS:
        found += [(kind, phrase) for phrase in sorted(word_lists.word_set(f"unspaced_phrases.{kind}"))]
    return tuple(found)


@cache
def slight_words() -> frozenset[str]:
    """Words that say little in any language: function words, politeness, and the marks between clauses."""
    polite = word_lists.phrases("phrases.polite")
    listed = [*word_lists.texts("search.stop_words").values(), *polite]
    return MARKS.union(*map(find_words, listed))
