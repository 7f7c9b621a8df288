"""Entries that give another value for the same thing: the same words, but for the value at their end.

A mark on a true entry does harm, and a missing one does little: both entries are shown anyway. So an entry contradicts another
only if its subject and its predicate are the same words, and the value is a name or a number.
"""

from collections.abc import Sequence

from layerlore.memory.language.sameness import is_other_person, is_same_statement, leave_person
from layerlore.memory.language.statement_words import (
    NEGATIONS,
    USER,
    StatementWord,
    WordedStatement,
    is_same_word,
    read_statement,
    without_aside,
    word_set,
)

Words = Sequence[StatementWord]

_MOST_WORDS = 4
"""The most words of a value: "28 September 2026" has three."""
_NOW = frozenset({"now", "jetzt", "maintenant", "ahora", "adesso", "agora", "теперь", "şimdi"})
_IS = word_set("is was are ist war sind est était es era está è sono é são jest är это 是 は")
_PREPOSITIONS = word_set(
    "in at on for with from to by of as under bei mit für von nach aus auf als zu im am um à en chez avec pour de dans sur "
    "con para por di da per a em na no w z do в на с из для 在 于 に で"
)
# A subject has one value for these, as a rule: a home, an employer, a price.
_SINGLE = word_set(
    "lives live works work costs cost weighs weigh called prefers wohnt lebt arbeitet kostet wiegt heißt habite travaille coûte "
    "vive trabaja cuesta llama abita lavora costa mora trabalha custa woont werkt kost mieszka pracuje живёт живет работает 住 叫"
)


def contradicts(new: str, known: str) -> bool:
    """Whether two entries cannot both be true: another name or number for the same thing, or its denial."""
    one, other = read_statement(new), read_statement(known)
    if _is_denial(one, other):
        return True
    found = _split(one, other)
    if found is None:
        return False
    frame, values = found
    return values[0][0].is_value and values[1][0].is_value and _has_one_value(frame, values[0][0])


def is_other_value(new: str, known: str) -> bool:
    """Whether a correction gives another value for what an entry says: the same words, and another value at their end."""
    one, other = read_statement(without_aside(new)), read_statement(known)
    found = _split(_without_now(one), _without_now(other))
    if found is None:
        return False
    frame, (value, was) = found
    if value[0].kind != was[0].kind:
        return False
    if not _is_plain(value, was):
        return False
    leads_to_value = frame[-1].key in _PREPOSITIONS or (frame[-1].key in _IS and value[0].is_value)
    return leads_to_value or _has_one_value(frame, value[0])


def _is_plain(value: Words, was: Words) -> bool:
    """Whether both values are one word, or names and numbers alone: "Mapbox expires in March" is not a value of "the
    key of"."""
    # "12 Euro" and "15 Euro", "28 September 2026" and "29 September 2026".
    is_amount = value[0].is_number and was[0].is_number
    tail = 0
    while is_amount and tail < min(len(value), len(was)) - 1 and value[-1 - tail].key == was[-1 - tail].key:
        tail += 1
    own = (value[: len(value) - tail], was[: len(was) - tail])
    return all(len(words) == 1 or all(word.is_value for word in words) for words in own)


def _without_now(statement: WordedStatement) -> WordedStatement:
    words = tuple(word for word in statement.words if word.key not in _NOW)
    return WordedStatement(words, statement.is_lower)


def _split(one: WordedStatement, other: WordedStatement) -> tuple[Words, tuple[Words, Words]] | None:
    """The words that two statements begin with, and the value that each ends with; None unless both have a subject and a
    predicate in common, and a value of their own."""
    any_case = one.is_lower or other.is_lower
    shared = 0
    for pair in zip(one.words, other.words, strict=False):
        # "I live in Graz." and "The user lives in Linz."
        if not is_same_word(*pair, any_case=any_case) and not (shared == 1 and is_other_person(one.words, other.words)):
            break
        shared += 1
    # A title or the first of two names belongs to the value: "Dr. Vogt", "TP 537".
    both_go_on = min(len(one.words), len(other.words)) > shared
    while both_go_on and shared > 2 and one.words[shared - 1].is_name:
        shared -= 1
    values = one.words[shared:], other.words[shared:]
    if shared < 2 or not all(0 < len(value) <= _MOST_WORDS for value in values):
        return None
    if any(word.key in NEGATIONS or word.key == "?" for value in values for word in value):
        return None
    # A denial with another value says nothing against the first one.
    if any(word.key in NEGATIONS for word in one.words[:shared]):
        return None
    return one.words[:shared], values


def _has_one_value(frame: Words, value: StatementWord) -> bool:
    """Whether the words before a value name something that has one value at a time."""
    words = list(frame)
    if len(words) > 2 and words[-1].key in _PREPOSITIONS:
        words.pop()
        if words[-1].key in _SINGLE or words[-1].key in _IS:
            return True
        # "Ticket 4711 is assigned to Ana." A person can be assigned to many things.
        return len(words) > 3 and words[-2].key in _IS and not value.is_number and not _is_person(words[:-2])
    if words[-1].key in _SINGLE:
        return True
    # A person can be a nurse and a mother: "is" gives one value to a thing, or a number to anyone.
    return words[-1].key in _IS and (value.is_number or not _is_person(words[:-1]))


def _is_person(subject: Words) -> bool:
    return len(subject) == 1 and (subject[0].key == USER or not subject[0].text.islower())


def _is_denial(one: WordedStatement, other: WordedStatement) -> bool:
    """Whether one statement is the other with a "not"."""
    longer, shorter = (one, other) if len(one.words) > len(other.words) else (other, one)
    at = [place for place, word in enumerate(longer.words) if word.key in NEGATIONS]
    if len(at) != 1 or any(word.key in NEGATIONS for word in shorter.words) or len(shorter.words) < 2:
        return False
    rest = [*longer.words[: at[0]], *longer.words[at[0] + 1 :]]
    # "does not reach" and "reaches"
    if len(rest) == len(shorter.words) and at[0] < len(rest):
        verb = shorter.words[at[0]]
        rest[at[0]] = verb if leave_person(verb.key) == rest[at[0]].key else rest[at[0]]
    return is_same_statement(WordedStatement(tuple(rest), longer.is_lower), shorter)
