"""The owner of the memory that a command's options name, and the project of a folder."""

import os
import sys
from dataclasses import dataclass

from layerlore.memory.rules.validation import Limits, check_id
from layerlore.memory.text.quotation import join_lines
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.command_line.suggestions import suggest
from layerlore.server.settings.project import confirm_project, describe_claim, find_project
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.records import Scope


def scope_of(settings: Settings, tenant: str) -> Scope:
    """The agent and resource, or project, of the settings, in a tenant. Raises InvalidInput, LimitExceeded."""
    return settings.scope_in(check_id(tenant, "--tenant", Limits().id_chars))


def describe_scope(scope: Scope) -> str:
    """For people: the agent and resource, and the tenant if it is not this machine's."""
    if scope.tenant_id == LOCAL_TENANT:
        of_tenant = ""
    else:
        of_tenant = f" of tenant {join_lines(scope.tenant_id)!r}"
    return f"agent {join_lines(scope.agent_id)!r} and resource {join_lines(scope.resource_id)!r}{of_tenant}"


@dataclass(frozen=True, slots=True)
class OwnerFilter:
    """The tenants, agents and resources that a command concerns; None: all of them."""

    tenant: str | None = None
    agent: str | None = None
    resource: str | None = None

    def matches(self, scope: Scope) -> bool:
        """Whether the command concerns a scope."""
        return (
            self.tenant in (None, scope.tenant_id)
            and self.agent in (None, scope.agent_id)
            and self.resource in (None, scope.resource_id)
        )

    def check(self) -> "OwnerFilter":
        """Return the filter. Raises InvalidInput, LimitExceeded for a name that nothing can have."""
        for name, value in (("tenant", self.tenant), ("agent", self.agent), ("resource", self.resource)):
            if value is not None:
                check_id(value, f"--{name}", Limits().id_chars)
        return self

    def describe(self) -> str:
        """``tenant 'acme', agent 'bot'``, or ``all tenants``."""
        given = (("tenant", self.tenant), ("agent", self.agent), ("resource", self.resource))
        named = [f"{name} {join_lines(value)!r}" for name, value in given if value is not None]
        return ", ".join(named) or "all tenants"


def show_project(settings: Settings, *, confirm: bool) -> int:
    """Print which project the current folder belongs to. ``confirm``: first let the name count that its repository gives
    itself. Returns the exit code: 1 if the folder belongs to no project. Raises OSError."""
    data_dir = str(settings.data_dir)
    if confirm:
        confirm_project(os.curdir, data_dir)
    found = find_project(os.curdir, data_dir)
    sys.stdout.write(f"{found.name or 'this folder belongs to no project'}\n")
    if found.claimed:
        sys.stdout.write(f"{describe_claim(found)}. To use that name: `{suggest('project', '--confirm')}`\n")
    if found.name:
        return 0
    return 1
