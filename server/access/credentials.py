"""Credentials: API keys and other tokens, and the principal of each."""

import hashlib
import hmac
import math
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from layerlore.storage.core import linear_re
from layerlore.storage.core.records import ApiKey

Right = Literal["read", "write", "forget", "admin"]
RIGHTS: tuple[Right, ...] = get_args(Right)
READ: frozenset[Right] = frozenset({"read"})

LOCAL_TENANT = "local"
EXPLORING = "command:explore"
"""The name of the operator who reads memories with `layerlore explore`."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller. ``name`` is unique to the credential, and no secret: ``key:ID``, ``jwt:SUBJECT@ISSUER``, ``local``.

    ``agents``: the agents that the principal may act for (None: any of the tenant). ``resource``: the resource that it
    may serve (None: any of the tenant; each request names one). ``expires_at``: milliseconds since 1970; None: never.

    ``every_tenant``: its requests may name another tenant. No key and no token can do this, only the explorer of the
    database's owner.
    """

    name: str
    tenant: str
    agents: frozenset[str] | None
    resource: str | None
    rights: frozenset[Right]
    expires_at: int | None = None
    every_tenant: bool = False

    @property
    def operates(self) -> bool:
        """Whether this is an operator, who may read other people's memories."""
        return "admin" in self.rights and (self.resource is None or self.name == EXPLORING)

    @property
    def local(self) -> bool:
        """Whether this is the person at this machine, who has no limits."""
        return self.name == "local"


API_KEY_PREFIX = "llk_"
PRINCIPAL_CLAIM = "principal"
"""The claim of the SDK's access token that holds the principal."""

_JWT_DOTS = 2


class Credentials(Protocol):
    """Checks tokens. It stores no token, and shows none in an error or a log."""

    async def principal(self, token: str) -> Principal | None:
        """The principal of a token; None for one that is malformed, unknown, expired or revoked, and for "" (none sent).

        Raises StorageUnavailable if the token cannot be checked now.
        """


def local_principal(agent: str, resource: str) -> Principal:
    """The principal of the person at this machine, for stdio, the command line and the local key."""
    return Principal("local", LOCAL_TENANT, frozenset({agent}), resource, frozenset(RIGHTS))


class LocalKey:
    """Accepts the key of this machine. It compares digests, so that its timing reveals nothing about the key."""

    def __init__(self, key: str, principal: Principal) -> None:
        self._digest = hashlib.sha256(key.encode()).digest()
        self._principal = principal

    async def principal(self, token: str) -> Principal | None:
        # Both sides have 32 bytes as digests, so the comparison does not reveal the key's length either.
        presented = hashlib.sha256(token.encode()).digest()
        if hmac.compare_digest(presented, self._digest):
            return self._principal
        return None


class NoCredentials:
    """Requires no credential: every request has the same principal."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    async def principal(self, token: str) -> Principal | None:
        return self._principal


class ByForm:
    """Passes a token to the credentials of its form: API key, JWT, or else the local key. Tokens of a form that is left
    out are refused."""

    def __init__(
        self, *, keys: Credentials | None = None, jwt: Credentials | None = None, local: Credentials | None = None
    ) -> None:
        self._keys = keys
        self._jwt = jwt
        self._local = local

    async def principal(self, token: str) -> Principal | None:
        if token.startswith(API_KEY_PREFIX):
            checker = self._keys
        elif self._jwt is not None and token.count(".") == _JWT_DOTS:
            checker = self._jwt
        else:
            checker = self._local
        # "" means that no credential was sent, and no check may accept that.
        if checker is not None and token:
            return await checker.principal(token)
        return None


CACHED_SECONDS = 2.0
"""A looked-up key is cached this long, so a revoked key is refused everywhere after this time."""
CACHED_MOST = 4096
"""The most keys in each cache: that of existing keys, and that of unknown ones."""

_ID_CHARS = "abcdefghijklmnopqrstuvwxyz234567"
_ID = linear_re.compile(f"[{_ID_CHARS}]{{8}}")
_KEY = linear_re.compile(f"llk_{_ID.pattern}_[A-Za-z0-9_-]{{43}}")

Find = Callable[[str], Awaitable[ApiKey | None]]
_Looked = dict[str, tuple[float, ApiKey | None]]  # digest -> when the lookup began, and what it found


def make_key() -> tuple[str, str]:
    """Make a key. Returns its id, which is not a secret, and the whole key: ``llk_``, the id, and 256 random bits."""
    key_id = "".join(secrets.choice(_ID_CHARS) for _ in range(8))
    return key_id, f"llk_{key_id}_{secrets.token_urlsafe(32)}"


def hash_key(key: str) -> str:
    """The stored digest of a key: SHA-256 in hex. Its 256 random bits need no salt and no slow hash."""
    return hashlib.sha256(key.encode()).hexdigest()


def is_key_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


class ApiKeys:
    """API keys as credentials. The lookup uses a key's digest, so its timing reveals nothing about the key."""

    def __init__(self, find: Find, now: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        """``find`` returns what is stored under a digest, ``now`` the time in milliseconds since 1970, and ``clock`` seconds
        that never go back."""
        self._find = find
        self._now = now
        self._clock = clock
        # Two caches, so that invented keys displace no real one.
        self._there: _Looked = {}
        self._not_there: _Looked = {}

    async def principal(self, token: str) -> Principal | None:
        """The principal of a key; None for one that is malformed, unknown, expired or revoked.

        Raises StorageUnavailable if the key cannot be looked up.
        """
        if _KEY.fullmatch(token) is None:
            return None
        key = await self._stored(hash_key(token))
        # All kinds of a bad key have the same answer, so that a caller cannot find out which keys existed.
        if key is None or key.revoked_at is not None:
            return None
        if key.expires_at is not None and key.expires_at <= self._now():
            return None
        return Principal(
            name=f"key:{key.key_id}",
            tenant=key.tenant_id,
            agents=None if key.agents is None else frozenset(key.agents),
            resource=key.resource_id,
            rights=frozenset(right for right in RIGHTS if right in key.rights),
            expires_at=key.expires_at,
        )

    async def _stored(self, digest: str) -> ApiKey | None:
        # Taken before the lookup, so that a revocation during a slow lookup counts in time.
        began = self._clock()
        for cache in (self._there, self._not_there):
            looked, known = cache.get(digest, (-math.inf, None))
            if began - looked < CACHED_SECONDS:
                return known
        key = await self._find(digest)
        # Both are cleared, since a key may have been made or deleted since the last lookup.
        self._there.pop(digest, None)
        self._not_there.pop(digest, None)
        if key is None:
            cache = self._not_there
        else:
            cache = self._there
        if len(cache) >= CACHED_MOST:
            del cache[next(iter(cache))]  # the oldest: a dictionary keeps the order in which it was filled
        cache[digest] = (began, key)
        return key
