"""Rows as lines of an export, and lines as rows again, checked and masked. Lines of messages are checked like what
add_messages takes, masked and counted, and their words are found."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, TypeGuard, get_args

from layerlore.memory.engine.engine import Engine
from layerlore.memory.entries.remember_requests import KINDS
from layerlore.memory.messages.addition import make_drafts
from layerlore.memory.parts.message_shapes import IncomingMessage, parse_messages
from layerlore.memory.removal.stored_redaction import StoredContent
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.validation import Limits, check_json, check_moment, check_text, describe, describe_choices
from layerlore.memory.text.trust import TRUSTS
from layerlore.memory.work.pending_calls import check_calls
from layerlore.memory.work.plan_rules import MOST_BYTES, STATUSES
from layerlore.memory.work.run_lists import LINE_COUNTS
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput, LimitExceeded
from layerlore.storage.core.json_text import to_json, value_of
from layerlore.storage.core.records import Json
from layerlore.storage.core.tables.columns import CONTENT
from layerlore.storage.derived.entries import Origin
from layerlore.storage.messages.message_pages import REACH
from layerlore.storage.moving.moved_entries import MovedSource
from layerlore.storage.moving.moved_rows import PLAN, RUN, MovedColumn, MovedTable, VersionRun, describe_columns
from layerlore.storage.moving.moved_threads import COUNTERS, CURSORS, DESCRIBED, MessageOutcome, MovedMessage

MOST_SMALL = 2**31
"""Some columns hold numbers below this: revisions, levels."""


def is_number(value: Any, most: int = 2**53) -> TypeGuard[int]:
    """Whether a value is a whole number that any program reads exactly, and with which the databases can count on."""
    # isinstance would let True pass.
    return type(value) is int and abs(value) < most


class ThreadPlaces:
    """By the seq that a message had, where it is. Only what is elsewhere is written down. ``same_uid``: the thread has the
    uid that it had."""

    def __init__(self, uid: str, same_uid: bool) -> None:
        self.uid = uid
        self.same_uid = same_uid
        self.same = True
        self._elsewhere: dict[int, tuple[int, int] | None] = {}
        self._texts: set[int] = set()

    def put(self, seq: int, revision: int, put: MessageOutcome, changed: bool) -> None:
        """Note where a message is. ``changed``: its text is another, so that no place in it is where it was."""
        if put.seq != seq or put.revision != revision:
            self._elsewhere[seq] = (put.seq, put.revision)
        if changed or put.status == "kept":
            self._texts.add(seq)
        if put.seq != seq or put.status == "kept":
            self.same = False

    def lose(self, seq: int) -> None:
        """Note that a message is not here."""
        self._elsewhere[seq] = None
        self.same = False

    def find(self, seq: int, revision: int | None = None) -> tuple[int, int] | None:
        """The seq and the revision of a message; None if it is not here, or not with the text of that revision."""
        if revision is not None and seq in self._texts:
            return None
        return self._elsewhere.get(seq, (seq, revision or 1))

    def find_run(self, first: int, last: int) -> tuple[int, int] | None:
        """The shortest run that has all messages of a run; None if none of them is here."""
        moved = {seq: place for seq, place in self._elsewhere.items() if first <= seq <= last}
        seqs = [place[0] for place in moved.values() if place is not None]
        while first in moved:
            first += 1
        while last in moved:
            last -= 1
        if first <= last:
            seqs += [first, last]
        if seqs:
            return (min(seqs), max(seqs))
        return None


def read_runs(line: Json, version: int, here: Mapping[str, ThreadPlaces]) -> list[VersionRun]:
    """The runs of messages that a version was made from, as far as their threads are here."""
    found = []
    for source, places in _sources(line, here):
        first, last = source.get("from_seq"), source.get("to_seq")
        if is_number(first) and is_number(last) and (run := places.find_run(first, last)):
            found.append(VersionRun(version, places.uid, *run))
    return found


def read_entry_sources(line: Json, here: Mapping[str, ThreadPlaces]) -> list[MovedSource]:
    """The places of an entry in messages that are here, with their earlier text."""
    found = []
    for source, places in _sources(line, here):
        numbers = [source.get(name) for name in ("seq", "revision", "starts", "ends", "created_at")]
        if not all(map(is_number, numbers)) or not isinstance(source.get("label"), str):
            continue
        place = places.find(source["seq"], source["revision"])
        if place is not None:
            span = (source["starts"], source["ends"], source["label"], source["created_at"])
            found.append(MovedSource(places.uid, *place, *span))
    return found


def _sources(line: Json, here: Mapping[str, ThreadPlaces]) -> list[tuple[Json, ThreadPlaces]]:
    sources = line.get("sources")
    if isinstance(sources, list):
        named = [each for each in sources if isinstance(each, dict)]
    else:
        named = []
    return [(each, here[name]) for each in named if isinstance(name := each.get("thread"), str) and name in here]


_CLAIM = ("claim", "claimed_by", "claimed_at", "claimed_until")


def check_run(line: Json, where: str, limits: Limits) -> None:
    """Raises InvalidInput or LimitExceeded for a run that no tool could have stored."""
    if not isinstance(line.get("metadata"), dict):
        raise InvalidInput(f"{where}.metadata: must be an object, not {describe(line.get('metadata'))}")
    # Masking made ids and names longer than they came in.
    masked = limits.model_copy(update={"id_chars": 2 * limits.id_chars, "name_chars": 2 * limits.name_chars})
    try:
        check_calls(line.get("pending"), masked)
    except InvalidInput as error:
        # The check is that of a tool, whose argument has another name than the field of the line.
        raise InvalidInput(f"{where}.{str(error).replace('pending_tool_calls', 'pending', 1)}") from None
    shapes: Mapping[str, Callable[[Any], bool]] = {
        "resumed": _is_answer,
        "answered": lambda each: isinstance(each, str),
        "usage": _is_spent,
    }
    for name, fits in shapes.items():
        value = line.get(name)
        if not isinstance(value, list) or not all(map(fits, value)):
            raise InvalidInput(f"{where}.{name}: is not what an export writes there")
    # Another holder may take over a running run when its claim ends, so it must have one.
    if line.get("status") == "running" and any(line.get(name) is None for name in _CLAIM):
        raise InvalidInput(f"{where}: a run that is running has {', '.join(_CLAIM)}")


def check_plan(plan: Any, where: str) -> None:
    """Raises InvalidInput for a plan that no tool could have stored."""
    texts, numbers = ("goal", "current_phase"), ("iteration", "last_id")
    whole = isinstance(plan, dict) and isinstance(plan.get("steps"), list)
    if not whole or not _has_texts(plan, texts) or not all(is_number(plan.get(name)) for name in numbers):
        raise InvalidInput(f"{where}: must have {', '.join((*texts, *numbers, 'steps'))}, as an export writes them")
    ids = [step["id"] for step in plan["steps"] if _is_step(step)]
    if len(set(ids)) < len(plan["steps"]):
        raise InvalidInput(f"{where}.steps: each must have an id of its own, phase, status and description")


def _is_step(step: Any) -> bool:
    named = isinstance(step, dict) and _has_texts({"result": "", **step}, ("id", "phase", "description", "result"))
    return named and step.get("status") in STATUSES


def _has_texts(value: Json, names: Sequence[str]) -> bool:
    return all(isinstance(value.get(name), str) for name in names)


def _is_answer(value: Any) -> bool:
    if not isinstance(value, dict) or "data" not in value or not is_number(value.get("at")):
        return False
    return all(isinstance(value.get(name, ""), str) for name in ("tool_call_id", "decision", "by"))


def _is_spent(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 2 + LINE_COUNTS:
        return False
    return all(isinstance(each, str) for each in value[:2]) and all(map(is_number, value[2:]))


Line = dict[str, Any]
"""A line of a file: a JSON object whose keys are names of columns, as its table has them (``docs/moving.md``)."""
FORMAT = "layerlore"
VERSION = 1
RECORD = "record"
"""The name in a line that says what it is."""

_ALLOWED: dict[tuple[str, str], Collection[str]] = {
    ("observations", "marker"): ("critical", "important", "info", "completion"),
    ("observations", "status"): ("buffered", "active", "superseded", "dropped"),
    ("observations", "trust"): TRUSTS,
    ("runs", "status"): ("running", "suspended", "completed", "failed", "cancelled"),
    ("session_memories", "change"): ("replace", "append", "restore", "clear", "cleared"),
    ("user_profiles", "change"): ("replace", "append", "restore", "clear", "cleared"),
    ("entries", "status"): ("active", "superseded", "wrong"),
    ("entries", "kind"): KINDS,
    ("entries", "origin"): get_args(Origin),
    ("entries", "trust"): TRUSTS,
}
_IDS = {"operation_id", "run_id", "actor", "tool", "type", "workflow_id", "entry_id", "superseded_by"}
_UID = linear_re.compile("[A-Za-z0-9-]{1,64}")
_STATE = (*COUNTERS, *CURSORS, "current_task", "next_step", "updated_at")
_ENTRY = (
    *("entry_id", "content", "kind", "status", "superseded_by", "origin", "trust", "model", "prompt", "created_at"),
    *("seen_at", "pinned_at", "expires_at", "unproven", "subject"),
)
THREAD_FIELDS = ("uid", "created_at", "updated_at", *DESCRIBED)


class LineForms:
    """Writes rows as lines, and reads lines as rows for an engine: with its limits, and masked as its ``redaction`` says."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._content = StoredContent(engine)
        self._most = _most_bytes(engine)

    def read_row(self, of: MovedTable, line: Line, where: str) -> tuple[dict[str, Any], int]:
        """The row of a line, by column as it is stored, and how many secrets were masked. Raises InvalidInput."""
        names = [name for name in of.columns if name != "thread_uid"]
        check_names(line, where, names, (RECORD, "thread", "sources"))
        row = self._read(of.table.name, names, of.json, line, where)
        if of is RUN:
            check_run(line, where, self._engine.limits)
        elif of is PLAN:
            check_plan(line.get("plan"), f"{where}.plan")
        return row

    def read_thread(self, line: Line, where: str) -> tuple[dict[str, Any], int]:
        """The fields that describe a thread. Raises InvalidInput."""
        check_names(line, where, (RECORD, "thread", *THREAD_FIELDS))
        names = (*DESCRIBED, "created_at", "updated_at")
        found, masked = self._read("threads", names, frozenset({"metadata", "window_policy"}), line, where)
        if not isinstance(line.get("metadata", {}), dict):
            raise InvalidInput(f"{where}.metadata: must be an object, not {describe(line['metadata'])}")
        title = found["title"]
        # Masking may have made the title longer than a tool takes it.
        if title is not None and len(title) > 2 * self._engine.limits.title_chars:
            raise LimitExceeded(f"{where}.title: {len(title):,} characters are too many")
        uid = line.get("uid")
        if not isinstance(uid, str) or not _UID.fullmatch(uid):
            raise InvalidInput(f"{where}.uid: must be 1 to 64 letters, digits and hyphens, not {describe(uid)}")
        return {**found, "uid": uid}, masked

    def read_state(self, line: Line, where: str) -> tuple[dict[str, Any], int]:
        """How far a thread has been counted and read. Raises InvalidInput."""
        check_names(line, where, (RECORD, "thread", *_STATE))
        return self._read("threads", _STATE, frozenset(), line, where)

    def read_entry(self, line: Line, where: str) -> tuple[dict[str, Any], int]:
        """An entry, without its sources. Raises InvalidInput."""
        check_names(line, where, (RECORD, "sources", *_ENTRY))
        found, masked = self._read("entries", _ENTRY, frozenset(), line, where)
        if not found["content"].strip() or len(found["content"]) > 2 * self._engine.entries.max_entry_length:
            most = self._engine.entries.max_entry_length
            raise LimitExceeded(
                f"{where}.content: {len(found['content']):,} characters; 1 to {most:,} are allowed in one entry"
            )
        return found, masked

    def _read(
        self, table: str, names: Iterable[str], json: Collection[str], line: Line, where: str
    ) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        masked = 0
        for column in describe_columns(table, names):
            name = column.name
            value = _check(table, column, line.get(name), f"{where}.{name}", name in json)
            if value is not None and (content := CONTENT.get(table, {}).get(name)) is not None:
                size, most = len(value.encode()), self._most.get((table, name), self._most["", ""])
                if size > most:
                    raise LimitExceeded(f"{where}.{name}: {size:,} bytes; at most {most:,} are allowed")
                # With "derived", texts stay as they were sent, and only what was made from them is masked.
                if self._engine.redaction == "all" or (self._engine.redaction == "derived" and not content.as_sent):
                    value, count = self._content.mask(content.form, value)
                    masked += count
            found[name] = value
        return found, masked


