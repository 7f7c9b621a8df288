"""Ranking by shared words: pure, and independent of how the rows came."""

import math

from hypothesis import given
from hypothesis import strategies as st

from memstrata.memory.ranking import best, idf, lexical, merged

POSTINGS = st.dictionaries(
    st.text("abc", min_size=1, max_size=3), st.lists(st.integers(1, 40), unique=True, max_size=40), max_size=6
)
SCORES = st.dictionaries(st.integers(1, 40), st.floats(0.01, 1), max_size=20)


@given(count=st.integers(0, 1000), rows=st.integers(0, 1000))
def test_rarer_words_weigh_more_and_none_weighs_nothing(count: int, rows: int) -> None:
    assert idf(count, rows) > 0
    assert idf(count + 1, rows) <= idf(count, rows)
    assert math.isfinite(idf(count, rows))


def test_a_row_scores_the_sum_of_what_its_words_weigh() -> None:
    scores = lexical({"saffron": [3], "tea": [1, 2, 3], "noon": [2]}, 100)
    rare, common = idf(1, 100), idf(3, 100)
    assert scores == {1: common / (common + rare), 2: 1.0, 3: 1.0}


def test_no_row_has_no_score() -> None:
    assert lexical({}, 0) == {}
    assert lexical({"tea": []}, 10) == {}


@given(postings=POSTINGS, rows=st.integers(0, 60), order=st.randoms())
def test_the_order_of_words_and_rows_changes_nothing(postings: dict[str, list[int]], rows: int, order: object) -> None:
    shuffled = list(postings.items())
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    scores = lexical(postings, rows)
    assert lexical({word: found[::-1] for word, found in shuffled}, rows) == scores
    assert scores.keys() == {row for found in postings.values() for row in found}
    assert all(0 < score <= 1 for score in scores.values())
    assert not scores or max(scores.values()) == 1


@given(POSTINGS)
def test_a_row_with_more_of_the_words_is_never_behind_one_with_fewer_of_them(postings: dict[str, list[int]]) -> None:
    scores = lexical(postings, 50)
    words = {row: {word for word in postings if row in postings[word]} for row in scores}
    for one in scores:
        for other in scores:
            if words[one] > words[other]:
                assert scores[one] > scores[other]
            if words[one] == words[other]:
                assert scores[one] == scores[other]


@given(st.lists(SCORES, max_size=4))
def test_a_row_of_several_queries_counts_with_its_best_score(each: list[dict[int, float]]) -> None:
    rows = {row for scores in each for row in scores}
    assert merged(each) == {row: max(scores.get(row, 0) for scores in each) for row in rows}


@given(scores=SCORES, count=st.integers(0, 25))
def test_the_best_come_first_and_of_equal_ones_the_newest(scores: dict[int, float], count: int) -> None:
    ordered = sorted(scores.items(), key=lambda row: (-row[1], -row[0]))
    assert best(scores, count) == ordered[:count]


def test_equal_scores_go_to_the_higher_row() -> None:
    assert best({1: 0.5, 3: 0.5, 2: 0.5, 4: 0.1}, 3) == [(3, 0.5), (2, 0.5), (1, 0.5)]
