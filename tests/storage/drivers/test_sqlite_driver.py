"""One SQLite in the process, and one thread for each connection to it."""

import ast
import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite.database import OwnThread

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
SQLITES = {"sqlite3", "_sqlite3", "pysqlite3", "apsw"}


def sources() -> list[Path]:
    """Every Python file of the repository but this one."""
    found = [
        path
        for folder in ROOT.iterdir()
        if folder.is_dir() and not folder.name.startswith(".")
        for path in folder.rglob("*.py")
        if "node_modules" not in path.parts
    ]
    return [path for path in (*found, *ROOT.glob("*.py")) if path != Path(__file__)]


def imported(path: Path) -> set[str]:
    """The top names that a file imports, also by name at run time."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module or "")
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = ast.unparse(node.func)
            if function.endswith(("import_module", "__import__", "importorskip")):
                names.add(str(node.args[0].value))
    return {name.partition(".")[0] for name in names}


def test_nothing_but_the_driver_module_imports_sqlite() -> None:
    """Two SQLite libraries in one process on one file drop each other's locks."""
    found = {path: imported(path) for path in sources() if re.search("sqlite|apsw", path.read_text(encoding="utf-8"))}
    assert [path for path, names in found.items() if names & SQLITES] == []
    assert [path for path, names in found.items() if "aiosqlite" in names] == [
        ROOT / "storage/drivers/sqlite/database.py"
    ]


def test_nothing_lets_aiosqlite_open_a_connection_of_its_own() -> None:
    """It would take the standard library's SQLite."""
    tree = ast.parse((ROOT / "storage/drivers/sqlite/database.py").read_text(encoding="utf-8"))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "aiosqlite"
    }
    assert used == {"Connection"}


def connect() -> driver.Connection:
    return driver.connect(":memory:", synchronous="FULL")


@pytest.fixture
async def thread() -> AsyncIterator[OwnThread]:
    own = await OwnThread.start(connect)
    yield own
    await own.close()


async def test_a_hop_runs_the_function_in_the_connections_own_thread(thread: OwnThread) -> None:
    def where(connection: driver.Connection, *arguments: int) -> tuple[object, int, tuple[int, ...]]:
        return type(connection), threading.get_ident(), arguments

    first, second = await asyncio.gather(thread.hop(where, 1, 2), thread.hop(where))
    assert first[0] is driver.driver.Connection
    assert first[1] == second[1] != threading.get_ident()
    assert (first[2], second[2]) == ((1, 2), ())


async def test_a_hop_raises_what_the_function_raises_and_the_thread_goes_on(thread: OwnThread) -> None:
    class Odd(BaseException):
        pass

    def fail(_: driver.Connection, error: BaseException) -> None:
        raise error

    for error in (driver.OperationalError("odd"), KeyError("k"), Odd()):
        with pytest.raises(type(error)) as raised:
            await thread.hop(fail, error)
        assert raised.value is error
    assert await thread.hop(lambda connection: connection.execute("SELECT 1").fetchone()) == (1,)


async def test_hops_run_one_after_the_other_in_their_order(thread: OwnThread) -> None:
    ran: list[int] = []
    await asyncio.gather(*(thread.hop(lambda _, n: ran.append(n), n) for n in range(50)))
    assert ran == list(range(50))


async def test_a_hop_runs_to_its_end_when_its_caller_is_cancelled(thread: OwnThread) -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work(connection: driver.Connection) -> None:
        begun.set()
        assert go_on.wait(20)
        ended.set()

    hop = asyncio.create_task(thread.hop(work))
    await asyncio.to_thread(begun.wait, 20)
    hop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hop
    assert not ended.is_set()
    go_on.set()
    assert await thread.hop(lambda _: ended.is_set())


async def test_the_event_loop_goes_on_during_a_hop(thread: OwnThread) -> None:
    go_on = threading.Event()
    hop = asyncio.create_task(thread.hop(lambda _: go_on.wait(20)))
    await asyncio.sleep(0)
    go_on.set()
    assert await hop


