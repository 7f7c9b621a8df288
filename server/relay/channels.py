"""The two ways to a server: the socket of the shared one, and a process of our own where none can be shared."""

import contextlib
import importlib
import json
import os
import select
import socket
import sys
from collections.abc import Sequence

from layerlore.server.process.lines import MAX_LINE_BYTES, LineSplitter, TooLong
from layerlore.server.process.version import VERSION
from layerlore.server.relay.launch import Launch

_CHUNK_BYTES = 64 * 1024
# Answers have a limit of their own, which a server's settings may raise.
_LONGEST_ANSWER = 64 * MAX_LINE_BYTES


class SharedChannel:
    """A connection to the shared server. ``key``: what it wants to see; ``session`` names the conversation."""

    greets = True
    """Whether the first line that comes says who answers."""

    def __init__(self, connection: socket.socket, key: str, launch: Launch, session: str) -> None:
        self._connection = connection
        greeting = {
            "layerlore": VERSION,
            "key": key,
            "want": "session",
            "session": session,
            "flags": launch.own_flags,
            "variables": launch.own_variables,
        }
        self._greeting: bytes = json.dumps(greeting).encode() + b"\n"
        self._lines = LineSplitter(_LONGEST_ANSWER)

    def open(self) -> None:
        """Say what is wanted. Raises OSError."""
        self._connection.sendall(self._greeting)

    def send(self, framed: bytes) -> None:
        """Raises OSError."""
        self._connection.sendall(framed)

    def answers_within(self, seconds: float) -> bool:
        """Whether there is something to receive, or an end, in that time."""
        return bool(select.select([self._connection], [], [], seconds)[0])

    def receive(self) -> list[bytes] | None:
        """The next lines, with their newlines; None at the end."""
        try:
            chunk = self._connection.recv(_CHUNK_BYTES)
        except OSError:
            return None
        return _whole(self._lines.feed(chunk)) if chunk else None

    def end_input(self) -> None:
        """Say that the host sends no more."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def close(self) -> int:
        """Leave. Returns 0."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        return 0


class OwnChannel:
    """A server of this host alone, as a child process on pipes. Lines go to it without their frames."""

    greets = False

    def __init__(self, arguments: Sequence[str]) -> None:
        subprocess = importlib.import_module("subprocess")
        self._server = subprocess.Popen(
            [sys.executable, "-P", "-m", "layerlore", "--alone", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._lines = LineSplitter(_LONGEST_ANSWER)

    def open(self) -> None:
        """Nothing is to be said."""

    def send(self, framed: bytes) -> None:
        """Raises OSError."""
        line = framed.partition(b" ")[2]
        while line:
            line = line[self._server.stdin.write(line) :]

    def receive(self) -> list[bytes] | None:
        """The next lines, with their newlines; None at the end."""
        chunk = os.read(self._server.stdout.fileno(), _CHUNK_BYTES)
        return _whole(self._lines.feed(chunk)) if chunk else None

    def end_input(self) -> None:
        """Say that the host sends no more."""
        with contextlib.suppress(OSError):
            self._server.stdin.close()

    def close(self) -> int:
        """Wait for its end. Returns its exit code, negative if a signal ended it."""
        self.end_input()
        return int(self._server.wait())


def framed_line(number: int, line: bytes | TooLong) -> bytes:
    """A line as a server takes it. One that is too long stays so, but for its middle."""
    if isinstance(line, TooLong):
        line = line.head + b" " * MAX_LINE_BYTES + line.tail
    return b"%d %s\n" % (number, line)


def _whole(lines: Sequence[bytes | TooLong]) -> list[bytes]:
    return [line + b"\n" for line in lines if isinstance(line, bytes)]
