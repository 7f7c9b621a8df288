"""Who a token says is calling: one way to ask, whatever form the token has."""

import hashlib
import hmac
from typing import Protocol

from layerlore.server.access.principal import LOCAL_TENANT, RIGHTS, Principal

API_KEY_PREFIX = "llk_"
PRINCIPAL_CLAIM = "principal"
"""Of the access token by which the SDK knows a request: the principal."""

_JWT_DOTS = 2


class Credentials(Protocol):
    """What checks a token. It keeps no token, and repeats none in an error or a log."""

    async def principal(self, token: str) -> Principal | None:
        """Who is calling; None for a token that is malformed, unknown, expired or revoked, and for "": none was sent.

        Raises StorageUnavailable where that cannot be found out now.
        """


def local_principal(agent: str, resource: str) -> Principal:
    """The person at this machine, as the launch names agent and resource: stdio, the command line, the local key."""
    return Principal("local", LOCAL_TENANT, frozenset({agent}), resource, frozenset(RIGHTS))


class LocalKey:
    """Accepts the key of this machine. Digests are compared, so that the time taken says nothing of the key."""

    def __init__(self, key: str, principal: Principal) -> None:
        self._digest = hashlib.sha256(key.encode()).digest()
        self._principal = principal

    async def principal(self, token: str) -> Principal | None:
        presented = hashlib.sha256(token.encode()).digest()
        return self._principal if hmac.compare_digest(presented, self._digest) else None


class Anybody:
    """Asks for no credential: whoever reaches the server is the same principal."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    async def principal(self, token: str) -> Principal | None:
        return self._principal


class ByForm:
    """Asks the credentials that a token's form belongs to: an API key's, a JWT's, else the local key's. What is left
    out accepts nothing."""

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
