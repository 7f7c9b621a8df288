"""The one function that cuts text into searchable words, for what is indexed and for queries, on both databases.

Words come out folded (case, width, and the accents of Latin, Greek and Cyrillic); stems are the database's work.
Scripts that put no space between words (Chinese, Japanese, Thai, ...) are cut into overlapping pairs of characters.
"""

import unicodedata
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache

import regex

from layerlore.memory.ages import DAY_MS
from layerlore.memory.chunks import chunks
from layerlore.memory.parts import searchable_text
from layerlore.memory.stop_words import FUNCTION_WORDS, NO_SIGN
from layerlore.storage.records import Indexed, Json

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

# A longer run of letters is no word that anybody looks for.
LONGEST_WORD = 64

_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+")
_UNSPACED = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}ー々]+|[^\p{Han}\p{Hiragana}"
    r"\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}ー々]+"
)
_IS_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}ー々]")
_NAME = regex.compile(
    r"\b(?:IT|US|WHO)\b|(?<=[\p{Ll}\p{N},;]\s)(?:Don|May|Will)\b(?!['’]t)|\b(?:Don|May|Will)(?=['’]s\b)"
    r"|(?<=\d\s)may\b|\bmay(?=\s\d)"
)
# May 8th, the 8th of May: the index has the day's number.
_ORDINAL = regex.compile(
    rf"(?i)(?<=\b(?:{'|'.join(_MONTHS)})\s\d\d?)(?:st|nd|rd|th)\b"
    rf"|(?<=\b\d\d?)(?:st|nd|rd|th)(?=(?:\sof)?\s(?:{'|'.join(_MONTHS)})\b)"
)
# 2023-05-08: the index has the day as people write it.
_ISO_DAY = regex.compile(r"(?<!\d)\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(?!\d)")
_ACCENTS = regex.compile(r"(?<=[\p{Latin}\p{Greek}\p{Cyrillic}])[\u0300-\u036f]+")


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


@cache
def _stop_words() -> dict[str, frozenset[str]]:
    """The function words of each language, cut and folded as all words are."""
    return {language: frozenset(words(listed)) for language, listed in FUNCTION_WORDS.items()}


def stop_words_of(found: Collection[str]) -> frozenset[str]:
    """The function words of the language that most of the words are function words of; of equal ones the first. None
    where no word is a sign of a language."""
    signs = [word for word in found if word not in NO_SIGN]
    most = max(_stop_words().values(), key=lambda listed: sum(word in listed for word in signs))
    return most if any(word in most for word in signs) else frozenset()


def names(text: str) -> frozenset[str]:
    """The words that are written as names though they are spelled like function words: *IT* and *US*, *Will's*, and
    *Don* and *May* within a sentence or beside a number. None in a text of capitals."""
    return frozenset() if text.isupper() else frozenset(word for name in _NAME.findall(text) for word in words(name))


def query_words(text: str, *, most: int = 32) -> list[str]:
    """The words to look for, each once, without the function words of their language unless there is nothing else."""
    text = _ORDINAL.sub("", _ISO_DAY.sub(lambda day: f"{day[0]} {int(day[2])} {_MONTHS[int(day[1]) - 1]}", text))
    found = list(dict.fromkeys(words(text)))
    kept = names(text)
    stop_words = stop_words_of([word for word in found if word not in kept]) - kept
    telling = [word for word in found if word not in stop_words]
    return (telling or found)[:most]


@lru_cache(maxsize=1024)
def _date(day: int) -> str:
    """A day, counted from 1970 (UTC), as people write it: 8 May 2023. Empty for a day that no calendar has."""
    try:
        date = _EPOCH + timedelta(days=day)
    except OverflowError:
        return ""
    return f"{date.day} {_MONTHS[date.month - 1]} {date.year}"


def date_text(said_at: int) -> str:
    """The day that something was said, from milliseconds since 1970, as it stands in the index: 8 May 2023 (UTC)."""
    return _date(said_at // DAY_MS)


def indexed(name: str | None, parts: list[Json], metadata: Json, said_at: int) -> Indexed:
    """What of a message is indexed: for each chunk of what was said the words of the day, of who spoke, and its own.
    A thread's own mark of its sessions is the metadata's ``session``, if that is a text."""
    text = searchable_text(parts)
    first = " ".join(words(f"{date_text(said_at)} {name or ''}"))
    own = (" ".join(words(chunk)) for chunk in chunks(text))
    mark = metadata.get("session")
    return Indexed(
        chunks=tuple(f"{first} {found}".lstrip() if found else "" for found in own),
        chars=len(text),
        mark=mark if isinstance(mark, str) else None,
        speaker=name or None,
    )


def embedded_texts(parts: list[Json]) -> list[str]:
    """What vectors are made of: each chunk as it was said, in the order of the chunks' numbers. The day and the speaker
    are for words alone: before each text they cost recall, most of all across languages."""
    return chunks(searchable_text(parts))
