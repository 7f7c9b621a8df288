"""The written cases of evidence are what they say they are: a case that is malformed would measure nothing."""

from collections import Counter
from typing import Any

import pytest
from evidence_cases import EVIDENCE_CASES

_NEEDED = {"name", "verdict", "target", "why", "thread", "entry", "evidence"}
_KINDS = {"preference", "decision", "fact", "correction", "explicit_remember"}
_SOURCES = {"user_assertion", "user_accepted_assistant_proposal", "verified_assistant_finding"}


def test_a_hundred_cases_are_to_be_refused_and_sixty_kept_and_each_has_its_own_name() -> None:
    assert Counter(case["verdict"] for case in EVIDENCE_CASES) == {"refuse": 100, "keep": 60}
    assert len({case["name"] for case in EVIDENCE_CASES}) == 160


@pytest.mark.parametrize("verdict", ["refuse", "keep"])
def test_at_least_twenty_of_each_verdict_are_profile_lines(verdict: str) -> None:
    targets = Counter(case["target"] for case in EVIDENCE_CASES if case["verdict"] == verdict)
    assert set(targets) == {"entry", "profile"}
    assert targets["profile"] >= 20


@pytest.mark.parametrize("case", EVIDENCE_CASES, ids=lambda case: case["name"])
def test_a_case_is_whole_and_its_quote_stands_word_for_word_in_a_message(case: dict[str, Any]) -> None:
    assert _NEEDED <= set(case) <= _NEEDED | {"kind", "source"}
    assert case["name"]
    assert case["why"]
    assert case["entry"]
    assert case["evidence"]
    assert case.get("kind", "fact") in _KINDS
    assert case.get("source", "user_assertion") in _SOURCES
    assert 1 <= len(case["thread"]) <= 5
    assert {message["role"] for message in case["thread"]} <= {"system", "user", "assistant", "tool"}
    assert any(case["evidence"] in message["content"] for message in case["thread"])
