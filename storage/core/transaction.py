"""A transaction as one unit: the contract that every store function is written against.

A store function is ``async def f(tx, scope, ...)`` and awaits nothing but ``tx``. The scope or the tenant comes first,
and the transaction is bound to it: Postgres shows it no other rows, whatever its statements ask for. Functions without
a scope read and write the rows of the installation, and see no tenant's rows. On SQLite it is driven to its end inside
the connection's own thread, in one hop; on Postgres it runs on a pooled connection. It may be run again on the same
inputs (after a busy lock or a lost connection), so scope, ids and the time are arguments, never made inside.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Delete, Executable, Select, TextClause

from layerlore.storage.core.health import Health
from layerlore.storage.core.index_rows import IndexedRows, RowIdArray
from layerlore.storage.core.records import Json, Scope, Tenant

Concerns = Callable[[Scope], bool]
Notify = Callable[[Concerns], None]
"""Takes a hint that something may have been committed, and in which scope. The listener reads what it was."""


def anybody(_: Scope) -> bool:
    """The hint for all watchers."""
    return True


class Listeners:
    """The functions that are called with each hint, on the event loop. They must not raise."""

    def __init__(self) -> None:
        self._notified: dict[object, Notify] = {}

    @contextmanager
    def joined(self, notify: Notify) -> Iterator[None]:
        """Call ``notify``, too, from now on until the context is left."""
        token = object()
        self._notified[token] = notify
        try:
            yield
        finally:
            del self._notified[token]

    def notify(self, concerns: Concerns) -> None:
        """Pass a hint to every listener."""
        for notify in list(self._notified.values()):
            notify(concerns)


Row = Sequence[Any]
ReadVectors = Callable[[RowIdArray], Awaitable[tuple[RowIdArray, NDArray[np.float32]]]]
"""Reads the vectors that these rows have: row ids, ascending, and as many rows of float32."""
P = ParamSpec("P")
T = TypeVar("T")


class ScopedRow(Protocol):
    """A row in one scope, such as the claim on a job."""

    @property
    def scope(self) -> Scope: ...


Whose = TypeVar("Whose", bound=Scope | Tenant | ScopedRow)


def bound(whose: Scope | Tenant | ScopedRow) -> Scope | Tenant:
    """The scope or the tenant that a transaction for this is bound to."""
    if isinstance(whose, Scope | Tenant):
        return whose
    return whose.scope


class Tx(Protocol):
    """An open transaction. Statements are SQLAlchemy constructs; parameters go by name."""

    @property
    def backend(self) -> "Backend": ...

    async def all(self, statement: Executable, /, **values: Any) -> Sequence[Row]:
        """All rows of the answer."""
        ...

    async def each(self, statement: Executable, take: Callable[[Row], bool], /, **values: Any) -> None:
        """Give ``take`` the rows as they are read, until it returns False. Released connections are not kept: for rows
        that may be large."""
        ...

    async def one(self, statement: Executable, /, **values: Any) -> Row | None:
        """The first row, or None."""
        ...

    async def scalar(self, statement: Executable, /, **values: Any) -> Any:
        """The first column of the first row; None where no row exists."""
        ...

    async def scalars(self, statement: Executable, /, **values: Any) -> list[Any]:
        """The first column of every row."""
        ...

    async def run(self, statement: Executable, /, **values: Any) -> int:
        """Run a statement that answers nothing; returns how many rows it changed."""
        ...

    async def many(self, statement: Executable, rows: Sequence[Mapping[str, Any]], /) -> None:
        """Run a statement once for each row of values, before the next one that reads or the commit at the latest:
        Postgres gets several that follow each other in one round trip. An error comes when they run."""
        ...

    async def enter(self, scope: Scope) -> None:
        """Bind the transaction to the scope from now on: for one that first had to find the scope among all."""
        ...


class SearchIndex(Protocol):
    """The words of the rows of ``search_rows``."""

    async def add(self, tx: Tx, rows: Sequence[Mapping[str, Any]]) -> None:
        """Index rows: the columns' values by name, the ``words`` and ``scope_tokens`` with spaces between them, and the
        thread's own ``mark`` of the session."""
        ...

    async def postings(
        self, tx: Tx, scope_token: str, without: str, words: Sequence[str], most: int
    ) -> dict[str, RowIdArray]:
        """By word, the newest ``most`` row ids under ``scope_token``, and not under the token ``without`` ("": none),
        ascending."""
        ...

    async def around(self, tx: Tx, scope: Scope, row_ids: RowIdArray, reach: int) -> IndexedRows | None:
        """The rows and what stands around them, see ``indexed_rows.around``, if they are at hand; None: read them."""
        ...


class VectorIndex(Protocol):
    """The nearest codes, the statement that finds them among given rows, the one that stores a vector unless the same is
    there (another process may have stored it meanwhile), and a code as the database takes it."""

    async def nearest(
        self, tx: Tx, tenant_id: str, scope_token: str, other_token: str, model: str, code: bytes, most: int
    ) -> RowIdArray:
        """The ``most`` rows of the tenant under either token whose codes differ from ``code`` in the fewest bits, nearest first; of
        equally near ones the oldest first."""
        ...

    async def of_rows(
        self, tx: Tx, tokens: Sequence[str], model: str, row_ids: RowIdArray, read: ReadVectors
    ) -> tuple[RowIdArray, NDArray[np.float32]]:
        """The vectors that rows under the tokens have, as ``read`` reads them, those at hand without it."""
        ...

    @property
    def NEAREST_AMONG(self) -> TextClause: ...  # noqa: N802

    @property
    def PUT(self) -> TextClause: ...  # noqa: N802

    def as_code(self, code: bytes) -> Any: ...