def check_names(line: Line, where: str, known: Collection[str], also: Collection[str] = ()) -> None:
    """Raises InvalidInput for a name that lines of this type have not."""
    for name in line:
        if name not in known and name not in also:
            raise InvalidInput(f"{where}: unknown name {describe(name)}; {describe_choices(name, [*also, *known])}")


def _check(table: str, column: MovedColumn, value: Any, where: str, is_json: bool) -> Any:
    if value is None:
        if not column.nullable:
            raise InvalidInput(f"{where}: is missing")
        return None
    if is_json:
        # A run's state may hold any text but half a character: it is never looked into.
        if table != "runs":
            check_json(value, where, depth=65)
        return _exact(value, where)
    if column.is_number:
        if not is_number(value, MOST_SMALL if column.is_small else 2**53):
            if column.is_small:
                most = 31
            else:
                most = 53
            raise InvalidInput(f"{where}: must be a whole number below 2^{most}, not {describe(value)}")
        return value
    text = check_text(value, where)
    allowed = _ALLOWED.get((table, column.name))
    if allowed is not None and text not in allowed:
        raise InvalidInput(f"{where}: unknown value {describe(text)}; {describe_choices(text, list(allowed))}")
    if column.name in _IDS and len(text) > 4096:
        raise LimitExceeded(f"{where}: {len(text):,} characters are too many")
    return text


