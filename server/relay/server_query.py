"""One question to a running shared server: how it is, or that it should stop."""

import contextlib
import json
import os
import time
from collections.abc import Iterator

from layerlore.server.process.version import VERSION
from layerlore.server.relay.channels import CONNECT_SECONDS, connect
from layerlore.server.relay.launch import socket_folders

ServerAnswer = dict[str, object]
"""What a shared server says of itself: its pid, version, hosts and data folder."""

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
    """Stop the servers of a data folder that no host is connected to, and wait for their end. One whose host is just
    leaving is waited for."""
    until = time.monotonic() + LEAVING_SECONDS
    for base, _ in find_servers(folder):
        with contextlib.suppress(OSError, ValueError):
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
                    told = ask(base, "status")
                    if told.get("data_dir") == folder:
                        yield base, told
