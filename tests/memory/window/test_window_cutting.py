"""One message cut to a number of tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.parts.message_shapes import parse_messages
from layerlore.memory.parts.parts import reasoning_part, text_part, tool_call_part, tool_result_part
from layerlore.memory.parts.tokens import CUT_MARK, PER_IMAGE, TokenCounter
from layerlore.memory.rules.validation import Limits
from layerlore.memory.window.fit import shorten_message
from layerlore.storage.core.records import Message

from ..window_threads import COUNTERS, EXACT, ROUGH, described, image, message, shows_no_less, threads

WORDS = "some words and more of them " * 40


def texts(cut: Message) -> list[str]:
    return [part["text"] for part in cut.parts if part["type"] == "text"]


def test_a_message_within_its_tokens_stays_as_it_is() -> None:
    short = message(1, "user", "hello", counter=EXACT)
    assert shorten_message(short, short.tokens, EXACT) is short


@pytest.mark.parametrize("counter", [EXACT, ROUGH], ids=["exact", "estimate"])
def test_a_long_text_is_cut_with_a_mark_and_uses_its_tokens(counter: TokenCounter) -> None:
    cut = shorten_message(message(1, "user", WORDS, counter=counter), 60, counter)
    (text,) = texts(cut)
    assert text.endswith(CUT_MARK)
    assert WORDS.startswith(text.removesuffix(CUT_MARK))
    assert 55 <= cut.tokens <= 60
    assert cut.tokens == counter.parts(cut.parts)
    assert cut.encoding == counter.name


def test_a_cut_message_is_counted_by_the_counter_that_cut_it() -> None:
    cut = shorten_message(message(1, "user", WORDS, counter=ROUGH), 60, EXACT)
    assert (cut.tokens, cut.encoding) == (EXACT.parts(cut.parts), EXACT.name)


def test_the_longest_texts_are_cut_first() -> None:
    cut = shorten_message(message(1, "user", "short", WORDS, "also short", counter=EXACT), 60, EXACT)
    assert (texts(cut)[0], texts(cut)[2]) == ("short", "also short")
    assert texts(cut)[1].endswith(CUT_MARK)


def test_a_text_of_many_characters_and_few_tokens_is_not_held_for_long() -> None:
    wide = " " * 2000 + "."
    assert EXACT.text(wide) < 40
    cut = shorten_message(message(1, "user", wide, WORDS, counter=EXACT), 90, EXACT)
    assert texts(cut)[0] == wide
    assert texts(cut)[1].endswith(CUT_MARK)


def test_a_text_that_was_cut_before_has_one_mark() -> None:
    once = shorten_message(message(1, "user", WORDS, counter=EXACT), 60, EXACT)
    twice = shorten_message(once, 59, EXACT)
    assert texts(twice)[0].count(CUT_MARK) == 1
    assert twice.tokens <= 59


def test_reasoning_goes_before_anything_is_cut() -> None:
    thought = message(1, "assistant", reasoning_part(WORDS, "signature"), "The answer.", counter=EXACT)
    assert shorten_message(thought, 20, EXACT).parts == [text_part("The answer.")]
    only = message(1, "assistant", reasoning_part(WORDS, "signature"), counter=EXACT)
    assert shorten_message(only, 20, EXACT).parts == [text_part(CUT_MARK)]


def test_a_call_keeps_its_id_its_name_and_its_keys() -> None:
    call = tool_call_part("call_1", "write_file", {"path": "a.txt", "text": WORDS, "lines": [1, 2]})
    (part,) = shorten_message(message(1, "assistant", call, counter=EXACT), 60, EXACT).parts
    assert (part["id"], part["name"]) == ("call_1", "write_file")
    assert (part["arguments"]["path"], part["arguments"]["lines"]) == ("a.txt", [1, 2])
    assert part["arguments"]["text"].endswith(CUT_MARK)


def test_texts_in_lists_of_arguments_are_cut() -> None:
    call = tool_call_part("call_1", "write_file", {"lines": ["first", {"more": WORDS}]})
    (part,) = shorten_message(message(1, "assistant", call, counter=EXACT), 60, EXACT).parts
    first, inner = part["arguments"]["lines"]
    assert first == "first"
    assert inner["more"].startswith("some words")
    assert inner["more"].endswith(CUT_MARK)


def test_arguments_that_are_no_text_become_the_beginning_of_their_json() -> None:
    call = tool_call_part("call_1", "plot", {"points": list(range(1000))})
    (part,) = shorten_message(message(1, "assistant", call, counter=EXACT), 60, EXACT).parts
    assert part["arguments"]["_raw"].startswith('{"points":[0,1,2')
    assert part["arguments"]["_raw"].endswith(CUT_MARK)


@pytest.mark.parametrize(
    ("result", "begins"),
    [(WORDS, "some words"), ({"rows": [{"n": number} for number in range(900)]}, '{"rows":[{"n":0}')],
)
def test_a_result_is_cut_as_text_and_stays_the_answer_of_its_call(result: object, begins: str) -> None:
    answer = tool_result_part("call_1", "search", result, is_error=True)
    (part,) = shorten_message(message(1, "tool", answer, counter=EXACT), 60, EXACT).parts
    assert (part["tool_call_id"], part["name"], part["is_error"]) == ("call_1", "search", True)
    assert part["result"].startswith(begins)
    assert part["result"].endswith(CUT_MARK)


def test_texts_inside_a_result_are_cut_and_its_images_stay() -> None:
    answer = tool_result_part("call_1", None, [text_part(WORDS), image("cat")])
    (part,) = shorten_message(message(1, "tool", answer, counter=EXACT), 60, EXACT).parts
    assert part["result"][1] == image("cat")
    assert part["result"][0]["text"].endswith(CUT_MARK)


def test_images_become_notes_before_a_text_is_cut_the_first_one_first() -> None:
    shown = message(1, "user", WORDS, image("cat"), image("dog"), counter=EXACT)
    one = shorten_message(shown, shown.tokens - 1, EXACT)
    assert [part["type"] for part in one.parts] == ["text", "text", "image"]
    assert texts(one) == [WORDS, "[image left out: https://example.com/cat.png]"]
    none = shorten_message(shown, PER_IMAGE + 60, EXACT)
    assert [part["type"] for part in none.parts] == ["text", "text", "text"]
    few = shorten_message(shown, 60, EXACT)
    assert texts(none)[0].startswith(texts(few)[0].removesuffix(CUT_MARK))
    assert few.tokens <= 60


def test_the_caption_of_an_image_outlives_it_and_is_cut_as_a_text() -> None:
    shown = message(1, "user", image("cat", "a cat in the sun"), described(WORDS), counter=EXACT)
    noted = shorten_message(shown, shown.tokens - 1, EXACT)
    assert noted.parts == [
        text_part("[image left out: a cat in the sun, https://example.com/cat.png]"),
        described(WORDS),
    ]
    few = shorten_message(shown, 60, EXACT)
    assert few.tokens <= 60
    assert few.parts[0] == noted.parts[0]
    caption = few.parts[1]["caption"]
    assert caption.endswith(CUT_MARK)
    assert WORDS.startswith(caption.removesuffix(CUT_MARK))


def test_what_cannot_be_cut_loses_its_last_parts_and_says_so() -> None:
    many = message(1, "assistant", *(tool_call_part(f"c{at}", "search_everything", {}) for at in range(30)))
    cut = shorten_message(many, 40, ROUGH)
    assert cut.tokens <= 40
    assert [part["id"] for part in cut.parts[:-1]] == [f"c{at}" for at in range(len(cut.parts) - 1)]
    assert len(cut.parts) > 3
    assert cut.parts[-1] == text_part(CUT_MARK)


def test_a_cut_message_is_weighed_where_tokens_are_more_than_its_parts() -> None:
    def weigh(given: Message) -> Message:
        return message(given.seq, given.role, *given.parts, " " * 40, counter=ROUGH)

    light = shorten_message(message(1, "user", WORDS), 60, ROUGH)
    heavy = shorten_message(message(1, "user", WORDS), 60, ROUGH, weigh=weigh)
    assert heavy.tokens <= 60
    assert len(texts(heavy)[0]) < len(texts(light)[0])


@given(thread=threads(most=3), most=st.integers(12, 400), counter=COUNTERS)
def test_a_cut_message_has_no_more_tokens_and_the_same_structure(
    thread: list[Message], most: int, counter: TokenCounter
) -> None:
    for whole in thread:
        given_message = message(whole.seq, whole.role, *whole.parts, counter=counter)
        cut = shorten_message(given_message, most, counter)
        assert cut.tokens == counter.parts(cut.parts) <= most
        assert (cut.id, cut.seq, cut.role) == (whole.id, whole.seq, whole.role)
        assert shorten_message(cut, most, counter) == cut
        calls = [part["id"] for part in whole.parts if part["type"] == "tool_call"]
        kept = [part["id"] for part in cut.parts if part["type"] == "tool_call"]
        assert kept == calls[: len(kept)]
        assert kept == calls or most < 100
        assert cut.parts
        said = [{"role": cut.role, "parts": cut.parts}]
        if cut.role != "tool" or any(part["type"] == "tool_result" for part in cut.parts):
            assert parse_messages(said, Limits())[0].parts == cut.parts


@given(thread=threads(most=3), most=st.integers(12, 400), more=st.integers(0, 1200), counter=COUNTERS)
def test_more_room_shows_at_least_as_much_of_a_message(
    thread: list[Message], most: int, more: int, counter: TokenCounter
) -> None:
    for whole in thread:
        given_message = message(whole.seq, whole.role, *whole.parts, counter=counter)
        assert shows_no_less(
            shorten_message(given_message, most + more, counter), shorten_message(given_message, most, counter)
        )
