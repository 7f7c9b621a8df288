"""``layerlore tenants``: shows the cluster of each tenant, and moves tenants between clusters."""

import asyncio
import sys
from typing import Annotated, Any

import typer

from layerlore.memory.rules.validation import Limits, check_id
from layerlore.server.command_line.known_database import open_known_database
from layerlore.server.command_line.options import AsJson, print_json, read_settings, report_away
from layerlore.server.command_line.tables import print_table
from layerlore.server.settings.settings import Settings
from layerlore.storage.audit import stored_bytes
from layerlore.storage.core.errors import InvalidInput, StorageUnavailable
from layerlore.storage.core.installation import read_each
from layerlore.storage.core.records import Json, Scope, Tenant
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.drivers.dialect import HOME, HOME_NAME
from layerlore.storage.drivers.maintenance import ClusterUrls, move_tenant
from layerlore.storage.messages.tenant_memories import tenants_after

_HEADINGS = ("tenant", "cluster", "bytes", "")
_PAGE = 1_000


async def _list(settings: Settings) -> tuple[list[Json], list[str]]:
    """A row for each tenant with rows on a cluster that answers, and the reasons why other clusters do not answer."""
    async with open_known_database(settings, off="there are no tenants", absent="there are no tenants") as database:
        names = [HOME_NAME, *(shard.name for shard in settings.shards)]
        found = await read_each(database, _read_tenants)
        with_rows = [tenants or set() for tenants in found.found]
        shown: list[Json] = []
        for tenant in sorted(set().union(*with_rows)):
            cluster = await database.cluster_of(Tenant(tenant))
            at = list(database.clusters).index(cluster)
            also_on = [names[other] for other, tenants in enumerate(with_rows) if other != at and tenant in tenants]
            row: Json = {"tenant": tenant, "cluster": names[at], "bytes": await _read_bytes(database, tenant)}
            shown.append({**row, "also_on": also_on} if also_on else row)
        return shown, found.away


async def _read_bytes(database: Database, tenant: str) -> int | None:
    """The bytes of a tenant's content; None while no cluster serves it: its cluster is away, or its move was interrupted
    after the point of no return."""
    try:
        return (await database.read(stored_bytes.read_used, Scope(tenant, "", ""))).tenant
    except StorageUnavailable:
        return None


async def _read_tenants(tx: Tx) -> set[str]:
    found: set[str] = set()
    after = ""
    while some := await tenants_after(tx, after, _PAGE):
        found.update(some)
        after = some[-1]
    return found


def list_(flags: dict[str, Any], as_json: AsJson = False) -> int:
    """Show each tenant of which anything is stored: its cluster, and the bytes of its content."""
    rows, away = asyncio.run(_list(read_settings(flags)))
    if as_json:
        print_json({"tenants": rows})
    elif rows:
        shown = []
        for row in rows:
            size = "not served" if row["bytes"] is None else f"{row['bytes']:,}"
            rest = ""
            if also_on := row.get("also_on"):
                rest = f"rows of a move are on {', '.join(also_on)}: run that move again to finish it"
            shown.append([row["tenant"], row["cluster"], size, rest])
        print_table(_HEADINGS, shown, numbers=("bytes",))
    else:
        sys.stdout.write("nothing is stored of any tenant\n")
    return report_away(away)


def move(
    flags: dict[str, Any],
    tenant: Annotated[str, typer.Argument(help="The tenant.")],
    shard: Annotated[str, typer.Argument(help="The name of a shard of the settings, or home.")],
) -> int:
    """Move a tenant to another cluster while it is in use. Run it again after an interruption: it finishes the move."""
    settings = read_settings(flags)
    if not settings.shards:
        raise InvalidInput("the settings name no [[shards]], so there is no other cluster (docs/scaling.md)")
    serving = settings.database.get_secret_value()
    clusters = {HOME: ClusterUrls(settings.postgres.owner_url.get_secret_value() or serving, serving)}
    for each in settings.shards:
        url = each.url.get_secret_value()
        clusters[each.name] = ClusterUrls(each.owner_url.get_secret_value() or url, url)
    target = HOME if shard == HOME_NAME else check_id(shard, "SHARD", Limits().id_chars)
    asyncio.run(_move(settings, clusters, check_id(tenant, "TENANT", Limits().id_chars), target))
    sys.stdout.write(f"{tenant} is on {shard}\n")
    return 0


async def _move(settings: Settings, clusters: dict[str, ClusterUrls], tenant: str, target: str) -> None:
    # Opening brings the tables of each cluster up to date, and checks that it is the one that the settings name.
    async with open_known_database(settings, off="nothing can move", absent="nothing can move"):
        pass
    await move_tenant(clusters, tenant, target, _say)


def _say(step: str) -> None:
    sys.stdout.write(f"{step}\n")
    sys.stdout.flush()
