"""Relevance: from 0 to 1, growing with what speaks for an answer."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.embedding.relevance import (
    ANY_EMBEDDER,
    LEXICAL,
    MINILM_ENGLISH,
    USE_MULTILINGUAL,
    Calibration,
    RelevanceEvidence,
    measure_standing,
    measure_unknown,
)
from layerlore.memory.settings.context_settings import RecallRules

RULES = RecallRules()
NEAR = 0.1
"""A relevance that only what is near in meaning reaches without a common word."""
SHARE = st.floats(0, 1)
EVIDENCE = st.builds(
    RelevanceEvidence,
    coverage=SHARE,
    cosine=SHARE,
    nearest=SHARE,
    standing=st.floats(0, 50),
    unknown=SHARE,
    unheard=SHARE,
    rows=st.integers(0, 10**9),
)


def _evidence(coverage: float, cosine: float, standing: float, unknown: float, rows: int) -> RelevanceEvidence:
    """The nearest leads, and unknown words weigh what others do."""
    return RelevanceEvidence(coverage, cosine, cosine, standing, unknown, unknown, rows)


EMBEDDED = pytest.mark.parametrize("calibration", [USE_MULTILINGUAL, MINILM_ENGLISH])
EVERY = pytest.mark.parametrize("calibration", [LEXICAL, ANY_EMBEDDER, USE_MULTILINGUAL, MINILM_ENGLISH])


@EVERY
@given(evidence=EVIDENCE, more=SHARE)
def test_relevance_is_a_share_and_grows_with_words_and_nearness(
    calibration: Calibration, evidence: RelevanceEvidence, more: float
) -> None:
    relevance = calibration.relevance(evidence)
    assert 0 <= relevance <= 1
    for better in (
        replace(evidence, coverage=max(evidence.coverage, more)),
        replace(evidence, cosine=max(evidence.cosine, more)),
        replace(evidence, nearest=max(evidence.nearest, more)),
        replace(evidence, standing=evidence.standing + more),
    ):
        assert calibration.relevance(better) >= relevance
    assert calibration.relevance(replace(evidence, rows=evidence.rows * 2)) <= relevance


@EVERY
def test_an_answer_with_all_the_words_is_relevant_and_one_with_a_stray_word_is_not(calibration: Calibration) -> None:
    sure = RULES.sure if calibration in (USE_MULTILINGUAL, MINILM_ENGLISH) else RULES.lexical_sure
    for rows in (3, 500, 20_000):
        assert calibration.relevance(_evidence(1.0, 0.55, 3, 0, rows)) > sure
        assert calibration.relevance(_evidence(0.1, 0.1, 1, 0.75, rows)) < sure


@EMBEDDED
def test_an_answer_that_shares_no_word_is_relevant_when_it_is_near_enough(calibration: Calibration) -> None:
    """The larger the store, the nearer: the best of many is near by chance."""
    assert calibration.relevance(_evidence(0, 0.5, 6, 1, 1000)) > NEAR
    assert calibration.relevance(_evidence(0, 0.05, 4, 1, 1000)) < NEAR


def test_questions_in_another_language_pass_with_the_cosines_that_they_have() -> None:
    """Measured of German, Spanish, Japanese and Chinese questions about English facts: the middle of those that have an
    answer, and of those that have none."""
    measured = ((12, (0.42, 2.9), (0.12, 1.8)), (27, (0.42, 4.1), (0.15, 2.3)), (500, (0.46, 6.9), (0.26, 4.0)))
    for rows, (present, stands_out), (absent, stands_in) in measured:
        assert USE_MULTILINGUAL.relevance(_evidence(0, present, stands_out, 1, rows)) > NEAR
        assert USE_MULTILINGUAL.relevance(_evidence(0, absent, stands_in, 1, rows)) < RULES.sure


def test_of_an_unknown_model_only_that_one_stands_out_counts() -> None:
    near = _evidence(0, 0.95, 1.0, 1, 500)
    assert ANY_EMBEDDER.relevance(near) < RULES.lexical_sure
    assert ANY_EMBEDDER.relevance(replace(near, standing=8.0)) > RULES.lexical_sure


@given(st.lists(st.floats(-1, 1), max_size=30), st.floats(0.1, 0.9), st.floats(-0.5, 0.5))
def test_standing_out_has_no_unit(values: list[float], scale: float, shift: float) -> None:
    cosines = np.array(values, np.float64)
    assert measure_standing(cosines) >= 0
    if len(values) > 1 and cosines.std() > 1e-3:
        assert measure_standing(cosines * scale + shift) == pytest.approx(measure_standing(cosines), rel=1e-3)


def test_equal_or_few_cosines_do_not_stand_out() -> None:
    assert (
        measure_standing(np.empty(0))
        == measure_standing(np.array([0.7]))
        == measure_standing(np.array([0.7, 0.7]))
        == 0
    )


def test_unknown_are_the_words_without_a_row_by_number_and_by_weight() -> None:
    assert measure_unknown([0, 3, 0, 1], [4.0, 1.0, 4.0, 1.0]) == (0.5, 0.8)
    assert measure_unknown([], []) == (0, 0)