async def test_a_statement_can_be_stopped_from_outside(thread: OwnThread) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    hop = asyncio.create_task(thread.hop(lambda connection: connection.execute(endless).fetchone()))
    while not hop.done():  # the first may come before the statement has begun
        thread.interrupt()
        await asyncio.wait({hop}, timeout=0.01)
    with pytest.raises(driver.OperationalError, match="interrupted"):
        await hop


async def test_a_connection_that_cannot_be_opened_leaves_no_thread_behind() -> None:
    def fail() -> driver.Connection:
        raise driver.OperationalError("cannot")

    before = threading.active_count()
    for _ in range(3):
        with pytest.raises(driver.OperationalError, match="cannot"):
            await OwnThread.start(fail)
    assert threading.active_count() <= before + 1  # the event loop keeps a thread for such waits


async def test_a_close_that_is_cancelled_has_ended_the_thread_all_the_same() -> None:
    own = await OwnThread.start(connect)
    thread = await own.hop(lambda _: threading.current_thread())
    go_on = threading.Event()
    hop = asyncio.create_task(own.hop(lambda _: go_on.wait()))
    closing = asyncio.create_task(own.close())
    for _ in range(3):
        await asyncio.sleep(0)
        closing.cancel()
    assert not closing.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await closing
    thread.join(30)
    assert not thread.is_alive()
    assert await hop


def test_no_extension_can_be_loaded_once_a_connection_is_open() -> None:
    connection = connect()
    try:
        with pytest.raises(driver.OperationalError, match=r"not authorized|no such function"):
            connection.execute("SELECT load_extension('x')")
    finally:
        connection.close()


def test_only_a_lock_counts_as_busy(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    first, second = (driver.connect(path, synchronous="OFF") for _ in range(2))
    try:
        first.execute("BEGIN IMMEDIATE")
        with pytest.raises(driver.DatabaseError) as locked:
            second.execute("BEGIN IMMEDIATE")
        with pytest.raises(driver.DatabaseError) as wrong:
            second.execute("SELECT * FROM nowhere")
        assert driver.is_busy(locked.value)
        assert not driver.is_busy(wrong.value)
        assert not driver.is_busy(OSError("database is locked"))
    finally:
        first.close()
        second.close()


def test_waits_grow_and_stay_short() -> None:
    for attempt in range(1, 2_000):
        longest = min(0.1, 0.004 * 2 ** min(attempt, 5))
        assert 0.2 * longest <= driver.retry_delay(attempt) <= longest
    assert len({driver.retry_delay(3) for _ in range(20)}) > 1


def test_the_abilities_are_those_of_the_sqlite_that_runs() -> None:
    abilities = driver.abilities()
    assert abilities.module == driver.driver.__name__.partition(".")[0]
    assert abilities.version == ".".join(map(str, driver.VERSION))
    assert abilities.fts5
    assert abilities.wal_safe == (driver.VERSION >= driver.SAFE_WAL_VERSION)
    connection = connect()
    try:
        version = driver.load_vector_extension(connection)
        assert version == abilities.vector_extension
        if version is not None:
            assert connection.execute("SELECT vec_version()").fetchone() == (version,)
    finally:
        connection.close()


def test_the_standard_librarys_sqlite_serves_where_there_is_no_other(tmp_path: Path) -> None:
    program = Path(__file__).parents[1] / "programs" / "standard_library.py"
    command = [sys.executable, str(program), str(tmp_path / "memory.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "module": "sqlite3",
        "found": [[2, 1], [1, 0], [2, 1]],
        "nearest": [2, 1],
        "problems": [],
        "rewritten": True,
        "erased": True,
        "kept": True,
    }


def test_the_stand_in_for_the_vector_extension_counts_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = [bytes(range(n, n + 64)) for n in range(0, 192, 7)]
    sql = "SELECT vec_distance_hamming(vec_bit(?), vec_bit(?))"
    monkeypatch.setattr(driver, "load_vector_extension", lambda _: None)
    connection = connect()
    try:
        for code in codes:
            bits = (int.from_bytes(code) ^ int.from_bytes(codes[0])).bit_count()
            assert connection.execute(sql, (code, codes[0])).fetchone() == (bits,)
    finally:
        connection.close()
