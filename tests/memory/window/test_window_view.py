"""The window of a thread under each policy, and the rules that hold under all of them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.parts.parts import says_something, tool_call_part, tool_result_part
from layerlore.memory.parts.tokens import CUT_MARK
from layerlore.memory.window.fit import FEWEST, find_newest_run, holds_newest, strip_orphans
from layerlore.memory.window.policy import WindowPolicy
from layerlore.memory.window.view import Window, build_window, count_leading, lighten_messages
from layerlore.storage.core.records import Message
from layerlore.storage.messages.message_rows import pairs

from ..window_threads import (
    ROUGH,
    cost,
    described,
    every_part,
    image,
    message,
    newest_user_seq,
    policies,
    seqs,
    shows_no_less,
    spoken,
    threads,
)

COUNT = WindowPolicy(limit="messages", max_messages=4)
GROWING = WindowPolicy(limit="messages", trim="threshold", threshold=10, target=4)


def talk(length: int) -> list[Message]:
    return spoken(*(f"message {number}" for number in range(1, length + 1)))


def shown(thread: list[Message], policy: WindowPolicy, **given: int) -> list[int]:
    return seqs(build_window(thread, policy, ROUGH, **given).messages)


def predefined(*texts: str) -> tuple[Message, ...]:
    return tuple(message(at + 1 - len(texts), "user", text) for at, text in enumerate(texts))


def searched(at: int, id_: str = "call_0", result: str = "found") -> list[Message]:
    return [
        message(at, "assistant", "I look.", tool_call_part(id_, "search", {"q": "x"})),
        message(at + 1, "tool", tool_result_part(id_, "search", result)),
    ]


def results(window: Window) -> list[object]:
    return [part["result"] for each in window.messages for part in each.parts if part["type"] == "tool_result"]


def kinds(window: Window) -> list[str]:
    return [part["type"] for each in window.messages for part in each.parts]


def test_observed_shows_everything_since_only_room_cuts_it() -> None:
    assert shown(talk(9), WindowPolicy(last_messages=3)) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert build_window(talk(9), WindowPolicy(last_messages=3), ROUGH, older=7).trimmed == 7


def test_observed_has_its_predefined_messages_in_front_as_they_are() -> None:
    policy = WindowPolicy(last_messages=2, predefined=(message(0, "user", image()),), max_images=0)
    window = build_window(talk(3), policy, ROUGH)
    assert seqs(window.messages) == [0, 1, 2, 3]
    assert window.messages[0] == policy.predefined[0]


def test_continuous_trimming_keeps_the_newest() -> None:
    assert shown(talk(3), COUNT) == [1, 2, 3]
    assert shown(talk(9), COUNT) == [6, 7, 8, 9]
    assert build_window(talk(9), COUNT, ROUGH, older=100).trimmed == 105


def test_threshold_trimming_lets_the_window_grow_from_one_start_until_the_next_cut() -> None:
    starts = [shown(talk(length), GROWING)[0] for length in range(1, 24)]
    assert starts == [1] * 9 + [7] * 6 + [13] * 6 + [19] * 2
    sizes = [len(shown(talk(length), GROWING)) for length in range(1, 24)]
    assert sizes == [*range(1, 10), *range(4, 10), *range(4, 10), 4, 5]
    assert shown(talk(9)[-5:], GROWING, older=1004) == shown(talk(9)[-5:], GROWING, older=1004 + 6)


def test_dropping_the_middle_keeps_the_first_and_the_newest() -> None:
    assert shown(talk(9), COUNT.model_copy(update={"drop": "middle"})) == [1, 2, 8, 9]
    assert shown(talk(12), GROWING.model_copy(update={"drop": "middle", "keep_first": 1})) == [1, 8, 9, 10, 11, 12]


def test_predefined_messages_are_counted_and_trimmed() -> None:
    policy = COUNT.model_copy(update={"predefined": predefined("a", "b")})
    assert shown(talk(2), policy) == [-1, 0, 1, 2]
    assert shown(talk(3), policy) == [0, 1, 2, 3]
    assert shown(talk(9), policy) == [6, 7, 8, 9]
    assert shown(talk(9), policy.model_copy(update={"drop": "middle"})) == [-1, 0, 8, 9]
    assert shown(talk(9), policy.model_copy(update={"drop": "middle", "keep_first": 3})) == [-1, 0, 1, 9]
    assert build_window(talk(3), policy, ROUGH).trimmed == 0


def test_predefined_messages_count_toward_a_budget_of_tokens_and_are_dropped_first() -> None:
    thread, examples = talk(9), predefined("abcd" * 6, "abcd" * 6)
    policy = WindowPolicy(limit="tokens", max_tokens=cost(thread) + 20, predefined=examples)
    assert shown(thread, policy) == [-1, 0, *range(1, 10)]
    assert shown(thread, policy.model_copy(update={"max_tokens": cost(thread) + 19})) == [0, *range(1, 10)]
    assert shown(thread, policy.model_copy(update={"max_tokens": cost(thread) + 9})) == [*range(1, 10)]
    middle = policy.model_copy(update={"max_tokens": cost(thread) + 9, "drop": "middle"})
    assert shown(thread, middle) == [-1, 0, *range(3, 10)]
    assert build_window(thread, middle, ROUGH).trimmed == 2


def test_predefined_messages_are_dropped_with_what_is_older_but_the_first_that_stay() -> None:
    policy = WindowPolicy(limit="tokens", max_tokens=100_000, predefined=predefined("a", "b"))
    assert shown(talk(9)[-5:], policy) == [-1, 0, 5, 6, 7, 8, 9]
    assert shown(talk(9)[-5:], policy, older=4) == [5, 6, 7, 8, 9]
    middle = policy.model_copy(update={"drop": "middle", "keep_first": 1})
    assert shown(talk(9)[-5:], middle, older=4) == [-1, 5, 6, 7, 8, 9]


def test_tokens_keep_the_newest_that_fit_and_a_least_number_whatever_they_cost() -> None:
    thread = talk(9)
    policy = WindowPolicy(limit="tokens", max_tokens=3 * thread[0].tokens)
    assert shown(thread, policy) == [7, 8, 9]
    assert shown(thread, policy.model_copy(update={"min_messages": 5})) == [5, 6, 7, 8, 9]
    long = [*talk(8), message(9, "user", "word " * 500)]
    window = build_window(long, policy.model_copy(update={"max_tokens": 100}), ROUGH)
    assert (seqs(window.messages), window.shortened, window.trimmed) == ([9], (9,), 8)
    assert cost(window.messages) <= 100
    assert window.messages[0].parts[0]["text"].endswith(CUT_MARK)


def test_so_many_of_the_newest_are_in_also_where_halves_of_pairs_are_left_out() -> None:
    thread = [*talk(16), *searched(17), *talk(27)[18:]]
    policy = WindowPolicy(limit="tokens", max_tokens=20, min_messages=10)
    assert shown(thread, policy) == [17, *range(18, 28)]
    pending = [*talk(20), searched(21)[0], *talk(27)[21:]]
    pending[20] = message(21, "assistant", tool_call_part("call_9", "search", {}))
    assert shown(pending, policy) == [17, 18, 19, 20, *range(22, 28)]


def test_the_newest_result_has_its_call_whatever_that_costs() -> None:
    thread = [*talk(3), *searched(4, result="word " * 300)]
    policy = WindowPolicy(limit="tokens", max_tokens=120)
    assert shown(thread, policy) == [3, 4, 5]


def test_a_result_that_is_cut_brings_its_call_so_that_the_room_is_used() -> None:
    thread = [message(1, "user", "Do it."), *searched(2, result="word " * 900), message(4, "user", "And?")]
    for budget in range(100, 900, 7):
        window = build_window(thread, WindowPolicy(limit="tokens", max_tokens=budget), ROUGH)
        assert seqs(window.messages)[-3:] == [2, 3, 4]
        assert cost(window.messages) > 0.92 * budget - 8


def test_a_summary_has_what_the_messages_that_must_be_in_leave() -> None:
    thread = spoken(*("abcd" * 7 for _ in range(9)))
    policy = WindowPolicy(limit="tokens", max_tokens=60, summarise=True, summary_tokens=50)
    window = build_window(thread, policy, ROUGH)
    assert (seqs(window.messages), window.shortened, window.summary_tokens) == ([9], (), 49)
    assert build_window(thread, COUNT, ROUGH).summary_tokens == COUNT.summary_tokens


def test_the_summary_of_what_was_trimmed_is_a_part_of_the_tokens() -> None:
    thread = spoken(*("abcd" * 16 for _ in range(10)))
    policy = WindowPolicy(limit="tokens", max_tokens=100, summarise=True, summary_tokens=40)
    assert seqs(build_window(thread, policy, ROUGH).messages) == [8, 9, 10]
    assert seqs(build_window(thread[-5:], policy, ROUGH, older=5).messages) == [8, 9, 10]
    assert seqs(build_window(thread[-5:], policy, ROUGH).messages) == [6, 7, 8, 9, 10]
    assert seqs(build_window(thread, policy.model_copy(update={"summarise": False}), ROUGH).messages) == [
        6,
        7,
        8,
        9,
        10,
    ]


def test_the_newest_user_message_takes_the_place_of_another() -> None:
    thread = [*talk(5), *(message(at, "assistant", "working") for at in range(6, 12))]
    assert shown(thread, COUNT) == [5, 9, 10, 11]
    assert shown(thread, COUNT.model_copy(update={"max_messages": 1})) == [5]
    assert shown(thread, COUNT.model_copy(update={"drop": "middle"})) == [1, 2, 5, 11]
    assert shown(thread, COUNT.model_copy(update={"drop": "middle", "keep_first": 4})) == [1, 2, 3, 5]
    assert shown([thread[4], *thread[-4:]], COUNT, older=6) == [5, 9, 10, 11]


def test_results_alone_are_no_message_of_the_users() -> None:
    thread = [*talk(3), *(each for at in (4, 6) for each in searched(at))]
    thread = [replace(each, role="user") if each.role == "tool" else each for each in thread]
    assert shown(thread, COUNT) == [3, 6, 7]


def test_results_are_blanked_but_for_the_newest_and_errors_stay_errors() -> None:
    failed = tool_result_part("call_1", "search", {"why": "no network"}, is_error=True)
    thread = [*searched(1), message(3, "assistant", tool_call_part("call_1", "search", {})), message(4, "tool", failed)]
    blank = COUNT.model_copy(update={"blank_tool_results": True})
    window = build_window(thread, blank, ROUGH)
    assert results(window) == ["", ""]
    assert window.messages[3].parts == [{**failed, "result": ""}]
    assert window.messages[3].tokens == ROUGH.parts(window.messages[3].parts) < thread[3].tokens
    assert results(build_window(thread, blank.model_copy(update={"spare_tool_results": 1}), ROUGH)) == [
        "",
        {"why": "no network"},
    ]
    assert build_window(thread, blank.model_copy(update={"spare_tool_results": 2}), ROUGH).messages == tuple(thread)


def test_blank_results_make_room_before_tokens_are_counted() -> None:
    thread = [message(1, "user", "Look."), *searched(2, result="word " * 300), message(4, "user", "And?")]
    policy = WindowPolicy(limit="tokens", max_tokens=100)
    assert 1 not in shown(thread, policy)
    assert shown(thread, policy.model_copy(update={"blank_tool_results": True})) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("most", "left"),
    [
        (0, ["text", "text", "tool_call", "tool_result"]),
        (1, ["text", "text", "tool_call", "tool_result"]),
        (2, ["text", "image", "tool_call", "tool_result"]),
        (3, ["image", "image", "tool_call", "tool_result"]),
    ],
)
def test_the_newest_images_stay_and_those_of_tools_count(most: int, left: list[str]) -> None:
    shot = tool_result_part("c", None, [{"type": "text", "text": "seen"}, image("shot")])
    thread = [
        message(1, "user", image("a" * 300), image()),
        message(2, "assistant", tool_call_part("c", "look", {})),
        message(3, "tool", shot),
    ]
    window = build_window(thread, COUNT.model_copy(update={"max_images": most}), ROUGH)
    assert kinds(window) == left
    inner = window.messages[2].parts[0]["result"]
    if most:
        assert inner == shot["result"]
    else:
        assert inner[1] == {"type": "text", "text": "[image left out: https://example.com/shot.png]"}
        assert window.messages[0].parts[1] == {"type": "text", "text": "[image left out]"}
        assert len(window.messages[0].parts[0]["text"]) == len("[image left out: …]") + 200


def test_a_caption_stays_where_its_image_goes_and_counts_as_no_image() -> None:
    thread = [message(1, "user", image("", "a red bicycle")), message(2, "user", image(), described("a cat"))]
    window = build_window(thread, COUNT.model_copy(update={"max_images": 1}), ROUGH)
    left, kept = (each.parts for each in window.messages)
    assert left == [{"type": "text", "text": "[image left out: a red bicycle]"}]
    assert kept == thread[1].parts


def test_a_message_without_its_image_keeps_everything_else() -> None:
    sent = replace(message(1, "user", image(), "look"), name="Ana", metadata={"app": "x"}, created_at=5, revision=3)
    (kept,) = build_window([sent], COUNT.model_copy(update={"max_images": 0}), ROUGH).messages
    assert kept.tokens == ROUGH.parts(kept.parts)
    assert replace(kept, parts=sent.parts, tokens=sent.tokens) == sent


def test_the_only_image_of_a_result_becomes_a_text() -> None:
    thread = [
        message(1, "assistant", tool_call_part("c", "look", {})),
        message(2, "tool", tool_result_part("c", None, [image()])),
    ]
    assert results(build_window(thread, COUNT.model_copy(update={"max_images": 0}), ROUGH)) == ["[image left out]"]


def test_halves_of_pairs_are_stripped_and_other_parts_stay() -> None:
    thread = [*searched(1), *talk(7)[2:]]
    window = build_window(thread, COUNT.model_copy(update={"max_messages": 6}), ROUGH)
    assert (seqs(window.messages), window.trimmed) == ([3, 4, 5, 6, 7], 2)
    pending = [*talk(1), searched(2)[0]]
    window = build_window(pending, COUNT, ROUGH)
    assert [part["type"] for part in window.messages[1].parts] == ["text"]
    assert window.messages[1].tokens == ROUGH.parts(window.messages[1].parts)


def test_a_limit_of_tokens_that_drops_the_middle_keeps_the_first() -> None:
    policy = WindowPolicy(limit="tokens", max_tokens=cost(talk(4)), drop="middle", keep_first=1, min_messages=1)
    assert shown(talk(9), policy) == [1, 7, 8, 9]
    assert shown(talk(9), policy.model_copy(update={"drop": "oldest"})) == [6, 7, 8, 9]


def test_a_message_that_is_left_with_nothing_to_say_goes() -> None:
    thread = [*talk(1), message(2, "assistant", "", tool_call_part("call_0", "search", {}))]
    assert shown(thread, COUNT) == [1]


def test_a_result_belongs_to_the_latest_call_of_its_id() -> None:
    thread = [searched(1)[0], message(2, "user", "Again."), *searched(3)]
    window = build_window(thread, COUNT, ROUGH)
    assert kinds(window) == ["text", "text", "text", "tool_call", "tool_result"]


def test_a_call_before_a_gap_gets_no_result_from_behind_it() -> None:
    thread = [*searched(1), *searched(3), *searched(5), *searched(7)]
    policy = COUNT.model_copy(update={"drop": "middle", "keep_first": 1})
    window = build_window(thread, policy, ROUGH)
    assert [(each.seq, len(each.parts)) for each in window.messages] == [(1, 1), (7, 2), (8, 1)]
    given = [thread[0], *thread[-3:]]
    assert build_window(given, policy, ROUGH, older=4).messages == window.messages


def test_a_window_of_half_a_turn_begins_with_the_user_and_no_result() -> None:
    thread = [message(1, "user", "Do it."), *(each for at in range(2, 30, 2) for each in searched(at, f"call_{at}"))]
    window = build_window(thread, COUNT.model_copy(update={"max_messages": 4}), ROUGH)
    assert [each.role for each in window.messages] == ["user", "assistant", "tool"]


THREADS = threads()
POLICIES = policies()


@given(thread=THREADS, policy=POLICIES)
def test_the_rules_of_every_window(thread: list[Message], policy: WindowPolicy) -> None:
    window = build_window(thread, policy, ROUGH)
    assert seqs(window.messages) == sorted(set(seqs(window.messages)))
    assert window.trimmed == len(thread) - sum(seq > 0 for seq in seqs(window.messages))
    assert window == build_window(list(thread), policy, ROUGH)
    assert set(window.shortened) <= set(seqs(window.messages))
    request = newest_user_seq(thread)
    assert request is None or request in seqs(window.messages)
    for each in window.messages:
        assert any(map(says_something, each.parts))
        assert each.tokens == ROUGH.parts(each.parts)
        before = next(old for old in [*policy.predefined, *thread] if old.seq == each.seq)
        assert (each.id, each.role, each.name) == (before.id, before.role, before.name)
    if window.messages:
        assert window.messages[0].parts[0]["type"] != "tool_result"


@given(thread=THREADS, policy=POLICIES)
def test_pairs_are_whole(thread: list[Message], policy: WindowPolicy) -> None:
    shown = [(each.seq, each.parts) for each in build_window(thread, policy, ROUGH).messages]
    halves = [
        (seq, part["type"], part["id"] if part["type"] == "tool_call" else part["tool_call_id"])
        for seq, parts in shown
        for part in parts
        if part["type"] in ("tool_call", "tool_result")
    ]
    whole = pairs(shown)
    in_pairs = {(pair.call, "tool_call", pair.id) for pair in whole}
    in_pairs |= {(seq, "tool_result", pair.id) for pair in whole for seq in pair.results}
    assert set(halves) == in_pairs
    assert sum(kind == "tool_call" for _, kind, _ in halves) == len(whole)
    stored = {
        (pair.call, seq, pair.id) for pair in pairs((each.seq, each.parts) for each in thread) for seq in pair.results
    }
    assert {(pair.call, seq, pair.id) for pair in whole if pair.call > 0 for seq in pair.results} <= stored


@given(thread=THREADS, policy=POLICIES)
def test_no_part_is_made_up_and_content_changes_only_where_the_policy_says(
    thread: list[Message], policy: WindowPolicy
) -> None:
    window = build_window(thread, policy, ROUGH)
    light = [*policy.predefined, *thread]
    if policy.limit == "observed":
        light = [*policy.predefined, *lighten_messages(thread, policy, ROUGH)]
    else:
        light = lighten_messages(light, policy, ROUGH)
    whole = [each for each in window.messages if each.seq not in window.shortened]
    assert every_part(whole) <= every_part(light)


@given(thread=THREADS, policy=policies(limit="tokens"))
def test_a_budget_of_tokens_is_kept(thread: list[Message], policy: WindowPolicy) -> None:
    window = build_window(thread, policy, ROUGH)
    given_whole = lighten_messages([*policy.predefined, *thread], policy, ROUGH)
    newest = given_whole[find_newest_run(given_whole, policy.min_messages) :] if policy.min_messages else []
    least = cost(newest) + 24 if newest else 12
    assert cost(window.messages) <= max(policy.max_tokens, least)
    if sum(each.tokens for each in given_whole) <= policy.max_tokens:
        assert not window.shortened


@given(thread=THREADS, policy=policies(limit="messages"))
def test_a_number_of_messages_is_kept(thread: list[Message], policy: WindowPolicy) -> None:
    most = policy.max_messages if policy.trim == "continuous" else policy.threshold - 1
    assert len(build_window(thread, policy, ROUGH).messages) <= most


@given(thread=THREADS, policy=POLICIES)
def test_the_window_of_a_window_is_itself(thread: list[Message], policy: WindowPolicy) -> None:
    once = build_window(thread, policy, ROUGH)
    again = build_window(
        [each for each in once.messages if each.seq > 0],
        policy.model_copy(update={"predefined": tuple(each for each in once.messages if each.seq <= 0)}),
        ROUGH,
    )
    assert (again.messages, again.trimmed) == (once.messages, 0)


@given(thread=THREADS, policy=policies(limit="tokens"))
def test_the_least_number_of_messages_is_kept(thread: list[Message], policy: WindowPolicy) -> None:
    light = lighten_messages([*policy.predefined, *thread], policy, ROUGH)
    whole = [
        *strip_orphans([each for each in light if each.seq <= 0], ROUGH),
        *strip_orphans([each for each in light if each.seq > 0], ROUGH),
    ]
    window = build_window(thread, policy, ROUGH)
    newest = whole[len(whole) - min(policy.min_messages, len(whole)) :]
    assert every_part(newest) <= every_part(window.messages)


@given(thread=THREADS, policy=policies(trim="continuous"), more=st.integers(0, 400))
def test_a_larger_limit_shows_no_less(thread: list[Message], policy: WindowPolicy, more: int) -> None:
    if policy.limit == "tokens":  # in fewer, a mark may be all that is left
        policy = policy.model_copy(update={"max_tokens": max(policy.max_tokens, 2 * FEWEST)})
    larger = policy.model_copy(
        update={name: getattr(policy, name) + more for name in ("last_messages", "max_messages", "max_tokens")}
    )
    small = build_window(thread, policy, ROUGH)
    large = build_window(thread, larger, ROUGH)
    by_seq = {each.seq: each for each in large.messages}
    assert all(each.seq in by_seq and shows_no_less(by_seq[each.seq], each) for each in small.messages)
    cut = {*small.shortened, *large.shortened}
    assert every_part(each for each in small.messages if each.seq not in cut) <= every_part(large.messages)
    assert large.trimmed <= small.trimmed


def reaches_far_enough(run: list[Message], policy: WindowPolicy) -> bool:
    """Whether no message before these can be in the window, but for the first and the newest of the user's."""
    if policy.limit == "observed":
        return False
    if policy.limit == "messages":
        return len(run) >= (policy.max_messages if policy.trim == "continuous" else policy.threshold)
    light = strip_orphans(lighten_messages(run, policy, ROUGH), ROUGH)
    # What answers a call that is not given may belong to the window together with it.
    if count_results(run) > count_results(light):
        return False
    return cost(light) > policy.max_tokens and holds_newest(light, max(1, policy.min_messages))


