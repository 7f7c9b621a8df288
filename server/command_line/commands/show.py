"""``layerlore show``: shows what is remembered, in pages at a terminal, and how to correct it."""

import asyncio
import io
import json
import os
import pydoc
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer
from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from layerlore.memory.messages.tenants import TenantSearch, list_tenant_threads
from layerlore.memory.rules.ages import local_time
from layerlore.memory.work import plan as open_work
from layerlore.memory.work.work_answers import OpenWorkAnswer
from layerlore.server.access.caller import make_terminal_caller
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.command_line.known_engine import open_known_memory
from layerlore.server.command_line.options import AsJson, TenantOption, print_json, read_settings
from layerlore.server.command_line.owner import describe_scope, scope_of
from layerlore.server.command_line.suggestions import complete, suggest
from layerlore.server.relay.server_query import mask_controls
from layerlore.server.resources.kinds import read_entries
from layerlore.server.settings.settings import Settings
from layerlore.server.tools.declaration import Call, Declaration
from layerlore.server.tools.messages import get_messages
from layerlore.server.tools.plan import plan
from layerlore.server.tools.runs import list_runs
from layerlore.server.tools.steps import list_events
from layerlore.server.tools.threads import list_threads
from layerlore.server.tools.working_memory import get_working_memory
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.records import Json, Origin, Scope
from layerlore.storage.derived import entries
from layerlore.storage.threads import threads

View = Literal["all", "threads", "thread", "entries", "profile", "plan", "runs", "events"]
OF_ONE: tuple[View, ...] = ("thread", "plan", "runs", "events")
"""The views that may show a single conversation."""
_BY = Origin("command line", "show", "command:show")
# The page size of tools.
_PAGE = 100


@dataclass(frozen=True, slots=True)
class ViewRequest:
    """A view, its conversation or "", the most rows to show (the newest), and whether it covers the whole tenant."""

    view: View
    thread_id: str = ""
    limit: int = 50
    everybody: bool = False

    def check(self) -> "ViewRequest":
        """Return the request. Raises InvalidInput for values that do not go together."""
        if self.thread_id and self.view not in OF_ONE:
            raise InvalidInput(
                f"show {self.view} takes no conversation; those that do are {', '.join(OF_ONE[:-1])} and {OF_ONE[-1]}"
            )
        if self.view == "thread" and not self.thread_id:
            raise InvalidInput("show thread needs the id of a conversation; `layerlore show threads` lists them")
        if self.everybody and self.view != "threads":
            raise InvalidInput(f"show {self.view} is of one user; --everybody goes with threads")
        return self


async def read_view(call: Call, request: ViewRequest) -> Json:
    """The content of the view. Lists are cut to ``limit``; ``more`` marks a cut list. Raises NotFound, InvalidInput,
    LimitExceeded."""
    match request.view:
        case "all":
            return await _count(call)
        case "threads" if request.everybody:
            return await _list(call, _read_everybody, "threads", request)
        case "threads":
            return await _list(call, list_threads, "threads", request)
        case "thread":
            return await _read_thread(call, request)
        case "entries":
            return await _list(call, read_entries, "entries", request)
        case "profile":
            return await _ask(call, get_working_memory, scope="resource", format="json")
        case "plan" if request.thread_id:
            return await _ask(call, plan, action="review", thread_id=request.thread_id, format="json")
        case "plan":
            return {**await open_work.list_open(call.engine, call.scope)}
        case "runs":
            return await _list(call, list_runs, "runs", request, **_of(request))
        case "events":
            return await _read_events(call, request)


async def _read_everybody(call: Call, cursor: str) -> Json:
    search = TenantSearch(limit=_PAGE, cursor=cursor)
    return {**await list_tenant_threads(call.engine, call.scope.tenant_id, search, _BY)}


def _of(request: ViewRequest) -> Json:
    if request.thread_id:
        return {"thread_id": request.thread_id}
    return {}


async def _ask(call: Call, tool: Declaration, **arguments: Any) -> Json:
    answer: Json = await tool.function(call, **arguments)
    return answer


