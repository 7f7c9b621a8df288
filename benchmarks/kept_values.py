"""What a text must not lose when it is told shorter: its ids, numbers and dates, and how many of them another text still
has."""

import re
from collections.abc import Iterable

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
# A date in words, else a word with a digit in it: a number, amount, time, date, version, id, or URL.
_VALUE = re.compile(
    rf"\b(?:{_MONTH}\.? {_DAY}\b(?:,? \d{{4}}\b)?|{_DAY}(?: of)? {_MONTH}\b(?:,? \d{{4}}\b)?|{_MONTH},? \d{{4}}\b)"
    r"|\S*\d\S*",
    re.IGNORECASE,
)
_AROUND = "()[]{}<>\"'“”‘’`|*.,:;!?…–—-=/\\~_"


def values_of(texts: Iterable[str]) -> list[str]:
    """The distinct values of texts, in lower case, without the marks around them, as they were first said."""
    found = (match[0].strip(_AROUND).lower() for text in texts for match in _VALUE.finditer(text))
    return list(dict.fromkeys(filter(None, found)))


def kept(values: Iterable[str], text: str) -> list[str]:
    """Those of the values that a text has as they are, whatever their case: no longer word or number hides them."""
    lowered = text.lower()
    return [value for value in values if _has(lowered, value.lower())]


def _has(text: str, value: str) -> bool:
    at = text.find(value)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(value) : at + len(value) + 1]
        if not (_continues(before, value[0]) or _continues(after, value[-1])):
            return True
        at = text.find(value, at + 1)
    return False


def _continues(sign: str, edge: str) -> bool:
    return (sign.isalnum() or sign == "_") and (edge.isalnum() or edge == "_")
