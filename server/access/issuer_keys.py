"""The public keys of the JWT issuer, and its JWTs as credentials."""

import json
import logging
import ssl
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import jwt

from layerlore.memory.rules.validation import is_blank
from layerlore.server.access.credentials import LOCAL_TENANT, RIGHTS, Principal, Right
from layerlore.server.settings.http import JwtSettings
from layerlore.server.settings.settings import SettingsError
from layerlore.storage.core.errors import StorageUnavailable

log = logging.getLogger(__name__)


def load_trusted(ca_file: str, setting: str) -> ssl.SSLContext:
    """A TLS context that trusts the certificates in the file; without a file, those of this machine. ``setting``: the name
    of the file in errors. Raises SettingsError."""
    if not ca_file:
        return httpx2.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=Path(ca_file).expanduser())
    except (OSError, RuntimeError) as error:
        raise SettingsError(
            # The cause is cut off, since its text may quote the file.
            f"{setting}: must name a PEM file of certificates; {ca_file} cannot be read as one ({type(error).__name__})"
        ) from None


FETCH_SECONDS = 5.0
MAX_BYTES = 256 * 1024
MAX_KEYS = 100
SECONDS_BETWEEN_FETCHES = 10.0
LONGEST_SECONDS = 3600.0

# RFC 7518, 3.4 and RFC 8037, 3.1: each of these goes with one curve.
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519"}
_FAMILIES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


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
    """The issuer's keys, from the address that its metadata names, or from ``jwks_url``. Concurrent lookups share one
    fetch, and fetches are at least 10 seconds apart.

    While the issuer cannot be reached, keys are used until they are an hour old. ``now`` is a clock in seconds that
    never goes back.
    """

    def __init__(
        self, settings: JwtSettings, *, now: Callable[[], float] = time.monotonic, fetch_seconds: float = FETCH_SECONDS
    ) -> None:
        """Raises SettingsError for a ``ca_file`` without certificates, or an invalid address."""
        self._issuer = settings.issuer
        self._jwks_url = settings.jwks_url
        self._metadata_urls = _list_metadata_urls(settings.issuer)
        self._check_urls()
        self._tls = load_trusted(settings.ca_file, "jwt.ca_file")
        self._algorithms = settings.algorithms
        self._cache_seconds = settings.jwks_cache_seconds
        self._fetch_seconds = fetch_seconds
        self._now = now
        self._keys: tuple[_Key, ...] = ()
        self._fetched_at = self._tried_at = float("-inf")
        self._failed = False
        self._fetching = anyio.Lock()

    def _check_urls(self) -> None:
        """Raise SettingsError for an address that the HTTP client does not take."""
        for name, url in (("jwks_url", self._jwks_url), ("issuer", self._issuer)):
            try:
                httpx2.URL(url)
            except httpx2.InvalidURL:
                raise SettingsError(f"jwt.{name}: https://HOST/PATH is needed") from None

    async def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """The key for a signature. None: no such key exists, or the token names none and several fit.

        Raises IssuerUnavailable.
        """
        found = self._find(kid, algorithm)
        # While another task fetches the keys, a stale key is good enough, so that a valid token need not wait.
        if found and (self._age < self._cache_seconds or self._fetching.locked()):
            return found
        async with self._fetching:
            # Another task may have fetched while this one waited for the lock.
            known = self._find(kid, algorithm) is not None
            # Tokens with invented key ids must not make this server call the issuer for each request.
            waited = self._now() - self._tried_at >= SECONDS_BETWEEN_FETCHES
            if waited and not (known and self._age < self._cache_seconds):
                await self._fetch()
        found = self._find(kid, algorithm)
        # After a failed fetch the key may still exist. 503 lets the client try again; 401 would not.
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
        if len(found) == 1:
            return found[0]
        return None

    async def _fetch(self) -> None:
        """Fetch the keys. A cancelled fetch counts as failed."""
        self._tried_at = self._now()
        # The flag is set first and cleared at the end, so that a cancelled fetch leaves it set.
        failed_before, self._failed = self._failed, True
        try:
            with anyio.fail_after(self._fetch_seconds):
                document = await self._download(await self._locate())
            self._keys = _read_keys(document, self._algorithms)
        except (httpx2.HTTPError, OSError, _Unusable) as error:
            # One warning for each outage, not one for each attempt.
            if not failed_before:
                if isinstance(error, _Unusable):
                    reason = str(error)
                else:
                    reason = type(error).__name__
                log.warning(
                    "the key set of the JWT issuer cannot be fetched (%s); cached keys are used for an hour", reason
                )
            return
        self._fetched_at = self._now()
        self._failed = False
        if not self._keys:
            log.warning("the key set of the JWT issuer has no key for an accepted algorithm")

    async def _locate(self) -> str:
        """The address of the key set. The metadata is read each time, since an issuer may move its keys."""
        if self._jwks_url:
            return self._jwks_url
        refused = []
        for url in self._metadata_urls:
            try:
                address = _read_address(await self._download(url), self._issuer)
            except _Unusable as error:
                refused.append(f"{url}: {error}")
                continue
            # The next time, this address comes first.
            self._metadata_urls = [url, *(other for other in self._metadata_urls if other != url)]
            return address
        raise _Unusable(f"no metadata of the issuer names it; jwt.jwks_url can: {'; '.join(refused)}")

    async def _download(self, url: str) -> bytes:
        # Uncompressed, since a few compressed bytes can become many.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with (
            httpx2.AsyncClient(verify=self._tls, follow_redirects=False, timeout=None) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            if response.status_code != httpx2.codes.OK:
                raise _Unusable(f"its answer has the status {response.status_code}")
            document = bytearray()
            async for chunk in response.aiter_raw():
                # Raw chunks are counted as they come, since a Content-Length may be absent or wrong.
                document += chunk
                if len(document) > MAX_BYTES:
                    raise _Unusable(f"it is larger than {MAX_BYTES:,} bytes")
            return bytes(document)


