"""The refusal of a request that exceeds a limit, with the time after which it may be sent again."""

import math

from mcp.types import CallToolResult, ErrorData, TextContent

from layerlore.storage.core.errors import LayerloreError

RETRY_AFTER = "retry_after_seconds"
RETRY_AFTER_META = f"layerlore/{RETRY_AFTER}"
TOO_MUCH = -32005
"""The JSON-RPC code, one of those that the protocol leaves to servers (-32000 to -32019)."""


class TooMuch(LayerloreError):
    """A limit is exceeded. ``what``: of which there are too many; ``allowed``: the limit; ``retry_after``: seconds, rounded
    up to tenths."""

    def __init__(self, what: str, allowed: str, retry_after: float) -> None:
        self.retry_after = max(0.1, math.ceil(round(retry_after * 10, 6)) / 10)
        super().__init__(f"too many {what}: {allowed}; try again in {self.retry_after:,} s")


def refusal_error(refused: TooMuch) -> ErrorData:
    """The refusal as an error of the protocol."""
    return ErrorData(code=TOO_MUCH, message=str(refused), data={RETRY_AFTER: refused.retry_after})


def refusal_result(refused: TooMuch) -> CallToolResult:
    """The refusal as the answer of a tool: an error that a model can act on."""
    return CallToolResult(
        content=[TextContent(type="text", text=str(refused))],
        is_error=True,
        _meta={RETRY_AFTER_META: refused.retry_after},
    )
