"""Lines of a byte stream, cut within a limit of memory. The thin client loads this module: it imports nothing."""

MAX_LINE_BYTES = 4 * 1024 * 1024
"""The longest line that is read, without its newline; the same as the longest body over HTTP."""

EDGE_BYTES = 8 * 1024
"""The bytes of either end of a line that is too long, which are kept to find its id."""


class TooLong:
    """A line above the limit, of which up to EDGE_BYTES of its beginning and of its end stay."""

    __slots__ = ("head", "tail")

    def __init__(self, head: bytes, tail: bytes) -> None:
        self.head = head
        self.tail = tail

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TooLong) and (self.head, self.tail) == (other.head, other.tail)

    def __hash__(self) -> int:
        return hash((self.head, self.tail))

    def __repr__(self) -> str:
        return f"TooLong({self.head!r}, {self.tail!r})"


class LineSplitter:
    """Cuts a byte stream into lines without their newlines; blank lines are left out.

    Holds at most one line of `limit` bytes and one chunk.
    """

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._line = bytearray()
        self._head: bytes | None = None  # set while a line is too long; `_line` is then its end

    def feed(self, chunk: bytes) -> list[bytes | TooLong]:
        """The lines that `chunk` completes."""
        lines: list[bytes | TooLong] = []
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._append(end)
            lines += self.flush()
        self._append(rest)
        return lines

    def flush(self) -> list[bytes | TooLong]:
        """The line so far, as if it ended here; nothing if it is blank."""
        line, head = bytes(self._line), self._head
        self._line.clear()
        self._head = None
        if head is not None:
            return [TooLong(head, line)]
        if line.strip():
            return [line]
        return []

    def _append(self, piece: bytes) -> None:
        self._line += piece
        if self._head is None and len(self._line) > self._limit:
            # A longer line would use memory without limit, so only its two ends stay.
            self._head = bytes(self._line[:EDGE_BYTES])
        if self._head is not None:
            del self._line[:-EDGE_BYTES]
