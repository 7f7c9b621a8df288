"""The words and phrases of ``phrases`` and ``correction_phrases``, laid out so that a sentence is searched
once."""

import string
from typing import NamedTuple

from layerlore.memory.language import correction_phrases, phrases
from layerlore.memory.language.phrases import Kind
from layerlore.memory.language.stop_words import FUNCTION_WORDS

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
        *(("nothing", phrases.NOTHING), ("rule", phrases.RULE), ("done", phrases.DONE), ("decision", phrases.DECISION)),
        *(("error", phrases.ERROR), ("announced", phrases.ANNOUNCED), ("ask", phrases.ASK), ("open", phrases.OPEN)),
        *(("when", phrases.WHEN), ("polite", phrases.POLITE), ("self", phrases.SELF)),
        *(("correction", correction_phrases.CORRECTION), ("amending", correction_phrases.AMENDING)),
        *(
            ("wish", correction_phrases.WISH),
            ("fact", correction_phrases.FACT),
            ("nothing", {"": correction_phrases.IDLE}),
        ),
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
    split = (find_words(phrase) for phrase in ",".join(by_language.values()).split(","))
    return frozenset(phrase[0] for phrase in split if len(phrase) == 1)


ALONE: dict[Kind, frozenset[str]] = {
    "self": _alone(phrases.SELF),
    "when": _alone(phrases.WHEN),
    "polite": _alone(phrases.POLITE),
    "open": _alone(phrases.OPEN),
}
"""Kinds that single words say wherever they stand: they are common, and recognised without a look at each place."""

SIGNS = _signs()
FIRST_WORDS = frozenset(SIGNS)
UNSPACED = tuple(
    (kind, phrase)
    for listed in (phrases.UNSPACED, correction_phrases.UNSPACED_TELLING)
    for kind, written in listed.items()
    for phrase in written.split()
)
SAYS_LITTLE = frozenset(
    word for listed in (*FUNCTION_WORDS.values(), *phrases.POLITE.values(), ", ; :") for word in find_words(listed)
)
"""Words that say little in any language: function words, politeness, and the marks between clauses."""
