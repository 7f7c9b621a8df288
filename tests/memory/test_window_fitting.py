"""Budgets of tokens: what fits, what is cut, and what must be in whatever it costs."""

import time

from hypothesis import example, given
from hypothesis import strategies as st

from layerlore.memory.reading import CUT_MARK
from layerlore.memory.tokens import TokenCounter
from layerlore.memory.window.fitting import FEWEST, aligned, fitted
from layerlore.memory.window.levels import level
from layerlore.storage.records import Message

from .window_threads import COUNTERS, ROUGH, cost, message, newest_user_seq, seqs, spoken, threads


def sized(*sizes: int, users: tuple[int, ...] = ()) -> list[Message]:
    """Messages of so many tokens; those at the places ``users`` are the user's."""
    return [
        message(at + 1, "user" if at in users else "assistant", "abcd" * (size - 4)) for at, size in enumerate(sizes)
    ]


def of_counter(thread: list[Message], counter: TokenCounter) -> list[Message]:
    return [message(each.seq, each.role, *each.parts, counter=counter) for each in thread]


def test_what_fits_as_a_whole_stays_as_it_is() -> None:
    thread = spoken("one", "two", "three")
    assert fitted(thread, cost(thread), ROUGH).messages == tuple(thread)
    assert fitted([], 10, ROUGH).messages == ()


def test_the_oldest_fall_out_and_nothing_older_than_what_did_not_fit_is_in() -> None:
    thread = sized(10, 100, 30, 30, users=(3,))
    assert seqs(fitted(thread, 90, ROUGH).messages) == [3, 4]
    assert seqs(fitted(thread, 90, ROUGH, overhead=20).messages) == [4]


def test_no_single_long_message_empties_the_window() -> None:
    thread = sized(10, 500, 30, users=(2,))
    kept = fitted(thread, 100, ROUGH)
    assert (seqs(kept.messages), kept.shortened) == ([2, 3], (2,))
    assert cost(kept.messages) == 100
    assert seqs(fitted(sized(10, 500, 60, users=(2,)), 100, ROUGH).messages) == [3]


def test_the_newest_user_message_is_in_however_old_it_is() -> None:
    thread = sized(10, 20, 30, 30, 30, 30, users=(1,))
    assert seqs(fitted(thread, 90, ROUGH).messages) == [2, 5, 6]


def test_those_that_must_be_in_are_cut_to_the_same_size() -> None:
    kept = fitted(sized(300, 30, 300, users=(0,)), 230, ROUGH, keep_newest=2)
    assert [each.tokens for each in kept.messages] == [100, 30, 100]
    assert kept.shortened == (1, 3)
    assert all(each.parts[0]["text"].endswith(CUT_MARK) for each in (kept.messages[0], kept.messages[2]))


def test_where_shares_are_too_small_the_oldest_of_them_goes_but_never_the_users() -> None:
    thread = sized(300, 300, 300, users=(0,))
    assert seqs(fitted(thread, 3 * FEWEST, ROUGH, keep_newest=2).messages) == [1, 2, 3]
    assert seqs(fitted(thread, 3 * FEWEST - 1, ROUGH, keep_newest=2).messages) == [1, 3]
    assert seqs(fitted(thread, 2 * FEWEST - 1, ROUGH, keep_newest=2).messages) == [1]


def test_many_that_must_be_in_and_have_no_room_go_without_being_tried_one_by_one() -> None:
    thread = sized(*[60] * 20_000, users=(0,))
    began = time.process_time()
    kept = fitted(thread, 100 * FEWEST, ROUGH, keep_newest=len(thread))
    assert time.process_time() - began < 2
    assert seqs(kept.messages) == [1, *range(20_000 - 98, 20_001)]


def test_one_message_larger_than_the_budget_is_cut() -> None:
    kept = fitted(sized(300, users=(0,)), 50, ROUGH)
    assert (cost(kept.messages), kept.shortened) == (50, (1,))


def test_the_newest_are_whole_beyond_a_budget_that_is_not_hard() -> None:
    thread = sized(20, 300, 300, users=(0,))
    kept = fitted(thread, 100, ROUGH, keep_newest=2, hard=False)
    assert [each.tokens for each in kept.messages] == [20, 300, 300]
    long_question = fitted(sized(400, 300, 300, users=(0,)), 100, ROUGH, keep_newest=2, hard=False)
    assert [each.tokens for each in long_question.messages] == [FEWEST, 300, 300]


def test_the_first_get_a_share_of_half_the_room_that_is_left() -> None:
    thread = sized(20, 200, *[30] * 8, users=(9,))
    kept = fitted(thread, 190, ROUGH, keep_first=2)
    # 160 are left by the newest: 40 for each of the first, then 100 for older ones.
    assert [(each.seq, each.tokens) for each in kept.messages] == [
        (1, 20),
        (2, 40),
        (7, 30),
        (8, 30),
        (9, 30),
        (10, 30),
    ]
    assert kept.shortened == (2,)


def test_the_first_get_more_where_all_others_fit() -> None:
    kept = fitted(sized(20, 200, 30, users=(2,)), 200, ROUGH, keep_first=2)
    assert [each.tokens for each in kept.messages] == [20, 150, 30]


