"""Tool calls for the digest: each with its result on one line, ``name(key=value) -> ok: what came of it``."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from layerlore.memory.digest_sentences import LONGEST, shortened
from layerlore.memory.part_fields import UNREAD_ARGUMENTS
from layerlore.memory.parts import result_parts
from layerlore.storage.records import Json, Message

State = Literal["ok", "error", "open"]

# Characters of one argument, of all of them, and of what came of a call that succeeded or failed; of a
# word, such as a URL.
_ARGUMENT, _ARGUMENTS, _OUTCOME, _FAILURE, _WORD = 60, 110, 120, 160, 100
_MOST_NAMED = 4
_FEWEST_CHARS = 4
# How deep an error may lie in a result, and how many objects are looked through for it.
_DEEPEST, _MOST_OBJECTS = 5, 200
# A longer text is what was read, and not what came of it; nor is it searched for JSON.
_SHORT, _JSON_CHARS = 300, 20_000

_ENCODED = re.compile(r"[A-Za-z0-9+/_=-]{120,}")
_FAILED = re.compile(
    r"\W*(?:[\w.]*(?:error|exception)\b|fail(?:ed|ure)|fatal|traceback|panic|command failed|permission denied|access denied"
    r"|fehler|erreur|errore|erro\b|fout|błąd|ошибка|hata)|(?:HTTP[/ ]?[\d.]*\s+)?[45]\d\d\s+[A-Z]",
    re.IGNORECASE,
)
_UNTRUE = re.compile(r"(?:[45]\d\d\s+[a-z]|\W*(?:errors?|failures?|failed)\W+(?:0|none|no)\b)")
_COUNTED = re.compile(
    r"\b[1-9]\d* (?:failed|failures|errors)\b|\bexit(?:ed with)?(?: code| status)?[:= ]+[1-9]\d*\b", re.IGNORECASE
)
_NAMES_IT = re.compile(r"error|exception|fail|denied|refused|timed? ?out|\b[45]\d\d\b", re.IGNORECASE)
_TOLD_FIRST = (
    "error",
    "message",
    "code",
    "status",
    "state",
    "id",
    "name",
    "title",
    "url",
    "count",
    "total",
    "summary",
    "result",
)
# What the last word of a longer key says: executionId, webhookUrl.
_TOLD_NEXT = ("code", "status", "url", "id", "number", "count", "total")
_PLAIN = (3, 0)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*")
_TOLD_BY_STATE = ("error", "errors", "success", "ok", "isError")
_CHANGES = frozenset(
    """
    activate add apply approve assign book build cancel close commit complete copy create delete deploy edit execute fix generate
    insert install invite make merge migrate move order patch pay post publish push put rebuild release remove rename
    replace reply reserve restart revert run save schedule send set setup start stop submit test transfer update upgrade
    upload upsert write
    """.split()  # noqa: SIM905
)
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


@dataclass(frozen=True, slots=True)
class Call:
    """A call and how it ended. ``overcome``: it failed, and the same tool succeeded afterwards; ``recovered``: it is
    that success; ``changes``: its name says that it does something, not that it looks something up."""

    seq: int
    name: str
    text: str
    state: State
    changes: bool
    overcome: bool
    recovered: bool


@dataclass(slots=True)
class _Half:
    message: Message
    call: Json | None
    result: Json | None = None


def calls_of(messages: Sequence[Message]) -> dict[int, list[Call]]:
    """The calls of each message, by its seq. A result belongs to the latest call of its id before it; one whose call
    is not among the messages stands for itself."""
    halves: list[_Half] = []
    latest: dict[str, _Half] = {}
    for message in messages:
        for part in message.parts:
            if part["type"] == "tool_call":
                latest[part["id"]] = _Half(message, part)
                halves.append(latest[part["id"]])
            elif part["type"] == "tool_result":
                called = latest.get(part["tool_call_id"])
                if called and called.result is None:
                    called.result = part
                else:
                    halves.append(_Half(message, called.call if called else None, part))
    return _told(halves)


def _told(halves: Sequence[_Half]) -> dict[int, list[Call]]:
    ended = [_ending(half) for half in halves]
    last_ok = {name: at for at, (name, state, _) in enumerate(ended) if state == "ok"}
    failing: set[str] = set()
    found: defaultdict[int, list[Call]] = defaultdict(list)
    for at, (half, (name, state, outcome)) in enumerate(zip(halves, ended, strict=True)):
        arguments = _arguments(half.call["arguments"]) if half.call else "…"
        text = f"{name}({arguments}) -> "
        text += shortened(outcome, max(LONGEST - len(text), 40)) if outcome else ""
        found[half.message.seq].append(
            Call(
                seq=half.message.seq,
                name=name,
                text=shortened(text),
                state=state,
                changes=any(word.lower() in _CHANGES for word in _NAME_WORD.findall(name)),
                overcome=state == "error" and last_ok.get(name, -1) > at,
                recovered=state == "ok" and name in failing,
            )
        )
        if state == "error":
            failing.add(name)
        elif state == "ok":
            failing.discard(name)
    return dict(found)


def _ending(half: _Half) -> tuple[str, State, str]:
    """The tool's name, how it ended, and what came of it."""
    name = _line((half.call or {}).get("name") or (half.result or {}).get("name") or "tool")
    if half.result is None:
        return name, "open", "no result"
    result = _plain(half.result["result"])
    given = _given(half.call["arguments"]) if half.call else frozenset()
    if half.result.get("is_error") or _says_failed(result):
        said = _failure(result, given)
        return name, "error", f"error: {said}" if said else "error"
    said = _success(result, given)
    return name, "ok", f"ok: {said}" if said else "ok"


