"""``layerlore journal``: who wrote what when, as the operator of an installation reads it."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from layerlore.memory.acceptance import parse_time
from layerlore.memory.ages import iso
from layerlore.memory.journaling import line_of, resource_mark
from layerlore.server.access.principal import LOCAL_TENANT
from layerlore.server.commands.lengths import length_ms
from layerlore.server.commands.opened import known_database
from layerlore.server.commands.tables import print_table
from layerlore.server.settings import Settings, SettingsError
from layerlore.storage import journal as stored
from layerlore.storage.database import sqlite_path
from layerlore.storage.errors import InvalidInput
from layerlore.storage.installation import hmac_key
from layerlore.storage.journal import Act, Journaled, Outcome, Wanted
from layerlore.storage.records import Json, Origin, Scope
from layerlore.storage.transaction import Database, Tx

T = TypeVar("T")

_MARK_SHOWN = 12
_HEADINGS = ("at", "tenant", "agent", "resource", "principal", "client", "tool", "outcome", "counts")
_BY = Origin("command line", "journal", "command:journal")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for; None asks for nothing. Times are lengths before now (7d) or ISO 8601."""

    tenant: str | None = None
    agent: str | None = None
    since: str | None = None
    until: str | None = None
    principal: str | None = None
    tool: str | None = None
    outcome: Outcome | None = None
    resource: str | None = None
    limit: int = 100


def journal(settings: Settings, asked: Asked, *, as_json: bool) -> int:
    """Print the newest lines, the newest last: a table, or a JSON object a line. Returns the exit code.

    Raises SettingsError for a time that is none, NotFound, InvalidInput, StorageUnavailable or DatabaseTooNew.
    """
    now = time.time_ns() // 1_000_000
    since, until = (_time(given, flag, now) for given, flag in ((asked.since, "--since"), (asked.until, "--until")))

    async def read(database: Database) -> list[Journaled]:
        key = await database.read_installation(hmac_key)
        mark = None if asked.resource is None else resource_mark(key, asked.resource)
        wanted = Wanted(asked.tenant, asked.agent, since, until, asked.principal, asked.tool, asked.outcome, mark)
        return await database.read_installation(stored.listed, wanted, limit=asked.limit)

    rows = asyncio.run(_in_database(settings, "SELECT", read))
    if as_json:
        sys.stdout.writelines(json.dumps(_as_json(row)) + "\n" for row in rows)
    elif rows:
        print_table(_HEADINGS, [_row(row) for row in rows])
    else:
        sys.stdout.write("the journal has no such lines\n")
    return 0


def prune(settings: Settings, older_than: str) -> int:
    """Remove what is older than a length of time (365d), of all tenants. Returns the exit code.

    Raises what ``journal`` raises.
    """
    now = time.time_ns() // 1_000_000
    before = _ago(older_than, now)
    if before is None:
        raise SettingsError(f"--prune: {older_than!r} is no length of time; allowed are such as 365d, 12h, 30m")
    pruned = asyncio.run(_in_database(settings, "DELETE", lambda database: _pruned(database, settings, before, now)))
    sys.stdout.write(f"pruned {pruned} line{'' if pruned == 1 else 's'} from before {iso(before)}\n")
    return 0


async def _pruned(database: Database, settings: Settings, before: int, now: int) -> int:
    key, scope = await database.read_installation(hmac_key), Scope(LOCAL_TENANT, settings.agent, settings.resource)

    async def portion(tx: Tx) -> int:
        gone = await stored.prune(tx, before=before)
        if gone:
            await stored.append(tx, scope, line_of(key, scope, _BY, "done", now, counts={"pruned": gone}))
        return gone

    pruned = 0
    while gone := await database.write_installation(portion):
        pruned += gone
    return pruned


async def _in_database(settings: Settings, act: Act, use: Callable[[Database], Awaitable[T]]) -> T:
    """Open it as the owner of the tables, as far as that is another role than the server's."""
    if sqlite_path(settings.database.get_secret_value(), settings.database_file) is None:
        owner = settings.postgres.owner_url
        settings = settings.model_copy(update={"database": owner}) if owner.get_secret_value() else settings
    async with known_database(settings, off="there is no journal", absent="there is no journal") as database:
        if not await database.read_installation(stored.may, act):
            raise InvalidInput(
                "this role may only append to the journal: read it as the role that owns the tables, with --owner-url "
                "or the variable LAYERLORE_POSTGRES__OWNER_URL"
            )
        return await use(database)


def _ago(given: str, now: int) -> int | None:
    length = length_ms(given, digits=6)
    return None if length is None else now - length


def _time(given: str | None, flag: str, now: int) -> int | None:
    if given is None:
        return None
    ago = _ago(given, now)
    try:
        return parse_time(given, flag) if ago is None else ago
    except InvalidInput:
        raise SettingsError(
            f"{flag}: {given!r} is no time; allowed are a length before now such as 7d, 12h, 30m, or ISO 8601 such as "
            "2025-03-01T14:30:00Z"
        ) from None


def _as_json(row: Journaled) -> Json:
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


def _row(row: Journaled) -> list[str]:
    line = row.line
    outcome = line.outcome if line.reason is None else f"{line.outcome}: {line.reason}"
    counts = ", ".join(f"{name} {number:,}" for name, number in line.counts.items())
    who = (row.tenant_id, row.agent_id, line.resource_mark[:_MARK_SHOWN], line.principal, line.client, line.tool)
    return [_printable(each) for each in (iso(line.at), *who, outcome, counts)]


def _printable(text: str) -> str:
    """Without what a terminal would obey: a program gives itself any name."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
