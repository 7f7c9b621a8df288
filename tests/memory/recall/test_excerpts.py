"""What is shown of a long text: the sentences that match, what they need, and marks where something is left out."""

import json

from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.language.search_words import split_words
from layerlore.memory.parts.tokens import CUT_MARK
from layerlore.memory.recall.excerpts import CUT, pick_sentence, pick_sentences
from layerlore.memory.text.quotation import join_lines

FILLER = "Nothing of that is what anybody looked for, and nobody ever will. " * 12


def test_a_text_that_fits_stays_whole_on_one_line() -> None:
    assert pick_sentences("one\n\ntwo  three", {"zebra": 1.0}, 100) == "one two three"


def test_the_sentence_with_the_words_is_shown_with_the_one_before_it() -> None:
    text = f"{FILLER}We moved in May. The ferries leave Graz at nine o'clock. {FILLER}"
    shown = pick_sentences(text, {"ferry": 2.0, "graz": 3.0}, 120)
    assert shown == f"{CUT} We moved in May. The ferries leave Graz at nine o'clock.{CUT_MARK}"


def test_rare_words_count_more_than_frequent_ones() -> None:
    text = f"The meeting is about the budget. {FILLER}\nThe violin is from Cremona. {FILLER}"
    assert "Cremona" in pick_sentences(text, {"meeting": 0.5, "budget": 0.5, "violin": 4.0}, 80)
    assert "budget" in pick_sentences(text, {"meeting": 3.0, "budget": 3.0, "violin": 4.0}, 80)


def test_an_item_of_a_list_is_shown_under_its_heading() -> None:
    items = "\n".join(f"- step number {number} of the many steps" for number in range(20))
    text = f"{FILLER}\nHow to oil the bicycle:\n{items}\n- clean the chain with petrol\n{FILLER}"
    shown = pick_sentences(text, {"chain": 2.0, "petrol": 2.0}, 100)
    assert shown == f"{CUT} How to oil the bicycle: {CUT} - clean the chain with petrol{CUT_MARK}"


def test_without_a_word_the_chunk_that_was_found_is_shown() -> None:
    text = f"{FILLER}\nMila purrs when she is fed at noon.\n{FILLER}"
    assert "Mila purrs" in pick_sentences(text, {"pet": 2.0}, 100, "Mila purrs when she is fed at noon.")


def test_without_a_word_and_a_chunk_the_beginning_is_shown() -> None:
    assert pick_sentences(f"It all begins here. {FILLER}", {"pet": 2.0}, 60) == f"It all begins here.{CUT_MARK}"


def test_a_text_without_a_sentence_is_cut_at_spaces() -> None:
    shown = pick_sentences("lorem ipsum " * 300 + "violin " + "dolor sit " * 300, {"violin": 1.0}, 250)
    assert "violin" in shown
    assert len(shown) <= 250 + len(f"{CUT} {CUT_MARK}")


def test_sentences_of_scripts_without_spaces_are_told_apart() -> None:
    text = "今日は天気がいいです。" * 40 + "私の猫の名前はミラです。" + "明日は雨が降るでしょう。" * 40
    assert "私の猫の名前はミラです。" in pick_sentences(text, {"ミラ": 3.0}, 60)


def test_a_word_with_a_digit_is_found_as_it_is_alone() -> None:
    records = json.dumps([{"id": number, "host": f"host{number}", "pin": 1000 + number} for number in range(300)])
    shown = pick_sentences(f"Inventory: {records}", {"pin": 1.0, "host180": 3.0}, 320)
    assert '{"id": 180, "host": "host180", "pin": 1180}' in shown


def test_the_word_itself_outranks_another_form_of_it() -> None:
    text = f"The priceless painting hangs here. {FILLER}\nThe price is known to all of us. {FILLER}"
    assert pick_sentences(text, {"price": 1.0}, 60) == f"{CUT} The price is known to all of us.{CUT_MARK}"


def test_a_name_is_shown_with_the_value_behind_it() -> None:
    fields = ",".join(f"item{number}=price {number * 7 % 100}" for number in range(1500))
    text = fields.replace("item900=price 0", "item900=zirconium flange price 63")
    assert "zirconium flange price 63" in pick_sentences(text, {"zirconium": 3.0, "flange": 3.0, "price": 0.1}, 320)


def test_what_a_line_ends_with_is_shown_with_the_line_below() -> None:
    text = f"{FILLER}\nThe word for the wifi:\nquokka tango seven\n{FILLER}"
    assert "wifi: quokka tango seven" in pick_sentences(text, {"wifi": 3.0}, 100)


def test_of_a_long_sentence_what_stands_around_the_word_is_shown() -> None:
    words = [f"word{number}" for number in range(400)]
    shown = pick_sentences(" ".join(words), {"word200": 1.0}, 320)
    assert {"word190", "word195", "word200"} <= set(shown.split())


