import json
from typing import Any

import pytest
from growth import grows_in_step
from hypothesis import given
from hypothesis import strategies as st
from mcp.types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter

from layerlore.server.process.json_rpc import (
    MAX_DEPTH,
    MAX_INTEGER_DIGITS,
    decode,
    encode,
    read_outline,
    refuse_too_long,
)
from layerlore.server.process.lines import EDGE_BYTES, LineSplitter, TooLong

REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def refusal(line: bytes) -> tuple[int, Any]:
    """The code and the id that a line is refused with."""
    answer = decode(line)
    assert isinstance(answer, bytes), f"accepted as {answer!r}"
    assert answer.endswith(b"}\n")
    message = json.loads(answer)
    assert message["jsonrpc"] == "2.0"
    return message["error"]["code"], message["id"]


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b"hello", -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"pi', -32700, 1),
        (b'{"jsonrpc":"2.0","id":12', -32700, None),  # 12, or the beginning of 123
        (b'{"jsonrpc":"2.0","id":"ab', -32700, None),
        (b'{"jsonrpc":"2.0","id":"a\\"', -32700, None),
        (b'{"params":{"id":5},"method":"x"', -32700, None),  # that id is not the request's
        (b'{"params":{"id":5,"a":[{"id":6}]},"id":"q","x":\xff', -32700, "q"),
        (b"[]", -32600, None),
        (b"[" + REQUEST + b"]", -32600, None),
        (b"5", -32600, None),
        (b"null", -32600, None),
        (b'"id"', -32600, None),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","\\u0069d":[],"method":"ping"}', -32600, None),
        (b'{"id":3,"method":"ping"}', -32600, 3),
        (b'{"jsonrpc":"1.0","id":3,"method":"ping"}', -32600, 3),
        (b'{"jsonrpc":"2.0","id":"x","method":"ping","params":[]}', -32600, "x"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\\ud800"}}', -32700, 1),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"9" * 5000 + b"}}", -32700, 1),
        (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}', -32700, None),
        (b'{"jsonrpc":"2.0","method":"x","params":' + b"[" * 100_000 + b"]" * 100_000 + b',"id":4}', -32700, 4),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xff"}}', -32700, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","\xff":2}', -32700, 1),
        (b"\xff\xfe{\x00}\x00", -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":5}', -32600, 2),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}', -32700, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[-Infinity]}}', -32700, 1),
    ],
)
def test_a_line_that_is_no_message_is_refused_with_the_id_that_it_carries(
    line: bytes, code: int, request_id: Any
) -> None:
    assert refusal(line) == (code, request_id)


def test_what_only_speaks_of_infinity_is_a_message() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"NaN","Infinity":"-Infinity"}}'
    assert isinstance(decode(line), JSONRPCRequest)


def test_a_limit_of_the_parser_is_told_in_words_and_what_is_at_it_passes() -> None:
    def asking(value: bytes) -> bytes:
        return b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + value + b"}}"

    levels = MAX_DEPTH - 2  # the message and its params are two
    assert isinstance(decode(asking(b"[" * levels + b"]" * levels)), JSONRPCRequest)
    assert isinstance(decode(asking(b"9" * MAX_INTEGER_DIGITS)), JSONRPCRequest)
    for value, told in (
        (b"[" * (levels + 1) + b"]" * (levels + 1), f"Parse error. Nested more than {MAX_DEPTH} levels deep"),
        (b"9" * (MAX_INTEGER_DIGITS + 1), f"Parse error. An integer of more than {MAX_INTEGER_DIGITS} digits"),
    ):
        answer = decode(asking(value))
        assert isinstance(answer, bytes)
        assert json.loads(answer)["error"]["message"] == told


def test_a_broken_response_is_refused_without_its_id_which_is_one_of_ours() -> None:
    assert refusal(b'{"jsonrpc":"2.0","id":1,"result":5}') == (-32600, None)
    assert refusal(b'{"jsonrpc":"2.0","id":1,"error":"no"}') == (-32600, None)


def test_a_byte_order_mark_before_a_message_is_ignored() -> None:
    assert decode(b"\xef\xbb\xbf" + REQUEST) == JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")


def test_a_notification_may_speak_of_ids() -> None:
    line = b'{"jsonrpc":"2.0","method":"notifications/x","params":{"id":5,"text":"\\"id\\":7"}}'
    assert isinstance(decode(line), JSONRPCNotification)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.just("id"), inner, max_size=3),
    max_leaves=10,
)
ids = st.integers(-(10**18), 10**18) | st.text(max_size=50)
requests = st.builds(
    lambda request_id, method, params: JSONRPCRequest(jsonrpc="2.0", id=request_id, method=method, params=params),
    ids,
    st.text(max_size=20),
    st.dictionaries(st.text(max_size=5) | st.just("id"), json_values, max_size=3),
)


@given(requests)
def test_a_message_that_is_encoded_decodes_to_itself(request: JSONRPCRequest) -> None:
    line = encode(request)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line[:-1]) == request


@given(requests, st.booleans(), st.booleans())
def test_the_outline_finds_the_id_wherever_it_stands(request: JSONRPCRequest, last: bool, ascii_only: bool) -> None:
    members = {"jsonrpc": "2.0", "method": request.method, "params": request.params}
    whole = {**members, "id": request.id} if last else {"id": request.id, **members}
    found = read_outline(json.dumps(whole, ensure_ascii=ascii_only).encode())
    assert found.id == request.id
    assert found.names == {"jsonrpc", "method", "params", "id"}


