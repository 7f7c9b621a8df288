"""Entries that contradict each other: of the same subject they say the same, with another value.

Nobody said which of the two is wrong, so both are kept and shown, the newer first, until one takes the other's place.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache

from layerlore.memory.entries.claim_signs import find_negations
from layerlore.memory.entries.claim_words import COMMON, FRAME, LIKES, is_one_of
from layerlore.memory.entries.telling_tables import CALENDAR_KEYS
from layerlore.memory.entries.telling_words import (
    TellingWord,
    is_number_stated,
    is_same_name,
    is_same_word,
    list_telling,
)
from layerlore.memory.parts.speech_acts import fold_sentence

FEWEST_SHARED = 2
"""Subject and predicate."""
SHARED = 0.5
"""Of all telling words of both so many must be the same."""
MOST_VALUES = 2
"""With more differences they tell of different things."""


def contradicts(new: str, known: str, *, alike: bool = False) -> bool:
    """Whether two entries say something else of the same: another name or number, or that it is not so. ``alike``: their
    vectors take them for repetitions; then one other word on each side is enough, as in tea and coffee."""
    one, other = _list_claimed(new), _list_claimed(known)
    if not one or not other:
        return False
    if _is_user(one[0]) != _is_user(other[0]) and one[0].leads != other[0].leads:
        # The one calls by the name whom the other calls the user.
        one, other = one[1:], other[1:]
    only_new, only_known = _find_others(one, other), _find_others(other, one)
    same = [word for word in one if word not in only_new]
    # Alike, and of no more than a subject and what it is: vegan and vegetarian are two things, and not one said twice.
    is_plain = alike and len(one) == len(other) == FEWEST_SHARED
    if not is_plain and not _is_enough(same, max(len(one), len(other))):
        return False
    if not only_new and not only_known:
        return bool(same) and _is_denied(new) != _is_denied(known)
    of_same_subject = bool(same) and one[0] not in only_new and other[0] not in only_known
    return of_same_subject and _are_rivals(only_new, only_known, alike=alike)


def _is_enough(same: Collection[TellingWord], words: int) -> bool:
    """Whether so many words, of at most ``words`` in each of two entries, show that both tell of the same."""
    if len(same) < SHARED * words:
        return False
    return len(same) >= FEWEST_SHARED or any(map(_is_predicate, same))


def _are_rivals(only_new: Sequence[TellingWord], only_known: Sequence[TellingWord], *, alike: bool) -> bool:
    """Whether the words that only one of two entries has, and those that only the other has, cannot both be so."""
    if not only_new or not only_known:
        return False
    if all(map(_is_value, (*only_new, *only_known))):
        kinds = [{each.kind for each in only} for only in (only_new, only_known)]
        return max(len(only_new), len(only_known)) <= MOST_VALUES and kinds[0] == kinds[1]
    return alike and len(only_new) == len(only_known) == 1


def _is_predicate(word: TellingWord) -> bool:
    return bool(_find_predicates(word.key))


def _is_user(word: TellingWord) -> bool:
    return word.kind == "word" and is_one_of(word.key, FRAME)


def _list_claimed(content: str) -> list[TellingWord]:
    """The telling words, each once; who the user is counts as the subject, whatever it is called."""
    found: list[TellingWord] = []
    for word in list_telling(content):
        if word.kind == "word" and is_one_of(word.key, FRAME) and found:
            continue
        if not _is_among(word, found):
            found.append(word)
    return found


def _find_others(words: Collection[TellingWord], others: Collection[TellingWord]) -> list[TellingWord]:
    return [word for word in words if not _is_among(word, others)]


def _is_among(word: TellingWord, others: Collection[TellingWord]) -> bool:
    if word.kind == "number":
        return is_number_stated(word.key, [each.key for each in others if each.kind == "number"], ())
    if word.key.startswith(CALENDAR_KEYS):
        return any(each.key == word.key for each in others)
    return any(_is_same(word, each) for each in others)


def _is_same(word: TellingWord, other: TellingWord) -> bool:
    if "name" in (word.kind, other.kind):
        return is_same_name(word.key, other.key)
    return is_same_word(word.key, other.key) or not _find_predicates(word.key).isdisjoint(_find_predicates(other.key))


@lru_cache(maxsize=8192)
def _find_predicates(key: str) -> frozenset[int]:
    """The numbers of the common predicates that a word says."""
    return frozenset(number for number, listed in enumerate((LIKES, *COMMON)) if is_one_of(key, listed))


def _is_value(word: TellingWord) -> bool:
    return word.kind != "word"


def _is_denied(content: str) -> bool:
    return find_negations(fold_sentence(content)) % 2 == 1
