"""The newest messages of a thread in a budget: with more of it no message is shown less, and where they begin settles."""

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from layerlore.memory.window.steady import find_settled_start, find_unit_starts
from layerlore.memory.window.view import RunFitter
from layerlore.storage.core.records import Message

from ..window_threads import ROUGH, cost, message, newest_user_seq, seqs, shows_no_less, spoken, threads

THREADS = threads()


def sized(*sizes: int, users: tuple[int, ...] = ()) -> list[Message]:
    """Messages of so many tokens; those at the places ``users`` are the user's."""
    return [
        message(at + 1, "user" if at in users else "assistant", "abcd" * (size - 4)) for at, size in enumerate(sizes)
    ]


def fitted(thread: Sequence[Message], budget: int, floor: int = 3) -> list[Message]:
    fitter = RunFitter(thread, ROUGH, floor=floor, overhead=2, weigh=lambda each: each)
    return [*fitter.fit(budget).messages]


def settled(thread: Sequence[Message], budget: int, floor: int = 1) -> int:
    return find_settled_start(thread, budget, floor=floor, overhead=0)


def test_older_messages_follow_and_the_first_that_does_not_fit_is_cut() -> None:
    thread = sized(50, 50, 400, 30, 30, 30)
    kept = RunFitter(thread, ROUGH, floor=2, overhead=0, weigh=lambda each: each).fit(300)
    assert (seqs(kept.messages), kept.shortened) == ([3, 4, 5, 6], (3,))
    assert 280 <= cost(kept.messages) <= 300


def test_a_users_messages_are_whole_while_others_are_cut() -> None:
    thread = sized(60, 400, 60, 400, 400, users=(0, 2))
    kept = fitted(thread, 500, floor=5)
    assert [each.tokens for each in kept if each.role == "user"] == [60, 60]
    assert all(each.tokens < 400 for each in kept if each.role != "user")


def test_of_equal_ones_the_newest_is_cut_least() -> None:
    kept = fitted(sized(300, 300, 300), 500)
    assert [each.tokens for each in kept] == sorted(each.tokens for each in kept)
    assert kept[-1].tokens >= 200


@given(thread=THREADS, budget=st.integers(0, 600), floor=st.integers(1, 6))
def test_the_rules_of_every_run(thread: list[Message], budget: int, floor: int) -> None:
    kept = fitted(thread, budget, floor)
    assert seqs(kept) == sorted({*seqs(kept)})
    request = newest_user_seq(thread)
    assert not thread or kept, "the newest message is always in"
    assert request is None or request in seqs(kept) or cost(kept) + 2 * len(kept) > budget - 60
    if budget >= 60:
        assert cost(kept) + 2 * len(kept) <= budget
    if cost(thread) + 2 * len(thread) <= budget:
        assert kept == thread


@given(thread=THREADS, budget=st.integers(100, 600), more=st.integers(0, 300), floor=st.integers(1, 6))
def test_a_larger_budget_never_loses_a_message(thread: list[Message], budget: int, more: int, floor: int) -> None:
    assert {*seqs(fitted(thread, budget, floor))} <= {*seqs(fitted(thread, budget + more, floor))}


# The two newest beside the user's at their least, 40 tokens and 2 each, in the quarter that the user's leaves.
ROOM_FOR_NEWEST = 336


@given(
    sizes=st.lists(st.integers(5, 300), min_size=1, max_size=12),
    budget=st.integers(ROOM_FOR_NEWEST, 900),
    more=st.integers(0, 500),
)
def test_a_larger_budget_that_has_room_for_the_newest_shows_no_less_of_a_text(
    sizes: list[int], budget: int, more: int
) -> None:
    thread = sized(*sizes, users=tuple(range(0, len(sizes), 3)))
    larger = {each.seq: each for each in fitted(thread, budget + more)}
    assert all(shows_no_less(larger[each.seq], each) for each in fitted(thread, budget))


@given(thread=THREADS)
def test_a_unit_has_its_calls_with_their_results(thread: list[Message]) -> None:
    starts = find_unit_starts(thread)
    assert not thread or starts[0] == 0
    for begin in starts:
        called = {part["id"] for each in thread[:begin] for part in each.parts if part["type"] == "tool_call"}
        again = {part["id"] for each in thread[begin:] for part in each.parts if part["type"] == "tool_call"}
        answered = [
            part["tool_call_id"] for each in thread[begin:] for part in each.parts if part["type"] == "tool_result"
        ]
        assert not {id_ for id_ in answered if id_ in called - again}


def test_a_start_stays_while_the_thread_grows() -> None:
    thread = spoken(*(f"message {number:03}" for number in range(200)))
    size = thread[0].tokens
    starts = [settled(thread[:length], 40 * size) for length in range(60, 200)]
    assert len({*starts}) < 140 // 8
    assert starts == sorted(starts)
    lengths = [length - start + 1 for length, start in enumerate(starts, 60)]
    assert max(lengths) <= 40


def test_a_start_is_the_same_whatever_is_given_before_it() -> None:
    thread = sized(*[10, 30, 7, 55, 12] * 12)
    for length in range(30, 60):
        whole = settled(thread[:length], 300)
        for given_from in range(1, 8):
            assert settled(thread[given_from:length], 300) == whole


@example(sizes=[4, 4, 40, 60, 29, 60, 60], budget=149, more=107)
@given(
    sizes=st.lists(st.integers(4, 60), min_size=1, max_size=40), budget=st.integers(1, 900), more=st.integers(0, 600)
)
def test_with_a_larger_budget_it_begins_no_later(sizes: list[int], budget: int, more: int) -> None:
    thread = sized(*sizes)
    begin = settled(thread, budget)
    assert cost([each for each in thread if each.seq >= begin]) <= budget
    assert settled(thread, budget + more) <= begin
