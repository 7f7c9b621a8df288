"""What the tools about runs do."""

from collections.abc import Sequence
from typing import Any

from layerlore.memory import run_listing, runs
from layerlore.memory.acceptance import parse_time
from layerlore.memory.run_listing import Listing
from layerlore.memory.runs import Brought, Suspension
from layerlore.server.actions.call import Call
from layerlore.server.actions.recall import last_moment
from layerlore.storage.errors import InvalidInput
from layerlore.storage.records import Json
from layerlore.storage.runs import Ending, Status


async def suspend_run(
    call: Call,
    run_id: str,
    state: Any,
    workflow_id: str,
    metadata: Json,
    pending_tool_calls: Any,
    reason: str,
    ttl_seconds: int | None,
    claim: str,
    thread_id: str,
) -> Json:
    given = Suspension(run_id, state, workflow_id, metadata, pending_tool_calls, reason, ttl_seconds, claim)
    # A run that is suspended again has its thread, whichever the current one is.
    thread = call.thread(thread_id) if thread_id or not claim else ""
    return await runs.suspend_run(call.engine, call.scope, thread, given, sent=call.sent(thread_id))


async def resume_run(call: Call, run_id: str, tool_call_id: str, data: Any, lease_seconds: int) -> Json:
    brings = data != ""  # as a client sends it that fills every argument in
    if tool_call_id and not brings:
        raise InvalidInput("tool_call_id: says what data is for: give data, too, or leave both out")
    brought = Brought(data, tool_call_id) if brings else None
    return await runs.resume_run(
        call.engine, call.scope, run_id, brought, lease_seconds=lease_seconds, sent=call.sent()
    )


async def complete_run(call: Call, run_id: str, claim: str, status: Ending, output: Any) -> Json:
    kept = None if output == "" else output
    return await runs.complete_run(call.engine, call.scope, run_id, claim, status, kept, sent=call.sent())


async def list_runs(
    call: Call,
    run_id: str,
    status: Sequence[Status],
    workflow_id: str,
    thread_id: str,
    since: str,
    until: str,
    metadata: Json,
    limit: int,
    cursor: str,
) -> Json:
    if run_id:
        return await run_listing.get_run(call.engine, call.scope, run_id)
    asked = Listing(
        statuses=list(status),
        workflow_id=workflow_id,
        thread_id=call.thread(thread_id) if thread_id else "",
        since=parse_time(since, "since") if since else None,
        until=last_moment(until) if until else None,
        metadata=metadata,
    )
    return await run_listing.list_runs(call.engine, call.scope, asked, limit=limit, cursor=cursor)