def _list_metadata_urls(issuer: str) -> list[str]:
    """The possible addresses of an issuer's metadata, the most usual first: the well-known name between host and path (RFC
    8414, 3.1), or after the path (OpenID Connect Discovery 1.0, 4.1)."""
    url = urlsplit(issuer)
    origin, path = f"{url.scheme}://{url.netloc}", url.path.rstrip("/")
    oauth, openid = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
    inserted = [f"{origin}{oauth}{path}", f"{origin}{openid}{path}"]
    if not path:
        return inserted
    return [*inserted, f"{origin}{path}{openid}", f"{origin}{path}{oauth}"]


def _read_address(document: bytes, issuer: str) -> str:
    """The address of the key set in the metadata of an issuer."""
    metadata = _read_object(document)
    named = metadata.get("issuer")
    # RFC 8414, 3.3: metadata of another issuer must not be used. One more slash makes another issuer.
    if named != issuer:
        raise _Unusable(f"its issuer is {repr(named)[:200]}, and jwt.issuer is {issuer!r}")
    address = metadata.get("jwks_uri")
    if not isinstance(address, str) or not _is_https(address):
        raise _Unusable("its jwks_uri is no https URL")
    return address


def _is_https(address: str) -> bool:
    try:
        url = httpx2.URL(address)
    except httpx2.InvalidURL:
        return False
    return url.scheme == "https" and bool(url.host) and not url.userinfo


def _read_object(document: bytes) -> dict[str, Any]:
    """A JSON object; an empty one for any other JSON."""
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError):
        raise _Unusable("it is not JSON") from None
    if isinstance(parsed, dict):
        return parsed
    return {}


def _read_keys(document: bytes, algorithms: Sequence[str]) -> tuple[_Key, ...]:
    """The keys that may check signatures, once for each algorithm that they fit."""
    keys = _read_object(document).get("keys")
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
        # A check_key_length that returns a text means a key that is too short to be safe.
        if key.Algorithm.check_key_length(key.key):
            return None
        return _Key(jwk.get("kid"), algorithm, key)
    except (jwt.PyJWTError, AttributeError, TypeError, ValueError):
        # PyJWT lets errors of the key's fields through as several built-in types.
        return None


MAX_TOKEN_BYTES = 8 * 1024
_NAME_CHARS = 255
_PREFIX = "memory:"
_TIMES = ("exp", "nbf", "iat")


class _TokenRefused(Exception):
    """A token is not accepted. The text says why, without quoting the token."""


class JwtTokens:
    """Credentials that are JWTs. ``agent``: for tokens that name no agent. ``resources``: the URLs of this server, which are
    further allowed audiences, since a client requests a token for the URL that it calls (RFC 8707)."""

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
        # Checked before parsing, since PyJWT would decode a token of any size.
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
        """Refuse tokens of other types, which an issuer may sign with the same keys for the same audience (RFC 8725,
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
    """The claim of that name, or the nested claim of a dotted name; None if it does not exist."""
    # The whole name comes first, since some issuers name claims by URLs, which contain dots.
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
    if not (isinstance(value, str) and len(value) <= _NAME_CHARS and value.isprintable()) or is_blank(value):
        raise _TokenRefused(
            "a claim that names somebody is missing, or no name of 1 to 255 printable characters, one of them visible"
        )
    return value


def _check_foreign(tenant: str) -> str:
    """Return the tenant, unless it is the local one: a tenant that chooses its name must not get the memory of the person
    at this machine."""
    if tenant == LOCAL_TENANT:
        raise _TokenRefused("its tenant is the local one")
    return tenant


def _rights(value: Any) -> Iterable[Right]:
    """Our rights among those of the issuer, which are a list or names separated by spaces."""
    words: list[Any] = []
    if isinstance(value, str):
        words = value.split()
    elif isinstance(value, list):
        words = value
    return (right for right in RIGHTS if right in words or _PREFIX + right in words)
