"""Indexed texts and chunks: the one way that a message is cut for the index and for vectors, on both databases."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from layerlore.memory.language.search_words import count_content_words, month_names, split_words
from layerlore.memory.language.speech_acts import measure_speech_acts
from layerlore.memory.parts.own_parts import strip_parts
from layerlore.memory.parts.parts import searchable_text
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import DAY_MS, IndexedText, Json

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# In characters. The study's figures: longer chunks blur what a vector stands for.
SIZE = 800
OVERLAP = 100
# A cut looks this far back for a space.
SEARCHED = 200

_SPACE = linear_re.compile(r"\s")


@lru_cache(maxsize=1024)
def _date(day: int) -> str:
    """A day, counted from 1970 (UTC), as people write it: 8 May 2023. Empty for a day that no calendar has."""
    try:
        date = _EPOCH + timedelta(days=day)
    except OverflowError:
        return ""
    return f"{date.day} {month_names()[date.month - 1]} {date.year}"


def format_date(said_at: int) -> str:
    """The day of a message, from milliseconds since 1970, as it stands in the index: 8 May 2023 (UTC)."""
    return _date(said_at // DAY_MS)


@lru_cache(maxsize=1024)
def _head_words(day: int, name: str) -> str:
    """The words of the day and of the speaker, which many messages have in common."""
    return " ".join(split_words(f"{_date(day)} {name}"))


def make_index_texts(
    name: str | None, parts: list[Json], metadata: Json, said_at: int, answered: Iterable[Json] = ()
) -> IndexedText:
    """The text of a message that is indexed: for each chunk the words of the day, of the speaker, and its own.
    Echoes are left out (``memory.parts.own_parts``, also for ``answered``). A thread's own mark of its sessions is the
    metadata's ``session``, if that is a text."""
    text = searchable_text(strip_parts(parts, answered))
    first = _head_words(said_at // DAY_MS, name or "")
    own = [split_words(chunk) for chunk in split_chunks(text)]
    mark = metadata.get("session")
    acts = measure_speech_acts(text)
    return IndexedText(
        # A chunk without words gets no head, or a search for a speaker would find every empty message.
        chunks=tuple(f"{first} {' '.join(found)}".lstrip() if found else "" for found in own),
        chars=len(text),
        mark=mark if isinstance(mark, str) else None,
        # The columns of the index are integers, so these are whole percents.
        speaker=name or None,
        asks=round(100 * acts.asks),
        empty=round(100 * acts.empty),
        content_words=count_content_words(own),
    )


def make_embedding_texts(parts: list[Json], answered: Iterable[Json] = ()) -> list[str]:
    """The texts that vectors are made of: each chunk verbatim, in the order of the chunks' numbers. The day and
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
        if space:
            start = space.end()
        else:
            start = end - OVERLAP
    if text:
        return [*found, text[start:]]
    return []


def _last_space(text: str, start: int, end: int) -> int | None:
    """Where the last white space between two places is."""
    for at in range(end, start, -1):
        if text[at - 1].isspace():
            return at - 1
    return None
