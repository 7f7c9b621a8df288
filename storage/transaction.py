"""A transaction as one unit: the contract that every store function is written against.

A store function is ``async def f(tx, scope, ...)`` and awaits nothing but ``tx``. Whose memory it works on, a scope or a
whole tenant, comes first, and the transaction is bound to that: Postgres shows it no other rows, whatever its statements
ask for. What belongs to the installation and to no tenant is read and written by functions without a scope, which see
no tenant's rows. On SQLite it is driven to its end inside
the connection's own thread, in one hop; on Postgres it runs on a pooled connection. It may be run again on the same
inputs (after a busy lock or a lost connection), so scope, ids and the time are arguments, never made inside.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Executable

from layerlore.storage.health import Health
from layerlore.storage.hints import Told
from layerlore.storage.records import Scope, Tenant
from layerlore.storage.statements import Dialect

Row = Sequence[Any]
P = ParamSpec("P")
T = TypeVar("T")


class Placed(Protocol):
    """What lies in one scope, such as the claim on a job."""

    @property
    def scope(self) -> Scope: ...


Whose = TypeVar("Whose", bound=Scope | Tenant | Placed)


class Tx(Protocol):
    """An open transaction. Statements are SQLAlchemy constructs; parameters go by name."""

    @property
    def dialect(self) -> Dialect: ...

    async def all(self, statement: Executable, /, **values: Any) -> Sequence[Row]:
        """All rows of the answer."""
        ...

    async def each(self, statement: Executable, take: Callable[[Row], bool], /, **values: Any) -> None:
        """Give ``take`` the rows as they are read, until it returns False. What it lets go is not kept: for rows that
        may be large."""
        ...

    async def one(self, statement: Executable, /, **values: Any) -> Row | None:
        """The first row, or None."""
        ...

    async def run(self, statement: Executable, /, **values: Any) -> int:
        """Run a statement that answers nothing; returns how many rows it changed."""
        ...

    async def many(self, statement: Executable, rows: Sequence[Mapping[str, Any]], /) -> None:
        """Run a statement once for each row of values."""
        ...

    async def enter(self, scope: Scope) -> None:
        """From now on, the transaction is bound to the scope. For one that began by looking for it in all of them."""
        ...


ScopedFunction = Callable[Concatenate[Tx, Whose, P], Awaitable[T]]
StoreFunction = Callable[Concatenate[Tx, P], Awaitable[T]]


class StoreFunctionSuspended(RuntimeError):
    """A store function awaited something other than its transaction. It was rolled back; this is a defect."""


class Database(Protocol):
    """SQLite or Postgres. ``read`` gives one consistent snapshot; ``write`` returns after the commit.

    Both raise StorageUnavailable when the database cannot serve within its deadline, and whatever the function
    raises. A caller that is cancelled leaves no transaction open: the unit runs to its end, or not at all.
    """

    @property
    def dialect(self) -> Dialect: ...

    @property
    def unfit(self) -> str:
        """Why it would not keep tenants apart if a statement of ours forgot to; "": it does, or it is SQLite, which has
        no such second line."""

    async def read(
        self, function: ScopedFunction[Whose, P, T], whose: Whose, /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def write(
        self, function: ScopedFunction[Whose, P, T], whose: Whose, /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def read_installation(self, function: StoreFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def write_installation(self, function: StoreFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    def hints(self, told: Told) -> AbstractContextManager[None]:
        """While the context is entered, ``told`` is called once at its beginning, and soon after every commit, of this
        process or another, that may concern somebody. Between the two a commit is never missed, only told late."""
        ...

    @property
    def health(self) -> Health:
        """Whether it can be written now."""
        ...

    async def check_quickly(self, seconds: float) -> None:
        """Look for damage for at most so long; ``health`` then says what was found. Raises StorageUnavailable."""
        ...

    async def close(self) -> None: ...
