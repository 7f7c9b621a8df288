"""The tools of the explorer's page that no model needs, and the tool that opens the page for the user."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from layerlore.memory.entries.entry_answers import EntryPage, MarkedEntry
from layerlore.memory.messages.message_answers import MemoryPage, TenantPage, ThreadsFound
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.answers import order_keys
from layerlore.memory.usage.usage_answers import Days
from layerlore.server.access.credentials import Right
from layerlore.server.tools.declaration import Call, ThreadId, tool
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import DAY_MS

if TYPE_CHECKING:
    from mcp.types import Tool as ListedTool

    from layerlore.storage.audit.journal_rows import StoredJournalLine

EXPLORER_URI = "ui://layerlore/explorer"


class JournalEntry(TypedDict):
    at: str
    agent: str
    resource_mark: str
    principal: str
    client: str
    tool: str
    outcome: str
    reason: NotRequired[str]
    counts: dict[str, int]


class JournalPage(TypedDict):
    lines: list[JournalEntry]
    next_cursor: NotRequired[str]


class ResumedJobs(TypedDict):
    resumed: int


@tool("Show the memory", "pages", "read", opens=EXPLORER_URI)
async def open_explorer(call: Call, thread_id: ThreadId = "") -> str:
    """Show the user a page with all that is remembered, to look through and mend."""
    # The call marks the thread as used by default, so the answer names it to the model.
    call.thread(thread_id, reads=True)
    return "The user sees the page; what is in it is not in this answer."


def _rights_to_mark(arguments: Mapping[str, Any]) -> frozenset[Right]:
    # An entry that is marked as wrong is hidden everywhere, as a forgotten one is.
    return frozenset({"write"} if arguments.get("wrong") is None else {"write", "forget"})


@tool("List entries", "pages", "read", answers=EntryPage)
async def explore_entries(
    call: Call,
    query: Annotated[str, Field(description="Only those that have each of these words, or the beginning of one.")] = "",
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    cursor: str = "",
    wrong: Annotated[bool, Field(description="Those alone that are marked as wrong, on one page.")] = False,
) -> EntryPage:
    """List the notes about the user, the newest first, as memory://entries has them: the evidence of each, its trust, its
    author, and the note that it replaced. `next_cursor` continues, also after a page without any."""
    from layerlore.memory.entries import entry_curation

    if wrong:
        if query or cursor:
            raise InvalidInput("wrong: all that are marked as wrong are listed at once; leave query and cursor out")
        return await entry_curation.list_wrong(call.engine, call.scope)
    return await entry_curation.list_with_person(call.engine, call.scope, limit=limit, cursor=cursor, query=query)


@tool(
    "Mark an entry",
    "pages",
    "write",
    answers=MarkedEntry,
    idempotent=True,
    rights_of=_rights_to_mark,
    ways=({"pinned": True}, {"wrong": True}, {"wrong": False}, {"accepted": True}),
)
async def mark_entry(
    call: Call,
    entry_id: Annotated[str, Field(min_length=1, max_length=200)],
    pinned: Annotated[bool | None, Field(description="Whether every conversation sees it.")] = None,
    wrong: Annotated[bool | None, Field(description="Whether what it says is not true.")] = None,
    accepted: Annotated[bool, Field(description="The user takes over what a shared file brought.")] = False,
) -> MarkedEntry:
    """Pin a note about the user, so that every conversation sees it, or mark it as wrong, so that none does and only the
    user can say it again; false takes a mark back. Or accept a note of a shared file as the user's own word."""
    from layerlore.memory.entries import entry_curation

    return await entry_curation.mark_entry(
        call.engine, call.scope, entry_id, pinned=pinned, wrong=wrong, accepted=accepted, sent=call.sent()
    )


@tool("Find threads", "pages", "read", answers=ThreadsFound)
async def explore_threads(
    call: Call,
    query: Annotated[str, Field(description="Only those with each of these words in title or name.")] = "",
    offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0,
    limit: Annotated[int, Field(ge=1, le=200)] = 100,
) -> ThreadsFound:
    """List the conversations at a place of the list, changed last first, and how many it has: at `offset` there are
    `limit` or, where they are large, fewer."""
    from layerlore.memory.messages import threads

    return await threads.find_threads(call.engine, call.scope, query=query, offset=offset, limit=limit)


