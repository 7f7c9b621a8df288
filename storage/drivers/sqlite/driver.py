"""Which SQLite runs, and what it can do.

Everything that opens SQLite takes it from here: two different SQLite libraries in one process on one file drop each
other's POSIX locks. ``pysqlite3`` carries a current SQLite that loads extensions; where it has no wheel the standard
library's module serves.
"""

import importlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import sqlite_vec  # type: ignore[import-untyped]

# SQLite before this can corrupt a database when a checkpoint and a write of two connections meet (WAL reset).
SAFE_WAL_VERSION = (3, 51, 3)
SECURE_DELETE_FTS_VERSION = (3, 42, 0)

# Pages of the file that a connection keeps. Readers have rows and vectors at hand (``row_cache``, ``vector_cache``).
WRITER_CACHE_KIB = 6_000
READER_CACHE_KIB = 6_000

# SQLite waits no longer than this. The rest is waited for outside the connection's thread (``retry_delay``).
BUSY_TIMEOUT_MS = 50


def _pick() -> ModuleType:
    for name in ("pysqlite3", "sqlite3"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportError("neither pysqlite3 nor the standard library's sqlite3 can be imported")


driver = _pick()

Connection = Any
DatabaseError: type[Exception] = driver.DatabaseError
OperationalError: type[Exception] = driver.OperationalError
IntegrityError: type[Exception] = driver.IntegrityError
VERSION: tuple[int, int, int] = driver.sqlite_version_info

_SQLITE_ERROR = 1
_SQLITE_BUSY = 5
_SQLITE_LOCKED = 6
_SQLITE_CORRUPT = 11
_SQLITE_NOTADB = 26
_OF_THE_FILE = {3, 7, 8, 9, 10, 11, 13, 14, 23, 26}
"""PERM, NOMEM, READONLY, INTERRUPT, IOERR, CORRUPT, FULL, CANTOPEN, AUTH, NOTADB."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """The abilities of the SQLite at hand: shown by ``layerlore doctor`` and ``memory_status``."""

    module: str
    version: str
    fts5: bool
    fts5_secure_delete: bool
    extensions: bool
    vector_extension: str | None
    wal_safe: bool


def is_busy(error: BaseException) -> bool:
    """Whether another connection held the lock: the only failure that is tried again."""
    if not isinstance(error, OperationalError):
        return False
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        # Extended codes keep the primary code in their low byte.
        return code & 0xFF in (_SQLITE_BUSY, _SQLITE_LOCKED)
    # Some builds of the module give no code.
    return "locked" in str(error) or "busy" in str(error)


def is_defect(error: BaseException) -> bool:
    """Whether a statement was wrong, as opposed to the file, the disk or the moment: our mistake, not the caller's."""
    code = getattr(error, "sqlite_errorcode", None)
    return code == _SQLITE_ERROR if code is not None else "no such" in str(error)


def is_of_the_file(error: BaseException) -> bool:
    """Whether the file, the disk or the moment was wrong, and neither the statement nor its values."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, DatabaseError) and (
        code & 0xFF in _OF_THE_FILE if code is not None else is_undecodable(error)
    )


def is_damage(error: BaseException) -> bool:
    """Whether what is stored is damaged, as opposed to the disk, the moment or the statement."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return is_undecodable(error) or "malformed" in str(error) or "not a database" in str(error)
    return code & 0xFF in (_SQLITE_CORRUPT, _SQLITE_NOTADB)


@contextmanager
def reading_any_bytes(connection: Connection) -> Iterator[None]:
    """Meanwhile, bytes that are no UTF-8 are read as U+FFFD."""
    connection.text_factory = lambda stored: stored.decode("utf-8", "replace")
    try:
        yield
    finally:
        connection.text_factory = str


def is_undecodable(error: BaseException) -> bool:
    """Whether a text that was read is not UTF-8."""
    return str(error).startswith("Could not decode to UTF-8")


def describe_error(error: BaseException) -> str:
    """The error, without any stored text: SQLite names tables and columns, Python's module also values."""
    if is_undecodable(error):
        return "a stored text is damaged: it is not UTF-8"
    is_pythons_own = isinstance(error, DatabaseError) and not isinstance(error, OperationalError)
    if is_pythons_own and getattr(error, "sqlite_errorcode", None) is None:
        return type(error).__name__
    return str(error)


def retry_delay(attempt: int) -> float:
    """Seconds to wait before try number ``attempt`` (from 1): short, growing to 100 ms, jittered.

    SQLite's own busy wait is unfair and gave tails of seconds; short waits with jitter cut the worst case to a third.
    """
    longest: float = min(0.1, 0.004 * 2 ** min(attempt, 5))
    return random.uniform(0.2, 1.0) * longest


def connect(path: str, *, synchronous: str, read_only: bool = False) -> Connection:
    """Open a connection for use in one thread, in autocommit mode: transactions are written out.

    Raises:
        DatabaseError: the file is not a database, cannot be opened, or is busy.
    """
    connection = driver.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256, uri=False)
    try:
        set_up(connection, synchronous=synchronous, read_only=read_only)
        if load_vector_extension(connection) is None:
            _stand_in_for_vector_extension(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def set_up(connection: Connection, *, synchronous: str, read_only: bool) -> None:
    """Set what every connection to a file needs, of whatever library that speaks SQLite's SQL."""
    for pragma in (
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
        "foreign_keys = ON",
        f"trusted_schema = {'OFF' if fts5_serves_an_untrusted_schema() else 'ON'}",
        "secure_delete = ON",
        # An I/O error in a mapped file would end the process.
        "mmap_size = 0",
        f"cache_size = -{READER_CACHE_KIB if read_only else WRITER_CACHE_KIB}",
        "temp_store = MEMORY",
        f"synchronous = {synchronous}",
        f"query_only = {'ON' if read_only else 'OFF'}",
    ):
        connection.execute(f"PRAGMA {pragma}")


@cache
def fts5_serves_an_untrusted_schema() -> bool:
    """Whether a trigger may use FTS5 with ``trusted_schema = OFF``; before SQLite 3.42 or so it must be trusted."""
    connection = driver.connect(":memory:", isolation_level=None)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("CREATE VIRTUAL TABLE words USING fts5(word)")
        connection.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY)")
        connection.execute("CREATE TRIGGER gone AFTER DELETE ON kept BEGIN DELETE FROM words; END")
        connection.execute("DELETE FROM kept")
    except DatabaseError:
        return False
    finally:
        connection.close()
    return True


