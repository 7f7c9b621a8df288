"""The words of a text that tell something, as they are compared between an entry and what was said: words by their stems
in any language, names and days as they are, numbers by their value."""

import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import regex

from layerlore.memory.entries.claim_words import FILLERS, is_one_of
from layerlore.memory.entries.telling_tables import (
    CALENDAR,
    CALENDAR_KEYS,
    LATIN_LETTERS,
    NUMBER_WORDS,
    SELDOM_NUMBERS,
    SUFFIXES,
)
from layerlore.memory.parts.search_words import find_stop_words, split_words

TellingKind = Literal["word", "name", "number"]

# A number with what is written to it (v2, INC-204, 1,000, 3 pm), or a word.
_RUN = regex.compile(
    r"(?=[\p{L}\p{M}]*(?:[-_./:][\p{L}\p{M}]+)*[-_./:]?\p{N})[\p{Latin}\p{N}]+(?:[-_./:][\p{Latin}\p{N}]+|,\p{N}+)*(?:\s[ap]\.?m\b\.?)?"
    r"|[\p{L}\p{M}]+"
)
# So many digits are written in groups by one and at once by another.
_LONG_NUMBER = 5
_GROUPS = regex.compile(r"\p{N}+(?:[ \u00a0./()-]{1,2}\p{N}+)+")
# 3-14, and LH1234, of which the number is 1234.
_RANGE = regex.compile(r"\p{N}+")
_RANGE_SIGN = regex.compile(r"^\p{N}+[-–/]\p{N}+$")
_LETTERED = regex.compile(r"\p{L}{1,4}(\p{N}{2,})")
_HALF_DAY_CLOCK = regex.compile(r"(\d{1,2})(?:[:.](\d\d))?([ap])m?")
_CLOCK = regex.compile(r"(\d{1,2}):(\d\d)")
_THOUSANDS = regex.compile(r"\d{1,3}([.,]\d{3})+")
_SHORT_THOUSANDS = regex.compile(r"(\d+(?:[.,]\d+)?)([km])")
_DECIMAL = regex.compile(r"\d+[.,]\d+")
_ORDINAL = regex.compile(r"(\d+)(?:st|nd|rd|th)")
_UNITED = regex.compile(r"(\d+(?:[.,]\d+)?)(gb|mb|kb|tb|ms|s|h|min|m|km|kg|g|cm|mm|px|x|€|eur|usd)")
_PARTS = regex.compile(r"[^\p{N}\p{L}]+")
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}ー々]")
_CONTENT_SIGN = regex.compile(r"[\p{Han}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]")
_CASED = regex.compile(r"\p{Lu}")
# What may stand before the first word of a sentence, and what ends the one before it.
_OPENING = ' \t"“„«([*#>–—•-'
_ENDING = ".!?…:;\n"
_GERMAN_NAME_BEFORE = regex.compile(r"\b(?:in|nach|aus|bei|von|mit|für|an|heißt|heiße)\s$", regex.IGNORECASE)
_FUNCTION_SIGNS = frozenset(
    "的了吗呢是在我你您他她它们这那不没有和与就都也很要会可以把被让给对从到上下个请吧啊呀嘛着过为以于而但及或"
)
_SHORTEST_STEM = 3
_ARABIC_BEFORE = ("وال", "بال", "لل", "ال")


_CJK_DAYS = regex.compile(r"(?:星期|周|週|礼拜)([一二三四五六日天])|([月火水木金土日])曜|([월화수목금토일])요일")
_CJK_NUMBER = regex.compile(
    r"[一二两三四五六七八九十]{1,3}(?=[个個人名位次天日月年点點時时分歳岁件台本条種种杯匹週周])"
)
_CJK_DIGITS = {sign: at + 1 for at, sign in enumerate("一二三四五六七八九十")} | {"两": 2}


@dataclass(frozen=True, slots=True)
class TellingWord:
    """A telling word: ``key`` is equal for what is the same, ``text`` is how it stands in the text, at ``at``. Days and
    months count as names. ``leads``: it begins a sentence, so that its capital says nothing."""

    key: str
    text: str
    kind: TellingKind
    at: int
    leads: bool = False


def transliterate(word: str) -> str:
    """A folded word in Latin letters, where it is Cyrillic or Greek."""
    return word if word.isascii() else "".join(LATIN_LETTERS.get(letter, letter) for letter in word)


