"""A server that speaks OpenAI's HTTP interface, so that what calls it is exercised down to the socket.

It answers as it is told: in order what ``faults`` holds (``chat_faults`` for chats, and then what ``fault_of`` says of
the request), then properly, a chat with what ``replies`` holds, then with ``reply``. Requests are kept. Paths are in ``_ANSWERS``, twenty ways to misbehave in
``misbehaviours``.
"""

import base64
import contextlib
import hashlib
import json
import re
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


class Refused(Exception):
    """Answered with this status and OpenAI's form of an error."""

    def __init__(self, status: int, message: str = "as told", headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


class Hangup(Exception):
    """The connection is closed without an answer."""


@dataclass
class Drip:
    """A body that comes a byte at a time and has no end while the server runs."""


@dataclass
class Asks:
    """A chat's answer that asks for tools: each a name and its arguments, with what it says before."""

    calls: list[tuple[str, Json]]
    text: str = ""


@dataclass
class Halts:
    """A streamed answer that comes to no end while the server runs."""

    text: str


Reply = str | Json | Asks | Halts | Callable[[Json], Any]
"""What a chat says: a text, an object as JSON, calls of tools, or a function of the request that gives any of them."""
Fault = int | Callable[[Json], Any]


def hashed_vector(text: str, dimension: int) -> list[float]:
    """The same text, the same numbers."""
    digest = hashlib.shake_256(text.encode()).digest(dimension)
    return [byte / 127.5 - 1 for byte in digest]


@dataclass
class FakeOpenAI:
    """``faults``: each is a status, or a function that changes the answer (or raises Refused, or waits)."""

    dimension: int = 8
    most_inputs: int = 2048
    refused_words: tuple[str, ...] = ()
    faults: deque[Fault] = field(default_factory=deque)
    chat_faults: deque[Fault] = field(default_factory=deque)
    fault_of: Callable[[Json], Fault | None] | None = None
    replies: deque[Reply] = field(default_factory=deque)
    reply: Reply = "{}"
    requests: list[Json] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    url: str = ""
    # Set when the server is closed: what waits, waits for this.
    closing: threading.Event = field(default_factory=threading.Event)

    def hang(self, answer: Json) -> Json:
        """A fault: no answer until the server is closed."""
        self.closing.wait(60)
        return answer

    def embeddings(self, request: Json) -> Json:
        texts = request["input"]
        texts = [texts] if isinstance(texts, str) else texts
        if len(texts) > self.most_inputs:
            raise Refused(400, f"at most {self.most_inputs} inputs")
        if any(not text or any(word in text for word in self.refused_words) for text in texts):
            raise Refused(400, "an input is not acceptable")
        dimension = request.get("dimensions", self.dimension)
        vectors: list[Any] = [hashed_vector(text, dimension) for text in texts]
        if request.get("encoding_format") == "base64":
            vectors = [base64.b64encode(struct.pack(f"<{dimension}f", *vector)).decode() for vector in vectors]
        return {
            "object": "list",
            "model": request["model"],
            "data": [
                {"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)
            ],
            "usage": {"prompt_tokens": len(texts), "total_tokens": len(texts)},
        }

    def chat(self, request: Json) -> Json:
        said: Any = self.replies.popleft() if self.replies else self.reply
        if callable(said):
            said = said(request)
        text = (
            said
            if isinstance(said, str)
            else json.dumps(said, ensure_ascii=False)
            if isinstance(said, dict)
            else said.text
        )
        message: Json = {"role": "assistant", "content": text}
        if isinstance(said, Asks):
            message["tool_calls"] = [
                {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
                for place, (name, given) in enumerate(said.calls)
            ]
        finish = "stop" if not isinstance(said, Asks) else "tool_calls"
        sent = sum(len(str(message.get("content"))) for message in request["messages"])
        spent = {"prompt_tokens": sent // 4, "completion_tokens": len(text) // 4}
        return {
            "id": f"chat-{len(self.requests)}",
            "object": "chat.completion",
            "created": 1,
            "model": request["model"],
            "choices": [{"index": 0, "finish_reason": finish, "message": message}],
            "usage": {**spent, "total_tokens": sum(spent.values())},
            **({"halts": True} if isinstance(said, Halts) else {}),
        }

    def answer(self, path: str, request: Json) -> Any:
        """What a request is answered with. Raises Refused, Hangup."""
        self.requests.append(request)
        faults = self.chat_faults if path == CHAT and self.chat_faults else self.faults
        fault = faults.popleft() if faults else None
        if fault is None and path == CHAT and self.fault_of is not None:
            fault = self.fault_of(request)
        if isinstance(fault, int):
            raise Refused(fault)
        if path not in _ANSWERS:
            raise Refused(404, f"no {path} here")
        answer = _ANSWERS[path](self, request)
        return fault(answer) if fault is not None else answer


def streamed(answer: Json) -> list[bytes]:
    """The events of a chat that is streamed: its text and its calls in pieces, its usage, its end."""
    message = answer["choices"][0]["message"]
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in re.findall(r"\s*\S+", message["content"] or "")]
    for index, call in enumerate(message.get("tool_calls", ())):
        given = call["function"]["arguments"]
        deltas.append({"tool_calls": [{"index": index, **call, "function": {**call["function"], "arguments": ""}}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": each}}]} for each in (given[:5], given[5:])
        ]
    of_all = {name: answer[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    events = [{**of_all, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if not answer.get("halts"):
        finish = answer["choices"][0]["finish_reason"]
        events.append({**of_all, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        events.append({**of_all, "choices": [], "usage": answer["usage"]})
    return [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events] + [b"data: [DONE]\n\n"]


CHAT = "/v1/chat/completions"
_ANSWERS: dict[str, Callable[[FakeOpenAI, Json], Json]] = {
    "/v1/embeddings": FakeOpenAI.embeddings,
    CHAT: FakeOpenAI.chat,
}


def refusing(status: int, message: str = "as told", **headers: str) -> Fault:
    """A fault: this status, with these headers (``retry_after`` is Retry-After)."""

    def refuse(_: Json) -> Json:
        raise Refused(status, message, {name.replace("_", "-"): value for name, value in headers.items()})

    return refuse


def hang_up(_: Json) -> Json:
    """A fault: the connection is closed without an answer."""
    raise Hangup


def saying(text: Any, finish: str = "stop", **message: Any) -> Fault:
    """A fault of a chat: it says something else, or ends in another way."""

    def change(answer: Json) -> Json:
        choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
        return {**answer, "choices": [choice]}

    return change


def altered(change: Callable[[str], str], finish: str = "stop") -> Fault:
    """A fault of a chat: its text is changed."""
    return lambda answer: saying(change(answer["choices"][0]["message"]["content"]), finish)(answer)  # type: ignore[operator]


def misbehaviours(fake: FakeOpenAI) -> dict[str, Fault]:
    """What models and their servers do, by name."""
    return {
        "no answer": fake.hang,
        "an answer that never ends": lambda answer: Drip(),
        "closed without an answer": hang_up,
        "too many requests": refusing(429, retry_after="7"),
        "an error there": 500,
        "unavailable": 503,
        "a key that is refused": 401,
        "a model that is not there": 404,
        "a request that is refused": 400,
        "no JSON": lambda answer: b"<html>",
        "no choices": lambda answer: {**answer, "choices": []},
        "nothing said": saying(""),
        "null": saying(None),
        "a refusal": saying(None, refusal="I cannot help with that."),
        "a content filter": saying("", "content_filter"),
        "cut off": altered(lambda text: text[: len(text) // 2], "length"),
        "cut off in silence": altered(lambda text: text[: len(text) // 2]),
        "in a fence": altered(lambda text: f"```json\n{text}\n```"),
        "in prose": altered(lambda text: f"Sure! Here it is:\n\n{text}\n\nAnything else?"),
        "thoughts before it": altered(lambda text: f"<think>Perhaps {{}}?</think>{text}"),
        "without its last bracket": altered(lambda text: text[:-1]),
        "another shape": saying('{"something": "else"}'),
        "a list": altered(lambda text: f"[{text}]"),
        "prose alone": saying("I have nothing to add."),
        "too long": altered(lambda text: text + " " * 2_000_000),
        "too deep": saying('{"a":' * 5000 + "1" + "}" * 5000),
        "NaN": saying('{"entries": [NaN]}'),
        "half a character": saying('{"entries": ["\\ud83d"]}'),
        "nothing counted": lambda answer: {key: value for key, value in answer.items() if key != "usage"},
    }


@contextlib.contextmanager
def fake_openai(**options: Any) -> Iterator[FakeOpenAI]:
    """A server of its own on a free port, gone afterwards."""
    fake = FakeOpenAI(**options)

    class Handling(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers: dict[str, str] = {}
            fake.keys.append(self.headers.get("Authorization", "").removeprefix("Bearer "))
            try:
                status, answer = 200, fake.answer(self.path, request)
            except Hangup:
                self.close_connection = True
                return
            except Refused as refused:
                status, answer = refused.status, {"error": {"message": str(refused), "type": "told", "code": None}}
                headers = refused.headers
            if request.get("stream") and status == 200:
                self.stream(answer)
                return
            endless = isinstance(answer, Drip)
            body = b"" if endless else answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            with contextlib.suppress(ConnectionError):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(10**9 if endless else len(body)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
                while endless and not fake.closing.wait(0.02):
                    self.wfile.write(b" ")
                    self.wfile.flush()

        def stream(self, answer: Json) -> None:
            *events, done = streamed(answer)
            self.close_connection = True
            with contextlib.suppress(ConnectionError):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                for event in events:
                    self.wfile.write(event)
                    self.wfile.flush()
                if answer.get("halts"):
                    fake.closing.wait(60)
                self.wfile.write(done)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handling)
    server.daemon_threads = True
    fake.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        fake.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
