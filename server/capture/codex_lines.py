"""Codex's rollouts: lines of JSON, each with a time, a type and a payload; of those, the items of the conversation. No line
has an id."""

from typing import Any

from layerlore.memory.parts.parts import tool_call_part, tool_result_part
from layerlore.memory.text.own_tools import read_object
from layerlore.server.capture.said import Record, Said, as_object, join_texts, read_texts
from layerlore.storage.core.records import Json, Role

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")


def reads(record: Json) -> bool:
    """Whether a line is one of these."""
    return isinstance(record.get("payload"), dict) and isinstance(record.get("type"), str)


def read(record: Json) -> list[Said]:
    """The content of a line."""
    payload, at = record["payload"], record.get("timestamp")
    if record["type"] != "response_item":
        return []
    kind = payload.get("type")
    if kind == "message":
        role = _ROLES.get(str(payload.get("role")))
        if role:
            return [Said("", role, [*read_texts(payload.get("content"))], at)]
        return []
    if kind in _CALLS:
        call = tool_call_part(
            str(payload.get("call_id")), str(payload.get("name") or "shell"), _read_arguments(payload)
        )
        return [Said("", "assistant", [call], at)]
    if str(kind).endswith("_call_output"):
        result = tool_result_part(str(payload.get("call_id")), None, _read_output(payload.get("output")))
        return [Said("", "tool", [result], at)]
    return []


def is_of_subagent(record: Json) -> bool:
    """Whether a rollout that begins with this line is a sub-agent's."""
    return record.get("type") == "session_meta" and "subagent" in as_object(
        as_object(record.get("payload")).get("source")
    )


def _read_arguments(payload: Record) -> Record:
    if payload.get("type") == "local_shell_call":
        return as_object(payload.get("action"))
    given = payload.get("arguments", payload.get("input"))
    found = read_object(given)
    if isinstance(found, dict):
        return found
    return {"input": found}


def _read_output(output: Any) -> str:
    """The text of an output, which may lie in JSON beside what is measured of it."""
    found = read_object(output)
    if isinstance(found, dict):
        found = found.get("output", found.get("content", ""))
    return join_texts(found)
