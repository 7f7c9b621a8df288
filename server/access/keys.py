"""API keys: how they are made, and checked against their stored digests."""

import hashlib
import math
import secrets
import time
from collections.abc import Awaitable, Callable

from layerlore.server.access.principal import RIGHTS, Principal
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import ApiKey

CACHED_SECONDS = 2.0
"""How long a looked-up key is cached: a revoked key is refused everywhere after this time."""
CACHED_MOST = 4096
"""The most cached keys that exist, and the most that do not."""

_ID_CHARS = "abcdefghijklmnopqrstuvwxyz234567"
_ID = linear_re.compile(f"[{_ID_CHARS}]{{8}}")
_KEY = linear_re.compile(f"llk_{_ID.pattern}_[A-Za-z0-9_-]{{43}}")

Find = Callable[[str], Awaitable[ApiKey | None]]
_Looked = dict[str, tuple[float, ApiKey | None]]  # digest -> when the lookup began, and what it found


def make_key() -> tuple[str, str]:
    """Make a key. Returns its id, which is no secret, and the whole key: ``llk_``, the id, and 256 random bits."""
    key_id = "".join(secrets.choice(_ID_CHARS) for _ in range(8))
    return key_id, f"llk_{key_id}_{secrets.token_urlsafe(32)}"


def hash_key(key: str) -> str:
    """The stored digest of a key: SHA-256 in hex. Its 256 random bits need no salt and no slow hash."""
    return hashlib.sha256(key.encode()).hexdigest()


def is_key_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


class ApiKeys:
    """Credentials that are API keys. Keys are looked up by digest, so that the time taken reveals nothing about a key."""

    def __init__(self, find: Find, now: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        """``find`` returns what is stored under a digest, ``now`` the time in milliseconds since 1970, and ``clock`` seconds
        that never go back."""
        self._find = find
        self._now = now
        self._clock = clock
        # Two caches, so that made-up keys push no real one out.
        self._there: _Looked = {}
        self._not_there: _Looked = {}

    async def principal(self, token: str) -> Principal | None:
        """The principal of a key; None for one that is malformed, unknown, expired or revoked.

        Raises StorageUnavailable if the key cannot be looked up.
        """
        if _KEY.fullmatch(token) is None:
            return None
        key = await self._stored(hash_key(token))
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
        began = self._clock()
        for cache in (self._there, self._not_there):
            looked, known = cache.get(digest, (-math.inf, None))
            if began - looked < CACHED_SECONDS:
                return known
        key = await self._find(digest)
        self._there.pop(digest, None)
        self._not_there.pop(digest, None)
        cache = self._not_there if key is None else self._there
        if len(cache) >= CACHED_MOST:
            del cache[next(iter(cache))]  # the oldest: a dictionary keeps the order in which it was filled
        cache[digest] = (began, key)
        return key
