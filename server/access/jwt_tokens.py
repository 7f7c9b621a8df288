"""JWTs of the configured issuer as credentials: what makes one genuine, and whom its claims name.

RFC 8725 is followed: the algorithm is one that is allowed and that the issuer's key is for, issuer and audience are
exact, and nothing that the token brings along (``jwk``, ``jku``, ``x5u``, ``x5c``) is looked at.
"""

import logging
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import jwt

from layerlore.server.access.jwks import KeySet
from layerlore.server.access.principal import LOCAL_TENANT, RIGHTS, Principal, Right
from layerlore.server.jwt_settings import JwtSettings

MAX_TOKEN_BYTES = 8 * 1024
_NAME_CHARS = 255
_PREFIX = "memory:"
_TIMES = ("exp", "nbf", "iat")

log = logging.getLogger(__name__)


class _Refused(Exception):
    """Why a token names nobody; never with a word of it."""


class JwtTokens:
    """``agent`` is the one that tokens are for which name none."""

    def __init__(self, settings: JwtSettings, agent: str, keys: KeySet) -> None:
        self._settings = settings
        self._agent = agent
        self._keys = keys
        self._host = urlsplit(settings.issuer).hostname
        self._types = frozenset(_plain(each) for each in settings.types)

    async def principal(self, token: str) -> Principal | None:
        """Who a genuine token names, with no rights if it gives none; None for any other token.

        ``expires_at`` is when it is no longer accepted: ``exp`` and the leeway. Raises IssuerUnavailable.
        """
        try:
            return self._named(await self._claims(token))
        except _Refused as refused:
            log.debug("a JWT was refused: %s", refused)
        except jwt.PyJWTError as error:
            log.debug("a JWT was refused: %s", type(error).__name__)
        return None

    async def _claims(self, token: str) -> dict[str, Any]:
        """What the token says, once it is known to be the issuer's, for us, and valid now."""
        if len(token) > MAX_TOKEN_BYTES or not token.isascii():
            raise _Refused("larger than 8 KiB, or not ASCII")
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        if algorithm not in self._settings.algorithms:
            raise _Refused("its algorithm is not accepted")
        if "crit" in header:
            raise _Refused("it has extensions that must be understood")
        self._check_type(header)
        key = await self._keys.key(header.get("kid"), algorithm)
        if key is None:
            raise _Refused("no key")
        claims = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            issuer=self._settings.issuer,
            audience=self._settings.audience,
            leeway=self._settings.leeway_seconds,
            options={"require": ["exp", "iss", "aud", "sub"]},
        )
        if any(type(claims[name]) not in (int, float) for name in _TIMES if name in claims):
            raise _Refused("a time is not a number")
        self._check_type(claims)
        return claims

    def _check_type(self, part: dict[str, Any]) -> None:
        """An issuer signs tokens of other kinds with the same keys, and some with the same audience (RFC 8725, 3.11)."""
        kind = part.get("typ", "")
        if not isinstance(kind, str) or (kind and _plain(kind) not in self._types):
            raise _Refused("it is a token of another kind")

    def _named(self, claims: dict[str, Any]) -> Principal:
        settings = self._settings
        resource = _name(_claim(claims, settings.resource_claim))
        return Principal(
            name=f"jwt:{_name(claims['sub'])}@{self._host}",
            tenant=settings.tenant or _foreign(_name(_claim(claims, settings.tenant_claim))),
            agents=self._agents(_claim(claims, settings.agents_claim)),
            resource=None if self._is_any(resource) else resource,
            rights=frozenset(_rights(_claim(claims, settings.rights_claim))),
            expires_at=(int(claims["exp"]) + settings.leeway_seconds) * 1000,
        )

    def _agents(self, value: Any) -> frozenset[str] | None:
        if value is None:
            return frozenset({self._agent})
        names = frozenset(_name(each) for each in (value if isinstance(value, list) else [value]))
        return None if any(self._is_any(name) for name in names) else names

    def _is_any(self, name: str) -> bool:
        return name == self._settings.any_value


def _plain(kind: str) -> str:
    """A media type, whose case does not count and whose first half may be left out (RFC 7515, 4.1.9)."""
    return kind.lower().removeprefix("application/")


def _claim(claims: dict[str, Any], name: str) -> Any:
    """The claim of that name, else what a name with dots leads to; None if there is nothing."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _name(value: Any) -> str:
    if not (isinstance(value, str) and 0 < len(value) <= _NAME_CHARS and value.isprintable()):
        raise _Refused("a claim that names somebody is missing, or no name of 1 to 255 printable characters")
    return value


def _foreign(tenant: str) -> str:
    """An issuer whose tenants choose their names must not give away the memory of who works at this machine."""
    if tenant == LOCAL_TENANT:
        raise _Refused("its tenant is the local one")
    return tenant


def _rights(value: Any) -> Iterable[Right]:
    """Those of ours among all that an issuer may list: names with spaces between them, or a list."""
    words = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    return (right for right in RIGHTS if right in words or _PREFIX + right in words)
