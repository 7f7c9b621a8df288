"""What holds for the shapes of all providers together."""

import base64
import copy
import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from layerlore.memory.parts.message_shapes import parse_messages
from layerlore.memory.rules.validation import Limits
from layerlore.storage.core.errors import LayerloreError

LIMITS = Limits()
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1)
IDS = st.text("abcdef_0123", min_size=1, max_size=8)
ARGUMENTS = st.dictionaries(TEXT, TEXT | st.integers() | st.lists(st.booleans()), max_size=3)
PNG = base64.b64encode(b"\x89PNG").decode()
TURNS = st.one_of(
    st.tuples(st.just("ask"), TEXT),
    st.tuples(st.just("show"), TEXT),
    st.tuples(st.just("link"), TEXT),
    st.tuples(st.just("use"), TEXT, IDS, IDS, ARGUMENTS),
    st.tuples(st.just("answer"), IDS, TEXT),
)


def as_openai(turn: tuple) -> dict:
    match turn:
        case ("ask", text):
            return {"role": "user", "content": text}
        case ("show", text):
            image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
            return {"role": "user", "content": [{"type": "text", "text": text}, image]}
        case ("link", text):
            image = {"type": "image_url", "image_url": {"url": "https://example.com/i.png", "detail": "low"}}
            return {"role": "user", "content": [image, {"type": "text", "text": text}]}
        case ("use", text, call_id, name, arguments):
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"id": call_id, "type": "function", "function": function}
            return {"role": "assistant", "content": text, "tool_calls": [call]}
        case (_, call_id, text):
            return {"role": "tool", "tool_call_id": call_id, "content": text}


def as_anthropic(turn: tuple) -> dict:
    match turn:
        case ("ask", text):
            return {"role": "user", "content": [{"type": "text", "text": text}]}
        case ("show", text):
            image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
            return {"role": "user", "content": [{"type": "text", "text": text}, image]}
        case ("link", text):
            image = {"type": "image", "source": {"type": "url", "url": "https://example.com/i.png"}}
            return {"role": "user", "content": [image, {"type": "text", "text": text}]}
        case ("use", text, call_id, name, arguments):
            call = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
            return {"role": "assistant", "content": [{"type": "text", "text": text}, call]}
        case (_, call_id, text):
            result = {"type": "tool_result", "tool_use_id": call_id, "content": [{"type": "text", "text": text}]}
            return {"role": "user", "content": [result]}


def as_responses(turn: tuple) -> list[dict]:
    match turn:
        case ("ask", text):
            return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]
        case ("show", text):
            image = {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PNG}"}
            return [{"role": "user", "content": [{"type": "input_text", "text": text}, image]}]
        case ("link", text):
            image = {"type": "input_image", "detail": "low", "image_url": "https://example.com/i.png"}
            return [{"role": "user", "content": [image, {"type": "input_text", "text": text}]}]
        case ("use", text, call_id, name, arguments):
            said = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": json.dumps(arguments)}
            return [
                {"type": "message", "role": "assistant", "status": "completed", "content": [said]},
                {**call, "status": "completed"},
            ]
        case (_, call_id, text):
            return [{"type": "function_call_output", "call_id": call_id, "output": text}]


def as_gemini(turn: tuple) -> dict:
    match turn:
        case ("ask", text):
            return {"role": "user", "parts": [{"text": text}]}
        case ("show", text):
            return {"role": "user", "parts": [{"text": text}, {"inlineData": {"mimeType": "image/png", "data": PNG}}]}
        case ("link", text):
            image = {"mime_type": "image/png", "file_uri": "https://example.com/i.png"}
            return {"role": "user", "parts": [{"file_data": image, "text": None}, {"text": text}]}
        case ("use", text, call_id, name, arguments):
            call = {"functionCall": {"id": call_id, "name": name, "args": arguments}}
            return {"role": "model", "parts": [{"text": text}, call]}
        case (_, call_id, text):
            answer = {"id": call_id, "name": "n", "response": {"output": text}}
            return {"role": "user", "parts": [{"function_response": answer}]}


def as_ai_sdk(turn: tuple) -> dict:
    match turn:
        case ("ask", text):
            return {"role": "user", "content": text, "createdAt": "2026-05-27T21:07:12.000Z"}
        case ("show", text):
            image = {"type": "image", "image": PNG, "mediaType": "image/png"}
            return {"role": "user", "content": [{"type": "text", "text": text, "providerOptions": {}}, image]}
        case ("link", text):
            image = {"type": "file", "data": "https://example.com/i.png", "mediaType": "image/png"}
            return {"role": "user", "content": [image, {"type": "text", "text": text}]}
        case ("use", text, call_id, name, arguments):
            call = {"type": "tool-call", "toolCallId": call_id, "toolName": name, "input": arguments}
            return {"role": "assistant", "content": [{"type": "text", "text": text}, call]}
        case (_, call_id, text):
            output = {"type": "text", "value": text}
            result = {"type": "tool-result", "toolCallId": call_id, "toolName": "n", "output": output}
            return {"role": "tool", "content": [result]}


