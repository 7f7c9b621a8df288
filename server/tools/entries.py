"""The tools that keep and forget entries."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from layerlore.memory.entries.entry_answers import RememberedEntry
from layerlore.memory.removal.removal_answers import ForgetPreviewAnswer, ForgottenAnswer
from layerlore.server.access.credentials import Right
from layerlore.server.tools.arguments import UNLISTED
from layerlore.server.tools.declaration import Call, TextOrJson, ThreadId, tool

# The schema only shows text, which costs a tenth of the tokens. A list may come as JSON text.
Evidence = Annotated[
    str | list[str],
    WithJsonSchema({"type": "string", "description": "A message's exact words, or a list."}),
]
About = Annotated[
    Literal["user", "project"] | None,
    UNLISTED,
    Field(description="In a project, whose it is. Left out: the user's if it is about the user, else the project's."),
]


def _rights_of_remember(arguments: Mapping[str, Any]) -> frozenset[Right]:
    # Replacing an entry takes away what was stored, so it needs the right to forget.
    return frozenset({"write", "forget"} if arguments.get("replaces") else {"write"})


@tool(
    "Remember",
    "core",
    "write",
    answers=RememberedEntry,
    reduced="no text of entries that were kept before",
    rights_of=_rights_of_remember,
    ways=({}, {"replaces": "one"}),
)
async def remember(
    call: Call,
    content: Annotated[str, Field(description="1-3 sentences, clear on their own.")],
    evidence: Evidence = "",
    source: Literal[
        "caller", "user_assertion", "user_accepted_assistant_proposal", "verified_assistant_finding"
    ] = "caller",
    kind: Literal["preference", "decision", "fact", "correction", "explicit_remember"] | None = None,
    replaces: Annotated[str, Field(description="The entry to correct.")] = "",
    expires_at: Annotated[str, Field(description="ISO 8601.")] = "",
    thread_id: ThreadId = "",
    about: About = None,
) -> RememberedEntry:
    """Keep a note that later conversations find by searching: a decision, a cause and its fix, what the user asks
    for; what must be read every time belongs in update_working_memory."""
    from layerlore.memory.entries import remember_requests

    # Without evidence the current conversation is only searched for it, and the answer does not name it.
    if evidence or thread_id:
        thread = call.thread(thread_id)
    else:
        thread = call.caller.default_thread
    request = remember_requests.RememberRequest(
        content, evidence, source, kind or "", about or "", replaces, expires_at
    )
    return await remember_requests.remember(call.engine, call.scope, thread, request, sent=call.sent(thread_id))


def _rights_of_forget(arguments: Mapping[str, Any]) -> frozenset[Right]:
    # A query shows stored entries before they are forgotten.
    return frozenset({"forget", "read"} if arguments.get("query") else {"forget"})


@tool(
    "Forget",
    "core",
    "forget",
    idempotent=True,
    reduced="how much was forgotten, by ids or confirm; query is refused",
    rights_of=_rights_of_forget,
    ways=({"ids": ["one"]}, {"query": "what"}),
    known_by=("query",),
)
async def forget(
    call: Call,
    ids: list[str] = [],  # noqa: B006 - a default in a schema, never changed
    query: str = "",
    confirm: str = "",
    format: TextOrJson = "text",
) -> str | ForgetPreviewAnswer | ForgottenAnswer:
    """Forget entries by ids, or all about a query: that shows what would go, with a token; ask the user,
    then call with confirm alone."""
    from layerlore.memory.removal import forget_requests, forget_text

    answer = await forget_requests.forget(
        call.engine, call.scope, ids=ids, query=query, confirm=confirm, sent=call.sent()
    )
    if format == "json":
        return answer
    return forget_text.render_answer(answer)
