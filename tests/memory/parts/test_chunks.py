"""How a long text is cut into overlapping pieces."""

import itertools

import regex
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.parts.index_texts import OVERLAP, SEARCHED, SIZE, split_chunks


def test_a_short_text_is_one_chunk_and_no_text_is_none() -> None:
    assert split_chunks("") == []
    assert split_chunks("tea") == ["tea"]
    assert split_chunks("x" * SIZE) == ["x" * SIZE]
    assert len(split_chunks("x" * (SIZE + 1))) == 2


@given(st.lists(st.integers(1, SIZE * 2), max_size=12), st.integers(1, 3))
def test_no_chunk_is_too_long_and_nothing_but_space_is_left_out(lengths: list[int], spaces: int) -> None:
    letters = map(chr, itertools.count(0x4E00))  # each once, so that a chunk has one place
    text = (" " * spaces).join("".join(itertools.islice(letters, length)) for length in lengths)
    at = 0
    for chunk in split_chunks(text):
        start = text.index(chunk)
        assert 0 < len(chunk) <= SIZE
        assert at - OVERLAP <= start
        assert not text[at:start].strip()
        at = start + len(chunk)
    assert at == len(text)


@given(st.lists(st.text("abcdefgh", min_size=1, max_size=SEARCHED // 4), min_size=1, max_size=200))
def test_words_are_never_cut_where_there_are_spaces(words: list[str]) -> None:
    text = " ".join(words)
    for chunk in split_chunks(text):
        assert set(chunk.split()) <= set(words)


def test_neighbours_share_what_stands_at_their_border() -> None:
    text = " ".join(f"word{number}" for number in range(1000))
    cut = split_chunks(text)
    for before, after in itertools.pairwise(cut):
        shared = max(size for size in range(OVERLAP + 1) if before.endswith(after[:size]))
        assert OVERLAP - len(" word999") <= shared <= OVERLAP


def test_a_text_without_spaces_is_cut_by_its_length() -> None:
    text = "".join(chr(0x4E00 + number) for number in range(2000))
    cut = split_chunks(text)
    assert [len(chunk) for chunk in cut] == [SIZE, SIZE, 2000 - 2 * (SIZE - OVERLAP)]
    assert cut[1] == text[SIZE - OVERLAP : 2 * SIZE - OVERLAP]


def test_a_cut_looks_back_for_a_space_only_so_far() -> None:
    far = "x" * (SIZE - SEARCHED - 1) + " " + "y" * SIZE
    assert len(split_chunks(far)[0]) == SIZE
    near = "x" * (SIZE - SEARCHED) + " " + "y" * SIZE
    assert split_chunks(near)[0] == "x" * (SIZE - SEARCHED)


def test_any_white_space_will_do() -> None:
    for space in "\n\t\u3000\u00a0":
        cut = split_chunks("a" * 700 + space + "b" * 700)
        assert cut[0] == "a" * 700
        assert not regex.search(r"\S\s\S", cut[0])
