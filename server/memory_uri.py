"""The addresses of resources: ``memory://profile``, ``memory://threads/{thread_id}/plan`` and the like."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl, quote, unquote

SCHEME = "memory://"

Kind = Literal["profile", "threads", "status", "thread", "messages", "session-memory", "plan", "runs", "events"]

_ALONE: Mapping[str, Kind] = {"profile": "profile", "threads": "threads", "status": "status"}
OF_A_THREAD: tuple[Kind, ...] = ("messages", "session-memory", "plan", "runs", "events")
_QUERIES: Mapping[Kind, frozenset[str]] = {
    "messages": frozenset({"limit", "before"}),
    "events": frozenset({"after"}),
}


@dataclass(frozen=True, slots=True)
class Address:
    """What a URI names. ``thread_id`` is empty for what belongs to no thread."""

    kind: Kind
    thread_id: str = ""
    query: Mapping[str, str] = field(default_factory=dict)


def parse(uri: str) -> Address | None:
    """The address of a URI; None when it is no address of a resource here."""
    if not uri.startswith(SCHEME):
        return None
    path, _, raw_query = uri.removeprefix(SCHEME).partition("?")
    kind, thread_id = _place(path.split("/"))
    if kind is None:
        return None
    pairs = parse_qsl(raw_query, keep_blank_values=True)
    if len(dict(pairs)) != len(pairs) or not dict(pairs).keys() <= _QUERIES.get(kind, frozenset()):
        return None
    return Address(kind, thread_id, dict(pairs))


def _place(path: list[str]) -> tuple[Kind | None, str]:
    match path:
        case [alone] if alone in _ALONE:
            return _ALONE[alone], ""
        case ["threads", thread_id] if thread_id:
            return "thread", unquote(thread_id)
        case ["threads", thread_id, kind] if thread_id:
            return next((each for each in OF_A_THREAD if each == kind), None), unquote(thread_id)
    return None, ""


def uri_of(kind: Kind, thread_id: str = "") -> str:
    """The URI of a resource, without a query."""
    if not thread_id:
        return SCHEME + kind
    place = f"{SCHEME}threads/{quote(thread_id, safe='')}"
    return place if kind == "thread" else f"{place}/{kind}"
