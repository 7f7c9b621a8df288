"""The errors that litellm raises, as failures of the request, of the setup, or of the moment.

litellm's own messages may repeat a key or what was sent: they are cut, and only logged.
"""

import logging
import time
from email.utils import parsedate_to_datetime
from typing import Any

from layerlore.extraction.chat.port import ChatFailed
from layerlore.storage.core import linear_re

log = logging.getLogger(__name__)

SETUP_PAUSE_MS = 300_000
_LONGEST_PAUSE_MS = 3_600_000

_OF_SETUP = "setup"
_OF_MOMENT = "moment"
_OF_REQUEST = "request"

# litellm's errors, the more specific first: what to say, and what is at fault.
_ERRORS: tuple[tuple[str, str, str], ...] = (
    ("AuthenticationError", "its key is missing or was refused", _OF_SETUP),
    ("PermissionDeniedError", "its key may not use it", _OF_SETUP),
    ("NotFoundError", "no such model there", _OF_SETUP),
    ("LiteLLMUnknownProvider", "no such model: auto, none, or PROVIDER/MODEL as litellm names it", _OF_SETUP),
    ("PaymentRequiredError", "the account has no credit left", _OF_SETUP),
    ("ContextWindowExceededError", "the material is too long for it", _OF_REQUEST),
    ("ContentPolicyViolationError", "the provider's content policy refused the material", _OF_MOMENT),
    ("UnsupportedParamsError", "it does not support what was asked for", _OF_REQUEST),
    ("BadRequestError", "the request was refused", _OF_REQUEST),
    ("UnprocessableEntityError", "the request was refused", _OF_REQUEST),
    ("RateLimitError", "too many requests", _OF_MOMENT),
    ("Timeout", "no answer in time", _OF_MOMENT),
    ("InternalServerError", "no connection, or an error there", _OF_MOMENT),
    ("ServiceUnavailableError", "unavailable", _OF_MOMENT),
    ("BadGatewayError", "unavailable", _OF_MOMENT),
    ("APIConnectionError", "no connection, or an unreadable answer", _OF_MOMENT),
)
# Errors for which litellm has no class of its own, by their words, and the class to treat them as.
_WORDS = (
    ("insufficient_quota", "PaymentRequiredError"),
    ("Missing credentials", "AuthenticationError"),
    ("API key not valid", "AuthenticationError"),
    ("LLM Provider NOT provided", "LiteLLMUnknownProvider"),
    # llama-cpp-python's server, which knows no schema, answers with status 500.
    ("'response_format'", "UnsupportedParamsError"),
)
_STATUSES = {402: "PaymentRequiredError", 403: "PermissionDeniedError", 413: "ContextWindowExceededError"}
_IN_ITS_WORDS = linear_re.compile(r'"retryDelay":\s*"(\d+(?:\.\d+)?)s"')  # Gemini puts it in the body


class RequestRefused(ChatFailed):
    """The provider refused the request; it may accept one without a schema."""


def convert_error(model: str, error: Exception) -> ChatFailed:
    """Log an error of litellm, and return the failure to raise for it."""
    log.warning("asking %s failed: %s: %.300s", model, type(error).__name__, error)
    words = str(error)
    kinds = [
        *(kind for part, kind in _WORDS if part in words),
        *(kind.__name__ for kind in type(error).__mro__),
        _STATUSES.get(getattr(error, "status_code", 0), ""),
    ]
    for kind, reason, fault in _ERRORS:
        if kind in kinds:
            return _failure(f"{model}: {reason}", kind, fault, error)
    status = getattr(error, "status_code", None)
    return ChatFailed(
        f"{model}: {type(error).__name__} {status or ''}".rstrip(),
        retryable=not isinstance(status, int) or status >= 500,
    )


def _failure(text: str, kind: str, fault: str, error: Exception) -> ChatFailed:
    if fault == _OF_SETUP:
        return ChatFailed(text, retryable=True, retry_after_ms=SETUP_PAUSE_MS, of_setup=True)
    if fault == _OF_REQUEST:
        refused = RequestRefused if kind != "ContextWindowExceededError" else ChatFailed
        return refused(text, retryable=False)
    return ChatFailed(text, retryable=True, retry_after_ms=read_retry_after(error))


def read_retry_after(error: Exception) -> int | None:
    """How long the provider asks to wait, in milliseconds: an hour at most. None if it does not say."""
    headers: Any = getattr(error, "litellm_response_headers", None)
    headers = headers or getattr(getattr(error, "response", None), "headers", None) or {}
    said = _milliseconds(headers.get("retry-after-ms"), 1) or _milliseconds(headers.get("retry-after"), 1000)
    if said is None:
        found = _IN_ITS_WORDS.search(str(error))
        said = _milliseconds(found[1], 1000) if found else None
    return None if said is None else max(0, min(said, _LONGEST_PAUSE_MS))


def _milliseconds(value: Any, unit: int) -> int | None:
    """A number of units, or the time until an HTTP date."""
    if value is None:
        return None
    try:
        return round(min(float(value), _LONGEST_PAUSE_MS) * unit)
    except (ValueError, OverflowError):
        pass
    try:
        return round((parsedate_to_datetime(str(value)).timestamp() - time.time()) * 1000)
    except (ValueError, OverflowError):
        return None