def use_write_ahead_log(connection: Connection) -> None:
    """Switch the file to WAL, for good; a database in memory keeps its own journal."""
    if connection.execute("PRAGMA journal_mode").fetchone()[0] not in ("wal", "memory"):
        connection.execute("PRAGMA journal_mode = WAL")


def save_log(connection: Connection) -> None:
    """Put all that the write-ahead log holds into the file, as far as no other connection still reads it."""
    connection.execute("PRAGMA wal_checkpoint(FULL)")


def load_vector_extension(connection: Connection) -> str | None:
    """Load sqlite-vec where extensions can be loaded, and close that door again. Returns its version, or None."""
    if not hasattr(connection, "enable_load_extension"):
        return None
    try:
        connection.enable_load_extension(True)
        sqlite_vec.load(connection)
        version: str = connection.execute("SELECT vec_version()").fetchone()[0]
    except (DatabaseError, AttributeError):
        return None
    finally:
        connection.enable_load_extension(False)
    return version


def _stand_in_for_vector_extension(connection: Connection) -> None:
    """The functions of sqlite-vec in use, under the same names: six times slower, and there wherever Python is."""
    connection.create_function("vec_bit", 1, bytes, deterministic=True)
    connection.create_function("vec_distance_hamming", 2, _differing_bits, deterministic=True)


def _differing_bits(left: bytes, right: bytes) -> int:
    return (int.from_bytes(left) ^ int.from_bytes(right)).bit_count()


def abilities() -> Abilities:
    """Probe the SQLite at hand on a database in memory."""
    connection = driver.connect(":memory:")
    try:
        options = {row[0] for row in connection.execute("PRAGMA compile_options")}
        vector = load_vector_extension(connection)
        try:
            connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
            fts5 = True
        except DatabaseError:
            fts5 = "ENABLE_FTS5" in options
        return Abilities(
            module=driver.__name__.split(".")[0],
            version=driver.sqlite_version,
            fts5=fts5,
            fts5_secure_delete=fts5 and VERSION >= SECURE_DELETE_FTS_VERSION,
            extensions=hasattr(connection, "enable_load_extension"),
            vector_extension=vector,
            wal_safe=VERSION >= SAFE_WAL_VERSION,
        )
    finally:
        connection.close()


def integrity_problems(connection: Connection) -> list[str]:
    """The faults that ``integrity_check``, the foreign keys and the full-text index find; empty when all is well."""
    problems = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
    problems += [f"foreign key: {tuple(row)}" for row in connection.execute("PRAGMA foreign_key_check")]
    try:
        connection.execute("INSERT INTO search_text(search_text, rank) VALUES ('integrity-check', 1)")
    except DatabaseError as error:
        problems.append(f"full-text index: {error}")
    return problems


def rewrite(connection: Connection) -> bool:
    """Write the whole file anew, so that nothing erased is left in it, and empty the write-ahead log.

    ``secure_delete`` overwrites a row where it lies, not the copies that stay behind in the unused part of a page when
    SQLite splits or merges pages. Returns whether the log could be emptied: a reader of another connection may still
    need it. Takes time and free disk space in proportion to the file.
    """
    # This SQLite removes deleted words only when it merges the segments of the index.
    if VERSION < SECURE_DELETE_FTS_VERSION:
        connection.execute("INSERT INTO search_text(search_text) VALUES ('optimize')")
    # VACUUM makes a copy of the whole file, which may not fit into memory.
    connection.execute("PRAGMA temp_store = FILE")
    try:
        connection.execute("VACUUM")
    finally:
        connection.execute("PRAGMA temp_store = MEMORY")
    busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    return not busy


def create_private_file(path: Path) -> None:
    """Make the database file, 0600, in a folder of our own, 0700, before SQLite opens it; an existing one is left."""
    if not path.parent.exists():
        path.parent.mkdir(parents=True, mode=0o700)
    # Never opened when it is there: closing any descriptor of the file would drop the locks of this process.
    if not path.exists():
        path.touch(mode=0o600, exist_ok=True)
