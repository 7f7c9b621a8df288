"""Search words: the one way that text is cut into words, for the index and for queries, on both databases.

Words come out folded (case, width, digits, and the accents of Latin, Greek and Cyrillic); stems are the database's work.
Scripts that put no space between words (Chinese, Japanese, Thai, ...) are cut into overlapping pairs of characters.
An emoji or a sign is a word, too. Databases keep letters and digits only, so that it is spelled with its number.
"""

import unicodedata
from collections.abc import Collection
from functools import cache
from itertools import chain

from layerlore.memory.language import word_lists
from layerlore.storage.core import linear_re

# A longer run of letters is not a word that a user would search for.
LONGEST_WORD = 64

# A word, with the signs that belong to it (C++, C#, A+, the blood group A-); or an emoji, two letters of a flag, a sign.
_WORD = linear_re.compile(
    r"(?V1)([\p{L}\p{N}\p{M}]+)(\+\+(?!\p{L})|#(?!\p{L})|\+(?![\p{L}\p{N}+])"
    r"|(?<=(?<![\p{L}\p{N}\p{M}])\p{L}{1,2})[-\u2212](?![\p{L}\p{N}-]))?"
    r"|([\U0001F1E6-\U0001F1FF]{2}|[\p{So}\p{Sc}%§‰\u203c\u2049]|[\p{Sm}--[\p{ASCII}\u2044]])",
    engine="regex",
)
# The same of a text of ASCII in small letters, which takes a tenth of the time.
_ASCII_WORD = linear_re.compile(
    r"([a-z0-9]+)(\+\+(?![a-z])|#(?![a-z])|\+(?![a-z0-9+])"
    r"|(?:(?<=(?<![a-z0-9])[a-z])|(?<=(?<![a-z0-9])[a-z]{2}))-(?![a-z0-9-]))?|([$%])",
    engine="re",
)
# Texts of ASCII without these have no signs.
_ASCII_SIGN = linear_re.compile(r"[#$%+]")
_ASCII_MINUS = linear_re.compile(
    r"-(?![A-Za-z0-9-])(?:(?<=(?<![A-Za-z0-9])[A-Za-z]-)|(?<=(?<![A-Za-z0-9])[A-Za-z]{2}-))"
)
# How an emoji is drawn: its colour, its skin, its place in a sequence. It stays the same word.
_DRAWING = linear_re.compile(r"[\ufe00-\ufe0f\u200d\u20e3\U0001F3FB-\U0001F3FF\U000E0020-\U000E007F]")
_FOREIGN_DIGIT = linear_re.compile(r"(?V1)[\p{Nd}--\p{ASCII}]", engine="regex")
_DOTLESS_I = "\u0131"
_SIGN = "sgn"
_SPELLED_SIGN = linear_re.compile(_SIGN + r"(\d{2,7})")
# A sign changes what a word as short as this means: C++ is not found by C. A longer one is found with and without it.
_NEEDS_SIGN = 2
# Many texts are ASCII but for these. They part words as a space does.
_PUNCTUATION = dict.fromkeys(map(ord, "‘’“”«»–—…\u00a0"), " ")
# By its code, what each character of ASCII is in a text of folded words and spaces.
_ASCII = "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128))
_UNSPACED = linear_re.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}ー々]+|[^\p{Han}\p{Hiragana}"
    r"\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}ー々]+",
    engine="regex",
)
_IS_UNSPACED = linear_re.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}ー々]", engine="regex"
)
_ABBREVIATIONS = ("IT", "US", "WHO")
_FIRST_NAMES = ("Don", "May", "Will")
_EITHER = "|".join(_FIRST_NAMES)
_NAME = linear_re.compile(
    rf"\b(?:{'|'.join(_ABBREVIATIONS)})\b|(?<=[\p{{Ll}}\p{{N}},;]\s)(?:{_EITHER})\b(?!['’]t)|\b(?:{_EITHER})(?=['’]s\b)"
    r"|(?<=\d\s)may\b|\bmay(?=\s\d)",
    engine="regex",
)
_NAMES = (*_ABBREVIATIONS, *_FIRST_NAMES, "may")
# 2023-05-08: the index has the day as people write it.
_ISO_DAY = linear_re.compile(r"(?<!\d)\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(?!\d)")
_DIGIT = linear_re.compile(r"\d", engine="re")
_ACCENTS = linear_re.compile(r"(?<=[\p{Latin}\p{Greek}\p{Cyrillic}])[\u0300-\u036f]+")


def split_words(text: str) -> list[str]:
    """The words of a text, folded, in order, repeats included; those with a sign of their own and signs are spelled as
    ``spell_signs`` does."""
    if not text.isascii():
        text = text.translate(_PUNCTUATION)
    if text.isascii():
        # Most texts are plain ASCII: one translation splits them, without an expression.
        if not (_ASCII_SIGN.search(text) or ("-" in text and _ASCII_MINUS.search(text))):
            return [word[:LONGEST_WORD] for word in text.translate(_ASCII).split()]
        parted = _ASCII_WORD.findall(text.lower())
    else:
        parted = _WORD.findall(_fold(text))
    found: list[str] = []
    for run, signs, sign in parted:
        if sign:
            found.append(spell_signs(sign))
        elif signs or not run.isascii():
            found.extend(_cut_word(run, signs))
        else:
            found.append(run[:LONGEST_WORD])
    return found


