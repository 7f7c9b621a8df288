"""The engine: what every operation of memory works with, made once by the composition root and passed first.

With it come the steps that many operations share: the record of what a call did, so that it can be undone; denied calls
in the journal; the words of a message's author; and work on long texts.
"""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, cast

import anyio
from typing_extensions import TypedDict

from layerlore.memory.embedding.service import EmbeddingService
from layerlore.memory.engine import journal_lines
from layerlore.memory.engine.journal_lines import WriteOutcome, count_written
from layerlore.memory.parts import index_texts
from layerlore.memory.parts.parts import MEDIA, caption_line
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.rules.validation import Limits, check_id
from layerlore.memory.secrets.redaction import Redactor
from layerlore.memory.settings.context_settings import ContextRules, MemoryMode, RecallRules
from layerlore.memory.settings.note_settings import (
    EntryRules,
    ObservationRules,
    RetentionRules,
    TitleRules,
    WorkingMemoryRules,
)
from layerlore.memory.text.echoes import strip_echoes
from layerlore.memory.text.quotation import make_visible
from layerlore.memory.usage.call_counts import CallCounts
from layerlore.memory.window.policy import WindowRules
from layerlore.storage.audit import stored_bytes
from layerlore.storage.audit.idempotency import Answer, Request, find_kept, keep, once
from layerlore.storage.audit.stored_bytes import Quota
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import DAY_MS, IndexedText, Json, Message, Origin, Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.removal import acts
from layerlore.storage.removal.acts import ActPart

PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Denial:
    """The refused caller, the call, its scope and the class of the error. If the principal may not name the scope, the
    agent is empty: a line holds no text that another person chose."""

    scope: Scope
    origin: Origin
    error: str

    @property
    def kind(self) -> tuple[str, str, str]:
        """Events that get one line a second. Tools and resources are not in it: a caller could go through endless
        ones."""
        return self.scope.tenant_id, self.origin.principal, self.error


@dataclass(slots=True)
class _DenialCount:
    last: Denial
    more: int = 0
    written_now: bool = True


class Denials:
    """The denied calls of one event loop."""

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str, str], _DenialCount] = {}
        self._some = asyncio.Event()

    def count(self, denial: Denial) -> bool:
        """Count a denied call. Returns whether it is to be written at once."""
        counted = self._counted.get(denial.kind)
        if counted is None:
            self._counted[denial.kind] = _DenialCount(denial)
            self._some.set()
            return True
        counted.last = denial
        counted.more += 1
        return False

    async def wait(self) -> None:
        """Return once a denied call was counted, or one is still to be written."""
        await self._some.wait()

    def take(self, *, all_of_them: bool = False) -> list[tuple[Denial, int]]:
        """The denials to write, and the number of calls that each stands for; called once every PAUSE_SECONDS. Lines
        written since the last time wait for the next, unless ``all_of_them``."""
        due: list[tuple[Denial, int]] = []
        # A copy, since kinds without new calls are removed in the loop.
        for kind, counted in list(self._counted.items()):
            if counted.written_now and not all_of_them:
                counted.written_now = False
            elif counted.more:
                due.append((counted.last, counted.more))
                counted.more = 0
            else:
                del self._counted[kind]
        if not self._counted:
            self._some.clear()
        return due


class Cache(Protocol):
    """A cache that a room keeps in the engine. It is made without arguments."""

    def forget(self, scope: Scope) -> None:
        """Forget what was made of a scope's texts, at least."""


C = TypeVar("C", bound=Cache)


class Caches:
    """One cache of each kind. The engine knows none of the kinds: a room asks for its own by its class."""

    def __init__(self) -> None:
        self._made: dict[type[Cache], Cache] = {}

    def of(self, kind: type[C]) -> C:
        """The cache of a kind, made if it is not there yet. Threads may ask at the same time."""
        found = self._made.get(kind)
        if found is None:
            # If two threads make one at once, setdefault decides which of them stays.
            found = self._made.setdefault(kind, kind())
        return cast("C", found)

    def forget(self, scope: Scope) -> None:
        """Have every cache forget a scope."""
        # A copy, since another thread may add a cache meanwhile.
        for cache in list(self._made.values()):
            cache.forget(scope)