def _plain(result: Any) -> Any:
    """A result as JSON, or as text: the texts of its parts, and JSON that came as text."""
    inner = result_parts(result)
    if inner:
        result = "\n".join(part["text"] for part in inner if part["type"] == "text")
    if isinstance(result, str) and len(result) <= _JSON_CHARS and result.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(result)
        except (ValueError, RecursionError):
            return result
    return result


def _says_failed(result: Any) -> bool:
    if isinstance(result, str):
        ends = result if len(result) <= 2 * _SHORT else f"{result[:_SHORT]}\n{result[-_SHORT:]}"
        return bool((_FAILED.match(ends) and not _UNTRUE.match(ends)) or _COUNTED.search(ends))
    if not isinstance(result, Mapping):
        return False
    code = result.get("status_code", result.get("statusCode", result.get("status")))
    return bool(
        result.get("error")
        or result.get("errors")
        or any(result.get(key) is False for key in ("ok", "success", "succeeded"))
        or result.get("isError") is True
        or str(result.get("status", "")).lower() in ("error", "failed", "failure")
        or (type(code) is int and code >= 400)
        or any(type(result.get(key)) is int and result[key] != 0 for key in ("exit_code", "exitCode", "returncode"))
    )


def _failure(result: Any, given: frozenset[str]) -> str:
    """The line that names the error: of a traceback the last, of JSON what is under ``error``, however deep."""
    if isinstance(result, str):
        lines = [line for line in map(_line, _ends(result)) if line]
        if result.lstrip().startswith("Traceback"):
            return lines[-1] if lines else ""
        counted = next((line for line in lines if _COUNTED.search(line)), None)
        said = counted or next((line for line in lines if _NAMES_IT.search(line)), lines[0] if lines else "")
        return re.sub(r"^error\s*:\s*", "", said, flags=re.IGNORECASE)
    if isinstance(result, Mapping):
        first = _error_in(result)
        rest = {key: value for key, value in result.items() if key not in _TOLD_BY_STATE}
        if isinstance(first, str):
            return _listed([_short(first, _FAILURE), *_leaves(rest, given)], _FAILURE)
        if isinstance(first, Mapping):
            telling = {key: value for key, value in rest.items() if _rank(key, value) < _PLAIN}
            return _listed([*_leaves(first), *_leaves(telling, given)], _FAILURE)
    return _listed(_leaves(result, given), _FAILURE)


def _error_in(result: Mapping[str, Any]) -> Any:
    """What is under ``error``: of the object itself, else of the nearest in it that has one."""
    level: list[Mapping[str, Any]] = [result]
    for _ in range(_DEEPEST):
        for each in level:
            named = each.get("error") or each.get("errors")
            first = named[0] if isinstance(named, list) and named else named
            if first and isinstance(first, str | Mapping):
                return first
        level = [inner for each in level for inner in each.values() if isinstance(inner, Mapping)][:_MOST_OBJECTS]
    return None