def as_langchain(turn: tuple) -> dict:
    match turn:
        case ("ask", text):
            return {"type": "human", "content": text, "additional_kwargs": {}, "response_metadata": {}, "id": None}
        case ("show", text):
            image = {"type": "image", "base64": PNG, "mime_type": "image/png"}
            return {"type": "human", "data": {"type": "human", "content": [{"type": "text", "text": text}, image]}}
        case ("link", text):
            image = {"type": "image_url", "image_url": {"url": "https://example.com/i.png"}}
            return {"type": "human", "content": [image, {"type": "text", "text": text}], "example": False}
        case ("use", text, call_id, name, arguments):
            call = {"type": "tool_call", "id": call_id, "name": name, "args": arguments}
            kwargs = {
                "content": text,
                "type": "ai",
                "tool_calls": [call],
                "invalid_tool_calls": [],
                "usage_metadata": None,
            }
            path = ["langchain", "schema", "messages", "AIMessage"]
            return {"lc": 1, "type": "constructor", "id": path, "kwargs": kwargs}
        case (_, call_id, text):
            return {"type": "tool", "tool_call_id": call_id, "content": text, "status": "success", "artifact": None}


def read_flat(messages: list) -> list[tuple[str, dict]]:
    """Who says which part: without what one shape says and another does not, a tool's name and an image's type."""
    hidden = {"tool_result": "name", "image": "mime_type"}
    return [
        (one.role, {key: value for key, value in part.items() if key != hidden.get(part["type"])})
        for one in parse_messages(messages, LIMITS)
        for part in one.parts
    ]


@settings(deadline=None)
@given(st.lists(TURNS, min_size=1, max_size=6))
def test_the_same_conversation_in_every_shape_says_the_same(turns):
    one = parse_messages([as_openai(turn) for turn in turns], LIMITS)
    assert one == parse_messages([as_anthropic(turn) for turn in turns], LIMITS)
    said = read_flat([as_openai(turn) for turn in turns])
    assert read_flat([item for turn in turns for item in as_responses(turn)]) == said
    assert read_flat([as_gemini(turn) for turn in turns]) == said
    assert read_flat([as_ai_sdk(turn) for turn in turns]) == said
    assert read_flat([as_langchain(turn) for turn in turns]) == said


SHOWN = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}]}
WELL_FORMED = [
    {"role": "assistant", "content": "x", "audio": {"id": "a1", "data": "AAAA", "transcript": "Hello"}},
    {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "n", "input": "i"}}]},
    {"role": "assistant", "function_call": {"name": "look", "arguments": "{}"}},
    {"role": "function", "name": "look", "content": "found"},
    {"role": "tool", "tool_call_id": "c", "name": "look", "content": [{"type": "text", "text": "x"}]},
    {"role": "user", "files": {"files": [{"url": "u", "file_size": 1, "metadata": {"k": 1}}]}, "name": "n", "id": "i"},
    *[as_openai(turn) for turn in [("show", "t"), ("link", "t"), ("use", "t", "c", "n", {"k": [1]})]],
    *[as_anthropic(turn) for turn in [("show", "t"), ("answer", "c", "t"), ("use", "t", "c", "n", {"k": [1]})]],
    *[
        shape(turn)
        for shape in (as_gemini, as_ai_sdk, as_langchain, lambda turn: as_responses(turn)[-1])
        for turn in [("show", "t"), ("link", "t"), ("use", "t", "c", "n", {"k": [1]}), ("answer", "c", "t")]
    ],
    {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x"},
    {"type": "mcp_call", "id": "m", "server_label": "s", "name": "n", "arguments": "{}", "output": "o", "error": None},
    {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "q"}},
    SHOWN,
    {"type": "custom", "id": "u", "data": {"k": [1]}},
    {"role": "tool", "parts": [{"type": "tool_result", "tool_call_id": "c", "result": {"k": 1}, "model_output": "k"}]},
    {"role": "model", "parts": [{"executableCode": {"language": "PYTHON", "code": "1"}}]},
    {
        "role": "assistant",
        "parts": [{"type": "tool-look", "toolCallId": "c", "state": "output-available", "output": 1}],
    },
    {"role": "user", "content": [{"type": "document", "title": "t", "source": {"type": "content", "content": ["a"]}}]},
    {"role": "user", "content": [{"type": "search_result", "source": "s", "content": [{"type": "text", "text": "a"}]}]},
    {"role": "user", "content": [{"type": "file", "file": {"file_data": "AAAA", "filename": "f", "format": "a/b"}}]},
    {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}]},
    {
        "role": "assistant",
        "content": [{"type": "mcp_tool_use", "id": "c", "name": "n", "server_name": "s", "input": {}}],
    },
    {
        "role": "assistant",
        "content": [{"type": "web_search_tool_result", "tool_use_id": "c", "content": {"type": "e"}}],
    },
]
MISFITS = st.sampled_from(
    [
        None,
        True,
        0,
        -1.5,
        float("nan"),
        "",
        "text",
        "data:",
        "\x00",
        "\ud800",
        [],
        [[]],
        {},
        {"type": "text"},
        ["a", None],
    ]
)


def places(value: object) -> list[tuple]:
    """The path to every value inside this one."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, inner in items for path in [(key,), *((key, *rest) for rest in places(inner))]]


@settings(deadline=None, max_examples=400)
@given(st.sampled_from(WELL_FORMED).flatmap(lambda m: st.tuples(st.just(m), st.sampled_from(places(m)))), MISFITS)
@example((SHOWN, ("output", 0, "type")), [])
def test_a_value_that_does_not_fit_its_place_is_refused_or_read_but_never_a_defect(message_and_place, misfit):
    message, place = message_and_place
    assert parse_messages(message, LIMITS)
    changed = copy.deepcopy(message)
    inside = changed
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = misfit
    refusal = None
    try:
        parse_messages([changed], LIMITS)
    except LayerloreError as error:
        refusal = str(error)
    assert refusal is None or refusal.startswith("messages[0]")
