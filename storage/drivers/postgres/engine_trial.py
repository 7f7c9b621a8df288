"""Tries out what the tables and statements need of Postgres: an engine that speaks its protocol, or a pooler in between, may
lack some of it without any error."""

import asyncio
import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import asyncpg

from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.records import Tenant
from layerlore.storage.drivers.postgres.dialect import read_url
from layerlore.storage.drivers.postgres.roles import read_standing
from layerlore.storage.drivers.postgres.transaction import POOLED, UNREADABLE_URL, binding

TRIAL_SECONDS = 5.0
ARRIVAL_SECONDS = 2.0
"""How long a notification may take. One that comes later counts as lost, which only the log says."""
GUIDE = "docs/scaling.md"
SILENT = (
    "Postgres does not deliver notifications to this connection, so that changes of other servers show within 30 seconds "
    "only: name in postgres.listen_url a URL past the pooler"
)

# These errors show nothing: the server is away or busy, a standby, or refuses us.
_UNKNOWN = (OSError, *UNREADABLE_URL, asyncpg.PostgresError, asyncpg.InterfaceError)
# An engine does not know a statement, or a pooler does not pass it on.
_REFUSALS: tuple[type[Exception], ...] = (
    asyncpg.FeatureNotSupportedError,
    asyncpg.SyntaxOrAccessError,
    asyncpg.ProtocolViolationError,
)

_Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

_BOUND, _OTHER = Tenant("layerlore trial"), Tenant("layerlore trial of another")
# The features that the first migration needs: the name for the error, and small statements that fail without the
# feature.
_NEEDED = (
    ("bit_count of bit strings, as Postgres has it from version 14 on", "SELECT bit_count(B'101')"),
    ("identity columns", "CREATE TABLE layerlore_trial (n BIGINT GENERATED ALWAYS AS IDENTITY, words TSVECTOR)"),
    ("GIN indexes of words", "CREATE INDEX layerlore_trial_words ON layerlore_trial USING gin (words)"),
    (
        "text search dictionaries",
        "CREATE TEXT SEARCH DICTIONARY layerlore_trial_stem (TEMPLATE = snowball, language = 'english')",
    ),
    (
        "PL/pgSQL functions that run as their owner (SECURITY DEFINER)",
        "CREATE FUNCTION layerlore_trial_find() RETURNS TABLE (n bigint) LANGUAGE plpgsql SECURITY DEFINER AS "
        "$$ BEGIN RETURN QUERY SELECT layerlore_trial.n FROM layerlore_trial FOR UPDATE SKIP LOCKED; END $$; "
        "SELECT * FROM layerlore_trial_find()",
    ),
    (
        "triggers with transition tables",
        "CREATE FUNCTION layerlore_trial_count() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM count(*) FROM added; RETURN NULL; END $$; "
        "CREATE TRIGGER layerlore_trial_count AFTER INSERT ON layerlore_trial REFERENCING NEW TABLE AS added "
        "FOR EACH STATEMENT EXECUTE FUNCTION layerlore_trial_count(); "
        "INSERT INTO layerlore_trial (words) VALUES (NULL)",
    ),
    (
        "row-level security that also holds the owner of a table",
        "ALTER TABLE layerlore_trial ENABLE ROW LEVEL SECURITY; ALTER TABLE layerlore_trial FORCE ROW LEVEL SECURITY; "
        "CREATE POLICY bound ON layerlore_trial USING (current_setting('layerlore.tenant', true) = 'trial')",
    ),
)


async def try_engine(url: str, listen_url: str = "") -> str:
    """Try out two connections of ``url``, and the one that listens. Returns what works less well, or "".

    Raises StorageUnavailable, which names what is lacking. Raises nothing if the server cannot be reached, or has no
    connection to spare: opening the database reports that. Every trial is undone.
    """
    try:
        address = read_url(url)
        first, second = await asyncio.gather(_connect(address.dsn), _connect(address.dsn))
    except _UNKNOWN:
        return ""
    try:
        await _try_transactions(first, second, follows_statements=not address.is_pooled)
        await _try_engine(first, second)
        if address.is_pooled and not listen_url:
            return ""
        if listen_url:
            listener = await _connect(read_url(listen_url).dsn)
        else:
            listener = second
        try:
            return await _try_notification(first, listener)
        finally:
            await _leave(listener)
    except _UNKNOWN:
        return ""
    finally:
        await _leave(first)
        await _leave(second)


