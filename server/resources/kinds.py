"""The kinds of resources, each with its texts, its allowed query and the tool whose answer it shows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypedDict

from layerlore.memory.entries.entry_answers import EntryPage, EntryRow
from layerlore.memory.observations.observation_answers import ThreadNotes, WaitingNotes
from layerlore.memory.rules.validation import check_id
from layerlore.server.tools.curation import memory_status
from layerlore.server.tools.declaration import Action, Call, Declaration
from layerlore.server.tools.messages import get_messages
from layerlore.server.tools.plan import plan
from layerlore.server.tools.recall import recall_memory
from layerlore.server.tools.runs import get_run, list_runs
from layerlore.server.tools.steps import list_events
from layerlore.server.tools.threads import list_threads
from layerlore.server.tools.working_memory import get_working_memory
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import Json

if TYPE_CHECKING:
    from mcp.types import Annotations

Reader = Literal["user", "assistant"]

Kind = Literal[
    "profile",
    "threads",
    "status",
    "recall",
    "thread",
    "messages",
    "observations",
    "session-memory",
    "plan",
    "runs",
    "events",
    "run",
    "run-state",
    "entries",
    "entry",
]

MARKDOWN = "text/markdown"
JSON = "application/json"
_BOTH: tuple[Reader, ...] = ("user", "assistant")
_PEOPLE: tuple[Reader, ...] = ("user",)
# Threads, runs or entries in one resource.
_MOST_LISTED = 100
# A resource for programs has as many tokens as the tool gives in one answer, since a URI cannot request more.
_MOST_TOKENS = 20_000


@dataclass(frozen=True, slots=True)
class Address:
    """The target of a URI. ``thread_id``, ``run_id`` and ``entry_id`` are "" for kinds without them."""

    kind: Kind
    thread_id: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    run_id: str = ""
    entry_id: str = ""

    @property
    def thread(self) -> dict[str, str]:
        return {"thread_id": self.thread_id}


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A kind of resource. ``read_by``: its readers: a model, people with their programs, or both. ``priority``: 0 to 1.

    ``source``: the tool whose answer it shows, or a function that takes a Call; ``arguments`` makes the source's arguments
    from the address. ``rows``: the key of a list in the answer whose only row is the resource. ``query``: the names that
    the query of a URI may have, with whole numbers as values, except for those in TEXT_QUERIES.
    """

    title: str
    text: str
    mime_type: str
    read_by: tuple[Reader, ...]
    priority: float
    source: Declaration | Action
    arguments: Callable[[Address], Json]
    query: tuple[str, ...] = ()
    rows: str = ""
    of_a_thread: bool = False

    def annotations(self, last_modified: str | None = None) -> "Annotations":
        from mcp.types import Annotations

        return Annotations(audience=list(self.read_by), priority=self.priority, last_modified=last_modified)


async def read_observations(call: Call, thread_id: str, before: str = "") -> ThreadNotes:
    """A conversation's observations, oldest first, those before a seq if one is passed, else with the notes that wait
    to be shown. No tool gives them alone: a model finds them in its context. Raises InvalidInput, NotFound."""
    from layerlore.memory.observations import observation_text

    check_id(thread_id, "thread_id", call.engine.limits.thread_id_chars)
    waiting: WaitingNotes = {}
    if not before:
        waiting = await observation_text.list_waiting_notes(call.engine, call.scope, thread_id)
    listed = await observation_text.list_observations(
        call.engine, call.scope, thread_id, int(before) if before else None
    )
    return {**listed, **waiting}


async def read_entries(call: Call, cursor: str = "") -> EntryPage:
    """The entries about the user, the newest first; in a project, its own before the person's. No tool
    gives them all: a model searches them. Raises InvalidInput."""
    from layerlore.memory.entries import entry_curation

    return await entry_curation.list_with_person(call.engine, call.scope, limit=_MOST_LISTED, cursor=cursor)


async def read_entry(call: Call, entry_id: str) -> EntryRow:
    """One entry, or the one that took its place. Raises InvalidInput, NotFound."""
    from layerlore.memory.entries import entry_curation

    check_id(entry_id, "entry_id", call.engine.limits.id_chars)
    # In a project an id may be an entry of the project or of the person.
    try:
        return await entry_curation.show_entry(call.engine, call.scope, entry_id)
    except NotFound:
        return await entry_curation.show_entry(call.engine, call.scope.of_person, entry_id)


