"""The check of histories finds what a correct store never does, and a short run under kills has nothing of it."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.histories.__main__ import main
from benchmarks.histories.models import find_faults
from benchmarks.histories.operations import Operation, read_operations, write_operation

PLACE = "messages/t"


def add(began: float, ended: float, *items: str, at: int = 0, **given: Any) -> Operation:
    """``at``: the first position that the answer names."""
    positions = tuple(range(at, at + len(items))) if at else ()
    return Operation("a", "add", PLACE, began, ended, items=items, positions=positions, **given)


def read(began: float, ended: float, *items: str) -> Operation:
    return Operation("b", "read", PLACE, began, ended, items=items, number=len(items))


def count(began: float, ended: float, number: int, place: str = PLACE) -> Operation:
    return Operation("c", "count", place, began, ended, number=number)


def find(began: float, ended: float, item: str, *, found: bool) -> Operation:
    return Operation("d", "find", "messages", began, ended, items=(item,), number=int(found))


CORRECT = [
    add(0, 1, "one", "two", at=1),
    add(2, 5, "three", at=3),
    # No answer came: this one took effect before the next.
    add(2, 3, "four", outcome="unsure"),
    add(6, 7, "never", outcome="failed"),
    add(6, 7, "lost on the way", outcome="unsure"),
    add(8, 9, "five", at=5),
    read(0, 2, "one", "two"),
    read(3, 4, "one", "two"),
    read(3, 6, "one", "two", "three"),
    read(10, 11, "one", "two", "three", "four", "five"),
    count(3, 4, 3),
    count(10, 11, 5),
    count(10, 11, 5, "messages"),
    find(3, 4, "three", found=False),
    find(3, 4, "two", found=True),
    find(10, 11, "five", found=True),
]


def test_a_history_with_unsure_and_overlapping_operations_of_a_correct_store_has_no_fault() -> None:
    assert find_faults(CORRECT) == []


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        pytest.param([add(8, 9, "six")], "'six' was acknowledged and is not in 1 later reads", id="a lost add"),
        pytest.param(
            [read(12, 13, "one", "two", "three", "four", "five", "five")],
            "'five' was stored 2 times",
            id="a doubled add",
        ),
        pytest.param([read(10, 11, "one", "two", "three")], "'five' was acknowledged and is not in", id="a stale read"),
        pytest.param(
            [read(12, 13, "one", "two", "three", "four")],
            "read 4 items after another had read 5",
            id="a read back in time",
        ),
        pytest.param(
            [read(12, 13, "one", "two", "four", "three", "five")], "read 'four' where another read", id="two orders"
        ),
        pytest.param(
            [read(5, 5.5, "one", "two", "three", "four", "five")], "'five' was read before it was sent", id="future"
        ),
        pytest.param(
            [read(12, 13, "one", "two", "three", "four", "five", "never")],
            "'never' was refused, and stored",
            id="refused",
        ),
        pytest.param(
            [read(12, 13, "one", "two", "three", "four", "five", "nobody's")], "was read and never sent", id="a phantom"
        ),
        pytest.param([add(8, 9, "two", at=4)], "'two' was acknowledged at 4 and stands at 2", id="a wrong position"),
        pytest.param(
            [add(12, 13, "six", "seven"), read(14, 15, "one", "two", "three", "four", "five", "six")],
            "'seven' was acknowledged and is not in",
            id="half an add",
        ),
        pytest.param(
            [add(12, 13, "six", "seven"), read(14, 15, "one", "two", "three", "four", "five", "seven", "six")],
            "stand at [7, 6]",
            id="an add in another order",
        ),
        pytest.param(
            [replace(read(12, 13, "one", "two", "three", "four", "five"), number=6)], "the answer calls 6", id="a size"
        ),
        pytest.param([count(12, 13, 4)], "counted 4, which must be between 5 and", id="a count without an add"),
        pytest.param([count(12, 13, 7)], "which must be between 5 and 6", id="a count too high"),
        pytest.param([count(12, 13, 4, "messages")], "counted 4, which must be between 5 and", id="a count of all"),
        pytest.param([count(12, 13, 6), count(14, 15, 5)], "counted 5 after another had counted 6", id="a count back"),
        pytest.param([find(10, 11, "five", found=False)], "did not find 'five'", id="a search without an add"),
        pytest.param([find(1, 2, "five", found=True)], "found 'five', which nobody had added", id="a search ahead"),
        pytest.param([find(10, 11, "never", found=True)], "found 'never', which nobody had added", id="a refused one"),
    ],
)
def test_a_history_that_no_correct_store_has_names_its_fault(wrong: list[Operation], fault: str) -> None:
    found = find_faults([*CORRECT, *wrong])
    assert any(fault in each for each in found), found


def test_an_add_that_stands_before_an_earlier_one_is_a_fault() -> None:
    history = [add(0, 1, "one"), add(2, 3, "two"), read(4, 5, "two", "one")]
    assert find_faults(history) == [f"{PLACE}: 'two' stands before what was acknowledged before it was sent"]


def test_places_have_nothing_to_do_with_each_other() -> None:
    elsewhere = [replace(each, place="messages/u", items=tuple(f"{item}'" for item in each.items)) for each in CORRECT]
    own = [each for each in elsewhere if each.action in ("add", "read")]
    history = [each for each in CORRECT if each.place == PLACE]
    assert find_faults([*history, *own]) == []


def test_operations_are_read_as_they_were_written(tmp_path: Path) -> None:
    operations = [*CORRECT, add(1, math.inf, "ü", outcome="unsure")]
    with (tmp_path / "history.jsonl").open("w", encoding="utf-8") as file:
        for operation in operations:
            write_operation(file, operation)
    assert read_operations(tmp_path / "history.jsonl") == operations


@pytest.mark.soak
@pytest.mark.parametrize("database", ["postgres", "sqlite"])
def test_replicas_that_are_killed_and_frozen_behave_as_one_correct_store(
    database: str, request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = request.getfixturevalue("postgres_url") if database == "postgres" else "sqlite"
    code = main(["--operations", "600", "--database", url, "--folder", str(tmp_path)])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert "SIG" in printed
