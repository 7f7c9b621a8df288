"""A server that speaks as each provider does: requests and answers in the shapes of their public references.

``WIRES`` has one entry for each model that ``auto`` can take, and for Ollama's two interfaces. A wire says where its
requests go, where their parts are, and how the provider answers, refuses a schema and asks to be left alone.
"""

import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]

SPENT = (120, 30)
"""Tokens in and out, of every answer."""


@dataclass(frozen=True)
class Said:
    """An answer with a status other than 200 has its body as it is."""

    body: Json
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wire:
    """``answer(text, cut)``: what is said, and whether the model ran out of tokens. ``schema`` and ``system`` find the
    JSON Schema (None: the request has none) and the instructions. ``pause_ms``: what ``limit`` asks for. ``tells_cut``:
    litellm passes on that an answer was cut off."""

    path: str
    key_in: str
    system: Callable[[Json], str]
    schema: Callable[[Json], Any]
    answer: Callable[[str, bool], Json]
    refusal: Said
    limit: Said
    pause_ms: int | None
    in_words_too: bool = False
    tells_cut: bool = True


def _completion(text: str, cut: bool) -> Json:
    return {
        "id": "c-1",
        "object": "chat.completion",
        "created": 1_780_000_000,
        "model": "served",
        "choices": [
            {
                "index": 0,
                "finish_reason": "length" if cut else "stop",
                "message": {"role": "assistant", "content": text, "refusal": None},
                "logprobs": None,
            }
        ],
        "usage": {"prompt_tokens": SPENT[0], "completion_tokens": SPENT[1], "total_tokens": sum(SPENT)},
        "service_tier": "default",
    }


def _completion_schema(request: Json) -> Any:
    return request.get("response_format", {}).get("json_schema", {}).get("schema")


def _first_message(request: Json) -> str:
    return str(request["messages"][0]["content"])


def _openai_error(message: str, kind: str, code: str | None, param: str | None = None) -> Json:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _gemini(text: str, cut: bool) -> Json:
    content: Json = {"role": "model", "parts": [{"text": text}]} if text else {"role": "model"}
    return {
        "candidates": [{"content": content, "finishReason": "MAX_TOKENS" if cut else "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": SPENT[0],
            "candidatesTokenCount": SPENT[1],
            "totalTokenCount": sum(SPENT),
        },
        "modelVersion": "served",
        "responseId": "r-1",
    }


def _anthropic(text: str, cut: bool) -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "served",
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": "max_tokens" if cut else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": SPENT[0], "output_tokens": SPENT[1]},
    }


def _ollama(said: Json, cut: bool) -> Json:
    return {
        "model": "served",
        "created_at": "2026-11-22T12:00:00Z",
        **said,
        "done": True,
        "done_reason": "length" if cut else "stop",
        "total_duration": 5_000_000,
        "prompt_eval_count": SPENT[0],
        "eval_count": SPENT[1],
    }


def _openai_like(path: str, refusal: Said, limit: Said, pause_ms: int | None) -> Wire:
    return Wire(path, "Authorization", _first_message, _completion_schema, _completion, refusal, limit, pause_ms)


