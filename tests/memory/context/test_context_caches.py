"""What a context keeps of the windows asked for last."""

from dataclasses import replace
from typing import Any

from layerlore.memory.context.caches import AnswerCache, WindowCache, WindowMessages
from layerlore.memory.context.context_blocks import render_message, weigh_message
from layerlore.memory.parts.tokens import load_counter
from layerlore.memory.recall.hit_lines import MessageCache, MessageTexts, fold_message, make_line
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.messages.message_rows import message_of

COUNTER = load_counter()
ANA, BEN = Scope("t", "a", "ana"), Scope("t", "a", "ben")
THREAD = Thread("uid", "main", None)


def row(seq: int, text: str, revision: int = 1, tokens: int = 3, hidden: str | None = None) -> tuple[Any, ...]:
    parts = to_json([{"type": "text", "text": text}])
    return (seq, f"m{seq}", "user", None, parts, hidden, "{}", tokens, COUNTER.name, 0, 0, revision, None, None)


def test_a_row_that_is_the_same_is_made_into_a_message_and_weighed_once() -> None:
    kept = WindowMessages()
    first = kept.make("main", row(1, "tea"))
    weighed = kept.weigh(first, COUNTER)
    assert first == message_of("main", row(1, "tea"))
    assert weighed == weigh_message(first, COUNTER)
    kept.keep([first])
    assert kept.make("main", row(1, "tea")) is first
    assert kept.weigh(first, COUNTER) is weighed


def test_a_row_of_which_any_column_is_another_is_read_anew() -> None:
    kept = WindowMessages()
    for other in (row(1, "tea"), row(1, "coffee"), row(1, "coffee", 2), row(1, "coffee", 2, 4)):
        made = kept.make("main", other)
        assert made == message_of("main", other)
        assert kept.weigh(made, COUNTER) == weigh_message(made, COUNTER)
        kept.keep([made])


def test_what_is_no_longer_in_the_window_and_a_large_window_are_not_kept() -> None:
    kept = WindowMessages()
    one, two = kept.make("main", row(1, "tea")), kept.make("main", row(2, "coffee"))
    kept.keep([two])
    assert kept.make("main", row(1, "tea")) is not one
    assert kept.make("main", row(2, "coffee")) is two
    large = kept.make("main", row(3, "water", tokens=50_000))
    kept.keep([two, large])
    assert kept.make("main", row(2, "coffee")) is not two


def test_a_message_that_was_changed_on_the_way_is_weighed_as_it_is() -> None:
    kept = WindowMessages()
    read = kept.make("main", row(1, "tea " * 30, tokens=35))
    kept.weigh(read, COUNTER)
    shorter = message_of("main", row(1, "tea", tokens=3))
    assert kept.weigh(shorter, COUNTER) == weigh_message(shorter, COUNTER)


def test_the_texts_of_a_message_are_those_of_its_row_as_it_is_now() -> None:
    kept = WindowMessages()
    for text in ("tea", "TEA <b>", "tea"):
        made = kept.make("main", row(1, text))
        weighed = kept.weigh(made, COUNTER)
        kept.keep([weighed])
        for _ in range(2):
            assert kept.render(weighed) == render_message(weighed)
            assert kept.fold(weighed) == fold_message(weighed)
    cut = replace(weighed, parts=[{"type": "text", "text": "t…"}])
    assert (kept.render(cut), kept.fold(cut)) == (render_message(cut), "t…")


def test_each_scope_has_its_own_and_one_is_forgotten_alone() -> None:
    cache = WindowCache()
    of_ana, of_ben = cache.get(ANA, THREAD), cache.get(BEN, THREAD)
    assert of_ana is not of_ben
    assert cache.get(ANA, THREAD) is of_ana
    cache.forget(ANA)
    assert cache.get(ANA, THREAD) is not of_ana
    assert cache.get(BEN, THREAD) is of_ben


def test_an_answer_is_given_again_within_its_minute_until_something_is_committed() -> None:
    cache, request, now = AnswerCache(), ("main", "tea?", 8000), 60_000
    cache.keep(ANA, request, 7, now, "tea")
    assert cache.find(ANA, request, 7, now + 59_999) == "tea"
    for scope, question, version, at in (
        (ANA, request, 8, now),
        (ANA, request, None, now),
        (ANA, request, 7, now + 60_000),
        (ANA, ("main", "tea?", 500), 7, now),
        (BEN, request, 7, now),
    ):
        assert cache.find(scope, question, version, at) is None
    cache.keep(BEN, request, None, now, "not known from when")
    cache.keep(BEN, request, 7, now, "large " * 20_000)
    assert cache.find(BEN, request, 7, now) is None
    cache.forget(ANA)
    assert cache.find(ANA, request, 7, now) is None


def test_a_message_that_is_found_again_is_the_same_until_any_column_of_its_row_is_another() -> None:
    cache = MessageCache()
    make = cache.maker(ANA)
    found = make("main", row(1, "Tea, please."))
    texts = cache.texts_of(ANA, found)
    assert make("main", row(1, "Tea, please.")) is found
    assert cache.texts_of(ANA, found) is texts
    assert texts.make_line({}, 0) is texts.make_line({"tea": 1.0}, 0)
    for other in (row(1, "Coffee, please."), row(1, "Coffee, please.", 2), row(1, "Coffee, please.", 2, 4)):
        made = make("main", other)
        assert made == message_of("main", other)
        assert cache.texts_of(ANA, made).folded == "coffee, please."


def test_a_message_is_given_to_its_own_scope_and_thread_alone_and_not_once_it_is_forgotten() -> None:
    cache = MessageCache()
    found = cache.maker(ANA)("main", row(1, "tea"))
    assert cache.maker(BEN)("main", row(1, "tea")) is not found
    assert cache.maker(ANA)("other", row(1, "tea")).thread_id == "other"
    cache.forget(ANA)
    assert cache.maker(ANA)("main", row(1, "tea")) is not found


def test_the_message_that_was_found_longest_ago_makes_room_and_a_long_one_is_not_kept() -> None:
    cache = MessageCache(most_bytes=8_000)
    make = cache.maker(ANA)
    one, two = (make("main", row(at, "tea")) for at in (1, 2))
    assert make("main", row(1, "tea")) is one
    make("main", row(3, "tea"))
    assert make("main", row(2, "tea")) is not two
    long = make("main", row(4, "tea " * 1_000))
    assert make("main", row(4, "tea " * 1_000)) is not long


def test_a_long_message_has_a_line_for_each_question() -> None:
    long = message_of("main", row(1, "We went home by train. " * 40 + "The ferry was late. " + "We slept. " * 40))
    texts = MessageTexts(long)
    for sought in ({}, {"ferry": 1.0}):
        assert texts.make_line(sought, 0) == make_line(long, sought, chunk=0)
    assert "ferry" in texts.make_line({"ferry": 1.0}, 0).text