def test_one_of_the_first_whose_share_says_nothing_is_left_out() -> None:
    thread = sized(300, *[30] * 5, users=(5,))
    assert seqs(fitted(thread, 70, ROUGH, keep_first=1).messages) == [6]
    assert seqs(fitted(thread, 80, ROUGH, keep_first=1).messages) == [1, 6]


def test_no_older_message_falls_out_when_the_shares_of_the_first_grow_by_a_token() -> None:
    thread = sized(300, 300, 300, *[5, 6, 7] * 20, users=(62,))
    before: set[int] = set()
    for budget in range(30, 1300):
        kept = set(seqs(fitted(thread, budget, ROUGH, keep_first=3).messages))
        assert before <= kept, budget
        before = kept


def test_a_predefined_question_is_not_the_users_newest() -> None:
    asked = message(0, "user", "abcd" * 26)
    assert seqs(fitted([asked, *sized(30, 30)], 60, ROUGH).messages) == [1, 2]


BUDGETS = st.integers(1, 3000)


@given(
    thread=threads(),
    budget=BUDGETS,
    more=st.integers(0, 600),
    keep_newest=st.integers(0, 3),
    keep_first=st.integers(0, 3),
    overhead=st.sampled_from([0, 6]),
    hard=st.booleans(),
    counter=COUNTERS,
)
def test_a_budget_is_kept_and_a_larger_one_holds_no_less(
    thread: list[Message],
    budget: int,
    more: int,
    keep_newest: int,
    keep_first: int,
    overhead: int,
    hard: bool,
    counter: TokenCounter,
) -> None:
    thread = of_counter(thread, counter)

    def within(tokens: int, of: list[Message] = thread) -> list[Message]:
        rules = {"keep_newest": keep_newest, "keep_first": keep_first, "overhead": overhead, "hard": hard}
        kept = fitted(of, tokens, counter, **rules)
        changed = {each.seq: each.parts for each in of}
        assert kept.shortened == tuple(each.seq for each in kept.messages if each.parts != changed[each.seq])
        return list(kept.messages)

    kept = within(budget)
    asked = newest_user_seq(thread)
    assert seqs(kept) == sorted(seqs(kept))
    assert within(budget, kept) == kept
    assert set(seqs(kept)) <= set(seqs(within(budget + more)))
    assert within(budget, thread) == kept
    if thread:
        assert asked is None or asked in seqs(kept)
        assert thread[-1].seq in seqs(kept) or budget < 2 * (FEWEST + overhead)
    if hard or not keep_newest:
        assert cost(kept, overhead) <= max(budget, 12 + overhead)
    else:
        newest = thread[-keep_newest:]
        assert [each for each in kept if each in newest] == newest
        assert cost(kept, overhead) <= max(budget, cost(newest, overhead) + FEWEST + overhead)


@given(costs=st.lists(st.integers(0, 100), max_size=8), budget=st.integers(0, 500))
def test_a_level_is_the_highest_that_fits(costs: list[int], budget: int) -> None:
    highest = level(costs, budget)
    assert sum(min(cost, highest) for cost in costs) <= budget
    if sum(costs) > budget:
        assert sum(min(cost, highest + 1) for cost in costs) > budget


def test_a_run_begins_at_the_grid_and_stays_there_while_the_thread_grows() -> None:
    thread = sized(*[10] * 60)
    begins = [aligned(thread[:length], 200, 0, 50) for length in range(1, 60)]
    assert begins[:20] == [0] * 20
    assert all(begin % 5 == 0 for begin in begins)
    assert len(set(begins)) == 9
    assert all(10 * (length - begin) > 150 for length, begin in enumerate(begins, 1) if begin)


def test_a_thread_of_which_older_messages_are_not_given_begins_at_the_same_places() -> None:
    thread = sized(*[10, 30, 7, 55, 12] * 12)
    for length in range(20, 60):
        whole = aligned(thread[:length], 300, 0, 80, overhead=3)
        for given_from in range(1, 10):
            before = cost(thread[:given_from])
            part = aligned(thread[given_from:length], 300, before, 80, overhead=3)
            assert thread[given_from:length][part] == thread[whole]


def test_where_no_place_of_the_grid_fits_the_longest_run_that_fits_is_taken() -> None:
    thread = sized(*[10] * 20)
    assert aligned(thread[3:], 45, 30, 1000) == 13
    assert aligned(sized(500), 45, 30, 1000) == 0
    assert aligned(sized(10, 500), 45, 0, 1000) == 1
    assert aligned([], 45, 0, 10) == 0


@given(
    sizes=st.lists(st.integers(4, 60), min_size=1, max_size=20),
    budget=st.integers(1, 400),
    grid=st.integers(1, 200),
    before=st.integers(0, 500),
)
@example(sizes=[4], budget=1, grid=1, before=0)
def test_a_run_fits_and_is_never_empty(sizes: list[int], budget: int, grid: int, before: int) -> None:
    thread = sized(*sizes)
    begin = aligned(thread, budget, before, grid)
    assert 0 <= begin < len(thread)
    assert cost(thread[begin:]) <= budget or begin == len(thread) - 1
