"""Whole answers of the providers, as the events that their clients read from a stream."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Json = dict[str, Any]


def _events(items: Iterator[Json]) -> bytes:
    return b"".join(f"event: {item['type']}\ndata: {json.dumps(item)}\n\n".encode() for item in items)


def chat(whole: Json) -> bytes:
    """Three pieces: what is said, why it ends, what it cost."""
    (choice,) = whole["choices"]
    said = {"index": 0, "delta": choice["message"], "finish_reason": None}
    ended = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    shared = {**whole, "object": "chat.completion.chunk"}
    pieces = [([said], None), ([ended], None), ([], whole["usage"])]
    chunks = [{**shared, "choices": choices, "usage": usage} for choices, usage in pieces]
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


def response(whole: Json) -> bytes:
    return _events(_response_events(whole))


def _response_events(whole: Json) -> Iterator[Json]:
    yield {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
    for index, item in enumerate(whole["output"]):
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": whole}


def message(whole: Json) -> bytes:
    return _events(_message_events(whole))


def _message_events(whole: Json) -> Iterator[Json]:
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    for index, block in enumerate(whole["content"]):
        if block["type"] == "tool_use":
            begun = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            begun = {**block, "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": whole["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def content(whole: Json) -> bytes:
    return b"data: " + json.dumps(whole).encode() + b"\r\n\r\n"


STREAMED: Mapping[str, Callable[[Json], bytes]] = {
    "/chat/completions": chat,
    "/responses": response,
    "/v1/messages": message,
    ":streamGenerateContent": content,
}
"""By the end of the path that is asked."""
