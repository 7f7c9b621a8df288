"""The messages of a thread that a job has not read yet: as many as one answer covers, and the check that they are still
the same when the answer is stored."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from layerlore.extraction.kinds.kind import Claim, Stale
from layerlore.extraction.kinds.transcript import TranscriptLine, read_lines
from layerlore.memory.engine.engine import Engine
from layerlore.memory.messages.turn_worth import is_idle
from layerlore.storage.core.records import Message, Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.messages import pages
from layerlore.storage.threads import threads

MOST_CHARS = 40_000
"""Characters that one job reads; the rest is left to the next one. A single longer message is cut to its beginning."""
EARLIER = 4
EARLIER_CHARS = 500

# An assistant's answer to thanks or a greeting is no longer than this, in characters.
_LONGEST_REPLY = 160

ReadAfter = Callable[[int], Awaitable[list[Message]]]
"""Returns the next messages after a seq."""


@dataclass(frozen=True, slots=True)
class NewMessages:
    """Messages after a job's cursor, and the lines of those that say something.

    ``read_from``: the seq after which reading began; messages between it and the cursor say nothing that is wanted.
    ``more``: further messages follow.
    """

    read_from: int
    messages: tuple[Message, ...]
    lines: tuple[TranscriptLine, ...]
    more: bool


async def read_new(
    read: ReadAfter,
    engine: Engine,
    began: int,
    *,
    most: int,
    tools: bool = False,
    wanted: Callable[[Sequence[TranscriptLine]], bool] = bool,
) -> NewMessages | None:
    """The first messages after ``began`` whose lines are wanted; None if there are none, and while nothing follows but
    greetings, thanks and short answers to them: those are read with what is said next. ``most``: how many ``read`` returns
    at a time."""
    while found := await read(began):
        by_seq = {line.seq: line for line in read_lines(engine, found, tools=tools)}
        taken, lines = take_fitting(found, by_seq)
        more = len(taken) < len(found) or len(found) == most
        if wanted(lines):
            if not more and _is_small_talk(lines):
                return None
            return NewMessages(began, tuple(taken), tuple(lines), more)
        began = taken[-1].seq
    return None


def _is_small_talk(lines: Sequence[TranscriptLine]) -> bool:
    return all(
        is_idle(line.text)
        if line.role == "user"
        else line.role == "assistant" and len(line.text) <= _LONGEST_REPLY and not line.text.startswith("[")
        for line in lines
    )


def take_fitting(
    found: Sequence[Message], lines_by_seq: Mapping[int, TranscriptLine]
) -> tuple[list[Message], list[TranscriptLine]]:
    """The first messages whose lines fit into MOST_CHARS, at least one that has a line; and their lines."""
    taken: list[Message] = []
    lines: list[TranscriptLine] = []
    chars = 0
    for message in found:
        line = lines_by_seq.get(message.seq)
        chars += len(line.text) if line else 0
        if chars > MOST_CHARS and lines:
            break
        taken.append(message)
        if line:
            lines.append(replace(line, text=line.text[:MOST_CHARS]))
    return taken, lines


async def read_earlier(tx: Tx, engine: Engine, scope: Scope, thread: Thread, before: int) -> list[TranscriptLine]:
    """The last lines before a seq, which help to understand what follows; each is cut to its end."""
    spoken = await pages.read_spoken_before(tx, scope, thread, upto=before - 1, most=EARLIER)
    return [replace(line, text=line.text[-EARLIER_CHARS:]) for line in read_lines(engine, spoken, tools=False)]


async def lock_thread(tx: Tx, claim: Claim) -> Thread:
    """The job's thread, locked until the transaction ends. Raises Stale if it was deleted."""
    thread = await threads.lock_uid(tx, claim.scope, claim.thread_uid)
    if thread is None:
        raise Stale("the thread was deleted")
    return thread


def check_unchanged(now: Sequence[Message], given: Sequence[Message]) -> None:
    """Raises Stale unless the messages are as they were given."""
    if list(now) != list(given):
        raise Stale("messages were changed or deleted meanwhile")
