"""The block of observations only grows until a reflection, keeps to its budget, and holds what is critical."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from layerlore.memory.observations.observation_text import CLOSING, render_line, render_observations
from layerlore.memory.parts.tokens import load_counter
from layerlore.memory.text.echoes import strip_echoes
from layerlore.memory.text.quotation import MARK
from layerlore.storage.derived.observations import MARKERS, Observation

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
    trust: str = "assistant",
) -> Observation:
    tokens = COUNTER.text(render_line(marker, said_at, text, refers_to, child=parent is not None) + "\n")
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
        trust,
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
    text = render_observations(rows, COUNTER)
    assert text.startswith(f"<observations>\n<description>\n{MARK} Notes on the earlier part")
    assert text.endswith(CLOSING)
    assert text.removesuffix(CLOSING).partition("<value>\n")[2].splitlines() == [
        "2025-06-16",
        "- [important] 12:00 Asked for tea",
        "  - two cups",
        "2025-06-17",
        "- [critical] 01:00 Moved it (about 2025-07-01)",
    ]
    assert strip_echoes(f"{text}\nhello") == "hello"


def test_without_observations_there_is_no_block() -> None:
    assert render_observations([], COUNTER) == ""


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
    before = render_observations(rows[: len(earlier)], COUNTER).removesuffix(CLOSING).encode()
    assert render_observations(rows, COUNTER).encode().startswith(before)


@settings(max_examples=200, deadline=None)
@given(st.lists(notes, max_size=30), st.integers(1, 600))
def test_a_block_keeps_to_its_budget_and_has_the_newest(drawn: list[tuple[str, str, int, bool]], most: int) -> None:
    rows = made(drawn)
    text = render_observations(rows, COUNTER, most)
    assert COUNTER.text(text) <= most
    if COUNTER.text(render_observations(rows, COUNTER)) <= most:
        assert COUNTER.text(text) <= COUNTER.text(render_observations(rows, COUNTER))


def test_of_extracts_those_stay_that_tell_the_most_for_their_length() -> None:
    texts = [f"assistant: I looked at it again and it seems to be fine, number {id_}." for id_ in range(2, 60)]
    texts[10] = "user: The account is A-88120 of Hartmann GmbH."
    texts[20] = "assistant: create_ticket(title=host) -> ok: Created OPS-4431."
    rows = [replace(row(id_, text, trust=text.partition(":")[0]), prompt="digest/2") for id_, text in enumerate(texts)]
    text = render_observations(rows, COUNTER, 160)
    assert "A-88120" in text
    assert "OPS-4431" in text


def test_within_a_budget_what_a_user_said_and_what_is_critical_stays_and_then_the_newest() -> None:
    rows = [row(1, "never use port 8080", marker="critical", trust="user")]
    rows += [row(id_, f"note {id_} on the tea that was ordered from the shop in Lima") for id_ in range(2, 120)]
    rows.insert(40, row(200, "the host is down", marker="critical"))
    before: set[str] = set()
    for most in range(150, 2000, 50):
        text = render_observations(rows, COUNTER, most)
        assert COUNTER.text(text) <= most
        assert "never use port 8080" in text
        assert "the host is down" in text
        assert before <= {*text.splitlines()}, "more room never shows less"
        before = {*text.splitlines()}
    assert "note 119 on" in render_observations(rows, COUNTER, 300)