class WrittenScopes:
    """The scopes whose memory was written to. For one event loop, with one task that waits."""

    def __init__(self) -> None:
        self._scopes: set[Scope] = set()
        self._noted = asyncio.Event()
        self._branches: list[WrittenScopes] = []

    def branch(self) -> "WrittenScopes":
        """Another one, for a task of its own, that gets the same notifications from now on."""
        self._branches.append(WrittenScopes())
        return self._branches[-1]

    def notify(self, scope: Scope) -> None:
        """Note that something of a scope was committed."""
        self._scopes.add(scope)
        self._noted.set()
        for branch in self._branches:
            branch.notify(scope)

    async def wait(self) -> None:
        """Return once there is something to take."""
        await self._noted.wait()

    @property
    def noted(self) -> bool:
        """Whether there is something to take."""
        return bool(self._scopes)

    def take(self) -> set[Scope]:
        """The scopes that were noted since the last time."""
        scopes, self._scopes = self._scopes, set()
        self._noted.clear()
        return scopes


class Wake:
    """A signal that something was written. For one event loop, with one task that waits."""

    def __init__(self) -> None:
        self._noted = asyncio.Event()
        self._branches: list[Wake] = []

    def branch(self) -> "Wake":
        """Another one, for a task of its own, that gets the same notifications from now on."""
        self._branches.append(Wake())
        return self._branches[-1]

    def notify(self) -> None:
        """Note that something was committed."""
        self._noted.set()
        for branch in self._branches:
            branch.notify()

    async def wait(self) -> None:
        """Return once something was committed since the signal was cleared."""
        await self._noted.wait()

    def clear(self) -> None:
        """Wait for the next commit from now on."""
        self._noted.clear()


Redaction = Literal["all", "derived", "off"]

