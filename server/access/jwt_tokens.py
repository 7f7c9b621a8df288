"""JWTs of the configured issuer as credentials."""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import jwt

from layerlore.server.access.credentials import LOCAL_TENANT, RIGHTS, Principal, Right
from layerlore.server.access.issuer_keys import KeySet
from layerlore.server.settings.http import JwtSettings

MAX_TOKEN_BYTES = 8 * 1024
_NAME_CHARS = 255
_PREFIX = "memory:"
_TIMES = ("exp", "nbf", "iat")

log = logging.getLogger(__name__)


class _TokenRefused(Exception):
    """A token names no user. The text says why, without quoting the token."""


class JwtTokens:
    """Credentials that are JWTs. ``agent``: for tokens that name no agent. ``resources``: the URLs of this server, which
    are audiences beside the configured one: a client asks the issuer for a token for the URL that it calls (RFC 8707)."""

    def __init__(self, settings: JwtSettings, agent: str, keys: KeySet, resources: Collection[str] = ()) -> None:
        self._settings = settings
        self._audiences = [*filter(None, [settings.audience]), *resources]
        self._agent = agent
        self._keys = keys
        self._host = urlsplit(settings.issuer).hostname
        self._types = frozenset(_normalize_type(each) for each in settings.types)

    async def principal(self, token: str) -> Principal | None:
        """The principal of a valid token, without rights if the token gives none; None for any other token.

        ``expires_at`` is ``exp`` plus the leeway. Raises IssuerUnavailable.
        """
        try:
            return self._make_principal(await self._verify(token))
        except _TokenRefused as refused:
            log.debug("a JWT was refused: %s", refused)
        except jwt.PyJWTError as error:
            log.debug("a JWT was refused: %s", type(error).__name__)
        return None

    async def _verify(self, token: str) -> Mapping[str, Any]:
        """The claims of a token, after checking that it is the issuer's, for this server, and valid now."""
        # Before anything is parsed: PyJWT would decode a token of any size.
        if len(token) > MAX_TOKEN_BYTES or not token.isascii():
            raise _TokenRefused("larger than 8 KiB, or not ASCII")
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        # The algorithm is checked against the settings first, so that "none" or HMAC cannot pass with a public key.
        if algorithm not in self._settings.algorithms:
            raise _TokenRefused("its algorithm is not accepted")
        # RFC 7515, 4.1.11: a token with unknown critical extensions must be refused.
        if "crit" in header:
            raise _TokenRefused("it has extensions that must be understood")
        self._check_type(header)
        key = await self._keys.key(header.get("kid"), algorithm)
        if key is None:
            raise _TokenRefused("no key")
        claims = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            issuer=self._settings.issuer,
            audience=self._audiences,
            leeway=self._settings.leeway_seconds,
            options={"require": ["exp", "iss", "aud", "sub"]},
        )
        # PyJWT converts texts to numbers, and a bool is an int for Python: both would pass unnoticed.
        if any(type(claims[name]) not in (int, float) for name in _TIMES if name in claims):
            raise _TokenRefused("a time is not a number")
        self._check_type(claims)
        return claims

    def _check_type(self, part: Mapping[str, Any]) -> None:
        """Refuse tokens of other types, which an issuer signs with the same keys, some for the same audience (RFC 8725,
        3.11)."""
        kind = part.get("typ", "")
        if not isinstance(kind, str) or (kind and _normalize_type(kind) not in self._types):
            raise _TokenRefused("it is a token of another kind")

    def _make_principal(self, claims: Mapping[str, Any]) -> Principal:
        settings = self._settings
        resource = _check_name(_claim(claims, settings.resource_claim))
        return Principal(
            name=f"jwt:{_check_name(claims['sub'])}@{self._host}",
            tenant=settings.tenant or _check_foreign(_check_name(_claim(claims, settings.tenant_claim))),
            agents=self._agents(_claim(claims, settings.agents_claim)),
            resource=None if self._is_any(resource) else resource,
            rights=frozenset(_rights(_claim(claims, settings.rights_claim))),
            expires_at=(int(claims["exp"]) + settings.leeway_seconds) * 1000,
        )

    def _agents(self, value: Any) -> frozenset[str] | None:
        if value is None:
            # Without the claim the token is for the server's own agent, not for all of them.
            return frozenset({self._agent})
        names = frozenset(_check_name(each) for each in (value if isinstance(value, list) else [value]))
        if any(self._is_any(name) for name in names):
            return None
        return names

    def _is_any(self, name: str) -> bool:
        return name == self._settings.any_value


def _normalize_type(kind: str) -> str:
    """A media type in lower case without ``application/``, which may be left out (RFC 7515, 4.1.9)."""
    return kind.lower().removeprefix("application/")


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of that name, or the one that a dotted name leads to; None if none exists."""
    # The whole name first: claims of some issuers are URLs, which contain dots.
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        if isinstance(found, dict):
            found = found.get(part)
        else:
            found = None
    return found


def _check_name(value: Any) -> str:
    if not (isinstance(value, str) and 0 < len(value) <= _NAME_CHARS and value.isprintable()):
        raise _TokenRefused("a claim that names somebody is missing, or no name of 1 to 255 printable characters")
    return value


def _check_foreign(tenant: str) -> str:
    """Return the tenant, unless it is the local one: a tenant that chooses its name must not get the memory of the person
    at this machine."""
    if tenant == LOCAL_TENANT:
        raise _TokenRefused("its tenant is the local one")
    return tenant


def _rights(value: Any) -> Iterable[Right]:
    """Our rights among those that the issuer lists: a list, or names separated by spaces."""
    words: list[Any] = []
    if isinstance(value, str):
        words = value.split()
    elif isinstance(value, list):
        words = value
    return (right for right in RIGHTS if right in words or _PREFIX + right in words)
