"""What to paste into the programs that agents live in."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

NAME = "memory"


@dataclass(frozen=True, slots=True)
class Snippet:
    """A host, where its configuration is, what to put there, and the file of ``configs/clients`` that holds the same."""

    host: str
    where: str
    text: str
    file: str


def snippets(command: Sequence[str]) -> list[Snippet]:
    """The configuration of each host for a server that ``command`` launches on stdio."""
    program, *arguments = command
    entry: dict[str, object] = {"command": program, "args": arguments}
    added = shlex.join(["claude", "mcp", "add", "--scope", "user", "--transport", "stdio", NAME, "--", *command])
    return [
        Snippet(
            "Claude Desktop",
            "claude_desktop_config.json (Settings > Developer > Edit Config; then restart it)",
            _json("mcpServers", entry),
            "claude-desktop.json",
        ),
        Snippet("Claude Code", "in a shell", added, "claude-code.sh"),
        Snippet("Cursor", ".cursor/mcp.json or ~/.cursor/mcp.json", _json("mcpServers", entry), "cursor.json"),
        Snippet("VS Code", ".vscode/mcp.json", _json("servers", {"type": "stdio", **entry}), "vscode.json"),
    ]


def _json(key: str, entry: dict[str, object]) -> str:
    return f'{{\n  "{key}": {{\n    "{NAME}": {json.dumps(entry, ensure_ascii=False)}\n  }}\n}}'
