"""The public keys of the JWT issuer, fetched over https from a configured address and cached."""

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
import jwt

from layerlore.server.access.certificates import load_trusted
from layerlore.server.settings.jwt import JwtSettings
from layerlore.server.settings.settings import SettingsError
from layerlore.storage.core.errors import StorageUnavailable

FETCH_SECONDS = 5.0
MAX_BYTES = 256 * 1024
MAX_KEYS = 100
SECONDS_BETWEEN_FETCHES = 10.0
LONGEST_SECONDS = 3600.0

# RFC 7518, 3.4 and RFC 8037, 3.1: each of these goes with one curve.
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519"}
_FAMILIES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}

log = logging.getLogger(__name__)


class IssuerUnavailable(StorageUnavailable):
    """The issuer's keys cannot be fetched, and the needed one is not cached."""


class _Unusable(Exception):
    """A response is not a usable key set. The text says why, without quoting the response."""


@dataclass(frozen=True, slots=True)
class _Key:
    kid: str | None
    algorithm: str
    key: jwt.PyJWK


class KeySet:
    """The issuer's keys. Concurrent lookups share one fetch, and fetches are at least 10 seconds apart.

    While the issuer cannot be reached, keys are used until they are an hour old. ``now`` is a clock in seconds that
    never goes back.
    """

    def __init__(
        self, settings: JwtSettings, *, now: Callable[[], float] = time.monotonic, fetch_seconds: float = FETCH_SECONDS
    ) -> None:
        """Raises SettingsError for a ``ca_file`` without certificates, or an invalid address."""
        try:
            self._url = httpx2.URL(settings.keys_url)
        except httpx2.InvalidURL:
            raise SettingsError("jwt.jwks_url: https://HOST/PATH is needed") from None
        self._tls = load_trusted(settings.ca_file, "jwt.ca_file")
        self._algorithms = settings.algorithms
        self._cache_seconds = settings.jwks_cache_seconds
        self._fetch_seconds = fetch_seconds
        self._now = now
        self._keys: tuple[_Key, ...] = ()
        self._fetched_at = self._tried_at = float("-inf")
        self._failed = False
        self._fetching = anyio.Lock()

    async def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """The key for a signature. None: there is no such key, or the token names none and several fit.

        Raises IssuerUnavailable.
        """
        found = self._find(kid, algorithm)
        if found and (self._age < self._cache_seconds or self._fetching.locked()):
            return found
        async with self._fetching:
            known = self._find(kid, algorithm) is not None
            waited = self._now() - self._tried_at >= SECONDS_BETWEEN_FETCHES
            if waited and not (known and self._age < self._cache_seconds):
                await self._fetch()
        found = self._find(kid, algorithm)
        if found is None and self._failed:
            raise IssuerUnavailable("the keys of the token's issuer cannot be fetched now; try again in 10 seconds")
        return found

    @property
    def _age(self) -> float:
        return self._now() - self._fetched_at

    def _find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        if self._age >= LONGEST_SECONDS:
            return None
        found = [each.key for each in self._keys if each.algorithm == algorithm and kid in (None, each.kid)]
        return found[0] if len(found) == 1 else None

    async def _fetch(self) -> None:
        """Fetch the keys. A cancelled fetch counts as failed."""
        self._tried_at = self._now()
        failed_before, self._failed = self._failed, True
        try:
            with anyio.fail_after(self._fetch_seconds):
                document = await self._download()
            self._keys = _read_keys(document, self._algorithms)
        except (httpx2.HTTPError, OSError, _Unusable) as error:
            if not failed_before:
                reason = str(error) if isinstance(error, _Unusable) else type(error).__name__
                log.warning(
                    "the key set of the JWT issuer cannot be fetched (%s); cached keys are used for an hour", reason
                )
            return
        self._fetched_at = self._now()
        self._failed = False
        if not self._keys:
            log.warning("the key set of the JWT issuer has no key for an accepted algorithm")

    async def _download(self) -> bytes:
        # Uncompressed, since a few compressed bytes can become many.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with (
            httpx2.AsyncClient(verify=self._tls, follow_redirects=False, timeout=None) as client,
            client.stream("GET", self._url, headers=headers) as response,
        ):
            if response.status_code != httpx2.codes.OK:
                raise _Unusable(f"its answer has the status {response.status_code}")
            document = bytearray()
            async for chunk in response.aiter_raw():
                document += chunk
                if len(document) > MAX_BYTES:
                    raise _Unusable(f"it is larger than {MAX_BYTES:,} bytes")
            return bytes(document)


def _read_keys(document: bytes, algorithms: Sequence[str]) -> tuple[_Key, ...]:
    """The keys that may check signatures, once for each algorithm that they fit; others are left out."""
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError):
        raise _Unusable("it is not JSON") from None
    keys = parsed.get("keys") if isinstance(parsed, dict) else None
    if not isinstance(keys, list):
        raise _Unusable("it is not a key set")
    if len(keys) > MAX_KEYS:
        raise _Unusable(f"it has more than {MAX_KEYS} keys")
    public = [jwk for jwk in keys if isinstance(jwk, dict) and _is_for_checking(jwk)]
    return tuple(key for jwk in public for algorithm in algorithms if (key := _make_key(jwk, algorithm)))


def _is_for_checking(jwk: dict[str, Any]) -> bool:
    """Whether a key may check signatures. One that includes its private half (``d``) is compromised."""
    operations = jwk.get("key_ops", ["verify"])
    verifies = isinstance(operations, list) and "verify" in operations
    return verifies and jwk.get("use", "sig") == "sig" and "d" not in jwk and isinstance(jwk.get("kid", ""), str)


def _make_key(jwk: dict[str, Any], algorithm: str) -> _Key | None:
    fits = (
        jwk.get("kty") == _FAMILIES[algorithm[:2]]
        and jwk.get("alg", algorithm) == algorithm
        and (algorithm not in _CURVES or jwk.get("crv") == _CURVES[algorithm])
    )
    if not fits:
        return None
    try:
        key = jwt.PyJWK(jwk, algorithm)
        return None if key.Algorithm.check_key_length(key.key) else _Key(jwk.get("kid"), algorithm, key)
    except (jwt.PyJWTError, AttributeError, TypeError, ValueError):
        return None
