"""What the processes of ``layerlore serve --workers`` tell each other, and the connections that they pass on."""

import contextlib
import os
import socket
import struct
from collections import deque
from enum import IntEnum
from typing import NamedTuple

_HEAD = struct.Struct("!BHI")
_READ_BYTES = 256 * 1024
_MOST_FILES = 16  # that one read may bring along
_CLOSED_IN_CHILDREN = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Kind(IntEnum):
    """What a frame says."""

    READY = 1
    """To the parent: this worker serves. ``text``: the lines that people are shown once, if there are any."""
    CONNECTION = 2
    """To a worker: serve this connection. ``text`` was read from it already. ``worker`` is SETTLED if its first request
    is to be answered here, whoever it is for."""
    CLOSED = 3
    """To the parent: a connection is over."""
    PASSED = 4
    """To the parent: this connection's request is for ``worker``. ``text`` was read from it already."""


SETTLED = 1


class Frame(NamedTuple):
    """One message. ``file`` is a descriptor that goes along; -1 if none does."""

    kind: Kind
    worker: int = 0
    text: bytes = b""
    file: int = -1


class Channel:
    """One end of a pair of Unix sockets. Nothing waits: what cannot be sent yet is kept until ``flush``.

    A file belongs to the channel from ``put`` on, and to whoever takes its frame afterwards.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._unsent: deque[tuple[memoryview, int]] = deque()
        self._bytes = bytearray()
        self._files: deque[int] = deque()

    def fileno(self) -> int:
        return self._end.fileno()

    @property
    def waiting(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self._unsent)

    def put(self, frame: Frame) -> None:
        """Send a frame, or as much of it as can be sent now. Raises OSError if the other end is gone."""
        head = _HEAD.pack(frame.kind | (0x80 if frame.file >= 0 else 0), frame.worker, len(frame.text))
        self._unsent.append((memoryview(head + frame.text), frame.file))
        self.flush()

    def flush(self) -> None:
        """Send as much as can be sent now. Raises OSError if the other end is gone."""
        while self._unsent:
            text, file = self._unsent[0]
            try:
                sent = socket.send_fds(self._end, [text], [file]) if file >= 0 else self._end.send(text)
            except BlockingIOError:
                return
            if file >= 0:
                os.close(file)
            if sent == len(text):
                self._unsent.popleft()
            else:
                self._unsent[0] = (text[sent:], -1)

    def take(self) -> list[Frame] | None:
        """The frames that have arrived whole; None once the other end is closed."""
        try:
            text, files, _, _ = socket.recv_fds(self._end, _READ_BYTES, _MOST_FILES, _CLOSED_IN_CHILDREN)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not text:
            return None
        self._files += files
        self._bytes += text
        return self._whole()

    def close(self) -> None:
        for file in (*(file for _, file in self._unsent), *self._files):
            if file >= 0:
                with contextlib.suppress(OSError):
                    os.close(file)
        self._unsent.clear()
        self._files.clear()
        self._end.close()

    def _whole(self) -> list[Frame]:
        frames: list[Frame] = []
        while len(self._bytes) >= _HEAD.size:
            kind, worker, length = _HEAD.unpack_from(self._bytes)
            end = _HEAD.size + length
            if len(self._bytes) < end:
                break
            # Files arrive in the order of their frames, and no later than these.
            file = self._files.popleft() if kind & 0x80 else -1
            frames.append(Frame(Kind(kind & 0x7F), worker, bytes(self._bytes[_HEAD.size : end]), file))
            del self._bytes[:end]
        return frames
