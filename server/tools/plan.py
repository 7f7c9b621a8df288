"""The tool that keeps a conversation's plan."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from memstrata.server.access.principal import Right
from memstrata.server.tools.declaring import Declaration, MaybeInt, ThreadId, annotations

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
                            "status": {"enum": ["pending", "in_progress", "completed", "failed", "skipped"]},
                            "result": {"type": "string"},
                        },
                    },
                },
            },
        }
    ),
]


def plan(
    action: Literal["create", "update", "review"],
    plan: RawPlan = None,
    expected_revision: MaybeInt = None,
    revision: Annotated[MaybeInt, Field(description="review: an earlier one.")] = None,
    thread_id: ThreadId = "",
    format: Literal["text", "json"] = "text",
) -> str:
    """Keep the plan of long work, so that it survives restarts. Every action answers with the plan. update takes what
    changes: a step with id (or index) is changed, one without is added; goal with all steps replaces the whole plan."""


def _right_of(arguments: Mapping[str, Any]) -> Right:
    return "read" if arguments.get("action") == "review" else "write"


TOOLS = (
    Declaration(plan, "Plan", "core", "read", annotations(), text=True, largest_answer=200_000, right_of=_right_of),
)
