"""Claude Code's transcripts: a line of JSON for each block of a message, with the message in Anthropic's shape.

Lines that are not conversation are skipped: notes of the host, its summaries, other sessions' lines in one that was
forked from them.
"""

from collections.abc import Iterator
from typing import Any

from layerlore.memory.parts.parts import text_part, tool_call_part, tool_result_part
from layerlore.server.capture.said import Said, as_object, join_texts, read_texts
from layerlore.storage.core.records import Json

_NOT_SAID = ("isMeta", "isCompactSummary", "isApiErrorMessage", "isVisibleInTranscriptOnly", "forkedFrom")
_SYNTHETIC = "<synthetic>"


def reads(record: Json) -> bool:
    """Whether a line is one of these."""
    return "uuid" in record and record.get("type") in ("user", "assistant", "attachment", "system")


def read(record: Json) -> list[Said]:
    """The content of a line."""
    if any(record.get(name) for name in _NOT_SAID):
        return []
    kind, id_ = record["type"], str(record["uuid"])
    at, by_subagent = record.get("timestamp"), bool(record.get("isSidechain"))
    if kind == "attachment":
        return [Said(id_, "user", [*_read_queued(as_object(record.get("attachment")))], at, by_subagent)]
    message = as_object(record.get("message"))
    if kind not in ("user", "assistant") or message.get("model") == _SYNTHETIC:
        return []
    content = message.get("content")
    if kind == "assistant":
        return [Said(id_, "assistant", [*_read_spoken(content)], at, by_subagent)]
    results = [*_read_results(content)]
    if results:
        return [Said(id_, "tool", results, at, by_subagent)]
    if _is_human(record):
        return [Said(id_, "user", [*read_texts(content)], at, by_subagent)]
    return []


def _read_queued(attachment: Json) -> Iterator[Json]:
    """The user's text while the agent worked."""
    is_prompt = attachment.get("type") == "queued_command" and attachment.get("commandMode", "prompt") == "prompt"
    if is_prompt and _is_human(attachment) and not attachment.get("isMeta"):
        yield from read_texts(attachment.get("prompt"))


def _is_human(record: Json) -> bool:
    return str(as_object(record.get("origin")).get("kind", "human")) == "human"


def _read_spoken(content: Any) -> Iterator[Json]:
    if isinstance(content, str):
        yield text_part(content)
        return
    for block in content if isinstance(content, list) else ():
        kind = as_object(block).get("type")
        if kind == "text":
            yield from read_texts([block])
        elif kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            yield tool_call_part(str(block.get("id")), str(block.get("name")), as_object(block.get("input")))


def _read_results(content: Any) -> Iterator[Json]:
    for block in content if isinstance(content, list) else ():
        if as_object(block).get("type") == "tool_result":
            result = join_texts(block.get("content"))
            yield tool_result_part(str(block.get("tool_use_id")), None, result, is_error=block.get("is_error") is True)
