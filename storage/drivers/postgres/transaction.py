"""A Postgres transaction as store functions see it: how it begins, how it is bound to whose rows it may see, and the errors of
asyncpg by their consequences.

The settings last until the transaction ends, and the policies of the tables (``migrations/``) compare with them: a
statement that forgets its condition finds nothing of others, and one in an unbound transaction nothing at all.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import unquote

import asyncpg
from asyncpg.pool import PoolConnectionProxy
from sqlalchemy import Executable

from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.scopes import KINDS, scope_token
from layerlore.storage.core.statements import CompiledStatement, compiled
from layerlore.storage.core.transaction import Backend, Row
from layerlore.storage.drivers.postgres import backend
from layerlore.storage.drivers.postgres.backend import DIALECT

# The connection or the server went away: the unit is run again.
LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InternalClientError,
    ConnectionError,
    OSError,
)
# Another transaction was in the way: the same.
IN_THE_WAY = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError)
# A statement took too long: asyncpg gave it up, or the server did.
TOO_LONG = (TimeoutError, asyncpg.QueryCanceledError)
# The errors of asyncpg for a wrong URL; a port out of range is an OverflowError.
UNREADABLE_URL = (ValueError, LookupError, OverflowError)
REFUSED = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)
# The server answers, and cannot do it: trying again at once does not help.
UNABLE = (
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresSystemError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.DataCorruptedError,
    asyncpg.IndexCorruptedError,
    asyncpg.DuplicatePreparedStatementError,
    asyncpg.InvalidSQLStatementNameError,
)

POOLED = (
    "Postgres is behind a pooler that shares connections between transactions and does not follow prepared statements: "
    "add ?statement_cache_size=0 to the database URL (docs/tenants.md)"
)


def unable(error: BaseException) -> str:
    """Why the server cannot serve, without any text of its own, which may repeat the URL or what is stored."""
    match error:
        case asyncpg.DiskFullError():
            return "the disk of Postgres is full"
        case asyncpg.ReadOnlySQLTransactionError():
            return "Postgres takes no writes: it is a standby, or was made read-only"
        case asyncpg.DataCorruptedError() | asyncpg.IndexCorruptedError():
            return "Postgres says that its data is damaged: restore a backup of it, or mend it as its log says"
        case asyncpg.DuplicatePreparedStatementError() | asyncpg.InvalidSQLStatementNameError():
            return POOLED
        case asyncpg.InvalidAuthorizationSpecificationError() | asyncpg.InvalidCatalogNameError():
            return f"Postgres refused the connection ({type(error).__name__})"
        case asyncpg.InsufficientResourcesError() | asyncpg.PostgresSystemError():
            return f"Postgres cannot serve now ({type(error).__name__})"
    return f"Postgres cannot be reached ({type(error).__name__})"


def without_url(error: BaseException, url: str) -> str:
    """The error, without any text that repeats the URL's password, or a piece of it that was read as a host."""
    if isinstance(error, UNREADABLE_URL):
        return (
            "its URL cannot be understood; in a password, characters such as / ? # @ : are written as %2F %3F %23 ..."
        )
    text = f"{type(error).__name__}: {error}"
    # The longest first, since a short piece may be part of a longer one.
    for secret in sorted(_secrets(url), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


_SEPARATOR = linear_re.compile("[/?#@:&=]")
_PASSWORD = linear_re.compile("password=([^&]*)")


def _secrets(url: str) -> set[str]:
    password = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    raw = [password, *_SEPARATOR.split(password), *_PASSWORD.findall(url)]
    # A piece of one or two characters would blank out half of the message.
    return {secret for part in raw for secret in (part, unquote(part)) if len(secret) > 2}


PooledConnection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
Access = Literal["READ WRITE", "READ ONLY"]

# A read sees one snapshot; a write sees what others committed before each of its statements.
_BEGIN: dict[Access, str] = {
    "READ WRITE": "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit TO on",
    "READ ONLY": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}


@dataclass(frozen=True, slots=True)
class Patience:
    """The seconds after which the server ends a transaction that does nothing, as that of a stopped process, and a wait
    for a lock. 0: never."""

    idle_seconds: float = 3.0
    lock_seconds: float = 8.0


PATIENCE = Patience()


def beginning(
    access: Access, whose: Scope | Tenant | None, patience: Patience = PATIENCE, shard: str | None = None
) -> str:
    """One round trip that begins a transaction and binds it; unbound (None) it sees no tenant's rows.

    ``shard``: the name of this cluster in an installation of several. The server then refuses a tenant of another one.
    """
    # Set here and not for the connection: behind a pooler the next transaction may have another one.
    begin = (
        f"{_BEGIN[access]}; SET LOCAL jit TO off; "
        f"SET LOCAL idle_in_transaction_session_timeout TO {round(patience.idle_seconds * 1000)}; "
        f"SET LOCAL lock_timeout TO {round(patience.lock_seconds * 1000)}"
    )
    if whose is None:
        return begin
    begin = f"{begin}; {binding(whose)}"
    if shard is None:
        return begin
    return f"{begin}; {expectation(whose, shard, access)}"


ELSEWHERE = "LL001"
"""The SQLSTATE with which ``layerlore_expect_tenant`` refuses a tenant."""


def expectation(whose: Scope | Tenant, shard: str, access: Access) -> str:
    """Raises ELSEWHERE unless this cluster serves the tenant. A write keeps it from being moved until it ends."""
    writes = str(access == "READ WRITE").lower()
    return f"SELECT layerlore_expect_tenant({_literal(whose.tenant_id)}, {_literal(shard)}, {writes})"


def binding(whose: Scope | Tenant) -> str:
    """The scope of the open transaction, until it ends."""
    if isinstance(whose, Tenant):
        values = {"tenant": whose.tenant_id, "reach": "tenant", "agent": "", "resource": "", "tokens": ""}
    else:
        tokens = " ".join(scope_token(whose, kind) for kind in KINDS)
        of_scope = {"tenant": whose.tenant_id, "agent": whose.agent_id, "resource": whose.resource_id}
        values = {**of_scope, "reach": "scope", "tokens": tokens}
    # Until the transaction ends: behind a pooler the connection then serves another one.
    settings = (f"set_config('layerlore.{name}', {_literal(value)}, true)" for name, value in values.items())
    return f"SELECT {', '.join(settings)}"


def _literal(value: str) -> str:
    """A text as SQL, whatever is in it: several statements go in one message, which takes no parameters."""
    return f"convert_from('\\x{value.encode().hex()}', 'UTF8')"


# A cursor asks for few rows first, then for as many as have about this number of characters in all.
_FIRST_ROWS = 8
_READ_CHARS = 4 * 1024 * 1024


def _size(row: Row) -> int:
    return sum(len(value) for value in row if isinstance(value, str))


class PostgresTx:
    """Runs statements on one connection, inside its transaction. ``wrote``: whether one of them changed a row;
    ``changed_memory``: a row that answers are made of."""

    backend: Backend = backend

    def __init__(
        self,
        connection: PooledConnection,
        *,
        is_pooled: bool = False,
        access: Access = "READ ONLY",
        shard: str | None = None,
    ) -> None:
        """``is_pooled``: a pooler gives each transaction another connection of the server. ``shard``: see
        ``beginning``."""
        self._connection = connection
        self._is_pooled = is_pooled
        self._access: Access = access
        self._shard = shard
        self._waiting: dict[object, tuple[Executable, list[Any]]] = {}
        self.wrote = False
        self.changed_memory = False

    async def send_waiting(self) -> None:
        """Run the statements that wait, in one round trip."""
        if not self._waiting:
            return
        statements, arguments = zip(*self._waiting.values(), strict=True)
        self._waiting.clear()
        await self._connection.execute(_joined(statements), *itertools.chain.from_iterable(arguments))

    async def all(self, statement: Executable, /, **values: Any) -> Sequence[Row]:
        await self.send_waiting()
        sql = compiled(statement, DIALECT)
        rows = cast("Sequence[Row]", await self._connection.fetch(sql.sql, *sql.arguments(values)))
        self._note_change(sql, len(rows))
        return rows

    async def each(self, statement: Executable, take: Callable[[Row], bool], /, **values: Any) -> None:
        await self.send_waiting()
        sql = compiled(statement, DIALECT)
        arguments = sql.arguments(values)
        if self._is_pooled:
            # asyncpg numbers the statements of a cursor, and several servers would use one number on one connection.
            statement_without_name = await self._connection.prepare(sql.sql, name="")
            cursor = await statement_without_name.cursor(*arguments)
        else:
            cursor = await self._connection.cursor(sql.sql, *arguments)
        ask = _FIRST_ROWS
        while rows := await cursor.fetch(ask):
            for row in rows:
                if not take(cast("Row", row)):
                    return
            # Fewer rows than wanted are the last ones, which saves a round trip.
            if len(rows) < ask:
                return
            # The next rows may all be as long as the longest one so far.
            size = max(_size(cast("Row", row)) for row in rows)
            ask = max(1, min(2 * ask, _READ_CHARS // max(1, size)))

    async def one(self, statement: Executable, /, **values: Any) -> Row | None:
        await self.send_waiting()
        sql = compiled(statement, DIALECT)
        row = cast("Row | None", await self._connection.fetchrow(sql.sql, *sql.arguments(values)))
        self._note_change(sql, row is not None)
        return row

    async def scalar(self, statement: Executable, /, **values: Any) -> Any:
        row = await self.one(statement, **values)
        if row is None:
            return None
        return row[0]

    async def scalars(self, statement: Executable, /, **values: Any) -> list[Any]:
        return [row[0] for row in await self.all(statement, **values)]

    async def run(self, statement: Executable, /, **values: Any) -> int:
        await self.send_waiting()
        sql = compiled(statement, DIALECT)
        status: str = await self._connection.execute(sql.sql, *sql.arguments(values))
        tag, _, count = status.rpartition(" ")
        if not count.isdigit():
            return 0
        if tag.startswith(("INSERT", "UPDATE", "DELETE", "MERGE")):
            self._note_change(sql, int(count))
        return int(count)

    def _note_change(self, sql: CompiledStatement, rows: int) -> None:
        if rows and sql.writes:
            self.wrote = True
            self.changed_memory = self.changed_memory or sql.changes_memory

    async def many(self, statement: Executable, rows: Sequence[Mapping[str, Any]], /) -> None:
        if not rows:
            return
        # executemany does not say how many rows it changed. It is used for writing only.
        sql = compiled(statement, DIALECT)
        self._note_change(sql, len(rows))
        # Two statements that run as one do not see each other's rows, so each has a table of its own.
        table = getattr(statement, "table", statement)
        if len(rows) == 1 and table not in self._waiting:
            self._waiting[table] = (statement, sql.arguments(rows[0]))
            return
        await self.send_waiting()
        await self._connection.executemany(sql.sql, [sql.arguments(row) for row in rows])

    async def enter(self, scope: Scope) -> None:
        await self.send_waiting()
        bind = binding(scope)
        if self._shard is not None:
            bind = f"{bind}; {expectation(scope, self._shard, self._access)}"
        await self._connection.execute(bind)


_PARAMETER = linear_re.compile(r"\$(\d{1,5})")


@lru_cache(maxsize=512)
def _joined(statements: tuple[Executable, ...]) -> str:
    """One statement that runs all of them. The parameters of each follow those of the ones before it."""
    parts: list[str] = []
    before = 0
    for statement in statements:
        sql = compiled(statement, DIALECT)
        parts.append(_PARAMETER.sub(partial(_moved, by=before), sql.sql))
        before += len(sql.names)
    *first, last = parts
    if not first:
        return last
    others = ", ".join(f"part_{place} AS ({sql})" for place, sql in enumerate(first))
    return f"WITH {others} {last}"


def _moved(parameter: "linear_re.Match", by: int) -> str:
    return f"${int(parameter[1]) + by}"
