"""Credentials: they find the principal of a token, whatever form the token has."""

import hashlib
import hmac
from typing import Protocol

from layerlore.server.access.principal import LOCAL_TENANT, RIGHTS, Principal

API_KEY_PREFIX = "llk_"
PRINCIPAL_CLAIM = "principal"
"""The claim of the SDK's access token that holds the principal."""

_JWT_DOTS = 2


class Credentials(Protocol):
    """A checker of tokens. It keeps no token, and repeats none in an error or a log."""

    async def principal(self, token: str) -> Principal | None:
        """The principal of a token; None for one that is malformed, unknown, expired or revoked, and for "" (none sent).

        Raises StorageUnavailable if the token cannot be checked now.
        """


def local_principal(agent: str, resource: str) -> Principal:
    """The principal of the person at this machine, for stdio, the command line and the local key."""
    return Principal("local", LOCAL_TENANT, frozenset({agent}), resource, frozenset(RIGHTS))


class LocalKey:
    """Accepts the key of this machine. It compares digests, so that the time taken reveals nothing about the key."""

    def __init__(self, key: str, principal: Principal) -> None:
        self._digest = hashlib.sha256(key.encode()).digest()
        self._principal = principal

    async def principal(self, token: str) -> Principal | None:
        presented = hashlib.sha256(token.encode()).digest()
        return self._principal if hmac.compare_digest(presented, self._digest) else None


class Anybody:
    """Requires no credential: everybody who reaches the server is the same principal."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    async def principal(self, token: str) -> Principal | None:
        return self._principal


class ByForm:
    """Passes a token to the credentials of its form: API key, JWT, or else the local key. A form that is left out accepts
    nothing."""

    def __init__(
        self, *, keys: Credentials | None = None, jwt: Credentials | None = None, local: Credentials | None = None
    ) -> None:
        self._keys = keys
        self._jwt = jwt
        self._local = local

    async def principal(self, token: str) -> Principal | None:
        if token.startswith(API_KEY_PREFIX):
            asked = self._keys
        elif self._jwt is not None and token.count(".") == _JWT_DOTS:
            asked = self._jwt
        else:
            asked = self._local
        return await asked.principal(token) if asked is not None and token else None
