"""The tool that erases for good."""

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from layerlore.server.tools.declaring import Declaration, annotations


class ErasureReceipt(TypedDict):
    receipt: str
    at: str
    dry_run: bool
    tenant: str
    agent: str
    resource_mark: str
    thread_mark: NotRequired[str]
    rows: int
    counts: dict[str, int]
    bytes: NotRequired[str]
    confirm: NotRequired[str]
    confirm_before: NotRequired[str]


def erase_memory(
    thread_id: Annotated[str, Field(description="Only this conversation; left out: everything.")] = "",
    dry_run: Annotated[bool, Field(description="Only tell how much would go.")] = True,
    confirm: Annotated[str, Field(description="The token of the dry run.")] = "",
) -> ErasureReceipt:
    """Erase for good everything remembered of whom this memory serves, or one conversation; nothing can be restored. A
    dry run tells how much that is, with a token; ask the user, then call again with dry_run=false and confirm."""


TOOLS = (Declaration(erase_memory, "Erase memory", "admin", "admin", annotations(destructive=True)),)
