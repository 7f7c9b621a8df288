"""Budgets of tokens: what fits, what is cut, and what must be in whatever it costs."""

from dataclasses import replace

from growth import grows_in_step
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.parts.tokens import CUT_MARK, TokenCounter
from layerlore.memory.window.fit import FEWEST, find_level, find_newest_run, fit_messages
from layerlore.storage.core.records import Message

from ..window_threads import COUNTERS, ROUGH, cost, message, newest_user_seq, seqs, shows_no_less, spoken, threads


def sized(*sizes: int, users: tuple[int, ...] = ()) -> list[Message]:
    """Messages of so many tokens; those at the places ``users`` are the user's."""
    return [
        message(at + 1, "user" if at in users else "assistant", "abcd" * (size - 4)) for at, size in enumerate(sizes)
    ]


def of_counter(thread: list[Message], counter: TokenCounter) -> list[Message]:
    return [message(each.seq, each.role, *each.parts, counter=counter) for each in thread]


def test_what_fits_as_a_whole_stays_as_it_is() -> None:
    thread = spoken("one", "two", "three")
    assert fit_messages(thread, cost(thread), ROUGH).messages == tuple(thread)
    assert fit_messages([], 10, ROUGH).messages == ()


def test_the_oldest_fall_out_and_nothing_older_than_what_did_not_fit_is_in() -> None:
    thread = sized(10, 100, 30, 30, users=(3,))
    assert seqs(fit_messages(thread, 83, ROUGH).messages) == [3, 4]
    assert seqs(fit_messages(thread, 90, ROUGH, overhead=20).messages) == [4]


def test_no_single_long_message_empties_the_window() -> None:
    thread = sized(10, 500, 30, users=(2,))
    kept = fit_messages(thread, 100, ROUGH)
    assert (seqs(kept.messages), kept.shortened) == ([2, 3], (2,))
    assert cost(kept.messages) == 100
    assert [each.tokens for each in fit_messages(sized(10, 500, 76, users=(2,)), 100, ROUGH).messages] == [24, 76]
    assert seqs(fit_messages(sized(10, 500, 77, users=(2,)), 100, ROUGH).messages) == [3]


def test_a_message_that_was_cut_is_weighed_as_asked() -> None:
    kept = fit_messages(
        sized(10, 500, 30, users=(2,)), 100, ROUGH, weigh=lambda cut: replace(cut, tokens=cut.tokens + 7)
    )
    assert (seqs(kept.messages), kept.shortened) == ([2, 3], (2,))
    assert kept.messages[0].tokens == ROUGH.parts(kept.messages[0].parts) + 7
    assert cost(kept.messages) <= 100


def test_the_newest_user_message_is_in_however_old_it_is() -> None:
    thread = sized(10, 20, 30, 30, 30, 30, users=(1,))
    assert seqs(fit_messages(thread, 90, ROUGH).messages) == [2, 5, 6]


def test_of_those_that_must_be_in_the_users_are_cut_to_one_size_and_the_others_to_another() -> None:
    thread = sized(300, 30, 300, 300, 12, 300, users=(0, 1, 2))
    kept = fit_messages(thread, 600, ROUGH, keep_newest=6)
    assert [each.tokens for each in kept.messages] == [210, 30, 210, 69, 12, 69]
    assert kept.shortened == (1, 3, 4, 6)
    assert all(each.parts[0]["text"].endswith(CUT_MARK) for each in kept.messages if each.seq in kept.shortened)


def test_the_users_message_is_whole_where_it_takes_no_more_than_three_quarters() -> None:
    thread = sized(300, 700, users=(0,))
    assert [each.tokens for each in fit_messages(thread, 400, ROUGH).messages] == [300, 100]
    assert [each.tokens for each in fit_messages(thread, 360, ROUGH).messages] == [270, 90]
    assert [each.tokens for each in fit_messages(sized(300, 40, users=(0,)), 320, ROUGH).messages] == [280, 40]


def test_a_message_smaller_than_the_room_is_whole_whatever_stands_beside_it() -> None:
    for beside in (12, 40, 300):
        kept = fit_messages(sized(300, beside, 11, users=(2,)), 60, ROUGH, reserve=50)
        assert (kept.messages[-1].tokens, kept.messages[-1].seq in kept.shortened) == (11, False)


def test_what_is_reserved_shares_with_those_that_must_be_in() -> None:
    def costs(*sizes: int, budget: int) -> list[int]:
        kept = fit_messages(sized(*sizes, users=(len(sizes) - 1,)), budget, ROUGH, reserve=50, is_part=True)
        return [each.tokens for each in kept.messages]

    assert costs(300, 30, budget=120) == [40, 30]
    assert costs(300, 300, budget=120) == [90]
    assert costs(30, budget=80) == [30]
    assert costs(30, budget=79) == [30]