@lru_cache(maxsize=8192)
def find_stem(word: str) -> str:
    """A folded word without the endings of its inflections, roughly, in any language."""
    if word.isdigit() or len(word) <= _SHORTEST_STEM:
        return word
    if "\uac00" <= word[0] <= "\ud7a3":
        return word[:2]
    for before in _ARABIC_BEFORE:
        if word.startswith(before) and len(word) - len(before) >= _SHORTEST_STEM:
            return word.removeprefix(before)
    for suffix in SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            stem = word.removesuffix(suffix)
            # running, run
            return stem[:-1] if len(stem) > _SHORTEST_STEM and stem[-1] == stem[-2] and stem[-1] not in "ls" else stem
    return word


def is_same_word(one: str, other: str) -> bool:
    """Whether two folded words are forms of one."""
    if one == other or find_stem(one) == find_stem(other):
        return True
    shared = _count_shared(one, other)
    shorter, longer = sorted((len(one), len(other)))
    return shared >= 4 and shorter - shared <= 2 and longer - shared <= 4


def is_same_name(one: str, other: str) -> bool:
    """Whether two folded names are forms of one, in letters of any of Latin, Cyrillic and Greek; or the letters before a
    number."""
    if one == other or (other.startswith(one) and other[len(one) :].isdigit()):
        return True
    if one.isascii() and other.isascii():
        return False
    first, second = transliterate(one), transliterate(other)
    shared = _count_shared(first, second)
    return first == second or (shared >= 3 and max(len(first), len(second)) - shared <= 2)


