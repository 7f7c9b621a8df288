"""How text becomes the words that are indexed and looked for."""

import re
import unicodedata

import pytest
import regex
from hypothesis import assume, given
from hypothesis import strategies as st

from layerlore.memory.language.search_words import LONGEST_WORD, find_query_words, show_word, split_pairs, split_words
from layerlore.memory.language.word_lists import texts
from layerlore.memory.parts.index_texts import SIZE, format_date, make_embedding_texts, make_index_texts, split_chunks
from layerlore.storage.core.records import IndexedText

NOON = 1_683_547_200_000  # 8 May 2023, 12:00 UTC

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hello, World!", ["hello", "world"]),
        ("user_id=42; C", ["user", "id", "42", "c"]),
        ("C++, C# C++17", ["csgn43sgn43", "csgn35", "csgn43sgn43", "17"]),
        ("A+ AB- 5+ a-b Vor- und", ["asgn43", "ab", "absgn45", "5", "5sgn43", "a", "b", "vor", "und"]),
        ("$5 50 %", ["sgn36", "5", "50", "sgn37"]),
        ("don't", ["don", "t"]),
        ("Café CAFE\u0301", ["cafe", "cafe"]),
        ("Straße", ["strasse"]),
        ("İstanbul IĞDIR ığdır", ["istanbul", "igdir", "igdir"]),
        ("٤٢١ １２ ४२ ۴۲", ["421", "12", "42", "42"]),
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
        ("👩‍👧 🎉 -- ?!", ["sgn128105", "sgn128103", "sgn127881"]),
        ("❤️ ❤ 👍🏽👍", ["sgn10084", "sgn10084", "sgn128077", "sgn128077"]),
        ("🇩🇪🇦🇹 1️⃣", ["sgn127465sgn127466", "sgn127462sgn127481", "1"]),
        ("5 € → ✓", ["5", "sgn8364", "sgn8594", "sgn10003"]),
        ("", []),
    ],
)
def test_text_is_folded_and_cut_into_words(text: str, found: list[str]) -> None:
    assert split_words(text) == found


@given(TEXTS)
def test_words_are_letters_marks_and_digits_only_and_not_too_long(text: str) -> None:
    for word in split_words(text):
        assert regex.fullmatch(r"[\p{L}\p{N}\p{M}]+", word)
        assert len(word) <= LONGEST_WORD


@given(TEXTS)
def test_case_width_and_composition_do_not_matter(text: str) -> None:
    for form in ("NFC", "NFD"):
        assert split_words(unicodedata.normalize(form, text)) == split_words(text)
    assert split_words(text.casefold()) == split_words(text)


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_is_cut_as_any_other_text_is(text: str) -> None:
    assert split_words(text + " é") == [*split_words(text), "e"]


@given(TEXTS)
def test_what_is_indexed_is_found_by_the_same_words(text: str) -> None:
    # Of a day in digits a query asks for its words, too.
    assume(not re.search(r"\d{4}-\d\d-\d\d", text))
    found = make_index_texts(None, [{"type": "text", "text": text}], {}, NOON)
    assert set(find_query_words(text)) <= set(" ".join(found.chunks).split(" "))


@pytest.mark.parametrize("word", ["c++", "c#", "a+", "🚀", "🇩🇪", "plain"])
def test_a_word_is_shown_with_its_signs(word: str) -> None:
    (spelled,) = split_words(word)
    assert show_word(spelled) == word


def test_an_emoji_alone_is_a_query_with_a_word() -> None:
    assert find_query_words("🚀") == split_words("🚀")
    assert find_query_words("What is 🚀 for?") == split_words("🚀")


def test_a_run_longer_than_any_word_is_cut_the_same_for_index_and_query() -> None:
    assert split_words("x" * 200) == ["x" * LONGEST_WORD]
    assert split_words("é" * 200) == ["e" * LONGEST_WORD]


def test_pairs_overlap_and_one_character_stands_alone() -> None:
    assert split_pairs("abcd") == ["ab", "bc", "cd"]
    assert split_pairs("a") == ["a"]


def test_a_query_has_each_telling_word_once_in_order() -> None:
    assert find_query_words("What is the tea, and the Cake? More tea!") == ["tea", "cake"]


@pytest.mark.parametrize(
    ("question", "telling"),
    [
        ("Was hat die Katze im Garten gemacht?", ["katze", "garten", "gemacht"]),
        ("¿Cuándo fue la fiesta de mi hermana?", ["fiesta", "hermana"]),
        ("Où est-ce que nous avons mangé hier ?", ["mange", "hier"]),
        ("Onde fica a minha bicicleta?", ["fica", "bicicleta"]),
        ("Dove ho messo le chiavi?", ["messo", "chiavi"]),
        ("Waar heb ik mijn sleutels gelaten?", ["sleutels", "gelaten"]),
        ("Где я оставил ключи?", ["оставил", "ключи"]),
        ("Kim bana çay verdi?", ["cay", "verdi"]),
        ("Gdzie są moje klucze?", ["klucze"]),
    ],
)
def test_the_function_words_of_its_own_language_are_left_out(question: str, telling: list[str]) -> None:
    assert find_query_words(question) == telling


def test_a_function_word_of_another_language_is_a_telling_word() -> None:
    assert find_query_words("Who did the war die for?") == ["war", "die"]
    assert find_query_words("When was Dan at the sea?") == ["dan", "sea"]


@pytest.mark.parametrize(
    ("question", "telling"),
    [
        ("son school", ["son", "school"]),
        ("war memories", ["war", "memories"]),
        ("shoe size", ["shoe", "size"]),
        ("Sara birthday", ["sara", "birthday"]),
        ("die Hochzeit von Anna", ["hochzeit", "anna"]),
        ("Wer war Anna?", ["anna"]),
    ],
)
def test_a_word_that_tells_in_another_language_is_no_sign_of_its_own(question: str, telling: list[str]) -> None:
    assert find_query_words(question) == telling


