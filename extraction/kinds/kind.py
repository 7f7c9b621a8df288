"""The protocol of a kind of background job: how it reads its material, checks a model's answer, and stores the result.

A model reads messages as data with a role for each line, never as instructions. The text of a message is complete.
Arguments and results of tools are cut, as in n8n's observer: most of them is payload.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NotRequired, Protocol, TypedDict, runtime_checkable

from layerlore.memory.engine.engine import Engine, said
from layerlore.memory.messages.overflow import is_idle
from layerlore.memory.parts.own_parts import strip_messages
from layerlore.memory.parts.parts import caption_line, result_parts
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.answers import order_keys
from layerlore.memory.text.quotation import escape_marks, escape_turns, make_visible_json, quote_line
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json, Message, Role, Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Claim, Fenced, Kind
from layerlore.storage.messages import message_pages
from layerlore.storage.threads import threads

MOST_PAYLOAD = 2000
"""Characters of one call's arguments or of one result, as JSON."""
MOST_STRING = 500
MOST_ITEMS = 20
MOST_KEYS = 40

_ENCODED = linear_re.compile(r"[A-Za-z0-9+/_=-]{256,}")


class TranscriptRow(TypedDict):
    """A line of a transcript as JSON; ``part`` names the characters of a message that is not given whole."""

    seq: int
    role: Role
    name: NotRequired[str]
    said_at: str
    text: str
    part: NotRequired[str]


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """One message of a transcript. ``said_at``: ms since 1970."""

    seq: int
    role: Role
    name: str | None
    said_at: int
    text: str

    def as_json(self) -> TranscriptRow:
        row: TranscriptRow = {"seq": self.seq, "role": self.role, "said_at": iso(self.said_at), "text": self.text}
        if self.name:
            row["name"] = self.name
        return order_keys(TranscriptRow, row)


def read_lines(engine: Engine, messages: Iterable[Message], *, tools: bool) -> list[TranscriptLine]:
    """Lines for the messages that say something, in order. With ``tools``, calls and results are included, cut, and media
    as placeholders; without, the text of a line is exactly what ``said`` returns. Echoes are in none."""
    given = list(messages)
    # ``said`` strips the echoes of texts itself; calls and results are stripped here.
    if tools:
        rest = strip_messages(given)
    else:
        rest = given
    # A result may lack the name of its tool, which its call has.
    called = {
        part["id"]: part["name"]
        for message in given
        for part in (*message.answered, *message.parts)
        if part["type"] == "tool_call"
    }
    lines = (
        TranscriptLine(
            message.seq,
            message.role,
            _name(engine, message),
            message.said_at,
            _with_tools(engine, message, stripped, called) if tools else said(engine, message),
        )
        for message, stripped in zip(given, rest, strict=True)
    )
    return [line for line in lines if line.text.strip()]


def lines_as_json(lines: Sequence[TranscriptLine]) -> list[TranscriptRow]:
    """The lines as JSON: ``seq``, ``role``, ``name`` (if there is one), ``said_at`` (ISO, UTC) and ``text``."""
    return [line.as_json() for line in lines]


def _name(engine: Engine, message: Message) -> str | None:
    if not message.name:
        return None
    name = quote_line(message.name)
    if engine.redaction == "off":
        return name
    return engine.redactor.text(name)[0]


def _with_tools(engine: Engine, message: Message, stripped: Message, called: Mapping[str, str]) -> str:
    others = (_describe_part(engine, part, called) for part in stripped.parts)
    # A message's own words must not pass for a tool call.
    return "\n".join(filter(None, (escape_marks(said(engine, message)), *others)))


