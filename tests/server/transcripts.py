"""Lines as hosts write them into the transcripts of their sessions."""

import json
import zlib
from typing import Any


def moment(second: int, content: Any) -> str:
    """A time in that second: another one for another content, since no host says two things at once."""
    millisecond = zlib.crc32(json.dumps(content).encode()) % 1000
    return f"2026-11-20T10:{second // 60:02d}:{second % 60:02d}.{millisecond:03d}Z"


def claude(number: int, kind: str, content: Any, **more: Any) -> str:
    """A line of Claude Code's."""
    record = {
        "parentUuid": None,
        "isSidechain": False,
        "sessionId": "any",
        "type": kind,
        "message": {"role": kind, "content": content},
        "uuid": f"line-{number}",
        "timestamp": moment(number, [kind, content]),
    }
    return json.dumps({**record, **more}) + "\n"


def claude_call(number: int, id_: str, name: str, **arguments: Any) -> str:
    return claude(number, "assistant", [{"type": "tool_use", "id": id_, "name": name, "input": arguments}])


def claude_result(number: int, id_: str, result: Any) -> str:
    return claude(number, "user", [{"type": "tool_result", "tool_use_id": id_, "content": result}])


def codex(kind: str, second: int = 0, **payload: Any) -> str:
    """A line of Codex's: an item of the conversation."""
    record = {"timestamp": f"2026-11-20T10:00:{second:02d}.000Z", "type": "response_item"}
    return json.dumps({**record, "payload": {"type": kind, **payload}}) + "\n"


def spoken(role: str, text: str) -> dict[str, Any]:
    """The payload of a message in one of Codex's lines."""
    return {"role": role, "content": [{"type": "output_text" if role == "assistant" else "input_text", "text": text}]}


def lines(*records: dict[str, Any]) -> str:
    """Records as lines of JSON."""
    return "".join(json.dumps(record) + "\n" for record in records)


def gemini(id_: str, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    """A message of Gemini CLI's."""
    return {"id": id_, "timestamp": moment(0, [kind, content]), "type": kind, "content": content, **more}


def copilot(id_: str, kind: str, **data: Any) -> dict[str, Any]:
    """An event of VS Code's agents."""
    return {"id": id_, "timestamp": moment(0, [kind, data]), "type": kind, "data": data, "parentId": None}
