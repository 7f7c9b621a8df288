"""Rows of the index as a ranking compares them: one by one, or by the thousand as columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Text

RowIdArray: TypeAlias = NDArray[np.int64]


class PackedIntegers(ColumnElement[Any]):
    """An aggregate of integers that ``unpacked`` reads: digits and commas as text, or 8 bytes each, the highest first."""

    inherit_cache = True
    type = Text()

    def __init__(self, column: ColumnElement[int]) -> None:
        self.column = column


def unpacked(value: str | bytes | None) -> RowIdArray:
    """The values of an aggregate of either kind, ascending; an aggregate over no rows gives None."""
    if not value:
        return np.empty(0, np.int64)
    if isinstance(value, str):
        found = np.fromstring(value, np.int64, sep=",")
    else:
        found = np.frombuffer(value, ">i8")
    return np.sort(found.astype(np.int64, copy=False))


def to_list(row_ids: Sequence[int] | RowIdArray) -> list[int]:
    """Plain integers, as a statement's list parameter takes them."""
    ids: list[int] = np.asarray(row_ids, np.int64).tolist()
    return ids


def sort_distinct(row_ids: RowIdArray) -> RowIdArray:
    """Each of these once, ascending; ``np.unique`` takes four times as long."""
    ordered = np.sort(row_ids, axis=None)
    if len(ordered):
        return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]
    return ordered


# No number of a vector of unit length is above 1.
_ONE = 32_767


def round_vectors(vectors: NDArray[np.float32]) -> NDArray[np.int16]:
    """Vectors of unit length, each number in 16 bits."""
    return np.rint(vectors * _ONE).astype(np.int16)


def widen_vectors(rounded: NDArray[np.int16]) -> NDArray[np.float32]:
    """The vectors that were rounded."""
    wide = rounded.astype(np.float32)
    wide *= np.float32(1 / _ONE)
    return wide


Numbers = NDArray[np.int32 | np.int64]

# The columns of ``numbers``, in their order; the first three are numbers of texts.
THREAD, ROLE, SPEAKER, SEQ, CHUNK, CHARS, SESSION_SEQ, ASKS, EMPTY, CONTENT_WORDS = range(10)
_LARGEST = np.iinfo(np.int32).max


class IndexedRow(NamedTuple):
    """A chunk of a message, or of an entry (role ``entry``), in the index. ``chars`` counts the whole message's text;
    ``session_seq`` names the session in its thread; ``asks``, ``empty`` and ``content_words`` are the whole message's,
    see ``core.records.IndexedText``."""

    row_id: int
    thread_uid: str
    seq: int
    chunk: int
    role: str
    speaker: str | None
    said_at: int
    chars: int
    session_seq: int
    asks: int
    empty: int
    content_words: int


class Names:
    """Texts, each with a number that it keeps. Only one thread at a time may add to them."""

    def __init__(self) -> None:
        self.texts: list[str | None] = []
        self._numbers: dict[str | None, int] = {}

    def number(self, text: str | None) -> int:
        """The number of a text, its own from now on."""
        found = self._numbers.get(text)
        if found is None:
            self.texts.append(text)
            found = self._numbers[text] = len(self.texts) - 1
        return found


@dataclass(frozen=True, slots=True, eq=False)
class IndexedRows(Sequence[IndexedRow]):
    """Rows of the index as columns: ``row_ids``, ``said_at``, and the rest as [rows, 10] in ``numbers``, where ``names``
    has the texts of the first three. As a sequence, it makes the requested rows."""

    row_ids: RowIdArray
    said_at: NDArray[np.int64]
    numbers: Numbers
    names: Names

    @classmethod
    def of(cls, rows: Sequence[Sequence[Any]], names: Names | None = None) -> "IndexedRows":
        """The rows, each with the fields of an IndexedRow."""
        if names is None:
            names = Names()
        if not rows:
            return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 10), np.int32), names)
        row_ids, uids, seqs, chunks, roles, speakers, said_at, *others = zip(*rows, strict=True)
        texts = [list(map(names.number, each)) for each in (uids, roles, speakers)]
        numbers = np.array([*texts, seqs, chunks, *others], np.int64)
        # No real row has a larger one.
        kind = np.int32 if numbers.max() <= _LARGEST else np.int64
        return cls(np.array(row_ids, np.int64), np.array(said_at, np.int64), numbers.T.astype(kind, order="C"), names)

    def take(self, places: NDArray[np.int64]) -> "IndexedRows":
        """The rows at these places, in their order."""
        return IndexedRows(self.row_ids[places], self.said_at[places], self.numbers[places], self.names)

    def column(self, number: int) -> NDArray[np.int64]:
        """A column of ``numbers``."""
        return self.numbers[:, number].astype(np.int64)  # contiguous

    def __len__(self) -> int:
        return len(self.row_ids)

    @overload
    def __getitem__(self, at: int) -> IndexedRow: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[IndexedRow]: ...

    def __getitem__(self, at: int | slice) -> IndexedRow | Sequence[IndexedRow]:
        chosen = self.take(np.arange(len(self))[at].reshape(-1))
        if isinstance(at, slice):
            return chosen
        return next(iter(chosen))

    def __iter__(self) -> Iterator[IndexedRow]:
        texts = self.names.texts
        # Whole columns become lists at once: row by row it takes four times as long.
        rows = zip(self.row_ids.tolist(), self.said_at.tolist(), self.numbers.tolist(), strict=True)
        for row_id, said_at, (thread, role, speaker, seq, chunk, *others) in rows:
            yield IndexedRow(row_id, str(texts[thread]), seq, chunk, str(texts[role]), texts[speaker], said_at, *others)
