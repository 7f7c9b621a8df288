"""The lexical index: adds and removes messages, and finds the rows of a scope that have a word.

Both databases keep the words of a chunk beside a row of ``search_rows``, with an opaque token of the scope among them
that every query is ANDed with: cost follows the scope, not the store. Neither ranks: the answer is, for each word, the
rows that have it, so that scores are computed once, in Python, with frequencies counted inside the scope.

An entry is indexed as the only message of a thread of its own. Entries have a token of their own beside the scope's, so
that what looks for entries alone costs what there is of them. Notes (``derived.notes``) are indexed as the messages of
a thread that is named after their place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import delete

from layerlore.storage.core.index_rows import RowIdArray
from layerlore.storage.core.records import IndexedText, Role, Scope
from layerlore.storage.core.scopes import (
    KINDS,
    Kind,
    NoteKind,
    in_scope,
    in_thread,
    note_places,
    of_scope,
    of_thread,
    scope_token,
)
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import search_rows
from layerlore.storage.core.transaction import Tx

# Which rules made the indexed text; rows of another version are rebuilt. The index on those rows names it, too.
TEXT_VERSION = 4

QUIET = "q" * 65
"""A word that marks the rows with hardly any content. It is longer than any word of a text, and a list of such rows
costs as much as one of a word."""
_ASKS_ONLY = 80
_EMPTY = 50
_SHORT_QUESTION = 15


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """The place of a message, an entry or a note, who said it and when (milliseconds), and what of it is indexed."""

    thread_uid: str
    seq: int
    role: Role | Literal["entry"] | NoteKind
    said_at: int
    indexed: IndexedText


def kind_of(role: str) -> Kind:
    """The part of the index that a row with this role stands in."""
    if role == "entry":
        return "entry"
    return "message"


_REMOVE = delete(search_rows).where(in_thread(search_rows), any_of(search_rows.c.seq, "seqs"))
_REMOVE_THREADS = delete(search_rows).where(in_scope(search_rows), any_of(search_rows.c.thread_uid, "uids"))


async def put(tx: Tx, scope: Scope, entries: Sequence[IndexEntry]) -> None:
    """Index messages that are not in the index; a chunk without a word is not searched.

    Each gets its session: that of the indexed message before it in the thread if both have the same mark or, without
    a mark of its own, less than SESSION_GAP_MS lies between them; else one of its own.
    """
    rows: list[dict[str, Any]] = [
        {
            **of_thread(scope, entry.thread_uid),
            "seq": entry.seq,
            "chunk": chunk,
            "text_version": TEXT_VERSION,
            "role": entry.role,
            "speaker": entry.indexed.speaker,
            "said_at": entry.said_at,
            "chars": entry.indexed.chars,
            "mark": entry.indexed.mark,
            "asks": entry.indexed.asks,
            "empty": entry.indexed.empty,
            "content_words": entry.indexed.content_words,
            "words": f"{words} {QUIET}" if _is_quiet(entry.indexed) else words,
            # A message has one token, an entry two: that of the scope and that of its entries.
            "scope_tokens": " ".join(dict.fromkeys([scope_token(scope), scope_token(scope, kind_of(entry.role))])),
        }
        # In order of seq: each message takes its session from the one before it.
        for entry in sorted(entries, key=lambda entry: entry.seq)
        for chunk, words in enumerate(entry.indexed.chunks)
        if words
    ]
    if rows:
        await tx.backend.search.add(tx, rows)


def _is_quiet(indexed: IndexedText) -> bool:
    """A long question names its subject."""
    return indexed.empty >= _EMPTY or (indexed.asks >= _ASKS_ONLY and indexed.content_words <= _SHORT_QUESTION)


async def remove(tx: Tx, scope: Scope, thread_uid: str, seqs: Sequence[int]) -> None:
    """Take messages out of the index."""
    await tx.run(_REMOVE, **of_thread(scope, thread_uid), seqs=list(seqs))


async def remove_thread(tx: Tx, scope: Scope, thread_uid: str) -> None:
    """Take a whole thread out of the index, with its notes."""
    await tx.run(_REMOVE_THREADS, **of_scope(scope), uids=[thread_uid, *note_places(thread_uid)])


async def postings(
    tx: Tx, scope: Scope, words: Sequence[str], *, most: int, kinds: Sequence[Kind] = KINDS
) -> dict[str, RowIdArray]:
    """For each word, the row ids in the scope that have it or a word of the same stem: the newest ``most`` of them,
    ascending."""
    token = scope_token(scope, "message" if "message" in kinds else "entry")
    # Entries have the token of the scope as well, so a search for messages alone has to leave them out.
    if "entry" in kinds:
        without = ""
    else:
        without = scope_token(scope, "entry")
    return await tx.backend.search.postings(tx, token, without, words, most)
