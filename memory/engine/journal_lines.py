"""Every write leaves a line in the journal: in its own transaction when it is done, in one of its own when it failed.

A line has numbers and names, and no text of a message: of an answer only counts, of an error only its class, of a
resource's id only a mark.
"""

import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeVar

from layerlore.storage.audit import journal_rows
from layerlore.storage.audit.journal_rows import JournalFilter, JournalLine, Outcome, StoredJournalLine
from layerlore.storage.core import metrics
from layerlore.storage.core.errors import InvalidInput, LayerloreError, StorageUnavailable
from layerlore.storage.core.records import Origin, Scope, Tenant
from layerlore.storage.core.transaction import Database, Tx

log = logging.getLogger(__name__)

T = TypeVar("T")

# The counts of a write's answer, each by a number or a list. Nothing else of an answer is examined.
_COUNTED = {
    *("messages", "deleted", "deleted_messages", "restored", "entries", "observations", "lines", "events", "masked"),
    *("dropped_steps", "superseded", "refused"),
}


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """How a write ended that did not fail, and how much of what it wrote."""

    outcome: Outcome = "done"
    counts: Mapping[str, int] = field(default_factory=dict)


def count_written(answer: Mapping[str, Any]) -> dict[str, int]:
    """How much was written, read from the answer: numbers under names of ours."""
    found = {name: number for name, value in answer.items() if name in _COUNTED and (number := _number(value))}
    if "first" in answer and "last" in answer:
        found["steps"] = _number(answer["last"]) - _number(answer["first"]) + 1
    return found


def _number(value: Any) -> int:
    if isinstance(value, list):
        return len(value)
    # A bool is an int, too, and counts nothing.
    if type(value) is int:
        return value
    return 0


def resource_mark(hmac_key: bytes, resource_id: str) -> str:
    """A mark that stands for a resource in the journal: the same for the same id, which it does not disclose."""
    return mark(hmac_key, "resource", resource_id)


@lru_cache(maxsize=4096)
def mark(hmac_key: bytes, what: Literal["resource", "thread"], id_: str) -> str:
    """A mark that stands for a resource or a thread, and does not disclose its id."""
    body = f"{what}\0{id_}".encode(errors="surrogatepass")
    return hmac.new(hmac_key, body, hashlib.sha256).hexdigest()[:32]


def make_line(
    hmac_key: bytes,
    scope: Scope,
    origin: Origin,
    outcome: Outcome,
    now: int,
    *,
    counts: Mapping[str, int] | None = None,
    error: str | None = None,
) -> JournalLine:
    """The line of a write, or of a refusal. ``error`` is the class of what went wrong. A job, which uses no tool, is
    named by its kind."""
    whose = resource_mark(hmac_key, scope.resource_id)
    # The principal of a JWT contains the resource's id, which the journal must not disclose.
    principal, own = origin.principal, f"jwt:{scope.resource_id}@"
    if principal.startswith(own):  # whose token it is, is whose memory it is
        principal = f"jwt:{whose}@{principal.removeprefix(own)}"
    tool = origin.tool or origin.actor
    return JournalLine(now, principal, origin.actor, tool, outcome, whose, counts or {}, error)


async def write(
    database: Database,
    hmac_key: bytes,
    scope: Scope,
    origin: Origin,
    now: int,
    unit: Callable[[Tx], Awaitable[tuple[T, WriteOutcome]]],
) -> T:
    """Run a unit in one transaction, together with its line; if it raises, a line says with which error, unless the
    database itself cannot serve. Raises what the unit raises."""

    async def journaled(tx: Tx, scope: Scope) -> T:
        result, wrote = await unit(tx)
        line = make_line(hmac_key, scope, origin, wrote.outcome, now, counts=wrote.counts)
        await journal_rows.append(tx, scope, line)
        return result

    try:
        return await database.write(journaled, scope)
    # The journal is in the same database: a line about this failure could not be written either.
    except StorageUnavailable:
        raise
    except Exception as error:
        line = make_line(hmac_key, scope, origin, "failed", now, error=type(error).__name__)
        await append(database, scope, line)
        raise


async def append_count(tx: Tx, scope: Scope, hmac_key: bytes, origin: Origin, what: str, number: int, now: int) -> None:
    """Write a line of what the server itself did, in its transaction, if it did anything."""
    if number:
        await journal_rows.append(tx, scope, make_line(hmac_key, scope, origin, "done", now, counts={what: number}))


async def append(database: Database, scope: Scope, line: JournalLine) -> None:
    """Write a line in a transaction of its own. Raises nothing: what could not be written is in the log."""
    try:
        await database.write(journal_rows.append, scope, line)
    except LayerloreError as error:
        metrics.JOURNAL_LOST.add()
        log.error("the journal lacks a line (%s, %s): %s", line.tool, line.outcome, error)
    except Exception:
        metrics.JOURNAL_LOST.add()
        log.exception("the journal lacks a line (%s, %s)", line.tool, line.outcome)


async def list_lines(
    database: Database, hmac_key: bytes, scope: Scope, *, everybody: bool, limit: int, before: int | None = None
) -> list[StoredJournalLine]:
    """The newest lines about a scope, or with ``everybody`` about its tenant, the newest first; ``before``: those that were
    appended before the row of this number. Raises InvalidInput where the journal may only be appended to."""
    cluster = await database.cluster_of(Tenant(scope.tenant_id))
    if not await cluster.read_installation(journal_rows.may, "SELECT"):
        raise InvalidInput(
            "this server may only append to the journal: its database role owns no tables. `layerlore journal --owner-url` "
            "reads it"
        )
    own = JournalFilter(
        tenant_id=scope.tenant_id,
        agent_id=None if everybody else scope.agent_id,
        resource_mark=None if everybody else resource_mark(hmac_key, scope.resource_id),
        before=before,
    )
    return (await cluster.read_installation(journal_rows.read_lines, own, limit=limit))[::-1]
