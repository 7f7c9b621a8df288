"""The content of each view, read as the tools and resources give it: JSON, the newest first."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from layerlore.memory.messages.tenants import TenantSearch, list_tenant_threads
from layerlore.memory.work import plan as open_work
from layerlore.memory.work.work_answers import OpenWorkAnswer
from layerlore.server.resources.kinds import read_entries
from layerlore.server.tools.arguments import check_arguments
from layerlore.server.tools.call import Call
from layerlore.server.tools.declaration import Declaration
from layerlore.server.tools.messages import get_messages
from layerlore.server.tools.plan import plan
from layerlore.server.tools.runs import list_runs
from layerlore.server.tools.steps import list_events
from layerlore.server.tools.threads import list_threads
from layerlore.server.tools.working_memory import get_working_memory
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.records import Json, Origin
from layerlore.storage.derived import entries
from layerlore.storage.threads import threads

View = Literal["all", "threads", "thread", "entries", "profile", "plan", "runs", "events"]
OF_ONE: tuple[View, ...] = ("thread", "plan", "runs", "events")
"""The views that may be of one conversation."""
_BY = Origin("command line", "show", "command:show")
# The pages of a tool.
_PAGE = 100


@dataclass(frozen=True, slots=True)
class Asked:
    """A view; the conversation that it is of, or ""; how many rows at most, the newest; and whether the conversations of
    everybody in the tenant are meant."""

    view: View
    thread_id: str = ""
    limit: int = 50
    everybody: bool = False

    def check(self) -> "Asked":
        """The same. Raises InvalidInput for what does not go together."""
        if self.thread_id and self.view not in OF_ONE:
            raise InvalidInput(
                f"show {self.view} takes no conversation; those that do are {', '.join(OF_ONE[:-1])} and {OF_ONE[-1]}"
            )
        if self.view == "thread" and not self.thread_id:
            raise InvalidInput("show thread needs the id of a conversation; `layerlore show threads` lists them")
        if self.everybody and self.view != "threads":
            raise InvalidInput(f"show {self.view} is of one user; --everybody goes with threads")
        return self


async def read_view(call: Call, asked: Asked) -> Json:
    """The content of the view. Lists are cut to ``limit`` and say in ``more`` that there is more. Raises NotFound,
    InvalidInput, LimitExceeded."""
    match asked.view:
        case "all":
            return await _count(call)
        case "threads" if asked.everybody:
            return await _list(call, _read_everybody, "threads", asked)
        case "threads":
            return await _list(call, list_threads, "threads", asked)
        case "thread":
            return await _read_thread(call, asked)
        case "entries":
            return await _list(call, read_entries, "entries", asked)
        case "profile":
            return await _ask(call, get_working_memory, scope="resource", format="json")
        case "plan" if asked.thread_id:
            return await _ask(call, plan, action="review", thread_id=asked.thread_id, format="json")
        case "plan":
            return {**await open_work.list_open(call.engine, call.scope)}
        case "runs":
            return await _list(call, list_runs, "runs", asked, **_of(asked))
        case "events":
            return await _read_events(call, asked)


async def _read_everybody(call: Call, cursor: str) -> Json:
    search = TenantSearch(limit=_PAGE, cursor=cursor)
    return {**await list_tenant_threads(call.engine, call.scope.tenant_id, search, _BY)}


def _of(asked: Asked) -> Json:
    if asked.thread_id:
        return {"thread_id": asked.thread_id}
    return {}


async def _ask(call: Call, tool: Declaration, **arguments: Any) -> Json:
    values, _ = check_arguments(tool.tool, arguments)
    answer: Json = await tool.function(call, **values)
    return answer


async def _list(call: Call, source: Declaration | Callable[..., Any], rows: str, asked: Asked, **fixed: Any) -> Json:
    """The rows of all pages, up to the limit."""
    found: list[Json] = []
    cursor = ""
    while True:
        if isinstance(source, Declaration):
            page = await _ask(call, source, limit=min(_PAGE, asked.limit), cursor=cursor, **fixed)
        else:
            page = await source(call, cursor=cursor)
        found += page[rows]
        cursor = page.get("next_cursor", "")
        if not cursor or len(found) > asked.limit:
            return _cut({rows: found, **({"next_cursor": cursor} if cursor else {})}, rows, asked)


def _cut(found: Json, rows: str, asked: Asked) -> Json:
    more = "next_cursor" in found or len(found[rows]) > asked.limit
    return {rows: found[rows][: asked.limit], **({"more": True} if more else {})}


async def _read_thread(call: Call, asked: Asked) -> Json:
    listed = (await _ask(call, list_threads, thread_id=asked.thread_id))["threads"]
    if not listed:
        raise NotFound(f"there is no conversation {asked.thread_id!r}; `layerlore show threads` lists them")
    found: list[Json] = []
    before = 0
    while len(found) < asked.limit:
        if before:
            place = {"before": before}
        else:
            place = {}
        most = min(200, asked.limit - len(found))
        page = await _ask(call, get_messages, thread_id=asked.thread_id, limit=most, format="json", **place)
        found = page["messages"] + found
        if not page["messages"] or not (before := page.get("next", {}).get("before", 0)):
            break
    more = bool(found) and listed[0]["messages"] > len(found)
    return {**listed[0], "messages": found, "total": listed[0]["messages"], **({"more": True} if more else {})}


async def _read_events(call: Call, asked: Asked) -> Json:
    found: list[Json] = []
    of = _of(asked) or {"scope": "resource"}
    begin = after = max(0, (await _ask(call, list_events, limit=1, **of))["last_seq"] - asked.limit)
    while True:
        page = await _ask(call, list_events, after=after, limit=200, **of)
        found, after = [*found, *page["events"]], page["next"]
        if not page["more"]:
            return {"events": found, **({"more": True} if begin else {})}


async def _count(call: Call) -> Json:
    held = await call.engine.database.read(threads.count_scope, call.scope)
    kept = await call.engine.database.read(entries.count, call.scope)
    profile = await _ask(call, get_working_memory, scope="resource", format="json")
    opened = await open_work.read_elsewhere(call.engine, call.scope, "")
    runs = await _list(call, list_runs, "runs", Asked("runs", limit=_PAGE))
    return {
        "threads": held.threads,
        "messages": held.messages,
        "entries": kept,
        "profile_versions": len(profile["versions"]),
        "open_work": _count_open(opened) if opened else 0,
        "runs": len(runs["runs"]),
        "restorable_deletes": held.restorable_deletes,
    }


def _count_open(opened: OpenWorkAnswer) -> int:
    return len(opened["open"]) + opened.get("more_plans", 0) + opened.get("more_runs", 0)
