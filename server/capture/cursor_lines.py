"""Cursor's transcripts: a line of JSON for each message, with blocks as Anthropic has them, and neither an id nor a time.
They hold no answers of tools."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from layerlore.memory.parts.parts import tool_call_part
from layerlore.server.capture.said import Said, as_object, read_texts
from layerlore.storage.core.records import Json


def reads(record: Json) -> bool:
    """Whether a line is one of these."""
    return record.get("role") in ("user", "assistant") and isinstance(record.get("message"), dict)


def read(record: Json) -> list[Said]:
    """The content of a line."""
    content = record["message"].get("content")
    if record["role"] == "user":
        return [Said("", "user", [*read_texts(content)])]
    return [Said("", "assistant", [*_read_blocks(content)])]


def _read_blocks(content: Any) -> Iterator[Json]:
    for block in content if isinstance(content, list) else [content]:
        if as_object(block).get("type") == "tool_use":
            id_ = block.get("id") or hashlib.blake2b(json.dumps(block).encode(), digest_size=8).hexdigest()
            yield tool_call_part(str(id_), str(block.get("name")), as_object(block.get("input")))
        else:
            yield from read_texts([block])
