"""The conversations of a whole tenant, for its operator. Each look is in the journal, in the transaction that reads."""

from collections.abc import Collection
from dataclasses import dataclass, field

from layerlore.memory.engine.engine import Engine
from layerlore.memory.engine.journal import make_line
from layerlore.memory.messages.thread_answers import TenantThreadPage, TenantThreadRow, ThreadNaming
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.pages import fit_entries, read_cursor, write_cursor
from layerlore.memory.rules.validation import check_metadata, check_text
from layerlore.memory.text.quotation import make_visible
from layerlore.storage.audit import journal
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json, Origin, Scope, Tenant
from layerlore.storage.core.transaction import Tx
from layerlore.storage.threads import tenant_threads
from layerlore.storage.threads.tenant_threads import Moment, TenantThread, ThreadFilter

# What the databases' integers hold.
_LATEST = 2**63


@dataclass(frozen=True, slots=True)
class TenantSearch:
    """Which conversations of a tenant; what is empty asks for nothing. ``agents``: whose the caller may see (None: those
    of all). Times are milliseconds since 1970 and are of ``order_by``."""

    agents: Collection[str] | None = None
    agent: str = ""
    resource: str = ""
    metadata: Json = field(default_factory=dict)
    since: int | None = None
    until: int | None = None
    order_by: Moment = "updated_at"
    descending: bool = True
    limit: int = 20
    cursor: str = ""

    @property
    def filter(self) -> ThreadFilter:
        """What the store is asked for."""
        named = [self.agent] if self.agent else self.agents
        resource = self.resource or None
        return ThreadFilter(
            named, resource, self.since, self.until, self.metadata or None, self.order_by, self.descending
        )


async def list_tenant_threads(engine: Engine, tenant_id: str, search: TenantSearch, origin: Origin) -> TenantThreadPage:
    """The conversations of a tenant, with whose they are; ``next_cursor`` continues. A line in the journal says who
    looked, for which agent and resource if one was named, and how many were shown.

    Raises InvalidInput, LimitExceeded.
    """
    check_metadata(search.metadata, "metadata", engine.limits)
    if search.since is not None and search.until is not None and search.since > search.until:
        raise InvalidInput("since: it is later than until, so nothing could be found")
    asked = [search.agent, search.resource, search.metadata, search.order_by, search.descending]
    place = _read_place(search.cursor, asked) if search.cursor else None
    now, tenant = engine.now(), Tenant(tenant_id)
    named = Scope(tenant_id, search.agent, search.resource)

    async def look(tx: Tx, tenant: Tenant) -> TenantThreadPage:
        found, after = await tenant_threads.read_page(tx, tenant, search.filter, after=place, limit=search.limit)
        rows = fit_entries([_show(thread) for thread in found], engine.limits.answer_bytes)
        if len(rows) < len(found):
            last = found[len(rows) - 1]
            after = getattr(last, search.order_by), last.thread_uid
        line = make_line(engine.hmac_key, named, origin, "done", now, counts={"threads": len(rows)})
        await journal.append(tx, named, line)
        page: TenantThreadPage = {"threads": rows}
        if after:
            page["next_cursor"] = write_cursor([asked, *after])
        return page

    return await engine.database.write(look, tenant)


def _show(thread: TenantThread) -> TenantThreadRow:
    naming: ThreadNaming = {}
    title = make_visible(thread.title or "")
    if title:
        naming["title"] = title
    if thread.metadata:
        naming["metadata"] = thread.metadata
    return {
        "agent": thread.agent_id,
        "resource": thread.resource_id,
        "thread_id": thread.thread_id,
        **naming,
        "messages": thread.message_count,
        "tokens": thread.token_count,
        "created_at": iso(thread.created_at),
        "updated_at": iso(thread.updated_at),
    }


def _read_place(cursor: str, asked: list[object]) -> tuple[int, str]:
    unknown = InvalidInput("cursor: not one that this list gave; leave it out to begin at the first page")
    match read_cursor(cursor, unknown):
        case [list(made_for), int(value), str(uid)] if not isinstance(value, bool) and abs(value) < _LATEST:
            if made_for != asked:
                raise InvalidInput("cursor: it belongs to a list with other filters; repeat them, or leave it out")
            return value, check_text(uid, "cursor")
    raise unknown
