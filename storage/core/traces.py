"""Spans of what a call does, where the process records traces; elsewhere they cost one look.

The attributes hold names, numbers and ids of ours, never a text that a caller sent or that is stored.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from opentelemetry.context import Context
from opentelemetry.trace import (
    ProxyTracerProvider,
    Span,
    SpanKind,
    Status,
    StatusCode,
    format_trace_id,
    get_current_span,
    get_tracer_provider,
)

from layerlore.storage.core import metrics

INTERNAL, CLIENT, SERVER = SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.SERVER
Attributes = dict[str, str | int | float | bool]


def is_recording() -> bool:
    """Whether this process has a tracer of its own: the default one records nothing."""
    return not isinstance(get_tracer_provider(), ProxyTracerProvider)


@contextmanager
def span(
    name: str,
    attributes: Attributes | None = None,
    kind: SpanKind = INTERNAL,
    *,
    begins_trace: bool = False,
    within: Context | None = None,
) -> Iterator[Span | None]:
    """A span around the body; None where none is recorded. An error marks it by its class alone, since its text may repeat
    what a caller sent.

    ``begins_trace``: also outside of any trace, or ``within`` the caller's own; other spans are parts of one. The queries
    that a server makes for itself every few seconds would be as many traces.
    """
    if not is_recording() or not (begins_trace or get_current_span().get_span_context().is_valid):
        yield None
        return
    tracer = get_tracer_provider().get_tracer("layerlore")
    with tracer.start_as_current_span(
        name, within, kind, attributes, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield current
        except BaseException as error:
            mark_failed(current, type(error).__name__)
            raise


def annotate(name: str, value: str | int | float | bool) -> None:
    """Set an attribute of the current span, if one is recorded."""
    if is_recording():
        get_current_span().set_attribute(name, value)


def mark_failed(current: Span | None, error: str) -> None:
    """Mark a span as failed; ``error`` is a word of ours or the class of an error."""
    if current is not None:
        current.set_attribute("error.type", error)
        current.set_status(Status(StatusCode.ERROR))


def find_trace_id() -> str:
    """The id of the current trace in hexadecimal digits; "" outside of any."""
    context = get_current_span().get_span_context()
    if context.is_valid:
        return format_trace_id(context.trace_id)
    return ""


TransactionMode = Literal["read", "write"]


@contextmanager
def measured_wait() -> Iterator[None]:
    """Around the wait for a connection."""
    with span("wait for a connection"), metrics.POOL_WAIT_SECONDS.time():
        yield


@contextmanager
def measured_transaction(mode: TransactionMode) -> Iterator[None]:
    """Around a transaction, from its beginning to after its commit."""
    with span(f"{mode} transaction", kind=CLIENT), metrics.TX_SECONDS.time(mode):
        yield