def _ends(text: str) -> list[str]:
    return (text if len(text) <= 4000 else f"{text[:2000]}\n{text[-2000:]}").splitlines()


def _success(result: Any, given: frozenset[str]) -> str:
    if isinstance(result, str):
        lines = [line for line in map(_line, _ends(result)) if line]
        if not lines or _ENCODED.fullmatch(lines[0]):
            return ""
        counted = next((line for line in lines[-3:] if re.search(r"\b\d+ passed\b", line)), None)
        return (
            shortened(counted or lines[0], _OUTCOME)
            if counted or len(result) <= _SHORT
            else f"{len(result)} characters"
        )
    if isinstance(result, list):
        return f"{len(result)} {'entry' if len(result) == 1 else 'entries'}"
    return _listed(_leaves(result, given), _OUTCOME)


def _arguments(arguments: Json) -> str:
    raw = arguments.get(UNREAD_ARGUMENTS)
    if len(arguments) == 1 and isinstance(raw, str):
        return shortened(_line(raw[:2000]), _ARGUMENTS)
    return shortened(", ".join(_leaves(arguments, ordered=True)), _ARGUMENTS)


def _given(arguments: Json) -> frozenset[str]:
    """The ids and numbers that a call names: its result need not say them again."""
    values = (json.dumps(value) if type(value) is int else value for value in arguments.values())
    # A short number that comes back is another one: days=3 and count=3.
    texts = (value for value in values if isinstance(value, str) and len(value) >= _FEWEST_CHARS)
    return frozenset(text for text in texts if any(sign.isdigit() for sign in text))


def _leaves(value: Any, given: frozenset[str] = frozenset(), *, ordered: bool = False) -> list[str]:
    """The first few simple values of an object, each ``key=value``, those first that tell most, without those given; a
    simple value alone."""
    if not isinstance(value, Mapping):
        return [] if value is None or isinstance(value, list) else [_short(str(value))]
    keys = list(value) if ordered else sorted(value, key=lambda key: _rank(key, value[key]))
    shown = (f"{_line(key)[:40]}={shown}" for key, shown in _named(value, keys) if shown not in given)
    return list(islice(shown, _MOST_NAMED))


def _rank(key: str, value: Any) -> tuple[int, int]:
    """What is named like an outcome, then ids, URLs and numbers, then the rest; whether and when last."""
    if key in _TOLD_FIRST:
        return 0, _TOLD_FIRST.index(key)
    words = _NAME_WORD.findall(key)
    last = words[-1].lower() if words else ""
    if last in _TOLD_NEXT:
        return 1, _TOLD_NEXT.index(last)
    if isinstance(value, bool) or (isinstance(value, str) and _TIME.fullmatch(value[:40])):
        return 4, 0
    return (2, 0) if isinstance(value, int | float) else _PLAIN


def _listed(leaves: Sequence[str], most: int) -> str:
    """The first, and as many of the others as fit, whole."""
    told = shortened(leaves[0], most) if leaves else ""
    for leaf in leaves[1:]:
        if len(told) + 2 + len(leaf) <= most:
            told += f", {leaf}"
    return told


def _short(raw: str, most: int = _ARGUMENT) -> str:
    text = _line(raw[:2000])
    return shortened(text, most if " " in text else max(most, _WORD))


def _named(value: Mapping[str, Any], keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    for key in keys:
        inner = value[key]
        if isinstance(inner, str):
            if inner.strip() and not _ENCODED.fullmatch(inner):
                yield key, _short(inner)
        elif isinstance(inner, bool | int | float):
            yield key, json.dumps(inner)
        elif isinstance(inner, list) and inner:
            simple = all(isinstance(entry, str | int | float) for entry in inner[:4])
            listed = ",".join(_line(str(entry)[:40]) for entry in inner[:4])
            yield key, shortened(listed, _ARGUMENT) if simple and len(inner) <= 4 else f"[{len(inner)}]"


def _line(text: str) -> str:
    return " ".join(text.split())