def _describe_part(engine: Engine, part: Json, called: Mapping[str, str]) -> str:
    match part["type"]:
        case "tool_call":
            name = engine.derived_text(quote_line(part["name"]))
            arguments = _payload(engine, part["arguments"])
            return f"[tool call {name}({arguments})]"
        case "tool_result":
            name = engine.derived_text(quote_line(part.get("name") or called.get(part["tool_call_id"], "")))
            if part.get("is_error"):
                kind = "tool error"
            else:
                kind = "tool result"
            result = _payload(engine, part["result"])
            if name:
                return f"[{kind} {name}: {result}]"
            return f"[{kind}: {result}]"
        case "file":
            named = part.get("file_name") or part.get("url")
            if named:
                return f"[file: {engine.redactor.text(quote_line(named))[0]}]"
            return "[file]"
        # The caption of an image is among the message's own words.
        case "image" if "caption" not in part:
            return "[image]"
        case _:
            return ""


def _payload(engine: Engine, value: Any) -> str:
    # Mask before cutting: half a secret is not recognised.
    seen = make_visible_json(value)
    if engine.redaction == "off":
        masked = seen
    else:
        masked = engine.redactor.json(seen)[0]
    inner = result_parts(masked)
    if inner:
        texts = map(_payload_text, inner[:MOST_ITEMS])
        text = "\n".join(_cut_string(text) for text in texts)
    else:
        cut = _cut(masked)
        if isinstance(cut, str):
            text = cut
        else:
            text = json.dumps(cut, ensure_ascii=False, separators=(",", ":"))
    # Text in a payload must not pass for a call or a result.
    text = escape_marks(text)
    if len(text) <= MOST_PAYLOAD:
        return text
    return f"{text[:MOST_PAYLOAD]}… ({len(text) - MOST_PAYLOAD} more characters)"


def _payload_text(part: Json) -> str:
    if part["type"] == "text":
        return str(part["text"])
    if "caption" in part:
        return caption_line(part["caption"])
    return f"[{part['type']}]"


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return _cut_string(value)
    if isinstance(value, list):
        if len(value) > MOST_ITEMS:
            more = [f"… ({len(value) - MOST_ITEMS} more)"]
        else:
            more = []
        return [*map(_cut, value[:MOST_ITEMS]), *more]
    if isinstance(value, dict):
        kept = {key: _cut(inner) for key, inner in list(value.items())[:MOST_KEYS]}
        if len(value) > MOST_KEYS:
            return {**kept, "…": f"{len(value) - MOST_KEYS} more keys"}
        return kept
    return value


def _cut_string(text: str) -> str:
    if len(text) > MOST_STRING:
        # Even the beginning of base64 is of no use to a model.
        if _ENCODED.fullmatch(text):
            return f"[{len(text)} characters of encoded data]"
        return f"{text[:MOST_STRING]}… ({len(text) - MOST_STRING} more characters)"
    return text


__all__ = [
    "MODEL_KINDS",
    "AnswerRefused",
    "Author",
    "Claim",
    "DigestingKind",
    "EnrichingKind",
    "Fenced",
    "JobEnd",
    "JobKind",
    "JobMaterial",
    "JoiningKind",
    "JsonSchema",
    "Kind",
    "Material",
    "MendableAnswer",
    "ModelAnswer",
    "PartialAnswer",
    "Stale",
    "TurnPart",
]

ModelAnswer = dict[str, Any]
"""The JSON object of a model's answer, before its kind has checked it."""
JsonSchema = dict[str, Any]
"""A JSON Schema."""
JobMaterial = dict[str, Any]
"""The JSON object that a model gets for a job: each kind names its own keys."""

EXTRACTIVE = "extractive"
"""The model name of text that was made without a model."""

MODEL_KINDS: tuple[Kind, ...] = tuple(kind for kind in job_rows.KINDS if kind != "digest")
"""The kinds that ask a model. The digest never does, and no budget stops them."""


class AnswerRefused(Exception):
    """An answer is not stored. The text says what was wrong and what is allowed; it is returned to the answer's author.
    ``for_model`` says it with words of the answer, and is stored nowhere."""

    def __init__(self, reason: str, *, for_model: str = "") -> None:
        super().__init__(reason)
        self.for_model = for_model or reason


