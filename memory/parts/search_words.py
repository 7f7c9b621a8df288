"""Search words and chunks: the one way that text is cut for the index, for queries and for vectors, on both databases.

Words come out folded (case, width, and the accents of Latin, Greek and Cyrillic); stems are the database's work.
Scripts that put no space between words (Chinese, Japanese, Thai, ...) are cut into overlapping pairs of characters.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import chain

import regex

from layerlore.memory.parts.echoes import strip_parts
from layerlore.memory.parts.parts import searchable_text
from layerlore.memory.parts.speech_acts import measure_speech_acts
from layerlore.memory.rules.ages import DAY_MS
from layerlore.memory.text.stop_words import FUNCTION_WORDS, NO_SIGN
from layerlore.storage.core.records import Indexed, Json

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

# A longer run of letters is no word that anybody looks for.
LONGEST_WORD = 64

_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+")
# By its code, what each character of ASCII is in a text of folded words and spaces.
_ASCII = "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128))
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
# In characters. The study's figures: longer chunks blur what a vector stands for.
SIZE = 800
OVERLAP = 100
# A cut looks this far back for a space.
SEARCHED = 200

_SPACE = re.compile(r"\s")


def split_words(text: str) -> list[str]:
    """The words of a text, folded, in order, repeats included."""
    if text.isascii():
        return [word[:LONGEST_WORD] for word in text.translate(_ASCII).split()]
    folded = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    found: list[str] = []
    for run in _WORD.findall(unicodedata.normalize("NFC", folded)):
        for piece in _UNSPACED.findall(run):
            if _IS_UNSPACED.match(piece):
                found.extend(split_pairs(piece))
            else:
                found.append(piece[:LONGEST_WORD])
    return found


def split_pairs(text: str) -> list[str]:
    """Overlapping pairs of characters; a single character stands alone."""
    return [text] if len(text) == 1 else [text[at : at + 2] for at in range(len(text) - 1)]


@cache
def _stop_words() -> dict[str, frozenset[str]]:
    """The function words of each language, cut and folded as all words are."""
    return {language: frozenset(split_words(listed)) for language, listed in FUNCTION_WORDS.items()}


@cache
def _languages_of() -> dict[str, tuple[str, ...]]:
    """The languages that each function word is a sign of."""
    found: dict[str, tuple[str, ...]] = {}
    for language, listed in _stop_words().items():
        for word in listed - NO_SIGN:
            found[word] = (*found.get(word, ()), language)
    return found


def find_language(found: Collection[str]) -> str:
    """The language that most of the words are function words of; of equal ones the first. Empty where no word is a sign
    of a language."""
    languages = _languages_of()
    signs = [language for word in frozenset(found) for language in languages.get(word, ())]
    return max(_stop_words(), key=signs.count) if signs else ""


def find_stop_words(found: Collection[str]) -> frozenset[str]:
    """The function words of the language of the words; none where that cannot be told."""
    return _stop_words().get(find_language(found), frozenset())


def find_names(text: str) -> frozenset[str]:
    """The words that are written as names though they are spelled like function words: *IT* and *US*, *Will's*, and
    *Don* and *May* within a sentence or beside a number. None in a text of capitals."""
    if text.isupper():
        return frozenset()
    return frozenset(word for name in _NAME.findall(text) for word in split_words(name))


def find_query_words(text: str, *, most: int = 32) -> list[str]:
    """The words to look for, each once, without the function words of their language unless there is nothing else."""
    with_days = _ISO_DAY.sub(lambda day: f"{day[0]} {int(day[2])} {_MONTHS[int(day[1]) - 1]}", text)
    text = _ORDINAL.sub("", with_days)
    found = list(dict.fromkeys(split_words(text)))
    kept = find_names(text)
    stop_words = find_stop_words([word for word in found if word not in kept]) - kept
    content_words = [word for word in found if word not in stop_words]
    return (content_words or found)[:most]


@lru_cache(maxsize=1024)
def _date(day: int) -> str:
    """A day, counted from 1970 (UTC), as people write it: 8 May 2023. Empty for a day that no calendar has."""
    try:
        date = _EPOCH + timedelta(days=day)
    except OverflowError:
        return ""
    return f"{date.day} {_MONTHS[date.month - 1]} {date.year}"


def format_date(said_at: int) -> str:
    """The day that something was said, from milliseconds since 1970, as it stands in the index: 8 May 2023 (UTC)."""
    return _date(said_at // DAY_MS)


@lru_cache(maxsize=1024)
def _head_words(day: int, name: str) -> str:
    """The words of the day and of the speaker, which many messages have in common."""
    return " ".join(split_words(f"{_date(day)} {name}"))


def make_index_texts(
    name: str | None, parts: list[Json], metadata: Json, said_at: int, answered: Iterable[Json] = ()
) -> Indexed:
    """The text of a message that is indexed: for each chunk the words of the day, of the speaker, and its own.
    Echoes are left out (``memory.parts.echoes``, also for ``answered``). A thread's own mark of its sessions is the
    metadata's ``session``, if that is a text."""
    text = searchable_text(strip_parts(parts, answered))
    first = _head_words(said_at // DAY_MS, name or "")
    own = [split_words(chunk) for chunk in split_chunks(text)]
    mark = metadata.get("session")
    acts = measure_speech_acts(text)
    return Indexed(
        chunks=tuple(f"{first} {' '.join(found)}".lstrip() if found else "" for found in own),
        chars=len(text),
        mark=mark if isinstance(mark, str) else None,
        speaker=name or None,
        asks=round(100 * acts.asks),
        empty=round(100 * acts.empty),
        content_words=_count_content_words(own),
    )


@cache
def _function_words() -> frozenset[str]:
    return frozenset(chain.from_iterable(_stop_words().values()))


def _count_content_words(chunks: Collection[Collection[str]]) -> int:
    """How many different words are function words of no language."""
    return len(frozenset(chain.from_iterable(chunks)) - _function_words())


def make_embedding_texts(parts: list[Json], answered: Iterable[Json] = ()) -> list[str]:
    """The texts that vectors are made of: each chunk as it was said, in the order of the chunks' numbers. The day and
    the speaker are for words alone: before each text they cost recall, most of all across languages."""
    return split_chunks(searchable_text(strip_parts(parts, answered)))


def split_chunks(text: str) -> list[str]:
    """Cut a text into overlapping pieces, in order: of at most SIZE characters, each beginning with about the last
    OVERLAP of the one before it, cut at white space where there is some. No text gives no chunk."""
    found: list[str] = []
    start = 0
    while len(text) - start > SIZE:
        end = _last_space(text, start + SIZE - SEARCHED, start + SIZE) or start + SIZE
        found.append(text[start:end])
        space = _SPACE.search(text, end - OVERLAP, end)
        start = space.end() if space else end - OVERLAP
    return [*found, text[start:]] if text else []


def _last_space(text: str, start: int, end: int) -> int | None:
    """Where the last white space between two places is."""
    for at in range(end, start, -1):
        if text[at - 1].isspace():
            return at - 1
    return None
