"""``layerlore journal``: who wrote to the memory and when, for the operator of an installation."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from heapq import merge
from typing import Annotated, Any, Literal, TypedDict, TypeVar

import typer

from layerlore.memory.engine.journal_lines import make_line, resource_mark
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.validation import parse_time
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.command_line.known_database import open_known_database
from layerlore.server.command_line.options import (
    AgentFilter,
    AsJson,
    ResourceFilter,
    TenantFilter,
    fail,
    parse_length,
    read_settings,
    report_away,
)
from layerlore.server.command_line.tables import print_table
from layerlore.server.settings.sections import as_owners
from layerlore.server.settings.settings import Settings, SettingsError
from layerlore.storage.audit import journal_rows as stored
from layerlore.storage.audit.journal_rows import JournalFilter, Outcome, StoredJournalLine
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.installation import hmac_key, read_each
from layerlore.storage.core.records import Origin, Scope
from layerlore.storage.core.transaction import Act, Database, Tx
from layerlore.storage.drivers.dialect import dialect_of

T = TypeVar("T")

_MARK_SHOWN = 12
_HEADINGS = ("at", "tenant", "agent", "resource", "principal", "client", "tool", "outcome", "counts")
_BY = Origin("command line", "journal", "command:journal")


@dataclass(frozen=True, slots=True)
class JournalRequest:
    """The filters of the command line; None: no filter. Times are lengths before now (7d) or ISO 8601."""

    tenant: str | None = None
    agent: str | None = None
    since: str | None = None
    until: str | None = None
    principal: str | None = None
    tool: str | None = None
    outcome: Outcome | None = None
    resource: str | None = None
    limit: int = 100


def show_journal(settings: Settings, request: JournalRequest, *, as_json: bool) -> int:
    """Print the newest lines, the newest last, as a table or as one JSON object a line. Returns the exit code.

    Raises SettingsError for an invalid time, NotFound, InvalidInput, StorageUnavailable or DatabaseTooNew.
    """
    now = time.time_ns() // 1_000_000
    since, until = _parse_time(request.since, "--since", now), _parse_time(request.until, "--until", now)

    async def read(database: Database) -> tuple[list[StoredJournalLine], list[str]]:
        # The journal holds keyed marks instead of the names of resources, so the filter needs a mark, too.
        key = await database.read_installation(hmac_key)
        mark = None if request.resource is None else resource_mark(key, request.resource)
        wanted = JournalFilter(
            request.tenant, request.agent, since, until, request.principal, request.tool, request.outcome, mark
        )
        found = await read_each(database, stored.read_lines, wanted, limit=request.limit)
        # The lines of each cluster are in order already.
        lines = merge(*found.there, key=lambda journaled: journaled.line.at)
        return list(lines)[-request.limit :], found.away

    rows, away = asyncio.run(_in_database(settings, "SELECT", read))
    if as_json:
        sys.stdout.writelines(json.dumps(_as_json(row)) + "\n" for row in rows)
    elif rows:
        print_table(_HEADINGS, [_row(row) for row in rows])
    else:
        sys.stdout.write("the journal has no such lines\n")
    return report_away(away)


def prune_journal(settings: Settings, older_than: str) -> int:
    """Remove the lines of all tenants that are older than a length of time (365d). Returns the exit code.

    Raises what ``journal`` raises.
    """
    now = time.time_ns() // 1_000_000
    before = _parse_ago(older_than, now)
    if before is None:
        raise SettingsError(f"--prune: {older_than!r} is not a length of time; use one such as 365d, 12h or 30m")
    pruned = asyncio.run(_in_database(settings, "DELETE", lambda database: _prune(database, settings, before, now)))
    sys.stdout.write(f"pruned {pruned} line{'' if pruned == 1 else 's'} from before {iso(before)}\n")
    return 0


async def _prune(database: Database, settings: Settings, before: int, now: int) -> int:
    key, scope = await database.read_installation(hmac_key), Scope(LOCAL_TENANT, settings.agent, settings.resource)

    # Done in parts, so that no long transaction blocks the writers of the journal.
    async def prune_some(tx: Tx) -> int:
        # The line and the removal are one transaction, so that no lines vanish without a trace.
        gone = await stored.prune(tx, before=before)
        if gone:
            await stored.append(tx, scope, make_line(key, scope, _BY, "done", now, counts={"pruned": gone}))
        return gone

    pruned = 0
    for cluster in database.clusters:
        while gone := await cluster.write_installation(prune_some):
            pruned += gone
    return pruned


async def _in_database(settings: Settings, act: Act, use: Callable[[Database], Awaitable[T]]) -> T:
    """Use the database as the owner of its tables, if the settings name one."""
    # The serving role may only append; the owner may also read and prune.
    if dialect_of(settings.database.get_secret_value()).has_roles:
        owner = settings.postgres.owner_url
        if owner.get_secret_value():
            settings = settings.model_copy(update={"database": owner, "shards": as_owners(settings.shards)})
    async with open_known_database(settings, off="there is no journal", absent="there is no journal") as database:
        if not all((await read_each(database, stored.may, act)).there):
            raise InvalidInput(
                "this role may only append to the journal. Read it as the role that owns the tables, with --owner-url "
                "or the variable LAYERLORE_POSTGRES__OWNER_URL"
            )
        return await use(database)


def _parse_ago(given: str, now: int) -> int | None:
    length = parse_length(given, digits=6)
    if length is None:
        return None
    return now - length


def _parse_time(given: str | None, flag: str, now: int) -> int | None:
    if given is None:
        return None
    ago = _parse_ago(given, now)
    try:
        if ago is None:
            return parse_time(given, flag)
        return ago
    except InvalidInput:
        raise SettingsError(
            f"{flag}: {given!r} is not a time; use a length before now such as 7d, 12h or 30m, or ISO 8601 such as "
            "2025-03-01T14:30:00Z"
        ) from None


class JournalRow(TypedDict):
    """A line of the journal, as --json prints it. ``at``: ISO 8601; ``counts``: rows by kind."""

    id: int
    at: str
    tenant: str
    agent: str
    resource_mark: str
    principal: str
    client: str
    tool: str
    outcome: str
    reason: str | None
    counts: dict[str, int]


def _as_json(row: StoredJournalLine) -> JournalRow:
    line = row.line
    return {
        "id": row.row_id,
        "at": iso(line.at),
        "tenant": row.tenant_id,
        "agent": row.agent_id,
        "resource_mark": line.resource_mark,
        "principal": line.principal,
        "client": line.client,
        "tool": line.tool,
        "outcome": line.outcome,
        "reason": line.reason,
        "counts": dict(line.counts),
    }


def _row(row: StoredJournalLine) -> list[str]:
    line = row.line
    outcome = line.outcome if line.reason is None else f"{line.outcome}: {line.reason}"
    counts = ", ".join(f"{name} {number:,}" for name, number in line.counts.items())
    who = (row.tenant_id, row.agent_id, line.resource_mark[:_MARK_SHOWN], line.principal, line.client, line.tool)
    return [_printable(each) for each in (iso(line.at), *who, outcome, counts)]


def _printable(text: str) -> str:
    """The text on one line, without control characters, which a client could put into its name and a terminal would obey."""
    words = " ".join(text.split())
    return "".join(character if character.isprintable() else "\ufffd" for character in words)


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
    """Show who wrote to the memory of any tenant, and when, never what."""
    settings = read_settings({**flags, "postgres": {"owner_url": owner_url}} if owner_url else flags)
    filters = (tenant, agent, since, until, principal, tool, outcome, resource)
    if prune is not None:
        if any(given is not None for given in filters):
            return fail("journal --prune removes all old lines: it takes no filter", 2)
        return prune_journal(settings, prune)
    return show_journal(settings, JournalRequest(*filters, limit), as_json=as_json)
