"""Reads a list of tools as JSON, and prints what google-genai makes of it: the declarations that it sends to Gemini,
converted to Gemini's schemas, and as they are."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from google import genai
from google.genai import types
from mcp.types import ListToolsResult


class Gemini(BaseHTTPRequestHandler):
    """Keeps what is asked of it, and says nothing."""

    request: dict[str, Any]

    def do_POST(self) -> None:
        Gemini.request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = {"role": "model", "parts": [{"text": "ok"}]}
        answer = json.dumps({"candidates": [{"content": said, "finishReason": "STOP"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        pass


def declared(client: genai.Client, tools: list[Any]) -> list[Any]:
    """The declarations in a request of generate_content with such tools."""
    config = types.GenerateContentConfig(tools=tools)
    client.models.generate_content(model="gemini-2.5-flash", contents="hello", config=config)
    return [each for tool in Gemini.request["tools"] for each in tool["functionDeclarations"]]


def main() -> None:
    sent = sys.stdin.read()
    whole = [
        types.FunctionDeclaration(
            name=tool["name"], description=tool["description"], parameters_json_schema=tool["inputSchema"]
        )
        for tool in json.loads(sent)["tools"]
    ]
    gemini = HTTPServer(("127.0.0.1", 0), Gemini)
    threading.Thread(target=gemini.serve_forever, daemon=True).start()
    options = types.HttpOptions(base_url=f"http://127.0.0.1:{gemini.server_port}")
    client = genai.Client(api_key="none", http_options=options)
    made = {
        "converted": declared(client, list(ListToolsResult.model_validate_json(sent).tools)),
        "whole": declared(client, [types.Tool(function_declarations=whole)]),
    }
    print(json.dumps(made))


if __name__ == "__main__":
    main()
