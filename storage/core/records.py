"""The records that the stores take and return. Times are milliseconds since 1970 (UTC), tokens are counts, JSON is
plain Python."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypedDict

DAY_MS = 86_400_000

Role = Literal["system", "user", "assistant", "tool", "custom"]
SUBJECT_KEY = "subject"
"""The key of a thread's metadata that names whom or what it is about."""
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")
"""The roles of messages that models are shown."""
CUSTOM: Role = "custom"
"""The role of a message that a user interface keeps in a conversation for itself (seed 002): stored and paged, never
shown to a model, never indexed, counted in no tokens and in no number of messages."""
ALL_ROLES: tuple[Role, ...] = (*ROLES, CUSTOM)

Json = dict[str, Any]
StoredJson = dict[str, Any]
"""A JSON object that a caller stored and gets back: metadata, a part of a message, a checkpoint. Its keys are the caller's."""
Whose = Literal["", "project", "you"]
"""The owner of a memory as models are shown it: the project or the person; "" without a project."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The owner of a memory: every row that a tenant owns begins with these three. ``person``: where the resource is a
    project's, the resource of the person whose memory is read beside it; "" if none exists."""

    tenant_id: str
    agent_id: str
    resource_id: str
    person: str = field(default="", compare=False)

    @property
    def of_person(self) -> "Scope":
        """The person's scope: this one, if it is not a project's."""
        if self.person:
            return Scope(self.tenant_id, self.agent_id, self.person)
        return self


@dataclass(frozen=True, slots=True)
class Tenant:
    """Everything of one tenant: all its agents and resources."""

    tenant_id: str


@dataclass(frozen=True, slots=True)
class IndexedText:
    """The indexed part of a message, made by ``memory.parts.index_texts``: the words of each chunk of its text (a
    space between; "" for a chunk without a word, which is not searched), how many characters the whole text has, as
    far as they are known its thread's own mark of the session and who speaks, and of the whole text: how far it only
    asks (``asks``) and how far it says nothing (``empty``), both from 0 to 100, and how many different content words
    it has."""

    chunks: tuple[str, ...]
    chars: int
    mark: str | None = None
    speaker: str | None = None
    asks: int = 0
    empty: int = 0
    content_words: int = 0


TurnSet = Literal["input", "response"]
"""Whether a message went into its turn or came out of it (seed 002); all others are the turn's history."""


@dataclass(frozen=True, slots=True)
class TurnMark:
    """The turn that a message belongs to, by the caller's name for it."""

    turn: str
    set: TurnSet


@dataclass(frozen=True, slots=True)
class Draft:
    """A message that is ready to be stored: parsed, masked, counted; only seq and ``created_at`` are still to come.
    ``answered``: as of a message. ``has_new_id``: the id was made for this draft, so that no stored message has it."""

    id: str
    role: Role
    name: str | None
    parts: list[Json]
    metadata: Json
    said_at: int | None
    tokens: int
    encoding: str
    indexed: IndexedText
    answered: tuple[Json, ...] = ()
    mark: TurnMark | None = None
    has_new_id: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a thread. ``answered`` are the calls of earlier messages that its tool results answer, where it is
    read to be indexed or to have something made from it (``storage.messages.answered_calls``). ``whose`` names its
    owner if the memories of a project and of a person are shown together."""

    thread_id: str
    seq: int
    id: str
    role: Role
    name: str | None
    parts: list[Json]
    metadata: Json
    tokens: int
    encoding: str
    created_at: int
    said_at: int
    revision: int
    answered: tuple[Json, ...] = ()
    mark: TurnMark | None = None
    whose: Whose = ""


SearchText = Callable[[Message], IndexedText]


@dataclass(frozen=True, slots=True)
class Thread:
    """One conversation. ``thread_uid`` is new when a thread is made again under the same name.

    ``title_by``: ``caller`` (also if a caller removed it), ``extractive``, or the model that made the title; None: the
    thread has no title yet.

    ``window_policy`` is JSON, as ``memory.window.policy`` writes and reads it; None: none was set.

    Active observations cover everything up to ``observed_seq``. Buffered ones cover everything up to ``buffered_seq``,
    and the first ``buffered_chars`` of the message behind it, if that is a long one. ``raw_tokens`` are those of the
    messages behind ``observed_seq``.
    """

    thread_uid: str
    thread_id: str
    title: str | None
    metadata: Json = field(default_factory=dict)
    created_at: int = 0
    updated_at: int = 0
    next_seq: int = 1
    last_created_at: int = 0
    message_count: int = 0
    token_count: int = 0
    next_event_seq: int = 1
    next_step_seq: int = 1
    window_policy: str | None = None
    raw_tokens: int = 0
    observed_seq: int = 0
    buffered_seq: int = 0
    buffered_chars: int = 0
    current_task: str | None = None
    next_step: str | None = None
    title_by: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """The author of a change: the client program or the background job, and the tool (or command) it used.

    ``principal`` is the name of the one who is responsible: of a credential, or ``job:KIND``, ``command:NAME``,
    ``server``."""

    actor: str
    tool: str
    principal: str = "local"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """The rights of a key of the HTTP endpoints; never the key itself. ``agents`` are those it may act for (None: any
    of the tenant), ``resource_id`` whom it may serve (None: any of the tenant)."""

    key_id: str
    tenant_id: str
    agents: tuple[str, ...] | None
    resource_id: str | None
    rights: tuple[str, ...]
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None


class PlanStep(TypedDict):
    """One step of a plan; ``result`` is left out until there is one."""

    id: str
    phase: str
    description: str
    status: str
    result: NotRequired[str]


class Plan(TypedDict):
    """The plan of a thread."""

    goal: str
    current_phase: str
    iteration: int
    steps: list[PlanStep]


class StoredPlan(Plan):
    """A plan as it is stored. ``last_id`` is the number of the last step id that was made up."""

    last_id: int
