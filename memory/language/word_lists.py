"""The word lists of the languages: ``words/*.toml``, one file a language, each read at its first use.

A list is named by its table and its key: ``search.stop_words``. It is written in one of three ways, and the caller
chooses the function that reads it: words with spaces between them, phrases with commas, or expressions, one a line. An
expression may name a part that its table defines: ``{facts}`` stands for ``facts`` in ``no_answers.parts``.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from layerlore.storage.core import linear_re

LANGUAGES = ("en", "de", "es", "fr", "it", "pt", "nl", "pl", "ru", "tr", "ar", "zh", "ja", "ko", "th", "sv")
"""English first: of two languages that fit equally well, the first one counts."""

_PART = linear_re.compile(r"\{([a-z_]+)\}")


@cache
def _read(language: str) -> Mapping[str, Any]:
    # Through importlib, since the package may be installed as an archive.
    text = files(__package__).joinpath("words", f"{language}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _find(name: str, language: str) -> Any:
    """The value under a dotted name; None if the language has no such list."""
    found: Any = _read(language)
    for key in name.split("."):
        found = found.get(key)
        if found is None:
            return None
    return found


@cache
def texts(name: str) -> dict[str, str]:
    """A list as it is written, by language: of the languages that have it."""
    found: dict[str, str] = {}
    for language in LANGUAGES:
        text = _find(name, language)
        if text is not None:
            found[language] = text.strip()
    return found


@cache
def word_set(name: str, language: str = "") -> frozenset[str]:
    """The words of a list: of one language, or of all that have it."""
    return frozenset(" ".join(_choose(name, language)).split())


@cache
def ordered_words(name: str, language: str) -> tuple[str, ...]:
    """The words of a list in their order, such as the months."""
    return tuple(" ".join(_choose(name, language)).split())


@cache
def phrases(name: str, language: str = "") -> tuple[str, ...]:
    """The phrases of a list, each with single spaces: of one language, or of all that have it."""
    listed = ",".join(_choose(name, language)).split(",")
    return tuple(" ".join(phrase.split()) for phrase in listed if phrase.strip())


@cache
def expressions(name: str, language: str = "") -> tuple[str, ...]:
    """The expressions of a list: of one language, or of all that have it."""
    table = name.partition(".")[0]
    found: list[str] = []
    for each, text in texts(name).items():
        if language in ("", each):
            found += _fill(text, f"{table}.parts", each).splitlines()
    return tuple(found)


@cache
def any_expression(name: str, language: str = "") -> str:
    """One expression that matches what any of a list matches."""
    return "|".join(f"(?:{expression})" for expression in expressions(name, language))


@cache
def tables(name: str) -> dict[str, dict[str, str]]:
    """A table of texts, by language: of the languages that have it."""
    found: dict[str, dict[str, str]] = {}
    for language in LANGUAGES:
        table = _find(name, language)
        if table is not None:
            found[language] = {key: text.strip() for key, text in table.items()}
    return found


def _choose(name: str, language: str) -> list[str]:
    if not language:
        return list(texts(name).values())
    text = texts(name).get(language)
    return [] if text is None else [text]


def _fill(text: str, parts: str, language: str) -> str:
    """The text with each part in place of its name. A part may name others."""

    def write(named: linear_re.Match) -> str:
        part = _find(f"{parts}.{named[1]}", language)
        return _fill(part.strip("\n"), parts, language)

    return _PART.sub(write, text)
