"""Logs: one JSON object a line on standard error, with secrets masked."""

import contextlib
import logging
import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from pythonjsonlogger.json import JsonFormatter

from layerlore.storage.core.traces import find_trace_id


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """The request that a log line is about."""

    request_id: str
    tenant: str
    tool: str


logged_request: ContextVar[LoggedRequest | None] = ContextVar("logged_request", default=None)
"""The request that this task answers, for its log lines."""

LOG_BYTES = 4 * 1024 * 1024


class _MaskedJson(JsonFormatter):
    """Masks each line with ``mask`` once that is set: its patterns are loaded after ``initialize`` was answered."""

    mask: Callable[[str], str] = staticmethod(lambda line: line)

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        super().add_fields(log_data, record, message_dict)
        request, trace_id = logged_request.get(), find_trace_id()
        if request is not None:
            log_data.update(asdict(request))
        if trace_id:
            log_data["trace_id"] = trace_id

    def format(self, record: logging.LogRecord) -> str:
        return self.mask(super().format(record))


_formatter = _MaskedJson(
    "{asctime}{levelname}{name}{message}",
    style="{",
    rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
)


class _RotatingOutput(logging.StreamHandler[TextIO]):
    """Writes to standard error, which is a file: one that is too long gets another name, and a new one takes its place."""

    def __init__(self, file: str, most_bytes: int) -> None:
        super().__init__(sys.stderr)
        self._file = file
        self._most_bytes = most_bytes

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        # A log that cannot be rotated is still better than none.
        with contextlib.suppress(OSError):
            if os.fstat(sys.stderr.fileno()).st_size > self._most_bytes:
                self._rotate()

    def _rotate(self) -> None:
        """The output of whatever else writes there goes along."""
        # A launch may have redirected the output, and another file must not be renamed.
        if not os.path.samestat(os.fstat(sys.stderr.fileno()), Path(self._file).stat()):
            return
        Path(self._file).replace(f"{self._file}.old")
        new = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(new, stream.fileno())
        os.close(new)


def configure_logging(level: str, *, file: str = "", most_bytes: int = LOG_BYTES) -> None:
    """Send all logs to standard error. ``level`` is debug, info, warning or error; ``file`` is where standard error leads,
    and ``most_bytes`` how long it grows before it is put aside as FILE.old."""
    stream = _RotatingOutput(file, most_bytes) if file else logging.StreamHandler(sys.stderr)
    stream.setFormatter(_formatter)
    logging.basicConfig(level=level.upper(), handlers=[stream], force=True)
    # This logger quotes the body of an unreadable request in a traceback.
    logging.getLogger("mcp.server.sse").setLevel(logging.CRITICAL)
    # This logger logs the error of each refused call, which may repeat what the caller sent.
    logging.getLogger("mcp.server.mcpserver.server").setLevel(logging.WARNING)
    # An SSE stream that is open when the server ends has no last chunk; that is not a failure.
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: "without completing response" not in record.getMessage()
    )


def mask_logs(mask: Callable[[str], str]) -> None:
    """Mask the secrets in every line from now on."""
    _formatter.mask = mask
