"""The tool for the plan of a conversation."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from layerlore.memory.work.work_answers import AllOpenWork, PlanAnswer, PlanStateAnswer
from layerlore.server.access.credentials import Right
from layerlore.server.tools.arguments import EMPTY_SAYS, NESTED, UNLISTED
from layerlore.server.tools.declaration import Call, TextOrJson, ThreadId, tool
from layerlore.storage.core.errors import InvalidInput

RawPlan = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "object",
            "properties": {
                "goal": {"type": "string"},
                "current_phase": {"type": "string"},
                "iteration": {"type": "integer"},
                "steps": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "id": {"type": "string"},
                            "phase": {"type": "string"},
                            "description": {"type": "string"},
                            "status": {
                                "type": "string",
                                "enum": ["pending", "in_progress", "completed", "failed", "skipped"],
                            },
                            "result": {"type": "string"},
                        },
                    },
                },
            },
        }
    ),
    NESTED,
]


_READS = ("review", "list")
ListTokens = Annotated[int, UNLISTED, Field(ge=100, le=20_000, description="The most that list answers with.")]


def _rights_of(arguments: Mapping[str, Any]) -> frozenset[Right]:
    # The kind of the call decides, since review and list change nothing.
    return frozenset({"read"} if arguments.get("action") in _READS else {"write"})


@tool(
    "Plan",
    "core",
    "write",
    largest_answer=200_000,
    reduced="ids and statuses of the steps",
    rights_of=_rights_of,
    ways=({"action": "review"}, {"action": "update"}),
)
async def plan(
    call: Call,
    action: Literal["create", "update", "review", "list"],
    plan: RawPlan = None,
    expected_revision: Annotated[int | None, EMPTY_SAYS] = None,
    revision: int | None = None,
    thread_id: ThreadId = "",
    max_tokens: ListTokens = 1500,
    format: TextOrJson = "text",
) -> str | PlanAnswer | PlanStateAnswer | AllOpenWork:
    """Keep the plan of long work; answers with it. update takes what changes: a step with
    id (or index, from 0) is changed, one without is added; goal with all steps replaces the plan. review reads it, or an
    earlier revision. list: what is left to do in all conversations (plans, suspended runs, next steps)."""
    from layerlore.memory.work import plan as plans

    if action == "list":
        return await _list_open(call, max_tokens, format)
    # Writing makes the thread; reading must not.
    thread = call.thread(thread_id, reads=action == "review")
    if action == "review":
        if plan or expected_revision is not None:
            raise InvalidInput("plan and expected_revision belong to create and update; review only reads")
        answer = await plans.review_plan(call.engine, call.scope, thread, revision=revision)
    else:
        if revision is not None:
            raise InvalidInput(
                f"revision belongs to review, which reads an earlier one; {action} takes expected_revision"
            )
        if action == "create":
            change = plans.create_plan
        else:
            change = plans.update_plan
        answer = await change(
            call.engine,
            call.scope,
            thread,
            plan,
            phases=call.settings.plan.phases,
            expected_revision=expected_revision,
            sent=call.sent(thread_id),
        )
        if call.default_use.thread_id:  # a repeated request means the thread of the first one
            call.default_use.thread_id = answer["thread_id"]
        # A credential that may write but not read only gets the states.
        if not call.may_read:
            if format == "text":
                return plans.render_states(answer)
            return plans.strip_words(answer)
    if format == "text":
        return plans.render_plan(answer)
    return answer


async def _list_open(call: Call, max_tokens: int, format: str) -> str | AllOpenWork:
    from layerlore.memory.work import plan as plans

    # These arguments concern one conversation, and ignoring them silently would mislead.
    if call.given & {"plan", "expected_revision", "revision", "thread_id"}:
        raise InvalidInput("action='list' is about all conversations: leave thread_id, plan and revisions out")
    found = await plans.list_open(call.engine, call.scope, call.caller.default_thread)
    if format == "text":
        return plans.render_all_open(found, call.engine.tokens, max_tokens)
    return found
