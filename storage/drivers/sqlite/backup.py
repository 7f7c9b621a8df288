"""Backups of the SQLite file, and the search for damage in it."""

import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import Conflict, DatabaseTooNew, NotFound, StorageUnavailable
from layerlore.storage.core.tables.columns import CONTENT
from layerlore.storage.drivers.migrations.runner import latest_version
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite.file import refuse_what_is_no_file, sqlite_version

WAY_OUT = (
    "stop the servers and restore a backup (`layerlore restore --from FILE`); without one, keep a copy of the file and "
    "save what can be read of it (`sqlite3 FILE .recover`). Until then what can be read is served"
)
MOST = 20
"""At most this many problems are named."""
_QUICK_SECONDS = 600.0
_STEPS = 100_000  # of SQLite's machine, between two looks at the clock
_TREE = linear_re.compile(r"\b[Tt]ree (\d+)")


def quick_check(connection: driver.Connection, seconds: float) -> list[str]:
    """The damage in the structure of the file that is found in this time; empty when all is well."""
    give_up = time.monotonic() + seconds
    # quick_check has no limit of its own, so the handler stops it.
    connection.set_progress_handler(lambda: time.monotonic() > give_up, _STEPS)
    try:
        return _named(connection, _rows(connection, f"PRAGMA quick_check({MOST})"))
    except driver.DatabaseError as error:
        if driver.is_damage(error):
            return [driver.describe_error(error)]
        # The handler stopped the check before it found damage.
        return []
    finally:
        connection.set_progress_handler(None, _STEPS)


def whole_check(connection: driver.Connection) -> list[str]:
    """All that is damaged, stored JSON included, by reading alone. Takes as long as reading the file."""
    return [*structure_check(connection), *damaged_json(connection)][:MOST]


def structure_check(connection: driver.Connection) -> list[str]:
    """The damage in the structure of the file, the indexes included; empty when all is well."""
    problems: list[str] = []
    integrity = f"PRAGMA integrity_check({MOST})"
    for query in (integrity, "PRAGMA foreign_key_check"):
        try:
            problems += _rows(connection, query)
        except driver.DatabaseError as error:
            # A row that an index needs and that cannot be read ends the check; without the indexes it names the table.
            if query == integrity:
                found = quick_check(connection, _QUICK_SECONDS)
            else:
                found = []
            problems += found or [driver.describe_error(error)]
    return _named(connection, problems)[:MOST]


def _rows(connection: driver.Connection, query: str) -> list[str]:
    rows = connection.execute(query).fetchmany(MOST)
    if query.startswith("PRAGMA foreign"):
        return [
            f"table {table}: row {row} belongs to a row of {parent} that is missing" for table, row, parent, _ in rows
        ]
    return [row[0] for row in rows if row[0] != "ok"]


def _named(connection: driver.Connection, problems: Iterable[str]) -> list[str]:
    """The problems with the names of the tables whose trees are damaged; none of it is stored text."""
    lines = [line for problem in problems for line in problem.splitlines() if line and not line.startswith("***")]
    try:
        names = dict(connection.execute("SELECT rootpage, type || ' ' || name FROM sqlite_master WHERE rootpage > 0"))
    except driver.DatabaseError:
        return lines

    def describe(line: str) -> str:
        tree = _TREE.search(line)
        if tree:
            name = names.get(int(tree[1]))
        else:
            name = None
        if name:
            return f"{name}: {line}"
        return line

    return list(map(describe, lines))


def damaged_json(connection: driver.Connection) -> list[str]:
    """The columns that hold invalid JSON, and the number of such rows."""
    found = []
    for table, columns in CONTENT.items():
        for column in (name for name, content in columns.items() if content.is_json):
            query = f"SELECT count(*) FROM {table} WHERE {column} IS NOT NULL AND NOT json_valid({column})"  # noqa: S608 - constants
            try:
                count = connection.execute(query).fetchone()[0]
            except driver.DatabaseError:
                continue  # the checks before said why, or the table is not there yet
            if count:
                found.append(f"table {table}: {column} of {count} row{'s' if count > 1 else ''} cannot be read")
    return found


