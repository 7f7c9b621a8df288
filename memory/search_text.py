"""The one function that cuts text into searchable words, for what is indexed and for queries, on both databases.

Words come out folded (case, width, and the accents of Latin, Greek and Cyrillic); stems are the database's work.
Scripts that put no space between words (Chinese, Japanese, Thai, ...) are cut into overlapping pairs of characters.
"""

import unicodedata
from collections.abc import Iterable

import regex

from memstrata.memory.parts import searchable_text
from memstrata.storage.records import Json

# A longer run of letters is no word that anybody looks for.
LONGEST_WORD = 64

_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+")
_UNSPACED = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}ー々]+|[^\p{Han}\p{Hiragana}"
    r"\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}ー々]+"
)
_IS_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}ー々]")
_ACCENTS = regex.compile(r"(?<=[\p{Latin}\p{Greek}\p{Cyrillic}])[\u0300-\u036f]+")

# Function words of English: they say nothing of what a question is about.
STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any are aren as at be because been before being below between
    both but by can cannot could couldn d did didn do does doesn doing don down during each ever every few for from
    further get gets got had hadn has hasn have haven having he her here hers herself him himself his how i if in into
    is isn it its itself just let ll m may me might mightn more most must mustn my myself needn no nor not now of off
    on once one only or other ought our ours ourselves out over own please re s same shall shan she should shouldn so
    some such t tell than that the their theirs them themselves then there these they this those through to too under
    until up upon us ve very was wasn we were weren what when where which while who whom whose why will with won would
    wouldn y you your yours yourself yourselves
    """.split()  # noqa: SIM905 - words read better without their quotation marks
)


def words(text: str) -> list[str]:
    """The words of a text, folded, in order, repeats included."""
    if text.isascii():
        return [word[:LONGEST_WORD] for word in _WORD.findall(text.lower())]
    folded = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    found: list[str] = []
    for run in _WORD.findall(unicodedata.normalize("NFC", folded)):
        for piece in _UNSPACED.findall(run):
            if _IS_UNSPACED.match(piece):
                found.extend(pairs(piece))
            else:
                found.append(piece[:LONGEST_WORD])
    return found


def pairs(text: str) -> list[str]:
    """Overlapping pairs of characters; a single character stands alone."""
    return [text] if len(text) == 1 else [text[at : at + 2] for at in range(len(text) - 1)]


def query_words(texts: Iterable[str], *, most: int = 32) -> list[str]:
    """The words to look for, each once, without function words unless there is nothing else."""
    found = list(dict.fromkeys(word for text in texts for word in words(text)))
    telling = [word for word in found if word not in STOP_WORDS]
    return (telling or found)[:most]


def message_text(name: str | None, parts: list[Json]) -> str:
    """What of a message is indexed: who spoke, and what was said, as words with a space between."""
    return " ".join(words(f"{name or ''} {searchable_text(parts)}"))