def _fold(text: str) -> str:
    cased = text.casefold().replace(_DOTLESS_I, "i")
    # Decomposed to drop the accents, then composed: Hangul would stay split into its letters.
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", _DRAWING.sub("", cased)))
    composed = unicodedata.normalize("NFC", plain)
    return _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0], digit[0])), composed)


def _cut_word(run: str, signs: str) -> list[str]:
    pieces = _UNSPACED.findall(run)
    found: list[str] = []
    for piece in pieces:
        if _IS_UNSPACED.match(piece):
            found.extend(split_pairs(piece))
        else:
            found.append(piece[:LONGEST_WORD])
    if not signs:
        return found
    last = pieces[-1]
    signed = last[: LONGEST_WORD - len(spell_signs(signs))] + spell_signs(signs)
    # A minus may be a hyphen that lost its word, so only "+" and "#" change what a short word means.
    needs_sign = len(last) <= _NEEDS_SIGN and last.isalpha() and signs[0] in "+#"
    if needs_sign:
        return [*found[:-1], signed]
    return [*found, signed]


def spell_signs(signs: str) -> str:
    """Signs as letters and digits, each by its number, since databases keep no signs. It ends in a digit: no stem is
    shorter."""
    return "".join(f"{_SIGN}{ord(sign)}" for sign in signs)


def is_sign(word: str) -> bool:
    """Whether a search word is a sign alone, such as "%"."""
    return word.startswith(_SIGN) and _SPELLED_SIGN.fullmatch(word) is not None


def show_word(word: str) -> str:
    """A word as people write it, with its signs."""
    if _SIGN in word:
        return _SPELLED_SIGN.sub(lambda spelled: chr(int(spelled[1])), word)
    return word


def split_pairs(text: str) -> list[str]:
    """Overlapping pairs of characters; a single character stands alone."""
    if len(text) == 1:
        return [text]
    return [text[at : at + 2] for at in range(len(text) - 1)]


@cache
def _stop_words() -> dict[str, frozenset[str]]:
    """The function words of each language, cut and folded as all words are."""
    listed = word_lists.texts("search.stop_words")
    return {language: frozenset(split_words(text)) for language, text in listed.items()}


@cache
def _languages_of() -> dict[str, tuple[str, ...]]:
    """The languages that each function word is a sign of."""
    found: dict[str, tuple[str, ...]] = {}
    for language, listed in _stop_words().items():
        for word in listed - word_lists.word_set("search.no_sign"):
            found[word] = (*found.get(word, ()), language)
    return found


def find_language(found: Collection[str]) -> str:
    """The language that most of the words are function words of; of equal ones the first. Empty where no word is a sign
    of a language."""
    languages = _languages_of()
    signs = [language for word in languages.keys() & frozenset(found) for language in languages[word]]
    if signs:
        return max(_stop_words(), key=signs.count)
    return ""


def find_stop_words(found: Collection[str]) -> frozenset[str]:
    """The function words of the language of the words; none if the language is unknown."""
    return _stop_words().get(find_language(found), frozenset())


def find_names(text: str) -> frozenset[str]:
    """The words that are written as names though they are spelled like function words: *IT* and *US*, *Will's*, and
    *Don* and *May* within a sentence or beside a number. None in a text of capitals."""
    # Most texts have none of them, which is known at once.
    if text.isupper() or not any(name in text for name in _NAMES):
        return frozenset()
    return frozenset(word for name in _NAME.findall(text) for word in split_words(name))


@cache
def month_names() -> tuple[str, ...]:
    """January to December."""
    written = word_lists.ordered_words("dates.months", "en")
    return tuple(month.partition("|")[0].title() for month in written)


@cache
def _ordinal() -> linear_re.Pattern:
    """The ending of a day's number, which the index does not have: May 8th, the 8th of May."""
    months = "|".join(month_names())
    return linear_re.compile(
        rf"(?i)(?<=\b(?:{months})\s\d\d?)(?:st|nd|rd|th)\b"
        rf"|(?<=\b\d\d?)(?:st|nd|rd|th)(?=(?:\sof)?\s(?:{months})\b)",
        engine="regex",
    )


def find_query_words(text: str, *, most: int = 32) -> list[str]:
    """The words to look for, each once, without the function words of their language unless there is nothing else."""
    # A text without digits names no day by its number.
    if _DIGIT.search(text):
        with_days = _ISO_DAY.sub(lambda day: f"{day[0]} {int(day[2])} {month_names()[int(day[1]) - 1]}", text)
        text = _ordinal().sub("", with_days)
    found = list(dict.fromkeys(split_words(text)))
    kept = find_names(text)
    # Names are left out of the guess: "IT" and "Will" would pass for function words.
    stop_words = find_stop_words([word for word in found if word not in kept]) - kept
    content_words = [word for word in found if word not in stop_words]
    # "Who was it?" has function words alone, and they are better than an empty query.
    return (content_words or found)[:most]


@cache
def all_stop_words() -> frozenset[str]:
    """The function words of all languages."""
    return frozenset(chain.from_iterable(_stop_words().values()))


def count_content_words(chunks: Collection[Collection[str]]) -> int:
    """How many different words are function words of no language."""
    return len(frozenset(chain.from_iterable(chunks)) - all_stop_words())
