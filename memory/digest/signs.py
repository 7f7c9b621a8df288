"""The words and phrases of ``digest.words`` and ``digest.telling_words``, laid out so that a sentence is searched
once."""

import string
from typing import NamedTuple

from layerlore.memory.digest import telling_words, words
from layerlore.memory.digest.words import Kind
from layerlore.memory.text.stop_words import FUNCTION_WORDS

_BETWEEN = ",;:"
_SPACED = str.maketrans(
    dict.fromkeys(
        [*(mark for mark in string.punctuation if mark not in _BETWEEN), *"“”‘’«»‹›„…–—·•¿¡。！？、，：；（）「」"], " "
    )
)


def find_words(text: str) -> list[str]:
    """The words of a text in lower case, and the commas, semicolons and colons between them, in order."""
    bare = text.lower().translate(_SPACED)
    for mark in _BETWEEN:
        if mark in bare:
            bare = bare.replace(mark, f" {mark} ")
    return bare.split()


class Signs(NamedTuple):
    """The meanings of a word: alone; alone where a clause begins; and, by the word that follows it, the rests of the
    longer phrases that it begins, the longest first, each with whether it counts only where a clause begins."""

    alone: frozenset[Kind]
    opening: frozenset[Kind]
    longer: dict[str, list[tuple[tuple[str, ...], bool, Kind]]]


def _signs() -> dict[str, Signs]:
    """By their first word, all phrases but those of ALONE."""
    lists: tuple[tuple[Kind, dict[str, str]], ...] = (
        *(("nothing", words.NOTHING), ("rule", words.RULE), ("done", words.DONE), ("decision", words.DECISION)),
        *(("error", words.ERROR), ("announced", words.ANNOUNCED), ("ask", words.ASK), ("open", words.OPEN)),
        *(("when", words.WHEN), ("polite", words.POLITE), ("self", words.SELF)),
        *(("correction", telling_words.CORRECTION), ("amending", telling_words.AMENDING)),
        *(("wish", telling_words.WISH), ("fact", telling_words.FACT), ("nothing", {"": telling_words.IDLE})),
    )
    found: dict[str, Signs] = {}
    for kind, by_language in lists:
        for phrase in ",".join(by_language.values()).split(","):
            first, *rest = find_words(phrase)
            begins = phrase.strip().startswith("^")
            if first in ALONE.get(kind, ()) and not rest:
                continue
            signs = found.get(first, Signs(frozenset(), frozenset(), {}))
            if rest:
                signs.longer.setdefault(rest[0], []).append((tuple(rest), begins, kind))
                signs.longer[rest[0]].sort(key=lambda entry: -len(entry[0]))
            else:
                if begins:
                    alone = signs.alone
                else:
                    alone = signs.alone | {kind}
                signs = Signs(alone, signs.opening | {kind}, signs.longer)
            found[first] = signs
    return found


def _alone(by_language: dict[str, str]) -> frozenset[str]:
    phrases = (find_words(phrase) for phrase in ",".join(by_language.values()).split(","))
    return frozenset(phrase[0] for phrase in phrases if len(phrase) == 1)


ALONE: dict[Kind, frozenset[str]] = {
    "self": _alone(words.SELF),
    "when": _alone(words.WHEN),
    "polite": _alone(words.POLITE),
    "open": _alone(words.OPEN),
}
"""Kinds that single words say wherever they stand: they are common, and recognised without a look at each place."""

SIGNS = _signs()
FIRST_WORDS = frozenset(SIGNS)
UNSPACED = tuple(
    (kind, phrase)
    for listed in (words.UNSPACED, telling_words.UNSPACED_TELLING)
    for kind, phrases in listed.items()
    for phrase in phrases.split()
)
SAYS_LITTLE = frozenset(
    word for listed in (*FUNCTION_WORDS.values(), *words.POLITE.values(), ", ; :") for word in find_words(listed)
)
"""Words that say little in any language: function words, politeness, and the marks between clauses."""
