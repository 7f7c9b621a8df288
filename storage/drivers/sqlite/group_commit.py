"""Group commit: store functions that wait at the same time share one SQLite transaction, a savepoint each.

One fsync then serves up to 64 callers. Nothing is answered before COMMIT; a failed COMMIT fails all of the group.
Everything below ``commit_group`` runs in the writer connection's thread; the rest runs on the event loop.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any

from layerlore.storage.core import metrics
from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.transaction import Backend
from layerlore.storage.drivers.sqlite import backend, driver
from layerlore.storage.drivers.sqlite.transaction import SqliteTx, drive

BUSY = "busy"
"""The reason of a transaction that runs again because another process has the file's lock."""
GROUP_SIZE = 64
GROUP_SECONDS = 0.005
_MOST_SCOPES = 10_000


class ScopeVersions:
    """How often this process committed something to each scope. Used in the writer connection's thread alone, so that
    between a commit and its count no other thread can look."""

    def __init__(self) -> None:
        self._everywhere = 0
        self._by_scope: dict[Scope, int] = {}

    def committed(self, whose: Scope | Tenant | None) -> None:
        """Count a commit to a scope; of a tenant's or the installation's, to all scopes."""
        if isinstance(whose, Scope) and len(self._by_scope) < _MOST_SCOPES:
            self._by_scope[whose] = self._by_scope.get(whose, 0) + 1
            return
        # From here on each scope counts from zero again, which no earlier version had together with this number.
        self._everywhere += 1
        self._by_scope.clear()

    def of(self, scope: Scope) -> tuple[int, int]:
        """The version of a scope, which no later commit to it gives again."""
        return self._everywhere, self._by_scope.get(scope, 0)


@dataclass(slots=True)
class QueuedUnit:
    """One store function that waits for its transaction."""

    start: Callable[[SqliteTx], Coroutine[Any, Any, Any]]
    answer: asyncio.Future[Any]
    give_up: float
    """When it has waited long enough, by the monotonic clock."""
    context: Context
    """The caller's context: the function reads the call's time zone there, though it runs in the writer's thread."""
    whose: Scope | Tenant | None = None
    changed_memory: bool = False


@dataclass(slots=True)
class Outcome:
    value: Any = None
    error: BaseException | None = None


