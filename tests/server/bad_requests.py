"""Requests that a client should never send, picked by hand: their bytes, and what a right answer is.

Ids are the names of the cases, so that an answer says which it is for; where the id itself is what is wrong, the
answer has none.
"""

import json
from dataclasses import dataclass
from typing import Any, Literal

from layerlore.server.resources.requests import parse
from layerlore.server.tools.toolsets import DECLARATIONS

from .bad_uris import URIS

Answer = Literal["error", "error without id", "result or error", "nothing"]
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Bad:
    """``answer`` is what has to come, with the case's name as its id unless it says otherwise; ``params`` are those of
    a request that is well formed, to which the modern era adds what it wants of every request."""

    name: str
    answer: Answer
    body: bytes = b""
    method: str | None = None
    params: Any = None


def _raw(name: str, body: bytes, answer: Answer = "error without id") -> Bad:
    return Bad(name, answer, body.replace(b"<id>", json.dumps(name).encode()))


def _request(name: str, rest: bytes, answer: Answer = "error") -> Bad:
    """One whose id is in order, with members as raw bytes."""
    return _raw(name, b'{"jsonrpc":"2.0","id":<id>,' + rest + b"}", answer)


def _asked(name: str, method: str, params: Any, answer: Answer = "error") -> Bad:
    return Bad(name, answer, method=method, params=params)


def _call(name: str, tool: Any, arguments: Any) -> Bad:
    return _asked(name, "tools/call", {"name": tool, "arguments": arguments})


def _ping(name: str, params: bytes, answer: Answer = "error") -> Bad:
    return _request(name, b'"method":"tools/list","params":' + params, answer)


