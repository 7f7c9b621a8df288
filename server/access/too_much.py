"""The refusal of what is more than somebody may ask for now, with the time after which it may be asked again."""

import math

from mcp.types import CallToolResult, ErrorData, TextContent

from layerlore.storage.errors import LayerloreError

RETRY_AFTER = "retry_after_seconds"
RETRY_AFTER_META = f"layerlore/{RETRY_AFTER}"
TOO_MUCH = -32005
"""The JSON-RPC code: of those that the protocol leaves to servers (-32000 to -32019)."""


class TooMuch(LayerloreError):
    """``what`` is too much, ``allowed`` is what would do; ``retry_after`` is in seconds, rounded up to tenths."""

    def __init__(self, what: str, allowed: str, retry_after: float) -> None:
        self.retry_after = max(0.1, math.ceil(round(retry_after * 10, 6)) / 10)
        super().__init__(f"too many {what}: {allowed}; try again in {self.retry_after:,} s")


def refusal(refused: TooMuch) -> ErrorData:
    """As an error of the protocol."""
    return ErrorData(code=TOO_MUCH, message=str(refused), data={RETRY_AFTER: refused.retry_after})


def refused_call(refused: TooMuch) -> CallToolResult:
    """As the answer of a tool: an error that a model can act on."""
    return CallToolResult(
        content=[TextContent(type="text", text=str(refused))],
        is_error=True,
        _meta={RETRY_AFTER_META: refused.retry_after},
    )
