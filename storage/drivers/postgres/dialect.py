"""Postgres as a kind of database: what its URL means. Its driver is loaded when a database is opened."""

import asyncio
import importlib
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.drivers.dialect import Ability, DatabaseState, OpenOptions, ShardUrls
from layerlore.storage.drivers.migrations.runner import latest_version

if TYPE_CHECKING:
    from layerlore.storage.core.transaction import Database


OPTION = "statement_cache_size"
_LARGEST = 10_000


@dataclass(frozen=True, slots=True)
class PostgresUrl:
    """``statements``: how many prepared statements a connection keeps. 0 means none, as a pooler needs that
    gives each transaction another connection of the server."""

    dsn: str
    statements: int = 100

    @property
    def is_pooled(self) -> bool:
        return self.statements == 0


def read_url(url: str) -> PostgresUrl:
    """Raises ValueError, whose text repeats nothing of the URL, for an option that is not a number."""
    address, mark, query = url.partition("?")
    if mark:
        given = dict(parse_qsl(query, keep_blank_values=True))
    else:
        given = {}
    if OPTION not in given:
        return PostgresUrl(url)
    value = given.pop(OPTION)
    if not (value.isascii() and value.isdigit() and int(value) <= _LARGEST):
        raise ValueError(f"the URL's {OPTION} must be a number from 0 to {_LARGEST:,}; 0 for a pooler")
    return PostgresUrl(address + (f"?{urlencode(given)}" if given else ""), int(value))


log = logging.getLogger(__name__)

_HOST = linear_re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]*)?")


class PostgresDialect:
    """Connects to a server."""

    form = "postgresql://user:password@host:5432/database"
    has_roles = True

    def check(self, url: str) -> None:
        read_url(url)
        if not _can_be_taken_apart(url):
            raise ValueError(
                "the URL cannot be read: special characters in its user and password must be percent-encoded"
            )

    def is_in_memory(self, url: str) -> bool:
        return False

    async def open(self, url: str, options: OpenOptions) -> "Database":
        # asyncpg takes a while to load, which must not hold up the event loop.
        module = await asyncio.to_thread(importlib.import_module, "layerlore.storage.drivers.postgres.database")
        trial = importlib.import_module("layerlore.storage.drivers.postgres.engine_trial")
        patience = module.Patience(options.idle_seconds, options.lock_seconds)

        async def open_cluster(given: ShardUrls, shard: str | None) -> "Database":
            # Before the first table is made, so that the error names what is lacking and not a statement.
            if weakness := await trial.try_engine(given.url, given.listen):
                log.warning("%s", weakness)
            opened = await module.PostgresDatabase.open(
                given.url, pool_size=options.pool_size, listen_url=given.listen, patience=patience, shard=shard
            )
            return cast("Database", opened)

        home = ShardUrls(url, options.listen_url)
        if not options.shards:
            return await open_cluster(home, None)
        several = importlib.import_module("layerlore.storage.drivers.postgres.sharded")
        return cast("Database", await several.open_sharded(open_cluster, home, options.shards))

    async def look(self, url: str, default_file: Path, *, whole: bool) -> DatabaseState:
        roles = importlib.import_module("layerlore.storage.drivers.postgres.roles")
        found = await roles.look_at_server(url)
        where = without_password(url)
        state = DatabaseState(
            "postgres",
            where,
            latest_version("postgres"),
            version=found.version,
            server=found.server,
            shard=found.shard,
            failure=found.failure,
            mend="start its server, or correct the URL",
            place=where,
        )
        if found.failure or not whole:
            return state
        trial = importlib.import_module("layerlore.storage.drivers.postgres.engine_trial")
        try:
            return replace(state, weakness=await trial.try_engine(url))
        except StorageUnavailable as error:
            return replace(state, failure=str(error), mend="use Postgres itself, or mend what the error names")

    def abilities(self) -> list[Ability]:
        return [
            Ability("search", "full text", "tsvector"),
            Ability("search", "vectors", "compared by Postgres itself, without an extension"),
        ]


def _can_be_taken_apart(url: str) -> bool:
    """Whether the parts of a URL are where they belong, so that none of them holds a piece of the password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    hosts = parts.netloc.rpartition("@")[2].split(",")
    # An @ behind the hosts means that the password has a / ? or # that is not encoded.
    return "@" not in parts.path + parts.query + parts.fragment and all(_HOST.fullmatch(host) for host in hosts)


def without_password(url: str) -> str:
    """A URL's user, hosts, ports and database, and nothing else of it; for a URL that passed the check."""
    parts = urlsplit(url)
    login, _, hosts = parts.netloc.rpartition("@")
    user = login.partition(":")[0]
    hosts = hosts or ",".join(parse_qs(parts.query).get("host", []))
    return f"postgresql://{user}{'@' if user else ''}{hosts}{parts.path}"


DIALECT = PostgresDialect()
