"""Messages of every shape become one form, or an error that says where and why not."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from layerlore.memory.parts.message_shapes import IncomingMessage, parse_messages
from layerlore.memory.parts.parts import PART_KEYS
from layerlore.memory.rules.validation import Limits
from layerlore.storage.core.errors import InvalidInput, LayerloreError, LimitExceeded

LIMITS = Limits()
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
SOME_TEXT = TEXTS.filter(bool)
IDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)
BASE64 = st.sampled_from(["AAAA", "aGk=", "+/+/"])
URLS = st.sampled_from(["https://example.com/a.png", "s3://bucket/key", "/relative"])

# Key order is part of the canonical form, so these are dicts of the very order that is expected back.
TEXT_PARTS = st.builds(lambda text: {"type": "text", "text": text}, SOME_TEXT)
REASONING_PARTS = st.builds(
    lambda text, extra: {"type": "reasoning", "text": text, **extra},
    SOME_TEXT,
    st.sampled_from([{}, {"signature": "s"}, {"signature": "s", "data": "d"}]),
) | st.just({"type": "reasoning", "text": "", "data": "d"})
CAPTIONS = st.fixed_dictionaries({"caption": SOME_TEXT})
IMAGE_PARTS = st.builds(
    lambda source, kind, caption: {"type": "image", **source, **kind, **caption},
    st.fixed_dictionaries({"url": URLS}) | st.fixed_dictionaries({"data": BASE64}),
    st.sampled_from([{}, {"mime_type": "image/png"}]),
    st.just({}) | CAPTIONS,
) | CAPTIONS.map(lambda caption: {"type": "image", **caption})
FILE_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "url": URLS,
        "data": BASE64,
        "file_name": SOME_TEXT,
        "file_size": st.integers(0, 2**63 - 1),
        "content_type": SOME_TEXT,
        "metadata": OBJECTS.filter(bool),
    },
).filter(lambda fields: fields.keys() & {"url", "data", "file_name", "metadata"})
FILE_PARTS = FILE_FIELDS.map(
    lambda fields: {"type": "file", **{key: fields[key] for key in PART_KEYS["file"] if key in fields}}
)
CALL_PARTS = st.builds(lambda i, n, a: {"type": "tool_call", "id": i, "name": n, "arguments": a}, IDS, IDS, OBJECTS)
RESULT_PARTS = st.builds(
    lambda i, name, result, error: {"type": "tool_result", "tool_call_id": i, **name, "result": result, **error},
    IDS,
    st.sampled_from([{}, {"name": "look"}]),
    VALUES,
    st.sampled_from([{}, {"is_error": True}]),
)
FREE_PARTS = TEXT_PARTS | REASONING_PARTS | IMAGE_PARTS | FILE_PARTS
SAID = st.one_of(
    st.tuples(st.sampled_from(["system", "user"]), st.lists(FREE_PARTS, min_size=1, max_size=4)),
    st.tuples(st.just("assistant"), st.lists(FREE_PARTS | CALL_PARTS | RESULT_PARTS, min_size=1, max_size=4)),
    st.tuples(st.just("tool"), st.lists(RESULT_PARTS, min_size=1, max_size=3)),
)
CANONICAL = st.builds(
    lambda said, message_id, name, metadata, time: IncomingMessage(message_id, said[0], name, said[1], metadata, time),
    SAID,
    st.none() | IDS,
    st.none() | IDS,
    OBJECTS,
    st.none() | st.integers(631_152_000_000, 20_000_000_000_000),
)


def as_sent(message: IncomingMessage) -> dict:
    return {name: getattr(message, name) for name in IncomingMessage.__slots__}


def parse_one(message: dict) -> IncomingMessage:
    (parsed,) = parse_messages(message, LIMITS)
    return parsed


def refusal(raw, limits=LIMITS) -> str:
    with pytest.raises(InvalidInput) as caught:
        parse_messages(raw, limits)
    return str(caught.value)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(CANONICAL, min_size=1, max_size=3, unique_by=lambda m: m.id if m.id is not None else id(m)))
def test_the_canonical_form_comes_back_as_it_went_in(messages):
    sent = [as_sent(message) for message in messages]
    parsed = parse_messages(sent, LIMITS)
    assert parsed == messages
    assert [json.dumps(message.parts) for message in parsed] == [json.dumps(message.parts) for message in messages]
    assert parse_messages(json.dumps(sent), LIMITS) == messages


@settings(deadline=None)
@given(FREE_PARTS | CALL_PARTS | RESULT_PARTS)
def test_equal_parts_give_equal_json_in_whatever_order_their_keys_come(part):
    (parsed,) = parse_one({"role": "assistant", "parts": [dict(reversed(part.items()))]}).parts
    assert json.dumps(parsed) == json.dumps(part)


@settings(deadline=None)
@given(SOME_TEXT)
def test_every_text_comes_through_unchanged(text):
    ways = [
        {"role": "user", "content": text},
        {"role": "user", "content": [text]},
        {"role": "user", "content": [{"type": "text", "text": text}]},
        {"role": "user", "parts": [{"type": "text", "text": text}]},
    ]
    for message in parse_messages(ways, LIMITS):
        assert message == IncomingMessage(None, "user", None, [{"type": "text", "text": text}], {}, None)


KEYS = (
    st.sampled_from(
        ["role", "content", "parts", "id", "name", "metadata", "created_at", "files", "tool_call_id", "type"]
    )
    | st.sampled_from(["tool_calls", "function_call", "refusal", "audio", "images", "thinking_blocks", "reasoning"])
    | st.sampled_from(
        ["text", "url", "data", "source", "image_url", "file", "function", "custom", "arguments", "input"]
    )
    | st.sampled_from(["tool_use_id", "result", "is_error", "file_id", "usage"])
)
ROLES_AND_TYPES = (
    st.sampled_from(["user", "assistant", "tool", "function", "developer", "base64", "content", "custom"])
    | st.sampled_from(["text", "image", "image_url", "file", "input_audio", "document", "search_result", "refusal"])
    | st.sampled_from(["thinking", "redacted_thinking", "tool_use", "tool_result", "web_search_tool_result"])
)
JUNK = st.recursive(
    ROLES_AND_TYPES | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=6),
    max_leaves=25,
)
MESSAGE_JUNK = st.builds(
    lambda role, junk, inner: {"role": role, **junk, "content": inner},
    ROLES_AND_TYPES,
    st.dictionaries(KEYS, JUNK, max_size=3),
    st.lists(
        st.builds(lambda kind, fields: {**fields, "type": kind}, ROLES_AND_TYPES, st.dictionaries(KEYS, JUNK)),
        max_size=2,
    ),
)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(JUNK | MESSAGE_JUNK | st.lists(MESSAGE_JUNK, max_size=2))
def test_nothing_but_our_errors_is_raised_whatever_is_sent(raw):
    try:
        parsed = parse_messages(raw, LIMITS)
    except LayerloreError as error:
        str(error).encode()  # an error that cannot be written is no answer
    else:
        again = parse_messages([as_sent(message) for message in parsed], LIMITS)
        assert again == parsed


@pytest.mark.parametrize("raw", [None, 3, True, "", "hello", "3", '"text"', "[", '[{"role": NaN}]', [], "[]", [[]]])
def test_what_is_no_message_is_refused_by_saying_what_is(raw):
    assert "message" in refusal(raw)


def test_one_message_a_list_and_a_json_string_of_either_are_the_same():
    message = {"role": "user", "content": "hi"}
    expected = [IncomingMessage(None, "user", None, [{"type": "text", "text": "hi"}], {}, None)]
    for raw in (message, [message], json.dumps(message), json.dumps([message])):
        assert parse_messages(raw, LIMITS) == expected


def test_the_keys_around_the_content_are_read():
    parsed = parse_one(
        {
            "id": "m1",
            "role": "developer",
            "name": "ops",
            "content": "Be brief.",
            "metadata": {"k": [1]},
            "created_at": "2025-03-01T14:30:00+01:00",
        }
    )
    assert parsed == IncomingMessage(
        "m1", "system", "ops", [{"type": "text", "text": "Be brief."}], {"k": [1]}, 1_740_835_800_000
    )


FILE = {"url": "https://example.com/file.pdf", "metadata": {}, "file_name": "document.pdf", "file_size": 123456}


@pytest.mark.parametrize("files", [[FILE], {"files": [FILE]}, [{**FILE, "type": "file", "content_type": ""}]])
def test_files_beside_the_content_become_parts_after_it(files):
    parsed = parse_one({"role": "user", "content": "see", "files": files})
    assert parsed.parts[1:] == [
        {
            "type": "file",
            "url": "https://example.com/file.pdf",
            "file_name": "document.pdf",
            "file_size": 123456,
        }
    ]


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("hi", "messages[0]: must be an object such as {'role': 'user', 'content': '...'}, not 'hi'"),
        (
            {"content": "hi"},
            "messages[0].role: is missing; allowed: system, user, assistant, tool, developer, function, model, human, ai",
        ),
        (
            {"role": "asistant", "content": "hi"},
            "messages[0].role: unknown role 'asistant'; allowed: system, user, assistant, tool, developer, function, model, "
            "human, ai; "
            "did you mean 'assistant'?",
        ),
        (
            {"role": "user", "contnet": "hi"},
            "messages[0]: unknown key 'contnet'; allowed: role, content, parts, id, name, metadata, created_at, said_at, files, "
            "tool_call_id, refusal, audio, tool_calls, function_call; did you mean 'content'?",
        ),
        ({"role": "user", "content": 3}, "messages[0].content: must be a string or a list of strings and parts"),
        ({"role": "user", "content": [3]}, "messages[0].content[0]: must be a string or a part such as"),
        ({"role": "user", "content": ["a", {"text": "b"}]}, "messages[0].content[1]: the part has no type; allowed: "),
        (
            {"role": "user", "content": [{"type": "imege", "url": "x"}]},
            "messages[0].content[0]: unknown part type 'imege'; allowed: text, reasoning, image, file, tool_call, "
            "tool_result, image_url, ",
        ),
        (
            {"role": "user", "parts": [{"type": "text", "text": "a", "txet": "b"}]},
            "messages[0].parts[0]: unknown key 'txet'; allowed: type, text; did you mean 'text'?",
        ),
        ({"role": "user", "content": "a\x00"}, "messages[0].content: character 1 is NUL"),
        ({"role": "user", "content": "a", "parts": ["b"]}, "messages[0]: has both parts and content"),
        ({"role": "user", "content": "a", "id": 7}, "messages[0].id: must be a string, not a number"),
        ({"role": "user", "content": "a", "name": "x\n"}, "messages[0].name: character 1 is the control character"),
        ({"role": "user", "content": "a", "type": "human"}, "messages[0].type: unknown type of message 'human'"),
        ({"role": "user", "content": "a", "created_at": "now"}, "messages[0].created_at: must be an ISO 8601 time"),
        ({"role": "user", "content": "a", "files": "b"}, "messages[0].files: must be a list, not 'b'"),
        ({"role": "user", "content": "a", "files": [{}]}, "messages[0].files[0]: a file needs at least one of: url"),
        ({"role": "user", "content": "a", "files": [{"type": "image"}]}, "messages[0].files[0].type: unknown type"),
        ({"role": "tool", "content": "a"}, "messages[0]: a message of the role tool answers a call; give tool_call_id"),
        ({"role": "user", "content": "a", "tool_call_id": "c"}, "messages[0].tool_call_id: is allowed only in"),
        (
            {"role": "user", "content": [{"type": "tool_call", "id": "c", "name": "n", "arguments": {}}]},
            "messages[0]: only a message of the role assistant may hold tool calls, not one of user",
        ),
        (
            {"role": "tool", "content": [{"type": "reasoning", "text": "hm"}], "tool_call_id": "c"},
            "messages[0].content: a tool's answer holds text, image, file parts, not reasoning",
        ),
        ({"role": "user", "content": [{"type": "image"}]}, "messages[0].content[0]: an image needs a URL or base64"),
        (
            {"role": "user", "content": [{"type": "image", "caption": ""}]},
            "messages[0].content[0]: an image needs a URL or base64 data, or a caption that describes it",
        ),
        ({"role": "user", "content": [{"type": "image", "caption": 1}]}, "messages[0].content[0].caption: "),
        *(
            (
                {"role": "user", "content": [{"type": "image", "data": bad}]},
                "messages[0].content[0].data: is not base64; allowed are A-Z, a-z, 0-9, + and /, in groups of four",
            )
            for bad in ["AAA", "AAAA====", "A===", "A=AA", "_AAA", "éAAA", "===="]
        ),
        (
            {"role": "user", "content": [{"type": "file", "file_name": "a", "file_size": -1}]},
            "messages[0].content[0].file_size: must be a whole number of bytes",
        ),
        (
            {"role": "assistant", "content": [{"type": "tool_result", "tool_call_id": "c"}]},
            "messages[0].content[0].result: is missing; any JSON is allowed",
        ),
        (
            {"role": "assistant", "content": [{"type": "tool_call", "id": "c", "name": "n", "arguments": 3}]},
            "messages[0].content[0].arguments: must be a JSON object, not a number",
        ),
    ],
)
def test_an_error_names_the_place_and_what_is_allowed(message, error):
    assert refusal([message]).startswith(error)


@pytest.mark.parametrize(
    "nothing",
    [
        {},
        {"content": None},
        {"content": ""},
        {"content": []},
        {"content": ["", {"type": "text", "text": ""}]},
        {"parts": []},
        {"content": "", "files": []},
        {"content": None, "tool_calls": [], "refusal": None},
    ],
)
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_message_that_says_nothing_is_an_error(role, nothing):
    assert "messages[0]: has no content" in refusal({"role": role, **nothing})


def test_two_messages_of_one_call_cannot_have_the_same_id():
    same = {"role": "user", "content": "hi", "id": "m1"}
    other = {"role": "user", "content": "hi"}
    assert "messages[3].id: 'm1' is already the id of messages[1]" in refusal([other, same, other, same])
    assert len(parse_messages([other, other], LIMITS)) == 2


def test_a_place_in_a_later_message_is_named_by_its_number():
    good = {"role": "user", "content": "hi"}
    assert refusal([good, good, good, {"role": "user", "content": ["a", {"type": "vidoe"}]}]).startswith(
        "messages[3].content[1]: unknown part type 'vidoe'; allowed: text, reasoning, image, "
    )


def limited(message: dict, **limits: int) -> str | None:
    try:
        parse_messages([message], Limits(**limits))
    except LimitExceeded as error:
        return str(error)
    return None


def test_a_call_may_have_a_hundred_messages_and_no_more():
    message = {"role": "user", "content": "hi"}
    assert len(parse_messages([message] * 100, LIMITS)) == 100
    with pytest.raises(LimitExceeded, match=r"^messages: 101 in one call; at most 100 are allowed$"):
        parse_messages([message] * 101, LIMITS)


def test_a_message_may_have_256_kib_of_text_in_utf_8_and_no_more():
    assert limited({"role": "user", "content": "é" * 131_072}) is None
    assert limited({"role": "user", "content": ["é" * 131_071, "xx"]}) is None
    over = "messages[0]: 262,145 bytes of text; at most 262,144 are allowed in one message, so split it"
    assert limited({"role": "user", "content": "é" * 131_072 + "x"}) == over
    assert limited({"role": "user", "content": ["é" * 131_072, "x"]}) == over


@pytest.mark.parametrize("kind", ["image", "file"])
def test_a_message_may_have_3_mib_of_base64_and_no_more(kind):
    at_limit = {"type": kind, "data": "A" * (3 * 1024 * 1024)}
    assert limited({"role": "user", "content": [at_limit]}) is None
    error = limited({"role": "user", "content": [at_limit, {"type": kind, "data": "AAAA"}]})
    assert error is not None
    assert error.startswith("messages[0]: 3,145,732 bytes of base64; at most 3,145,728 are allowed")


@pytest.mark.parametrize("field", ["id", "name"])
def test_ids_and_names_may_have_255_characters_and_no_more(field):
    assert limited({"role": "user", "content": "hi", field: "x" * 255}) is None
    error = limited({"role": "user", "content": "hi", field: "x" * 256})
    assert error == f"messages[0].{field}: 256 characters; at most 255 are allowed"


def deep(levels: int) -> dict:
    value: dict = {}
    for _ in range(levels - 1):
        value = {"k": value}
    return value


@pytest.mark.parametrize(
    "holding",
    [
        lambda value: {"role": "user", "content": "hi", "metadata": value},
        lambda value: {"role": "user", "files": [{"url": "u", "metadata": value}]},
        lambda value: {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c", "name": "n", "arguments": value}],
        },
        lambda value: {"role": "tool", "parts": [{"type": "tool_result", "tool_call_id": "c", "result": value}]},
        lambda value: {
            "role": "assistant",
            "tool_calls": [{"id": "c", "function": {"name": "n", "arguments": json.dumps(value)}}],
        },
        lambda value: {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "n", "input": value}]},
        lambda value: {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [value]}]},
    ],
)
def test_json_that_a_message_holds_may_be_64_levels_deep_and_no_deeper(holding):
    levels = 63 if "tool_use_id" in str(holding({})) else 64  # there it lies in a list
    for raw in (holding(deep(levels)), json.dumps(holding(deep(levels)))):
        assert len(parse_messages(raw, LIMITS)) == 1
    for raw in (holding(deep(levels + 1)), json.dumps(holding(deep(levels + 1)))):
        with pytest.raises(LimitExceeded, match="nested more than 64 levels deep"):
            parse_messages(raw, LIMITS)


def test_metadata_over_its_limit_names_the_message():
    error = limited({"role": "user", "content": "hi", "metadata": {"k": "x" * 16_384}})
    assert error == "messages[0].metadata: 16,392 bytes of JSON; at most 16,384 are allowed"


def test_a_message_that_was_read_can_be_sent_again_as_it_is() -> None:
    read = {
        "id": "m1",
        "seq": 7,
        "role": "user",
        "parts": [{"type": "text", "text": "hello"}],
        "said_at": "2024-05-01T10:00:00.000Z",
        "created_at": "2024-05-01T10:00:03.000Z",
        "tokens": 9,
    }
    (message,) = parse_messages([read], Limits())
    assert (message.id, message.parts, message.created_at) == ("m1", read["parts"], 1714557600000)