def test_pieces_of_a_text_without_spaces_are_shown_as_they_stand() -> None:
    text = ";".join(f"host{number}:{1000 + number}" for number in range(300))
    shown = pick_sentences(text, {"host180": 1.0}, 320)
    assert "host180:1180;" in shown
    assert shown.removeprefix(f"{CUT} ").removesuffix(CUT_MARK) in text


GUIDE = """Certainly! Here is a plan for your service.

### Retries

When the service refuses a call, wait twice as long as before the last attempt.

```python
def retry(call):
    for attempt in range(5):
        call(attempt)
```

### Logging

1. **Format**:
   - Write one JSON object a line.
   - Leave out the bodies of uploads.
2. **Level**:
   - Warnings alone go to the pager of the night shift.

### Costs

| Region | Price |
|--------|-------|
| Oslo   | 41    |
| Madrid | 38    |

Tell me if you need further details about any of these sections of the plan, and which of them comes first for you.
"""


def test_a_hit_on_a_heading_shows_the_sentence_below_it() -> None:
    shown = pick_sentences(GUIDE, {"retries": 3.0}, 120)
    assert "### Retries When the service refuses a call, wait twice as long as before the last attempt." in shown


def test_a_heading_counts_only_for_its_own_section() -> None:
    assert "further details" not in pick_sentences(GUIDE, {"logging": 3.0, "format": 2.0}, 200)


def test_an_item_of_a_list_comes_with_the_bold_item_above_it() -> None:
    shown = pick_sentences(GUIDE, {"pager": 3.0}, 100)
    assert shown == f"{CUT} 2. **Level**: - Warnings alone go to the pager of the night shift.{CUT_MARK}"


def test_a_row_of_a_table_comes_with_its_first_row() -> None:
    assert "| Region | Price |" in pick_sentences(GUIDE, {"madrid": 3.0}, 100)
    assert "| Madrid | 38" in pick_sentences(GUIDE, {"madrid": 3.0}, 100)


def test_without_a_word_the_sentences_of_the_chunk_are_shown_and_not_its_code() -> None:
    chunk = GUIDE[GUIDE.index("### Retries") : GUIDE.index("### Logging")]
    shown = pick_sentences(GUIDE, {"recommend": 3.0}, 200, chunk)
    assert "wait twice as long" in shown
    assert "range(5)" not in shown


def test_code_is_shown_for_words_that_no_sentence_has() -> None:
    assert "range(5)" in pick_sentences(GUIDE, {"range": 3.0}, 60)


def test_one_line_of_code_is_shown_below_the_sentence_that_has_its_words() -> None:
    text = f"Lower the limit of the pool.\n```\nlimit = 50\npool(limit)\nlimit = None\n```\n{FILLER}"
    shown = pick_sentences(text, {"limit": 3.0}, 300)
    assert shown == f"Lower the limit of the pool. ``` limit = 50{CUT_MARK}"


def test_a_sentence_that_leads_to_code_is_found_like_any_other() -> None:
    text = f"{FILLER}\nOur database is Postgres 15, here is the file:\n```\nmax = 1\n```\n{FILLER}"
    assert "Postgres 15" in pick_sentences(text, {"postgres": 3.0}, 100)


def test_a_bold_line_with_nothing_below_it_is_found_like_a_sentence() -> None:
    text = "\n".join(f"**Errand number {number}**" for number in range(40)) + "\n**Buy the milk**"
    assert "Buy the milk" in pick_sentences(text, {"milk": 3.0}, 80)


def test_a_line_of_emoji_is_found() -> None:
    assert "🎻" in pick_sentences(f"{FILLER}\n🎻\n{FILLER}", dict.fromkeys(split_words("🎻"), 3.0), 100)


def test_titles_of_other_scripts_count_for_what_stands_below_them() -> None:
    text = "今日は天気がいいです。" * 40 + "\n買うもの：\n- 牛乳と卵を二つずつ\n" + "明日は雨が降るでしょう。" * 40
    assert "買うもの： - 牛乳と卵を二つずつ" in pick_sentences(text, {"牛乳": 3.0}, 60)


def test_one_sentence_comes_with_its_title_alone() -> None:
    shown = pick_sentence(GUIDE, {"json": 3.0, "uploads": 1.0, "warnings": 1.0}, 150)
    assert shown == f"{CUT} 1. **Format**: - Write one JSON object a line.{CUT_MARK}"


texts = st.text(st.sampled_from("ab .!?\n-1。é#*:|`; "), max_size=700)


@given(texts, st.lists(st.sampled_from(["a", "ab", "abab", "1"]), max_size=3), st.integers(20, 400))
def test_what_is_shown_stands_in_the_text(text: str, sought: list[str], most: int) -> None:
    shown = pick_sentences(text, dict.fromkeys(sought, 1.0), most)
    rest = join_lines(text)
    for piece in shown.removesuffix(CUT_MARK).split(CUT):
        at = rest.find(join_lines(piece))
        assert at >= 0
        rest = rest[at + len(join_lines(piece)) :]
    assert len(shown) <= most + len(CUT_MARK) + 2 * shown.count(CUT)
