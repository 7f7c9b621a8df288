"""The guard against DNS rebinding: the names that the server answers to, and the web pages that may call it, on every
route."""

import ipaddress
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from layerlore.server.access.browser_sessions import is_own_page
from layerlore.storage.core import linear_re

ANY_PORT = ":*"

_NAME = r"\[[0-9a-f:.]+\]|[a-z0-9._-]+"
_AUTHORITY = linear_re.compile(rf"(?P<name>{_NAME})(?::(?P<port>[0-9]{{1,5}}))?")
_ORIGIN = linear_re.compile(rf"(?P<name>[a-z][a-z0-9+.-]*://(?:{_NAME}))(?::(?P<port>[0-9]{{1,5}}))?")
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Allowed:
    """The Host and Origin headers that are served. An entry that ends in ``:*`` is a name with any port or none; any other
    entry is exact. Case is ignored; a dot at the end of a name is not. ``addresses``: a Host that is an address, with any
    port, is served, too, since rebinding needs a name. ``own_pages``: an Origin that names the same place as the Host is, too:
    it is a page of this server."""

    hosts: Collection[str] = ()
    origins: Collection[str] = ()
    addresses: bool = False
    own_pages: bool = False


class HostGuard:
    """ASGI middleware that answers 421 to a request without an allowed Host, and 403 to an Origin that is not allowed, on
    every route. A request without Origin comes from no web page."""

    def __init__(self, app: ASGIApp, allowed: Allowed) -> None:
        self._app = app
        self._hosts = frozenset(entry.lower() for entry in allowed.hosts)
        self._origins = frozenset(entry.lower() for entry in allowed.origins)
        self._addresses = allowed.addresses
        self._own_pages = allowed.own_pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope["headers"]) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> PlainTextResponse | None:
        sent = [(name, value.decode("latin-1").lower()) for name, value in headers if name in (b"host", b"origin")]
        hosts = [value for name, value in sent if name == b"host"]
        origins = [value for name, value in sent if name == b"origin"]
        if len(hosts) != 1 or not self._serves(hosts[0]):
            return PlainTextResponse(
                "Invalid Host header: name this server in http.public_url or http.allowed_hosts "
                "(LAYERLORE_HTTP__ALLOWED_HOSTS=NAME:*)",
                421,
            )
        own = self._own_pages and is_own_page(headers)
        if len(origins) > 1 or (origins and not own and not _matches(origins[0], self._origins, _ORIGIN)):
            return PlainTextResponse(
                "Invalid Origin header: add it to http.allowed_origins if it may call this server", 403
            )
        return None

    def _serves(self, host: str) -> bool:
        return _matches(host, self._hosts, _AUTHORITY) or (self._addresses and _is_address(host))


def _is_address(host: str) -> bool:
    """Whether a Host is a numeric address, with or without a port."""
    found = _AUTHORITY.fullmatch(host)
    if found is None or int(found["port"] or 0) > _LAST_PORT:
        return False
    name = found["name"]
    try:
        address = ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return address.version == (6 if name.startswith("[") else 4) and not address.is_unspecified


def _matches(value: str, entries: frozenset[str], form: linear_re.Pattern) -> bool:
    found = form.fullmatch(value)
    if found is None or int(found["port"] or 0) > _LAST_PORT:
        return False
    return value in entries or found["name"] + ANY_PORT in entries
