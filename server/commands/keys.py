"""``layerlore keys``: the keys of agents on other machines."""

from typing import Annotated, Any

import typer

from layerlore.server.cli.options import AgentFilter, AsJson, ResourceFilter, TenantFilter
from layerlore.server.commands.running import fail, load_module, read_settings


def create(
    flags: dict[str, Any],
    tenant: Annotated[
        str, typer.Option(help="The tenant whose memory the key opens: a customer, a team.", show_default=False)
    ],
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help="An agent that the key may act for; repeat the option for several, since a comma is part of a name. "
            "Default: the configured agent.",
            show_default=False,
        ),
    ] = None,
    any_agent: Annotated[
        bool, typer.Option("--any-agent", help="The key may act for any agent of the tenant.")
    ] = False,
    resource: Annotated[
        str | None,
        typer.Option(help="The resource that the key may serve. Default: the configured one.", show_default=False),
    ] = None,
    any_resource: Annotated[
        bool,
        typer.Option("--any-resource", help="The key may serve any resource of the tenant; each request names one."),
    ] = False,
    rights: Annotated[
        str, typer.Option(help="Rights, separated by commas: read, write, forget, admin.")
    ] = "read,write,forget",
    expires: Annotated[str, typer.Option(help="When the key expires: after 30m, 12h, 90d, or never.")] = "never",
    as_json: AsJson = False,
) -> int:
    """Create a key and print it, alone on its line. It is shown only once."""
    if any_agent and agent:
        return fail("keys create takes --agent or --any-agent, not both", 2)
    if any_resource and resource is not None:
        return fail("keys create takes --resource or --any-resource, not both", 2)
    settings, behind = read_settings(flags), load_module("cli.keys")
    agents = None if any_agent else tuple(agent or [settings.agent])
    served = None if any_resource else settings.resource if resource is None else resource
    made: int = behind.create(settings, behind.Grant(tenant, agents, served, rights, expires), as_json=as_json)
    return made


def list_(
    flags: dict[str, Any],
    tenant: TenantFilter = None,
    agent: AgentFilter = None,
    resource: ResourceFilter = None,
    as_json: AsJson = False,
) -> int:
    """List the keys of all tenants: what each allows, and whether it is still valid. The keys themselves are not stored."""
    whose = load_module("cli.owner").OwnerFilter(tenant, agent, resource)
    shown: int = load_module("cli.keys").show(read_settings(flags), whose, as_json=as_json)
    return shown


def revoke(
    flags: dict[str, Any],
    key_id: Annotated[
        str, typer.Argument(metavar="ID", help="The key's id, as `keys list` shows it.", show_default=False)
    ],
) -> int:
    """Revoke a key for good. All servers refuse it within seconds."""
    return int(load_module("cli.keys").revoke(read_settings(flags), key_id))
