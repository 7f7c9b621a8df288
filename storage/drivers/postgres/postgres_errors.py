"""The errors of asyncpg by their consequences, and the parts of them that may be shown."""

from urllib.parse import unquote

import asyncpg

from layerlore.storage.core import linear_re

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
_DAMAGED = "Postgres says that its data is damaged: restore a backup of it, or mend it as its log says"


def unable(error: BaseException) -> str:
    """Why the server cannot serve, without any text of its own, which may repeat the URL or what is stored."""
    match error:
        case asyncpg.DiskFullError():
            return "the disk of Postgres is full"
        case asyncpg.ReadOnlySQLTransactionError():
            return "Postgres takes no writes: it is a standby, or was made read-only"
        case asyncpg.DataCorruptedError() | asyncpg.IndexCorruptedError():
            return _DAMAGED
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
