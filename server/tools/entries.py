"""The tools that keep and forget entries."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from memstrata.server.tools.declaring import Declaration, ThreadId, annotations


class RememberedEntry(TypedDict):
    id: str
    status: Literal["kept", "refreshed", "similar"]
    source: str
    content: NotRequired[str]
    superseded: NotRequired[list[str]]
    masked: NotRequired[int]
    unproven: NotRequired[str]


def remember(
    content: Annotated[str, Field(description="1-3 sentences, clear without this conversation.")],
    evidence: Annotated[str, Field(description="A message's exact words.")] = "",
    source: Literal["", "user_assertion", "user_accepted_assistant_proposal", "verified_assistant_finding"] = "",
    kind: Literal["", "preference", "decision", "fact", "correction", "explicit_remember"] = "",
    thread_id: ThreadId = "",
) -> RememberedEntry:
    """Keep something for later conversations: what the user asks you to remember, a decision, a cause and its fix. A
    correction replaces what it corrects. status=similar: not kept, since `content` says it already."""


def forget(
    ids: Annotated[list[str], Field(description="Of entries.")] = [],  # noqa: B006 - a default in a schema, never changed
    query: str = "",
    confirm: Annotated[str, Field(description="The token of a preview.")] = "",
) -> str:
    """Forget entries by id, or whatever is about a query: that shows first what would go (entries, messages,
    observations, lines of documents) and a token; ask the user, then call again with confirm alone."""


TOOLS = (
    Declaration(remember, "Remember", "core", "write", annotations()),
    Declaration(forget, "Forget", "core", "forget", annotations(destructive=True, idempotent=True), text=True),
)
