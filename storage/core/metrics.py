"""Everything that an operator can measure, each with its name, its text and its labels.

Nothing is counted until `Metric.keep` is called, so a server whose metrics are off pays for one look at a field. No
label holds what a caller sent: their values are words of ours, and the names of models.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Literal

MetricKind = Literal["counter", "gauge", "histogram"]

QUICK_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The bounds of times that mostly take milliseconds."""

ALL: list["Metric"] = []
"""Every metric, in the order of this page."""


class Metric:
    """One metric. ``find`` returns the counter for some labels, once ``keep`` was called."""

    def __init__(self, kind: MetricKind, name: str, text: str, *labels: str) -> None:
        self.kind = kind
        self.name = name
        self.text = text
        self.labels = labels
        self._find: Callable[..., Any] | None = None
        ALL.append(self)

    def keep(self, find: Callable[..., Any] | None) -> None:
        """Count from now on in what ``find`` returns for the values of the labels; None: no more."""
        self._find = find

    @property
    def is_kept(self) -> bool:
        return self._find is not None

    def add(self, *values: str, by: float = 1.0) -> None:
        if self._find is not None:
            self._find(*values).inc(by)

    def set(self, level: float, *values: str) -> None:
        if self._find is not None:
            self._find(*values).set(level)

    def read_from(self, level: Callable[[], float]) -> None:
        """Have each scrape ask for the level. It asks in another thread, so ``level`` must only look."""
        if self._find is not None:
            self._find().set_function(level)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Count one more during the body."""
        self.add()
        try:
            yield
        finally:
            self.add(by=-1)

    def observe(self, seconds: float, *values: str) -> None:
        if self._find is not None:
            self._find(*values).observe(seconds)

    @contextmanager
    def time(self, *values: str) -> Iterator[None]:
        """Observe how long the body takes, whether it raises or not."""
        began = perf_counter()
        try:
            yield
        finally:
            self.observe(perf_counter() - began, *values)


CALLS = Metric(
    "counter", "calls", "Calls by tool and outcome: ok, error, refused, unavailable, failed.", "tool", "outcome"
)
CALL_SECONDS = Metric("histogram", "call_seconds", "Time from reading a call to its answer.", "tool")
REFUSED = Metric("counter", "refused", "Requests refused by a limit, by what there was too much of.", "limit")

POOL_IN_USE = Metric("gauge", "pool_in_use", "Connections of the database that are in use.")
POOL_SIZE = Metric("gauge", "pool_size", "Connections of the database that this process may use.")
POOL_WAIT_SECONDS = Metric("histogram", "pool_wait_seconds", "Wait for a connection of the database.")
TX_SECONDS = Metric("histogram", "tx_seconds", "Time of a transaction with its commit, by read or write.", "mode")
TX_RETRIES = Metric("counter", "tx_retries", "Transactions that ran again, by reason.", "reason")
LISTENER_CONNECTED = Metric("gauge", "listener_connected", "1 while changes of other processes are heard.")
SCHEMA_VERSION = Metric("gauge", "schema_version", "The version of the tables that this process works with.")
JOURNAL_LOST = Metric("counter", "journal_lost", "Lines that the journal lacks because they could not be written.")

JOBS = Metric(
    "gauge",
    "jobs",
    "Background jobs of all tenants that are not done, up to 10,000 of each kind. Dead ones are in job_failures.",
    "kind",
    "state",
)
JOB_FAILURES = Metric(
    "counter", "job_failures", "Failed attempts of jobs; last: the job rests until it is resumed.", "kind", "last"
)
JOB_OLDEST_SECONDS = Metric("gauge", "job_oldest_seconds", "How long the oldest due job has been due, by kind.", "kind")
VECTORS_PENDING = Metric("gauge", "vectors_pending", "Texts that wait for their vector, at most.")
MODEL_TOKENS = Metric("counter", "model_tokens", "Tokens that models took and gave.", "model", "direction")
MODEL_COST = Metric("counter", "model_cost_usd", "What models cost, in US dollars.", "model")
RECALLS = Metric(
    "counter",
    "recall",
    "Recalls, by whether vectors were missing and whether the answer was unsure.",
    "degraded",
    "unsure",
)

SESSIONS = Metric("gauge", "sessions", "Open sessions of the older protocol.")
STREAMS = Metric("gauge", "streams", "Open streams: those that listen for changes, and sessions over /sse.")
