"""Large JSON files, read an item at a time: also inside the zip archives in which exports come."""

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import ijson  # type: ignore[import-untyped]
import numpy

from layerlore.storage.core.errors import InvalidInput

# The memory of Claude's export comes as one file, or as one for each account in a folder.
_READ_FILES = ("conversations", "memories")
_BEGINNING = 64 * 1024
_MOST_DEPTH = 500
_MOST_UNPACKED = 4 * 1024 * 1024 * 1024
"""Bytes that an archive may unpack to; exports of years are a tenth of it."""
_MOST_TIMES = 200
"""How many times its own size a part of an archive may unpack to: text comes to twenty."""


@contextmanager
def open_items(path: Path) -> Iterator[Iterator[tuple[Any, int]]]:
    """The items of a list (or the one value that there is), each with how many bytes were read until then.
    In an archive, all files that are named after conversations or memories. Raises InvalidInput for what is not JSON, and
    OSError."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield _read_archive(archive)
    else:
        with path.open("rb") as file:
            yield _read(file, path.name, 0)


def _read_archive(archive: zipfile.ZipFile) -> Iterator[tuple[Any, int]]:
    _check_sizes(archive)
    done = 0
    # Sorted, so that numbered parts come in the same order in each import.
    for member in sorted(archive.infolist(), key=lambda each: each.filename):
        name = member.filename.rpartition("/")[2]
        in_folder = f"/{member.filename}".endswith(f"/memories/{name}")
        if (name.startswith(_READ_FILES) or in_folder) and name.endswith(".json"):
            with archive.open(member) as file:
                yield from _read(file, member.filename, done)
            # Compressed sizes, since the progress is measured against the archive's own size.
            done += member.compress_size


def _check_sizes(archive: zipfile.ZipFile) -> None:
    """An archive that claims little and unpacks to much is refused before anything of it is read. Raises InvalidInput."""
    members = archive.infolist()
    total = sum(each.file_size for each in members)
    if total > _MOST_UNPACKED:
        raise InvalidInput(f"the archive unpacks to {total:,} bytes; at most {_MOST_UNPACKED:,} are allowed")
    for each in members:
        # Small files compress well without being an attack.
        if each.file_size > 1_000_000 and each.file_size > _MOST_TIMES * max(each.compress_size, 1):
            raise InvalidInput(
                f"{each.filename} unpacks to {each.file_size:,} bytes, more than {_MOST_TIMES} times what it takes in the "
                "archive; no export does"
            )


def _read(file: IO[bytes], name: str, before: int) -> Iterator[tuple[Any, int]]:
    # The beginning tells a list from a single object; the whole file may not fit into memory.
    beginning = file.read(_BEGINNING).lstrip(b"\xef\xbb\xbf \t\r\n")
    file.seek(0)
    counted = _CountedFile(file)
    if beginning.startswith(b"["):
        prefix = "item"
    else:
        prefix = ""
    try:
        # Decimal numbers, the parser's default, cannot be stored as JSON.
        for item in ijson.items(counted, prefix, use_float=True):
            yield item, before + counted.done
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}") from None
    except ijson.JSONError as error:
        raise InvalidInput(f"{name} is no JSON, or cut off: {error}; what came before was stored") from None
    except RecursionError:
        raise InvalidInput(f"{name} is nested too deeply; what came before was stored") from None
    except zipfile.BadZipFile as error:
        raise InvalidInput(f"{name} cannot be unpacked: {error}; what came before was stored") from None


class _CountedFile:
    """A file that counts what is read, leaves out a byte order mark, and is not nested deeper than anything that is
    exported: a parser's memory grows with the square of the depth."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._nesting = _Nesting()
        self.done = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        # Only at the file's beginning is it a mark.
        if not self.done:
            data = data.removeprefix(b"\xef\xbb\xbf")
        self.done += len(data)
        self._nesting.read(data)
        return data


class _Nesting:
    """How deep the JSON is nested that was read so far, piece by piece."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_text = False
        self._rest = b""

    def read(self, data: bytes) -> None:
        """Raises InvalidInput where it is too deep."""
        data = self._rest + data
        # A backslash at the end of a piece escapes a character of the next one.
        backslashes = len(data) - len(data.rstrip(b"\\"))
        self._rest = b"\\" if backslashes % 2 else b""
        whole = data[: len(data) - len(self._rest)]
        # Escapes are blanked first, so that each quote left over begins or ends a text.
        plain = whole.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
        codes = numpy.frombuffer(plain, numpy.uint8)
        if not len(codes):
            return
        # An odd number of quotes before a place means that it lies inside a text.
        is_text = (numpy.cumsum(codes == ord('"')) + self._in_text) % 2 == 1
        opens = (codes == ord("[")) | (codes == ord("{"))
        closes = (codes == ord("]")) | (codes == ord("}"))
        steps = numpy.where(is_text, 0, opens.astype(numpy.int64) - closes)
        depths = self._depth + numpy.cumsum(steps)
        if depths.max() > _MOST_DEPTH:
            raise InvalidInput(f"it is nested more than {_MOST_DEPTH} levels deep; what came before was stored")
        self._depth = int(depths[-1])
        self._in_text = bool(is_text[-1])


def read_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """The values of a file of JSON lines, with their numbers; None for a line that is not JSON."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                # One bad line must not end the import of the others.
                except (ValueError, RecursionError):
                    yield number, None
