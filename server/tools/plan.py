"""The tool that keeps a conversation's plan."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import WithJsonSchema

from layerlore.server.access.principal import Right
from layerlore.server.tools.declaring import Declaration, ThreadId, annotations
from layerlore.server.tools.leaving_out import EMPTY_SAYS, NESTED

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


def plan(
    action: Literal["create", "update", "review"],
    plan: RawPlan = None,
    expected_revision: Annotated[int | None, EMPTY_SAYS] = None,
    revision: int | None = None,
    thread_id: ThreadId = "",
    format: Literal["text", "json"] = "text",
) -> str:
    """Keep the plan of long work across restarts; answers with it. update takes what changes: a step with
    id (or index) is changed, one without added; goal with all steps replaces the plan. review reads it, or an earlier
    revision."""


def _rights_of(arguments: Mapping[str, Any]) -> frozenset[Right]:
    return frozenset({"read"} if arguments.get("action") == "review" else {"write"})


TOOLS = (
    Declaration(
        plan,
        "Plan",
        "core",
        "write",
        annotations(),
        text=True,
        largest_answer=200_000,
        reduced="ids and statuses of the steps",
        rights_of=_rights_of,
        ways=({"action": "review"}, {"action": "update"}),
    ),
)
