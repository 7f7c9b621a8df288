"""What others do, on the same messages: plain BM25, and the usual reciprocal rank fusion of it with vectors.

In an index of the benchmark's own (SQLite's FTS5 in memory), and with no code of the server's ranking.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.conversations import Conversation, Json
from layerlore.memory.language.search_words import find_query_words
from layerlore.memory.parts.index_texts import format_date
from layerlore.memory.rules.validation import parse_time
from layerlore.storage.drivers.sqlite.driver import driver

BM25 = "BM25"
BM25_DATED = "BM25, date and speaker"
RRF = "RRF(60)"

# Cormack, Clarke and Buettcher 2009, and what most hybrid searches use.
RRF_K = 60
DEPTH = 100
PIECE_CHARS = 800
BATCH = 64


class Embeds(Protocol):
    def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]: ...


class Baselines:
    """The messages of one conversation, indexed. Building it embeds them, which takes its time."""

    def __init__(self, conversation: Conversation, embedder: Embeds | None) -> None:
        messages = [message for _, thread in conversation.threads for message in thread]
        self._ids = [message["id"] for message in messages]
        self._index = driver.connect(":memory:", check_same_thread=False)
        for name, text_of in (("plain", _plain), ("dated", dated_line)):
            self._index.execute(f'CREATE VIRTUAL TABLE {name} USING fts5(text, tokenize="porter unicode61")')
            rows = enumerate(map(text_of, messages))
            self._index.executemany(f"INSERT INTO {name} (rowid, text) VALUES (?, ?)", rows)
        self._embedder = embedder
        # Embedders read only the beginning of a long text, so each piece has a vector of its own.
        pieces = [(at, piece) for at, message in enumerate(messages) for piece in _pieces(dated_line(message))]
        self._owners = np.array([at for at, _ in pieces])
        self._vectors = embedded(embedder, [piece for _, piece in pieces]) if embedder else None

    def found(self, question: str) -> Mapping[str, list[str]]:
        """The ids of each system's first results, best first."""
        plain = self._bm25("plain", question)
        found = {BM25: plain, BM25_DATED: self._bm25("dated", question)}
        if self._embedder is not None:
            found[RRF] = fused(plain, self._nearest(question))
        return {system: [self._ids[at] for at in rows] for system, rows in found.items()}

    def dated(self, question: str, most: int) -> list[str]:
        """The ids of the first results of BM25 with day and speaker, best first."""
        return [self._ids[at] for at in self._bm25("dated", question, most)]

    def close(self) -> None:
        self._index.close()

    def _bm25(self, name: str, question: str, most: int = DEPTH) -> list[int]:
        # Quoted, so that no word is an operator of FTS5's query language.
        query = " OR ".join(f'"{word}"' for word in find_query_words(question))
        if not query:
            return []
        ranked = f"SELECT rowid FROM {name} WHERE {name} MATCH ? ORDER BY bm25({name}), rowid LIMIT ?"
        return [row[0] for row in self._index.execute(ranked, (query, most))]

    def _nearest(self, question: str) -> list[int]:
        """A message counts with its nearest piece."""
        assert self._embedder is not None
        assert self._vectors is not None
        cosines = self._vectors @ self._embedder.embed([question])[0]
        # The best piece of a message comes first, and dict.fromkeys keeps the first of each.
        owners = self._owners[np.argsort(-cosines, kind="stable")]
        return list(dict.fromkeys(owners.tolist()))[:DEPTH]


def fused(*lists: Sequence[int]) -> list[int]:
    """Reciprocal rank fusion: the sum of 1 / (60 + rank) over the lists that have it; ties by number."""
    sums: dict[int, float] = {}
    for ranked in lists:
        for rank, each in enumerate(ranked, 1):
            sums[each] = sums.get(each, 0.0) + 1 / (RRF_K + rank)
    return sorted(sums, key=lambda each: (-sums[each], each))


def embedded(embedder: Embeds, texts: Sequence[str]) -> NDArray[np.float32]:
    """One unit vector for each text, in batches."""
    batches = [embedder.embed(texts[at : at + BATCH]) for at in range(0, len(texts), BATCH)]
    return np.concatenate(batches) if batches else np.zeros((0, 1), np.float32)


def _plain(message: Json) -> str:
    """The text of a message and the captions of its images."""
    captions = [f"[image: {image['caption']}]" for image in message.get("images", ())]
    return " ".join((message["content"], *captions))


def dated_line(message: Json) -> str:
    """The message with the day, as people write it, and the speaker before it."""
    day = format_date(parse_time(message["created_at"], "created_at")) if "created_at" in message else ""
    return f"[{day}] {message['name']}: {_plain(message)}"


def _pieces(text: str) -> list[str]:
    """At most PIECE_CHARS characters each, cut at spaces where there are some."""
    found = []
    while len(text) > PIECE_CHARS:
        at = text.rfind(" ", 1, PIECE_CHARS)
        at = PIECE_CHARS if at < 0 else at
        found.append(text[:at])
        text = text[at:].lstrip()
    return [*found, text]
