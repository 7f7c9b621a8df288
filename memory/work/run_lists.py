"""Lists of runs, and one run in detail: everything but the state."""

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field, fields
from typing import Any, Literal, get_args

from layerlore.memory.engine.engine import Engine, work_on_long_text
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.answers import (
    PageEntry,
    count_entry_bytes,
    fit_entries,
    order_keys,
    read_cursor,
    write_cursor,
)
from layerlore.memory.rules.json_schema import make_equality_key
from layerlore.memory.rules.validation import MOST_INTEGER, check_id, check_metadata, check_text, count_json_bytes
from layerlore.memory.usage.model_usage import add_lines, present_spent
from layerlore.memory.work import pending_calls
from layerlore.memory.work.pending_calls import list_waiting, read_calls, show_answers
from layerlore.memory.work.work_answers import RunDetail, RunPage, RunRow, RunUsage, SubAgentUsage, WaitingCall
from layerlore.storage.audit.usage_rows import UsageLine, UsageSums
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.json_text import calls_of, intact, list_of, to_json, value_of
from layerlore.storage.core.records import Scope, StoredJson, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.work import runs
from layerlore.storage.work.runs import Place, Run, RunContent, RunFilter, Status

MOST_BELOW = 500
"""Runs of sub-agents whose spending is summed."""
# The agents and models that one run lists; the cost of all others is one line.
_MOST_LINES = 100
LINE_COUNTS = len(fields(UsageSums))
"""How many numbers a stored line has, behind the agent and the model."""

AgentLine = tuple[str, UsageLine]
"""A line, and the sub-agent who spent it (empty: the run's own agent)."""


async def spend(tx: Tx, scope: Scope, thread: Thread, run_id: str, lines: Sequence[AgentLine]) -> None:
    """Add lines to a run of a thread that the transaction holds. Nothing happens where no such run exists."""
    before = await runs.read_spent(tx, scope, thread, run_id)
    if before is not None:
        merged = _merge([*_read(before), *lines])
        spent = to_json([[agent, line.model, *astuple(line.spent)] for agent, line in merged])
        await runs.spend(tx, scope, thread, run_id, spent)


async def read_below(tx: Tx, scope: Scope, run_id: str) -> list[AgentLine]:
    """The cost of the runs of sub-agents, under their workflow's name, else their run's."""
    found = await runs.read_spent_below(tx, scope, run_id, most=MOST_BELOW)
    return [(agent or workflow_id or id_, line) for id_, workflow_id, spent in found for agent, line in _read(spent)]


def show_usage(own: str, below: Sequence[AgentLine]) -> RunUsage | None:
    """The sum, and the lines of each sub-agent, the most expensive first; None where nothing was spent."""
    lines = _merge([*_read(own), *below])
    if not lines:
        return None
    usage: RunUsage = {**present_spent(add_lines(line for _, line in lines))}
    shown = [_show_sub_agent(agent, line) for agent, line in sorted(lines, key=_rank) if agent]
    if shown:
        usage["sub_agents"] = shown
    return usage


def _show_sub_agent(agent: str, line: UsageLine) -> SubAgentUsage:
    if not line.model:
        return {"agent": agent, **present_spent(line.spent)}
    return {"agent": agent, "model": line.model, **present_spent(line.spent)}


def _rank(found: AgentLine) -> tuple[int, int, str, str]:
    agent, line = found
    return -line.spent.cost_nano_usd, -(line.spent.input_tokens + line.spent.output_tokens), agent, line.model


def _merge(lines: Iterable[AgentLine]) -> list[AgentLine]:
    sums: dict[tuple[str, str], UsageSums] = {}
    for agent, line in lines:
        key = (agent, line.model)
        if key not in sums and len(sums) >= _MOST_LINES:
            # Beyond the limit only the names are lost; the sum stays right.
            key = ("others" if agent else "", "")
        sums[key] = sums.get(key, UsageSums()) + line.spent
    return [(agent, UsageLine(model, "", spent)) for (agent, model), spent in sums.items()]


def _read(text: str) -> list[AgentLine]:
    return [(agent, UsageLine(model, "", UsageSums(*counts))) for agent, model, *counts in list_of(text)]


