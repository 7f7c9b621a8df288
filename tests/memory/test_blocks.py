"""Blocks: what is inside one can neither close it nor open another."""

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memstrata.memory.blocks import Tag, block, escaped

TAGS = (*get_args(Tag), "description", "value", "task", "briefing")
PIECES = st.lists(
    st.sampled_from(["<", "/", ">", " ", "\n", "&lt;", "-", "x", *TAGS, *(tag.upper() for tag in TAGS)])
    | st.text(max_size=3)
)


def test_a_block_has_a_description_and_a_value() -> None:
    assert block("user-profile", "likes tea", "About the user.") == (
        "<user-profile>\n<description>\nAbout the user.\n</description>\n<value>\nlikes tea\n</value>\n</user-profile>"
    )
    assert block("plan", "Goal: tea") == "<plan>\nGoal: tea\n</plan>"


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("form", ["<{}>", "</{}>", "< / {} >", "<{} a='b'>", "<{}/>", "<{}", "<\n{}>"])
def test_whatever_looks_like_a_tag_of_ours_is_escaped(tag: str, form: str) -> None:
    for name in (tag, tag.upper(), tag.title()):
        text = f"a {form.format(name)} b"
        assert escaped(text) == text.replace("<", "&lt;")


@pytest.mark.parametrize(
    "text",
    ["a < b", "<b>bold</b>", "<memory-card>", "<values>", "<div class='plan'>", "x<y>z", "List<String>", "<plans>"],
)
def test_text_that_is_no_tag_of_ours_stays_as_it_is(text: str) -> None:
    assert escaped(text) == text


@given(PIECES)
def test_no_text_closes_its_block_or_opens_another(pieces: list[str]) -> None:
    inside = escaped("".join(pieces))
    assert not re.search(rf"<\s*/?\s*({'|'.join(TAGS)})(?![\w-])", inside, re.IGNORECASE)
    assert escaped(inside) == inside
    whole = block("session-memory", "".join(pieces), "Ours.")
    assert whole.count("</session-memory>") == whole.count("<value>") == 1


@given(PIECES)
def test_only_the_signs_that_open_a_tag_change(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert escaped(text).replace("&lt;", "<") == text.replace("&lt;", "<")
