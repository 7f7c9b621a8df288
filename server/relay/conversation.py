"""The thin client's record of the conversation between its host and the server. With it another server can continue.

A line to the server is framed: its number, a space, the line. The number becomes the idempotency key of a call, so the
server executes a call once even if the client sends it again after a crash.
"""

import json
import os
import re
from collections.abc import Iterator

from layerlore.server.process.lines import TooLong
from layerlore.server.process.version import VERSION
from layerlore.server.relay.channels import SharedChannel, framed_line, reach
from layerlore.server.relay.kept_answers import (
    ANY_CLIENT,
    CAPABILITIES_META,
    CLIENT_META,
    METHODS,
    PAGES,
    PROTOCOL_META,
    KeptAnswers,
)
from layerlore.server.relay.launch import Launch

JsonObject = dict[str, object]
"""A JSON-RPC message, or a part of one."""

REPLAYED = "layerlore/replayed-"
"""The prefix of the ids of the thin client's own requests. The host does not get their answers."""
_LISTS = {"tools/list": "tools", "prompts/list": "prompts"}
LISTEN = "subscriptions/listen"
MOST_DEATHS = 5
"""When this many servers in a row have ended while they served a request, the client gives the request up."""
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_INTERNAL_ERROR = -32603
# The client needs the parameters of these requests again.
_REMEMBERED = (*METHODS, "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
_ACKNOWLEDGED = b'"notifications/subscriptions/acknowledged"'
_SURROGATE = re.compile("[\ud800-\udfff]")
# The beginning of an answer of the server: its id, and whether it is a result or an error.
_ANSWER = re.compile(rb'\{"jsonrpc":"2\.0","id":("(?:[^"\\]|\\.)*"|-?\d+),"(result|error)":')


class _Open:
    """A request that the server has not answered. ``given``: the host already has a stored answer."""

    __slots__ = ("acknowledged", "deaths", "framed", "given", "message", "method")

    def __init__(self, framed: bytes, method: str, message: JsonObject, *, given: bool) -> None:
        self.framed = framed
        self.method = method
        self.message = message if method in _REMEMBERED else {}
        self.given = given
        self.acknowledged = False
        self.deaths = 0


class Conversation:
    """One host's conversation. It is not thread-safe."""

    answered = 0
    """The number of answered requests, without those that stored answers can answer."""

    def __init__(self, kept: KeptAnswers) -> None:
        self._kept = kept
        self._number = 0
        self._open: dict[int | str, _Open] = {}
        self._held: list[bytes] = []
        self._handshake: JsonObject | None = None
        self._initialized = b""
        self._subscribed: dict[str, JsonObject] = {}
        self._level: JsonObject | None = None
        self._replayed: dict[str, str] = {}

    @property
    def waits(self) -> bool:
        """Whether the host waits for answers or news from the server."""
        return bool(self._open or self._subscribed)

    @property
    def owes(self) -> bool:
        """Whether the server still owes answers. A listen stream gets none, and a stored answer has served already."""
        return any(not each.given and each.method != LISTEN for each in self._open.values())

    def take(self, line: bytes | TooLong, *, connected: bool, served: bool) -> tuple[bytes, bytes]:
        """Take a line of the host. Returns it framed, and a stored answer to give at once, or b"".

        Without a ``connected`` server the next replay includes the line. Stored answers serve only until a server has
        greeted (``served``).
        """
        self._number += 1
        framed = framed_line(self._number, line)
        if isinstance(line, bytes):
            message = _parse(line)
        else:
            message = {}
        method, request = message.get("method"), message.get("id")
        # A line without an id, or with one that cannot be answered, is only passed on.
        if not isinstance(method, str) or not isinstance(request, int | str) or _is_refused(request):
            noted = isinstance(method, str) and "id" not in message and self._note(method, message, framed)
            if not (connected or noted):
                self._held.append(framed)
            return framed, b""
        # Once a server answers, its own answer is the newest.
        if served or method not in METHODS:
            found = None
        else:
            found = self._kept.find(method, message.get("params"))
        # The host gets the stored answer now; the request still goes out, to learn whether it has changed.
        self._open[request] = _Open(framed, method, message, given=found is not None)
        if found is None:
            return framed, b""
        return framed, b'{"jsonrpc":"2.0","id":%s,"result":%s}\n' % (json.dumps(request).encode(), found.encode())

    def hear(self, line: bytes) -> bytes:
        """Take a line of the server, with its newline. Returns what the host gets: the line, something else, or b""."""
        answer = _ANSWER.match(line)
        if answer is None:
            if _ACKNOWLEDGED in line:
                return self._acknowledge(line)
            return line
        request_id = json.loads(answer[1])
        if isinstance(request_id, str) and request_id.startswith(REPLAYED):
            # The resource of a replayed subscription may have changed while no server was there.
            uri = self._replayed.pop(request_id, "")
            if uri and answer[2] == b"result":
                return _notification("resources/updated", {"uri": uri})
            return b""
        found = self._open.pop(request_id, None)
        if found is None:
            return line
        # The host has a result already, and a second answer with its id would confuse it.
        if answer[2] == b"error":
            if found.given:
                return b""
            return line
        self._remember(found.method, found.message)
        if found.method not in METHODS:
            self.answered += 1
            return line
        # The rest of the line is the result and the closing brace of the answer.
        result = line[answer.end() :].rstrip()[:-1].decode("utf-8", "replace")
        changed = self._kept.keep(found.method, found.message.get("params"), result)
        if not found.given:
            return line
        # The host has a stored list that is out of date now, so it must ask again.
        if changed and found.method in _LISTS:
            return _notification(f"{_LISTS[found.method]}/list_changed", {})
        return b""

    def lose(self) -> list[bytes]:
        """Note that a server has ended. Gives up the requests that MOST_DEATHS servers in a row have not answered, and
        returns an error for each."""
        answers = []
        for request, each in list(self._open.items()):
            # A listen stream has no answer, so it says nothing about a server's health.
            if each.given or each.method == LISTEN:
                continue
            each.deaths += 1
            if each.deaths >= MOST_DEATHS:
                del self._open[request]
                answers.append(_given_up(request))
        return answers

    def replay(self) -> list[bytes]:
        """The lines that bring a new server into the state of the last one, then the unanswered requests."""
        lines = []
        self._replayed.clear()
        if self._handshake is not None:
            lines.append(self._again(self._handshake, "initialize"))
            if self._initialized:
                lines.append(self._initialized)
        if self._level is not None:
            lines.append(self._again(self._level, "level"))
        for number, (uri, message) in enumerate(self._subscribed.items()):
            name = f"subscribe-{number}"
            lines.append(self._again(message, name))
            self._replayed[REPLAYED + name] = uri
        # The first line decides the protocol era of a connection. A host that sends both eras goes on with the handshake.
        for each in sorted(self._open.values(), key=lambda each: each.method != "initialize"):
            lines.append(each.framed)
            if each.method == "initialize" and self._initialized:
                lines.append(self._initialized)
        lines += self._held
        self._held.clear()
        return lines

    def _again(self, message: JsonObject, name: str) -> bytes:
        # A replayed request is not a call, so its number 0 makes no idempotency key.
        return b"0 %s\n" % json.dumps({**message, "id": REPLAYED + name}).encode()

    def _note(self, method: str, message: JsonObject, framed: bytes) -> bool:
        """Note a notification of the host. Returns whether replays include its effect."""
        if method == "notifications/initialized":
            self._initialized = framed
            return True
        if method != "notifications/cancelled":
            return False
        cancelled = _params_of(message).get("requestId")
        if isinstance(cancelled, int | str):
            # A cancelled request must not be sent to the next server.
            self._open.pop(cancelled, None)
        return True

    def _remember(self, method: str, message: JsonObject) -> None:
        """Remember the effects of a finished request, which a new server must learn."""
        uri = str(_params_of(message).get("uri"))
        if method == "initialize":
            self._handshake = message
        elif method == "logging/setLevel":
            self._level = message
        elif method == "resources/subscribe":
            self._subscribed[uri] = message
        elif method == "resources/unsubscribe":
            self._subscribed.pop(uri, None)

    def _acknowledge(self, line: bytes) -> bytes:
        """Take the server's confirmation that the host listens. The host gets it once; after a replay it gets news of all
        resources that may have changed meanwhile."""
        params = _params_of(_parse(line))
        meta, heard = params.get("_meta"), params.get("notifications")
        if isinstance(meta, dict):
            request_id = meta.get(_SUBSCRIPTION)
        else:
            request_id = None
        if isinstance(request_id, int | str):
            found = self._open.get(request_id)
        else:
            found = None
        if found is None:
            return line
        # The first confirmation is for the host; later ones come from replays.
        known, found.acknowledged = found.acknowledged, True
        if known and isinstance(heard, dict):
            return _missed(heard, {"_meta": {_SUBSCRIPTION: request_id}})
        return line


def _is_refused(request_id: int | str) -> bool:
    """Whether the server refuses a request with this id, in an answer that cannot name it."""
    if isinstance(request_id, str):
        return bool(_SURROGATE.search(request_id))
    return isinstance(request_id, bool)


def _params_of(message: JsonObject) -> JsonObject:
    params = message.get("params")
    if isinstance(params, dict):
        return params
    return {}


def _parse(line: bytes) -> JsonObject:
    """The message in a line; {} for an invalid line, which the server answers with an error."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if isinstance(found, dict):
        return found
    return {}


def _missed(heard: JsonObject, of: JsonObject) -> bytes:
    """All the news about resources that a stream listens for."""
    lines = []
    uris = heard.get("resourceSubscriptions")
    if isinstance(uris, list):
        lines += [_notification("resources/updated", {"uri": uri, **of}) for uri in uris]
    if heard.get("resourcesListChanged"):
        lines.append(_notification("resources/list_changed", of))
    return b"".join(lines)


def _given_up(request_id: int | str) -> bytes:
    text = (
        f"The memory server ended {MOST_DEATHS} times while it worked on this request, which is not sent again. Whether "
        "it was carried out is not known; the server's log may say why it ended"
    )
    error = {"jsonrpc": "2.0", "id": request_id, "error": {"code": _INTERNAL_ERROR, "message": text}}
    return json.dumps(error).encode() + b"\n"


def _notification(name: str, params: JsonObject) -> bytes:
    message = {"jsonrpc": "2.0", "method": f"notifications/{name}", **({"params": params} if params else {})}
    return json.dumps(message).encode() + b"\n"


HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions of the protocol that begin with ``initialize``."""
PER_REQUEST = ("2026-07-28",)
"""Versions that each request names, without a handshake."""
_SECONDS = 20.0
_MOST_TRIES = 2


class NotServed(OSError):
    """The server does not serve. The text says why."""


def store_first_answers(launch: Launch) -> None:
    """Store the shared server's answers to the first requests of any client. Starts the server if none runs. Raises
    OSError, ValueError."""
    for pages in (False, True):
        capabilities: dict[str, object] = {"extensions": {PAGES: {}}} if pages else {}
        for version in HANDSHAKES:
            _ask(launch, list(_with_handshake(version, capabilities)))
        for version in PER_REQUEST:
            _ask(launch, list(_without_handshake(version, capabilities)))


def _with_handshake(version: str, capabilities: object) -> Iterator[dict[str, object]]:
    client = {"name": ANY_CLIENT, "version": VERSION}
    yield _request(1, "initialize", {"protocolVersion": version, "capabilities": capabilities, "clientInfo": client})
    yield {"jsonrpc": "2.0", "method": "notifications/initialized"}
    yield _request(2, "tools/list", {})
    yield _request(3, "prompts/list", {})


def _without_handshake(version: str, capabilities: object) -> Iterator[dict[str, object]]:
    client = {"name": ANY_CLIENT, "version": VERSION}
    meta = {PROTOCOL_META: version, CLIENT_META: client, CAPABILITIES_META: capabilities}
    for number, method in enumerate(("server/discover", "tools/list", "prompts/list"), 1):
        yield _request(number, method, {"_meta": meta})


def _request(number: int, method: str, params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def _ask(launch: Launch, messages: list[dict[str, object]]) -> None:
    for _ in range(_MOST_TRIES):
        conversation = Conversation(KeptAnswers(launch, cold=True))
        connection, key = reach(launch)
        connection.settimeout(_SECONDS)
        channel = SharedChannel(connection, key, launch, os.urandom(6).hex())
        try:
            channel.open()
            for message in messages:
                framed, _ = conversation.take(json.dumps(message).encode(), connected=True, served=True)
                channel.send(framed)
            _listen(channel, conversation)
        finally:
            channel.close()
        # A server that was just leaving does not answer, so the client asks the next one.
        if not conversation.owes:
            return
    raise NotServed(f"the server does not answer; {launch.base}.log may say why")


def _listen(channel: SharedChannel, conversation: Conversation) -> None:
    greeted = False
    while conversation.owes and (lines := channel.receive()) is not None:
        for line in lines:
            if greeted:
                conversation.hear(line)
                continue
            greeting = json.loads(line)
            # Wrong settings stay wrong for the next server, too.
            if isinstance(greeting, dict) and "error" in greeting:
                raise NotServed(str(greeting["error"]))
            greeted = True
