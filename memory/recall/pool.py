"""The rows that a ranking compares, as columns, and what stands beside them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layerlore.storage.core.index_rows import (
    ASKS,
    CHARS,
    CHUNK,
    CONTENT_WORDS,
    EMPTY,
    ROLE,
    SEQ,
    SESSION_SEQ,
    SPEAKER,
    THREAD,
    IndexedRow,
    IndexedRows,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# The context of a message: seed 000's neighbours of a hit, which measured best here too. In places of its thread.
CONTEXT = (-2, -1, 1)

# Somebody chose to keep these. An observation only says again what messages say.
_KEPT_NOTES = ("profile", "session_memory", "plan", "attempt")
# Threads are numbered; this leaves room for the seqs of each.
_THREAD = 2**44


@dataclass(frozen=True, slots=True)
class Pool:
    """Rows of the index as columns, in any order, each row once.

    Rows of one message share a number in ``messages``, those of one session a number in ``sessions``. ``in_dialogue``:
    an assistant speaks in the row's thread, as far as the rows show it. ``entries``: which rows are of entries, each
    the only message of a thread of its own; ``notes``: of notes that somebody keeps. ``speakers``: the speaker's number in ``names``, -1 for nobody with a
    name. ``beside``: for each place of CONTEXT the row of the first chunk of the message there, or -1. Of the whole
    message: ``asks``, how far it only asks, ``empty``, how far it says nothing, both from 0 to 1, and
    ``content_words``, how many different ones it has."""

    row_ids: Ints
    messages: Ints
    sessions: Ints
    chunks: Ints
    chars: Ints
    said_at: Ints
    by_user: Flags
    entries: Flags
    notes: Flags
    in_dialogue: Flags
    speakers: Ints
    names: tuple[str, ...]
    beside: tuple[Ints, ...]
    asks: Floats
    empty: Floats
    content_words: Ints

    @classmethod
    def from_rows(cls, rows: Sequence[IndexedRow]) -> "Pool":
        """Turn rows of the index into columns."""
        table = rows if isinstance(rows, IndexedRows) else IndexedRows.of(rows)
        texts = table.names.texts
        threads, seqs, chunk = table.column(THREAD), table.column(SEQ), table.column(CHUNK)
        keys = threads * _THREAD + seqs
        role = table.column(ROLE)
        by_role = {texts[number]: role == number for number in np.unique(role).tolist()}
        nobody = np.zeros(len(table), np.bool_)
        spoken, speakers = np.unique(table.column(SPEAKER), return_inverse=True)
        names = {number: name for number, name in enumerate(texts[each] for each in spoken.tolist()) if name}
        named = np.full(len(spoken) + 1, -1, np.int64)
        named[list(names)] = np.arange(len(names))
        distinct, numbers = np.unique(threads, return_inverse=True)
        assistants = np.bincount(numbers, weights=by_role.get("assistant", nobody), minlength=len(distinct))
        return cls(
            row_ids=table.row_ids,
            messages=_number(keys),
            sessions=_number(threads * _THREAD + table.column(SESSION_SEQ)),
            chunks=chunk,
            chars=table.column(CHARS),
            said_at=table.said_at,
            by_user=by_role.get("user", nobody),
            entries=by_role.get("entry", nobody),
            notes=np.isin(role, [number for number in np.unique(role).tolist() if texts[number] in _KEPT_NOTES]),
            in_dialogue=assistants[numbers] > 0,
            speakers=named[speakers],
            names=tuple(names.values()),
            beside=_find_beside(keys, chunk),
            asks=table.column(ASKS) / 100,
            empty=table.column(EMPTY) / 100,
            content_words=table.column(CONTENT_WORDS),
        )

    def __len__(self) -> int:
        return len(self.row_ids)

    def spread_to_messages(self, chosen: Flags) -> Flags:
        """The rows of every message of which one is chosen."""
        found = np.zeros(len(self) + 1, np.bool_)
        found[self.messages[chosen]] = True
        return found[self.messages]

    def extend_to_context(self, chosen: Flags) -> Flags:
        """The rows that are chosen, and the first chunks of messages that have one of them as context: what is said
        around a message may be all that shares a word with the query. None in dialogues with an assistant."""
        around = self.spread_to_messages(chosen)
        found = chosen.copy()
        for at in self.beside:
            found |= (at >= 0) & around[at] & (self.chunks == 0) & ~self.in_dialogue
        return found


def _number(keys: Ints) -> Ints:
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def _find_beside(keys: Ints, chunks: Ints) -> tuple[Ints, ...]:
    first = np.flatnonzero(chunks == 0)
    if not len(first):
        return tuple(np.full(len(keys), -1, np.int64) for _ in CONTEXT)
    first = first[np.argsort(keys[first])]
    ordered = keys[first]
    found = []
    for place in CONTEXT:
        at = np.minimum(np.searchsorted(ordered, keys + place), len(ordered) - 1)
        found.append(np.where(ordered[at] == keys + place, first[at], -1))
    return tuple(found)
