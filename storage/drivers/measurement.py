"""How long a call waits for the database and works in it: as a number for the operator, and as a span of its trace."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from layerlore.storage.core import metrics
from layerlore.storage.core.traces import CLIENT, span

TransactionMode = Literal["read", "write"]


@contextmanager
def measured_wait() -> Iterator[None]:
    """Around the wait for a connection."""
    with span("wait for a connection"), metrics.POOL_WAIT_SECONDS.time():
        yield


@contextmanager
def measured_transaction(mode: TransactionMode) -> Iterator[None]:
    """Around a transaction, from its beginning to after its commit."""
    with span(f"{mode} transaction", kind=CLIENT), metrics.TX_SECONDS.time(mode):
        yield