class TransactionLost(Exception):
    """SQLite ended the whole transaction under a function (a full disk does): none of the group happened."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


def commit_group(
    connection: driver.Connection,
    calls: Sequence[QueuedUnit],
    check_file: Callable[[], None],
    backend: Backend = backend,
    versions: ScopeVersions | None = None,
) -> list[Outcome]:
    """Run as many of the calls as fit into ``GROUP_SECONDS``, in order, in one transaction.

    Returns the outcomes of the first n calls; the others were not begun. Raises TransactionLost, or SQLite's own
    error when the transaction could not begin or commit: then nothing happened. Raises what ``check_file`` raises.
    """
    # Taking the write lock only after a read fails at once if another process has written meanwhile.
    connection.execute("BEGIN IMMEDIATE")
    try:
        check_file()
        outcomes = _run_members(SqliteTx(connection, backend=backend), connection, calls)
        # Before it is known whether the commit succeeds: a version too many only costs time.
        for call in calls[: len(outcomes)]:
            if versions is not None and call.changed_memory:
                versions.committed(call.whose)
        connection.execute("COMMIT")
    except BaseException:
        # SQLite itself may have ended the transaction, and then ROLLBACK would raise.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    try:
        # A file that was replaced during COMMIT took the write along to where no path leads.
        check_file()
    except StorageUnavailable as error:
        raise type(error)(f"this write may be lost: {error}") from error
    return outcomes


def _run_members(tx: SqliteTx, connection: driver.Connection, calls: Sequence[QueuedUnit]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    stop_at = time.monotonic() + GROUP_SECONDS
    for call in calls:
        connection.execute("SAVEPOINT member")
        tx.changed_memory = False
        try:
            outcome = Outcome(value=call.context.run(drive, call.start(tx)))
        except Exception as error:  # whatever a member raises is its caller's, not the group's
            if not connection.in_transaction:
                raise TransactionLost(error) from error
            connection.execute("ROLLBACK TO member")
            outcome = Outcome(error=_unavailable(error) if driver.is_of_the_file(error) else error)
        connection.execute("RELEASE member")
        call.changed_memory = tx.changed_memory and outcome.error is None
        outcomes.append(outcome)
        # The others wait for the next group, so that no group holds the lock for long.
        if time.monotonic() > stop_at:
            break
    return outcomes


def _unavailable(error: BaseException) -> StorageUnavailable:
    unavailable = StorageUnavailable(f"the database could not write: {driver.describe_error(error)}")
    unavailable.__cause__ = error
    return unavailable


@dataclass(slots=True)
class Writer:
    """Feeds waiting calls to the writer connection, one group at a time.

    ``hop`` runs a function in the connection's thread; ``deadline`` is how long, in seconds, a call waits for a
    busy lock, in the queue too, before it gets StorageUnavailable. ``committed`` is called after each commit,
    ``check_file`` in the thread around it: it raises StorageUnavailable if the file has left the place where others
    look for it.
    """

    hop: Callable[..., Awaitable[list[Outcome]]]
    deadline: float
    committed: Callable[[], None]
    check_file: Callable[[], None]
    backend: Backend = backend
    versions: ScopeVersions = field(default_factory=ScopeVersions)
    _waiting: deque[QueuedUnit] = field(default_factory=deque)
    _task: asyncio.Task[None] | None = None

    async def submit(
        self, start: Callable[[SqliteTx], Coroutine[Any, Any, Any]], whose: Scope | Tenant | None = None
    ) -> Any:
        """Wait until the function's transaction is committed. Raises what it raised, or StorageUnavailable."""
        loop = asyncio.get_running_loop()
        call = QueuedUnit(start, loop.create_future(), time.monotonic() + self.deadline, copy_context(), whose)
        self._waiting.append(call)
        if self._task is None or self._task.done():
            # It serves further calls, too, so it belongs to none.
            self._task = loop.create_task(self._drain(), context=Context())
        return await call.answer

    async def finish(self) -> None:
        """Wait until everything submitted so far is answered."""
        while self._task is not None and not self._task.done():
            await asyncio.shield(self._task)

    async def _drain(self) -> None:
        while self._waiting:
            group = [self._waiting.popleft() for _ in range(min(GROUP_SIZE, len(self._waiting)))]
            # A caller that was cancelled before its turn writes nothing.
            group = [call for call in group if not call.answer.cancelled()]
            if group:
                await self._answer(group)

    async def _answer(self, group: list[QueuedUnit]) -> None:
        try:
            outcomes = await self._commit(group)
        except TransactionLost as lost:
            # One of them filled the disk or the like. Alone, the others may still succeed.
            if len(group) > 1:
                for call in group:
                    await self._answer([call])
                return
            outcomes = [Outcome(error=_unavailable(lost.cause))]
        except Exception as error:  # noqa: BLE001 - every caller must be answered, whatever happened
            outcomes = [Outcome(error=error) for _ in group]
        else:
            if outcomes:
                self.committed()
        # Calls that were not begun go back to the front in their order.
        self._waiting.extendleft(reversed(group[len(outcomes) :]))
        for call, outcome in zip(group, outcomes, strict=False):
            # The caller was cancelled after its write had begun: the write stays.
            if call.answer.done():
                continue
            if outcome.error is not None:
                call.answer.set_exception(outcome.error)
            else:
                call.answer.set_result(outcome.value)

    async def _commit(self, group: list[QueuedUnit]) -> list[Outcome]:
        """The outcomes of the calls that are left in the group: those that have waited too long are answered and taken
        out. Each waits from when it was made, wherever it stood meanwhile."""
        attempt = 0
        while group:
            attempt += 1
            try:
                return await self.hop(commit_group, group, self.check_file, self.backend, self.versions)
            except driver.DatabaseError as error:
                if not driver.is_busy(error):
                    raise StorageUnavailable(
                        f"the database could not commit: {driver.describe_error(error)}"
                    ) from error
                self._refuse_late(group, error)
            metrics.TX_RETRIES.add(BUSY)
            await asyncio.sleep(driver.retry_delay(attempt))
        return []

    def _refuse_late(self, group: list[QueuedUnit], cause: Exception) -> None:
        now = time.monotonic()
        # Calls stand in the order in which they came, so the first has waited longest.
        while group and now > group[0].give_up:
            late = group.pop(0)
            if not late.answer.done():
                busy = StorageUnavailable(
                    f"the database is busy: another process has held its write lock for {self.deadline:g} s; try again"
                )
                busy.__cause__ = cause
                late.answer.set_exception(busy)
