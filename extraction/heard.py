"""What a job hears of a thread: the messages behind its cursor, as much as one answer is made of; and whether they are
still the same when the answer is stored."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from layerlore.extraction.kind import Claim, Stale
from layerlore.extraction.transcript import Line, lines_of
from layerlore.memory.engine import Engine
from layerlore.storage import messages_behind, threads
from layerlore.storage.records import Message, Scope, Thread
from layerlore.storage.transaction import Tx

MOST_CHARS = 40_000
"""Of what one job reads; the rest is the next one's. Of one message that alone is longer, the beginning."""
EARLIER = 6
EARLIER_CHARS = 1_000

Read = Callable[[int], Awaitable[list[Message]]]
"""Gives the next messages behind a seq."""


@dataclass(frozen=True, slots=True)
class Heard:
    """The messages, and what those of them say that say something. ``read_from``: where reading began; what lies
    between that and the cursor says nothing that is wanted. ``more``: there are others behind them."""

    read_from: int
    messages: tuple[Message, ...]
    lines: tuple[Line, ...]
    more: bool


async def heard(
    read: Read,
    engine: Engine,
    began: int,
    *,
    most: int,
    tools: bool = False,
    wanted: Callable[[Sequence[Line]], bool] = bool,
) -> Heard | None:
    """The first messages behind ``began`` whose lines are wanted; None when there are none. ``most``: as many as
    ``read`` gives at a time."""
    while found := await read(began):
        told = {line.seq: line for line in lines_of(engine, found, tools=tools)}
        taken, lines = fitting(found, told)
        if wanted(lines):
            more = len(taken) < len(found) or len(found) == most
            return Heard(began, tuple(taken), tuple(lines), more)
        began = taken[-1].seq
    return None


def fitting(found: Sequence[Message], told: Mapping[int, Line]) -> tuple[list[Message], list[Line]]:
    """The first messages that together say no more than MOST_CHARS, and at least one that says something; and what they
    say."""
    taken: list[Message] = []
    lines: list[Line] = []
    chars = 0
    for message in found:
        line = told.get(message.seq)
        chars += len(line.text) if line else 0
        if chars > MOST_CHARS and lines:
            break
        taken.append(message)
        if line:
            lines.append(replace(line, text=line.text[:MOST_CHARS]))
    return taken, lines


async def earlier(tx: Tx, engine: Engine, scope: Scope, thread: Thread, before: int) -> list[Line]:
    """The last that was said before a seq, to understand the rest by: of each message the end."""
    spoken = await messages_behind.spoken_before(tx, scope, thread, upto=before - 1, most=EARLIER)
    return [replace(line, text=line.text[-EARLIER_CHARS:]) for line in lines_of(engine, spoken, tools=False)]


async def locked(tx: Tx, claim: Claim) -> Thread:
    """The job's thread, held until the transaction ends. Raises Stale when it was deleted."""
    thread = await threads.lock_uid(tx, claim.scope, claim.thread_uid)
    if thread is None:
        raise Stale("the thread was deleted")
    return thread


def check_same(now: Sequence[Message], given: Sequence[Message]) -> None:
    """Raises Stale unless the messages are as they were given."""
    if list(now) != list(given):
        raise Stale("messages were changed or deleted meanwhile")
