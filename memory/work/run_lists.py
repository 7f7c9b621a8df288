"""Lists of runs, and one run in detail: everything but the state."""

import asyncio
import hashlib
from dataclasses import dataclass, field
from typing import Any

from layerlore.memory.engine.engine import Engine
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.json_values import make_equality_key
from layerlore.memory.rules.pages import PageEntry, count_entry_bytes, fit_entries, read_cursor, write_cursor
from layerlore.memory.rules.validation import check_id, check_metadata, check_text, count_json_bytes
from layerlore.memory.work.pending_calls import read_calls
from layerlore.storage.core.damaged_values import calls_of, list_of, value_of
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.records import Json, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.work import run_lists, runs
from layerlore.storage.work.run_lists import Place, RunFilter
from layerlore.storage.work.runs import Run, RunContent, Status

# The databases' integers have 64 bits.
_LARGEST = 2**63


@dataclass(frozen=True, slots=True)
class RunListing:
    """Which runs, newest first; what is empty or None asks for nothing. ``since`` and ``until`` are milliseconds since
    1970, included, of when a run was first suspended."""

    statuses: list[Status] = field(default_factory=list)
    workflow_id: str = ""
    thread_id: str = ""
    since: int | None = None
    until: int | None = None
    metadata: Json = field(default_factory=dict)

    def fingerprint(self) -> str:
        asked = [sorted(self.statuses), self.workflow_id, self.thread_id, self.since, self.until, self.metadata]
        return hashlib.sha256(make_equality_key(asked).encode()).hexdigest()[:16]


def show_run(run: Run) -> Json:
    """A run as a list has it: ``waiting`` are the tool calls that wait for data."""
    calls = read_calls(calls_of(run.pending)) if run.status == "suspended" else []
    waiting = [
        {"tool_call_id": call.tool_call_id, **({"tool_name": call.tool_name} if call.tool_name else {})}
        for call in calls
        if call.suspended
    ]
    return {
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "status": run.status,
        **({"workflow_id": run.workflow_id} if run.workflow_id else {}),
        **({"metadata": run.metadata} if run.metadata else {}),
        **({"reason": run.reason} if run.reason else {}),
        **({"waiting": waiting} if waiting else {}),
        **(_holder(run) if run.status == "running" else {}),
        **({"expires_at": iso(run.expires_at)} if run.expires_at is not None else {}),
        "created_at": iso(run.created_at),
        "updated_at": iso(run.updated_at),
    }


def _holder(run: Run) -> Json:
    assert run.claimed_at is not None
    assert run.claimed_until is not None
    return {
        "claimed_by": run.claimed_by,
        "claimed_at": iso(run.claimed_at),
        "claimed_until": iso(run.claimed_until),
    }


def show_resumed(resumed: str) -> list[Json]:
    """Show the data that resumers brought, as an answer has it."""
    return [{**entry, "at": iso(entry["at"])} for entry in list_of(resumed)]


async def get_run(engine: Engine, scope: Scope, run_id: str) -> Json:
    """Read one run, with its pending tool calls, what resumers brought to them, and its output. Raises NotFound."""
    check_id(run_id, "run_id", engine.limits.id_chars)

    async def read(tx: Tx, scope: Scope) -> tuple[Run, RunContent]:
        run = await runs.find(tx, scope, run_id)
        return run, await runs.content(tx, scope, run)

    run, content = await engine.database.read(read, scope)
    pending, resumed = calls_of(run.pending), show_resumed(content.resumed)
    shown = {
        **show_run(run),
        **({"pending_tool_calls": pending} if pending else {}),
        **({"resumed": resumed} if resumed else {}),
        **({"output": value_of(content.output)} if content.output is not None else {}),
    }
    return {"runs": [_fit_run(shown, count_entry_bytes(engine.limits.answer_bytes))]}


def _fit_run(shown: Json, most: int) -> Json:
    """Fit a run into ``most`` bytes of an answer: its largest fields are left out, one after the other, until it
    fits."""
    sizes: Json = {}
    for name in ("resumed", "pending_tool_calls", "output"):
        if name in shown and PageEntry(shown).bytes > most:
            sizes[name] = count_json_bytes(shown[name])
            shown = {key: value for key, value in shown.items() if key != name}
    if not sizes:
        return shown
    missing = ", ".join(f"{name} ({size:,} bytes)" for name, size in sizes.items())
    return {**shown, "cut": f"left out: {missing}; resume_run gives all that a run waits for"}


async def list_runs(engine: Engine, scope: Scope, asked: RunListing, *, limit: int, cursor: str) -> Json:
    """List runs whose metadata has every given key with an equal value; ``next_cursor`` continues. An unknown thread
    has none.

    Raises InvalidInput, LimitExceeded.
    """
    check_metadata(asked.metadata, "metadata", engine.limits)
    if asked.workflow_id:
        check_id(asked.workflow_id, "workflow_id", engine.limits.id_chars)
    if asked.since is not None and asked.until is not None and asked.since > asked.until:
        raise InvalidInput("since: it is later than until, so nothing could be found")
    wanted_values = {key: make_equality_key(value) for key, value in asked.metadata.items()}

    def has(metadata: Json) -> bool:
        return all(
            key in metadata and make_equality_key(metadata[key]) == value for key, value in wanted_values.items()
        )

    wanted = RunFilter(
        statuses=asked.statuses,
        workflow_id=engine.masked(asked.workflow_id)[0],
        thread_id=asked.thread_id,
        since=asked.since,
        until=asked.until,
        has=has if wanted_values else None,
    )
    after = _parse_place(cursor, asked) if cursor else None
    try:
        found, next_place = await engine.database.read(run_lists.read_page, scope, wanted, after=after, limit=limit)
    except NotFound:
        found, next_place = [], None
    # What is pending may be large, and is read for its few names: the event loop must not wait for it.
    shown = await asyncio.to_thread(lambda: fit_entries([show_run(run) for run in found], engine.limits.answer_bytes))
    if len(shown) < len(found):
        last = found[len(shown) - 1]
        next_place = (last.created_at, last.run_id)
    return {"runs": shown, **({"next_cursor": write_cursor([asked.fingerprint(), *next_place])} if next_place else {})}


def _parse_place(cursor: str, asked: RunListing) -> Place:
    unknown = InvalidInput("cursor: not one that list_runs gave; leave it out to begin at the first page")
    place: Any = read_cursor(cursor, unknown)
    if not isinstance(place, list) or len(place) != 3:
        raise unknown
    made_for, time, run_id = place
    if type(time) is not int or abs(time) >= _LARGEST or not isinstance(run_id, str):
        raise unknown
    if made_for != asked.fingerprint():
        raise InvalidInput("cursor: it belongs to a listing with other arguments; repeat them, or leave the cursor out")
    return time, check_text(run_id, "cursor")
