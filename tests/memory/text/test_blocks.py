"""Blocks: what is inside one can neither close it nor open another."""

import re

import pytest
from growth import grows_in_step
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.text.echoes import strip_echoes
from layerlore.memory.text.quotation import MARK, TAGS, escape_tags, make_visible, wrap_block

NAMES = (*TAGS, "description", "value", "task", "briefing")
PIECES = st.lists(
    st.sampled_from(["<", "/", ">", " ", "\n", "&lt;", "-", "x", *NAMES, *(tag.upper() for tag in NAMES)])
    | st.text(max_size=3)
)


def test_a_block_has_a_description_and_a_value() -> None:
    assert wrap_block("user-profile", "likes tea", "About the user.") == (
        f"<user-profile>\n<description>\n{MARK} About the user.\n</description>\n"
        "<value>\nlikes tea\n</value>\n</user-profile>"
    )
    assert wrap_block("plan", "Goal: tea") == (
        f"<plan>\n<description>\n{MARK}\n</description>\n<value>\nGoal: tea\n</value>\n</plan>"
    )


@given(value=PIECES.map("".join), around=st.tuples(PIECES.map("".join), PIECES.map("".join)))
def test_a_block_is_cut_out_of_a_text_again_and_nothing_else(value: str, around: tuple[str, str]) -> None:
    before, after = around
    for tag in TAGS:
        text = f"{before}\n\n{wrap_block(tag, value, 'Ours.')}\n\n{after}"
        # Ends of lines as Windows has them become plain ones.
        assert strip_echoes(text) == f"{before}\n\n\n\n{after}".replace("\r\n", "\n").strip()
    assert strip_echoes(f"<plan>\n{before}\n</plan>") == f"<plan>\n{before}\n</plan>"


def test_of_blocks_that_were_cut_off_nothing_is_left_and_the_work_grows_in_step_with_them() -> None:
    head = wrap_block("plan", "x")[: -len("\n</value>\n</plan>")]
    assert strip_echoes(f"Hi.\n{head}\n" * 3000) == "Hi."
    assert grows_in_step(lambda count: strip_echoes(f"Hi.\n{head}\n" * count), 3000)


@pytest.mark.parametrize("tag", NAMES)
@pytest.mark.parametrize("form", ["<{}>", "</{}>", "< / {} >", "<{} a='b'>", "<{}/>", "<{}", "<\n{}>"])
def test_whatever_looks_like_a_tag_of_ours_is_escaped(tag: str, form: str) -> None:
    for name in (tag, tag.upper(), tag.title()):
        text = f"a {form.format(name)} b"
        assert escape_tags(text) == text.replace("<", "(")


@pytest.mark.parametrize(
    "text",
    ["a < b", "<b>bold</b>", "<memory-card>", "<values>", "<div class='plan'>", "x<y>z", "List<String>", "<plans>"],
)
def test_text_that_is_no_tag_of_ours_stays_as_it_is(text: str) -> None:
    assert escape_tags(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "<\u200b/plan>",
        "</\ufeff value>",
        "</us\u00ader-profile>",
        "<session\u2060-memory\u200d>",
        "</v\ufe0falue",
        "<\xa0plan>",
    ],
)
def test_a_tag_with_characters_in_it_that_nobody_sees_is_escaped(text: str) -> None:
    assert escape_tags(text) == "(" + make_visible(text)[1:]


def test_the_work_on_spaces_after_the_sign_that_opens_a_tag_grows_in_step_with_them() -> None:
    def escape(count: int) -> None:
        text = "<" + " \n\u200b" * count + "/" + " " * 3 * count
        assert escape_tags(text) == make_visible(text)
        assert escape_tags(text + "plan>") == "(" + make_visible(text)[1:] + "plan>"

    assert grows_in_step(escape, 8_000)


@given(PIECES)
def test_no_text_closes_its_block_or_opens_another(pieces: list[str]) -> None:
    inside = escape_tags("".join(pieces))
    assert not re.search(rf"<\s*/?\s*({'|'.join(TAGS)})(?![\w-])", inside, re.IGNORECASE)
    assert escape_tags(inside) == inside
    whole = wrap_block("session-memory", "".join(pieces), "Ours.")
    assert whole.count("</session-memory>") == whole.count("<value>") == 1


@given(PIECES)
def test_only_the_signs_that_open_a_tag_change(pieces: list[str]) -> None:
    text = "".join(pieces)
    changed = escape_tags(text).replace("(", "<").replace("[", "<").replace("&lt;", "<")
    assert changed == make_visible(text).replace("(", "<").replace("[", "<").replace("&lt;", "<")