# Base64 is not text: looking for keys in it finds nothing but chance.
_ENCODED: dict[str, tuple[str, ...]] = {**dict.fromkeys(MEDIA, ("data",)), "reasoning": ("id", "signature", "data")}


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """How a write was sent: who sent it with which tool, its idempotency key (or empty), and the thread as the caller
    named it, if at all (a request sent again to a new process must be the same request). ``quota`` is how much may be
    stored of its tenant and resource; None: no limit exists."""

    origin: Origin
    key: str = ""
    thread: str = ""
    quota: Quota | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """The open database and the rules. ``now`` gives milliseconds since 1970, ``new_id`` a UUIDv7.

    ``redaction``: ``all`` masks secrets where text enters, ``derived`` keeps the messages as sent and masks what is
    made from them (the search index), ``off`` masks nothing. ``deleted_days`` is how long a delete can be undone;
    0 erases at once.
    """

    database: Database
    tokens: TokenCounter
    redactor: Redactor
    hmac_key: bytes
    limits: Limits
    redaction: Redaction
    deleted_days: int
    now: Callable[[], int]
    new_id: Callable[[], str]
    working_memory: WorkingMemoryRules = field(default_factory=WorkingMemoryRules)
    recall: RecallRules = field(default_factory=RecallRules)
    observation: ObservationRules = field(default_factory=ObservationRules)
    entries: EntryRules = field(default_factory=EntryRules)
    titles: TitleRules = field(default_factory=TitleRules)
    retention: RetentionRules = field(default_factory=RetentionRules)
    context: ContextRules = field(default_factory=ContextRules)
    windows: WindowRules = field(default_factory=WindowRules)
    memory: MemoryMode = "on"
    embedding: EmbeddingService | None = None
    caches: Caches = field(default_factory=Caches)
    written: WrittenScopes = field(default_factory=WrittenScopes)
    wake: Wake = field(default_factory=Wake)
    denials: Denials = field(default_factory=Denials)
    counts: CallCounts = field(default_factory=CallCounts)
    agents: "Mapping[str, Engine]" = field(default_factory=dict)
    """The engines, by name, of the agents that have settings of their own: the same database under other rules."""

    def for_agent(self, agent_id: str) -> "Engine":
        """The engine with the rules of an agent."""
        return self.agents.get(agent_id, self)

    def for_clusters(self) -> "Sequence[Engine]":
        """An engine for each cluster, the home cluster's first, for the work that goes over all tenants of a cluster. It is
        this one alone, unless the tenants are on several clusters."""
        _, *others = self.database.clusters
        return [self, *(self._on(cluster) for cluster in others)]

    def _on(self, cluster: Database) -> "Engine":
        of_cluster = replace(self, database=cluster, written=self.written.branch(), wake=self.wake.branch())
        return replace(of_cluster, agents={name: replace(of, database=cluster) for name, of in self.agents.items()})

    def masked(self, value: Any) -> tuple[Any, int]:
        """A value that enters, JSON or text, its secrets masked unless messages stay as sent; and how many there were."""
        if self.redaction == "all":
            return self.redactor.json(value)
        return (value, 0)

    def masked_parts(self, parts: list[Json]) -> tuple[list[Json], int]:
        """The parts of a message that enters, their secrets masked unless messages stay as sent; and how many there were."""
        if self.redaction == "all":
            return _masked_parts(self.redactor, parts)
        return (parts, 0)

    def search_text(
        self, name: str | None, parts: list[Json], metadata: Json, said_at: int, answered: Sequence[Json] = ()
    ) -> IndexedText:
        """The texts by which a message that enters is indexed; ``answered`` are the calls that its results answer."""
        if self.redaction == "all":
            derived = (name, parts, metadata)
        else:
            derived = self._derived(name, parts, metadata)
        return index_texts.make_index_texts(*derived, said_at, answered)

    def search_text_of(self, message: Message) -> IndexedText:
        """The texts by which a stored message is indexed."""
        return index_texts.make_index_texts(
            *self._derived(message.name, message.parts, message.metadata), message.said_at, message.answered
        )

    def embedded_texts_of(self, message: Message) -> list[str]:
        """The texts of a message's chunks that vectors are made of, in the order of the chunks' numbers."""
        _, parts, _ = self._derived(None, message.parts, {})
        return index_texts.make_embedding_texts(parts, message.answered)

    def embedded_texts_of_content(self, content: str) -> list[str]:
        """The texts of the chunks of an entry's content that vectors are made of, in the order of the chunks' numbers."""
        return index_texts.make_embedding_texts(self.derived_parts([{"type": "text", "text": content}]))

    def derived_text(self, text: str) -> str:
        """A text for what is made from it, or that a model wrote: secrets masked, unless nothing is."""
        if self.redaction == "off":
            return text
        return self.redactor.text(text)[0]

    def derived_parts(self, parts: list[Json]) -> list[Json]:
        """A stored message's parts for what is made from them: masked, unless nothing is."""
        return self._derived(None, parts, {})[1]

    def _derived(self, name: str | None, parts: list[Json], metadata: Json) -> tuple[str | None, list[Json], Json]:
        """The properties that a message passes on to notes made from it: masked, since ``redaction`` may have been
        another when it was stored."""
        if self.redaction == "off":
            return name, parts, metadata
        masked_name = self.redactor.text(name)[0] if name else name
        return masked_name, _masked_parts(self.redactor, parts)[0], self.redactor.json(metadata)[0]

    async def write(
        self, scope: Scope, sent: WriteRequest, arguments: list[Any], now: int, unit: Callable[[Tx], Awaitable[Answer]]
    ) -> Answer:
        """Run a unit in one transaction and give its answer, after the commit; the same request sent again gets the
        answer of the first. The arguments are checked JSON, and the answer holds no text: it is stored for a day. The
        journal has a line of it, also when it fails.

        Raises what the unit raises, LimitExceeded beyond the quota, InvalidInput for an unfit key, Conflict when it was used for another request.
        """
        request = self._request(sent, arguments)

        async def asked(tx: Tx) -> tuple[Answer, WriteOutcome]:
            if sent.quota is None:
                answer, is_old = await once(tx, scope, request, now, unit)
            else:
                limited = partial(once, tx, scope, request, now, unit)
                answer, is_old = await stored_bytes.within(tx, scope, sent.quota, limited)
            return answer, WriteOutcome("repeated") if is_old else WriteOutcome("done", count_written(answer))

        answer = await journal_lines.write(self.database, self.hmac_key, scope, sent.origin, now, asked)
        if self.embedding is not None:
            # After the commit, since the embedding task reads what is stored.
            self.written.notify(scope)
        self.wake.notify()
        return answer

    async def kept_answer(self, scope: Scope, sent: WriteRequest, arguments: list[Any]) -> Json | None:
        """The answer of the same request, if it was sent before, for a write of more than one transaction. Raises
        InvalidInput for an unfit key, Conflict when it was used for another request."""
        return await self.database.read(find_kept, scope, self._request(sent, arguments))

    async def keep_answer(
        self, tx: Tx, scope: Scope, sent: WriteRequest, arguments: list[Any], answer: Mapping[str, Any]
    ) -> None:
        """Keep the answer of a write of more than one transaction, if it has a key, in place of an earlier one."""
        request = self._request(sent, arguments)
        if request is not None:
            await keep(tx, scope, request, self.now(), answer)

    def forget_texts(self, scope: Scope) -> None:
        """Forget what this process has cached of a scope's texts, which are erased. Other processes do not show what
        they have cached."""
        self.caches.forget(scope)
        if self.embedding is not None:
            self.embedding.forget(scope)

    def _request(self, sent: WriteRequest, arguments: list[Any]) -> Request | None:
        if not sent.key:
            return None
        check_id(sent.key, "idempotency_key", self.limits.id_chars)
        # Only a keyed hash is stored: a plain hash of a short text can be guessed.
        body = to_json([sent.origin.tool, [sent.thread, *arguments]]).encode()
        return Request(sent.key, hmac.new(self.hmac_key, body, hashlib.sha256).hexdigest())


