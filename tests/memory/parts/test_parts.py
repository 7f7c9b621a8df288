"""What can be read from parts: sizes, what a model reads, what a search finds, what a person sees."""

import pytest

from layerlore.memory.parts.parts import media_bytes, part_text_bytes, part_texts, plain_text, searchable_text

TEXT = {"type": "text", "text": "Grüße"}
REASONING = {"type": "reasoning", "text": "Hm.", "signature": "sig"}
IMAGE = {"type": "image", "data": "AAAA", "mime_type": "image/png"}
LINK = {"type": "image", "url": "https://a/i.png"}
CAPTIONED = {**IMAGE, "caption": "ein Fuß"}
CAPTION = {"type": "image", "caption": "a red bicycle"}
FILE = {"type": "file", "data": "AAAAAAAA", "file_name": "a.pdf", "metadata": {"k": "v"}}
CALL = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"q": "übel", "deep": [{"n": 1, "s": "inner"}]}}
RESULT = {"type": "tool_result", "tool_call_id": "c1", "name": "look", "result": "seen"}
TREE = {"type": "tool_result", "tool_call_id": "c1", "result": {"rows": [{"city": "Bern"}, 3]}}
SHOT = {"type": "tool_result", "tool_call_id": "c1", "result": [TEXT, IMAGE, FILE], "is_error": True}
SEEN = {"type": "tool_result", "tool_call_id": "c1", "result": [CAPTION]}
BLOB = {"type": "tool_result", "tool_call_id": "c1", "result": {"blob": "QUJD" * 64, "kind": "short"}}
LOOKALIKE = {"type": "tool_result", "tool_call_id": "c1", "result": [{"type": "image", "data": "AAAA", "more": "x"}]}


@pytest.mark.parametrize(
    ("part", "text", "media"),
    [
        (TEXT, 7, 0),
        (REASONING, 6, 0),
        (IMAGE, 9, 4),
        (LINK, 15, 0),
        (CAPTIONED, 9 + 8, 4),
        (CAPTION, 13, 0),
        (FILE, 5 + len('{"k":"v"}'), 8),
        (CALL, 2 + 4 + len('{"q":"übel","deep":[{"n":1,"s":"inner"}]}') + 1, 0),
        (RESULT, 2 + 4 + 4, 0),
        (TREE, 2 + len('{"rows":[{"city":"Bern"},3]}'), 0),
        (LOOKALIKE, 2 + len('[{"type":"image","data":"AAAA","more":"x"}]'), 0),
    ],
)
def test_a_part_is_measured_in_bytes_of_text_and_of_base64(part, text, media):
    assert (part_text_bytes(part), media_bytes(part)) == (text, media)


def test_base64_inside_a_tools_result_counts_as_base64():
    assert media_bytes(SHOT) == 12
    longer = {**SHOT, "result": [TEXT, {**IMAGE, "data": "A" * 400}, FILE]}
    assert media_bytes(longer) == 408
    assert part_text_bytes(longer) == part_text_bytes(SHOT)


@pytest.mark.parametrize(
    ("part", "texts"),
    [
        (TEXT, ["Grüße"]),
        (REASONING, ["Hm."]),
        (IMAGE, []),
        (CAPTIONED, ["[image: ein Fuß]"]),
        (SEEN, ["[image: a red bicycle]"]),
        (FILE, ["a.pdf"]),
        (CALL, ["look", '{"q":"übel","deep":[{"n":1,"s":"inner"}]}']),
        (RESULT, ["seen"]),
        (TREE, ['{"rows":[{"city":"Bern"},3]}']),
        (SHOT, ["Grüße", "a.pdf"]),
    ],
)
def test_what_a_model_reads_of_a_part_has_no_base64_and_no_ids(part, texts):
    assert list(part_texts(part)) == texts


def test_a_search_finds_words_but_no_reasoning_no_keys_and_no_base64():
    parts = [TEXT, REASONING, IMAGE, LINK, CAPTIONED, FILE, CALL, RESULT, TREE, SHOT, SEEN, BLOB]
    assert searchable_text(parts).split("\n") == [
        "Grüße",
        "ein Fuß",
        "a.pdf",
        "look",
        "übel",
        "inner",
        "seen",
        "Bern",
        "Grüße",
        "a.pdf",
        "a red bicycle",
        "short",
    ]


@pytest.mark.parametrize(
    ("part", "read"),
    [
        (TEXT, "Grüße"),
        (REASONING, "[reasoning]"),
        (IMAGE, "[image]"),
        (LINK, "[image]"),
        (CAPTIONED, "[image: ein Fuß]"),
        (CAPTION, "[image: a red bicycle]"),
        (SEEN, "[tool result: [image: a red bicycle]]"),
        (FILE, "[file: a.pdf]"),
        ({"type": "file", "url": "https://a/b"}, "[file: https://a/b]"),
        ({"type": "file", "data": "AAAA"}, "[file]"),
        (CALL, '[tool call look({"q":"übel","deep":[{"n":1,"s":"inner"}]})]'),
        (RESULT, "[tool result look: seen]"),
        (TREE, '[tool result: {"rows":[{"city":"Bern"},3]}]'),
        (SHOT, "[tool error: Grüße\n[image]\n[file: a.pdf]]"),
    ],
)
def test_a_person_sees_text_and_a_placeholder_for_everything_else(part, read):
    assert plain_text([part]) == read
    assert plain_text([TEXT, part]) == f"Grüße\n{read}"