async def _list(
    call: Call, source: Declaration | Callable[..., Any], rows: str, request: ViewRequest, **fixed: Any
) -> Json:
    """The rows of all pages, up to the limit."""
    found: list[Json] = []
    cursor = ""
    while True:
        if isinstance(source, Declaration):
            page = await _ask(call, source, limit=min(_PAGE, request.limit), cursor=cursor, **fixed)
        else:
            page = await source(call, cursor=cursor)
        found += page[rows]
        cursor = page.get("next_cursor", "")
        # One row more than the limit shows that there is more.
        if not cursor or len(found) > request.limit:
            return _cut({rows: found, **({"next_cursor": cursor} if cursor else {})}, rows, request)


def _cut(found: Json, rows: str, request: ViewRequest) -> Json:
    more = "next_cursor" in found or len(found[rows]) > request.limit
    return {rows: found[rows][: request.limit], **({"more": True} if more else {})}


async def _read_thread(call: Call, request: ViewRequest) -> Json:
    listed = (await _ask(call, list_threads, thread_id=request.thread_id))["threads"]
    if not listed:
        raise NotFound(f"there is no conversation {request.thread_id!r}; `layerlore show threads` lists them")
    found: list[Json] = []
    before = 0
    while len(found) < request.limit:
        # Pages go backwards from the newest, so each one goes in front.
        place = {"before": before} if before else {}
        most = min(200, request.limit - len(found))
        page = await _ask(call, get_messages, thread_id=request.thread_id, limit=most, format="json", **place)
        found = page["messages"] + found
        if not page["messages"] or not (before := page.get("next", {}).get("before", 0)):
            # The newest page may be the whole conversation, or the limit is reached.
            break
    more = bool(found) and listed[0]["messages"] > len(found)
    return {**listed[0], "messages": found, "total": listed[0]["messages"], **({"more": True} if more else {})}


async def _read_events(call: Call, request: ViewRequest) -> Json:
    found: list[Json] = []
    of = _of(request) or {"scope": "resource"}
    # The log can only be read forwards, so the start is counted back from its last number.
    begin = after = max(0, (await _ask(call, list_events, limit=1, **of))["last_seq"] - request.limit)
    while True:
        page = await _ask(call, list_events, after=after, limit=200, **of)
        found, after = [*found, *page["events"]], page["next"]
        if not page["more"]:
            return {"events": found, **({"more": True} if begin else {})}


async def _count(call: Call) -> Json:
    held = await call.engine.database.read(threads.count_scope, call.scope)
    kept = await call.engine.database.read(entries.count, call.scope)
    profile = await _ask(call, get_working_memory, scope="resource", format="json")
    # Only the fact and the counts are needed; an empty answer means no open work.
    opened = await open_work.read_elsewhere(call.engine, call.scope, "")
    runs = await _list(call, list_runs, "runs", ViewRequest("runs", limit=_PAGE))
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


_HEAD, _QUIET = "bold", "dim"
# Characters of a tool's call or result.
_MOST_OF_TOOL = 300
_SAY = "say so to your agent, which calls"


