"""The log of what changed, replayed from a cursor without a gap."""

from collections.abc import Sequence

from layerlore.memory.acceptance import one_of, shown
from layerlore.memory.ages import iso
from layerlore.memory.engine import Engine
from layerlore.memory.pages import fitting
from layerlore.memory.step_shapes import AGENT_EVENTS
from layerlore.storage import events
from layerlore.storage.errors import InvalidInput, NotFound
from layerlore.storage.events import Event, EventPage
from layerlore.storage.records import Json, Scope

SERVER_EVENTS = (
    *("thread_created", "thread_updated", "thread_deleted", "thread_restored"),
    *("memory_erased", "memory_redacted"),
    *("messages_added", "messages_replaced", "messages_deleted", "messages_restored"),
    *("working_memory_updated", "working_memory_cleared", "profile_updated", "profile_cleared"),
    *("plan_created", "plan_updated", "attempt_logged", "steps_recorded"),
    *("entries_changed", "observations_added", "observations_activated", "observations_reflected", "summary_updated"),
    *("run_suspended", "run_resumed", "run_completed", "run_failed", "run_cancelled", "run_expired"),
)
"""What the server itself writes, in a thread's log or the resource's."""

_LARGEST = 2**63 - 1


async def list_events(
    engine: Engine, scope: Scope, thread_id: str | None, *, after: int, types: Sequence[str], limit: int
) -> Json:
    """Events with a seq above ``after``, of the types (none: all), in order: of a thread, or (None) the resource.

    ``next`` is the ``after`` of the next page, or of the next look when ``more`` is false: all up to it was covered,
    whether its type was asked for or not. ``last_seq`` is the newest that was given.

    In an unknown thread nothing has changed yet. Raises InvalidInput.
    """
    allowed = (*SERVER_EVENTS, *AGENT_EVENTS)
    for type_ in types:
        if type_ not in allowed:
            raise InvalidInput(f"types: unknown type {shown(type_)}; {one_of(type_, allowed)}")
    if not 0 <= after <= _LARGEST:
        raise InvalidInput(f"after: 0 to {_LARGEST} are allowed")
    if thread_id is None:
        page = await engine.database.read(events.listed_of_resource, scope, after=after, types=types, limit=limit)
    else:
        try:
            page = await engine.database.read(events.listed, scope, thread_id, after=after, types=types, limit=limit)
        except NotFound:
            page = EventPage([], False, 0)
    if after > page.last_seq:
        raise InvalidInput(
            f"after: {after} is beyond the newest event, {page.last_seq}: the log was begun anew since (its "
            "conversation was deleted); read it from after=0"
        )
    found = fitting([shown_event(event) for event in page.events], engine.limits.answer_bytes)
    more = page.more or len(found) < len(page.events)
    return {
        "events": found,
        "next": found[-1]["seq"] if more else page.last_seq,
        "last_seq": page.last_seq,
        "more": more,
    }


def shown_event(event: Event) -> Json:
    """An event as an answer has it: ``by`` is the client or the job, ``tool`` the tool or command that it used."""
    return {
        "seq": event.seq,
        "type": event.type,
        "by": event.actor,
        **({"tool": event.tool} if event.tool else {}),
        "at": iso(event.created_at),
        "payload": event.payload,
    }
