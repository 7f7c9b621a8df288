"""Makes bad requests out of good ones: good by the server's own schemas, then spoilt in their structure or bytes."""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.noisy_caller import META
from benchmarks.raw_requests import Era

Json = dict[str, Any]

STRINGS = (
    *("", " ", "main", "tea", "\x00", "a\x00b", "\ud800", "x\udfff", "\ud83d", "ï¿¿", "\uffff", "\u202e", "\u2028"),
    *(
        "\ufeff",
        "e\u0301" * 50,
        "👩‍👩‍👧‍👦",
        "İ",
        "ß",
        "\U000e0041",
        "\x1b[31m",
        "\r\n",
        "\\",
        '"',
        "'",
        "%s%n%x",
        "{0}",
        "${7*7}",
    ),
    *(
        "../../etc/passwd",
        "' OR 1=1 --",
        '"a" NEAR "b"',
        "*",
        "NaN",
        "null",
        "true",
        "1e999",
        "-0",
        "0x10",
        "[1,2",
        '{"a":',
    ),
    *('["\\ud800"]', "[" * 500, '{"role":"user","content":"\\u0000"}', "memory://profile", "__proto__", "constructor"),
    *("9999-12-31T23:59:59Z", "0000-00-00", "2025-03-01T14:30:00+99:99", "x" * 300, "x" * 70_000, "é" * 200_000),
)
NUMBERS = (0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**40, 10**400, 0.5, -0.0, 1e308, 5e-324)
NO_NUMBERS = (float("nan"), float("inf"), -float("inf"))
RAW = (
    b"\x00",
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xef\xbb\xbf",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b":",
    b"\\",
)
KEYS = (
    "id",
    "method",
    "params",
    "jsonrpc",
    "result",
    "error",
    "_meta",
    "name",
    "arguments",
    "uri",
    "",
    "\x00",
    "\ud800",
    "x" * 5000,
)

# What is asked for beside tools, as clients do.
METHODS: tuple[tuple[str, Json], ...] = (
    ("ping", {}),
    ("tools/list", {}),
    ("tools/list", {"cursor": "x"}),
    ("resources/list", {}),
    ("resources/list", {"cursor": "x"}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "memory://status"}),
    ("resources/read", {"uri": "memory://threads/main/messages?limit=2"}),
    ("resources/read", {"uri": "memory://recall?query=tea"}),
    ("resources/subscribe", {"uri": "memory://profile"}),
    ("resources/unsubscribe", {"uri": "memory://profile"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "load_memory", "arguments": {}}),
    ("prompts/get", {"name": "review_memory", "arguments": {"thread_id": "main"}}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "load_memory"}, "argument": {"name": "x", "value": "m"}},
    ),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "memory://threads/{thread_id}"},
            "argument": {"name": "thread_id", "value": "m"},
            "context": {"arguments": {"a": "b"}},
        },
    ),
    ("logging/setLevel", {"level": "info"}),
    ("server/discover", {}),
    ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}}),
)
NOTIFICATIONS: tuple[tuple[str, Json], ...] = (
    ("notifications/cancelled", {"requestId": "nobody's", "reason": "x"}),
    ("notifications/progress", {"progressToken": 1, "progress": 0.5}),
    ("notifications/initialized", {}),
    ("notifications/roots/list_changed", {}),
)