def describe_mending(view: View, scope: Scope, *, everybody: bool = False) -> list[str]:
    """How to correct what a view of a memory shows, in lines; ``everybody``: it shows the memories of a whole tenant."""

    # Rows of several memories: the user fills in the one of the row.
    if everybody:
        owner = ("--agent", "AGENT", "--resource", "USER")
    else:
        owner = ("--agent", scope.agent_id, "--resource", scope.resource_id)

    def command(name: str, *arguments: str) -> str:
        # These two name the owner in any case.
        named = owner if everybody or name in ("erase", "redact") else ()
        return f"`{suggest(name, *arguments, *named)}`"

    undone = f"{command('undo', 'last')} undoes it."
    match view:
        case "all":
            return [
                f"{command('show', 'threads')}, or with another of these words, lists them, and says how to mend each."
            ]
        case "threads":
            return [
                f"Read one: {command('show', 'thread', 'ID')}",
                f"Search all: {command('recall', 'QUESTION')}",
                f"Another title: {command('edit', 'thread', 'ID')}",
                f"Delete one: {_SAY} delete_thread; {undone}",
                f"For good: {command('erase', '--thread', 'ID')}",
            ]
        case "thread":
            return [
                f'Delete messages: {_SAY} delete_messages(which="ids", ids=[...]); {undone}',
                f"Secrets that were stored: {command('redact', '--tenant', scope.tenant_id)}",
            ]
        case "entries":
            return [
                f"Wrong: {command('edit', 'entries', 'ID')}",
                f'or {_SAY} remember(replaces="ID"), which takes its place.',
                f"No longer wanted: {command('forget', 'ID')}",
                f"or {command('forget', 'WORDS')}, which shows first what would go.",
                f"What rests on a message goes with it: {command('show', 'thread', 'ID')}",
            ]
        case "profile":
            return [
                f"Correct it: {command('edit', 'profile')}",
                f'or {_SAY} update_working_memory(scope="resource", mode="replace").',
                f"{command('undo', 'last')} brings the version before back.",
                f'Empty it: {_SAY} clear_working_memory(scope="resource").',
            ]
        case "plan":
            return [
                f'Change it: {_SAY} plan(action="update").',
                f"Of one conversation: {command('show', 'plan', 'ID')}",
            ]
        case "runs":
            return [
                f"End one that runs or waits: {_SAY} cancel_run.",
                f"Of one conversation: {command('show', 'runs', 'ID')}",
            ]
        case "events":
            return [f"A log: nothing in it can be changed. {command('erase')} erases it with what it is about."]


_NOTHING: Mapping[View, str] = {
    "threads": "No conversation is kept.",
    "thread": "Nothing was said in it.",
    "entries": "No entry is kept.",
    "profile": "Nothing is kept in the profile.",
    "plan": "No plan is open.",
    "runs": "There is no run.",
    "events": "Nothing happened yet.",
}


def lay_out(view: View, found: Json) -> RenderableType:
    """The result."""
    shown = list(_LAYOUTS[view](found))
    if found.get("more"):
        rest = [Text("There is more: --limit shows it.", style=_QUIET)]
    else:
        rest = []
    return Group(*(shown or [Text(_NOTHING[view])]), *rest)


def _line(value: Any) -> str:
    """A stored text on one line."""
    return " ".join(mask_controls(str(value)).split())


def _lines(value: Any) -> str:
    # Stored texts come from agents and web pages, and a terminal would obey control characters in them.
    return mask_controls(str(value))


def _minute(time: str) -> str:
    return local_time(time)[: len("2024-03-15 09:30")]


def _table(headings: Sequence[str], rows: Sequence[Sequence[Any]], numbers: Sequence[str] = ()) -> Iterator[Table]:
    if not rows:
        return
    table = Table(box=box.SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_line(cell)) for cell in row))
    yield table


def _all(found: Json) -> Iterator[RenderableType]:
    rows = [
        ("threads", found["threads"], f"conversations, {found['messages']:,} messages in all"),
        ("entries", found["entries"], "notes for later conversations"),
        ("profile", found["profile_versions"], "versions of what every conversation knows of the user"),
        ("plan", found["open_work"], "open plans and suspended runs"),
        ("runs", found["runs"], "runs of agents, of the newest 100"),
        ("events", "", "what changed, in order"),
    ]
    if found["restorable_deletes"]:
        rows.append(("", found["restorable_deletes"], complete("deletes that `layerlore undo` can undo")))
    yield from _table(("show", "kept", ""), rows, numbers=("kept",))


def _threads(found: Json) -> Iterator[RenderableType]:
    # Only the view of a tenant has owners in its rows.
    owners = ("agent", "user") if found["threads"] and "agent" in found["threads"][0] else ()
    rows = [
        (
            *([row["agent"], row["resource"]] if owners else []),
            row["thread_id"],
            row.get("title", ""),
            f"{row['messages']:,}",
            _minute(row["updated_at"]),
        )
        for row in found["threads"]
    ]
    yield from _table((*owners, "thread", "title", "messages", "last change"), rows, numbers=("messages",))


