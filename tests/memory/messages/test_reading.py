"""How one message is shown, and how it is cut to a budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.messages.reader import LOW_TEXT_CHARS, check_roles, cut_to_fit, show_message
from layerlore.memory.parts.tokens import CUT_MARK, load_counter
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Message

COUNTER = load_counter()


def message(text: str = "hello", *, name: str | None = None, metadata: dict[str, object] | None = None) -> Message:
    parts = [{"type": "text", "text": text}]
    return Message("main", 7, "m1", "user", name, parts, metadata or {}, 5, "o200k_base", 1_000, 2_000, 1)


def test_high_detail_is_everything_with_both_times() -> None:
    shown = show_message(message(name="ana", metadata={"k": 1}), "high")
    assert shown == {
        "id": "m1",
        "seq": 7,
        "role": "user",
        "name": "ana",
        "parts": [{"type": "text", "text": "hello"}],
        "said_at": "1970-01-01T00:00:02.000Z",
        "created_at": "1970-01-01T00:00:01.000Z",
        "metadata": {"k": 1},
        "tokens": 5,
    }
    assert show_message(message(), "high").keys() == shown.keys() - {"name", "metadata"}


def test_low_detail_is_a_line_and_a_cut_one_says_so() -> None:
    shown = show_message(message("x" * LOW_TEXT_CHARS), "low")
    assert shown == {
        "id": "m1",
        "seq": 7,
        "role": "user",
        "text": "x" * LOW_TEXT_CHARS,
        "said_at": "1970-01-01T00:00:02.000Z",
    }
    assert show_message(message("x" * (LOW_TEXT_CHARS + 1)), "low")["text"] == "x" * LOW_TEXT_CHARS + CUT_MARK


@given(text=st.text(st.characters(exclude_categories=["Cs"])), most=st.integers(0, 120))
def test_a_message_cut_to_fit_is_within_its_budget_and_the_beginning_of_its_text(text: str, most: int) -> None:
    entry = show_message(message(), "low")
    least = COUNTER.text(to_json({**entry, "text": CUT_MARK}))
    shown = cut_to_fit(COUNTER, entry, text * 20, most)
    assert shown["text"].endswith(CUT_MARK)
    assert (text * 20).startswith(shown["text"].removesuffix(CUT_MARK))
    assert COUNTER.text(to_json(shown)) <= max(most, least)


def test_a_cut_keeps_as_much_as_fits() -> None:
    entry = show_message(message(), "low")
    shown = cut_to_fit(COUNTER, entry, "word " * 1000, 200)
    assert COUNTER.text(to_json(shown)) == 200


def test_no_roles_mean_all_of_them_and_each_comes_once() -> None:
    assert check_roles([]) == ["system", "user", "assistant", "tool", "custom"]
    assert check_roles(["tool", "user", "tool"]) == ["user", "tool"]
    with pytest.raises(InvalidInput, match=r"unknown role 'uesr'; allowed: .*; did you mean 'user'\?"):
        check_roles(["uesr"])
