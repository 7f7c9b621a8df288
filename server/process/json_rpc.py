"""JSON-RPC messages as lines of bytes, and an answer to every line that is not a message.

The SDK drops a line that it cannot parse, and its sender waits for ever. Here such a line is answered with a JSON-RPC
error that holds the request's id if it can be found. Other decisions:

- A byte order mark before a message is ignored, as RFC 8259 section 8.1 permits: some hosts write one when they start.
- A batch is refused; the protocol has no batches since its revision 2025-06-18.
- `NaN` and `Infinity`, which the SDK's parser accepts, are refused: JSON has neither.
- An `id` that is neither a string nor an integer is refused. The SDK would treat such a request as a notification.

The body of a POST follows the same rules (`server/http/request_guards.py`).
"""

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mcp.types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json

from layerlore.server.process.lines import TooLong

MAX_DEPTH = 201
"""The deepest nesting of lists and objects, the message itself included: the parser's limit."""

MAX_INTEGER_DIGITS = 4300
"""The longest integer that the parser reads."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NO_NUMBERS = (b"NaN", b"Infinity")
# The parser's messages about its limits, and what they mean for the sender.
_LIMITS = {
    "recursion limit exceeded": f"Nested more than {MAX_DEPTH} levels deep",
    "number out of range": f"An integer of more than {MAX_INTEGER_DIGITS} digits",
}
_MAX_TOKENS = 300_000
_MAX_ID_DIGITS = 40
_MAX_ID_BYTES = 1024
_MAX_NAME_BYTES = 64

# A string (whole or cut off), a structural character, or any other run. Possessive: linear on every input.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[{}\[\],:]|[^\s"{}\[\],:]++', re.DOTALL)
_INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]*)")
# The id of a request whose params come first, as some clients write it. Within a string its quotes would be escaped.
_ID_AT_THE_END = re.compile(
    rb',\s*+"id"\s*+:\s*+("(?:[^"\\]++|\\.)*+"|-?[0-9]++)\s*+'
    rb'(?:,\s*+"(?:jsonrpc|method)"\s*+:\s*+"[^"\\]*+"\s*+)*+\}\s*+\Z',
    re.DOTALL,
)


def put_handshake_first(lines: Sequence[bytes | TooLong]) -> Sequence[bytes | TooLong]:
    """The lines that open a connection, with ``initialize`` moved before the ``server/discover`` that it follows.

    A client that sends both asks for the newer protocol, waits a moment, perhaps less than a start takes, and then speaks
    the older one. The SDK keeps a connection at the protocol of its first request. Other lines stay as they are.
    """
    # Only when both have arrived together; otherwise the first is answered on its own.
    if len(lines) < 2 or not (_asks(lines[0], b"server/discover") and _asks(lines[1], b"initialize")):
        return lines
    question, handshake, *rest = lines
    return [handshake, question, *rest]


def _asks(line: bytes | TooLong, method: bytes) -> bool:
    """Whether a line is a request for the method."""
    if isinstance(line, TooLong) or method not in line:
        return False
    message = decode(line)
    return isinstance(message, JSONRPCRequest) and message.method == method.decode()


@dataclass(frozen=True, slots=True)
class Outline:
    """The top level of a JSON object, also if the rest is malformed."""

    names: frozenset[str]
    id: int | str | None

    @property
    def is_response(self) -> bool:
        """Whether it is an answer from the peer. Its id is one of ours, so that an error must not repeat it."""
        return "method" not in self.names and not self.names.isdisjoint(("result", "error"))


def decode(line: bytes) -> JSONRPCMessage | bytes:
    """The message in `line`; if none exists, the line to send back: a JSON-RPC error and a newline."""
    line = strip_mark(line)
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        # The text may contain the words inside a string, so a second parser decides.
        if any(name in line for name in _NO_NUMBERS):
            from_json(line, allow_inf_nan=False)
    except ValidationError as error:
        reason = error.errors(include_url=False, include_context=False, include_input=False)[0]
        if reason["type"] == "json_invalid":
            return _refusal(read_outline(line), PARSE_ERROR, _parse_error(reason["msg"]))
        text = "Invalid request. Expected a JSON-RPC 2.0 request, notification or response"
        if line.lstrip().startswith(b"["):
            text = "Invalid request. Batches are not supported; send each message by itself"
        return _refusal(read_outline(line), INVALID_REQUEST, text)
    except ValueError as error:
        return _refusal(read_outline(line), PARSE_ERROR, _parse_error(str(error)))
    # A backslash may hide the name of the id in an escape, so the outline is read then, too.
    if (
        isinstance(message, JSONRPCNotification)
        and (b'"id"' in line or b"\\" in line)
        and "id" in read_outline(line).names
    ):
        return _refusal(None, INVALID_REQUEST, "Invalid request. The id must be a string or an integer")
    return message


def strip_mark(text: bytes) -> bytes:
    """Remove a byte order mark at the beginning."""
    return text.removeprefix(_BYTE_ORDER_MARK)


def refuse_too_long(line: TooLong, limit: int) -> bytes:
    """The answer to a line above `limit`: a JSON-RPC error and a newline."""
    found = read_outline(strip_mark(line.head))
    # Some clients write the id last, and only the two ends of a long line stay in memory.
    if "id" not in found.names and (match := _ID_AT_THE_END.search(line.tail)):
        found = Outline(found.names, _as_id(match[1]))
    return _refusal(found, INVALID_REQUEST, f"Invalid request. The message is longer than the limit of {limit} bytes")


def encode(message: JSONRPCMessage) -> bytes:
    """Write `message` as one line. A result that JSON cannot hold becomes an error with the same id.

    Raises:
        ValueError: the message is not a response and JSON cannot hold it.
    """
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except PydanticSerializationError:  # a lone surrogate, for example
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            raise
        return error_line(message.id, INTERNAL_ERROR, "The result cannot be written as JSON")


def error_line(request_id: int | str | None, code: int, text: str) -> bytes:
    """A JSON-RPC error as one line."""
    error = JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=text))
    return error.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


def read_outline(text: bytes) -> Outline:
    """Read the top level of an object that may be broken or cut anywhere, in linear time and without recursion.

    It gives up after 300,000 tokens (0.1 s, at worst 0.4). If a name occurs twice, the last one counts, as in the parser.
    """
    names: set[str] = set()
    request_id: int | str | None = None
    depth, key, value_is_next = 0, b"", False
    for match in itertools.islice(_TOKEN.finditer(text), _MAX_TOKENS):
        token = match[0]
        if value_is_next:
            value_is_next = False
            # A long name cannot be one of those that matter.
            name = (_as_text(key) or "") if len(key) <= _MAX_NAME_BYTES else ""
            key = b""
            names.add(name)
            if name == "id":
                # A scalar at the very end of the text may have been cut off.
                whole = token[:1] == b'"' or match.end() < len(text)
                request_id = _as_id(token) if whole else None
        elif depth == 1 and token[:1] == b'"':
            key = token
        elif depth == 1 and token == b":" and key:
            value_is_next = True
        if depth == 0 and token != b"{":
            break
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                break
    return Outline(frozenset(names), request_id)


def _refusal(found: Outline | None, code: int, text: str) -> bytes:
    return error_line(None if found is None or found.is_response else found.id, code, text)


def _parse_error(reason: str) -> str:
    limit = next((meaning for message, meaning in _LIMITS.items() if message in reason), None)
    return f"Parse error. {limit or reason}"


def _as_id(token: bytes) -> int | str | None:
    # Python refuses to convert very long integers, and takes long for those that it accepts.
    if _INTEGER.fullmatch(token) and len(token) <= _MAX_ID_DIGITS:
        return int(token)
    if len(token) <= _MAX_ID_BYTES:
        return _as_text(token)
    return None


def _as_text(token: bytes) -> str | None:
    """The string that `token` holds, if it is complete and valid Unicode."""
    try:
        text = json.loads(token.decode())
        text.encode()
    except (ValueError, AttributeError):
        return None
    return str(text)
