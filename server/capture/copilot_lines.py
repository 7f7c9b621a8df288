"""The transcripts of VS Code's agents, which are those of Copilot's: a line of JSON for each event, with its data."""

from typing import Any

from layerlore.memory.parts.parts import text_part, tool_call_part, tool_result_part
from layerlore.memory.text.own_tools import read_object
from layerlore.server.capture.said import Said, as_object, join_texts
from layerlore.storage.core.records import Json


def reads(record: Json) -> bool:
    """Whether a line is one of these."""
    return isinstance(record.get("data"), dict) and "." in str(record.get("type"))


def read(record: Json) -> list[Said]:
    """The content of a line."""
    data, id_, at = record["data"], str(record.get("id") or ""), record.get("timestamp")
    by_subagent = bool(data.get("parentToolCallId") or data.get("parentAgentTaskId") or record.get("agentId"))
    match record["type"]:
        case "user.message" if data.get("source", "user") == "user":
            return [Said(id_, "user", [text_part(join_texts(data.get("content")))], at, by_subagent)]
        case "assistant.message":
            return [Said(id_, "assistant", [text_part(join_texts(data.get("content")))], at, by_subagent)]
        case "tool.execution_start":
            arguments = as_object(read_object(data.get("arguments", data.get("toolInput"))))
            call = tool_call_part(_call_id(data), str(data.get("toolName")), arguments)
            return [Said(id_, "assistant", [call], at, by_subagent)]
        case "tool.execution_complete" if data.get("result") is not None:
            failed = data.get("success") is False
            result = tool_result_part(_call_id(data), None, _read_result(data["result"]), is_error=failed)
            return [Said(id_, "tool", [result], at, by_subagent)]
    return []


def _call_id(data: Json) -> str:
    return str(data.get("toolCallId") or data.get("toolName"))


def _read_result(result: Any) -> str:
    return join_texts(result.get("content") if isinstance(result, dict) else result)
