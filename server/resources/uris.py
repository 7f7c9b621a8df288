"""The addresses of resources: ``memory://profile``, ``memory://threads/{thread_id}/plan`` and the like.

Ids in them are percent-encoded, as RFC 6570 expands a template: any character may be in an id, slashes too.
"""

import contextlib
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl, quote, unquote

from layerlore.memory.rules.validation import describe_choices
from layerlore.server.resources.kinds import KINDS, OF_A_THREAD, TEMPLATED, TEXT_QUERIES, Address, Kind
from layerlore.storage.core.errors import InvalidInput, NotFound

SCHEME = "memory://"

# Rows with an id of their own, and their place.
_OF_IDS: Mapping[Kind, str] = {
    "run": "runs/{run_id}",
    "run-state": "runs/{run_id}/state",
    "entry": "entries/{entry_id}",
}
# A resource without a thread and an id has its own name as its place.
_ALONE: Mapping[str, Kind] = {kind: kind for kind in KINDS if kind not in (*OF_A_THREAD, "thread", *_OF_IDS)}
# As many digits as the databases' integers have.
_DIGITS = 19
_LONGEST_SHOWN = 80


def parse(uri: str) -> Address | None:
    """The address of a URI; None when it is not an address of a resource here."""
    with contextlib.suppress(InvalidInput, NotFound):
        return address_of(uri)
    return None


def address_of(uri: str) -> Address:
    """The address of a URI. Raises NotFound, or InvalidInput for one that is badly written; they say what is allowed."""
    path, _, raw_query = uri.removeprefix(SCHEME).partition("?")
    if uri.startswith(SCHEME):
        address = _place(path.split("/"))
    else:
        address = None
    if address is None:
        raise NotFound(
            f"there is no resource {_shown(uri)}; there are {', '.join(map(template_of, KINDS))} (ids percent-encoded)"
        )
    return Address(address.kind, address.thread_id, _query(address.kind, raw_query), address.run_id, address.entry_id)


def _place(path: Sequence[str]) -> Address | None:
    match path:
        case [alone] if alone in _ALONE:
            return Address(_ALONE[alone])
        case ["runs", run_id] if run_id:
            return Address("run", run_id=_decoded(run_id))
        case ["runs", run_id, "state"] if run_id:
            return Address("run-state", run_id=_decoded(run_id))
        case ["entries", entry_id] if entry_id:
            return Address("entry", entry_id=_decoded(entry_id))
        case ["threads", thread_id] if thread_id:
            return Address("thread", _decoded(thread_id))
        case ["threads", thread_id, name] if thread_id:
            kind = next((each for each in OF_A_THREAD if each == name), None)
            if kind is None:
                raise NotFound(f"a thread has no resource {_shown(name)}; {describe_choices(name, OF_A_THREAD)}")
            return Address(kind, _decoded(thread_id))
    return None


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidInput(f"{_shown(text)} is not percent-encoded UTF-8, as an id in a URI must be") from None


def _query(kind: Kind, raw: str) -> Mapping[str, str]:
    allowed = KINDS[kind].query
    found: dict[str, str] = {}
    for name, value in _pairs(raw):
        if name not in allowed:
            if allowed:
                takes = describe_choices(name, allowed)
            else:
                takes = "this resource takes no query"
            raise InvalidInput(f"unknown query {_shown(name)}; {takes}")
        if name in found:
            raise InvalidInput(f"{name}: comes twice; once is allowed")
        if name not in TEXT_QUERIES and not (value.isascii() and value.isdigit() and len(value) <= _DIGITS):
            raise InvalidInput(
                f"{name}: must be a whole number of at most {_DIGITS} digits, as in ?{name}=20, not {_shown(value)}"
            )
        found[name] = value
    return found


def _pairs(raw: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(raw, keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise InvalidInput(f"{_shown(raw)} is not percent-encoded UTF-8, as a query in a URI must be") from None


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…")


def uri_of(kind: Kind, thread_id: str = "") -> str:
    """The URI of a resource that is neither a run nor an entry, without a query."""
    return _joined(kind, quote(thread_id, safe=""))


def uri_of_run(run_id: str) -> str:
    """The URI of a run."""
    return f"{SCHEME}runs/{quote(run_id, safe='')}"


def uri_of_entry(entry_id: str) -> str:
    """The URI of an entry."""
    return f"{SCHEME}entries/{quote(entry_id, safe='')}"


def template_of(kind: Kind) -> str:
    """The URI template (RFC 6570) of a kind; of one that belongs to no thread and has no id, the URI
    itself."""
    if kind in _OF_IDS:
        return SCHEME + _OF_IDS[kind]
    if kind in TEMPLATED:
        names = KINDS[kind].query
    else:
        names = ()
    if names:
        query = f"{{?{','.join(names)}}}"
    else:
        query = ""
    return _joined(kind, "" if kind in _ALONE else "{thread_id}") + query


def _joined(kind: Kind, thread: str) -> str:
    if not thread:
        return SCHEME + kind
    place = f"{SCHEME}threads/{thread}"
    if kind == "thread":
        return place
    return f"{place}/{kind}"
