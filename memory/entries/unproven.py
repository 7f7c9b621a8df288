"""The names and numbers of an entry that no quotation of it contains.

They refuse nothing: they are shown beside the entry, so that a reader can tell them from what was said.
"""

import unicodedata
from calendar import month_name
from collections.abc import Iterator, Sequence

from layerlore.storage.core import linear_re

# Scripts that put no spaces between words have no tokens, but for names in Katakana.
_LETTER = r"(?![\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}])[\p{L}\p{M}\p{N}]"
_TOKEN = linear_re.compile(
    rf"(?:{_LETTER})+(?:[-._/:,'’](?:{_LETTER})+)*|\p{{Katakana}}[\p{{Katakana}}ー]+", engine="regex"
)
_APOSTROPHE = linear_re.compile(r"['’]")
_KATAKANA = linear_re.compile(r"\p{Katakana}[\p{Katakana}ー]+")
_SENTENCE_START = linear_re.compile(r"(?:^|(?<!\b\p{Lu}\p{L}{0,2})[.!?:…。！？]\s|\n)[^\p{L}\p{N}]*$", engine="regex")
_INNER_CAPITAL = linear_re.compile(r"\p{L}\p{Lu}|\p{Lu}\p{N}|\p{N}\p{L}*\p{Lu}")
_ORDINAL = linear_re.compile(r"(\p{N}+)(?:st|nd|rd|th|er|e|º|ª)")
_DATE = linear_re.compile(
    r"(?:\d{4}[-./](?P<last>\d{1,2})[-./](?P<iso_day>\d{1,2})|(?P<day>\d{1,2})[-./]\d{1,2}[-./]\d{2,4})"
)
_ISO_MONTH = linear_re.compile(r"\b\d{4}-(0[1-9]|1[0-2])-\d{2}\b")
# German writes every noun with a capital: after an article, or an article and an adjective, it is no name.
_GERMAN_ARTICLE = linear_re.compile(
    r"\b(?:der|die|das|den|dem|des|(?:k?ein|mein|dein|sein|ihr|unser)(?:e|en|em|er|es)?)\s+(?:\p{Ll}+\s+)?$",
    linear_re.IGNORECASE,
)
_NO_WORD = linear_re.compile(r"[^\p{L}\p{N}]+")
_UNIT = linear_re.compile(r"(?<=\d)\p{L}+")
_DIGITS = linear_re.compile(r"\d+")
_BETWEEN_DIGITS = linear_re.compile(r"(?<=\d)[\s.,'’/-]+(?=\d)")
_CYRILLIC = linear_re.compile(r"\p{Cyrillic}")
_ALPHABETS = (linear_re.compile(r"\p{Latin}"), _CYRILLIC, linear_re.compile(r"\p{Greek}"))
_SHORTEST_STEM = 3
_LONGEST_ENDING = 3
_SHORTEST_PIECE = 3
_LONG_NUMBER = 7
_LOOKED_BACK = 40


def list_unproven(content: str, texts: Sequence[str]) -> list[str]:
    """The names and numbers of a content that none of the texts contains, each once."""
    quoted = _Quoted("\n".join(texts))
    return [word for word in dict.fromkeys(_list_identifying(content)) if not quoted.contains(word)]


def _list_identifying(content: str) -> Iterator[str]:
    """The tokens that have a digit or a capital inside, consist of capitals, or begin with one within a sentence."""
    for found in _TOKEN.finditer(content):
        token = max(_APOSTROPHE.split(found[0]), key=len)
        if _is_identifying(token, _read_before(content, found.start())):
            yield token


def _read_before(content: str, at: int) -> str:
    """The characters before a place, as many as tell whether a sentence begins there."""
    begin = max(0, at - _LOOKED_BACK)
    cut = "x" if begin else ""  # no beginning of a sentence
    return cut + content[begin:at]


