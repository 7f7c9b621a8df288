"""The words of a question that are written as the name of somebody or something."""

import pytest

from layerlore.memory.parts.search_words import find_identifying_words, find_query_words


def found(text: str) -> frozenset[str]:
    return find_identifying_words(text, find_query_words(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Which server does Bartholomew own?", {"bartholomew"}),
        ("Casimir's department", {"casimir"}),
        ("When did Caroline go to the LGBTQ support group?", {"caroline", "lgbtq"}),
        ("What does E4417 mean?", {"e4417"}),
        ("What is 4711?", {"4711"}),
        ("the owner of srv3", {"srv3"}),
        ("what does compute_total return", {"compute", "total"}),
        ("the log of zephyr-9.example", {"zephyr", "example"}),
    ],
)
def test_names_and_codes_are_found(text: str, words: set[str]) -> None:
    assert found(text) == words


@pytest.mark.parametrize(
    "text",
    [
        "What did I say about trains?",
        "Thanks. What about the garden?",
        "What did I say on Tuesday in May?",
        "Wie hoch ist die Rechnung von Zwingli?",
        "What Did Ana Say About Trains?",
        "WHAT DID ANA SAY",
        "is it 12 or 7",
        "",
    ],
)
def test_beginnings_days_titles_and_nouns_of_german_are_no_names(text: str) -> None:
    assert not found(text)
