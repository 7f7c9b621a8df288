"""How far a message only asks, and how far it says nothing, as the index keeps it: from 0 to 100."""

from collections.abc import Callable, Mapping

from layerlore.memory.parts.index_texts import make_index_texts
from layerlore.storage.core.records import IndexedText

from ..spoken_sentences import ASKS, SAYS_NOTHING, TELLS


def index(text: str) -> IndexedText:
    return make_index_texts(None, [{"type": "text", "text": text}], {}, 0)


def wrong(sentences: Mapping[str, str], holds: Callable[[IndexedText], bool]) -> list[str]:
    """The sentences whose index texts do not hold, each with its language and how far it asks and says nothing."""
    found = []
    for language, lines in sentences.items():
        for line in lines.strip().splitlines():
            indexed = index(line.strip())
            if not holds(indexed):
                found.append(f"{language}: {line.strip()} asks {indexed.asks}, empty {indexed.empty}")
    return found


def test_what_asks_is_known_with_and_without_its_mark() -> None:
    assert wrong(ASKS, lambda found: found.asks >= 70 and found.empty == 0) == []


def test_what_says_that_nothing_is_known_is_known() -> None:
    assert wrong(SAYS_NOTHING, lambda found: found.empty >= 90 and found.asks < 50) == []


def test_what_tells_something_neither_asks_nor_says_nothing() -> None:
    assert wrong(TELLS, lambda found: found.asks < 40 and found.empty < 50) == []


def test_a_long_message_is_judged_by_the_share_that_asks() -> None:
    told = "We moved to Graz in May and found a flat with a garden near the river. "
    request = "Do you know a good baker there? "
    assert index(request).asks == 100
    assert 20 <= index(told + request).asks <= 40
    assert index(told * 20 + request).asks < 5


def test_only_the_clause_that_asks_counts() -> None:
    assert index("Since I moved to Graz in May, where can I buy bread?").asks < 60
    assert index("My sister sold the red boat to Leo in spring, didn't she?").asks < 40


def test_a_greeting_and_an_apology_count_for_neither_side() -> None:
    assert index("Hey Mel! Did she call?").asks == 100
    assert index("Sorry! I don't know. Could you tell me?").empty == 100
    assert index("Thanks!").asks == index("Thanks!").empty == 0


def test_what_is_known_beside_a_doubt_is_counted() -> None:
    assert index("I don't know who won. We left early because Mila had a fever and needed her bed.").empty < 40


def test_an_empty_message_neither_asks_nor_says_nothing() -> None:
    for text in ("", " ", "…", "?!"):
        assert index(text).empty == 0
