"""A socket as the source and the sink of a connection's lines."""

import asyncio
import contextlib

_CHUNK_BYTES = 64 * 1024


class SocketSource:
    """Reads a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(_CHUNK_BYTES)
        except ConnectionError:
            return b""

    def close(self) -> None:
        self._writer.close()


class SocketSink:
    """Writes to a connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, line: bytes) -> None:
        """Raises OSError once the client has gone."""
        try:
            self._writer.write(line)
            await self._writer.drain()
        except RuntimeError as error:  # uvloop's word for a transport that is closed
            raise BrokenPipeError(str(error)) from None

    async def aclose(self) -> None:
        self._writer.close()
        # The client may have hung up before it read everything.
        with contextlib.suppress(OSError, RuntimeError):
            await self._writer.wait_closed()
