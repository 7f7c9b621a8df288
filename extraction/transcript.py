"""Messages as a model gets them in the background: data with a role for each line, never instructions.

What a message says is whole; what tools were given and answered is cut, as in n8n's observer, since most of it is
payload.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from layerlore.memory.ages import iso
from layerlore.memory.blocks import without_blocks
from layerlore.memory.engine import Engine
from layerlore.memory.parts import result_parts
from layerlore.memory.quoting import quoted_line, unmarked, visible_json
from layerlore.memory.said import said
from layerlore.storage.records import Json, Message, Role

MOST_PAYLOAD = 2000
"""Characters of one call's arguments or of one result, as JSON."""
MOST_STRING = 500
MOST_ITEMS = 20
MOST_KEYS = 40

# Tools of ours that give back what is remembered, or take it: to note it again would be an echo. Clients put the
# server's name before a tool's.
_OWN_TOOLS = (
    *("recall_memory", "get_context", "get_messages", "get_briefing", "get_working_memory", "update_working_memory"),
    *("remember", "forget", "next_memory_job", "submit_memory_job"),
)
_ENCODED = re.compile(r"[A-Za-z0-9+/_=-]{256,}")


@dataclass(frozen=True, slots=True)
class Line:
    """One message of a transcript. ``said_at``: ms since 1970."""

    seq: int
    role: Role
    name: str | None
    said_at: int
    text: str

    def as_json(self) -> Json:
        name = {"name": self.name} if self.name else {}
        return {"seq": self.seq, "role": self.role, **name, "said_at": iso(self.said_at), "text": self.text}


def lines_of(engine: Engine, messages: Iterable[Message], *, tools: bool) -> list[Line]:
    """The messages that say something, in their order. ``tools``: with calls and results, cut to what matters, and
    placeholders for media; else the text of a line is exactly ``said``."""
    given = list(messages)
    called = {part["id"]: part["name"] for message in given for part in message.parts if part["type"] == "tool_call"}
    lines = (
        Line(
            message.seq,
            message.role,
            _name(engine, message),
            message.said_at,
            _with_tools(engine, message, called) if tools else said(engine, message),
        )
        for message in given
    )
    return [line for line in lines if line.text.strip()]


def transcript(lines: Sequence[Line]) -> list[Json]:
    """The lines as JSON: ``seq``, ``role``, ``name`` (of whoever has one), ``said_at`` (ISO, UTC) and ``text``."""
    return [line.as_json() for line in lines]


def without_echoes(engine: Engine, messages: Iterable[Message]) -> list[Message]:
    """The messages as extracts are made of them: secrets masked, and without the calls of tools of ours that give back
    what is remembered."""
    given = list(messages)
    own = {
        part["id"]
        for message in given
        for part in message.parts
        if part["type"] == "tool_call" and part["name"].endswith(_OWN_TOOLS)
    }
    return [replace(message, parts=engine.derived_parts(_others(message.parts, own))) for message in given]


def _others(parts: list[Json], own: Collection[str]) -> list[Json]:
    return [
        part
        for part in parts
        if part.get("tool_call_id", part.get("id")) not in own and not (part.get("name") or "").endswith(_OWN_TOOLS)
    ]


def _name(engine: Engine, message: Message) -> str | None:
    if not message.name:
        return None
    name = quoted_line(message.name)
    return name if engine.redaction == "off" else engine.redactor.text(name)[0]


def _with_tools(engine: Engine, message: Message, called: Mapping[str, str]) -> str:
    told = (_told(engine, part, called) for part in message.parts)
    return "\n".join(filter(None, (unmarked(said(engine, message)), *told)))


def _told(engine: Engine, part: Json, called: Mapping[str, str]) -> str:
    match part["type"]:
        case "tool_call":
            name = engine.derived_text(quoted_line(part["name"]))
            arguments = "…" if name.endswith(_OWN_TOOLS) else _payload(engine, part["arguments"])
            return f"[tool call {name}({arguments})]"
        case "tool_result":
            name = engine.derived_text(quoted_line(part.get("name") or called.get(part["tool_call_id"], "")))
            kind = "tool error" if part.get("is_error") else "tool result"
            result = "…" if name.endswith(_OWN_TOOLS) else _payload(engine, part["result"])
            return f"[{kind} {name}: {result}]" if name else f"[{kind}: {result}]"
        case "file":
            named = part.get("file_name") or part.get("url")
            return f"[file: {engine.redactor.text(quoted_line(named))[0]}]" if named else "[file]"
        case "image":
            return "[image]"
        case _:
            return ""


def _payload(engine: Engine, value: Any) -> str:
    # Masked before it is cut: half a secret does not look like one.
    seen = visible_json(value)
    masked = seen if engine.redaction == "off" else engine.redactor.json(seen)[0]
    inner = result_parts(masked)
    if inner:
        texts = (part["text"] if part["type"] == "text" else f"[{part['type']}]" for part in inner[:MOST_ITEMS])
        text = "\n".join(_cut_string(text) for text in texts)
    else:
        cut = _cut(masked)
        text = cut if isinstance(cut, str) else json.dumps(cut, ensure_ascii=False, separators=(",", ":"))
    text = unmarked(text)
    return text if len(text) <= MOST_PAYLOAD else f"{text[:MOST_PAYLOAD]}… ({len(text) - MOST_PAYLOAD} more characters)"


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return _cut_string(value)
    if isinstance(value, list):
        more = [f"… ({len(value) - MOST_ITEMS} more)"] if len(value) > MOST_ITEMS else []
        return [*map(_cut, value[:MOST_ITEMS]), *more]
    if isinstance(value, dict):
        kept = {key: _cut(inner) for key, inner in list(value.items())[:MOST_KEYS]}
        return {**kept, "…": f"{len(value) - MOST_KEYS} more keys"} if len(value) > MOST_KEYS else kept
    return value


def _cut_string(raw: str) -> str:
    text = without_blocks(raw)
    if len(text) > MOST_STRING:
        if _ENCODED.fullmatch(text):
            return f"[{len(text)} characters of encoded data]"
        return f"{text[:MOST_STRING]}… ({len(text) - MOST_STRING} more characters)"
    return text
