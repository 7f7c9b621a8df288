"""The commands that show what is in the memory and what was done: ``show``, ``recall``, ``usage``, ``jobs``, ``journal``."""

from typing import Annotated, Any, Literal

import typer

from layerlore.server.access.principal import LOCAL_TENANT
from layerlore.server.cli.options import AgentFilter, AsJson, ResourceFilter, TenantFilter, TenantOption
from layerlore.server.commands.running import fail, load_module, read_settings


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
    """Show what is remembered, and how to mend it. Changes nothing."""
    asked = load_module("views.stored").Asked(what, conversation, limit, everybody)
    shown: int = load_module("views.show").show(read_settings(flags), tenant, asked, as_json=as_json)
    return shown


def recall(
    flags: dict[str, Any],
    question: Annotated[str, typer.Argument(help="What to search for.", show_default=False)],
    explain: Annotated[bool, typer.Option("--explain", help="Show how each hit got its score.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=50, help="The most hits to show.")] = 5,
    thread: Annotated[str, typer.Option(help="Only this conversation.", show_default=False)] = "",
    min_score: Annotated[
        float, typer.Option(min=0, max=1, help="Hold back hits of a lower score.", show_default=False)
    ] = 0,
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Show what an agent gets when it recalls this."""
    shown: int = load_module("cli.recall").recall(
        read_settings(flags),
        tenant,
        question,
        limit=limit,
        thread_id=thread,
        min_score=min_score,
        explain=explain,
        as_json=as_json,
    )
    return shown


def usage(
    flags: dict[str, Any],
    by: Annotated[
        Literal["thread", "resource", "agent"],
        typer.Option(help="Show the threads of this resource, the resources of this agent, or all agents."),
    ] = "thread",
    stored: Annotated[
        bool, typer.Option("--stored", help="Instead, show the bytes stored for each resource, with a recount.")
    ] = False,
    hooks: Annotated[
        bool, typer.Option("--hooks", help="Instead, show what hosts' hooks kept and showed on each day.")
    ] = False,
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Show the tokens and money that recorded steps and background work spent, or how much is stored."""
    if hooks:
        return int(load_module("hosts.hook_usage").show_hooks(read_settings(flags), as_json=as_json))
    if stored:
        return int(load_module("cli.usage").show_stored(read_settings(flags), tenant, as_json=as_json))
    return int(load_module("cli.usage").usage(read_settings(flags), tenant, by, as_json=as_json))


def jobs(
    flags: dict[str, Any],
    resume: Annotated[bool, typer.Option("--resume", help="Retry jobs that failed too often.")] = False,
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Show the background jobs that wait or failed, and which model does them."""
    return int(load_module("cli.jobs").jobs(read_settings(flags), tenant, resume=resume, as_json=as_json))


def journal(
    flags: dict[str, Any],
    tenant: TenantFilter = None,
    agent: AgentFilter = None,
    resource: ResourceFilter = None,
    since: Annotated[
        str | None, typer.Option(help="Lines since then: 7d, 12h, or ISO 8601.", show_default=False)
    ] = None,
    until: Annotated[str | None, typer.Option(help="Lines until then.", show_default=False)] = None,
    principal: Annotated[str | None, typer.Option(help="Only by this principal.", show_default=False)] = None,
    tool: Annotated[str | None, typer.Option(help="Only by this tool, job or command.", show_default=False)] = None,
    outcome: Annotated[
        Literal["done", "repeated", "denied", "failed"] | None,
        typer.Option(help="Only with this outcome.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="The most lines to show, the newest ones.")] = 100,
    as_json: AsJson = False,
    prune: Annotated[
        str | None, typer.Option(help="Instead, remove lines older than this, such as 365d.", show_default=False)
    ] = None,
    owner_url: Annotated[
        str | None, typer.Option(help="Postgres: URL of the role that owns the tables.", show_default=False)
    ] = None,
) -> int:
    """Show who wrote to the memory of any tenant, and when. What was written is never shown."""
    settings = read_settings({**flags, "postgres": {"owner_url": owner_url}} if owner_url else flags)
    filters = (tenant, agent, since, until, principal, tool, outcome, resource)
    behind = load_module("cli.journal")
    if prune is not None:
        if any(given is not None for given in filters):
            return fail("journal --prune removes all old lines: it takes no filter", 2)
        pruned: int = behind.prune(settings, prune)
        return pruned
    shown: int = behind.journal(settings, behind.JournalRequest(*filters, limit), as_json=as_json)
    return shown