class Stale(Exception):
    """The material of an answer has changed meanwhile: nothing is stored, and the job is tried again at once."""


@dataclass(frozen=True, slots=True)
class Author:
    """The author of an answer: ``extractive``, a litellm name or ``host:<client>``; and with which prompt."""

    model: str
    prompt: str


@dataclass(frozen=True, slots=True)
class TurnPart:
    """The part that a kind adds to one job about a turn that several kinds share: values of the prompt ``turn``; what
    a model gets beside the messages, where what is empty is left out; the messages as ``lines``, and ``earlier``
    ones; and the schema of the kind's member of the answer, of which ``read`` makes the kind's own answer."""

    asks: Mapping[str, Any]
    schema: JsonSchema
    read: Callable[[Any], ModelAnswer]
    given: JobMaterial = field(default_factory=dict)
    lines: tuple[TranscriptLine, ...] = ()
    earlier: tuple[TranscriptLine, ...] = ()


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The end of a job: the seq up to which it is done, None for all of it; and of the answer's items, by their place in
    it, which were stored, which said what is known already, and which were not kept for another reason; ``unproven``:
    which were stored with names or numbers that no message has. No item is repeated, since this is answered and
    kept. ``due_at``: when the rest of the job is due (ms since 1970); None: at once."""

    done_seq: int | None = None
    kept: tuple[str, ...] = ()
    duplicates: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    due_at: int | None = None


@dataclass(frozen=True, slots=True)
class Material:
    """The input that a model needs for one job.

    ``instructions`` is the rendered prompt (system text), ``content`` JSON text that is data and never instructions,
    ``schema`` the JSON Schema of the answer (an object), ``prompt`` the prompt's name and version (``observe/1``).
    ``inputs`` is what the kind needs to store the answer: it stays in memory, or is read again from the claim.
    ``beside`` names the parts of the content that only give background: an answer stays valid when they change.
    ``silent``: the material is too thin for a model, so that none works on it. ``turn``: the part of this material in a
    job that several kinds share. ``again``: an earlier answer was refused; what is refused of this one is left out.
    """

    instructions: str
    content: str
    schema: JsonSchema
    prompt: str
    inputs: Any
    beside: frozenset[str] = frozenset()
    silent: bool = False
    turn: TurnPart | None = None
    again: bool = False

    def __post_init__(self) -> None:
        # A model server may interpret the marks of its chat template in the content.
        object.__setattr__(self, "content", escape_turns(self.content))


class JobKind(Protocol):
    """One kind of background job. Usage is recorded under its name."""

    @property
    def name(self) -> Kind: ...

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """Read the job's material, in a transaction of its own. None: there is nothing to do, the job is done."""
        ...

    def read(self, answer: ModelAnswer, material: Material) -> Any:
        """Check an answer of a model or of the digest, and return what it says. Raises AnswerRefused."""
        ...

    async def commit(
        self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: Any, by: Author
    ) -> JobEnd | int | None:
        """Store the result and move the cursor, in the transaction that also ends the job.

        It awaits nothing but ``tx``: ids, times and vectors are in the result. Like every writer, it locks the thread
        (if there is one) before anything else. Returns the seq up to which the job is done if that is less than
        ``claim.seq``: the job then stays due; or a JobEnd, which says that and more. Raises Stale.
        """
        ...


@runtime_checkable
class EnrichingKind(Protocol):
    """A kind that works on an answer between reading and storing it: it embeds or redacts it, for example."""

    async def enrich(self, engine: Engine, material: Material, result: Any) -> Any:
        """Add ids, times, tokens and vectors to a result, outside any transaction. Raises AnswerRefused, Stale."""
        ...