WIRES: dict[str, Wire] = {
    "gemini/gemini-2.5-flash": Wire(
        "/models/gemini-2.5-flash:generateContent",
        "x-goog-api-key",
        lambda request: str(request["system_instruction"]["parts"][0]["text"]),
        lambda request: request["generationConfig"].get("response_json_schema"),
        _gemini,
        Said(
            {
                "error": {
                    "code": 400,
                    "message": "The specified schema produces a constraint that has too many states for serving.",
                    "status": "INVALID_ARGUMENT",
                }
            },
            400,
        ),
        Said(
            {
                "error": {
                    "code": 429,
                    "message": "You exceeded your current quota.",
                    "status": "RESOURCE_EXHAUSTED",
                    "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"}],
                }
            },
            429,
        ),
        17_000,
    ),
    "openai/gpt-5.4-mini": _openai_like(
        "/chat/completions",
        Said(
            _openai_error(
                "Invalid schema for response_format 'answer'", "invalid_request_error", None, "response_format"
            ),
            400,
        ),
        Said(
            _openai_error("Rate limit reached", "requests", "rate_limit_exceeded"),
            429,
            {"retry-after": "7", "retry-after-ms": "6500"},
        ),
        6_500,
    ),
    "anthropic/claude-haiku-5-5": Wire(
        "/v1/messages",
        "x-api-key",
        lambda request: str(request["system"][0]["text"]),
        lambda request: (request.get("output_format") or request.get("output_config", {}).get("format") or {}).get(
            "schema"
        ),
        _anthropic,
        Said(
            {
                "type": "error",
                "error": {"type": "invalid_request_error", "message": "output_format.schema: too complex"},
            },
            400,
        ),
        Said(
            {"type": "error", "error": {"type": "rate_limit_error", "message": "Number of requests exceeded"}},
            429,
            {"retry-after": "12"},
        ),
        12_000,
    ),
    "mistral/mistral-small-latest": _openai_like(
        "/v1/chat/completions",
        Said(
            {
                "object": "error",
                "message": {
                    "detail": [{"type": "value_error", "loc": ["body", "response_format"], "msg": "not valid"}]
                },
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            },
            422,
        ),
        Said(
            {
                "object": "error",
                "message": "Rate limit exceeded",
                "type": "rate_limited",
                "param": None,
                "code": "1300",
            },
            429,
        ),
        None,
    ),
    "groq/openai/gpt-oss-120b": _openai_like(
        "/chat/completions",
        Said(
            {
                "error": {
                    "message": "Generated JSON does not match the expected schema.",
                    "type": "invalid_request_error",
                    "code": "json_validate_failed",
                    "failed_generation": "{}",
                }
            },
            400,
        ),
        Said(_openai_error("Rate limit reached", "tokens", "rate_limit_exceeded"), 429, {"retry-after": "2"}),
        2_000,
    ),
    "openrouter/google/gemini-2.5-flash": _openai_like(
        "/chat/completions",
        Said(
            {
                "error": {
                    "code": 400,
                    "message": "Provider returned error",
                    "metadata": {"provider_name": "Google", "raw": "response_format"},
                }
            },
            400,
        ),
        Said({"error": {"code": 429, "message": "Rate limit exceeded"}}, 429, {"Retry-After": "60"}),
        60_000,
    ),
    "ollama/llama3.2": Wire(
        "/api/generate",
        "",
        lambda request: str(request["prompt"]),
        lambda request: request.get("format"),
        lambda text, cut: _ollama({"response": text}, cut),
        Said({"error": "invalid JSON schema in format"}, 400),
        Said({"error": "too many requests"}, 429),
        None,
        in_words_too=True,
        tells_cut=False,
    ),
    "ollama_chat/llama3.2": Wire(
        "/api/chat",
        "",
        _first_message,
        lambda request: request.get("format"),
        lambda text, cut: _ollama({"message": {"role": "assistant", "content": text}}, cut),
        Said({"error": "invalid JSON schema in format"}, 400),
        Said({"error": "too many requests"}, 429),
        None,
        in_words_too=True,
    ),
}


@dataclass
class FakeProvider:
    """Answers with what ``said`` holds, in order. ``requests``: the path, the headers and the body of each."""

    said: deque[Said] = field(default_factory=deque)
    requests: list[tuple[str, dict[str, str], Json]] = field(default_factory=list)
    url: str = ""


@contextlib.contextmanager
def fake_provider() -> Iterator[FakeProvider]:
    """A server of its own on a free port, gone afterwards."""
    fake = FakeProvider()

    class Handling(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fake.requests.append((self.path, dict(self.headers), body))
            said = fake.said.popleft() if fake.said else Said({"error": "nothing more to say"}, 500)
            answer = json.dumps(said.body).encode()
            self.send_response(said.status)
            for name, value in {"Content-Type": "application/json", **said.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handling)
    server.daemon_threads = True
    fake.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
