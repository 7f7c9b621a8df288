"""Loading conversations through a client, waiting until their vectors are complete, and asking questions."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from benchmarks.conversations import Json, batches
from benchmarks.servers import Connection

MAX_TOKENS = 20_000
LEXICAL = "lexical"
# Tens of thousands of long chunks take minutes on two cores.
PATIENCE_SECONDS = 3600.0
_READY_SECONDS = 60.0
_POLL_SECONDS = 0.1


class NotComplete(Exception):
    """The vectors are not complete; the text says how far they are and what the server says is degraded."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """The model that the server names (empty: none), how many vectors there are, and the seconds waited for them."""

    model: str
    total: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The hits as the server gave them, and how long the call took."""

    hits: list[Json]
    seconds: float
    cut: bool
    lexical_only: bool

    @property
    def ids(self) -> list[str]:
        return [hit["id"] for hit in self.hits]

    @property
    def relevance(self) -> float:
        """The answer's: the score of its first hit, 0 of an answer without one."""
        return float(self.hits[0]["score"]) if self.hits else 0.0


async def load(connection: Connection, threads: Sequence[tuple[str, list[Json]]]) -> float:
    """Add the messages of each thread. Returns the seconds it took, without the server's start."""
    await connection.call("memory_status")  # the database is open
    began = time.perf_counter()
    for thread, messages in threads:
        for batch in batches(messages):
            await connection.call("add_messages", thread_id=thread, messages=batch)
    return time.perf_counter() - began


async def vectors_complete(connection: Connection, patience: float = PATIENCE_SECONDS) -> Vectors:
    """Wait until every chunk in scope has its vector, and until a question is embedded, too.

    Returns at once where there is no embedder. Raises NotComplete after ``patience`` seconds.
    """
    began = time.perf_counter()
    with anyio.move_on_after(patience):
        # The server embeds in the background, so its status is the only sign of the end.
        while (held := await _vectors(connection)) is not None and held["pending"]:
            await anyio.sleep(_POLL_SECONDS)
        if held is None:
            return Vectors("", 0, 0.0)
        seconds = time.perf_counter() - began
        if held["total"]:
            await _question_embedded(connection)
        return Vectors(held["model"], held["total"], seconds)
    raise NotComplete(f"vectors after {patience:.0f} s: {await connection.call('memory_status')}")


async def _vectors(connection: Connection) -> Json | None:
    status = await connection.call("memory_status")
    held: Json | None = status.get("vectors")
    return held if held and held.get("model") else None


async def _question_embedded(connection: Connection) -> None:
    """The model may still be loading in a server that found all vectors there."""
    with anyio.move_on_after(_READY_SECONDS):
        while (await ask(connection, "Is it ready?", limit=1)).lexical_only:
            await anyio.sleep(_POLL_SECONDS)
        return
    raise NotComplete(f"questions are not embedded: {await connection.call('memory_status')}")


async def ask(connection: Connection, question: str, *, limit: int) -> Answer:
    """Ask for hits without neighbours, each with its score."""
    began = time.perf_counter()
    answer: dict[str, Any] = await connection.call(
        "recall_memory",
        query=question,
        limit=limit,
        neighbours=False,
        max_tokens=MAX_TOKENS,
        format="json",
    )
    # Before the answer is taken apart, which is not the server's time.
    seconds = time.perf_counter() - began
    signals = answer.get("signals", [])
    return Answer(answer["hits"], seconds, "cut" in answer, set(signals) <= {LEXICAL})