@runtime_checkable
class DigestingKind(Protocol):
    """A kind that has an answer without a model. Others wait for a model."""

    def digest(self, material: Material) -> ModelAnswer | None:
        """An answer of the same shape, made without a model; None: this material waits for a model."""
        ...


@runtime_checkable
class PartialAnswer(Protocol):
    """An answer of which some parts cannot be stored. ``refused`` says why, without repeating the answer's text."""

    @property
    def refused(self) -> Sequence[str]: ...


@runtime_checkable
class MendableAnswer(Protocol):
    """An answer of which its author can mend what was refused. ``mendable`` says which items those are, and why."""

    @property
    def mendable(self) -> Sequence[str]: ...


@runtime_checkable
class JoiningKind(Protocol):
    """A kind whose second answer, to what was refused of the first, is added to that."""

    def join(self, first: Any, second: Any, material: Material) -> Any:
        """The items of two answers together, as one that can be stored."""
        ...


MOST_CHARS = 40_000
"""Characters that one job reads; the rest is left to the next one. A single longer message is cut to its beginning."""
EARLIER = 4
EARLIER_CHARS = 500

# The longest answer of an assistant to thanks or a greeting, in characters.
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
    """The first messages after ``began`` whose lines are wanted; None if none exist, and while nothing follows but
    greetings, thanks and short answers to them: those are read with the next messages. ``most``: how many ``read``
    returns at a time."""
    while found := await read(began):
        by_seq = {line.seq: line for line in read_lines(engine, found, tools=tools)}
        taken, lines = take_fitting(found, by_seq)
        more = len(taken) < len(found) or len(found) == most
        if wanted(lines):
            # Greetings and thanks alone are not worth a call of a model.
            if not more and _is_small_talk(lines):
                return None
            return NewMessages(began, tuple(taken), tuple(lines), more)
        began = taken[-1].seq
    return None


def _is_small_talk(lines: Sequence[TranscriptLine]) -> bool:
    # A line that begins with a bracket is a tool's: work, and not small talk.
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
        if line:
            chars += len(line.text)
        # At least one line, however long, or the job would never move on.
        if chars > MOST_CHARS and lines:
            break
        taken.append(message)
        if line:
            lines.append(replace(line, text=line.text[:MOST_CHARS]))
    return taken, lines


async def read_earlier(tx: Tx, engine: Engine, scope: Scope, thread: Thread, before: int) -> list[TranscriptLine]:
    """The last lines before a seq, which help to understand what follows; each is cut to its end."""
    spoken = await message_pages.read_spoken_before(tx, scope, thread, upto=before - 1, most=EARLIER)
    # The last words before a message explain it best.
    return [replace(line, text=line.text[-EARLIER_CHARS:]) for line in read_lines(engine, spoken, tools=False)]


async def lock_thread(tx: Tx, claim: Claim) -> Thread:
    """The job's thread, locked until the transaction ends. Raises Stale if it was deleted."""
    thread = await threads.lock_uid(tx, claim.scope, claim.thread_uid)
    if thread is None:
        raise Stale("the thread was deleted")
    return thread


def check_unchanged(now: Sequence[Message], given: Sequence[Message]) -> None:
    """Raises Stale unless the messages are as the model got them."""
    if list(now) != list(given):
        raise Stale("messages were changed or deleted meanwhile")


async def lock_spoken(
    tx: Tx,
    claim: Claim,
    cursor: threads.Cursor,
    *,
    began: int,
    read_from: int,
    messages: Sequence[Message],
) -> Thread:
    """The thread, locked. Raises Stale if the cursor or the spoken messages after it have changed."""
    thread = await lock_thread(tx, claim)
    if await threads.read_cursor(tx, claim.scope, claim.thread_uid, cursor) != began:
        raise Stale("another job read these messages meanwhile")
    now = await message_pages.read_spoken(
        tx, claim.scope, thread, after=read_from, upto=messages[-1].seq, most=len(messages) + 1
    )
    check_unchanged(now, messages)
    return thread