@pytest.mark.parametrize(
    ("question", "telling"),
    [
        ("What did Will say?", ["will", "say"]),
        ("Will he say what he will do?", ["say"]),
        ("What will Don and Will's sister do in May?", ["will", "don", "sister", "may"]),
        ("Don't you know what may happen? Don't!", ["know", "happen"]),
        ("When did we move to the US?", ["move", "us"]),
        ("Who told us about IT?", ["told", "it"]),
        ("AI research", ["ai", "research"]),
        ("Tell me about the US ONLY", ["us"]),
        ("WHAT DID I SAY ABOUT IT?", ["say"]),
    ],
)
def test_a_function_word_that_is_written_as_a_name_is_a_telling_word(question: str, telling: list[str]) -> None:
    assert find_query_words(question) == telling


@pytest.mark.parametrize(
    "question", ["on May 8th?", "on the 8th of May", "the 8th may", "8 May", "may 8"], ids=lambda text: text
)
def test_a_day_is_asked_for_as_people_say_it(question: str) -> None:
    assert sorted(find_query_words(f"What did I eat {question}")) == ["8", "eat", "may"]


def test_a_day_in_iso_form_is_also_asked_for_as_people_write_it() -> None:
    assert find_query_words("food on 2023-05-08") == ["food", "2023", "05", "08", "8", "may"]
    assert find_query_words("2023-15-08") == ["2023", "15", "08"]


def test_an_ordinal_that_is_no_day_stays_a_word() -> None:
    assert find_query_words("my 5th birthday") == ["5th", "birthday"]


def test_a_query_of_function_words_keeps_them() -> None:
    assert find_query_words("to be or not to be") == ["to", "be", "or", "not"]
    assert find_query_words("?!") == []


def test_a_query_has_a_limit_of_words() -> None:
    many = " ".join(f"word{number}" for number in range(100))
    assert find_query_words(many) == [f"word{number}" for number in range(32)]
    assert len(find_query_words(many, most=5)) == 5


def test_function_words_are_words_as_text_is_cut_into() -> None:
    for listed in texts("search.stop_words").values():
        assert [word for word in listed.split() if len(split_words(word)) != 1] == []


def test_a_message_is_indexed_by_its_day_its_speaker_and_everything_said() -> None:
    parts = [
        {"type": "reasoning", "text": "hidden thought"},
        {"type": "text", "text": "Look here"},
        {"type": "image", "data": "aGVsbG8=", "mime_type": "image/png"},
        {"type": "file", "file_name": "Invoice-7.pdf"},
        {"type": "tool_call", "id": "c1", "name": "book_flight", "arguments": {"to": "Oslo", "seats": ["window"]}},
        {"type": "tool_result", "tool_call_id": "c1", "result": [{"type": "text", "text": "booked"}]},
        {"type": "tool_result", "tool_call_id": "c2", "result": {"status": "late"}},
    ]
    said = "Look here\nInvoice-7.pdf\nbook_flight\nOslo\nwindow\nbooked\nlate"
    spoken = "look here invoice 7 pdf book flight oslo window booked late"
    indexed = IndexedText((f"8 may 2023 ana {spoken}",), len(said), None, "Ana", content_words=10)
    assert make_index_texts("Ana", parts, {}, NOON) == indexed
    assert make_index_texts(None, parts, {}, NOON).chunks == (f"8 may 2023 {spoken}",)
    assert make_embedding_texts(parts) == [said]


def test_what_says_nothing_is_not_indexed_whoever_says_it() -> None:
    for parts in ([], [{"type": "image", "url": "https://x.test/a.png"}]):
        assert make_index_texts("Ana", parts, {}, NOON) == IndexedText((), 0, None, "Ana")
        assert make_embedding_texts(parts) == []
    assert make_index_texts("Ana", [{"type": "text", "text": "?!"}], {}, NOON).chunks == ("",)


@pytest.mark.parametrize(
    ("metadata", "mark"), [({}, None), ({"session": "s1"}, "s1"), ({"session": 1}, None), ({"session": None}, None)]
)
def test_a_text_in_the_metadata_marks_the_session(metadata: dict[str, object], mark: str | None) -> None:
    assert make_index_texts(None, [], metadata, NOON).mark == mark


@given(st.text(st.sampled_from("tea ?é茶"), max_size=3 * SIZE))
def test_the_words_and_the_embedded_texts_are_of_the_same_chunks(text: str) -> None:
    parts = [{"type": "text", "text": text}]
    found, texts = make_index_texts("Ana", parts, {}, NOON), make_embedding_texts(parts)
    cut = split_chunks(text)
    assert found.chars == len(text)
    assert texts == cut
    assert found.chunks == tuple(
        " ".join(["8 may 2023 ana", *split_words(chunk)]) if split_words(chunk) else "" for chunk in cut
    )


@pytest.mark.parametrize(
    ("said_at", "text"),
    [
        (0, "1 January 1970"),
        (-1, "31 December 1969"),
        (NOON, "8 May 2023"),
        (1_709_251_199_999, "29 February 2024"),
        (1_709_251_200_000, "1 March 2024"),
        (2**62, ""),
    ],
)
def test_the_day_is_written_as_people_do(said_at: int, text: str) -> None:
    assert format_date(said_at) == text


def test_digits_of_every_script_are_split_also_those_that_python_has_no_value_for() -> None:
    digits = regex.findall(r"\p{Nd}", "".join(map(chr, range(0x110000))))
    assert len(digits) > 600
    for digit in digits:
        assert "zebra" in split_words(f"{digit} zebra")
