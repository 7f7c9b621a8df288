"""The tool that finds what was said."""

from typing import Annotated, Literal

from pydantic import Field

from layerlore.server.tools.declaring import Declaration, annotations


def recall_memory(
    query: str = "",
    queries: Annotated[list[str], Field(description="Up to 5 wordings.")] = [],  # noqa: B006 - never changed
    limit: Annotated[int, Field(ge=1, le=50)] = 5,
    thread_id: Annotated[str, Field(description="Only this conversation.")] = "",
    since: Annotated[str, Field(description="ISO 8601")] = "",
    until: str = "",
    roles: list[str] = [],  # noqa: B006 - a default in a schema, never changed
    kinds: list[Literal["entry", "message"]] = [],  # noqa: B006 - a default in a schema, never changed
    neighbours: Annotated[bool, Field(description="Messages around each hit.")] = True,
    detail: Literal["low", "high"] = "low",
    max_tokens: Annotated[int, Field(ge=100, le=20_000)] = 1500,
    explain: bool = False,
    format: Literal["text", "json"] = "text",
) -> str:
    """Search everything remembered from all conversations. Call it before answering about the user, the past, or
    anything that was said before. Best hits first, with who said it and when; "nothing relevant" is an answer."""


TOOLS = (
    Declaration(
        recall_memory,
        "Recall memory",
        "core",
        "read",
        annotations(read_only=True, idempotent=True),
        text=True,
        largest_answer=200_000,
    ),
)
