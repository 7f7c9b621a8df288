"""``layerlore usage --stored``: how many bytes are stored of a tenant's resources, as counted and as found by a recount."""

import asyncio
import json
import sys

from layerlore.memory.acceptance import check_id
from layerlore.memory.limits import Limits
from layerlore.server.commands.opened import known_database
from layerlore.server.commands.tables import print_table
from layerlore.server.settings import Settings
from layerlore.storage import stored_bytes
from layerlore.storage.records import Json, Tenant
from layerlore.storage.stored_bytes import Counted

_ALL = "(all)"


def show(settings: Settings, tenant: str, *, as_json: bool) -> int:
    """Print the bytes that count, of each resource of a tenant and of all. Returns 0; 1 if a recount finds others.

    Raises NotFound, StorageUnavailable, DatabaseTooNew, LimitExceeded or InvalidInput.
    """
    rows = asyncio.run(_counted(settings, Tenant(check_id(tenant, "--tenant", Limits().id_chars))))
    if as_json:
        shown = {"tenant": tenant, "resources": [_as_json(row) for row in rows]}
        sys.stdout.write(json.dumps(shown, ensure_ascii=False, indent=2) + "\n")
    elif rows:
        headings = ("resource", "bytes", "recounted")
        print_table(headings, [_row(row) for row in rows], numbers=headings[1:])
    else:
        sys.stdout.write(f"nothing is stored of tenant {tenant!r}\n")
    wrong = [row for row in rows if row.bytes != row.recounted]
    if wrong:
        sys.stderr.write("layerlore: what is counted is not what is stored: this is a defect, please report it\n")
    return int(bool(wrong))


async def _counted(settings: Settings, tenant: Tenant) -> list[Counted]:
    async with known_database(settings, off="nothing is stored", absent="nothing is stored") as database:
        return [row for row in await database.read(stored_bytes.recount, tenant) if row.bytes or row.recounted]


def _as_json(row: Counted) -> Json:
    whose = {} if row.resource is None else {"resource": row.resource}
    return {**whose, "bytes": row.bytes, "recounted": row.recounted}


def _row(row: Counted) -> list[str]:
    differs = f"{row.recounted:,}" if row.recounted != row.bytes else "the same"
    return [_ALL if row.resource is None else row.resource, f"{row.bytes:,}", differs]
