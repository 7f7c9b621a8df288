"""Who a credential says is calling, and what that may do."""

from dataclasses import dataclass
from typing import Literal, get_args

Right = Literal["read", "write", "forget", "admin"]
RIGHTS: tuple[Right, ...] = get_args(Right)
READ: frozenset[Right] = frozenset({"read"})

LOCAL_TENANT = "local"


@dataclass(frozen=True, slots=True)
class Principal:
    """``name`` is unique to the credential, and no secret: ``key:ID``, ``jwt:SUBJECT@ISSUER``, ``local``.

    ``agents`` are those it may act for (None: any of the tenant), ``resource`` whom it may serve (None: any of the
    tenant, named with each request). ``expires_at`` is in milliseconds since 1970; None: never.
    """

    name: str
    tenant: str
    agents: frozenset[str] | None
    resource: str | None
    rights: frozenset[Right]
    expires_at: int | None = None

    @property
    def local(self) -> bool:
        """Whether it is the person at this machine, who is not limited in how much they ask."""
        return self.name == "local"
