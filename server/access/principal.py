"""Principals: who a credential says is calling, and what they may do."""

from dataclasses import dataclass
from typing import Literal, get_args

Right = Literal["read", "write", "forget", "admin"]
RIGHTS: tuple[Right, ...] = get_args(Right)
READ: frozenset[Right] = frozenset({"read"})

LOCAL_TENANT = "local"
EXPLORING = "command:explore"
"""The name of whoever looks at others' memories with `layerlore explore`."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller. ``name`` is unique to the credential, and no secret: ``key:ID``, ``jwt:SUBJECT@ISSUER``, ``local``.

    ``agents``: whom the principal may act for (None: any agent of the tenant); ``resource``: whom it may serve (None: any
    resource of the tenant, named in each request). ``expires_at``: milliseconds since 1970; None: never.

    ``every_tenant``: whose requests may name another tenant, which no key and no token can; only the explorer of the
    database's owner is one.
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
        """Whether this is an operator, who looks at memories that are not his own."""
        return "admin" in self.rights and (self.resource is None or self.name == EXPLORING)

    @property
    def local(self) -> bool:
        """Whether this is the person at this machine, whose requests are not limited."""
        return self.name == "local"
