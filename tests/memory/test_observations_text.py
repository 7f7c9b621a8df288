"""The block of observations only grows until a reflection, keeps to its budget, and holds what is critical."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from layerlore.memory.blocks import MARK, without_blocks
from layerlore.memory.observations_text import CLOSING, block_of, cursor_of, line
from layerlore.memory.tokens import load_counter
from layerlore.storage.observations import MARKERS, Observation
from layerlore.storage.records import Thread

COUNTER = load_counter()
NOON = 1_750_075_200_000  # 2025-06-16 12:00 UTC
HOUR = 3_600_000


def row(
    id_: int,
    text: str,
    *,
    marker: str = "info",
    said_at: int = NOON,
    refers_to: str | None = None,
    parent: int | None = None,
) -> Observation:
    tokens = COUNTER.text(line(marker, said_at, text, refers_to, child=parent is not None) + "\n")
    return Observation(
        id_,
        marker,
        text,
        said_at,
        refers_to,
        id_,
        id_,
        tokens,
        parent,
        "active",
        None,
        "user",
        0,
        id_,
        "m",
        "p",
        0,  # type: ignore[arg-type]
    )


def test_notes_stand_by_day_with_their_times_and_what_is_under_them() -> None:
    rows = [
        row(1, "Asked for\ntea", marker="important"),
        row(2, "two cups", parent=1),
        row(3, "Moved it", said_at=NOON + 13 * HOUR, refers_to="2025-07-01", marker="critical"),
    ]
    text = block_of(rows, COUNTER)
    assert text.startswith(f"<observations>\n<description>\n{MARK} Notes on the earlier part")
    assert text.endswith(CLOSING)
    assert text.removesuffix(CLOSING).partition("<value>\n")[2].splitlines() == [
        "2025-06-16",
        "- [important] 12:00 Asked for tea",
        "  - two cups",
        "2025-06-17",
        "- [critical] 01:00 Moved it (about 2025-07-01)",
    ]
    assert without_blocks(f"{text}\nhello") == "hello"


def test_without_observations_there_is_no_block_and_no_cursor() -> None:
    thread = Thread("u", "main", None, observed_seq=7)
    assert (block_of([], COUNTER), cursor_of(thread, [])) == ("", 0)
    assert cursor_of(thread, [row(1, "x")]) == 7


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80)
notes = st.tuples(texts, st.sampled_from(MARKERS), st.integers(0, 72), st.booleans())


def made(drawn: Sequence[tuple[str, str, int, bool]]) -> list[Observation]:
    rows: list[Observation] = []
    for id_, (text, marker, hours, child) in enumerate(drawn, 1):
        parent = id_ - 1 if child and rows else None
        rows.append(row(id_, text, marker=marker, said_at=NOON + hours * HOUR, parent=parent))
    return rows


@settings(max_examples=200, deadline=None)
@given(st.lists(notes, min_size=1, max_size=12), st.lists(notes, max_size=12))
def test_an_earlier_block_is_a_byte_prefix_of_a_later_one(
    earlier: list[tuple[str, str, int, bool]], more: list[tuple[str, str, int, bool]]
) -> None:
    rows = made([*earlier, *more])
    before = block_of(rows[: len(earlier)], COUNTER).removesuffix(CLOSING).encode()
    assert block_of(rows, COUNTER).encode().startswith(before)


@settings(max_examples=200, deadline=None)
@given(st.lists(notes, max_size=30), st.integers(1, 600))
def test_a_block_keeps_to_its_budget_and_has_the_newest(drawn: list[tuple[str, str, int, bool]], most: int) -> None:
    rows = made(drawn)
    text = block_of(rows, COUNTER, most)
    assert COUNTER.text(text) <= most
    if COUNTER.text(block_of(rows, COUNTER)) <= most:
        assert COUNTER.text(text) <= COUNTER.text(block_of(rows, COUNTER))


def test_within_a_budget_the_block_also_grows_most_of_the_time_and_critical_notes_stay() -> None:
    rows = [row(1, "never use port 8080", marker="critical")]
    began = 0
    before = ""
    for id_ in range(2, 120):
        rows.append(row(id_, f"note {id_} on the tea that was ordered from the shop in Lima"))
        text = block_of(rows, COUNTER, 600)
        assert COUNTER.text(text) <= 600
        assert "never use port 8080" in text
        assert f"note {id_} on" in text
        began += not text.startswith(before.removesuffix(CLOSING))
        before = text
    # Of about 2,000 tokens; each new beginning leaves room for half the budget.
    assert 2 <= began <= 10
