"""What the clients do: calls of four kinds in stated shares, and what came of them."""

import argparse
import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.load.wire import Answer, Caller
from benchmarks.metrics import percentile
from benchmarks.sample_text import SampleText

KINDS = ("add", "recall", "memory", "get")
DEFAULT_MIX = {"add": 4, "recall": 3, "memory": 1, "get": 2}
NOTHING = {"noop": 1}
PAGE = 20
_MOST_READ = 200
_READERS = 4


def parse_mix(text: str) -> dict[str, int]:
    """``add=4,recall=3`` as shares by kind. Raises ArgumentTypeError."""
    shares = {}
    for part in text.split(","):
        kind, _, share = part.partition("=")
        if kind not in KINDS or not share.isdecimal():
            raise argparse.ArgumentTypeError(f"{part!r} is no KIND=SHARE; the kinds are {', '.join(KINDS)}")
        shares[kind] = int(share)
    if not sum(shares.values()):
        raise argparse.ArgumentTypeError("a mix needs a share above 0")
    return shares


@dataclass(frozen=True, slots=True)
class Call:
    """``message_id``: of the message that an add stores; else empty."""

    kind: str
    tool: str
    arguments: Mapping[str, Any]
    message_id: str = ""


class Calls:
    """The calls of one client, in the thread of its name: always the same for the same name."""

    def __init__(self, name: str, shares: Mapping[str, int]) -> None:
        self.thread = name
        self.has_thread = False
        self._random = random.Random(name)
        self._text = SampleText(self._random.randrange(2**32))
        # Every ten calls have the stated shares, in an order that chance decides.
        self._kinds = [kind for kind, share in shares.items() for _ in range(share)]
        self._left: list[str] = []
        self._numbers = itertools.count()

    def next(self) -> Call:
        if not self._left:
            self._left = self._random.sample(self._kinds, len(self._kinds))
        number = next(self._numbers)
        kind = self._left.pop()
        # A thread must be there before it is read.
        if not self.has_thread and "add" in self._kinds:
            kind = "add"
        if kind == "add":
            message_id = f"{self.thread}-{number}"
            messages = [self._text.message() | {"id": message_id}]
            return Call(kind, "add_messages", {"thread_id": self.thread, "messages": messages}, message_id)
        if kind == "recall":
            return Call(kind, "recall_memory", {"thread_id": self.thread, "query": self._text.question()})
        if kind == "memory":
            content = f"Step {number}: {self._text.text()}"
            return Call(kind, "update_working_memory", {"thread_id": self.thread, "content": content})
        if kind == "get":
            return Call(kind, "get_messages", {"thread_id": self.thread, "limit": PAGE})
        return Call(kind, "noop", {"text": self._text.text()})


@dataclass(slots=True)
class Tally:
    """What came of calls: seconds of the answered ones by kind, outcomes, and the ids of acknowledged messages by thread."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    refusals: list[float] = field(default_factory=list)
    retry_after: list[float] = field(default_factory=list)
    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, call: Call, answer: Answer, calls: Calls) -> None:
        self.outcomes[answer.outcome] += 1
        if answer.outcome == "answered":
            self.seconds.setdefault(call.kind, []).append(answer.seconds)
            if call.message_id:
                calls.has_thread = True
                self.acknowledged.setdefault(calls.thread, []).append(call.message_id)
        elif answer.outcome == "busy":
            self.refusals.append(answer.seconds)
            self.retry_after.append(answer.retry_after)
        if answer.outcome in ("failed", "cut off"):
            self.errors[f"{call.kind}: {answer.text[:300]}"] += 1

    @property
    def all_seconds(self) -> list[float]:
        return [each for seconds in self.seconds.values() for each in seconds]

    @property
    def answered(self) -> int:
        return self.outcomes["answered"]

    @property
    def error_count(self) -> int:
        return self.outcomes["failed"] + self.outcomes["cut off"]

    def ms(self, share: float, kind: str = "") -> float:
        seconds = self.seconds.get(kind, []) if kind else self.all_seconds
        return percentile(seconds, share) * 1000


async def call_until(caller: Caller, calls: Calls, tally: Tally, end: float) -> None:
    """One client that sends its next call as soon as the one before was answered."""
    while time.perf_counter() < end:
        call = calls.next()
        tally.add(call, await caller.call(call.tool, call.arguments), calls)


async def find_lost(callers: Sequence[Caller], calls: Sequence[Calls], tally: Tally) -> list[str]:
    """The acknowledged messages that are not there, by reading the threads of all clients."""
    lost: list[str] = []
    work = [(caller, each.thread) for caller, each in zip(callers, calls, strict=True)]

    async def read(some: Sequence[tuple[Caller, str]]) -> None:
        for caller, thread in some:
            if acknowledged := tally.acknowledged.get(thread):
                lost.extend(set(acknowledged).difference(await _stored_ids(caller, thread)))

    # A caller has one call under way, and each of them is in one of these parts.
    async with asyncio.TaskGroup() as tasks:
        for first in range(_READERS):
            tasks.create_task(read(work[first::_READERS]))
    return lost


async def _stored_ids(caller: Caller, thread: str) -> list[str]:
    found: list[str] = []
    following: dict[str, Any] | None = {"offset": 0}
    while following:
        arguments = {"thread_id": thread, "limit": _MOST_READ, "detail": "low", "format": "json", **following}
        answer = await caller.call("get_messages", arguments)
        if answer.outcome == "busy":
            await asyncio.sleep(answer.retry_after)
            continue
        if answer.outcome != "answered":
            raise RuntimeError(f"{thread} cannot be read: {answer.text}")
        found += [message["id"] for message in answer.content["messages"]]
        following = answer.content.get("next")
    return found


def names(prefix: str, count: int) -> Iterator[str]:
    return (f"{prefix}-{number}" for number in range(count))