def _exact(value: Any, where: str) -> str:
    try:
        text = to_json(value)
        # Half of a surrogate pair passes as JSON, but cannot be stored as UTF-8.
        text.encode()
    except (ValueError, RecursionError):
        raise InvalidInput(f"{where}: is no JSON that can be stored") from None
    return text


def _most_bytes(engine: Engine) -> dict[tuple[str, str], int]:
    """How long each column may be. Masking makes texts longer than they came in: twice of what a tool takes."""
    limits: Limits = engine.limits
    document = engine.working_memory.max_bytes
    most = {
        ("", ""): max(limits.message_text_bytes, MOST_BYTES),
        ("threads", "metadata"): limits.metadata_bytes,
        ("threads", "window_policy"): limits.metadata_bytes,
        ("runs", "metadata"): limits.metadata_bytes,
        ("runs", "state"): limits.run_state_bytes,
        ("runs", "pending"): limits.run_pending_bytes,
        ("runs", "resumed"): limits.run_state_bytes,
        ("runs", "output"): limits.run_data_bytes,
        ("steps", "body"): limits.step_bytes,
        ("events", "payload"): max(limits.step_bytes, MOST_BYTES),
        ("session_memories", "content"): document,
        ("user_profiles", "content"): document,
    }
    return {name: 2 * size for name, size in most.items()}