def _thread(found: Json) -> Iterator[RenderableType]:
    if "title" in found:
        title = f": {_line(found['title'])}"
    else:
        title = ""
    yield Text(f"{_line(found['thread_id'])}{title}", style=_HEAD)
    if found.get("more"):
        yield Text(f"the newest {len(found['messages'])} of {found['total']:,} messages", style=_QUIET)
    for message in found["messages"]:
        if message.get("name"):
            name = f" {_line(message['name'])}"
        else:
            name = ""
        yield Text(f"\n#{message['seq']} {message['role']}{name}, {_minute(message['said_at'])}", style=_HEAD).append(
            f"  {message['id']}", style=_QUIET
        )
        for part in message["parts"]:
            yield Padding(Text(_part(part)), (0, 0, 0, 2))


def _part(part: Json) -> str:
    match part["type"]:
        case "text":
            return _lines(part["text"])
        case "tool_call":
            return f"-> {part.get('name', '')}({_short(part.get('arguments', {}))})"
        case "tool_result":
            return f"<- {_short(part.get('result', ''))}"
        case other:
            return f"[{other}] {_short({name: value for name, value in part.items() if name != 'type'})}"


def _short(value: Any) -> str:
    text = _line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if len(text) <= _MOST_OF_TOOL:
        return text
    return text[:_MOST_OF_TOOL] + "… [cut]"


def _entries(found: Json) -> Iterator[RenderableType]:
    for entry in found["entries"]:
        if "kind" in entry:
            kind = f" ({entry['kind']})"
        else:
            kind = ""
        if "whose" in entry:
            whose = f"[{entry['whose']}] "
        else:
            whose = ""
        if entry["trust"] == "shared":
            whose += "[shared] "
        yield Text(f"\n{whose}{_line(entry['content'])}{kind}", style=_HEAD)
        yield from (Padding(Text(line, style=style), (0, 0, 0, 2)) for line, style in _about(entry))


_WHOSE = {"shared": "shared by others", "user": "the user's own word"}


def _about(entry: Json) -> Iterator[tuple[str, str]]:
    for source in entry["sources"]:
        if "quote" in source:
            quote = f': "{_line(source["quote"])}"'
        else:
            quote = ""
        yield f"{source['label']}, {_line(source['thread_id'])} #{source['seq']}{quote}", ""
    # A quotation by others cannot be checked against a stored message.
    for quote in entry.get("quotes", ()):
        yield f'{_line(quote["label"])}, shared by others: "{_line(quote["quote"])}"', ""
    if not entry["sources"] and not entry.get("quotes"):
        whose = _WHOSE.get(entry["trust"], "the agent's own word")
        yield f"{whose}, without a quotation", ""
    for old in entry.get("superseded", ()):
        yield f'in place of "{_line(old["content"])}" ({_minute(old["created_at"])})', ""
    if "expires_at" in entry:
        yield f"not shown after {_minute(entry['expires_at'])}", ""
    if "contradicted_by" in entry:
        yield f"a newer entry says otherwise: {entry['contradicted_by']}", ""
    if "contradicts" in entry:
        yield f"says otherwise than {', '.join(entry['contradicts'])}", ""
    yield f"{_minute(entry['said_at'])}, by {_line(entry['by'])}; id {entry['id']}", _QUIET


def _profile(found: Json) -> Iterator[RenderableType]:
    content = found["content"]
    if not content:
        return
    yield Text(_lines(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2)))
    rows = [
        (each["version"], each["change"], _minute(each["changed_at"]), each["changed_by"], each.get("tool", ""))
        for each in found["versions"]
    ]
    yield from _table(("version", "change", "at", "by", "tool"), rows, numbers=("version",))


# Open work is shown by the first of these fields that it has.
_SAYS = ("goal", "reason", "run_id", "current_task", "next_step")


def _plan(found: Json) -> Iterator[RenderableType]:
    plan = found.get("plan")
    if plan:
        yield Text(_line(plan["goal"]), style=_HEAD)
        rows = [(step["id"], step["status"], step["phase"], step["description"]) for step in plan["steps"]]
        yield from _table(("step", "status", "phase", ""), rows)
    work = [
        (
            each["thread_id"],
            each["kind"],
            next(each[name] for name in _SAYS if name in each),
            f"{each['steps_done']} of {each['steps']} steps" if each["kind"] == "plan" else "",
            _minute(each["updated_at"]),
        )
        for each in found.get("open", ())
    ]
    yield from _table(("thread", "open", "", "done", "last change"), work)


