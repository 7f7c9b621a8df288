"""The tools that keep and forget entries."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from layerlore.server.access.principal import Right
from layerlore.server.tools.declaring import Declaration, ThreadId, annotations
from layerlore.server.tools.stored_content import Stored


class RememberedEntry(TypedDict):
    id: str
    status: Literal["kept", "refreshed", "similar"]
    source: str
    content: NotRequired[Stored[str]]
    superseded: NotRequired[list[str]]
    masked: NotRequired[int]
    unproven: NotRequired[str]


def remember(
    content: Annotated[str, Field(description="1-3 sentences, clear on their own.")],
    evidence: Annotated[str, Field(description="A message's exact words.")] = "",
    source: Literal[
        "caller", "user_assertion", "user_accepted_assistant_proposal", "verified_assistant_finding"
    ] = "caller",
    kind: Literal["preference", "decision", "fact", "correction", "explicit_remember"] | None = None,
    thread_id: ThreadId = "",
) -> RememberedEntry:
    """Keep something for later conversations: what the user asks you to remember, a decision, a cause and its fix. A
    correction replaces what it corrects."""


def forget(
    ids: list[str] = [],  # noqa: B006 - a default in a schema, never changed
    query: str = "",
    confirm: str = "",
) -> str:
    """Forget entries by id, or whatever is about a query: that shows first what would go, and a token: ask
    the user, then call again with confirm alone."""


def _rights_of_forget(arguments: Mapping[str, Any]) -> frozenset[Right]:
    return frozenset({"forget", "read"} if arguments.get("query") else {"forget"})


TOOLS = (
    Declaration(
        remember, "Remember", "core", "write", annotations(), reduced="no text of an entry that was kept before"
    ),
    Declaration(
        forget,
        "Forget",
        "core",
        "forget",
        annotations(destructive=True, idempotent=True),
        text=True,
        reduced="how much was forgotten, by ids or confirm; query is refused",
        rights_of=_rights_of_forget,
        ways=({"ids": ["one"]}, {"query": "what"}),
    ),
)
