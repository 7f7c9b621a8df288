"""What is damaged in a SQLite file: found by SQLite's own checks, and named by the tables that it concerns."""

import time
from collections.abc import Iterable

from layerlore.storage.core import linear_re
from layerlore.storage.core.content_columns import CONTENT
from layerlore.storage.drivers.sqlite import driver

WAY_OUT = (
    "stop the servers and restore a backup (`layerlore restore --from FILE`); without one, keep a copy of the file and "
    "save what can be read of it (`sqlite3 FILE .recover`). Until then what can be read is served"
)
MOST = 20
"""So many problems are named."""
_QUICK_SECONDS = 600.0
_STEPS = 100_000  # of SQLite's machine, between two looks at the clock
_TREE = linear_re.compile(r"\b[Tt]ree (\d+)")
_JSON = ("json", "parts", "body", "window")


def quick_check(connection: driver.Connection, seconds: float) -> list[str]:
    """What is damaged in the structure of the file, as far as it is found in this time; empty when all is well."""
    give_up = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > give_up, _STEPS)
    try:
        return _named(connection, _rows(connection, f"PRAGMA quick_check({MOST})"))
    except driver.DatabaseError as error:
        return [driver.describe_error(error)] if driver.is_damage(error) else []
    finally:
        connection.set_progress_handler(None, _STEPS)


def whole_check(connection: driver.Connection) -> list[str]:
    """All that is damaged, stored JSON included, by reading alone. Takes as long as reading the file."""
    return [*structure_check(connection), *damaged_json(connection)][:MOST]


def structure_check(connection: driver.Connection) -> list[str]:
    """What is damaged in the structure of the file, the indexes included; empty when all is well."""
    problems: list[str] = []
    integrity = f"PRAGMA integrity_check({MOST})"
    for query in (integrity, "PRAGMA foreign_key_check"):
        try:
            problems += _rows(connection, query)
        except driver.DatabaseError as error:
            # A row that an index needs and that cannot be read ends the check; without the indexes it names the table.
            found = quick_check(connection, _QUICK_SECONDS) if query == integrity else []
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
        name = names.get(int(tree[1])) if tree else None
        return f"{name}: {line}" if name else line

    return list(map(describe, lines))


def damaged_json(connection: driver.Connection) -> list[str]:
    """Which columns hold JSON that is none, and in how many rows."""
    found = []
    for table, columns in CONTENT.items():
        for column in (name for name, content in columns.items() if content.form in _JSON):
            query = f"SELECT count(*) FROM {table} WHERE {column} IS NOT NULL AND NOT json_valid({column})"  # noqa: S608 - constants
            try:
                count = connection.execute(query).fetchone()[0]
            except driver.DatabaseError:
                continue  # the checks before said why, or the table is not there yet
            if count:
                found.append(f"table {table}: {column} of {count} row{'s' if count > 1 else ''} cannot be read")
    return found
