"""``layerlore usage``: tokens and money spent, as an operator sees them."""

import asyncio
import json
import sys
from typing import Literal

from layerlore.memory.usage import shown_model, total
from layerlore.memory.usage_shapes import NANO
from layerlore.server.access.principal import LOCAL_TENANT
from layerlore.server.commands.opened import known_database
from layerlore.server.commands.tables import print_table
from layerlore.server.commands.whose import named, scope_of
from layerlore.server.settings import Settings
from layerlore.storage import usage as stored
from layerlore.storage.records import Json, Scope, Tenant
from layerlore.storage.transaction import Database
from layerlore.storage.usage import OfOwner, Spent

By = Literal["thread", "resource", "agent"]

_NUMBERS = ("calls", "input", "output", "US dollars", "unpriced")
_GONE = "(deleted)"
_NO_MODEL = "(none named)"


def usage(settings: Settings, tenant: str, by: By, *, as_json: bool) -> int:
    """Print what a tenant spent: in each thread of the agent and resource of the settings, for each resource of its agent, or for each agent.
    Returns the exit code.

    Raises NotFound, StorageUnavailable, DatabaseTooNew or InvalidInput.
    """
    scope = scope_of(settings, tenant)
    rows = asyncio.run(_rows(settings, scope, by))
    if as_json:
        shown = {"by": by, "rows": [_as_json(by, row) for row in rows], "total": _total(rows)}
        sys.stdout.write(json.dumps(shown, ensure_ascii=False, indent=2) + "\n")
    elif rows:
        _show(by, rows)
    else:
        sys.stdout.write(f"nothing was spent: no step with usage was recorded for {_whose(scope, by)}\n")
    return 0


def _whose(scope: Scope, by: By) -> str:
    if by == "thread":
        return named(scope)
    whose = "any agent" if by == "agent" else f"agent {scope.agent_id!r}"
    return whose if scope.tenant_id == LOCAL_TENANT else f"{whose} of tenant {scope.tenant_id!r}"


async def _rows(settings: Settings, scope: Scope, by: By) -> list[OfOwner]:
    async with known_database(settings, off="no usage either", absent="nothing was spent") as database:
        return await _read(database, scope, by)


async def _read(database: Database, scope: Scope, by: By) -> list[OfOwner]:
    if by == "thread":
        return await database.read(stored.by_thread, scope)
    if by == "resource":
        return await database.read(stored.by_resource, Tenant(scope.tenant_id), scope.agent_id)
    return await database.read(stored.by_agent, Tenant(scope.tenant_id))


def _as_json(by: By, row: OfOwner) -> Json:
    return {by: row.owner, "source": row.line.source, **shown_model(row.line.model, row.line.spent)}


def _total(rows: list[OfOwner]) -> Json:
    return shown_model("", total(row.line for row in rows))


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
    whole = ["total", "", "", *_numbers(total(row.line for row in rows))]
    print_table((by, "model", "for", *_NUMBERS), shown, numbers=_NUMBERS, total=whole)


def _numbers(spent: Spent) -> tuple[str, ...]:
    dollars, nano = divmod(spent.cost_nano_usd, NANO)
    cost = f"{dollars:,}.{nano:09d}".rstrip("0")
    return (
        f"{spent.calls:,}",
        f"{spent.input_tokens:,}",
        f"{spent.output_tokens:,}",
        f"{cost}{'00'[: max(0, 2 - len(cost.partition('.')[2]))]}",
        f"{spent.unpriced_calls:,}" if spent.unpriced_calls else "",
    )
