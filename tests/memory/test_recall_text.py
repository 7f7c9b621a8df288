"""What a long hit shows."""

from hypothesis import given
from hypothesis import strategies as st

from memstrata.memory.reading import CUT_MARK
from memstrata.memory.recall_text import excerpt

FILLER = "lorem ipsum dolor sit amet " * 60


def test_an_excerpt_is_where_the_words_are() -> None:
    shown = excerpt(FILLER + "the ferries leave Graz at nine " + FILLER, ["ferry", "graz"], 200)
    assert "ferries leave Graz" in shown
    assert shown.startswith("… ")
    assert shown.endswith(CUT_MARK)


def test_an_excerpt_without_a_word_is_the_beginning() -> None:
    assert excerpt(FILLER, ["zebra"], 100) == FILLER[:100] + CUT_MARK


@given(st.text(min_size=20, max_size=400), st.lists(st.text(min_size=1, max_size=8), max_size=4), st.integers(5, 19))
def test_an_excerpt_is_a_piece_of_the_text_of_the_length_asked_for(text: str, sought: list[str], most: int) -> None:
    shown = excerpt(text, sought, most)
    inner = shown.removeprefix("… ") if not text.startswith(shown[:most]) else shown
    assert inner.removesuffix(CUT_MARK)[:most] in text
    assert len(shown) <= most + len("… ") + len(CUT_MARK)
