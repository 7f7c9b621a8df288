"""The addresses that can reach ``layerlore serve``, and the guard against DNS rebinding."""

import ipaddress
import socket
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from layerlore.server.access.browser_sessions import is_own_page
from layerlore.server.process.program import shell_command
from layerlore.server.settings.settings import Settings
from layerlore.storage.core import linear_re

ANY_PORT = ":*"

_NAME = r"\[[0-9a-f:.]+\]|[a-z0-9._-]+"
_AUTHORITY = linear_re.compile(rf"(?P<name>{_NAME})(?::(?P<port>[0-9]{{1,5}}))?")
_ORIGIN = linear_re.compile(rf"(?P<name>[a-z][a-z0-9+.-]*://(?:{_NAME}))(?::(?P<port>[0-9]{{1,5}}))?")
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class AllowedHeaders:
    """The allowed Host and Origin headers. An entry that ends in ``:*`` allows any port or none; any other entry is exact.
    Case does not matter, a dot at the end of a name does. ``addresses``: also allow a Host that is an address, with any port,
    since rebinding needs a name. ``own_pages``: also allow an Origin equal to the Host, which is a page of this server."""

    hosts: Collection[str] = ()
    origins: Collection[str] = ()
    addresses: bool = False
    own_pages: bool = False


class HostGuard:
    """ASGI middleware that answers 421 to a request without an allowed Host, and 403 to one with another Origin, on every
    route. A request without Origin does not come from a web page."""

    def __init__(self, app: ASGIApp, allowed: AllowedHeaders) -> None:
        self._app = app
        self._hosts = frozenset(entry.lower() for entry in allowed.hosts)
        self._origins = frozenset(entry.lower() for entry in allowed.origins)
        self._addresses = allowed.addresses
        self._own_pages = allowed.own_pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refusal = self._refusal(scope["headers"])
        else:
            refusal = None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> PlainTextResponse | None:
        sent = [(name, value.decode("latin-1").lower()) for name, value in headers if name in (b"host", b"origin")]
        hosts = [value for name, value in sent if name == b"host"]
        origins = [value for name, value in sent if name == b"origin"]
        # Two Host headers are refused: a proxy might check the first, and this server the second.
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
    # The unspecified address is refused: browsers connect it to this machine, past the rules for localhost.
    return address.version == (6 if name.startswith("[") else 4) and not address.is_unspecified


def _matches(value: str, entries: frozenset[str], form: linear_re.Pattern) -> bool:
    found = form.fullmatch(value)
    if found is None or int(found["port"] or 0) > _LAST_PORT:
        return False
    return value in entries or found["name"] + ANY_PORT in entries


_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
_EVERY_ADDRESS = ("0.0.0.0", "::", "")  # noqa: S104 - only compared with


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    return host in _LOOPBACK


def reached_by_others(settings: Settings) -> str:
    """How other machines can reach the server: by its address, or by a name that a proxy on this machine may serve; "" if
    they cannot."""
    http = settings.http
    if not is_loopback(http.host):
        # An empty host means every address for the socket library.
        return f"{http.host or 'every address'} can be reached from other machines"
    others = [name for name in _public_names(settings) if not is_own_name(name)]
    if others:
        return f"{others[0].removesuffix(ANY_PORT)} is a name that others can reach this server by"
    return ""


@dataclass(frozen=True, slots=True)
class ServedClients:
    """The clients that the server may serve from the database. ``any_key``: a valid API key exists. ``unfit``: why it may
    not serve tenants other than this machine's, although they have credentials; "" if it may."""

    any_key: bool
    unfit: str = ""


def refusal(settings: Settings, look: Callable[[], ServedClients]) -> str:
    """Why the server may not start, in one line that says what to do; "" if it may. ``look`` opens the database; it is
    called only if the answer matters."""
    reached = reached_by_others(settings)
    if not settings.http.auth:
        if reached:
            return f"--no-auth: {reached}; {_KEEP_OR_ASK}"
        return ""
    # Imported here, since this module is loaded before the first answer, and drivers take a while.
    from layerlore.storage.drivers.dialect import dialect_of

    # Without roles the database need not be opened, so the start stays fast.
    if dialect_of(settings.database.get_secret_value()).has_roles and (unfit := look().unfit):
        return (
            f"{unfit}, so that row-level security does not apply to it, and there are credentials of several tenants: serve "
            f"them as a role that owns nothing (`{shell_command('migrate', '--owner-url', 'URL')}` creates the tables for it)"
        )
    if not reached or settings.jwt.issuer or look().any_key:
        return ""
    return (
        f"{reached}, and others need credentials, but there are none: create a key with "
        f"`{shell_command('keys', 'create', '--tenant', 'NAME')}`, or "
        f"configure [jwt] (without either, http.host may be {', '.join(_LOOPBACK)}, with no other names in "
        "http.public_url and http.allowed_hosts)"
    )


_KEEP_OR_ASK = (
    "without credentials only this machine may be served: leave out --no-auth (http.auth = false), or "
    "http.host, http.public_url and http.allowed_hosts"
)


def warning(settings: Settings) -> str:
    """A warning, in one line, if other machines can reach this one only by its address; "" otherwise."""
    if settings.http.host not in _EVERY_ADDRESS or any(not is_own_name(name) for name in _public_names(settings)):
        return ""
    return (
        f"it answers to its addresses, localhost and {' and '.join(_machine_names())}; requests to other names get 421 "
        "until http.public_url or http.allowed_hosts names this machine"
    )


def allowed(settings: Settings) -> AllowedHeaders:
    """The allowed Host and Origin headers: this machine's names, its address (any address if the server listens on all), and
    those of the settings."""
    host = settings.http.host
    everywhere = host in _EVERY_ADDRESS
    if everywhere:
        own = _machine_names()
    else:
        own = [f"[{host}]" if ":" in host else host]
    address = [name + ANY_PORT for name in own]
    return AllowedHeaders(
        hosts=[*(name + ANY_PORT for name in _OWN_NAMES), *address, *_public_names(settings)],
        # Without credentials this would admit the pages of any program on this machine.
        origins=[
            *(f"http://{name}{ANY_PORT}" for name in _OWN_NAMES if settings.http.auth),
            *([settings.http.public_origin] if settings.http.public_origin and settings.http.explore else []),
            *settings.http.allowed_origins,
        ],
        addresses=everywhere,
        own_pages=settings.http.explore,
    )


def _machine_names() -> list[str]:
    """The names that other machines of the same network may use for this one."""
    name = socket.gethostname().lower()
    # On a local network, mDNS answers for the name with ".local".
    return [name, *([] if "." in name else [f"{name}.local"])]


def _public_names(settings: Settings) -> list[str]:
    """The public names of this machine in the settings. A proxy may pass on the port or leave it out."""
    public = urlsplit(settings.http.public_url).hostname
    if public:
        named = [(f"[{public}]" if ":" in public else public) + ANY_PORT]
    else:
        named = []
    return [*named, *settings.http.allowed_hosts]


def is_own_name(entry: str) -> bool:
    """Whether a Host, with or without a port, is a loopback name."""
    name, colon, port = entry.lower().rpartition(":")
    return (name if colon and not port.endswith("]") else entry.lower()) in _OWN_NAMES