async def _connect(dsn: str) -> _Connection:
    return await asyncpg.connect(
        dsn,
        timeout=TRIAL_SECONDS,
        command_timeout=TRIAL_SECONDS,
        statement_cache_size=0,
        server_settings={"application_name": "layerlore trial"},
    )


async def _leave(connection: _Connection) -> None:
    with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        await connection.close(timeout=1)


async def _try_transactions(first: _Connection, second: _Connection, *, follows_statements: bool) -> None:
    """Whether a pooler in between keeps a transaction on one connection, and statements that have a name."""
    # One that works by statements ends the connection.
    with _needed(
        "Postgres",
        "transactions (a pooler must work by transaction or by session)",
        asyncpg.ConnectionDoesNotExistError,
    ):
        await first.execute("BEGIN")
        await first.fetchval("SELECT 1")
    if follows_statements:
        statement = await second.prepare("SELECT 1", name=f"layerlore_{uuid.uuid4().hex}")
        await statement.fetchval()
    await first.execute("ROLLBACK")
    if follows_statements:
        # A pooler now has two connections free. It gives the one of the transaction first or second.
        try:
            await statement.fetchval()
            await statement.fetchval()
        except (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError):
            raise StorageUnavailable(POOLED) from None


async def _try_engine(first: _Connection, second: _Connection) -> None:
    """Try what the engine itself must do, in a transaction that is rolled back."""
    await first.execute("BEGIN")
    version, is_empty, has_tables = await first.fetchrow(
        "SELECT version(), to_regclass('schema_migrations') IS NULL, to_regclass('job_turns') IS NOT NULL"
    ) or ("Postgres", False, False)
    engine = str(version).partition(" on ")[0].partition(" (")[0]
    key = random.getrandbits(62)
    with _needed(engine, "advisory locks"):
        own = await first.fetchval("SELECT pg_try_advisory_xact_lock($1)", key)
        other = await second.fetchval("SELECT pg_try_advisory_xact_lock($1)", key)
        if not own or other:
            raise _lacking(engine, "advisory locks", "two connections got the same one")
    seen = 0
    if is_empty:
        for name, sql in _NEEDED:
            with _needed(engine, name):
                await first.execute(sql)
        seen = await first.fetchval("SELECT count(*) FROM layerlore_trial")
    elif has_tables:
        await first.execute(binding(_BOUND))
        await first.execute("INSERT INTO job_turns VALUES ($1, '', '', 0)", _BOUND.tenant_id)
        await first.execute(binding(_OTHER))
        seen = await first.fetchval("SELECT count(*) FROM job_turns WHERE tenant_id = $1", _BOUND.tenant_id)
    # No policy holds a superuser, who may still serve a single tenant: the server says so.
    if seen and not (await read_standing(first)).above:
        raise _lacking(engine, "row-level security", "a transaction saw the row of another tenant")
    await first.execute("ROLLBACK")


async def _try_notification(sender: _Connection, listener: _Connection) -> str:
    channel = f"layerlore_trial_{uuid.uuid4().hex}"
    arrived = asyncio.Event()

    def hear(*_: Any) -> None:
        arrived.set()

    with _needed("this engine", "LISTEN and NOTIFY"):
        await listener.add_listener(channel, hear)
        await sender.execute(f"SELECT pg_notify('{channel}', '')")
    try:
        await asyncio.wait_for(arrived.wait(), ARRIVAL_SECONDS)
    except TimeoutError:
        return SILENT
    finally:
        await listener.remove_listener(channel, hear)
    return ""


@contextmanager
def _needed(engine: str, name: str, *more: type[Exception]) -> Iterator[None]:
    """Name what is lacking if the engine refuses a statement; ``more``: errors that mean the same here."""
    try:
        yield
    except asyncpg.InsufficientPrivilegeError:
        # Without the right to try it nothing is known.
        raise
    except _REFUSALS + more as error:
        raise _lacking(engine, name, str(error)) from None


def _lacking(engine: str, name: str, how: str) -> StorageUnavailable:
    return StorageUnavailable(f"{engine} lacks {name}: {how} ({GUIDE})")
