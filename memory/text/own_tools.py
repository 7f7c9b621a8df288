"""Which tool calls are calls of our own tools, whatever a host writes around a tool's name.

Hosts put the server's name before it (``mcp__layerlore__plan``, ``layerlore.plan``) or behind it
(``plan_mcp_layerlore``), and the user of a host may give the server another name. Some of our names are such that other
servers have tools of the same name: there the name alone says nothing.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from layerlore.storage.core import linear_re

# `make docs` writes this file from the tools' declarations.
_OWN = json.loads(Path(__file__).with_name("own_tools.json").read_text(encoding="utf-8"))

TELLING: Mapping[str, frozenset[str]] = {name: frozenset(arguments) for name, arguments in _OWN["tools"].items()}
"""Every tool of ours, with the arguments by which a call of it is told from one of another server's tool of the same
name; without any, no arguments tell that."""

ARGUMENTS = frozenset[str](_OWN["arguments"])
"""Every argument that a tool of ours takes."""

_DISTINCT = frozenset(
    [
        *("recall_memory", "get_working_memory", "update_working_memory", "clear_working_memory"),
        *("next_memory_job", "submit_memory_job"),
    ]
)
_SERVER = linear_re.compile("layerlore")
# Prefixes that hosts and SDKs put before the name of every tool.
_NEUTRAL = frozenset(["mcp", "tool", "tools", "function", "functions", "default", "api", "use", "call"])
_WORD = linear_re.compile("[a-z0-9]+")
_names = "|".join(sorted(TELLING, key=len, reverse=True))
_AT_END = linear_re.compile(rf"(?:^|_)({_names})$")
_AT_START = linear_re.compile(rf"({_names})_")

# How hosts that have one tool for all servers name the server, the tool and its arguments.
_SERVER_KEYS = ("server_name", "serverName", "server", "server_label", "mcp_server")
_NAME_KEYS = ("tool_name", "toolName", "tool", "name")
_GIVEN_KEYS = ("arguments", "args", "input", "parameters", "params", "tool_input", "tool_args", "toolArgs")
_OUR_URI = linear_re.compile(r"memory://(?:profile|entries|threads|status|recall|runs)\b")


def is_own_call(name: str, arguments: Any) -> bool:
    """Whether a tool call is one of ours: its name is one that no other tool is likely to have, or our server's name stands
    with it; or it has a name of ours without a server's or with that of some memory, and arguments that ours takes."""
    if _is_own(name, arguments):
        return True
    return isinstance(arguments, dict) and _is_wrapped(arguments)


def names_own_tool(text: str) -> bool:
    """Whether the name of one of our tools, or the address of a resource of ours, stands in a text."""
    return "memory://" in text or any(map(text.__contains__, TELLING))


def is_own_uri(uri: Any) -> bool:
    """Whether a URI is the address of a resource of ours."""
    return isinstance(uri, str) and _OUR_URI.match(uri) is not None


def _is_own(name: str, arguments: Any) -> bool:
    tool, around = _find_tool(name)
    if not tool:
        return False
    if tool in _DISTINCT or _SERVER.search(around):
        return True
    if around and "memory" not in around:
        return False
    telling = TELLING[tool]
    return bool(telling) and isinstance(arguments, dict) and telling <= arguments.keys() <= ARGUMENTS


@lru_cache(maxsize=4096)
def _find_tool(name: str) -> tuple[str, str]:
    """The tool of ours that has this name, and what stands around it; two empty texts for none."""
    plain = "_".join(_WORD.findall(name.lower()))
    found = _AT_END.search(plain)
    if found:
        around = plain[: found.start()]
    else:
        found = _AT_START.match(plain)
        if found:
            around = plain[found.end() :]
        else:
            around = ""
        if found is None or not ("mcp" in around or _SERVER.search(around)):
            return "", ""
    return found[1], "_".join(word for word in around.split("_") if word not in _NEUTRAL)


def _is_wrapped(arguments: dict[str, Any]) -> bool:
    """Whether the arguments are those of a host's one tool for all servers, and name a tool or a resource of ours."""
    server = _first_text(arguments, _SERVER_KEYS)
    if is_own_uri(arguments.get("uri")):
        return True
    given = next((arguments[key] for key in _GIVEN_KEYS if key in arguments), None)
    name = _first_text(arguments, _NAME_KEYS)
    if not name or (given is None and not server):
        return False
    return _is_own(f"{server}__{name}", read_object(given))


def _first_text(given: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((value for key in keys if isinstance(value := given.get(key), str)), "")


def read_object(given: Any) -> Any:
    """The JSON object in a text; any other value unchanged."""
    if not isinstance(given, str) or not given.lstrip().startswith("{"):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return given
