"""Logs: one JSON object a line on standard error, with secrets masked."""

import logging
import sys
from collections.abc import Callable

from pythonjsonlogger.json import JsonFormatter


class _MaskedJson(JsonFormatter):
    """Masks each line with ``mask`` once that is set: its patterns are loaded after ``initialize`` was answered."""

    mask: Callable[[str], str] = staticmethod(lambda line: line)

    def format(self, record: logging.LogRecord) -> str:
        return self.mask(super().format(record))


_formatter = _MaskedJson(
    "{asctime}{levelname}{name}{message}",
    style="{",
    rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
)


def configure_logging(level: str) -> None:
    """Send all logs to standard error. ``level`` is debug, info, warning or error."""
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(_formatter)
    logging.basicConfig(level=level.upper(), handlers=[stream], force=True)
    # This logger quotes the body of an unreadable request in a traceback.
    logging.getLogger("mcp.server.sse").setLevel(logging.CRITICAL)
    # This logger logs the error of each refused call, which may repeat what the caller sent.
    logging.getLogger("mcp.server.mcpserver.server").setLevel(logging.WARNING)
    # An SSE stream that is open when the server ends has no last chunk; that is no failure.
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: "without completing response" not in record.getMessage()
    )


def mask_logs(mask: Callable[[str], str]) -> None:
    """Mask the secrets in every line from now on."""
    _formatter.mask = mask