def count_results(messages: Sequence[Message]) -> int:
    return sum(part["type"] == "tool_result" for each in messages for part in each.parts)


def pair_ids(messages: Sequence[Message]) -> set[str]:
    """The ids of the tool calls that are made or answered."""
    parts = [part for each in messages for part in each.parts]
    made = {part["id"] for part in parts if part["type"] == "tool_call"}
    return made | {part["tool_call_id"] for part in parts if part["type"] == "tool_result"}


def loaded(thread: list[Message], policy: WindowPolicy, spare: int) -> tuple[list[Message], list[Message]]:
    """What of a thread is enough for its window: what stands before the gap, and the newest messages."""
    runs = (thread[-length:] for length in range(1, len(thread) + 1))
    enough = next((len(run) for run in runs if reaches_far_enough(run, policy)), len(thread))
    run = thread[max(0, len(thread) - enough - spare) :]
    request = newest_user_seq(thread)
    first = thread[: count_leading(policy)]
    apart = [each for each in thread if each not in run and (each in first or each.seq == request)]
    # Parts of a pair may stand in the gap: what stands apart is then shown without them.
    between = [each for each in thread if each not in run and each not in apart]
    if pair_ids(apart) & pair_ids(between):
        return [], thread
    if count_results(strip_orphans([*apart, *run], ROUGH)) < count_results([*apart, *run]):
        return [], thread
    return apart, run


@given(thread=THREADS, policy=POLICIES, spare=st.integers(0, 4))
def test_the_newest_messages_are_enough_as_far_as_the_window_reaches(
    thread: list[Message], policy: WindowPolicy, spare: int
) -> None:
    apart, run = loaded(thread, policy, spare)
    if apart:  # then what counts as the newest image or result is told by what is given
        policy = policy.model_copy(update={"max_images": 0, "spare_tool_results": 0})
        apart, run = loaded(thread, policy, spare)
    older = len(thread) - len(run) - len(apart)
    whole = build_window(thread, policy, ROUGH)
    assert build_window([*apart, *run], policy, ROUGH, older=older) == whole