def _runs(found: Json) -> Iterator[RenderableType]:
    rows = [
        (
            row["run_id"],
            row["status"],
            row["thread_id"],
            ", ".join(str(each.get("tool_name", each["tool_call_id"])) for each in row.get("waiting", ())),
            row.get("reason", ""),
            _minute(row["updated_at"]),
        )
        for row in found["runs"]
    ]
    yield from _table(("run", "status", "thread", "waits for", "reason", "last change"), rows)


def _events(found: Json) -> Iterator[RenderableType]:
    rows = [
        (each["seq"], _minute(each["at"]), each["type"], each["by"], each.get("tool", ""), _short(each["payload"]))
        for each in found["events"]
    ]
    yield from _table(("seq", "at", "event", "by", "tool", ""), rows, numbers=("seq",))


_LAYOUTS: Mapping[View, Callable[[Json], Iterator[RenderableType]]] = {
    "all": _all,
    "threads": _threads,
    "thread": _thread,
    "entries": _entries,
    "profile": _profile,
    "plan": _plan,
    "runs": _runs,
    "events": _events,
}


_UNCUT = 10_000  # columns


def show_view(settings: Settings, tenant: str, request: ViewRequest, *, as_json: bool) -> int:
    """Print what a tenant's agent remembers about the resource of the settings. Returns the exit code.

    Raises InvalidInput, LimitExceeded, NotFound, StorageUnavailable or DatabaseTooNew.
    """
    request.check()
    scope = scope_of(settings, tenant)
    found = asyncio.run(_read(settings, scope, request))
    if as_json:
        print_json(found)
        return 0
    terminal = sys.stdout.isatty()
    # A pipe gets uncut lines, so that grep finds whole texts.
    size = shutil.get_terminal_size(fallback=(_UNCUT, 0))  # the variable COLUMNS goes first
    written = io.StringIO()
    console = Console(
        file=written, width=size.columns, force_terminal=terminal, highlight=False, markup=False, emoji=False
    )
    if request.everybody:
        whose = f"everybody of tenant {scope.tenant_id!r}"
    else:
        whose = describe_scope(scope)
    console.print(f"What is remembered of {whose}:", style="dim")
    console.print(lay_out(request.view, found))
    console.print()
    for line in describe_mending(request.view, scope, everybody=request.everybody):
        # Whole, whatever the width: a command is copied.
        console.print(Text(line, style=_QUIET), soft_wrap=True)
    # Tables pad their lines with spaces, which would wrap in a narrow pager.
    text = "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"
    if terminal and text.count("\n") >= size.lines:
        os.environ.setdefault("LESS", "-R")  # shows colours
        pydoc.pager(text)
    else:
        sys.stdout.write(text)
    return 0


async def _read(settings: Settings, scope: Scope, request: ViewRequest) -> Json:
    # No view searches by meaning, so the embedder is not needed.
    embedding = settings.embedding.model_copy(update={"embedder": "none"})
    settings = settings.model_copy(update={"embedding": embedding})
    async with open_known_memory(settings, off="there is nothing to show", absent="nothing is remembered") as engine:
        caller = make_terminal_caller(scope, settings.thread)
        call = Call("show", engine.for_agent(scope.agent_id), settings, caller, frozenset())
        return await read_view(call, request)


def show(
    flags: dict[str, Any],
    what: Annotated[
        Literal["all", "threads", "thread", "entries", "profile", "plan", "runs", "events"],
        typer.Argument(
            metavar="WHAT",
            help="threads, thread, entries, profile, plan, runs or events. Without it: how much there is of each.",
            show_default=False,
        ),
    ] = "all",
    conversation: Annotated[
        str, typer.Argument(metavar="ID", help="Of which conversation: of thread, plan, runs, events.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="The most rows to show, the newest ones.")] = 50,
    everybody: Annotated[
        bool, typer.Option("--everybody", help="With threads: those of all agents and resources of the tenant.")
    ] = False,
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Show what is remembered, and how to correct it. Changes nothing."""
    request = ViewRequest(what, conversation, limit, everybody)
    return show_view(read_settings(flags), tenant, request, as_json=as_json)