def _masked_parts(redactor: Redactor, parts: list[Json]) -> tuple[list[Json], int]:
    """Each value of each part on its own, so that how deep JSON may be is counted from where its sender counts."""
    masked: list[Json] = []
    total = 0
    for part in parts:
        entered: Json = {}
        for key, value in part.items():
            # A type is a word of ours by now.
            if key == "type" or key in _ENCODED.get(part["type"], ()):
                entered[key] = value
                continue
            entered[key], found = redactor.json(value)
            total += found
        masked.append(entered)
    return masked, total


async def report_denial(engine: Engine, denial: Denial) -> None:
    """Write a refused call to the journal, or count it. Raises nothing."""
    if engine.denials.count(denial):
        await _write_denial(engine, denial, 1)


async def keep_reporting_denials(engine: Engine) -> None:
    """Write the calls that were only counted to the journal, until cancelled. Raises nothing."""
    while True:
        await engine.denials.wait()
        # A flood of refused calls writes one line a second, not one a call.
        await anyio.sleep(PAUSE_SECONDS)
        for denial, calls in engine.denials.take():
            await _write_denial(engine, denial, calls)


async def report_counted_denials(engine: Engine) -> None:
    """Write all calls that were only counted to the journal, before the database is closed. Raises nothing."""
    for denial, calls in engine.denials.take(all_of_them=True):
        await _write_denial(engine, denial, calls)


async def _write_denial(engine: Engine, denial: Denial, calls: int) -> None:
    line = journal_lines.make_line(
        engine.hmac_key,
        denial.scope,
        denial.origin,
        "denied",
        engine.now(),
        counts={"calls": calls},
        error=denial.error,
    )
    await journal_lines.append(engine.database, denial.scope, line)


UNDO_PREFIX = "u_"


class UndoId(TypedDict, total=False):
    """The id that undoes a call; left out where nothing of it can be undone."""

    undo: str


def make_undo_id(engine: Engine) -> str:
    """A new id, short enough for a person to type: ``u_`` and eight letters and digits."""
    # UUIDv7s of one moment begin alike, so their hash is used; five bytes make eight letters without padding.
    return UNDO_PREFIX + base64.b32encode(hashlib.sha256(engine.new_id().encode()).digest()[:5]).decode().lower()


def undoable_since(engine: Engine, now: int) -> int:
    """The time (milliseconds since 1970) before which nothing can be undone any more."""
    return now - engine.deleted_days * DAY_MS


async def record_act(
    tx: Tx, engine: Engine, scope: Scope, undo_id: str, tool: str, parts: Sequence[ActPart], now: int
) -> UndoId:
    """Write down what a call did. Returns what its answer says of it: ``undo``, or nothing where nothing is stored."""
    # With 0 days a delete erases at once, so nothing can be undone.
    if not parts or engine.deleted_days == 0:
        return {}
    kept_since = undoable_since(engine, now)
    await acts.record(tx, scope, undo_id, tool, parts, now=now, kept_since=kept_since)
    return {"undo": undo_id}


def said(engine: Engine, message: Message) -> str:
    """The texts of a message and the captions of its images, a line break between them, without the blocks that we put
    there and, unless redaction is off, with secrets masked; nothing hidden is in them. No tool calls or results, no
    reasoning, no other media.

    Offsets of evidence and of pieces are into this text.
    """
    texts = []
    for part in message.parts:
        if part["type"] == "text":
            texts.append(strip_echoes(make_visible(part["text"], engine.derived_text)))
        elif part["type"] == "image" and "caption" in part:
            texts.append(caption_line(make_visible(part["caption"], engine.derived_text)))
    # Masked once more: a secret may be whole only after a block between its parts was removed.
    return engine.derived_text("\n".join(filter(None, texts)))


# Long texts are worked on one at a time, in a thread of its own. A pattern that goes over a text holds the interpreter
# meanwhile, as most steps in C do. While there is one such thread, a short call waits for one step of it, and not for a step
# of each of many.
_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")

_THREAD = ThreadPoolExecutor(1, thread_name_prefix="long-texts")


async def work_on_long_text(function: Callable[_Given, _Made], *args: _Given.args, **named: _Given.kwargs) -> _Made:
    """The result or the error of the function, once the earlier long texts are done."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_THREAD, lambda: function(*args, **named))
