"""Our section of a file that others write, too: put in and taken out to the byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.server.capture.memory_notes import SectionDamaged, drop_section, find_section, put_section

OWNER = "0a1b2c3d"
texts = st.lists(st.sampled_from(["# Rules", "- Obey.", "\n", "\r\n", "\r", " ", "ä", "\ufeff", "<!-- mine -->"])).map(
    "".join
)
lines = st.lists(st.sampled_from(["## Ours", "- Ana likes pears.", "- Ben likes plums."]), min_size=1)


@given(texts, lines, lines)
def test_a_section_that_is_put_in_changed_and_taken_out_leaves_the_text_as_it_was(
    text: str, first: list[str], second: list[str]
) -> None:
    put = put_section(text, first, OWNER)
    assert text in put
    assert put_section(put_section(put, second, OWNER), first, OWNER) == put
    assert drop_section(put) == text
    assert drop_section(put_section(put, second, OWNER)) == text


@given(texts, texts.filter(str.strip))
def test_what_others_write_behind_the_section_stays(text: str, more: str) -> None:
    put = put_section(text, ["- Ana likes pears."], OWNER)
    left = drop_section(put + more)
    assert left.startswith(text)
    assert left.endswith(more)


def test_a_line_that_others_write_into_the_section_is_known_as_new() -> None:
    put = put_section("", ["- Ana likes pears.", "- Ben likes plums."], OWNER)
    edited = put.replace("- Ben likes plums.", "- Ben likes figs.\n\n- Cy likes tea.")
    section = find_section(edited)
    assert section is not None
    assert section.new_lines == ["- Ben likes figs.", "- Cy likes tea."]


@pytest.mark.parametrize("broken", ["<!-- layerlore:end", "<!-- layerlore:begin"])
def test_a_text_that_lacks_a_mark_is_not_touched(broken: str) -> None:
    put = put_section("# Rules\n", ["- Ana likes pears."], OWNER)
    for text in (put.replace(broken, "<!--"), put + put):
        with pytest.raises(SectionDamaged):
            put_section(text, ["- Ben likes plums."], OWNER)
        with pytest.raises(SectionDamaged):
            drop_section(text)