def _is_identifying(token: str, before: str) -> bool:
    if any(map(str.isdigit, token)) or _KATAKANA.fullmatch(token):
        return True
    if len(token) == 1 or not token[0].isupper():
        return _INNER_CAPITAL.search(token) is not None
    if token.isupper() or _INNER_CAPITAL.search(token):
        return True
    return not _SENTENCE_START.search(before) and not _GERMAN_ARTICLE.search(before)


class _Quoted:
    """The content of quotations: their words, their numbers, and all their letters and digits in a row."""

    def __init__(self, text: str) -> None:
        folded = _fold(_ISO_MONTH.sub(lambda date: f"{date[0]} {month_name[int(date[1])]}", text))
        words = [word for word in _NO_WORD.split(folded) if word]
        self._row = "".join(words)
        # The unit of "5MB" is a word, too.
        self._words = {*words, *_UNIT.findall(folded)}
        self._numbers = [_drop_zeros(each) for each in _DIGITS.findall(folded)]
        joined = _BETWEEN_DIGITS.sub("", folded)
        self._joined = _DIGITS.findall(joined)
        self._scripts = [script for script in _ALPHABETS if script.search(text)]

    def contains(self, token: str) -> bool:
        folded = _fold(token)
        if any(map(str.isdigit, folded)):
            return self._contains_number(folded)
        if _KATAKANA.fullmatch(token):
            return folded in self._row
        if any(script.match(token) for script in _ALPHABETS) and not self._is_in_script(token):
            return True  # a name in other letters cannot be compared
        pieces = [piece for piece in _NO_WORD.split(folded) if piece]
        return all(any(is_form(piece, word) for word in self._words) for piece in pieces) or (
            len(pieces) > 1 and "".join(pieces) in self._row
        )

    def _has_in_a_row(self, numbers: list[str]) -> bool:
        """Whether the numbers follow each other: 3:45 is "3 hours and 45 minutes", and 3.3 is not in "3.2"."""
        starts = range(len(self._numbers) - len(numbers) + 1)
        return any(self._numbers[at : at + len(numbers)] == numbers for at in starts)

    def _is_in_script(self, token: str) -> bool:
        return any(script.match(token) for script in self._scripts)

    def _contains_number(self, token: str) -> bool:
        date = _DATE.fullmatch(token)
        if date:
            return _drop_zeros(date["iso_day"] or date["day"]) in self._numbers
        ordinal = _ORDINAL.fullmatch(token)
        bare = ordinal[1] if ordinal else token
        groups = _DIGITS.findall(bare)
        if any(map(str.isalpha, bare)):
            return _NO_WORD.sub("", bare) in self._row
        number = "".join(groups)
        if self._has_in_a_row([_drop_zeros(group) for group in groups]) or number in self._joined:
            return True
        # A telephone number is written with and without spaces.
        long = [row for row in self._joined if len(row) >= _LONG_NUMBER]
        return len(number) >= _SHORTEST_PIECE and any(number in row for row in long)


def _drop_zeros(digits: str) -> str:
    """A number as it is compared: 07 is 7, however long it is."""
    return digits.lstrip("0") or "0"


def _fold(text: str) -> str:
    """A text in lower case, without accents, with the digits of every script as 0 to 9."""
    decomposed = unicodedata.normalize("NFKD", text.casefold().replace("ı", "i"))
    plain = (character for character in decomposed if not unicodedata.combining(character))
    return "".join(str(unicodedata.digit(each)) if each.isdigit() else each for each in plain)


def is_form(name: str, word: str) -> bool:
    """Whether two folded words are one, but for an ending of at most three letters."""
    if name == word:
        return True
    short, long = sorted((name, word), key=len)
    if len(short) < _SHORTEST_STEM or len(long) - len(short) > _LONGEST_ENDING:
        return False
    # Cyrillic names change their last letter: Казань, в Казани.
    stem = short[:-1] if _CYRILLIC.match(short) and len(short) > _SHORTEST_STEM else short
    return long.startswith(stem)