def make_row_line(of: MovedTable, row: Mapping[str, Any], **more: Any) -> Line:
    """The line of a row as it is stored. A column that is null is left out."""
    line: Line = {RECORD: of.line, **more}
    for name in of.columns:
        if name != "thread_uid" and row[name] is not None:
            line[name] = value_of(row[name]) if name in of.json else row[name]
    return line


def make_thread_line(row: Mapping[str, Any]) -> Line:
    """The line that a thread begins with."""
    line: Line = {RECORD: "thread", "thread": row["thread_id"], "uid": row["thread_uid"]}
    for name in ("created_at", "updated_at", *DESCRIBED):
        if row[name] is not None:
            line[name] = value_of(row[name]) if name in ("metadata", "window_policy") else row[name]
    return line


def make_state_line(row: Mapping[str, Any]) -> Line:
    """The line that a thread ends with."""
    line: Line = {RECORD: "thread_state", "thread": row["thread_id"]}
    return line | {name: row[name] for name in _STATE if row[name] is not None}


def check_header(line: Line) -> None:
    """Raises InvalidInput for a file that is not an export of ours, or one of a later format."""
    if line.get("format") != FORMAT:
        raise InvalidInput(f"this is not an export of layerlore: its format is {describe(line.get('format'))}")
    version = line.get("version")
    if type(version) is not int or version > VERSION:
        raise InvalidInput(
            f"the file has version {version} of the format, and this program reads up to {VERSION}: update layerlore"
        )


