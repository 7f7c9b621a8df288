"""The values in the sentences of a text: amounts with their unit, times of day, days and weekdays, each with the words
around it, which say what it is a value of.

Numbers and times are read alike in all languages; only number words, months and weekdays need lists.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, islice, product
from typing import Literal

from layerlore.memory.language.past_days import names_relative_day
from layerlore.memory.language.search_words import all_stop_words, is_sign, split_words
from layerlore.memory.language.sentences import bound_text, split_sentences
from layerlore.memory.language.statements import number_words, write_hours
from layerlore.memory.language.word_lists import ordered_words, texts, word_set
from layerlore.storage.core import linear_re

ValueKind = Literal["amount", "clock", "day", "weekday"]

# The content words on each side of a value that say what it is a value of.
_AROUND = 5
# A sentence with more values is a table or a log, and comparing them all takes too long.
_MOST_VALUES = 12
# Each sentence is compared with those of other lines, so the first ones stand for a long text.
_MOST_SENTENCES = 8
# The words of a unit: "conditional probability problems".
_UNIT_WORDS = 3
# With fewer words between two values, they belong together: "3 sprints of 2 weeks".
_APART = 3
# Two statements can give two values of one thing if they begin with the same words and are no longer than this.
_OPENING_WORDS = 3
_STATEMENT_WORDS = 15
_SENTENCE = linear_re.compile(r"[^.!?…。！？\n]+", engine="re")
_NUMBER = linear_re.compile(r"\d{1,12}(?:\.\d{1,12})?", engine="re")
_DAY_NUMBER = linear_re.compile(r"\d{1,2}", engine="re")
_DIGIT = linear_re.compile(r"\d", engine="re")
_DASH = linear_re.compile(r"\s*[-–—→]+>?\s*")
_YEAR = linear_re.compile(r"(?:19|20)\d\d")


# Two words are one if no more than their endings differ.
_ENDING = 3
_FEWEST_SAME = 3
_SHORT_WORD = 4


@dataclass(frozen=True, slots=True)
class SentenceValue:
    """A value. ``text`` is written in one form; ``unit`` is what an amount counts; ``was``: the value before it, where the
    sentence says both ("from 3:00 to 4:30"); ``around``: the content words near it; ``after``: the word before it;
    ``is_alone``: no other value of the sentence may be meant instead."""

    kind: ValueKind
    text: str
    unit: tuple[str, ...]
    was: str
    around: tuple[str, ...]
    after: str
    is_alone: bool


@dataclass(frozen=True, slots=True)
class ValuedSentence:
    """A sentence with at least one value. ``words``: its content words but units; ``plain_words``: its function words;
    ``kinds``: those of all its values, also of those that are not read; ``is_dated``: it reports what was on a day that it
    names by its distance, such as yesterday."""

    text: str
    values: tuple[SentenceValue, ...]
    words: frozenset[str]
    plain_words: frozenset[str]
    kinds: frozenset[ValueKind]

    @property
    def is_dated(self) -> bool:
        return names_relative_day(self.text)

    @property
    def is_question(self) -> bool:
        return self.text.rstrip().endswith(("?", "？", "؟"))


@dataclass(frozen=True, slots=True)
class TextValues:
    """The values of one text: the sentences that have any, and its short sentences by their first words."""

    sentences: tuple[ValuedSentence, ...]
    openings: Mapping[tuple[str, ...], str]


@dataclass(slots=True)
class _FoundValue:
    """A value as it stands in a sentence. ``at``: the number of words before it."""

    kind: ValueKind | Literal["code"]
    text: str
    start: int
    end: int
    at: int = 0
    unit: tuple[str, ...] = ()
    was: str = ""


def read_values(text: str) -> TextValues:
    """The values of a text."""
    text = bound_text(text)
    openings: dict[tuple[str, ...], str] = {}
    for sentence in _SENTENCE.findall(text):
        words = sentence.casefold().split(None, _STATEMENT_WORDS)
        if _OPENING_WORDS < len(words) <= _STATEMENT_WORDS:
            openings[tuple(words[:_OPENING_WORDS])] = sentence
    # Most texts have no value, and a quick look shows it.
    if not _DIGIT.search(text) and _value_words().isdisjoint(split_words(text)):
        return TextValues((), openings)
    found = (_read_sentence(write_hours(each).casefold()) for each in split_sentences(text, loosely=True))
    valued = (each for each in found if each is not None)
    return TextValues(tuple(islice(valued, _MOST_SENTENCES)), openings)


def _read_sentence(text: str) -> ValuedSentence | None:
    matches = islice(_values().finditer(text), _MOST_VALUES + 1)
    found = [_FoundValue(_kind_of(each), each[0], *each.span()) for each in matches]
    if not found or len(found) > _MOST_VALUES:
        return None
    words: list[str] = []
    before = 0
    for each, following in zip(found, [*found[1:], None], strict=True):
        # A sign of money before an amount is its unit and no word of its own.
        words += [word for word in split_words(text[before : each.start]) if not is_sign(word)]
        each.at = len(words)
        rest = text[each.end : following.start if following else len(text)]
        each.unit = _find_unit(each, text, rest)
        before = each.end
    words += split_words(text[before:])
    joined = list(_join_changes(found, text))
    values = list(_make_values(joined, words))
    if not values:
        return None
    stop_words = all_stop_words()
    units = {word for each in found for word in each.unit}
    return ValuedSentence(
        text,
        tuple(values),
        frozenset(words) - stop_words - units,
        stop_words.intersection(words),
        frozenset(each.kind for each in found if each.kind != "code"),
    )


@cache
def _value_words() -> frozenset[str]:
    """The words that may be a value without a digit."""
    return frozenset((*number_words(), *_weekdays(), *(f"{day}s" for day in _weekdays())))


@cache
def _weekdays() -> tuple[str, ...]:
    return ordered_words("dates.weekdays", "en")


@cache
def _values() -> linear_re.Pattern:
    """A pattern for possible values, with a group for each kind. A ``code`` is not a value: versions, names with
    digits, fractions."""
    months = "|".join(_spell_months())
    weekdays = "|".join(_weekdays())
    numbers = "|".join(word for word, number in number_words().items() if int(number) > 1)
    return linear_re.compile(
        rf"""(?x)\b(?:
          (?P<day>\d{{4}}-\d\d-\d\d\b
            |(?:{months})\.?\ (?:the\ )?\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\ \d{{4}}\b)?
            |\d{{1,2}}(?:st|nd|rd|th|\.|er)?\ (?:of\ |de\ )?(?:{months})\b(?:,?\ (?:de\ )?\d{{4}}\b)?)
          |(?P<code>[^\W\d][^\W\d]{{0,20}}[\d._-]{{0,20}}\d\w{{0,20}}|\d{{1,9}}(?:\.\d{{1,9}}){{2,4}}\b|\d{{1,9}}/\d{{1,9}}|\d{{1,9}}(?::\d{{1,9}}){{2,4}})
          |(?P<clock>\d{{1,2}}:\d\d\b)
          |(?P<amount>\d{{1,12}}(?:[.,]\d{{1,12}}){{0,4}}|(?:{numbers})\b)
          |(?P<weekday>(?:{weekdays})s?\b)
        )""",
        engine="re",
    )


@cache
def _spell_months() -> dict[str, int]:
    """The names of the months in all languages, with their numbers."""
    found: dict[str, int] = {}
    for listed in texts("dates.months").values():
        for number, written in enumerate(listed.split(), 1):
            for name in written.split("|"):
                found[name] = number
    return found


def _kind_of(found: linear_re.Match) -> ValueKind | Literal["code"]:
    kinds: tuple[ValueKind, ...] = ("day", "clock", "amount", "weekday")
    return next((kind for kind in kinds if found[kind]), "code")


def _find_unit(found: _FoundValue, text: str, rest: str) -> tuple[str, ...]:
    """The unit of an amount: the content words behind it, or the sign before it."""
    if found.kind != "amount":
        return ()
    sign = split_words(text[max(0, found.start - 1) : found.start])
    if sign and not text[found.start - 1].isalnum():
        return (sign[0],)
    unit: list[str] = []
    # Only words that follow each other with nothing between them but spaces.
    for word in rest.split(" ") if not rest[:1].isspace() else rest[1:].split(" "):
        folded = split_words(word)
        if len(unit) == _UNIT_WORDS or not folded or folded[0] in all_stop_words():
            break
        unit.append(folded[0])
        if len(folded) > 1 or not word[-1].isalnum():
            break
    return tuple(unit)


def _join_changes(found: Sequence[_FoundValue], text: str) -> Iterator[_FoundValue]:
    """The values, but two of one kind with a dash or one function word between them as one: a change ("65% to 78%"), or a
    range, which names the unit once ("6 to 9 months")."""
    open_value: _FoundValue | None = None
    for each in found:
        if open_value is None:
            open_value = each
            continue
        between = text[open_value.end : each.start]
        if open_value.kind == each.kind and each.kind != "code" and _is_change(open_value, each, between):
            if each.unit and not open_value.unit:
                each.text = f"{open_value.text}-{each.text}"
            else:
                each.was = open_value.text
            each.start = open_value.start
            each.at = open_value.at
        else:
            yield open_value
        open_value = each
    if open_value is not None:
        yield open_value


def _is_change(first: _FoundValue, second: _FoundValue, between: str) -> bool:
    if first.was or (first.unit and first.unit != second.unit):
        return False
    # A range rises, so "a sum of 7 with 2 dice" is not one.
    is_range = second.unit and not first.unit
    if is_range and not _read_number(first.text) < _read_number(second.text):
        return False
    if _DASH.fullmatch(between):
        return True
    words = [word for word in split_words(between) if word not in first.unit]
    joints = word_set("statements.joints")
    return len(words) == 1 and "," not in between and words[0] in all_stop_words() and words[0] not in joints


def _read_number(text: str) -> float:
    plain = _write_value("amount", text)
    # "1.000.000" is a number in some countries, and its first part is enough to compare.
    found = _NUMBER.match(plain)
    if found is None:
        return 0.0
    return float(found[0])


def _make_values(found: Sequence[_FoundValue], words: Sequence[str]) -> Iterator[SentenceValue]:
    """The values without codes, years and numbers that count nothing."""
    beside = set[int]()
    for first, second in combinations(found, 2):
        if first.kind != second.kind:
            continue
        belongs_together = first.kind == "amount" and second.at - first.at < _APART
        shares_unit = any(is_same_form(*pair) for pair in product(first.unit, second.unit))
        if belongs_together or shares_unit or first.kind != "amount":
            beside |= {id(first), id(second)}
    for each in found:
        is_bare = each.kind == "amount" and (not each.unit or _YEAR.fullmatch(each.text) is not None)
        if each.kind != "code" and not is_bare:
            yield _make_value(each, words, is_alone=id(each) not in beside)


def _make_value(found: _FoundValue, words: Sequence[str], *, is_alone: bool) -> SentenceValue:
    assert found.kind != "code"
    stop_words = all_stop_words()
    before = [word for word in words[: found.at] if word not in stop_words]
    behind = [word for word in words[found.at :] if word not in stop_words]
    near = (*before[-_AROUND:], *behind[:_AROUND])
    around = [word for word in near if word not in found.unit and not is_sign(word)]
    return SentenceValue(
        found.kind,
        _write_value(found.kind, found.text),
        found.unit,
        _write_value(found.kind, found.was),
        tuple(dict.fromkeys(around)),
        words[found.at - 1] if found.at else "",
        is_alone,
    )


def _write_value(kind: ValueKind, text: str) -> str:
    """A value in one form."""
    low = text.casefold()
    if not low:
        return ""
    if kind == "weekday":
        return low.removesuffix("s")
    if kind == "day":
        return _write_day(low)
    if kind == "amount":
        return number_words().get(low) or low.replace(",", "")
    return low


def _write_day(text: str) -> str:
    """A day as its month and its number."""
    parts = split_words(text)
    if parts[0].isdigit() and len(parts[0]) == 4:
        return f"{int(parts[1])}-{int(parts[2])}"
    month = next((_spell_months()[part] for part in parts if part in _spell_months()), 0)
    number = _DAY_NUMBER.search(text)
    return f"{month}-{int(number[0]) if number else 0}"


def begin_word(word: str) -> str:
    """The beginning that a word shares with all its forms. Most pairs of words differ in it, which shows quickly."""
    return word[:_FEWEST_SAME]


def is_same_form(one: str, other: str) -> bool:
    """Whether two words are the same but for their ending."""
    if one == other:
        return True
    if begin_word(one) != begin_word(other):
        return False
    longer = max(len(one), len(other))
    least = max(_FEWEST_SAME if longer <= _SHORT_WORD else _SHORT_WORD, longer - _ENDING)
    return one[:least] == other[:least] and min(len(one), len(other)) >= least
