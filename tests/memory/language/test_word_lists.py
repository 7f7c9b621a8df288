"""The word lists: each has a source and says a word once, and each file is complete."""

import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

from layerlore.memory import language as room
from layerlore.memory.language.word_lists import LANGUAGES, expressions, texts

FILES = {
    each.name.removesuffix(".toml"): tomllib.loads(each.read_text(encoding="utf-8"))
    for each in files(room).joinpath("words").iterdir()
}


def tables_of(language: str) -> dict[str, Any]:
    return {key: value for key, value in FILES[language].items() if isinstance(value, dict)}


def lists_of(language: str) -> Iterator[tuple[str, str]]:
    """The lists of a language, without those whose order or form counts."""
    for table, found in tables_of(language).items():
        for key, value in found.items():
            if isinstance(value, str) and key != "source" and table != "dates":
                yield f"{table}.{key}", value


def test_each_file_is_a_language_that_the_code_knows() -> None:
    assert FILES.keys() == set(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_table_says_where_its_words_come_from(language: str) -> None:
    assert all(table.get("source") for table in tables_of(language).values())


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_every_table_or_says_that_it_lacks_it(language: str) -> None:
    known = {table for each in LANGUAGES for table in tables_of(each)}
    lacking = FILES[language]["lacks"]
    assert sorted([*tables_of(language), *lacking]) == sorted(known)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_list_says_a_word_twice(language: str) -> None:
    for name, text in lists_of(language):
        is_phrases = name.startswith("phrases.") or name == "evidence.reasons"
        is_lines = re.search(r"[\\(|]", text) is not None or name in ("clauses.lead_ins", "no_answers.neutral")
        is_lines = is_lines or name.startswith("questions.")
        separator = "," if is_phrases else "\n" if is_lines else None
        said = Counter(each.strip() for each in text.split(separator) if each.strip())
        assert [word for word, times in said.items() if times > 1] == [], name


@pytest.mark.parametrize("name", ["questions.requests", "questions.openings", "no_answers.expressions"])
def test_each_part_that_an_expression_names_is_filled_in(name: str) -> None:
    for language in texts(name):
        for expression in expressions(name, language):
            assert expression
            assert not re.search(r"\{[a-z_]+\}", expression)


def test_no_list_is_read_before_its_first_use() -> None:
    modules = (
        *("digest.digest", "entries.remember_requests", "language.past_days", "language.topics"),
        *("messages.overflow", "parts.index_texts", "recall.recall"),
    )
    lines = ["import tomllib", "tomllib.loads = None", *(f"import layerlore.memory.{name}" for name in modules)]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, timeout=60)
