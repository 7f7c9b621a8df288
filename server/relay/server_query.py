"""Requests to a running shared server from commands: its status, to stop it, or a recall."""

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from layerlore.server.process.version import VERSION
from layerlore.server.relay.channels import CONNECT_SECONDS, SharedChannel, connect, framed_line
from layerlore.server.relay.launch import read_launch, socket_folders
from layerlore.server.settings.launch import FLAGS

ServerAnswer = dict[str, object]
"""A shared server's description of itself: its pid, version, hosts and data folder."""

LEAVING_SECONDS = 1.0
ENDING_SECONDS = 20.0
_POLL_SECONDS = 0.02
_ENDINGS = (".sock", ".port")


def ask(base: str, want: str) -> ServerAnswer:
    """The answer of the server that listens at this base path; after ``stop`` the call waits for its end.

    Raises:
        OSError: no server exists, or it does not answer or end in time.
        ValueError: it answers something else.
    """
    connection, key = connect(base)
    with contextlib.closing(connection):
        # A server finishes its calls before it stops.
        connection.settimeout(ENDING_SECONDS if want == "stop" else CONNECT_SECONDS)
        connection.sendall(json.dumps({"layerlore": VERSION, "key": key, "want": want}).encode() + b"\n")
        with connection.makefile("rb") as answers:
            found = json.loads(answers.readline())
            if want == "stop":
                answers.read()  # the server's end closes the connection
    if not isinstance(found, dict):
        raise ValueError("no answer")
    return found


def end_idle(folder: str) -> None:
    """Stop the servers of a data folder without a connected host, and wait for their end. A host that is just leaving gets
    a moment to do so."""
    until = time.monotonic() + LEAVING_SECONDS
    for base, _ in find_servers(folder):
        with contextlib.suppress(OSError, ValueError):
            # The host of a command may just be leaving; its connection ends a moment later.
            while connected := ask(base, "status").get("hosts"):
                if time.monotonic() > until:
                    break
                time.sleep(_POLL_SECONDS)
            if not connected:
                ask(base, "stop")


def find_servers(folder: str) -> Iterator[tuple[str, ServerAnswer]]:
    """The base paths of the servers that run for a data folder, with each one's description of itself."""
    for place in socket_folders(folder):
        with contextlib.suppress(OSError):
            names = sorted(os.listdir(place))
            for base in (os.path.join(place, name[:-5]) for name in names if name.endswith(_ENDINGS)):
                with contextlib.suppress(OSError, ValueError):
                    status = ask(base, "status")
                    # Several data folders share the folder for temporary files.
                    if status.get("data_dir") == folder:
                        yield base, status


COMMAND = "recall"
MOST_TOKENS = 20_000
"""The most that the tool returns in one answer."""
SECONDS = 30.0
_MOST_HITS = 50
_PROTOCOL = "2026-07-28"
_META = "io.modelcontextprotocol/"
# Tabs and new lines are harmless. The other line breaks may move the cursor back or up, and become new lines.
_LINE_BREAK = re.compile(r"\r\n?|[\v\f\x85]")
# Stored text may hold any character, but must not move a terminal's cursor or change its colours.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_SHOWN_FOR_CONTROL = "\ufffd"


def recall_shared(arguments: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Print what the shared server recalls. Returns the exit code; None if the whole command line must answer: no server
    runs, it has not loaded everything, or the arguments are wrong or ask for more than hits."""
    read = _read_arguments(arguments)
    if read is None:
        return None
    flags, request, as_json = read
    launch = read_launch(flags, environ)
    if launch is None:
        return None
    try:
        connection, key = connect(launch.base)
    # Starting a server for one question would take as long as the command's own answer.
    except (OSError, ValueError):
        return None
    connection.settimeout(SECONDS)
    channel = SharedChannel(connection, key, launch, os.urandom(6).hex())
    try:
        result = _call(channel, {**request, "format": "json" if as_json else "text"})
    except (OSError, ValueError, KeyError):
        return None
    finally:
        channel.close()
    if result is None:
        return None
    return _print(result, as_json=as_json)


def mask_controls(text: str) -> str:
    """The text with a sign for each character that would control a terminal; tabs and line ends stay."""
    return _CONTROL.sub(_SHOWN_FOR_CONTROL, _LINE_BREAK.sub("\n", text))


def _read_arguments(arguments: Sequence[str]) -> tuple[dict[str, str], dict[str, object], bool] | None:
    """The launch's flags, the tool's arguments, and whether to print JSON; None for other arguments."""
    flags: dict[str, str] = {}
    request: dict[str, object] = {"limit": 5, "max_tokens": MOST_TOKENS, "opening": False}
    as_json = False
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if argument == "--json":
            as_json = True
        elif not argument.startswith("-") and "query" not in request:
            request["query"] = argument
        elif name in FLAGS or name == "--limit":
            if not equals:
                value = next(rest, "")
            if name == "--limit":
                if not value.isdigit() or not 1 <= int(value) <= _MOST_HITS:
                    return None
                request["limit"] = int(value)
            elif name == "--thread":
                request["thread_id"] = value
            else:
                flags[FLAGS[name]] = value
        else:
            return None
    if request.get("query"):
        return (flags, request, as_json)
    return None


def _call(channel: SharedChannel, arguments: dict[str, object]) -> dict[str, object] | None:
    """The result of the tool; None if the server does not serve, or answers with an error."""
    client = {"name": "layerlore recall", "version": VERSION}
    meta = {f"{_META}protocolVersion": _PROTOCOL, f"{_META}clientInfo": client, f"{_META}clientCapabilities": {}}
    params = {"name": "recall_memory", "arguments": arguments, "_meta": meta}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    channel.open()
    channel.send(framed_line(0, json.dumps(request).encode()))
    greeted = False
    while (lines := channel.receive()) is not None:
        for line in lines:
            found = json.loads(line)
            if found.get("id") == 1 and greeted:
                result = found.get("result")
                if isinstance(result, dict):
                    return result
                return None
            # The first line is the greeting; without a pid it is a refusal.
            if not greeted and "pid" not in found:
                return None
            greeted = True
    return None


def _print(result: dict[str, object], *, as_json: bool) -> int | None:
    structure, contents = result.get("structuredContent"), result["content"]
    assert isinstance(contents, list)
    text = contents[0]["text"]
    if result.get("isError"):
        sys.stderr.write(f"layerlore: {text}\n")
        return 1
    if as_json:
        text = json.dumps(structure, ensure_ascii=False, indent=2)
    # A degraded answer lacks vectors: the command waits for the embedder, which the shared server did not.
    if "degraded" in (structure if isinstance(structure, dict) else text.partition("\n")[0]):
        return None
    with contextlib.suppress(AttributeError):
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stdout.write(mask_controls(text) + "\n")
    sys.stdout.flush()
    return 0