def test_where_shares_are_too_small_the_oldest_of_them_goes_but_never_the_users() -> None:
    thread = sized(300, 300, 300, users=(0,))
    assert seqs(fit_messages(thread, 4 * FEWEST, ROUGH, keep_newest=2).messages) == [1, 2, 3]
    assert seqs(fit_messages(thread, 4 * FEWEST - 1, ROUGH, keep_newest=2).messages) == [1, 3]
    assert seqs(fit_messages(thread, 2 * FEWEST - 1, ROUGH, keep_newest=2).messages) == [1]


def test_many_that_must_be_in_and_have_no_room_go_without_being_tried_one_by_one() -> None:
    def fit(count: int) -> None:
        thread = sized(*[60] * count, users=(0,))
        kept = fit_messages(thread, 100 * FEWEST, ROUGH, keep_newest=len(thread))
        assert seqs(kept.messages) == [1, *range(count - 96, count + 1)]

    assert grows_in_step(fit, 20_000)


def test_one_message_larger_than_the_budget_is_cut() -> None:
    kept = fit_messages(sized(300, users=(0,)), 50, ROUGH)
    assert (cost(kept.messages), kept.shortened) == (50, (1,))


def test_the_newest_are_whole_beyond_a_budget_that_is_not_hard() -> None:
    thread = sized(20, 300, 300, users=(0,))
    kept = fit_messages(thread, 100, ROUGH, keep_newest=2, hard=False)
    assert [each.tokens for each in kept.messages] == [20, 300, 300]
    long_question = fit_messages(sized(400, 300, 300, users=(0,)), 100, ROUGH, keep_newest=2, hard=False)
    assert [each.tokens for each in long_question.messages] == [FEWEST, 300, 300]


def test_the_first_get_a_share_of_half_the_room_that_is_left() -> None:
    thread = sized(20, 200, *[30] * 8, users=(9,))
    kept = fit_messages(thread, 190, ROUGH, keep_first=2)
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
    kept = fit_messages(sized(20, 200, 30, users=(2,)), 200, ROUGH, keep_first=2)
    assert [each.tokens for each in kept.messages] == [20, 150, 30]


def test_one_of_the_first_whose_share_says_nothing_is_left_out() -> None:
    thread = sized(300, *[30] * 5, users=(5,))
    assert seqs(fit_messages(thread, 70, ROUGH, keep_first=1).messages) == [6]
    assert seqs(fit_messages(thread, 80, ROUGH, keep_first=1).messages) == [1, 5, 6]


def test_no_older_message_falls_out_when_the_shares_of_the_first_grow_by_a_token() -> None:
    thread = sized(300, 300, 300, *[5, 6, 7] * 20, users=(62,))
    before: set[int] = set()
    for budget in range(30, 1300):
        kept = set(seqs(fit_messages(thread, budget, ROUGH, keep_first=3).messages))
        assert before <= kept, budget
        before = kept


def test_a_predefined_question_is_not_the_users_newest() -> None:
    request = message(0, "user", "abcd" * 26)
    assert seqs(fit_messages([request, *sized(30, 30)], 60, ROUGH).messages) == [1, 2]


BUDGETS = st.integers(1, 3000)


@given(
    thread=threads(),
    budget=BUDGETS,
    more=st.integers(0, 600),
    keep_newest=st.integers(0, 3),
    keep_first=st.integers(0, 3),
    overhead=st.sampled_from([0, 6]),
    reserve=st.sampled_from([0, 0, 40]),
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
    reserve: int,
    hard: bool,
    counter: TokenCounter,
) -> None:
    thread = of_counter(thread, counter)

    def within(tokens: int, of: list[Message] = thread) -> list[Message]:
        rules = {"keep_newest": keep_newest, "keep_first": keep_first, "overhead": overhead, "hard": hard}
        kept = fit_messages(of, tokens, counter, reserve=reserve, **rules)
        changed = {each.seq: each.parts for each in of}
        assert kept.shortened == tuple(each.seq for each in kept.messages if each.parts != changed[each.seq])
        return list(kept.messages)

    kept = within(budget)
    request = newest_user_seq(thread)
    assert seqs(kept) == sorted(seqs(kept))
    assert within(budget, kept) == kept
    larger = {each.seq: each for each in within(budget + more)}
    assert all(each.seq in larger and shows_no_less(larger[each.seq], each) for each in kept)
    assert within(budget, thread) == kept
    if thread:
        assert request is None or request in seqs(kept)
        assert thread[-1].seq in seqs(kept) or budget < 2 * (FEWEST + overhead)
    if hard or not keep_newest:
        assert cost(kept, overhead) <= max(budget, 12 + overhead)
    else:
        newest = thread[find_newest_run(thread, keep_newest) :]
        assert [each for each in kept if each in newest] == newest
        assert cost(kept, overhead) <= max(budget, cost(newest, overhead) + FEWEST + overhead)


@given(costs=st.lists(st.integers(0, 100), max_size=8), budget=st.integers(0, 500))
def test_a_level_is_the_highest_that_fits(costs: list[int], budget: int) -> None:
    highest = find_level(costs, budget)
    assert sum(min(cost, highest) for cost in costs) <= budget
    if sum(costs) > budget:
        assert sum(min(cost, highest + 1) for cost in costs) > budget