def _count_shared(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def list_telling(text: str) -> list[TellingWord]:
    """The telling words of a text, in order: no function words of its language, and nothing that only fills."""
    found = list(_read_runs(text))
    words = [each.key for each in found if each.kind == "word" and not each.key.startswith(CALENDAR_KEYS)]
    stop = find_stop_words(words)
    return [each for each in found if each.kind != "word" or not (each.key in stop or _says_nothing(each.key))]


@lru_cache(maxsize=16_384)
def _says_nothing(key: str) -> bool:
    if _UNSPACED.match(key):
        return (
            len(key) == 1
            or not _CONTENT_SIGN.search(key)
            or all(sign in _FUNCTION_SIGNS or not _CONTENT_SIGN.match(sign) for sign in key)
            or is_one_of(key, FILLERS)
        )
    return (len(key) == 1 and not key.isdigit()) or is_one_of(key, FILLERS)


def _read_runs(text: str) -> Iterable[TellingWord]:
    shouted = text.isupper()
    german = _is_german(text)
    for run in _RUN.finditer(text):
        raw = run[0]
        if any(map(str.isdigit, raw)):
            yield TellingWord(raw.lower().replace(" ", ""), raw, "number", run.start())
            continue
        before = text[max(0, run.start() - 40) : run.start()]
        opened = before.rstrip(_OPENING)
        leads = not opened or opened[-1] in _ENDING
        if _UNSPACED.search(raw):
            yield from _read_unspaced(raw, run.start())
            continue
        for key in split_words(raw):
            known = CALENDAR.get(key) or (CALENDAR.get(key[:-1]) if len(key) > 5 and key.endswith("s") else None)
            if known and (key not in SELDOM_NUMBERS or raw[0].isupper()):
                yield TellingWord(known, raw, "name", run.start())
            elif key in NUMBER_WORDS and (key not in SELDOM_NUMBERS) and not (raw[0].isupper() and not leads):
                yield TellingWord(NUMBER_WORDS[key], raw, "number", run.start())
            else:
                named = _is_name(raw, before, shouted=shouted, german=german) and not leads
                yield TellingWord(key, raw, "name" if named else "word", run.start(), leads)


def _read_unspaced(raw: str, at: int) -> Iterable[TellingWord]:
    rest = raw
    for expression in (_CJK_DAYS, _CJK_NUMBER):
        for found in expression.finditer(raw):
            if expression is _CJK_DAYS:
                sign = next(filter(None, found.groups()))
                day = max(
                    "一二三四五六日".find(sign),
                    "月火水木金土日".find(sign),
                    "월화수목금토일".find(sign),
                    6 if sign == "天" else -1,
                )
                yield TellingWord(f"day:{day + 1}", found[0], "name", at + found.start())
            else:
                value = _read_han_number(found[0])
                yield TellingWord(str(value), found[0], "number", at + found.start())
            rest = rest.replace(found[0], " ")
    for key in split_words(rest):
        place = raw.find(key)
        yield TellingWord(key, key, "word", at + max(0, place))


def _read_han_number(text: str) -> int:
    if "十" not in text:
        return _CJK_DIGITS[text[-1]]
    tens, _, ones = text.partition("十")
    return (_CJK_DIGITS.get(tens, 1) if tens else 1) * 10 + (_CJK_DIGITS.get(ones, 0) if ones else 0)


def _is_german(text: str) -> bool:
    stop = find_stop_words(split_words(text))
    return "und" in stop and "nicht" in stop


def _is_name(raw: str, before: str, *, shouted: bool, german: bool) -> bool:
    """Whether a word is written as a name: German writes every noun with a capital."""
    if shouted or not _CASED.search(raw) or raw in ("I", "I'm"):
        return False
    inner = any(map(str.isupper, raw[1:]))
    return inner or not german or _GERMAN_NAME_BEFORE.search(before) is not None


def join_groups(text: str) -> list[str]:
    """The numbers of a text that are written in groups of digits, without what parts those."""
    return [_PARTS.sub("", found) for found in _GROUPS.findall(text)]


def is_number_stated(number: str, stated: Iterable[str], words: Collection[str]) -> bool:
    """Whether a number of an entry is one of those that were said: 1,000 is 1000 or 1k, 15:00 is 3 pm. One that is written
    to words (``INC-204``, ``3-day``) may stand beside them: ``words`` are all that were said, folded."""
    values = {value for each in stated for value in _read_values(each)}
    if _read_values(number) & values:
        return True
    digits = _PARTS.sub("", number)
    if len(digits) >= _LONG_NUMBER and digits.isdigit() and any(digits in each for each in stated if each.isdigit()):
        return any(digits == each for each in stated)
    ranges = {piece for each in stated for piece in _RANGE.findall(each) if _RANGE_SIGN.search(each)}
    if number in ranges or number in {written[1] for each in stated if (written := _LETTERED.fullmatch(each))}:
        return True
    parts = [part for part in _PARTS.split(number) if part]
    pieces = {piece for each in stated for piece in _PARTS.split(each)} | values
    return len(parts) > 1 and all(_is_part_stated(part, pieces, words) for part in parts)


def _is_part_stated(part: str, pieces: Collection[str], words: Collection[str]) -> bool:
    """Whether a part of a number is one of these pieces, or a word that was said."""
    if part in pieces or part.lstrip("0") in pieces:
        return True
    return not any(map(str.isdigit, part)) and any(is_same_word(part, word) for word in words)


def _read_values(text: str) -> set[str]:
    low = unicodedata.normalize("NFKC", text.lower()).replace(" ", "").replace(".m", "m").rstrip(".")
    found = {low}
    clock = _HALF_DAY_CLOCK.fullmatch(low)
    if (clock and low[-1] in "mp") or (clock and low.endswith("a")):
        hour = int(clock[1]) % 12 + (12 if clock[3] == "p" else 0)
        minute = clock[2] or "00"
        return {f"{hour}:{minute}", *((str(hour), f"{clock[1]}") if minute == "00" else ())}
    clock = _CLOCK.fullmatch(low)
    if clock:
        return {f"{int(clock[1])}:{clock[2]}", *((str(int(clock[1])),) if clock[2] == "00" else ())}
    if _THOUSANDS.fullmatch(low):
        found.add(low.replace(".", "").replace(",", ""))
    if thousands := _SHORT_THOUSANDS.fullmatch(low):
        found.add(f"{float(thousands[1].replace(',', '.')) * (1000 if thousands[2] == 'k' else 1_000_000):.0f}")
    if _DECIMAL.fullmatch(low):
        found.add(low.replace(",", "."))
    if low.isdigit():
        found.add(low.lstrip("0") or "0")
    ordinal = _ORDINAL.fullmatch(low)
    if ordinal:
        found.add(ordinal[1])
    united = _UNITED.fullmatch(low)
    if united:
        found.add(united[1])
    return found
