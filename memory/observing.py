"""When a thread's messages are noted, and when the notes take their place. Nothing here calls a model.

The numbers are Mastra's and n8n's: messages are noted ahead each time that a fifth of the threshold has come together;
at the threshold the notes are shown in their place, but for the newest fifth.
"""

from dataclasses import dataclass, replace

from layerlore.storage import jobs, observations, threads
from layerlore.storage.events import NewEvent
from layerlore.storage.jobs import Kind
from layerlore.storage.records import Scope, Thread
from layerlore.storage.transaction import Tx

# As much as an observer is given at once when more than a step has come together (Mastra's maxTokensPerBatch).
_BATCH = 10_000
# An observer that was asked at the same time comes first, if it is quick.
_PATIENCE_MS = 30_000


@dataclass(frozen=True, slots=True)
class ObservationRules:
    """Tokens, and shares of them."""

    message_tokens: int = 30_000
    """Of messages that no observation tells: at so many, observations take the place of all but the newest."""
    buffer_share: float = 0.2
    """Of ``message_tokens``: whenever so many have come together, they are noted ahead."""
    keep_share: float = 0.2
    """Of ``message_tokens``: so many of the newest messages stay raw."""
    stand_in: float = 1.2
    """Times ``message_tokens`` (and ``reflect_tokens``): beyond, what no model has noted is told in extracts."""
    reflect_tokens: int = 40_000
    """Of active observations: beyond, they are reflected upon."""

    @property
    def step(self) -> int:
        return max(1, int(self.message_tokens * self.buffer_share))

    @property
    def keep(self) -> int:
        return int(self.message_tokens * self.keep_share)

    @property
    def batch(self) -> int:
        """The most that one call of a model is given."""
        return max(self.step, min(_BATCH, self.message_tokens))

    @property
    def stand_in_tokens(self) -> int:
        return int(self.message_tokens * self.stand_in)

    @property
    def reflect_stand_in_tokens(self) -> int:
        return int(self.reflect_tokens * self.stand_in)


async def after_append(
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
        thread, happened = await activate(tx, scope, thread, rules, now=now)
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


async def activate(
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
