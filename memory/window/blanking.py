"""Tool results without their content: what was called, with what and whether it failed, stays."""

from collections.abc import Sequence

from layerlore.memory.tokens import TokenCounter
from layerlore.memory.window.changing import with_parts
from layerlore.storage.records import Json, Message


def blanked(messages: Sequence[Message], spare: int, counter: TokenCounter) -> list[Message]:
    """The messages with "" for every tool result but the newest ``spare``."""
    seen = 0
    kept: list[Message] = []
    for message in reversed(messages):
        parts: list[Json] = []
        for part in reversed(message.parts):
            if part["type"] == "tool_result":
                seen += 1
                parts.append({**part, "result": ""} if seen > spare else part)
            else:
                parts.append(part)
        kept.append(with_parts(message, parts[::-1], counter))
    return kept[::-1]
