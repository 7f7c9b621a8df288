"""Messages as a model reads them in the background: data with a role for each line, never instructions.

The text of a message is complete. Arguments and results of tools are cut, as in n8n's observer: most of them is payload.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from layerlore.memory.engine.engine import Engine
from layerlore.memory.engine.speech import said
from layerlore.memory.parts.own_parts import strip_messages
from layerlore.memory.parts.parts import result_parts
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.answer_keys import order_keys
from layerlore.memory.text.quotation import escape_marks, make_visible_json, quote_line
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json, Message, Role

MOST_PAYLOAD = 2000
"""Characters of one call's arguments or of one result, as JSON."""
MOST_STRING = 500
MOST_ITEMS = 20
MOST_KEYS = 40

_ENCODED = linear_re.compile(r"[A-Za-z0-9+/_=-]{256,}")


class TranscriptRow(TypedDict):
    """A line of a transcript as JSON; ``part`` names the characters of a message that is not given whole."""

    seq: int
    role: Role
    name: NotRequired[str]
    said_at: str
    text: str
    part: NotRequired[str]


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """One message of a transcript. ``said_at``: ms since 1970."""

    seq: int
    role: Role
    name: str | None
    said_at: int
    text: str

    def as_json(self) -> TranscriptRow:
        row: TranscriptRow = {"seq": self.seq, "role": self.role, "said_at": iso(self.said_at), "text": self.text}
        if self.name:
            row["name"] = self.name
        return order_keys(TranscriptRow, row)


def read_lines(engine: Engine, messages: Iterable[Message], *, tools: bool) -> list[TranscriptLine]:
    """Lines for the messages that say something, in order. With ``tools``, calls and results are included, cut, and media
    as placeholders; without, the text of a line is exactly what ``said`` returns. Echoes are in none."""
    given = list(messages)
    if tools:
        rest = strip_messages(given)
    else:
        rest = given
    called = {
        part["id"]: part["name"]
        for message in given
        for part in (*message.answered, *message.parts)
        if part["type"] == "tool_call"
    }
    lines = (
        TranscriptLine(
            message.seq,
            message.role,
            _name(engine, message),
            message.said_at,
            _with_tools(engine, message, stripped, called) if tools else said(engine, message),
        )
        for message, stripped in zip(given, rest, strict=True)
    )
    return [line for line in lines if line.text.strip()]


def lines_as_json(lines: Sequence[TranscriptLine]) -> list[TranscriptRow]:
    """The lines as JSON: ``seq``, ``role``, ``name`` (if there is one), ``said_at`` (ISO, UTC) and ``text``."""
    return [line.as_json() for line in lines]


def _name(engine: Engine, message: Message) -> str | None:
    if not message.name:
        return None
    name = quote_line(message.name)
    if engine.redaction == "off":
        return name
    return engine.redactor.text(name)[0]


def _with_tools(engine: Engine, message: Message, stripped: Message, called: Mapping[str, str]) -> str:
    others = (_describe_part(engine, part, called) for part in stripped.parts)
    return "\n".join(filter(None, (escape_marks(said(engine, message)), *others)))


def _describe_part(engine: Engine, part: Json, called: Mapping[str, str]) -> str:
    match part["type"]:
        case "tool_call":
            name = engine.derived_text(quote_line(part["name"]))
            arguments = _payload(engine, part["arguments"])
            return f"[tool call {name}({arguments})]"
        case "tool_result":
            name = engine.derived_text(quote_line(part.get("name") or called.get(part["tool_call_id"], "")))
            if part.get("is_error"):
                kind = "tool error"
            else:
                kind = "tool result"
            result = _payload(engine, part["result"])
            if name:
                return f"[{kind} {name}: {result}]"
            return f"[{kind}: {result}]"
        case "file":
            named = part.get("file_name") or part.get("url")
            if named:
                return f"[file: {engine.redactor.text(quote_line(named))[0]}]"
            return "[file]"
        case "image":
            return "[image]"
        case _:
            return ""


def _payload(engine: Engine, value: Any) -> str:
    # Mask before cutting: half a secret is not recognised.
    seen = make_visible_json(value)
    if engine.redaction == "off":
        masked = seen
    else:
        masked = engine.redactor.json(seen)[0]
    inner = result_parts(masked)
    if inner:
        texts = (part["text"] if part["type"] == "text" else f"[{part['type']}]" for part in inner[:MOST_ITEMS])
        text = "\n".join(_cut_string(text) for text in texts)
    else:
        cut = _cut(masked)
        if isinstance(cut, str):
            text = cut
        else:
            text = json.dumps(cut, ensure_ascii=False, separators=(",", ":"))
    text = escape_marks(text)
    if len(text) <= MOST_PAYLOAD:
        return text
    return f"{text[:MOST_PAYLOAD]}… ({len(text) - MOST_PAYLOAD} more characters)"


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return _cut_string(value)
    if isinstance(value, list):
        if len(value) > MOST_ITEMS:
            more = [f"… ({len(value) - MOST_ITEMS} more)"]
        else:
            more = []
        return [*map(_cut, value[:MOST_ITEMS]), *more]
    if isinstance(value, dict):
        kept = {key: _cut(inner) for key, inner in list(value.items())[:MOST_KEYS]}
        if len(value) > MOST_KEYS:
            return {**kept, "…": f"{len(value) - MOST_KEYS} more keys"}
        return kept
    return value


def _cut_string(text: str) -> str:
    if len(text) > MOST_STRING:
        if _ENCODED.fullmatch(text):
            return f"[{len(text)} characters of encoded data]"
        return f"{text[:MOST_STRING]}… ({len(text) - MOST_STRING} more characters)"
    return text