@given(requests, st.data())
def test_a_message_cut_anywhere_is_refused_with_its_id_or_none(request: JSONRPCRequest, data: st.DataObject) -> None:
    line = encode(request)[:-1]
    cut = line[: data.draw(st.integers(1, len(line) - 1))]
    assert refusal(cut) in {(-32700, request.id), (-32700, None)}


@given(st.binary(max_size=200) | st.text('{}[]:,"\\id01 ', max_size=60).map(str.encode))
def test_any_bytes_are_a_message_or_get_an_answer(line: bytes) -> None:
    answer = decode(line)
    if isinstance(answer, bytes):
        assert json.loads(answer)["error"]["code"] in {-32700, -32600}
    else:
        assert answer == jsonrpc_message_adapter.validate_json(line.removeprefix(b"\xef\xbb\xbf"))


@pytest.mark.parametrize(
    "unit", [b"[", b'"', b'\\"', b'{"id":', b'"id":1,', b",", b" ", b"9", b'"\\', b"{}", b'{"a":"\\"']
)
def test_the_refusal_of_anything_grows_in_step_with_its_length(unit: bytes) -> None:
    def refuse(length: int) -> None:
        refusal(b'{"jsonrpc":"2.0","x":' + unit * (length // len(unit)))
        edge = min(length, EDGE_BYTES)
        refuse_too_long(TooLong(b"{" + (unit * edge)[:edge], (unit * edge)[-edge:]), 1)

    assert grows_in_step(refuse, 1024 * 1024)


@given(st.lists(st.binary(max_size=30), max_size=8), st.lists(st.integers(0, 200), max_size=10), st.booleans())
def test_lines_are_the_same_however_the_bytes_arrive(parts: list[bytes], cuts: list[int], newline: bool) -> None:
    stream = b"\n".join(parts) + (b"\n" if newline else b"")
    splitter = LineSplitter(limit=20)
    lines = []
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), None], strict=True):
        lines += splitter.feed(stream[begin:end])
    lines += splitter.flush()
    expected = [TooLong(line, line) if len(line) > 20 else line for line in stream.split(b"\n")]
    # A head is cut when the limit is passed, which depends on the chunks.
    assert [getattr(line, "tail", line) for line in lines] == [
        getattr(line, "tail", line) for line in expected if isinstance(line, TooLong) or line.strip()
    ]


def test_a_line_at_the_limit_passes_and_one_byte_more_does_not() -> None:
    splitter = LineSplitter(limit=len(REQUEST))
    assert splitter.feed(REQUEST + b"\n" + REQUEST + b" \n" + REQUEST + b"\n") == [
        REQUEST,
        TooLong(REQUEST + b" ", REQUEST + b" "),
        REQUEST,
    ]


def test_of_a_line_above_the_limit_only_the_edges_are_kept() -> None:
    splitter = LineSplitter(limit=100_000)
    for _ in range(1000):
        assert splitter.feed(b"x" * 10_000) == []
    [line] = splitter.feed(b"end\n")
    assert isinstance(line, TooLong)
    assert (len(line.head), len(line.tail), line.tail[-3:]) == (EDGE_BYTES, EDGE_BYTES, b"end")


@pytest.mark.parametrize(
    ("begin", "end", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":5,"method":"x","params":{"a":"', b'"}}', 5),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":5,"method":"x","params":{"a":"', b'"}}', 5),
        (b'{"method":"x","params":{"a":"', b'"},"jsonrpc":"2.0","id":"five"}', "five"),
        (b'{"params":{"a":"', b'"}, "id" : 5 , "jsonrpc" : "2.0", "method":"x" } \r', 5),
        (b'{"params":{"a":"', b'"},"id":{}}', None),
        (b'{"params":{"a":"', b'\\",\\"id\\":7}"}}', None),
        (b'{"method":"x","params":{"a":"', b'","id":7}}', None),
        (b'{"jsonrpc":"2.0","id":5,"result":{"a":"', b'"}}', None),
        (b'{"result":{"a":"', b'"},"jsonrpc":"2.0","id":5}', None),
        (b"[" + REQUEST + b',{"a":"', b'"}]', None),
    ],
)
def test_a_line_above_the_limit_is_refused_with_an_id_at_either_end(begin: bytes, end: bytes, request_id: Any) -> None:
    [line] = LineSplitter(limit=50_000).feed(begin + b"x" * 60_000 + end + b"\n")
    assert isinstance(line, TooLong)
    answer = json.loads(refuse_too_long(line, 50_000))
    assert (answer["id"], answer["error"]["code"]) == (request_id, -32600)
    assert "50000 bytes" in answer["error"]["message"]


def test_a_result_that_json_cannot_hold_becomes_an_error() -> None:
    answer = json.loads(encode(JSONRPCResponse(jsonrpc="2.0", id=4, result={"text": "\ud800"})))
    assert (answer["id"], answer["error"]["code"]) == (4, -32603)


def test_a_notification_that_json_cannot_hold_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        encode(JSONRPCNotification(jsonrpc="2.0", method="x", params={"text": "\ud800"}))
