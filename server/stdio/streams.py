"""Streams of bytes over two descriptors of any kind: pipes, sockets, files, terminals."""

import asyncio
import os
import stat
import sys
import threading
from typing import Protocol, cast

import anyio.to_thread

_CHUNK_BYTES = 64 * 1024
_READ_AHEAD_CHUNKS = 2


class ByteSource(Protocol):
    """A stream to read from."""

    async def read(self) -> bytes:
        """Some bytes; none at the end."""

    def close(self) -> None: ...


class ByteSink(Protocol):
    """A stream to write to."""

    async def write(self, line: bytes) -> None:
        """Write `line` for the reader.

        Raises:
            OSError: the reader has left.
        """

    async def aclose(self) -> None:
        """Wait until everything was sent, and close; if cancelled, drop the rest."""


async def open_streams(read_fd: int, write_fd: int) -> tuple[ByteSource, ByteSink]:
    """Take over both descriptors: on the event loop if it can wait for them, else in threads."""
    # If one socket has both roles, the loop would mistake incoming bytes for a reader that hangs up.
    in_threads = sys.platform == "win32" or os.path.sameopenfile(read_fd, write_fd)  # noqa: ASYNC240 - fstat
    source = ThreadSource(read_fd) if in_threads or not _is_pipe(read_fd) else await PipeSource.open(read_fd)
    sink = ThreadSink(write_fd) if in_threads or not _is_pipe(write_fd) else await PipeSink.open(write_fd)
    return source, sink


def _is_pipe(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class PipeSource:
    """Reads a pipe or a socket on the event loop."""

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.ReadTransport) -> None:
        self._reader = reader
        self._transport = transport

    @classmethod
    async def open(cls, fd: int) -> "PipeSource":
        # The limit bounds what is read ahead, since a host may write faster than the server works.
        reader = asyncio.StreamReader(limit=_CHUNK_BYTES)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", buffering=0)
        )
        return cls(reader, transport)

    async def read(self) -> bytes:
        try:
            return await self._reader.read(_CHUNK_BYTES)
        except ConnectionError:
            return b""

    def close(self) -> None:
        self._transport.close()


class PipeSink(asyncio.Protocol):
    """Writes to a pipe or a socket on the event loop."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport
        self._room = asyncio.Event()
        self._room.set()
        self._lost = asyncio.Event()

    @classmethod
    async def open(cls, fd: int) -> "PipeSink":
        _, sink = await asyncio.get_running_loop().connect_write_pipe(cls, os.fdopen(fd, "wb", buffering=0))
        return sink

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.set()
        self._room.set()

    async def write(self, line: bytes) -> None:
        if not self._lost.is_set():
            self._transport.write(line)
            # Waits while the pipe is full, so that answers do not pile up in memory.
            await self._room.wait()
        # The reader may have left during the wait, and then nothing has arrived.
        if self._lost.is_set():
            raise BrokenPipeError("the host has closed the server's stdout")

    async def aclose(self) -> None:
        self._transport.close()
        try:
            await self._lost.wait()
        finally:
            if not self._lost.is_set():
                # Cancelled, so a reader that does not read must not keep the process alive.
                self._transport.abort()


class ThreadSource:
    """Reads a file, a terminal or a Windows pipe in a thread whose blocked read does not delay the exit."""

    def __init__(self, fd: int) -> None:
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(_READ_AHEAD_CHUNKS)
        threading.Thread(target=self._pump, args=(fd, asyncio.get_running_loop()), daemon=True).start()

    def _pump(self, fd: int, loop: asyncio.AbstractEventLoop) -> None:
        chunk = b" "
        while chunk:
            # A limit, since a thread could read a whole file before the server takes the first line.
            self._room.acquire()
            try:
                chunk = os.read(fd, _CHUNK_BYTES)
            except OSError:  # a terminal that hung up
                chunk = b""
            try:
                loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
            except RuntimeError:  # the loop has ended
                return

    async def read(self) -> bytes:
        chunk = await self._chunks.get()
        self._room.release()
        return chunk

    def close(self) -> None:
        """Leave the descriptor open: the thread may still be reading from it."""


class ThreadSink:
    """Writes to a file, a terminal or a Windows pipe in worker threads."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    async def write(self, line: bytes) -> None:
        # abandon_on_cancel: a write to a full pipe cannot be interrupted.
        await anyio.to_thread.run_sync(self._write_all, line, abandon_on_cancel=True)

    def _write_all(self, line: bytes) -> None:
        while line:
            line = line[os.write(self._fd, line) :]

    async def aclose(self) -> None:
        """Leave the descriptor open: a cancelled write may still be running."""
