"""Gemini CLI's sessions: a record of JSON for each message, again in a later line when its tools have answered; older ones
are one document with all of them."""

from collections.abc import Iterator
from typing import Any

from layerlore.memory.parts.parts import text_part, tool_call_part, tool_result_part
from layerlore.server.capture.said import Said, as_object, join_texts
from layerlore.storage.core.records import Json

_DONE = ("success", "error", "cancelled")


def reads(record: Json) -> bool:
    """Whether a record is one of these."""
    return "id" in record and record.get("type") in ("user", "gemini") and "uuid" not in record


def read(record: Json) -> list[Said]:
    """The content of a record: its text, and each tool call that has an answer, with ids of their own."""
    return [*_read(record, str(record["id"]), record.get("timestamp"))]


def is_of_subagent(record: Json) -> bool:
    """Whether a session that begins with this record is a sub-agent's."""
    return record.get("kind") == "subagent" and "sessionId" in record


def _read(record: Json, id_: str, at: Any) -> Iterator[Said]:
    content = record.get("content")
    text = join_texts([content] if isinstance(content, dict) else content)
    if text:
        yield Said(id_, "user" if record["type"] == "user" else "assistant", [text_part(text)], at)
    calls = record.get("toolCalls")
    for call in calls if isinstance(calls, list) else ():
        call_id = str(as_object(call).get("id"))
        if not isinstance(call, dict) or (call.get("result") is None and call.get("status") not in _DONE):
            continue
        name, then = str(call.get("name")), call.get("timestamp") or at
        yield Said(f"{id_}:{call_id}", "assistant", [tool_call_part(call_id, name, as_object(call.get("args")))], then)
        failed = call.get("status") == "error"
        result = tool_result_part(call_id, None, _read_result(call.get("result")), is_error=failed)
        yield Said(f"{id_}:{call_id}:result", "tool", [result], then)


def _read_result(result: Any) -> str:
    """The texts of what a tool answered, in parts as the model gets them."""
    found = []
    for part in result if isinstance(result, list) else [result]:
        response = as_object(as_object(part).get("functionResponse")).get("response")
        if isinstance(response, dict):
            found.append(str(response.get("output", response.get("error", ""))))
        else:
            found.append(join_texts([part]))
    return "\n".join(filter(None, found))
