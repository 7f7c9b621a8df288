"""What stands in for the reflector where no model answers: the least of the observations are dropped, none is written."""

from collections import Counter
from collections.abc import Sequence
from itertools import product

from layerlore.extraction.kind import Claim
from layerlore.extraction.reflector import Reflection, unchanged
from layerlore.memory.digest_sentences import values_of
from layerlore.memory.observing import ObservationRules
from layerlore.storage import events, observations
from layerlore.storage.events import NewEvent
from layerlore.storage.observations import Marker, Observation
from layerlore.storage.records import Json, Origin, Thread
from layerlore.storage.transaction import Tx

# What goes first; critical ones never go.
_ORDER: tuple[Marker, ...] = ("info", "completion", "important")
_TARGET = 0.5


def too_many(rows: Sequence[Observation], rules: ObservationRules) -> bool:
    """Whether active rows are so many that what can be dropped is not to wait for a model any longer."""
    enough = sum(row.tokens for row in rows) >= rules.reflect_stand_in_tokens
    return enough and any(row.marker != "critical" for row in rows)


def thinned(rows: Sequence[Observation], rules: ObservationRules) -> Json:
    """A reflector's answer that drops the oldest of the least until half the threshold is left, as far as that goes: of
    one marker those first whose ids and numbers others tell, too, or that have none."""
    left = sum(row.tokens for row in rows)
    values = {row.observation_id: _values(row) for row in rows}
    told = Counter(value for each in values.values() for value in each)
    drops: list[int] = []
    for marker, lossless in product(_ORDER, (True, False)):
        for row in rows:
            if left <= rules.reflect_tokens * _TARGET:
                break
            own = values.get(row.observation_id, frozenset())
            alone = any(told[value] == 1 for value in own)
            if row.marker == marker and row.observation_id in values and not (lossless and alone):
                drops.append(row.observation_id)
                left -= row.tokens
                told.subtract(values.pop(row.observation_id))
    return {"merge": [], "drop": drops}


def _values(row: Observation) -> frozenset[str]:
    return frozenset(value for value in values_of(row.text) if any(sign.isdigit() for sign in value))


async def commit(
    tx: Tx, claim: Claim, thread: Thread, rows: Sequence[Observation], result: Reflection, *, now: int
) -> None:
    """Drop the rows. Raises Stale when any is not as it was."""
    await unchanged(tx, claim.scope, claim.thread_uid, rows)
    await observations.put_away(tx, claim.scope, claim.thread_uid, dict.fromkeys(result.drops))
    before = sum(row.tokens for row in rows)
    after = before - sum(row.tokens for row in rows if row.observation_id in result.drops)
    happened = NewEvent("observations_reflected", {"tokens_before": before, "tokens_after": after})
    await events.record(tx, claim.scope, thread, [happened], origin=Origin(claim.kind, ""), now=now)