if sys.platform != "win32":
    import fcntl

_BUSY_MS = 5_000
_BESIDE = ("-wal", "-journal")
# Where SQLite's unix locks lie: in the file, what readers and writers hold; in its -shm, what any open log holds.
_LOCKS = (("", 0x40000000, 512), ("-shm", 120, 9))


@dataclass(frozen=True, slots=True)
class RestoredBackup:
    """``aside``: where the former file is now, None if there was none; ``unreadable``: what of the backup's content is
    damaged, though its structure is whole."""

    version: int
    aside: Path | None
    unreadable: tuple[str, ...]


def make_backup(store: Path, backup: Path) -> None:
    """Write a copy of the store, complete in one file, 0600; servers may go on writing meanwhile.

    Raises Conflict if there is a file already, NotFound, StorageUnavailable, OSError.
    """
    if not store.exists():
        raise NotFound(f"there is nothing to back up: there is no database at {store}")
    try:
        # VACUUM INTO takes an empty file, so the mode is set before a byte is written.
        backup.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        raise Conflict(f"{backup} is there already: name another file, none is replaced") from None
    try:
        refuse_what_is_no_file(store)
        with closing(driver.connect(str(store), synchronous="FULL", read_only=True)) as connection:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            connection.execute("PRAGMA query_only = OFF")  # of the copy, which VACUUM INTO writes
            connection.execute("VACUUM INTO ?", (str(backup),))
        _sync(backup)
        # Without it a power cut may leave the file without its name.
        _sync(backup.parent)
    except BaseException as error:
        backup.unlink(missing_ok=True)
        if isinstance(error, driver.DatabaseError):
            raise StorageUnavailable(f"{store} could not be copied: {driver.describe_error(error)}") from error
        raise


def put_in_place(backup: Path, store: Path, stamp: str) -> RestoredBackup:
    """Make a checked copy of the backup the store; the earlier store stays beside it, as ``NAME.before-STAMP``.

    The backup itself is only read. Killed at any moment, it leaves the former store, or the new one.

    Raises:
        NotFound: no such backup exists.
        Conflict: it is damaged, or no memory of ours.
        DatabaseTooNew: a newer layerlore wrote it.
        DatabaseTooOld: an earlier layerlore wrote it.
        StorageUnavailable: a server has the store open, or it cannot be written.
        OSError: a file cannot be read or written.
    """
    if not backup.exists():
        raise NotFound(f"there is no file {backup}")
    # A link to the memory stays: the file that it leads to is replaced.
    store = Path(os.path.realpath(store))
    refuse_what_is_no_file(backup)
    refuse_what_is_no_file(store)
    if store.exists() and store.samefile(backup):
        raise Conflict(f"{backup} is the memory itself: name a backup of it")
    with _nobody_else(store):
        pass  # said before a large file is copied
    if not store.parent.exists():
        store.parent.mkdir(parents=True, mode=0o700)
    copy = store.with_name(f"{store.name}.restoring")
    try:
        _copy(backup, copy)
        version, unreadable = _checked(copy, backup)
        if store.exists():
            _take_over_mode(store, copy)
        _sync(copy)
        # SQLite has to open the file for this, so we lock it only afterwards.
        _put_log_into(store)
        with _nobody_else(store):
            aside = _set_aside(store, stamp)
            copy.replace(store)
            _sync(store.parent)
    finally:
        for ending in ("", *_BESIDE, "-shm"):
            copy.with_name(copy.name + ending).unlink(missing_ok=True)
    return RestoredBackup(version, aside, unreadable)


