"""The parts of a message, read from the JSON that they are stored as."""

import json

import pytest

from layerlore.storage.core.json_text import NOTE, parts_of, to_json

TEXTS = ["tea", "", 'say "tea"', "one\ntwo", "C:\\tea", '"}]', "茶 🍵", "\x00", "tea\u2028tea", '","type":"image']


@pytest.mark.parametrize("text", TEXTS)
def test_one_text_is_read_as_it_was_written(text: str) -> None:
    parts = [{"type": "text", "text": text}]
    assert parts_of(to_json(parts)) == parts == json.loads(to_json(parts))


def test_a_text_with_something_beside_it_is_read_whole() -> None:
    for parts in ([{"type": "text", "text": "a"}] * 2, [{"type": "text", "text": "a", "cache": True}], []):
        assert parts_of(to_json(parts)) == parts


@pytest.mark.parametrize(
    "damaged",
    [
        '[{"type":"text","text":"te\na"}]',
        '[{"type":"text","text":"te\\qa"}]',
        '[{"type":"text","text":"tea"}',
        "",
        None,
    ],
)
def test_what_is_no_json_is_told(damaged: str) -> None:
    assert parts_of(damaged) == [{"type": "text", "text": NOTE}]