Act = Literal["SELECT", "DELETE"]


class Backend(Protocol):
    """The operations that differ between databases; a driver's module ``backend`` is one. Beside it,
    ``drivers/*/sql.py`` says how the database writes the elements of ``storage.core.statements``, and ``Database`` is
    the connection."""

    @property
    def name(self) -> str:
        """The database's kind, such as ``sqlite``. It is shown, and never compared."""

    @property
    def search(self) -> SearchIndex: ...

    @property
    def vectors(self) -> VectorIndex: ...

    @property
    def commits_in_id_order(self) -> bool:
        """Whether row ids become visible in their order."""

    @property
    def keeps_erased_bytes(self) -> bool:
        """Whether the bytes of deleted rows may stay until the whole file is rewritten."""

    def describe(self) -> Json:
        """The database's abilities, for people."""
        ...

    def warnings(self) -> list[str]:
        """The faults of the database's software here, for people."""
        ...

    async def rows_of_all_tenants(
        self, tx: Tx, function: str, statement: Select[Any] | Delete, values: Mapping[str, Any]
    ) -> Sequence[Row]:
        """The rows of a statement that looks at all tenants; ``function`` is its name in the migrations."""
        ...

    async def delete_of_all_tenants(
        self, tx: Tx, function: str, statement: Select[Any] | Delete, values: Mapping[str, Any]
    ) -> int:
        """Run a deletion that reaches all tenants; returns how many rows went."""
        ...

    async def may_change_journal(self, tx: Tx, act: Act) -> bool:
        """Whether the connected role may do this to every row of the journal."""
        ...

    async def open_journal(self, tx: Tx) -> None:
        """Let this transaction delete rows of the journal, until ``close_journal``."""
        ...

    async def close_journal(self, tx: Tx) -> None: ...

    async def bytes_before(self, tx: Tx, owner: Scope) -> int:
        """To be called before a unit of the transaction stores something; the number is for ``bytes_added``."""
        ...

    async def bytes_added(self, tx: Tx, owner: Scope, before: int) -> int:
        """How many more bytes of the resource are stored since ``bytes_before`` returned this."""

    async def wait_for_count(self, tx: Tx, owner: Scope) -> None:
        """Wait until no other writer of the tenant counts: from now on the count has what they stored, to the end of the
        transaction."""

    async def fold_bytes(self, tx: Tx, owner: Scope) -> None:
        """Bring what is counted of a resource and its tenant into as few rows as possible."""
        ...


ScopedFunction = Callable[Concatenate[Tx, Whose, P], Awaitable[T]]
StoreFunction = Callable[Concatenate[Tx, P], Awaitable[T]]


class StoreFunctionSuspended(RuntimeError):
    """A store function awaited something other than its transaction. It was rolled back; this is a defect."""


ErasedBytes = Literal["erased", "owed", "vacuum"]
"""The state of the erased bytes. ``erased``: the SQLite file was rewritten and its log emptied. ``owed``: another
process is at the file; a running server, or the next one to start, rewrites it within a minute. ``vacuum``: Postgres
reuses the space by itself; its old log files and backups are the operator's."""


class Database(Protocol):
    """SQLite or Postgres. ``read`` gives one consistent snapshot; ``write`` returns after the commit.

    Both raise StorageUnavailable when the database cannot serve within its deadline, and whatever the function
    raises. A caller that is cancelled leaves no transaction open: the unit runs to its end, or not at all.
    """

    @property
    def backend(self) -> Backend: ...

    @property
    def unfit(self) -> str:
        """Why the database does not keep tenants apart by itself if a statement forgets to; "" if it does, and for
        SQLite, which has no such second line."""

    @property
    def home(self) -> "Database":
        """The database with the keys and the spending of all tenants. It is itself, unless the tenants are on several
        clusters."""
        ...

    @property
    def clusters(self) -> "Sequence[Database]":
        """A database for each cluster, the home cluster first: its functions of the installation see that cluster's rows.
        It is itself alone, unless the tenants are on several clusters."""
        ...

    async def cluster_of(self, tenant: Tenant) -> "Database":
        """The one of ``clusters`` that a tenant is on."""
        ...

    async def read(
        self, function: ScopedFunction[Whose, P, T], whose: Whose, /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def write(
        self, function: ScopedFunction[Whose, P, T], whose: Whose, /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def read_installation(self, function: StoreFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def write_installation(self, function: StoreFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def version(self, scope: Scope) -> Hashable | None:
        """A mark of everything that is committed now of the scope: while it is the same, no writer has changed anything
        that a context may show. Commits in other scopes leave it unchanged, except on SQLite those of another process.
        None if that cannot be known soon."""
        ...

    def hints(self, notify: Notify) -> AbstractContextManager[None]:
        """While the context is entered, ``notify`` is called once at its beginning, and soon after every commit, of this
        process or another, that may concern a watcher. Between the two a commit is never missed, only reported late."""
        ...

    @property
    def health(self) -> Health:
        """Whether it can be written now."""
        ...

    async def rewrite_erased(self) -> ErasedBytes:
        """See to it that nothing of what was erased is left in the bytes of the database, as far as it can."""
        ...

    async def check_quickly(self, seconds: float) -> None:
        """Look for damage for at most ``seconds``; ``health`` then reports the result. Raises StorageUnavailable."""
        ...

    async def close(self) -> None: ...


class OneCluster:
    """The part of a ``Database`` whose tenants are all in one place, for its class to inherit."""

    @property
    def home(self) -> Database:
        return cast("Database", self)

    @property
    def clusters(self) -> Sequence[Database]:
        return (cast("Database", self),)

    async def cluster_of(self, tenant: Tenant) -> Database:
        return cast("Database", self)