KINDS: Mapping[Kind, ResourceKind] = {
    "profile": ResourceKind(
        "User profile",
        "What this agent remembers about the user.",
        MARKDOWN,
        _BOTH,
        0.9,
        get_working_memory,
        lambda _: {"scope": "resource"},
    ),
    "threads": ResourceKind(
        "Conversations",
        "The newest conversations, at most 100, with titles and counts; ?cursor= goes on.",
        JSON,
        _BOTH,
        0.4,
        list_threads,
        lambda address: {**address.query, "limit": _MOST_LISTED},
        query=("cursor",),
    ),
    "status": ResourceKind(
        "Memory status",
        "How much is remembered, where it is kept, and what is degraded.",
        JSON,
        _PEOPLE,
        0.2,
        memory_status,
        lambda _: {},
    ),
    "recall": ResourceKind(
        "Recall",
        "What is remembered about a query, best first with scores, as recall_memory answers: limit hits (50, at most 100), "
        "none of a lower score than min_score.",
        JSON,
        _BOTH,
        0.6,
        recall_memory,
        lambda address: {**address.query, "format": "json", "max_tokens": _MOST_TOKENS, "opening": False},
        query=("query", "limit", "min_score"),
    ),
    "thread": ResourceKind(
        "Conversation",
        "Title, metadata and counts of a conversation.",
        JSON,
        _BOTH,
        0.4,
        list_threads,
        lambda address: address.thread,
        rows="threads",
    ),
    "messages": ResourceKind(
        "Messages",
        "The newest messages of a conversation: limit of them (50, at most 200), those before a seq; or one part of one.",
        JSON,
        _BOTH,
        0.5,
        get_messages,
        lambda address: {"format": "json", **address.thread, **address.query},
        query=("limit", "before", "part"),
        of_a_thread=True,
    ),
    "observations": ResourceKind(
        "Observations",
        "Notes on the earlier part of a conversation, oldest first, and what it is at; before goes on with older ones.",
        JSON,
        _BOTH,
        0.6,
        read_observations,
        lambda address: {**address.thread, **address.query},
        query=("before",),
        of_a_thread=True,
    ),
    "session-memory": ResourceKind(
        "Session memory",
        "What is kept in mind for a conversation: what matters in it now.",
        MARKDOWN,
        _BOTH,
        0.8,
        get_working_memory,
        lambda address: {"scope": "thread", **address.thread},
        of_a_thread=True,
    ),
    "plan": ResourceKind(
        "Plan",
        "Goal, phase, iteration and steps of a conversation's work.",
        JSON,
        _BOTH,
        0.8,
        plan,
        lambda address: {"action": "review", "format": "json", **address.thread},
        of_a_thread=True,
    ),
    "runs": ResourceKind(
        "Runs",
        "The agent's runs in a conversation, newest first, without their state.",
        JSON,
        _PEOPLE,
        0.3,
        list_runs,
        lambda address: {**address.thread, **address.query, "limit": _MOST_LISTED},
        query=("cursor",),
        of_a_thread=True,
    ),
    "events": ResourceKind(
        "Events",
        "What changed in a conversation, in order: from the beginning, or after a seq.",
        JSON,
        _PEOPLE,
        0.2,
        list_events,
        lambda address: {**address.thread, **address.query},
        query=("after",),
        of_a_thread=True,
    ),
    "run": ResourceKind(
        "Run",
        "One run of the agent: status, pending tool calls, decisions, output and usage, without its state.",
        JSON,
        _PEOPLE,
        0.3,
        get_run,
        lambda address: {"run_id": address.run_id},
    ),
    "run-state": ResourceKind(
        "State of a run",
        "The same with the state that the run stored last, in which secrets are masked.",
        JSON,
        _PEOPLE,
        0.2,
        get_run,
        lambda address: {"run_id": address.run_id, "with_state": True},
    ),
    "entries": ResourceKind(
        "Entries",
        "The notes kept for later conversations, newest first, at most 100: whose words each rests on, what says otherwise, "
        "what it took the place of; ?cursor= goes on.",
        JSON,
        _BOTH,
        0.6,
        read_entries,
        lambda address: dict(address.query),
        query=("cursor",),
    ),
    "entry": ResourceKind(
        "Entry",
        "One note with the words it rests on; of one that another took the place of, that other one.",
        JSON,
        _BOTH,
        0.5,
        read_entry,
        lambda address: {"entry_id": address.entry_id},
    ),
}

TEXT_QUERIES = ("query", "part", "cursor", "min_score")
OF_A_THREAD: tuple[Kind, ...] = tuple(kind for kind, each in KINDS.items() if each.of_a_thread)
TEMPLATED: tuple[Kind, ...] = ("recall", "thread", *OF_A_THREAD, "run", "run-state", "entry")
"""The kinds that are listed as templates; the others are listed as they are."""


class KindRecord(TypedDict):
    """The fields of a kind that the SDK's records of resources and templates take."""

    name: str
    title: str
    description: str
    mime_type: str
    annotations: "Annotations"


def describe_kind(kind: Kind) -> KindRecord:
    """The fields of a kind for the SDK's records of resources and templates."""
    each = KINDS[kind]
    return {
        "name": kind,
        "title": each.title,
        "description": each.text,
        "mime_type": each.mime_type,
        "annotations": each.annotations(),
    }
