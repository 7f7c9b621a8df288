"""A server that speaks OpenAI's HTTP interface, so that what calls it is exercised down to the socket.

It answers as it is told: in order what ``faults`` holds, then properly. Requests are kept. Paths are in ``_ANSWERS``.
"""

import base64
import contextlib
import hashlib
import json
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

    def __init__(self, status: int, message: str = "as told") -> None:
        super().__init__(message)
        self.status = status


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
    faults: deque[int | Callable[[Json], Any]] = field(default_factory=deque)
    requests: list[Json] = field(default_factory=list)
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

    def answer(self, path: str, request: Json) -> Any:
        """What a request is answered with. Raises Refused."""
        self.requests.append(request)
        fault = self.faults.popleft() if self.faults else None
        if isinstance(fault, int):
            raise Refused(fault)
        if path not in _ANSWERS:
            raise Refused(404, f"no {path} here")
        answer = _ANSWERS[path](self, request)
        return fault(answer) if fault is not None else answer


_ANSWERS: dict[str, Callable[[FakeOpenAI, Json], Json]] = {"/v1/embeddings": FakeOpenAI.embeddings}


@contextlib.contextmanager
def fake_openai(**options: Any) -> Iterator[FakeOpenAI]:
    """A server of its own on a free port, gone afterwards."""
    fake = FakeOpenAI(**options)

    class Handling(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, answer = 200, fake.answer(self.path, request)
            except Refused as refused:
                status, answer = refused.status, {"error": {"message": str(refused), "type": "told", "code": None}}
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            with contextlib.suppress(ConnectionError):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

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
