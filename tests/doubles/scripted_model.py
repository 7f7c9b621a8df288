"""A model that calls tools by a script, as a server that OpenAI's, Anthropic's and Gemini's clients take for their own.

It speaks chat completions, responses, Anthropic's messages, and Gemini's generateContent, whole or streamed. Each request
gets the next step of the script; when that is done, the last words. What it was asked is kept, for a test to
look at.
"""

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from streamed_answers import STREAMED

Json = dict[str, Any]
SEARCH = "ToolSearch"
"""Claude Code's tool that makes the tools of servers known."""


@dataclass(frozen=True)
class Call:
    """A tool, and what the model says to it. ``namespace``: where the request declares it, if in one."""

    tool: str
    arguments: Json
    namespace: str = ""


@dataclass
class ScriptedModel:
    """``last_words`` end the conversation; ``last_tool``: as an argument of this tool, for agents that end so.

    ``gives_all``: as if every argument was required, those that it does not mean are given as what says nothing."""

    script: list[Call]
    last_words: str
    last_tool: str = ""
    gives_all: bool = False
    requests: list[Json] = field(default_factory=list)
    made: int = 0
    searched: Call | None = None
    url: str = ""

    @property
    def tools(self) -> list[str]:
        """The tools that the model was offered."""
        return [name for name, _ in _offered(self.requests[0])]

    @property
    def shown(self) -> list[str]:
        """All that the model was sent, request by request."""
        return [json.dumps(request, ensure_ascii=False) for request in self.requests]

    @property
    def results(self) -> list[str]:
        """What the model was told after each of its calls."""
        rounds = (
            next(request[key] for key in ("messages", "input", "contents") if key in request)
            for request in self.requests
        )
        return [json.dumps(told[-1], ensure_ascii=False) for told in rounds][1:]

    def step(self, request: Json) -> Call | None:
        """What the model does next: a call, or None for its last words.

        A host gives the tools a prefix, asks for other things too (such as a title), and may show tools to a search only."""
        self.requests.append(request)
        if self.made == len(self.script):
            return Call(self.last_tool, {"answer": self.last_words}) if self.last_tool else None
        call = self.script[self.made]
        offered = _offered(request)
        found = next(((name, namespace) for name, namespace in offered if name.endswith(call.tool)), None)
        if found is None:
            if (SEARCH, "") not in offered or self.searched == call:
                return None
            self.searched = call
            return Call(SEARCH, {"query": call.tool, "max_results": 1})
        self.made += 1
        arguments = _neutral_of(request, call.tool) | call.arguments if self.gives_all else call.arguments
        return Call(found[0], arguments, found[1])

    def chat(self, request: Json) -> Json:
        call = self.step(request)
        message: Json = {"role": "assistant", "content": None if call else self.last_words}
        if call:
            function = {"name": call.tool, "arguments": json.dumps(call.arguments)}
            message["tool_calls"] = [{"index": 0, "id": self._id, "type": "function", "function": function}]
        choice = {"index": 0, "finish_reason": "tool_calls" if call else "stop", "message": message}
        return {
            "id": f"chat-{self._id}",
            "object": "chat.completion",
            "created": 1,
            "model": request["model"],
            "choices": [choice],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }

    def respond(self, request: Json) -> Json:
        call = self.step(request)
        item: Json = {"type": "message", "id": f"msg_{self._id}", "status": "completed", "role": "assistant"}
        if call:
            arguments = json.dumps(call.arguments)
            item = {"type": "function_call", "id": f"fc_{self._id}", "status": "completed", "call_id": self._id}
            item |= {"name": call.tool, "arguments": arguments}
            if call.namespace:
                item["namespace"] = call.namespace
        else:
            item["content"] = [{"type": "output_text", "text": self.last_words, "annotations": []}]
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        return {
            "id": f"resp_{self._id}",
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "model": request["model"],
            "output": [item],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, **details},
        }

    def generate(self, request: Json) -> Json:
        call = self.step(request)
        part: Json = (
            {"functionCall": {"name": call.tool, "args": call.arguments}} if call else {"text": self.last_words}
        )
        return {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}]}

    def message(self, request: Json) -> Json:
        call = self.step(request)
        block: Json = {"type": "text", "text": self.last_words}
        if call:
            block = {"type": "tool_use", "id": self._id, "name": call.tool, "input": call.arguments}
        return {
            "id": f"msg_{self._id}",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": [block],
            "stop_reason": "tool_use" if call else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }

    @property
    def _id(self) -> str:
        return f"call_{len(self.requests)}"

    def answer(self, path: str, request: Json) -> tuple[str, bytes]:
        """The content's type and the body of an answer."""
        ending = next((ending for ending in STREAMED if path.endswith(ending)), ":generateContent")
        if not path.endswith(ending):
            raise LookupError(f"no {path} here")
        whole = {
            "/chat/completions": self.chat,
            "/responses": self.respond,
            "/v1/messages": self.message,
        }.get(ending, self.generate)(request)
        if request.get("stream") or ending == ":streamGenerateContent":
            return "text/event-stream", STREAMED[ending](whole)
        return "application/json", json.dumps(whole).encode()


def _offered(request: Json) -> list[tuple[str, str]]:
    """The names of the tools of a request, each with its namespace, which Codex gives, or ""."""
    declared: list[Json] = request.get("tools") or []
    offered = []
    for each in declared:
        namespace = each["name"] if each.get("type") == "namespace" else ""
        tools = each.get("functionDeclarations") or (each["tools"] if namespace else [each.get("function", each)])
        offered += [(tool["name"], namespace) for tool in tools if "name" in tool]
    return offered


def _neutral_of(request: Json, tool: str) -> Json:
    """Every argument of a tool with its default, else nothing of its type."""
    nothing = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}
    (declared,) = (each["function"] for each in request["tools"] if each["function"]["name"] == tool)
    schemas = declared["parameters"]["properties"].items()
    return {name: schema.get("default", nothing[schema["type"]]) for name, schema in schemas}


@contextlib.contextmanager
def scripted_model(*script: Call, last_words: str, **options: Any) -> Iterator[ScriptedModel]:
    """A server of its own on a free port, gone afterwards."""
    model = ScriptedModel(list(script), last_words, **options)

    class Handling(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, (kind, body) = 200, model.answer(self.path.partition("?")[0], request)
            except LookupError as error:
                status, kind, body = 404, "text/plain", str(error).encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handling)
    server.daemon_threads = True
    model.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
