"""The window beside a prompt cache: it moves in steps, and a message is cut in the same way until it moves."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.parts.parts import tool_call_part, tool_result_part
from layerlore.memory.window.fit import find_newest_from_user
from layerlore.memory.window.steady import SteadyWindow, choose_steady, cut_steady
from layerlore.storage.core.records import Message

from ..window_threads import ROUGH, message, seqs, shows_no_less

ROOM, BUDGET, OVERHEAD, FLOOR = 8000, 4000, 2, 8

TURN = st.tuples(st.integers(5, 300), st.lists(st.integers(5, 4000), max_size=4), st.integers(5, 300))
# What is set aside for a result that is not answered yet is as much as the largest result needs.
THREADS = st.lists(TURN, min_size=4, max_size=20).map(lambda turns: worked((5, [4000], 5), *turns))


def worked(*turns: tuple[int, list[int], int]) -> list[Message]:
    """Turns of a user's message, calls of tools with their results, and an answer, of so many tokens each."""
    said: list[Message] = []
    for asked, results, answered in turns:
        said.append(message(len(said) + 1, "user", "abcd" * asked))
        for size in results:
            id_ = f"call-{len(said)}"
            said.append(message(len(said) + 1, "assistant", tool_call_part(id_, "read", {})))
            said.append(message(len(said) + 1, "tool", tool_result_part(id_, "read", "abcd" * size)))
        said.append(message(len(said) + 1, "assistant", "abcd" * answered))
    return said


def steady(thread: Sequence[Message], room: int = ROOM, budget: int = BUDGET) -> SteadyWindow | None:
    return choose_steady(thread, room, budget, floor=FLOOR, overhead=OVERHEAD)


def shown(thread: Sequence[Message], room: int = ROOM, budget: int = BUDGET) -> list[Message]:
    window = steady(thread, room, budget)
    assert window is not None
    return [*cut_steady(thread, window, ROUGH, lambda each: each).messages]


def find_calls_of_a_model(thread: Sequence[Message]) -> list[int]:
    """The lengths of the thread at which a model answers."""
    return [length for length in range(1, len(thread) + 1) if thread[length - 1].role != "assistant"]


@given(thread=THREADS)
def test_it_keeps_to_its_budget_and_has_the_newest_messages(thread: list[Message]) -> None:
    for length in find_calls_of_a_model(thread):
        window = shown(thread[:length])
        assert sum(each.tokens + OVERHEAD for each in window) <= BUDGET
        newest = seqs(thread[:length])[-FLOOR:]
        assert {*newest} <= {*seqs(window)}
        request = find_newest_from_user(thread[:length])
        assert request is None or thread[request] in window, "the user's newest message is whole"


@given(thread=THREADS)
def test_until_it_moves_an_answered_message_is_cut_in_the_same_way(thread: list[Message]) -> None:
    lengths = find_calls_of_a_model(thread)
    for length, longer in pairwise(lengths):
        before, after = steady(thread[:length]), steady(thread[:longer])
        assert before is not None
        assert after is not None
        assert before.begins <= after.begins
        assert before.stepped <= after.stepped
        if before.stepped != after.stepped:
            continue
        # The newest message has more room until it is answered, and the user's newest until there is another.
        request = find_newest_from_user(thread[:length])
        answered = [seq for seq in before.sizes if seq < thread[length - 1].seq and request != seq - 1]
        assert [before.sizes[seq] for seq in answered] == [after.sizes.get(seq) for seq in answered]


def test_most_calls_of_a_thread_with_large_results_begin_like_the_one_before() -> None:
    for size in (300, 1000, 3000):
        thread = worked(*[(30, [size], 80)] * 40)
        windows = [shown(thread[:length]) for length in find_calls_of_a_model(thread)[20:]]
        moved = sum(after[0] != before[0] for before, after in pairwise(windows))
        assert 1 <= moved <= len(windows) // 6


def test_a_result_that_is_not_answered_is_shown_further_than_an_answered_one() -> None:
    thread = worked(*[(30, [3000], 80)] * 12)
    unanswered = shown(thread[:-1])[-1]
    answered = shown(thread)[-2]
    assert unanswered.seq == answered.seq
    assert unanswered.tokens > 4 * answered.tokens
    assert shows_no_less(unanswered, answered)


@given(thread=THREADS, more=st.floats(1, 4))
def test_with_more_room_each_message_is_shown_at_least_as_far(thread: list[Message], more: float) -> None:
    wanted = choose_steady(thread, ROOM, BUDGET, floor=1, overhead=OVERHEAD)
    larger = choose_steady(thread, int(ROOM * more), int(BUDGET * more) + 100, floor=1, overhead=OVERHEAD)
    assert wanted is not None
    assert larger is not None
    assert {*wanted.sizes} <= {*larger.sizes}
    small, large = (
        {each.seq: each for each in cut_steady(thread, one, ROUGH, lambda each: each).messages}
        for one in (wanted, larger)
    )
    assert all(shows_no_less(large[seq], each) for seq, each in small.items())


def test_too_little_room_for_steps_gives_no_such_window() -> None:
    assert steady(worked((3000, [3000], 80)), 500, 20) is None