ShownStatus = Status | Literal["expired", "resumable"]
"""``expired``: its checkpoint's time is over, and it is about to be removed. ``resumable``: it is suspended and every call
that waited has an answer, or its runner's time is over."""

_LARGE_KEYS: tuple[Literal["resumed", "pending_tool_calls", "output"], ...] = (
    "resumed",
    "pending_tool_calls",
    "output",
)


@dataclass(frozen=True, slots=True)
class RunListing:
    """A listing of runs, newest first. Fields that are empty or None do not restrict it. ``since`` and ``until`` are
    milliseconds since 1970, included, of when a run was made."""

    statuses: list[ShownStatus] = field(default_factory=list)
    workflow_id: str = ""
    thread_id: str = ""
    since: int | None = None
    until: int | None = None
    metadata: StoredJson = field(default_factory=dict)

    def fingerprint(self) -> str:
        # The cursor carries this, so that it cannot continue a listing with other filters.
        conditions = [sorted(self.statuses), self.workflow_id, self.thread_id, self.since, self.until, self.metadata]
        return hashlib.sha256(make_equality_key(conditions).encode()).hexdigest()[:16]


def is_resumable(run: Run, now: int) -> bool:
    """Whether the run only needs a holder to go on."""
    if run.status not in ("suspended", "running") or pending_calls.is_expired(run, now):
        return False
    if run.status == "running":
        return not pending_calls.is_claimed(run, now)
    return not _waiting(run)


def _waiting(run: Run) -> list[WaitingCall]:
    return list_waiting(read_calls(calls_of(run.pending)), list_of(run.answered))


def show_run(run: Run, now: int) -> RunRow:
    """A run as a list has it: ``waiting`` are the tool calls that wait for an answer."""
    row: RunRow = {
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "status": "expired" if pending_calls.is_expired(run, now) else run.status,
        "created_at": iso(run.created_at),
        "updated_at": iso(run.updated_at),
    }
    if is_resumable(run, now):
        row["resumable"] = True
    if run.workflow_id:
        row["workflow_id"] = run.workflow_id
    if run.parent_run_id:
        row["parent_run_id"] = run.parent_run_id
    if run.metadata:
        row["metadata"] = run.metadata
    if run.reason:
        row["reason"] = run.reason
    if waiting := _waiting(run):
        row["waiting"] = waiting
    if run.status == "running":
        _add_holder(row, run)
    if run.ended_by:
        row["ended_by"] = run.ended_by
    if run.expires_at is not None:
        row["expires_at"] = iso(run.expires_at)
    return order_keys(RunRow, row)


def _add_holder(row: RunRow, run: Run) -> None:
    assert run.claimed_by is not None
    assert run.claimed_at is not None
    assert run.claimed_until is not None
    row["claimed_by"] = run.claimed_by
    row["claimed_at"] = iso(run.claimed_at)
    row["claimed_until"] = iso(run.claimed_until)


async def get_run(engine: Engine, scope: Scope, run_id: str, *, with_state: bool = False) -> RunDetail:
    """Read one run without taking it: its pending tool calls, the answers to them, its output, what it and its
    sub-agents spent; and its state, in which secrets are masked here. Raises NotFound."""
    check_id(run_id, "run_id", engine.limits.id_chars)

    async def read(tx: Tx, scope: Scope) -> tuple[Run, RunContent, list[AgentLine]]:
        run = await runs.find(tx, scope, run_id)
        return run, await runs.content(tx, scope, run), await read_below(tx, scope, run_id)

    run, content, below = await engine.database.read(read, scope)
    pending, resumed, usage = calls_of(run.pending), show_answers(content.resumed), show_usage(content.usage, below)
    shown: RunDetail = {**show_run(run, engine.now())}
    if pending:
        shown["pending_tool_calls"] = pending
    if resumed:
        shown["resumed"] = resumed
    if content.output is not None:
        shown["output"] = value_of(content.output)
    if usage:
        shown["usage"] = usage
    fitting = _fit_run(shown, count_entry_bytes(engine.limits.answer_bytes))
    if with_state and content.state is not None:
        state = intact(content.state, f"the state of run {run.run_id!r}")
        fitting["state"] = (await work_on_long_text(engine.masked, state))[0]
    return fitting


