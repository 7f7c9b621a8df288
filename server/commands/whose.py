"""Whose memory a command is about, as its options name it."""

from dataclasses import dataclass

from layerlore.memory.acceptance import check_id
from layerlore.memory.limits import Limits
from layerlore.memory.quoting import one_line
from layerlore.server.access.principal import LOCAL_TENANT
from layerlore.server.settings import Settings
from layerlore.storage.records import Scope


def scope_of(settings: Settings, tenant: str) -> Scope:
    """What the agent of the settings keeps of their resource, in a tenant. Raises InvalidInput, LimitExceeded."""
    return Scope(check_id(tenant, "--tenant", Limits().id_chars), settings.agent, settings.resource)


def named(scope: Scope) -> str:
    """For people: the agent and resource, and the tenant where it is not this machine's."""
    of_tenant = "" if scope.tenant_id == LOCAL_TENANT else f" of tenant {one_line(scope.tenant_id)!r}"
    return f"agent {one_line(scope.agent_id)!r} and resource {one_line(scope.resource_id)!r}{of_tenant}"


def options(scope: Scope) -> list[str]:
    """What to give a command so that it is about this scope, where the tenant is not this machine's."""
    if scope.tenant_id == LOCAL_TENANT:
        return []
    return ["--tenant", scope.tenant_id, "--agent", scope.agent_id, "--resource", scope.resource_id]


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Which tenants, agents and resources a command is about; None: all of them."""

    tenant: str | None = None
    agent: str | None = None
    resource: str | None = None

    def takes(self, scope: Scope) -> bool:
        """Whether it is about a scope."""
        return (
            self.tenant in (None, scope.tenant_id)
            and self.agent in (None, scope.agent_id)
            and self.resource in (None, scope.resource_id)
        )

    def checked(self) -> "Narrowed":
        """Itself. Raises InvalidInput, LimitExceeded for a name that nothing can have."""
        for name, value in (("tenant", self.tenant), ("agent", self.agent), ("resource", self.resource)):
            if value is not None:
                check_id(value, f"--{name}", Limits().id_chars)
        return self

    def told(self) -> str:
        """``tenant 'acme', agent 'bot'``, or ``all tenants``."""
        given = (("tenant", self.tenant), ("agent", self.agent), ("resource", self.resource))
        named = [f"{name} {one_line(value)!r}" for name, value in given if value is not None]
        return ", ".join(named) or "all tenants"
