"""Echoes that are JSON: answers of our tools, calls of them and the results of those, as any provider or SDK writes them,
as a value, as a text, and among other words of a text."""

import json
from collections.abc import Callable, Collection, Iterator
from typing import Any

from layerlore.memory.text.own_answers import find_own_answer, is_own_answer, may_hold_answers
from layerlore.memory.text.own_tools import is_own_call, names_own_tool, read_object
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json

Strip = Callable[[str], str]

_GONE = object()
_ARGUMENTS = ("arguments", "args", "input", "parameters", "params")
_RESULTS = ("output", "result", "response", "content", "text")
_ANSWERED = ("tool_call_id", "toolCallId", "tool_use_id", "call_id", "callId")
_INNER = (
    *("function", "functionCall", "functionResponse", "function_call", "function_response", "toolUse"),
    "toolInvocation",
)
# A call as hosts and models write it into a text.
_CALLS: tuple[tuple[str, linear_re.Pattern], ...] = (
    ("<use_mcp_tool>", linear_re.compile(r"<use_mcp_tool>()[\s\S]*?(?:</use_mcp_tool>|\Z)")),
    ("<tool_call>", linear_re.compile(r"<tool_call>\s*(\{[\s\S]*?\})\s*(?:</tool_call>|\Z)")),
    ("[tool ", linear_re.compile(r"^\[tool (?:call|result|error) ([\w.:/-]+)[(:][^\n]*", linear_re.MULTILINE)),
)
_ELEMENTS = {
    name: linear_re.compile(rf"<{name}>([\s\S]*?)</{name}>") for name in ("server_name", "tool_name", "arguments")
}


def strip_echoes_json(value: Any, strip: Strip) -> Any:
    """A JSON value without the answers, calls and results of ours in it, ``strip`` applied to each of its texts; None
    where nothing else is in it."""
    try:
        kept = _strip(value, strip, frozenset(_list_own_ids(value)))
    except RecursionError:
        return value
    if kept is _GONE:
        return None
    return kept


def may_hold_json(text: str) -> bool:
    """A quick look whether a text may hold an answer or a call of ours: it finds too much, and misses nothing."""
    return ("{" in text and (may_hold_answers(text) or names_own_tool(text))) or any(sign in text for sign, _ in _CALLS)


def strip_json_text(text: str, strip: Strip) -> str | None:
    """A text that is JSON as a whole, without its echoes; as it is if none exist. None for any other text."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    kept = strip_echoes_json(value, strip)
    if kept == value:
        return text
    if kept is None:
        return ""
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def strip_answers(text: str) -> str:
    """Remove the answers that are written as JSON, or as a Python value, among other words."""
    if "{" not in text or not may_hold_answers(text):
        return text
    kept: list[str] = []
    at = 0
    while (found := find_own_answer(text, at)) is not None:
        kept.append(text[at : found[0]])
        at = found[1]
    if kept:
        return "".join([*kept, text[at:]])
    return text


def strip_calls(text: str) -> str:
    """Remove the calls of ours that are written as text."""
    for sign, pattern in _CALLS:
        if sign in text:
            text = pattern.sub(lambda found: "" if _is_written_call(found) else found[0], text)
    return text


def _is_written_call(found: linear_re.Match) -> bool:
    written = found[1]
    if not written:
        written_in = {name: element.search(found[0]) for name, element in _ELEMENTS.items()}
        elements = {name: element[1].strip() for name, element in written_in.items() if element}
        return is_own_call("use_mcp_tool", {**elements, "arguments": read_object(elements.get("arguments", ""))})
    if not written.startswith("{"):
        return is_own_call(written, None)
    value = read_object(written)
    return isinstance(value, dict) and _is_own_call(value)


def _strip(value: Any, strip: Strip, own: Collection[str]) -> Any:
    if isinstance(value, str):
        return strip(value)
    if isinstance(value, list):
        kept = [inner for each in value if (inner := _strip(each, strip, own)) is not _GONE]
        if kept or not value:
            return kept
        return _GONE
    if not isinstance(value, dict):
        return value
    if is_own_answer(value) or _is_own_call(value) or _answers(value, own):
        return _GONE
    left = {key: inner for key, each in value.items() if (inner := _strip(each, strip, own)) is not _GONE}
    if left or not value:
        return left
    return _GONE


def _is_own_call(value: Json) -> bool:
    """Whether an object is a call of ours, or its result, as a provider or an SDK writes it."""
    inner = next((value[key] for key in _INNER if isinstance(value.get(key), dict)), value)
    kind = value.get("type")
    if isinstance(kind, str) and kind.startswith("tool-"):
        typed = kind.removeprefix("tool-")
    else:
        typed = None
    name = next((name for key in ("name", "toolName", "tool_name") if isinstance(name := inner.get(key), str)), typed)
    if name is None:
        return False
    given = next((read_object(inner[key]) for key in _ARGUMENTS if key in inner), None)
    if given is None and not any(key in inner for key in _RESULTS):
        return False
    server = value.get("server_label", value.get("server_name"))
    return is_own_call(f"{server}__{name}" if isinstance(server, str) else name, given)


def _answers(value: Json, own: Collection[str]) -> bool:
    return bool(own) and any(value.get(key) in own for key in _ANSWERED if isinstance(value.get(key), str))


def _list_own_ids(value: Any) -> Iterator[str]:
    """The ids of the calls of ours anywhere in a value."""
    if isinstance(value, list):
        for each in value:
            yield from _list_own_ids(each)
    elif isinstance(value, dict):
        if _is_own_call(value):
            yield from (call_id for key in ("id", *_ANSWERED) if isinstance(call_id := value.get(key), str))
        else:
            for each in value.values():
                yield from _list_own_ids(each)