class BadInputs:
    """An endless supply for one era, the same for the same seed; ``tools`` as `tools/list` gives them."""

    def __init__(self, tools: Sequence[Json], era: Era, seed: str) -> None:
        self._tools = tools
        self._era = era
        self._random = random.Random(f"{era} {seed}")
        self._number = 0

    def bodies(self, count: int) -> list[bytes]:
        """That many requests, a few of them good."""
        return [self._body() for _ in range(count)]

    def _body(self) -> bytes:
        message: Any = self._message()
        for _ in range(self._random.choices((0, 1, 2, 4), (1, 6, 3, 1))[0]):
            # Mostly what a tool is given: the rest of a message goes no further than the protocol.
            arguments = message.get("params", {}).get("arguments") if self._random.random() < 0.7 else None
            if isinstance(arguments, dict) and arguments:
                self._spoilt(arguments)
            else:
                message = self._spoilt(message)
                if not isinstance(message.get("params", {}), dict):
                    break
        text = json.dumps(message, ensure_ascii=self._random.random() < 0.5)
        body = text.encode("utf-8", "surrogatepass")
        return self._broken(body) if self._random.random() < 0.2 else body

    def _message(self) -> Json:
        self._number += 1
        chance = self._random.random()
        if chance < 0.04:
            method, params = self._random.choice(NOTIFICATIONS)
            return {"jsonrpc": "2.0", "method": method, "params": dict(params)}
        if chance < 0.3:
            method, params = self._random.choice(METHODS)
        else:
            tool = self._random.choice(self._tools)
            schema = tool["inputSchema"]
            method, params = (
                "tools/call",
                {"name": tool["name"], "arguments": self._value(schema, schema.get("$defs", {}))},
            )
        if self._era == "modern":
            params = {**params, "_meta": META}
        params = json.loads(json.dumps(params))  # a copy that may be spoilt
        request_id = self._number if self._random.random() < 0.5 else f"q{self._number}"
        return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}

    def _value(self, schema: Json, defs: Json) -> Any:
        """Something that the schema allows, or nearly."""
        pick = self._random
        if "$ref" in schema:
            return self._value(defs[schema["$ref"].rpartition("/")[2]], defs)
        for choice in ("anyOf", "oneOf"):
            if choice in schema:
                return self._value(pick.choice(schema[choice]), defs)
        if "enum" in schema:
            return pick.choice(schema["enum"])
        match schema.get("type"):
            case "object":
                required = schema.get("required", ())
                known = schema.get("properties", {})
                kept = [name for name in known if name in required or pick.random() < 0.5]
                return {name: self._value(known[name], defs) for name in kept}
            case "array":
                return [self._value(schema.get("items", {}), defs) for _ in range(pick.randint(0, 3))]
            case "string":
                return pick.choice(("main", "tea", "m1", "r1", "hello"))
            case "integer" | "number":
                return pick.randint(1, 50)
            case "boolean":
                return pick.random() < 0.5
        return pick.choice(("hello", 5, None, {"goal": "tea"}, [{"role": "user", "content": "hello"}]))

    def _nasty(self) -> Any:
        pick = self._random
        match pick.randint(0, 11):
            case 0 | 1 | 2 | 3:
                return pick.choice(STRINGS)
            case 4 | 5:
                return pick.choice(NUMBERS)
            case 6:
                return pick.choice(NO_NUMBERS)
            case 7:
                return pick.choice((None, True, False))
            case 8:
                return pick.choice(([], {}, [[]], [{}], {"": {}}))
            case 9:
                return self._deep(pick.choice((5, 70, 150, 250)))
            case 10:
                return {pick.choice(KEYS): pick.choice(STRINGS) for _ in range(pick.choice((1, 3, 10)))}
        return [pick.choice((*STRINGS, *NUMBERS)) for _ in range(pick.choice((1, 3, 300)))]

    def _deep(self, depth: int) -> Any:
        value: Any = self._random.choice(STRINGS)
        for level in range(depth):
            value = [value] if level % 2 else {"a": value}
        return value

    def _spoilt(self, message: Any) -> Any:
        """The same with one place changed: replaced, left out, renamed, made deeper, or with more beside it."""
        places = list(_places(message))
        if not places:
            return self._nasty()
        holder, key = self._random.choice(places)
        match self._random.randint(0, 9):
            case 0 | 1:
                del holder[key]
            case 2 if isinstance(holder, dict):
                holder[self._random.choice(KEYS)] = holder.pop(key)
            case 3:
                holder[key] = [holder[key]]
            case 4 if isinstance(holder, dict):
                holder[self._random.choice(KEYS)] = self._nasty()
            case 5:
                holder[key] = json.dumps(holder[key])
            case _ if isinstance(holder[key], str) and self._random.random() < 0.6:
                holder[key] = self._random.choice(STRINGS)
            case _:
                holder[key] = self._nasty()
        return message

    def _broken(self, body: bytes) -> bytes:
        pick = self._random
        at = pick.randrange(len(body) + 1)
        match pick.randint(0, 7):
            case 0:
                return body[:at]
            case 1:
                return body[:at] + pick.choice(RAW) + body[at:]
            case 2:
                return body[:at] + pick.randbytes(pick.randint(1, 20)) + body[at:]
            case 3:
                return body[:at] + body[at + pick.randint(1, 10) :]
            case 4:
                return body[:at] + body
            case 5:
                return b"[" + body + b"," + body + b"]"
            case 6:
                return b'{"id":1,"id":null,' + body[1:]
        return body.swapcase()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a message at which something can be put: the list or object, and the key or index."""
    pending = [value]
    while pending:
        holder = pending.pop()
        if isinstance(holder, dict):
            keys: Sequence[Any] = list(holder)
        elif isinstance(holder, list):
            keys = range(len(holder))
        else:
            continue
        for key in keys:
            yield holder, key
            pending.append(holder[key])