def _fit_run(shown: RunDetail, most: int) -> RunDetail:
    """Fit a run into ``most`` bytes of an answer: its largest fields are left out, one after the other, until it
    fits."""
    sizes: dict[str, int] = {}
    fitting: RunDetail = {**shown}
    for name in _LARGE_KEYS:
        if name in fitting and PageEntry(fitting).bytes > most:
            sizes[name] = count_json_bytes(fitting[name])
            del fitting[name]
    if sizes:
        missing = ", ".join(f"{name} ({size:,} bytes)" for name, size in sizes.items())
        fitting["cut"] = f"left out: {missing}; resume_run gives all that a run waits for"
    return fitting


async def list_runs(engine: Engine, scope: Scope, request: RunListing, *, limit: int, cursor: str) -> RunPage:
    """List runs whose metadata has every given key with an equal value; ``next_cursor`` continues. An unknown thread
    has none.

    Raises InvalidInput, LimitExceeded.
    """
    _check_listing(engine, request)
    now = engine.now()
    wanted = _make_filter(engine, request, now)
    if cursor:
        after = _parse_place(cursor, request)
    else:
        after = None
    try:
        found, next_place = await engine.database.read(runs.read_page, scope, wanted, after=after, limit=limit)
    except NotFound:
        found, next_place = [], None
    # The pending calls may be large, and are read for their few names: the event loop must not wait for it.
    shown = await asyncio.to_thread(
        lambda: fit_entries([show_run(run, now) for run in found], engine.limits.answer_bytes)
    )
    # The page ended early for its size, so the next one begins behind the last run that is shown.
    if len(shown) < len(found):
        last = found[len(shown) - 1]
        next_place = (last.created_at, last.run_id)
    answer: RunPage = {"runs": shown}
    if next_place:
        answer["next_cursor"] = write_cursor([request.fingerprint(), *next_place])
    return answer


def _check_listing(engine: Engine, request: RunListing) -> None:
    check_metadata(request.metadata, "metadata", engine.limits)
    if request.workflow_id:
        check_id(request.workflow_id, "workflow_id", engine.limits.id_chars)
    if request.since is not None and request.until is not None and request.since > request.until:
        raise InvalidInput("since: it is later than until, so nothing could be found")


def _make_filter(engine: Engine, request: RunListing, now: int) -> RunFilter:
    wanted_values = {key: make_equality_key(value) for key, value in request.metadata.items()}
    stored: list[Status] = [status for status in get_args(Status) if status in request.statuses]
    resumable = "resumable" in request.statuses

    def has(run: Run) -> bool:
        if pending_calls.is_expired(run, now):
            shown = "expired"
        else:
            shown = run.status
        if resumable and shown not in request.statuses and not is_resumable(run, now):
            return False
        values = run.metadata
        return all(key in values and make_equality_key(values[key]) == value for key, value in wanted_values.items())

    return RunFilter(
        now=now,
        # A resumable run may have either status, and ``has`` decides.
        statuses=[*stored, *(("suspended", "running") if resumable else ())],
        expired="expired" in request.statuses,
        # Names of workflows are stored masked, so the filter is masked as well.
        workflow_id=engine.masked(request.workflow_id)[0],
        thread_id=request.thread_id,
        since=request.since,
        until=request.until,
        has=has if wanted_values or resumable else None,
    )


def _parse_place(cursor: str, request: RunListing) -> Place:
    unknown = InvalidInput("cursor: not one that list_runs gave; leave it out to begin at the first page")
    place: Any = read_cursor(cursor, unknown)
    if not isinstance(place, list) or len(place) != 3:
        raise unknown
    made_for, time, run_id = place
    if type(time) is not int or abs(time) > MOST_INTEGER or not isinstance(run_id, str):
        raise unknown
    if made_for != request.fingerprint():
        raise InvalidInput("cursor: it belongs to a listing with other arguments; repeat them, or leave the cursor out")
    return time, check_text(run_id, "cursor")