_NO_JSON = (
    _raw("text", b"hello"),
    _raw("http", b"POST /mcp HTTP/1.1"),
    _raw("an LSP header", b"Content-Length: 52"),
    _raw("one brace", b"{"),
    _raw("one quote", b'"'),
    _raw("a closing brace", b"}"),
    _raw("spaces and a brace", b"   {   "),
    _raw("a comment", b"// hello"),
    _raw("single quotes", b"{'jsonrpc':'2.0','id':1,'method':'ping'}"),
    _raw("a key without quotes", b'{jsonrpc:"2.0",id:1,method:"ping"}'),
    _raw("control bytes", bytes(range(1, 10))),
    _raw("UTF-16", '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16").replace(b"\n", b"")),
    _raw("UTF-32", '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-32-le")),
    _raw("gzip", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xabV*"),
    _raw("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    _raw("base64", b"eyJqc29ucnBjIjoiMi4wIiwiaWQiOjEsIm1ldGhvZCI6InBpbmcifQ=="),
    _raw("XML", b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY y SYSTEM "file:///etc/passwd">]><x>&y;</x>'),
    _raw("YAML", b"jsonrpc: '2.0'"),
    _raw("a form", b"jsonrpc=2.0&id=1&method=ping"),
    _raw("cut in the method", b'{"jsonrpc":"2.0","id":<id>,"method":"pi', "error"),
    _raw("cut in the id", b'{"jsonrpc":"2.0","id":"cut in'),
    _raw("cut after the id", b'{"jsonrpc":"2.0","id":<id>,', "error"),
    _request("two messages in one", b'"method":"ping"} {"jsonrpc":"2.0","id":5,"method":"ping"'),
    _request("a trailing comma", b'"method":"ping",'),
    _request("text behind", b'"method":"ping"} x {'),
    _raw("a mark twice", b"\xef\xbb\xbf\xef\xbb\xbf{}"),
    _raw("a mark", b'\xef\xbb\xbf{"jsonrpc":"2.0","id":<id>,"method":"tools/call","params":{"name":5}}', "error"),
)
_NO_MESSAGE = (
    _raw("an empty batch", b"[]"),
    _raw("a batch", b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]'),
    _raw("a batch of batches", b"[[[]]]"),
    _raw("a batch of nulls", b"[null,null]"),
    _raw("a number", b"5"),
    _raw("a float", b"-0.0"),
    _raw("null", b"null"),
    _raw("true", b"true"),
    _raw("a string", b'"ping"'),
    _raw("NaN", b"NaN"),
    _raw("an empty object", b"{}"),
    _raw("only an id", b'{"id":<id>}', "error"),
    _raw("only a method", b'{"method":"ping"}'),
    _raw("no version", b'{"id":<id>,"method":"ping"}', "error"),
    _raw("version 1.0", b'{"jsonrpc":"1.0","id":<id>,"method":"ping"}', "error"),
    _raw("a number as version", b'{"jsonrpc":2.0,"id":<id>,"method":"ping"}', "error"),
    _raw("null as version", b'{"jsonrpc":null,"id":<id>,"method":"ping"}', "error"),
    _raw("capitals", b'{"JSONRPC":"2.0","ID":1,"METHOD":"ping"}'),
    _raw("no method", b'{"jsonrpc":"2.0","id":<id>}', "error"),
    _raw("no method but params", b'{"jsonrpc":"2.0","id":<id>,"params":{}}', "error"),
    *(
        _request(f"method {method.decode()[:12]}", b'"method":' + method)
        for method in (b"null", b"5", b"[]", b"{}", b"true", b'["ping"]')
    ),
    *(
        _request(f"params {params.decode()[:12]}", b'"method":"ping","params":' + params)
        for params in (b"5", b"[]", b'"x"', b"true", b"[1,2]", b"0.5")
    ),
)
_IDS = (
    *(
        _raw(f"id {given.decode()[:12]}", b'{"jsonrpc":"2.0","id":' + given + b',"method":"tools/list"}')
        for given in (b"null", b"{}", b"[]", b"1.5", b"1.0", b"1e2", b"true", b"false", b"[1]", b'{"a":1}', b"-", b"01")
    ),
    _raw("id of 5,000 digits", b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"tools/list"}'),
    _raw("id of half a pair", b'{"jsonrpc":"2.0","id":"\\ud800","method":"tools/list"}'),
    _raw("id of raw half a pair", b'{"jsonrpc":"2.0","id":"\xed\xa0\x80","method":"tools/list"}'),
    _raw("id of no UTF-8", b'{"jsonrpc":"2.0","id":"\xff","method":"tools/list"}'),
    _raw("two ids, the last unusable", b'{"jsonrpc":"2.0","id":1,"id":null,"method":"tools/list"}'),
    _raw("two ids", b'{"jsonrpc":"2.0","id":1,"id":<id>,"method":"nothing/such"}', "error"),
    _raw("an id in the params only", b'{"jsonrpc":"2.0","params":{"id":3},"method":5}'),
    _raw("id escaped", b'{"jsonrpc":"2.0","\\u0069d":<id>,"method":"nothing/such"}', "error"),
)
_TEXT = (
    _ping("half a pair", b'{"cursor":"\\ud800"}'),
    _ping("the other half", b'{"cursor":"a\\udfffb"}'),
    _ping("halves in the wrong order", b'{"cursor":"\\udc00\\ud800"}'),
    _ping("half a pair as a key", b'{"\\ud800":1}'),
    _ping("raw half a pair", b'{"cursor":"\xed\xa0\x80"}'),
    _ping("no UTF-8", b'{"cursor":"\xff\xfe"}'),
    _ping("overlong UTF-8", b'{"cursor":"\xc0\xaf"}'),
    _ping("cut UTF-8", b'{"cursor":"\xe2\x82"}'),
    _ping("beyond Unicode", b'{"cursor":"\xf4\x90\x80\x80"}'),
    _ping("a raw NUL", b'{"cursor":"\x00"}'),
    _ping("a raw tab", b'{"cursor":"\t"}'),
    _ping("a bad escape", b'{"cursor":"\\x41"}'),
    _ping("a cut escape", b'{"cursor":"\\u00"}'),
    _asked("NUL in a method", "tools\x00/list", {}),
    _asked("a method of spaces", "   ", {}),
    _asked("an empty method", "", {}),
    _asked("a method in capitals", "TOOLS/LIST", {}),
    _asked("a long method", "x" * 100_000, {}),
    _asked("an unknown method", "nothing/such", {}),
    _asked("a method of ours for nobody", "layerlore/erase", {}),
    _asked("a path as method", "../../tools/list", {}),
    _asked("a dunder as method", "__class__", {}),
    _asked("a notification with an id", "notifications/initialized", {}),
    _asked("a cancellation with an id", "notifications/cancelled", {"requestId": 1}),
    _asked("what a server asks", "sampling/createMessage", {"messages": [], "maxTokens": 1}),
    _asked("what a server asks, roots", "roots/list", {}),
    _asked("what a server asks, a form", "elicitation/create", {"message": "x", "requestedSchema": {}}),
)
_NUMBERS_AND_DEPTH = (
    _ping("NaN inside", b'{"cursor":NaN}'),
    _ping("Infinity inside", b'{"a":[Infinity]}'),
    _ping("minus Infinity inside", b'{"a":-Infinity}'),
    _ping("5,000 digits", b'{"a":' + b"9" * 5000 + b"}"),
    _ping("minus 5,000 digits", b'{"a":-' + b"9" * 5000 + b"}"),
    _ping("a million digits", b'{"a":' + b"9" * 1_000_000 + b"}"),
    _ping("hexadecimal", b'{"a":0x10}'),
    _ping("a plus", b'{"a":+1}'),
    _ping("a leading zero", b'{"a":007}'),
    _ping("a bare point", b'{"a":.5}'),
    _ping("100,000 lists", b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    _ping("100,000 objects", b'{"a":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}"),
    _ping("100,000 lists left open", b'{"a":' + b"[" * 100_000),
    _ping("500 lists", b'{"a":' + b"[" * 500 + b"]" * 500 + b"}"),
    _raw("a million brackets", b"[" * 1_000_000),
    _raw("two million quotes", b'"' * 2_000_000),
    _ping(
        "200,000 keys",
        b'{"name":5,' + b",".join(b'"k%d":0' % number for number in range(200_000)) + b"}",
        "result or error",
    ),
    _ping("one key 100,000 times", b"{" + b",".join([b'"cursor":"x"'] * 100_000) + b"}", "result or error"),
    _call("200,000 arguments", "get_messages", {f"k{number}": 0 for number in range(200_000)}),
    _call("an argument with a long name", "get_messages", {"x" * 1_000_000: 0}),
    _call("deep JSON in a string", "add_messages", {"messages": "[" * 100_000, "thread_id": "main"}),
    _call("deep JSON, allowed to the parser", "add_messages", {"messages": json.loads("[" * 150 + "]" * 150)}),
    _call("half a pair in JSON in a string", "add_messages", {"messages": '[{"role":"user","content":"\\ud800"}]'}),
    _call("NaN in JSON in a string", "update_thread", {"metadata": '{"a":NaN}', "thread_id": "main"}),
    _call("5,000 digits in JSON in a string", "update_thread", {"metadata": '{"a":' + "9" * 5000 + "}"}),
    _ping("1e999", b'{"cursor":1e999}'),
)
_LARGE = (
    _raw("20 MB of text", b"x" * 20 * MIB),
    _raw("20 MB of brackets", b"[" * 20 * MIB),
    _ping("20 MB in a string", b'{"cursor":"' + b"x" * 20 * MIB + b'"}'),
    _raw(
        "20 MB, then the id",
        b'{"method":"ping","params":{"a":"' + b"x" * 20 * MIB + b'"},"jsonrpc":"2.0","id":<id>}',
        "error",
    ),
    _ping("one byte above", b'{"cursor":"' + b"x" * 4 * MIB + b'"}'),
    _call(
        "a message of 3 MB",
        "add_messages",
        {"messages": [{"role": "user", "content": "x" * 3 * MIB}], "thread_id": "main"},
    ),
    _asked(
        "a query of 1 MB",
        "tools/call",
        {"name": "recall_memory", "arguments": {"query": "x " * 500_000}},
        "result or error",  # its ends are searched
    ),
    _call("an unknown tool of 1 MB", "x" * 1_000_000, {}),
    _call(
        "100,000 ids",
        "delete_messages",
        {"which": "ids", "ids": [f"m{number}" for number in range(100_000)], "thread_id": "main"},
    ),
)
_NOBODY_ASKED = (
    _raw("a result", b'{"jsonrpc":"2.0","id":1,"result":{}}', "nothing"),
    _raw("a result for a string", b'{"jsonrpc":"2.0","id":"server-1","result":{"roots":[]}}', "nothing"),
    _raw("an error", b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"x"}}', "nothing"),
    _raw("an error without id", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"x"}}', "nothing"),
    _raw("a broken result", b'{"jsonrpc":"2.0","id":1,"result":5}'),
    _raw("a broken error", b'{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}'),
    _raw("result and error", b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}', "nothing"),
    *(
        _raw(
            f"{method} {params.decode()[:20]}",
            b'{"jsonrpc":"2.0","method":"notifications/%s","params":%s}' % (method.encode(), params),
            "nothing",
        )
        for method, params in (
            ("cancelled", b'{"requestId":"nobody\'s"}'),
            ("cancelled", b'{"requestId":-1,"reason":5}'),
            ("cancelled", b'{"requestId":{}}'),
            ("cancelled", b"{}"),
            ("progress", b'{"progressToken":"none","progress":1}'),
            ("progress", b'{"progressToken":{},"progress":"x"}'),
            ("progress", b"{}"),
            ("initialized", b'{"x":1}'),
            ("roots/list_changed", b"{}"),
            ("nothing_such", b'{"a":[1]}'),
        )
    ),
    _raw("a request without id", b'{"jsonrpc":"2.0","method":"tools/list"}', "nothing"),
    _raw("a call without id", b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"list_threads"}}', "nothing"),
)
_OPENING = (
    _asked(
        "initialize again",
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
        "result or error",
    ),
    _asked("initialize without anything", "initialize", {}),
    _asked(
        "initialize with a number",
        "initialize",
        {"protocolVersion": 5, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    ),
    _asked(
        "initialize with lists", "initialize", {"protocolVersion": "2025-11-25", "capabilities": [], "clientInfo": []}
    ),
    _asked(
        "initialize with a version of nobody",
        "initialize",
        {"protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
        "result or error",
    ),
    *(
        _asked(
            f"_meta {json.dumps(meta)[:20]}", "tools/call", {"name": "list_threads", "_meta": meta}, "result or error"
        )
        for meta in (
            5,
            "x",
            [],
            [1],
            True,
            {"progressToken": {}},
            {"progressToken": []},
            {"progressToken": 1.5},
            {"progressToken": True},
            {"progressToken": ""},
        )
    ),
    *(
        _asked(
            f"_meta of ours {name} {json.dumps(value)[:9]}",
            "tools/call",
            {"name": "get_messages", "_meta": {f"layerlore/{name}": value}},
        )
        for name, value in (("thread", 5), ("thread", {}), ("thread", "a\nb"), ("idempotency-key", []))
    ),
)
_TOOLS = (
    _asked("a call without params", "tools/call", {}),
    _asked("a call without a name", "tools/call", {"arguments": {}}),
    *(
        _call(f"a tool named {json.dumps(name)[:12]}", name, {})
        for name in (5, None, [], {}, True, "", " ", "\x00", "Get_Messages", "get_messages ", "__init__", "tools/call")
    ),
    *(_call(f"arguments {json.dumps(given)[:12]}", "list_threads", given) for given in (5, "x", [], [1], True, 0.5)),
    _call("an argument that is not there", "delete_messages", {"which": "all", "thread": "main"}),
    _call("a dunder argument", "get_messages", {"__class__": "x"}),
    _call("a tenant as argument", "get_messages", {"tenant_id": "other"}),
    _call("a page of less than none", "get_messages", {"limit": -1}),
    _call("a page of many", "get_messages", {"limit": 10**30}),
    _call("a page of NUL", "list_threads", {"cursor": "\x00"}),
    _call("a thread of control characters", "get_messages", {"thread_id": "\x1b[31m"}),
)
_REST = (
    *(_asked(f"read {json.dumps(uri)[:12]}", "resources/read", {"uri": uri}) for uri in (5, None, [], {}, "")),
    _asked("read nothing", "resources/read", {}),
    *(
        _asked(f"subscribe {json.dumps(uri)[:20]}", "resources/subscribe", {"uri": uri})
        for uri in (5, None, "", "file:///etc/passwd", "memory://nothing")
    ),
    _asked("subscribe to nothing", "resources/subscribe", {}),
    *(
        _asked(f"prompt {json.dumps(name)[:12]}", "prompts/get", {"name": name})
        for name in (5, None, [], "", "nothing", "\x00")
    ),
    _asked("a prompt with a list", "prompts/get", {"name": "load_memory", "arguments": []}),
    _asked("a prompt with a number", "prompts/get", {"name": "load_memory", "arguments": {"thread_id": 5}}),
    _asked(
        "a prompt with what it does not take", "prompts/get", {"name": "load_memory", "arguments": {"nothing": "x"}}
    ),
    *(
        _asked(
            f"complete {json.dumps(ref)[:40]}",
            "completion/complete",
            {"ref": ref, "argument": {"name": "x", "value": "y"}},
        )
        for ref in (
            5,
            None,
            {},
            [],
            {"type": "ref/nothing"},
            {"type": "ref/prompt"},
            {"type": "ref/prompt", "name": "nothing"},
            {"type": "ref/resource", "uri": "x"},
        )
    ),
    _asked(
        "complete without an argument", "completion/complete", {"ref": {"type": "ref/prompt", "name": "load_memory"}}
    ),
    _asked(
        "complete a list", "completion/complete", {"ref": {"type": "ref/prompt", "name": "load_memory"}, "argument": []}
    ),
    *(
        _asked(f"{method} from {json.dumps(cursor)[:9]}", method, {"cursor": cursor})
        for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
        for cursor in (5, [], {})
    ),
    _asked("resources from nowhere", "resources/list", {"cursor": "nothing"}),
    _asked("a level of nobody", "logging/setLevel", {"level": "loud"}),
    _asked("listening to a number", "subscriptions/listen", {"notifications": 5}),
    _asked(
        "listening to a file",
        "subscriptions/listen",
        {"notifications": {"resourceSubscriptions": ["file:///etc/passwd"]}},
    ),
)


def _of_the_wrong_type() -> tuple[Bad, ...]:
    """For every tool two calls: each argument as something that no argument is, and as a list of it."""
    found = []
    for declaration in DECLARATIONS:
        tool = declaration.tool
        for odd in ({"odd": [None]}, [{"odd": 1}]):
            arguments = dict.fromkeys(tool.parameters.get("properties", {}), odd) or {"odd": odd}
            found.append(_call(f"{tool.name} with {json.dumps(odd)}", tool.name, arguments))
    return tuple(found)


REQUESTS: tuple[Bad, ...] = (
    *(*_NO_JSON, *_NO_MESSAGE, *_IDS, *_TEXT, *_NUMBERS_AND_DEPTH, *_LARGE, *_NOBODY_ASKED, *_OPENING, *_TOOLS),
    *(*_of_the_wrong_type(), *_REST),
)
# One that only names a thread oddly is read: nobody wrote to that yet.
BAD_URIS: tuple[Bad, ...] = tuple(
    _asked(f"uri {number}", "resources/read", {"uri": uri}, "result or error" if parse(uri) else "error")
    for number, uri in enumerate(URIS)
)
