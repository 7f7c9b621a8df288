"""What each resource is called and says about itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp.types import Annotations, Resource, ResourceTemplate, Role

from layerlore.server.memory_uri import OF_A_THREAD, Kind, template_of, uri_of

MARKDOWN = "text/markdown"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Description:
    """``read_by`` is for whom it is meant: a model, people and their programs, or both. ``priority`` is 0 to 1."""

    name: str
    title: str
    text: str
    mime_type: str
    read_by: tuple[Role, ...]
    priority: float

    def fields(self) -> dict[str, Any]:
        """As the SDK's records take them."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.text,
            "mime_type": self.mime_type,
            "annotations": self.annotations(),
        }

    def annotations(self, last_modified: str | None = None) -> Annotations:
        return Annotations(audience=list(self.read_by), priority=self.priority, last_modified=last_modified)


_BOTH: tuple[Role, ...] = ("user", "assistant")
_PEOPLE: tuple[Role, ...] = ("user",)

KINDS: Mapping[Kind, Description] = {
    "profile": Description(
        "profile", "User profile", "What this agent remembers about the user.", MARKDOWN, _BOTH, 0.9
    ),
    "threads": Description(
        "threads",
        "Conversations",
        "The newest conversations, at most 100, with titles and counts; ?cursor= goes on.",
        JSON,
        _BOTH,
        0.4,
    ),
    "status": Description(
        "status",
        "Memory status",
        "How much is remembered, where it is kept, and what is degraded.",
        JSON,
        _PEOPLE,
        0.2,
    ),
    "recall": Description(
        "recall",
        "Recall",
        "What is remembered about a query, best first with scores, as recall_memory answers: limit hits (5, at most 50).",
        JSON,
        _BOTH,
        0.6,
    ),
    "thread": Description("thread", "Conversation", "Title, metadata and counts of a conversation.", JSON, _BOTH, 0.4),
    "messages": Description(
        "messages",
        "Messages",
        "The newest messages of a conversation: limit of them (50, at most 200), those before a seq; or one part of one.",
        JSON,
        _BOTH,
        0.5,
    ),
    "observations": Description(
        "observations",
        "Observations",
        "Notes on the earlier part of a conversation, oldest first, and what it is at; before goes on with older ones.",
        JSON,
        _BOTH,
        0.6,
    ),
    "session-memory": Description(
        "session-memory",
        "Session memory",
        "What is kept in mind for a conversation: what matters in it now.",
        MARKDOWN,
        _BOTH,
        0.8,
    ),
    "plan": Description("plan", "Plan", "Goal, phase, iteration and steps of a conversation's work.", JSON, _BOTH, 0.8),
    "runs": Description(
        "runs", "Runs", "The agent's runs in a conversation, newest first, without their state.", JSON, _PEOPLE, 0.3
    ),
    "events": Description(
        "events",
        "Events",
        "What changed in a conversation, in order: from the beginning, or after a seq.",
        JSON,
        _PEOPLE,
        0.2,
    ),
    "run": Description(
        "run",
        "Run",
        "One run of the agent with its pending tool calls and output, without its state.",
        JSON,
        _PEOPLE,
        0.3,
    ),
}

TEMPLATED: tuple[Kind, ...] = ("recall", "thread", *OF_A_THREAD, "run")


def templates() -> list[ResourceTemplate]:
    """The templates, the same for everybody."""
    return [ResourceTemplate(uri_template=template_of(kind), **KINDS[kind].fields()) for kind in TEMPLATED]


def of_nobody_in_particular(kind: Kind) -> Resource:
    """A resource that is there for every caller, if empty."""
    return Resource(uri=uri_of(kind), **KINDS[kind].fields())


def of_current_thread(kind: Kind, thread_id: str) -> Resource:
    """A resource of the thread that a call means when it names none."""
    fields = KINDS[kind].fields()
    named = {"name": f"current-{kind}", "title": f"{fields['title']} of the current conversation"}
    return Resource(uri=uri_of(kind, thread_id), **{**fields, **named})


def of_listed_thread(row: Mapping[str, Any]) -> Resource:
    """A stored thread, from its row as list_threads has it."""
    thread_id = row["thread_id"]
    return Resource(
        uri=uri_of("thread", thread_id),
        name=thread_id,
        title=row.get("title"),
        description=f"Messages: {row['messages']}",
        mime_type=JSON,
        annotations=KINDS["thread"].annotations(row["updated_at"]),
    )
