"""How text becomes the words that are indexed and looked for."""

import unicodedata

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from memstrata.memory.search_text import LONGEST_WORD, STOP_WORDS, message_text, pairs, query_words, words

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hello, World!", ["hello", "world"]),
        ("user_id=42; C++", ["user", "id", "42", "c"]),
        ("don't", ["don", "t"]),
        ("Café CAFE\u0301", ["cafe", "cafe"]),
        ("Straße", ["strasse"]),
        ("İstanbul", ["istanbul"]),
        ("Ёлка йод", ["елка", "иод"]),
        ("Ἑλλάς", ["ελλασ"]),
        ("ＦＵＬＬ ﬁne ½", ["full", "fine", "1", "2"]),
        ("हिन्दी", ["हिन्दी"]),
        ("서울에", ["서울에"]),
        ("绿茶", ["绿茶"]),
        ("我喜欢绿茶", ["我喜", "喜欢", "欢绿", "绿茶"]),
        ("コーヒー", ["コー", "ーヒ", "ヒー"]),
        ("ｺｰﾋｰ", ["コー", "ーヒ", "ヒー"]),
        ("ชา", ["ชา"]),
        ("iPhone15绿茶2杯", ["iphone15", "绿茶", "2", "杯"]),
        ("👩‍👩‍👧 🎉 -- ?!", []),
        ("", []),
    ],
)
def test_text_is_folded_and_cut_into_words(text: str, found: list[str]) -> None:
    assert words(text) == found


@given(TEXTS)
def test_words_are_letters_marks_and_digits_only_and_not_too_long(text: str) -> None:
    for word in words(text):
        assert regex.fullmatch(r"[\p{L}\p{N}\p{M}]+", word)
        assert len(word) <= LONGEST_WORD


@given(TEXTS)
def test_case_width_and_composition_do_not_matter(text: str) -> None:
    for form in ("NFC", "NFD"):
        assert words(unicodedata.normalize(form, text)) == words(text)
    assert words(text.casefold()) == words(text)


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_is_cut_as_any_other_text_is(text: str) -> None:
    assert words(text + " é") == [*words(text), "e"]


@given(TEXTS)
def test_what_is_indexed_is_found_by_the_same_words(text: str) -> None:
    indexed = message_text(None, [{"type": "text", "text": text}]).split(" ")
    assert set(query_words([text])) <= set(indexed)


def test_a_run_longer_than_any_word_is_cut_the_same_for_index_and_query() -> None:
    assert words("x" * 200) == ["x" * LONGEST_WORD]
    assert words("é" * 200) == ["e" * LONGEST_WORD]


def test_pairs_overlap_and_one_character_stands_alone() -> None:
    assert pairs("abcd") == ["ab", "bc", "cd"]
    assert pairs("a") == ["a"]


def test_a_query_has_each_telling_word_once_in_order() -> None:
    assert query_words(["What is the tea, and the Cake?", "more tea"]) == ["tea", "cake"]


def test_a_query_of_function_words_keeps_them() -> None:
    assert query_words(["to be or not to be"]) == ["to", "be", "or", "not"]
    assert query_words(["?!"]) == []


def test_a_query_has_a_limit_of_words() -> None:
    many = " ".join(f"word{number}" for number in range(100))
    assert query_words([many]) == [f"word{number}" for number in range(32)]
    assert len(query_words([many], most=5)) == 5


def test_function_words_are_words_as_text_is_cut_into() -> None:
    assert [word for word in STOP_WORDS if words(word) != [word]] == []


def test_a_message_is_indexed_by_its_speaker_and_everything_said() -> None:
    parts = [
        {"type": "reasoning", "text": "hidden thought"},
        {"type": "text", "text": "Look here"},
        {"type": "image", "data": "aGVsbG8=", "mime_type": "image/png"},
        {"type": "file", "file_name": "Invoice-7.pdf"},
        {"type": "tool_call", "id": "c1", "name": "book_flight", "arguments": {"to": "Oslo", "seats": ["window"]}},
        {"type": "tool_result", "tool_call_id": "c1", "result": [{"type": "text", "text": "booked"}]},
        {"type": "tool_result", "tool_call_id": "c2", "result": {"status": "late"}},
    ]
    assert message_text("Ana", parts) == "ana look here invoice 7 pdf book flight oslo window booked late"
    assert message_text(None, [{"type": "image", "url": "https://x.test/a.png"}]) == ""
