"""The rows that a ranking compares, as columns, and what stands beside them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layerlore.storage.messages.indexed_rows import IndexedRow

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# The context of a message: seed 000's neighbours of a hit, which measured best here too. In places of its thread.
CONTEXT = (-2, -1, 1)

# Threads are numbered; this leaves room for the seqs of each.
_THREAD = 2**44


@dataclass(frozen=True, slots=True)
class Pool:
    """Rows of the index as columns, in any order, each row once.

    Rows of one message share a number in ``messages``, those of one session a number in ``sessions``. ``in_dialogue``:
    an assistant speaks in the row's thread, as far as the rows show it. ``entries``: which rows are of entries, each
    the only message of a thread of its own. ``speakers``: the speaker's number in ``names``, -1 for nobody with a
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
        columns: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * len(IndexedRow._fields)
        row_ids, uids, seqs, chunks, roles, speakers, said_at, chars, session_seqs, asks, empty, content_words = columns
        numbers = {uid: number for number, uid in enumerate(dict.fromkeys(uids))}
        threads = np.array([numbers[uid] for uid in uids], np.int64)
        keys = threads * _THREAD + np.array(seqs, np.int64)
        role = np.array(roles, dtype=object)
        names = {name: number for number, name in enumerate(name for name in dict.fromkeys(speakers) if name)}
        assistants = np.bincount(threads, weights=role == "assistant", minlength=1)
        chunk = np.array(chunks, np.int64)
        return cls(
            row_ids=np.array(row_ids, np.int64),
            messages=_number(keys),
            sessions=_number(threads * _THREAD + np.array(session_seqs, np.int64)),
            chunks=chunk,
            chars=np.array(chars, np.int64),
            said_at=np.array(said_at, np.int64),
            by_user=role == "user",
            entries=role == "entry",
            in_dialogue=assistants[threads] > 0,
            speakers=np.array([names.get(speaker, -1) for speaker in speakers], np.int64),
            names=tuple(names),
            beside=_find_beside(keys, chunk),
            asks=np.array(asks, np.float64) / 100,
            empty=np.array(empty, np.float64) / 100,
            content_words=np.array(content_words, np.int64),
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
