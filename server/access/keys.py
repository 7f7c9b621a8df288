"""API keys: made, and checked with what is stored of them."""

import hashlib
import math
import re
import secrets
import time
from collections.abc import Awaitable, Callable

from layerlore.server.access.principal import RIGHTS, Principal
from layerlore.storage.records import ApiKey

CACHED_SECONDS = 2.0
"""How long what was found of a key is believed: a key that is revoked is refused everywhere so long after."""
CACHED_MOST = 4096
"""Of those that are there, and of those that are not, each."""

_ID_CHARS = "abcdefghijklmnopqrstuvwxyz234567"
_ID = re.compile(f"[{_ID_CHARS}]{{8}}")
_KEY = re.compile(f"llk_{_ID.pattern}_[A-Za-z0-9_-]{{43}}")

Find = Callable[[str], Awaitable[ApiKey | None]]
_Looked = dict[str, tuple[float, ApiKey | None]]  # digest -> when the look began, and what it found


def new_key() -> tuple[str, str]:
    """A new id, which is no secret, and the whole key: ``llk_``, the id, and 256 random bits."""
    key_id = "".join(secrets.choice(_ID_CHARS) for _ in range(8))
    return key_id, f"llk_{key_id}_{secrets.token_urlsafe(32)}"


def digest_of(key: str) -> str:
    """What is stored of a key: SHA-256 of all of it, in hex. Its 256 random bits need no salt and no slow hash."""
    return hashlib.sha256(key.encode()).hexdigest()


def is_key_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


class ApiKeys:
    """Who a key says is calling. Keys are looked up by their digests: the time it takes says nothing of the key."""

    def __init__(self, find: Find, now: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        """``find`` gives what is stored under a digest, ``now`` the time in milliseconds since 1970, and ``clock``
        seconds that never go back."""
        self._find = find
        self._now = now
        self._clock = clock
        # Apart, so that made-up keys push no real one out.
        self._there: _Looked = {}
        self._not_there: _Looked = {}

    async def principal(self, token: str) -> Principal | None:
        """Who is calling; None for a key that is malformed, unknown, expired or revoked.

        Raises StorageUnavailable where it has to be looked up and cannot.
        """
        if _KEY.fullmatch(token) is None:
            return None
        key = await self._stored(digest_of(token))
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
