"""The repair of a model's text: find the JSON object in it, which a fence, prose or thoughts may surround.

Only wrapping and needless commas are removed, and only closing brackets are added. A text that ends within a value or
after a comma was cut off: nothing is made up for it, and it does not count as an answer.
"""

import json
from collections.abc import Iterator
from typing import Any

from layerlore.extraction.kinds.kind import ModelAnswer
from layerlore.memory.rules.validation import check_json
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput

DEPTH = 64
_MOST_TRIES = 50

_THOUGHTS = linear_re.compile(
    "|".join(rf"\A\s*<{name}>.*?</{name}>" for name in ("think", "thinking", "thought", "reasoning")), linear_re.DOTALL
)
_FENCE = linear_re.compile(r"```[a-zA-Z0-9]*[ \t]*\n(.*?)```", linear_re.DOTALL)
_STRING = r'"[^"\\]*(?:\\.?[^"\\]*)*(?P<shut>")?'
_TOKEN = linear_re.compile(_STRING + r"|[{}\[\]]", linear_re.DOTALL)
_NEEDLESS_COMMA = linear_re.compile(_STRING + r"|,(?=\s*[}\]])", linear_re.DOTALL)
_CLOSING = {"{": "}", "[": "]"}
# Ends of values that are complete; a number may lack digits.
_ENDED = ('"', "null", "true", "false")
# Not strict: small models do not escape line breaks in strings.
_decoder = json.JSONDecoder(strict=False)


class Unreadable(Exception):
    """A text holds no usable JSON object. The error says why, without quoting the text."""


def read_object(text: str) -> ModelAnswer:
    """The object in a text. Raises Unreadable."""
    bare = _THOUGHTS.sub("", text.lstrip("\ufeff")).strip()
    found = next((value for value in _readings(bare) if isinstance(value, dict)), None)
    if found is None:
        raise Unreadable(_why_none(bare))
    try:
        check_json(found, "the answer", depth=DEPTH)
    except InvalidInput:
        raise Unreadable(
            f"it holds NUL, half of a surrogate pair, a number that is not finite, or more than {DEPTH} levels of nesting"
        ) from None
    return found


def _readings(text: str) -> Iterator[Any]:
    """The possible readings of a text, the simplest first."""
    yield _decoded(text)
    for fenced in _FENCE.findall(text):
        yield _decoded(fenced)
    yield _longest_within(text)
    yield _decoded(_closed(text[max(0, text.find("{")) :]))


def _decoded(text: str) -> Any:
    """The value of a whole text; None if it is not JSON."""
    for each in (text, _NEEDLESS_COMMA.sub(lambda found: "" if found[0] == "," else found[0], text)):
        try:
            return _decoder.decode(each)
        except (ValueError, RecursionError):
            continue
    return None


def _longest_within(text: str) -> Any:
    """The longest of the objects in a text."""
    best: Any = None
    length = 0
    start = text.find("{")
    for _ in range(_MOST_TRIES):
        end = _end(text, start) if start >= 0 else -1
        if end < 0:
            break
        value = _decoded(text[start:end]) if end - start > length else None
        if value is not None:
            best, length = value, end - start
        start = text.find("{", end)
    return best


def _end(text: str, start: int) -> int:
    """The index after the bracket that closes the one at ``start``; -1 if none does."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    return -1


def _closed(text: str) -> str:
    """Add the closing brackets that a text lacks at its end; return it unchanged if more than brackets may be missing."""
    awaited: list[str] = []
    for token in _TOKEN.finditer(text):
        if token[0] in _CLOSING:
            awaited.append(_CLOSING[token[0]])
        elif token[0] in ("}", "]"):
            if not awaited or awaited.pop() != token[0]:
                return text
        elif token["shut"] is None:
            return text
    bare = text.rstrip().removesuffix("```").rstrip()
    whole = bare.endswith(("}", "]")) or (len(awaited) == 1 and bare.endswith(_ENDED))
    return bare + "".join(reversed(awaited)) if whole else text


def _why_none(text: str) -> str:
    start = text.find("{")
    if start < 0:
        return "it is not a JSON object"
    return "its JSON is invalid" if _end(text, start) >= 0 else "its JSON ends before it is complete"
