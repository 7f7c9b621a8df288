"""The gate in front of the HTTP endpoints: it admits a request only if its credential has a principal. It also publishes the
issuer of tokens for this server and their URLs (RFC 9728)."""

import logging
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import unquote

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.authentication import AuthCredentials
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from layerlore.server.access.browser_sessions import Headers, credential_of, is_own_page, sent_by_page
from layerlore.server.access.credentials import PRINCIPAL_CLAIM, Credentials, Principal
from layerlore.server.access.exposure import is_own_name
from layerlore.server.access.open_requests import AGAIN_SECONDS, OpenRequests
from layerlore.server.access.protocol_errors import SCOPES, answer_unavailable, challenge_scope, challenge_unauthorized
from layerlore.storage.core.errors import StorageUnavailable

METADATA = "/.well-known/oauth-protected-resource"
Endpoint = Literal["/mcp", "/sse"]


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """The endpoints of this server, as resources of an issuer. ``public_url`` and its path ``public_path`` may be empty; then
    only clients on this machine learn about the issuer, by the URL that they call."""

    issuer: str
    public_url: str = ""
    public_path: str = ""

    @property
    def audiences(self) -> list[str]:
        """The URLs that a token for this server may name, as clients spell them."""
        if not self.public_url:
            return []
        urls = [self.public_url, f"{self.public_url}/mcp", f"{self.public_url}/sse"]
        return [spelled for url in urls for spelled in (url, f"{url}/")]

    def metadata_url(self, endpoint: Endpoint, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """The URL of the metadata of an endpoint; "" if this server has no safe URL for the client."""
        base = self._base(headers)
        if not base:
            return ""
        # RFC 9728, 3.1: the well-known name stands between the host and the path of the resource.
        origin = base.removesuffix(self.public_path)
        return f"{origin}{METADATA}{self.public_path}{endpoint}"

    def describe(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> dict[str, Any] | None:
        """The metadata at a path below the well-known name; None for an unknown resource.

        The name alone stands for ``/mcp``, since clients try it last. A proxy may have removed the public path.
        """
        base = self._base(headers)
        endpoint = path.rstrip("/").removeprefix(self.public_path) or "/mcp"
        if not base or endpoint not in ("/mcp", "/sse"):
            return None
        return {
            "resource": base + endpoint,
            "authorization_servers": [self.issuer],
            "scopes_supported": SCOPES.split(),
            "bearer_methods_supported": ["header"],
            "resource_name": "layerlore",
        }

    def _base(self, headers: Iterable[tuple[bytes, bytes]]) -> str:
        if self.public_url:
            return self.public_url
        host = next((value.decode("latin-1") for name, value in headers if name == b"host"), "")
        # A name that others can use needs https, and this server does not know which proxy speaks it.
        if is_own_name(host):
            return f"http://{host}"
        return ""


log = logging.getLogger(__name__)

LONGEST_TOKEN = 16 * 1024
"""The longest token in bytes; a longer one is refused unread."""

TENANT_HEADER = "Layerlore-Tenant"
"""The tenant that an operator's page means, percent-encoded. Only a principal with ``every_tenant`` may use it."""
_TENANT_HEADER = TENANT_HEADER.lower().encode()

_CARRY_CREDENTIALS = (b"authorization", b"x-api-key")
_UNSEEN = (*_CARRY_CREDENTIALS, b"cookie")


class Gate:
    """Checks the credential of every request to its apps, and hides the token from them.

    A token comes as ``Authorization: Bearer`` or as ``X-API-Key``, never in the URL; two different ones are refused. A page
    of this server sends it as the two halves of a browser session. ``resource``: the endpoints and the issuer of their
    tokens. ``public_origin``: the origin by which others reach this server.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        resource: ProtectedResource | None = None,
        public_origin: str = "",
        again_seconds: float = AGAIN_SECONDS,
    ) -> None:
        self.public_origin = public_origin
        self.open = OpenRequests(credentials, again_seconds)
        self._credentials = credentials
        self._resource = resource

    def wrap(self, app: ASGIApp, endpoint: Endpoint = "/mcp") -> "GatedApp":
        """The app behind this gate. ``endpoint``: the path that its clients call."""
        return GatedApp(self, AuthContextMiddleware(app), endpoint)

    def metadata_url(self, endpoint: Endpoint, headers: Headers) -> str:
        """The URL by which the client of a request learns the issuer of tokens; "" if it cannot."""
        if self._resource is None:
            return ""
        return self._resource.metadata_url(endpoint, headers)

    async def principal(self, token: str | None, metadata_url: str = "") -> Principal | Response:
        """The principal of a token, or the response that refuses it. ``token`` None: the request had no usable token."""
        try:
            if token is None:
                principal = None
            else:
                principal = await self._credentials.principal(token)
        except StorageUnavailable as error:
            log.info("credentials cannot be checked: %s", error)
            return answer_unavailable()
        except Exception as error:  # noqa: BLE001 - its text may repeat the token
            # Only the place is logged, since the text and the traceback's values may contain the token.
            place = traceback.extract_tb(error.__traceback__)[-1]
            log.error(
                "a credential could not be checked: %s in %s:%s", type(error).__name__, place.filename, place.lineno
            )
            return answer_unavailable()
        if principal is None:
            return challenge_unauthorized(metadata_url, sent=token != "")
        if principal.rights:
            return principal
        return challenge_scope(metadata_url)


class GatedApp:
    """An ASGI app behind a gate."""

    def __init__(self, gate: Gate, app: ASGIApp, endpoint: Endpoint) -> None:
        self._gate = gate
        self._endpoint = endpoint
        self._app = app
        self._known: tuple[Principal, AuthenticatedUser] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        by_page = sent_by_page(scope["headers"])
        # Checked before the credential, since a foreign page must not learn whether the cookie is valid.
        if by_page and not is_own_page(scope["headers"], self._gate.public_origin):
            await PlainTextResponse("Only a page of this server may call it as one: Origin", 403)(scope, receive, send)
            return
        token = _read_token(scope["headers"], by_page=by_page)
        metadata_url = self._gate.metadata_url(self._endpoint, scope["headers"])
        found = await self._gate.principal(token, metadata_url)
        if isinstance(found, Response):
            await found(scope, receive, send)
            return
        meant = found
        if by_page and found.every_tenant:
            meant = replace(found, tenant=_read_tenant(scope["headers"]) or found.tenant)
        known = {
            **scope,
            # The apps may log headers or pass them on, so they never see a credential.
            "headers": [each for each in scope["headers"] if each[0] not in _UNSEEN],
            "user": self._user_of(meant),
            "auth": AuthCredentials(),
        }
        # The credential's own principal, even if the request means another tenant: it is checked again while the request
        # is open.
        await self._gate.open.serve(token or "", found, self._app, known, receive, send, metadata_url)

    def _user_of(self, principal: Principal) -> AuthenticatedUser:
        """The principal in the SDK's form. The last one is reused for the same principal object."""
        if self._known is None or self._known[0] is not principal:
            self._known = principal, AuthenticatedUser(_make_access_token(principal))
        return self._known[1]


def _read_tenant(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The tenant that a page of the operator means; "" if it names none."""
    named = [value.decode("latin-1") for name, value in headers if name == _TENANT_HEADER]
    if named:
        return unquote(named[0]).replace("\0", "")
    return ""


def subject_prefix(tenant: str) -> str:
    """The unique prefix of the subjects of a tenant's credentials."""
    # Quoted by repr, so that no tenant's prefix begins another tenant's.
    return f"({tenant!r}, "


def _read_token(headers: Iterable[tuple[bytes, bytes]], *, by_page: bool = False) -> str | None:
    """The token of a request; "" if it has none; None if it has several, if the token is too long, or if its halves do not
    belong together. ``by_page``: accept a browser session."""
    sent = [(name, value.strip()) for name, value in headers if name in _CARRY_CREDENTIALS]
    tokens = {value[7:].strip() for name, value in sent if name == b"authorization" and value[:7].lower() == b"bearer "}
    tokens |= {value for name, value in sent if name == b"x-api-key"}
    if by_page:
        joined = credential_of(headers)
        if joined is None:
            return None
        tokens.add(joined.encode("latin-1", "replace"))
    tokens.discard(b"")
    if len(tokens) > 1 or any(len(token) > LONGEST_TOKEN for token in tokens):
        return None
    if tokens:
        return tokens.pop().decode("latin-1")
    return ""


def _make_access_token(principal: Principal) -> AccessToken:
    """The principal in the SDK's form. A session of the older protocol belongs to its client id and subject."""
    return AccessToken(
        token="checked",  # noqa: S106 - a placeholder: the token itself is not kept
        client_id=principal.name,
        subject=subject_prefix(principal.tenant) + f"{principal.resource!r})",
        scopes=[],
        expires_at=None if principal.expires_at is None else principal.expires_at // 1000,
        claims={PRINCIPAL_CLAIM: principal},
    )
