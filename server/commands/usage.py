"""``memstrata usage``: tokens and money spent, as an operator sees them."""

import asyncio
import json
import sys
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table

from memstrata.memory.usage import shown_model, total
from memstrata.memory.usage_shapes import NANO
from memstrata.server.access.principal import LOCAL_TENANT
from memstrata.server.commands.stored import stored_memory
from memstrata.server.settings import Settings
from memstrata.storage import usage as stored
from memstrata.storage.records import Json, Scope, Tenant
from memstrata.storage.transaction import Database
from memstrata.storage.usage import OfOwner, Spent

By = Literal["thread", "resource", "agent"]

_NEVER_CUT = 10_000  # in columns: a terminal that is narrower wraps
_GONE = "(deleted)"
_NO_MODEL = "(none named)"


def usage(settings: Settings, by: By, *, as_json: bool) -> int:
    """Print what was spent: in each thread of the launch scope, for each resource of its agent, or for each agent.
    Returns the exit code.

    Raises NotFound, StorageUnavailable, DatabaseTooNew or InvalidInput.
    """
    rows = asyncio.run(_rows(settings, by))
    if as_json:
        shown = {"by": by, "rows": [_as_json(by, row) for row in rows], "total": _total(rows)}
        sys.stdout.write(json.dumps(shown, ensure_ascii=False, indent=2) + "\n")
    elif rows:
        _show(Console(width=_NEVER_CUT, highlight=False, markup=False), by, rows)
    else:
        sys.stdout.write(f"nothing was spent: no step with usage was recorded for {_whose(settings, by)}\n")
    return 0


def _whose(settings: Settings, by: By) -> str:
    if by == "agent":
        return "any agent"
    return f"agent {settings.agent!r}" + (f" and resource {settings.resource!r}" if by == "thread" else "")


async def _rows(settings: Settings, by: By) -> list[OfOwner]:
    async with stored_memory(settings, off="no usage either", absent="nothing was spent") as engine:
        return await _read(engine.database, settings, by)


async def _read(database: Database, settings: Settings, by: By) -> list[OfOwner]:
    if by == "thread":
        return await database.read(stored.by_thread, Scope(LOCAL_TENANT, settings.agent, settings.resource))
    if by == "resource":
        return await database.read(stored.by_resource, Tenant(LOCAL_TENANT), settings.agent)
    return await database.read(stored.by_agent, Tenant(LOCAL_TENANT))


def _as_json(by: By, row: OfOwner) -> Json:
    return {by: row.owner, "source": row.line.source, **shown_model(row.line.model, row.line.spent)}


def _total(rows: list[OfOwner]) -> Json:
    return shown_model("", total(row.line for row in rows))


def _show(console: Console, by: By, rows: list[OfOwner]) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in (by, "model", "for"):
        table.add_column(heading, overflow="fold")
    for heading in ("calls", "input", "output", "US dollars", "unpriced"):
        table.add_column(heading, justify="right")
    for row in rows:
        owner = _GONE if row.owner is None else row.owner
        table.add_row(owner, row.line.model or _NO_MODEL, row.line.source, *_numbers(row.line.spent))
    table.add_section()
    table.add_row("total", "", "", *_numbers(total(row.line for row in rows)))
    console.print(table)


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