def _copy(backup: Path, copy: Path) -> None:
    """Copy a file together with the log beside it, since a running server's data is in both."""
    for ending in ("", *_BESIDE):
        source, target = backup.with_name(backup.name + ending), copy.with_name(copy.name + ending)
        target.unlink(missing_ok=True)
        if source.is_file():
            target.touch(mode=0o600)
            shutil.copyfile(source, target)


def _checked(copy: Path, backup: Path) -> tuple[int, tuple[str, ...]]:
    """Its version, and which of its content is damaged. Raises Conflict, DatabaseTooNew or DatabaseTooOld."""
    beside = " (with what lies beside it as -wal: if that is of another file, move it away)"
    named = f"{backup}{beside if any(backup.with_name(backup.name + each).is_file() for each in _BESIDE) else ''}"
    try:
        with closing(driver.connect(str(copy), synchronous="FULL")) as connection:
            # This puts the log into the copy, which has to be complete in one file.
            connection.execute("PRAGMA journal_mode = DELETE")
            if problems := structure_check(connection):
                raise Conflict(f"the backup {named} is damaged, and nothing was changed: {'; '.join(problems)}")
            version = sqlite_version(connection)
            unreadable = tuple(damaged_json(connection))
    except driver.DatabaseError as error:
        raise Conflict(f"{named} is no backup, and nothing was changed: {driver.describe_error(error)}") from error
    if version == 0:
        raise Conflict(f"{backup} is no memory of layerlore, and nothing was changed")
    if version > (known := latest_version("sqlite")):
        raise DatabaseTooNew(
            f"{backup} is at schema version {version}, and this layerlore knows versions up to {known}: upgrade layerlore"
        )
    return version, unreadable


def _take_over_mode(store: Path, copy: Path) -> None:
    """The server's own user must be able to open it, also if another user restores."""
    found = store.stat()
    copy.chmod(found.st_mode & 0o777)
    with suppress(OSError, AttributeError):
        os.chown(copy, found.st_uid, found.st_gid)


def _put_log_into(store: Path) -> None:
    """Write the log into the former file, so that the file is whole by itself. A damaged one keeps its log."""
    if not store.exists():
        return
    try:
        with closing(driver.connect(str(store), synchronous="FULL")) as connection:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            connection.execute("PRAGMA journal_mode = DELETE")
    except driver.DatabaseError as error:
        # Other faults of the former file must not keep the backup from its place.
        if driver.is_busy(error):
            raise _in_use(store) from error


def _set_aside(store: Path, stamp: str) -> Path | None:
    """Keep the former file under another name, while its own still leads to it, and take away what lies beside it."""
    aside = next(
        name
        for count in range(1, 10_000)
        if not (name := store.with_name(f"{store.name}.before-{stamp}{f'-{count}' if count > 1 else ''}")).exists()
    )
    there = store.exists()
    if there:
        try:
            aside.hardlink_to(store)
        except OSError:  # not every file system has links
            store.rename(aside)
    for ending in _BESIDE:
        beside = store.with_name(store.name + ending)
        if beside.exists():
            beside.rename(aside.with_name(aside.name + ending))
    store.with_name(f"{store.name}-shm").unlink(missing_ok=True)
    if there:
        return aside
    return None


@contextmanager
def _nobody_else(store: Path) -> Iterator[None]:
    """Hold the locks that every open connection needs: also of a damaged file, which SQLite itself does not open.

    Raises StorageUnavailable if another process has the store open.
    """
    with ExitStack() as held:
        for ending, start, length in _LOCKS if sys.platform != "win32" else ():
            file = store.with_name(store.name + ending)
            if file.exists():
                opened = held.enter_context(file.open("r+b"))
                try:
                    fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
                except OSError as error:
                    raise _in_use(store) from error
        yield


def _in_use(store: Path) -> StorageUnavailable:
    return StorageUnavailable(f"a running server has {store} open: end the servers that use it, and try again")


def _sync(path: Path) -> None:
    # Windows cannot open a folder.
    if path.is_dir() and os.name != "posix":
        return
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
