"""Lines as hosts write them into the transcripts of their sessions."""

import json
from typing import Any


def claude(number: int, kind: str, content: Any, **more: Any) -> str:
    """A line of Claude Code's."""
    record = {
        "parentUuid": None,
        "isSidechain": False,
        "sessionId": "any",
        "type": kind,
        "message": {"role": kind, "content": content},
        "uuid": f"line-{number}",
        "timestamp": f"2026-11-20T10:{number // 60:02d}:{number % 60:02d}.000Z",
    }
    return json.dumps({**record, **more}) + "\n"


def claude_call(number: int, id_: str, name: str, **arguments: Any) -> str:
    return claude(number, "assistant", [{"type": "tool_use", "id": id_, "name": name, "input": arguments}])


def claude_result(number: int, id_: str, result: Any) -> str:
    return claude(number, "user", [{"type": "tool_result", "tool_use_id": id_, "content": result}])
