"""Lines of messages made ready to be stored: checked like what add_messages takes, masked, counted, their words found."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

from layerlore.memory.engine.engine import Engine
from layerlore.memory.messages.addition import make_drafts
from layerlore.memory.moving.line_forms import RECORD, Line, check_names, is_number
from layerlore.memory.parts.message_shapes import IncomingMessage, parse_messages
from layerlore.memory.rules.limits import Limits
from layerlore.memory.rules.validation import describe
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json
from layerlore.storage.messages.message_pages import REACH
from layerlore.storage.moving.moved_threads import MovedMessage

MOST_SKIPPED = 1_000
"""So many are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """One thing, or several of a kind after one another, that an import left out: where the first stands, and why."""

    kind: str
    where: str
    why: str
    count: int = 1


class ShownSkip(TypedDict):
    kind: str
    where: str
    why: str
    count: int


class ShownReport(TypedDict):
    """A report as a program reads it."""

    counts: dict[str, dict[str, int]]
    skipped: list[ShownSkip]
    skipped_count: int
    masked: int


@dataclass(slots=True)
class ImportReport:
    """By kind (``message``, ``entry`` and so on) what was added, was there already (``unchanged``), took the place of
    something (``replaced``) or was left out (``skipped``), and how many secrets were masked."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    skipped_count: int = 0
    masked: int = 0

    def add(self, kind: str, outcome: str, number: int = 1) -> None:
        if number:
            self.counts.setdefault(kind, Counter())[outcome] += number

    def skip(self, kind: str, where: str, why: str, number: int = 1) -> None:
        self.add(kind, "skipped", number)
        self.skipped_count += number
        if self.skipped:
            last = self.skipped[-1]
        else:
            last = None
        if last is not None and (last.kind, last.why) == (kind, why):
            self.skipped[-1] = replace(last, count=last.count + number)
        elif len(self.skipped) < MOST_SKIPPED:
            self.skipped.append(Skipped(kind, where, why, number))

    def count(self, kind: str) -> int:
        """How many of a kind were examined."""
        if kind in self.counts:
            return self.counts[kind].total()
        return 0

    def show(self) -> ShownReport:
        """The report as JSON."""
        skipped: list[ShownSkip] = []
        for each in self.skipped:
            skipped.append({"kind": each.kind, "where": each.where, "why": each.why, "count": each.count})
        return {
            "counts": {kind: dict(outcomes) for kind, outcomes in self.counts.items()},
            "skipped": skipped,
            "skipped_count": self.skipped_count,
            "masked": self.masked,
        }


_NAMES = (
    RECORD,
    "thread",
    "seq",
    "id",
    "role",
    "name",
    "parts",
    "metadata",
    "created_at",
    "said_at",
    "revision",
    "turn",
    "set",
)
_NUMBERS = ("seq", "created_at", "said_at", "revision")
_SAID = ("id", "role", "name", "parts", "metadata", "said_at", "turn", "set")


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """A line of a file, and its number there."""

    number: int
    line: Line


@dataclass(frozen=True, slots=True)
class ReadyMessages:
    """``changed``: by place, whether a message's text is not what was brought, since a secret in it was masked."""

    numbers: list[int]
    moved: list[MovedMessage]
    changed: list[bool]
    skipped: list[Skipped]
    masked: int


class DraftMaker:
    """Makes the messages of one thread ready, in their order: results are indexed with the calls that they answer."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._limits = moved_limits(engine.limits)
        self._calls: deque[list[Json]] = deque(maxlen=REACH)

    async def make(self, lines: Sequence[NumberedLine]) -> ReadyMessages:
        """Those that are as they must be; the others are named in ``skipped``."""
        skipped: list[Skipped] = []
        read: list[tuple[NumberedLine, IncomingMessage]] = []
        try:
            incoming = parse_messages([_raw(each) for each in lines], self._limits)
            read = list(zip(lines, incoming, strict=True))
        except InvalidInput:
            for each in lines:
                try:
                    read += [(each, message) for message in parse_messages([_raw(each)], self._limits)]
                except InvalidInput as error:
                    skipped.append(
                        Skipped("message", f"line {each.number}", str(error).removeprefix("messages[0]").lstrip(".: "))
                    )
        answered = [part for calls in self._calls for part in calls]
        drafts, masked = await make_drafts(self._engine, [message for _, message in read], self._engine.now(), answered)
        for draft in drafts:
            self._calls.append([part for part in draft.parts if part["type"] == "tool_call"])
        moved = [
            MovedMessage(draft, each.line["seq"], each.line["created_at"], each.line.get("revision", 1))
            for (each, _), draft in zip(read, drafts, strict=True)
        ]
        changed = [draft.parts != message.parts for (_, message), draft in zip(read, drafts, strict=True)]
        return ReadyMessages([each.number for each, _ in read], moved, changed, skipped, masked)


def moved_limits(limits: Limits) -> Limits:
    """Masking made texts longer than they came in; and how many come at once is for the import to say."""
    return limits.model_copy(
        update={
            "messages_per_call": 10_000,
            "message_text_bytes": 2 * limits.message_text_bytes,
            "metadata_bytes": 2 * limits.metadata_bytes,
        }
    )


def _raw(each: NumberedLine) -> Line:
    line = each.line
    check_names(line, "message", _NAMES)
    for name in _NUMBERS:
        value = line.get(name, 1 if name == "revision" else None)
        if name == "revision":
            most = 31
        else:
            most = 53
        if not is_number(value, 2**most) or (value < 1 and name in ("seq", "revision")):
            raise InvalidInput(f"{name}: must be a whole number below 2^{most}, not {describe(value)}")
    if not line.get("id"):
        raise InvalidInput("id: is missing")
    return {name: line[name] for name in _SAID if name in line}
