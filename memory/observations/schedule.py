"""The schedule of observation: when messages are observed, and when observations take their place. Nothing here calls
a model."""

from dataclasses import replace

from layerlore.memory.settings.observations import ObservationRules
from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import observations
from layerlore.storage.jobs import jobs
from layerlore.storage.jobs.jobs import Kind
from layerlore.storage.threads import threads
from layerlore.storage.threads.events import NewEvent

# An observer that was asked at the same time comes first, if it is quick.
_PATIENCE_MS = 30_000


async def request_observation(
    tx: Tx, scope: Scope, thread: Thread, more_raw: int, rules: ObservationRules, *, now: int
) -> list[NewEvent]:
    """What an append makes due, in its transaction: mostly nothing. ``thread`` is as the append left it.

    Returns what is to be written to the thread's log.
    """
    raw = thread.raw_tokens
    if more_raw <= 0:
        return []
    happened: list[NewEvent] = []
    rose = raw // rules.step > (raw - more_raw) // rules.step
    passed = raw >= rules.message_tokens > raw - more_raw
    if raw >= rules.message_tokens and thread.buffered_seq > thread.observed_seq:
        thread, happened = await activate_observations(tx, scope, thread, rules, now=now)
    wanted: list[tuple[Kind, int, int]] = []
    if rose or passed:
        wanted.append(("observe", thread.next_seq - 1, now))
        if thread.raw_tokens >= rules.stand_in_tokens:
            wanted.append(_digest(thread, now))
    if wanted:
        await jobs.request_many(tx, scope, thread.thread_uid, wanted, now=now)
    return happened


def _digest(thread: Thread, now: int) -> tuple[Kind, int, int]:
    # Events are counted on with every change, so that this is above whatever was done.
    return "digest", thread.next_seq + thread.next_event_seq, now + _PATIENCE_MS


async def activate_observations(
    tx: Tx, scope: Scope, thread: Thread, rules: ObservationRules, *, now: int
) -> tuple[Thread, list[NewEvent]]:
    """Put the notes that were made ahead in the place of their messages, and ask for a reflection if they are many.

    Returns the thread as it is then, and what is to be written to its log.
    """
    # Read again: what was replaced by an append may have moved the observer's cursor back.
    found = await threads.lock_uid(tx, scope, thread.thread_uid)
    activated = await observations.activate(tx, scope, found, keep=rules.keep) if found is not None else None
    if activated is None:
        return thread, []
    wanted: list[tuple[Kind, int, int]] = []
    if activated.tokens >= rules.reflect_tokens:
        wanted.append(("reflect", activated.observed_seq, now))
    if activated.tokens >= rules.reflect_stand_in_tokens:
        wanted.append(_digest(thread, now))
    if wanted:
        await jobs.request_many(tx, scope, thread.thread_uid, wanted, now=now)
    after = replace(thread, observed_seq=activated.observed_seq, raw_tokens=activated.raw_tokens)
    return after, [NewEvent("observations_activated", {"observed_seq": activated.observed_seq})]
