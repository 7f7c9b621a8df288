"""A socket as the source and the sink of a connection's lines."""

import asyncio

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
        self._writer.write(line)
        await self._writer.drain()

    async def aclose(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()