MOST_SKIPPED = 1_000
"""At most this many are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class SkippedRows:
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
    skipped: list[SkippedRows] = field(default_factory=list)
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
        # A thousand messages that are left out for one reason take one entry of the report.
        if last is not None and (last.kind, last.why) == (kind, why):
            self.skipped[-1] = replace(last, count=last.count + number)
        elif len(self.skipped) < MOST_SKIPPED:
            self.skipped.append(SkippedRows(kind, where, why, number))

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
_SAID = ("id", "role", "name", "parts", "metadata", "said_at", "turn", "set")


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """A line of a file, and its number there. ``broken``: why it cannot be read; "" for one that can."""

    number: int
    line: Line
    broken: str = ""


@dataclass(frozen=True, slots=True)
class ReadyMessages:
    """``changed``: by place, whether a message's text is not what was brought, since a secret in it was masked."""

    numbers: list[int]
    moved: list[MovedMessage]
    changed: list[bool]
    skipped: list[SkippedRows]
    masked: int


class DraftMaker:
    """Makes the messages of one thread ready, in their order: results are indexed with the calls that they answer."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._limits = moved_limits(engine.limits)
        self._calls: deque[list[Json]] = deque(maxlen=REACH)

    async def make(self, lines: Sequence[NumberedLine]) -> ReadyMessages:
        """Those that are as they must be; the others are named in ``skipped``."""
        skipped: list[SkippedRows] = []
        read: list[tuple[NumberedLine, IncomingMessage]] = []
        try:
            incoming = parse_messages([_raw(each) for each in lines], self._limits)
            read = list(zip(lines, incoming, strict=True))
        # One bad line must not keep out its batch, so each is tried alone.
        except InvalidInput:
            for each in lines:
                try:
                    read += [(each, message) for message in parse_messages([_raw(each)], self._limits)]
                except InvalidInput as error:
                    skipped.append(
                        SkippedRows(
                            "message", f"line {each.number}", str(error).removeprefix("messages[0]").lstrip(".: ")
                        )
                    )
        answered = [part for calls in self._calls for part in calls]
        drafts, masked = await make_drafts(self._engine, [message for _, message in read], self._engine.now(), answered)
        for draft in drafts:
            # A result may answer a call of an earlier batch, at most REACH messages before.
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
    for name in ("seq", "created_at", "said_at", "revision"):
        value = line.get(name, 1 if name == "revision" else None)
        if name == "revision":
            most = 31
        else:
            most = 53
        if not is_number(value, 2**most) or (value < 1 and name in ("seq", "revision")):
            raise InvalidInput(f"{name}: must be a whole number below 2^{most}, not {describe(value)}")
    # Without an id a second import would not find the message, and store it twice.
    if not line.get("id"):
        raise InvalidInput("id: is missing")
    check_moment(line["said_at"], "said_at", describe(line["said_at"]))
    # A number that a caller gives is a time since 1990, but a message may be dated long before that.
    return {**{name: line[name] for name in _SAID if name in line}, "said_at": iso(line["said_at"])}