@tool("Count by day", "pages", "read", answers=Days)
async def explore_days(
    call: Call,
    days: Annotated[int, Field(ge=1, le=3660)] = 90,
    tool: Annotated[str, Field(description="Calls of this tool alone.")] = "",
) -> Days:
    """Count what each day (UTC) brought that had anything, the oldest first: messages, their tokens, entries, steps, calls of
    tools and how long they took, tokens shown to models, messages captured by hooks, what was spent on models. Beside them
    the tools by calls, the hooks by host, and the entries by kind."""
    from layerlore.memory.usage import call_counts

    since = call.engine.now() // DAY_MS - days + 1
    read = await call.engine.database.read(call_counts.read_days, call.scope, since)
    # Counts of the last minute are still in memory, and the page shows them as well.
    pending = [each for each in call.engine.counts.list_pending(call.scope) if each.day >= since]
    return call_counts.present_days(read, pending, tool)


def _rights_to_journal(arguments: Mapping[str, Any]) -> frozenset[Right]:
    return frozenset({"read", "admin"} if arguments.get("everybody") else {"read"})


def _show_line(each: "StoredJournalLine") -> JournalEntry:
    line = each.line
    shown: JournalEntry = {
        "at": iso(line.at),
        "agent": each.agent_id,
        "resource_mark": line.resource_mark,
        "principal": line.principal,
        "client": line.client,
        "tool": line.tool,
        "outcome": line.outcome,
        "counts": dict(line.counts),
    }
    if line.reason:
        shown["reason"] = line.reason
    return order_keys(JournalEntry, shown)


@tool(
    "Read the journal",
    "pages",
    "read",
    answers=JournalPage,
    rights_of=_rights_to_journal,
    ways=({}, {"everybody": True}),
)
async def explore_journal(
    call: Call,
    everybody: Annotated[bool, Field(description="Of the whole tenant, with the right admin.")] = False,
    limit: Annotated[int, Field(ge=1, le=500)] = 100,
    cursor: str = "",
) -> JournalPage:
    """List who wrote to this memory and when, the newest first: numbers and names, no messages."""
    from layerlore.memory.engine import journal_lines

    # It goes into a query, so it must fit into 64 bits.
    if cursor and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise InvalidInput("cursor: not one that this list gave; leave it out to begin at the newest line")
    engine = call.engine
    lines = await journal_lines.list_lines(
        engine.database,
        engine.hmac_key,
        call.scope,
        everybody=everybody,
        limit=limit,
        before=int(cursor) if cursor else None,
    )
    shown = [_show_line(each) for each in lines]
    page: JournalPage = {"lines": shown}
    # A full page may be the last one; the next is then empty.
    if len(lines) == limit:
        page["next_cursor"] = str(lines[-1].row_id)
    return page


@tool("List memories", "pages", "admin", answers=MemoryPage, reads=True, of_tenant=True)
async def explore_memories(
    call: Call,
    query: Annotated[str, Field(description="Only those whose agent or user has each of these words.")] = "",
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    cursor: str = "",
) -> MemoryPage:
    """List the memories of all users and agents, for an operator to choose one: their owners and sizes, never their
    content. The journal records each call. `next_cursor` continues, also after a page without any."""
    from layerlore.memory.messages import tenants

    principal = call.caller.principal
    search = tenants.MemorySearch(principal.agents, principal.resource, query, limit, cursor)
    return await tenants.list_memories(call.engine, principal.tenant, search, call.sent().origin)


@tool("List tenants", "pages", "admin", answers=TenantPage, reads=True, of_tenant=True)
async def explore_tenants(
    call: Call,
    query: Annotated[str, Field(description="Only those whose name has each of these words.")] = "",
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    cursor: str = "",
) -> TenantPage:
    """List the tenants, for the operator who opened the page of the whole database; any other caller sees its own tenant alone."""
    from layerlore.memory.messages import tenants

    principal = call.caller.principal
    # Only the owner of the database may learn the names of other tenants.
    if not principal.every_tenant:
        return {"tenants": [principal.tenant]}
    return await tenants.list_tenants(call.engine, query=query, limit=limit, cursor=cursor)


@tool("Resume jobs", "pages", "write", answers=ResumedJobs, idempotent=True)
async def resume_jobs(call: Call) -> ResumedJobs:
    """Make the background jobs due again that failed too often; memory_status lists them."""
    from layerlore.server.tools import background

    return {"resumed": await background.resume_dead(call.engine, call.scope, call.sent().origin)}


def show_to_page(listed: "ListedTool") -> "ListedTool":
    """The tool as a page lists it: hidden from models, except for the one that opens the page."""
    meta = listed.meta or {}
    return listed.model_copy(update={"meta": {**meta, "ui": {"visibility": ["app"], **meta.get("ui", {})}}})
