"""What plan does."""

from typing import Any, Literal

from memstrata.memory import plan as plans
from memstrata.memory.plan_text import as_text
from memstrata.server.actions.call import Call
from memstrata.storage.errors import InvalidInput, NotFound
from memstrata.storage.records import Json


async def plan(
    call: Call,
    action: Literal["create", "update", "review"],
    plan: Any,
    expected_revision: int | None,
    revision: int | None,
    thread_id: str,
    format: Literal["text", "json"],
) -> str | Json:
    thread = call.thread(thread_id)
    if action == "review":
        if plan or expected_revision is not None:
            raise InvalidInput("plan and expected_revision belong to create and update; review only reads")
        answer = await _read(call, thread, bool(thread_id), revision)
    else:
        if revision is not None:
            raise InvalidInput(
                f"revision belongs to review, which reads an earlier one; {action} takes expected_revision"
            )
        change = plans.create if action == "create" else plans.update
        answer = await change(
            call.engine,
            call.scope,
            thread,
            plan,
            phases=call.settings.plan.phases,
            expected_revision=expected_revision,
            sent=call.sent(thread_id),
        )
    return as_text(answer) if format == "text" else answer


async def _read(call: Call, thread: str, named: bool, revision: int | None) -> Json:
    """The plan; of the current conversation also when nothing of it is stored yet."""
    try:
        return await plans.review(call.engine, call.scope, thread, revision=revision)
    except NotFound:
        if named or revision is not None:
            raise
        return plans.nothing_yet(thread)
