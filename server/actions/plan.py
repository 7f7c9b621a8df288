"""What plan does."""

from typing import Any, Literal

from layerlore.memory import plan as plans
from layerlore.memory.plan_text import as_states, as_text, states
from layerlore.server.actions.call import Call
from layerlore.storage.errors import InvalidInput
from layerlore.storage.records import Json


async def plan(
    call: Call,
    action: Literal["create", "update", "review"],
    plan: Any,
    expected_revision: int | None,
    revision: int | None,
    thread_id: str,
    format: Literal["text", "json"],
) -> str | Json:
    thread = call.thread(thread_id, reads=action == "review")
    if action == "review":
        if plan or expected_revision is not None:
            raise InvalidInput("plan and expected_revision belong to create and update; review only reads")
        answer = await plans.review(call.engine, call.scope, thread, revision=revision)
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
        if call.default_use.thread_id:  # a request that is sent again means the thread of the first
            call.default_use.thread_id = answer["thread_id"]
        if not call.may_read:
            return as_states(answer) if format == "text" else states(answer)
    return as_text(answer) if format == "text" else answer
