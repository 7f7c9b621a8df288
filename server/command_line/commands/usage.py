"""``layerlore usage``: the tokens and money that were spent, and with ``--stored`` the bytes that are stored."""

import asyncio
import sys
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import typer

from layerlore.memory.rules.validation import Limits, check_id
from layerlore.memory.usage.model_usage import NANO, add_lines, present_model
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.command_line.hook_check import show_hooks
from layerlore.server.command_line.known_database import open_known_database
from layerlore.server.command_line.options import AsJson, TenantOption, print_json, read_settings
from layerlore.server.command_line.owner import describe_scope, scope_of
from layerlore.server.command_line.tables import print_table
from layerlore.server.settings.settings import Settings
from layerlore.storage.audit import stored_bytes
from layerlore.storage.audit import usage_rows as stored
from layerlore.storage.audit.stored_bytes import Recount
from layerlore.storage.audit.usage_rows import OfOwner, UsageSums
from layerlore.storage.core.records import Scope, Tenant

By = Literal["thread", "resource", "agent"]

_NUMBERS = ("calls", "input", "output", "US dollars", "unpriced")
_GONE = "(deleted)"
_NO_MODEL = "(none named)"
_ALL = "(all)"


def show_usage(settings: Settings, tenant: str, by: By, *, as_json: bool) -> int:
    """Print what a tenant spent: in each thread of the agent and resource of the settings, for each resource of that agent,
    or for each agent. Returns the exit code.

    Raises NotFound, StorageUnavailable, DatabaseTooNew or InvalidInput.
    """
    scope = scope_of(settings, tenant)
    rows = asyncio.run(_read(settings, scope, by))
    if as_json:
        shown = [
            {by: row.owner, "source": row.line.source, **present_model(row.line.model, row.line.spent)} for row in rows
        ]
        print_json({"by": by, "rows": shown, "total": present_model("", add_lines(row.line for row in rows))})
    elif rows:
        _show(by, rows)
    else:
        sys.stdout.write(f"nothing was spent: no step with usage was recorded for {_whose(scope, by)}\n")
    return 0


def _whose(scope: Scope, by: By) -> str:
    if by == "thread":
        return describe_scope(scope)
    if by == "agent":
        whose = "any agent"
    else:
        whose = f"agent {scope.agent_id!r}"
    if scope.tenant_id == LOCAL_TENANT:
        return whose
    return f"{whose} of tenant {scope.tenant_id!r}"


async def _read(settings: Settings, scope: Scope, by: By) -> list[OfOwner]:
    async with open_known_database(settings, off="no usage either", absent="nothing was spent") as database:
        if by == "thread":
            return await database.read(stored.by_thread, scope)
        if by == "resource":
            return await database.read(stored.by_resource, Tenant(scope.tenant_id), scope.agent_id)
        return await database.read(stored.by_agent, Tenant(scope.tenant_id))


def _show(by: By, rows: list[OfOwner]) -> None:
    shown = [
        [
            _GONE if row.owner is None else row.owner,
            row.line.model or _NO_MODEL,
            row.line.source,
            *_numbers(row.line.spent),
        ]
        for row in rows
    ]
    whole = ["total", "", "", *_numbers(add_lines(row.line for row in rows))]
    print_table((by, "model", "for", *_NUMBERS), shown, numbers=_NUMBERS, total=whole)


def _numbers(spent: UsageSums) -> tuple[str, ...]:
    # Integers, since a float would round the billionths of a dollar.
    dollars, nano = divmod(spent.cost_nano_usd, NANO)
    cost = f"{dollars:,}.{nano:09d}".rstrip("0")
    return (
        f"{spent.calls:,}",
        f"{spent.input_tokens:,}",
        f"{spent.output_tokens:,}",
        # At least two decimals, as people write money, and all further digits that are known.
        f"{cost}{'00'[: max(0, 2 - len(cost.partition('.')[2]))]}",
        f"{spent.unpriced_calls:,}" if spent.unpriced_calls else "",
    )


def show_stored(settings: Settings, tenant: str, *, as_json: bool) -> int:
    """Print the stored bytes of each resource of a tenant, and of all, beside a recount. Returns 0, or 1 if they differ.

    Raises NotFound, StorageUnavailable, DatabaseTooNew, LimitExceeded or InvalidInput.
    """
    rows = asyncio.run(_recount(settings, Tenant(check_id(tenant, "--tenant", Limits().id_chars))))
    if as_json:
        print_json({"tenant": tenant, "resources": [_stored_as_json(row) for row in rows]})
    elif rows:
        headings = ("resource", "bytes", "recounted")
        table = []
        for row in rows:
            recounted = "the same" if row.recounted == row.bytes else f"{row.recounted:,}"
            table.append([_ALL if row.resource is None else row.resource, f"{row.bytes:,}", recounted])
        print_table(headings, table, numbers=headings[1:])
    else:
        sys.stdout.write(f"nothing is stored for tenant {tenant!r}\n")
    wrong = [row for row in rows if row.bytes != row.recounted]
    if wrong:
        sys.stderr.write(
            "layerlore: the counted bytes differ from the stored bytes; this is a defect, please report it\n"
        )
    # A difference is a defect, so a script that checks for it gets an exit code.
    return int(bool(wrong))


async def _recount(settings: Settings, tenant: Tenant) -> list[Recount]:
    async with open_known_database(settings, off="nothing is stored", absent="nothing is stored") as database:
        return [row for row in await database.read(stored_bytes.recount, tenant) if row.bytes or row.recounted]


class StoredBytesRow(TypedDict):
    """The stored bytes of a resource, or of the whole tenant, and a recount."""

    resource: NotRequired[str]
    bytes: int
    recounted: int


def _stored_as_json(row: Recount) -> StoredBytesRow:
    if row.resource is None:
        return {"bytes": row.bytes, "recounted": row.recounted}
    return {"resource": row.resource, "bytes": row.bytes, "recounted": row.recounted}


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
        return show_hooks(read_settings(flags), as_json=as_json)
    if stored:
        return show_stored(read_settings(flags), tenant, as_json=as_json)
    return show_usage(read_settings(flags), tenant, by, as_json=as_json)
