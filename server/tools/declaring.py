"""How a tool is declared."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NotRequired

from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations
from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from memstrata.server.access.principal import Right

Signature = Callable[..., Any]

ThreadId = Annotated[str, Field(description="The conversation; left out: the current one.")]
MaybeInt = Annotated[int | None, WithJsonSchema({"type": "integer"})]
Role = Literal["system", "user", "assistant", "tool"]
Roles = Annotated[list[Role], Field(description="Only these roles.")]
Detail = Literal["low", "high"]


# What was spent on models; calls of one whose price is not known cost nothing here.
class Usage(TypedDict):
    input_tokens: int
    output_tokens: int
    cost_usd: float
    unpriced_calls: NotRequired[int]


@dataclass(frozen=True, eq=False)
class Declaration:
    """A tool, its toolset, and whether its answer is text for a model to read.

    ``right`` is what it takes to see the tool; ``right_of`` is, for one that can do several things, what a call with
    these arguments takes, as they were sent.
    """

    signature: Signature
    title: str
    toolset: str
    right: Right
    annotations: ToolAnnotations
    text: bool = False
    largest_answer: int | None = None
    right_of: Callable[[Mapping[str, Any]], Right] | None = None

    def needs(self, arguments: Mapping[str, Any]) -> Right:
        """The right that a call takes."""
        return self.right if self.right_of is None else self.right_of(arguments)

    @cached_property
    def tool(self) -> Tool:
        """As the SDK lists it, its schemas without what costs tokens and says nothing. Servers share it."""
        meta = {"anthropic/maxResultSizeChars": self.largest_answer} if self.largest_answer else None
        tool = Tool.from_function(
            self.signature,
            title=self.title,
            annotations=self.annotations,
            meta=meta,
            structured_output=False if self.text else None,
        )
        tool.parameters = compact_schema(tool.parameters)
        if tool.fn_metadata.output_schema is not None:
            tool.fn_metadata.output_schema = compact_schema(tool.fn_metadata.output_schema)
        return tool


def annotations(*, read_only: bool = False, destructive: bool = False, idempotent: bool = False) -> ToolAnnotations:
    """All four hints; nothing here reaches beyond this server."""
    return ToolAnnotations(
        read_only_hint=read_only,
        destructive_hint=destructive,
        idempotent_hint=idempotent,
        open_world_hint=False,
    )


def compact_schema(schema: Any) -> Any:
    """A JSON schema without pydantic's titles and null defaults."""
    if isinstance(schema, dict):
        return {
            key: compact_schema(value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str)) and not (key == "default" and value is None)
        }
    return [compact_schema(entry) for entry in schema] if isinstance(schema, list) else schema
