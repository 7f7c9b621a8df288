"""Which two entries say the same, and which give another value for the same thing."""

import pytest
from entry_pairs import Pair, read_pairs

from layerlore.memory.language.statements import contradicts, is_other_value, says_same


@pytest.mark.parametrize("pair", read_pairs("different"))
def test_two_facts_are_never_taken_for_one(pair: Pair) -> None:
    first, second = pair
    assert not says_same(first, second)
    assert not says_same(second, first)


def test_most_repetitions_are_recognised() -> None:
    pairs = read_pairs("same")
    recognised = [pair for pair in pairs if says_same(*pair) and says_same(*reversed(pair))]
    assert len(recognised) >= 0.8 * len(pairs)


@pytest.mark.parametrize("pair", read_pairs("other subject"))
def test_statements_about_two_subjects_do_not_contradict_each_other(pair: Pair) -> None:
    first, second = pair
    assert not contradicts(first, second)
    assert not contradicts(second, first)


@pytest.mark.parametrize(
    ("new", "known"),
    [
        ("Ana lives in Linz.", "Ana lives in Graz."),
        ("The user lives in Linz.", "I live in Graz."),
        ("The user works at Bosch.", "The user works at Siemens."),
        ("The gate code is 1234.", "The gate code is 4711."),
        ("The user's dentist is Dr. Vogt.", "The user's dentist is Dr. Maier."),
        ("The deadline is 28 September.", "The deadline is 30 September."),
        ("Ticket 4711 is assigned to Ana.", "Ticket 4711 is assigned to Ben."),
        ("Ana wohnt in Linz.", "Ana wohnt in Graz."),
        ("用户住在上海。", "用户住在北京。"),
        ("The laptop does not reach the printer.", "The laptop reaches the printer."),
        ("Пользователь живёт в Казани.", "Пользователь живёт в Москве."),
    ],
)
def test_another_value_of_the_same_contradicts(new: str, known: str) -> None:
    assert contradicts(new, known)
    assert contradicts(known, new)


@pytest.mark.parametrize(
    ("new", "known"),
    [
        ("Ana lives in Graz.", "Ana lives in Graz since 2020."),
        ("The user lives in Graz.", "Ana lives in Graz."),
        ("Ana likes tea.", "The deployment failed."),
        ("The user does not live in Linz.", "The user does not live in Graz."),
    ],
)
def test_more_of_the_same_contradicts_nothing(new: str, known: str) -> None:
    assert not contradicts(new, known)
    assert not contradicts(known, new)


@pytest.mark.parametrize(
    ("new", "known"),
    [
        ("The user lives in Linz.", "The user lives in Graz."),
        ("The user now lives in Linz.", "The user lives in Graz."),
        ("The user works at Bosch.", "The user works at Siemens."),
        ("The project deploys with Kamal.", "The project deploys with Docker."),
        ("The project deploys with Kamal, not Docker.", "The project deploys with Docker."),
        ("The meeting is on Friday instead of Monday.", "The meeting is on Monday."),
        ("Flight is TP 537 on 2026-09-30 (not the 29th)", "Flight is TP 537 on 2026-09-29"),
    ],
)
def test_a_correction_gives_another_value_for_the_same(new: str, known: str) -> None:
    assert is_other_value(new, known)


@pytest.mark.parametrize(
    ("new", "known"),
    [
        ("Flight is TP 537 on 2026-09-30 (not the 29th)", "The move to Lisbon is on 28 September"),
        ("Ticket 4712 is assigned to Ben.", "Ticket 4711 is assigned to Ana."),
        ("Ticket 4712 is assigned to Ana.", "Ticket 4711 is assigned to Ana."),
        ("The user has a car.", "The user has a dog."),
        ("The user has two children.", "The user has a dog."),
        ("The user likes coffee.", "The user likes tea."),
    ],
)
def test_a_correction_has_no_part_in_entries_about_something_else(new: str, known: str) -> None:
    assert not is_other_value(new, known)
