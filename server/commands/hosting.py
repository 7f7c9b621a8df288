"""The commands that set up the hosts of this machine and their projects: ``install``, ``uninstall``, ``project``."""

from typing import Annotated, Any

import typer

from layerlore.server.commands.running import fail, load_module, read_settings

Hosts = Annotated[
    list[str] | None,
    typer.Argument(metavar="[HOST ... | all]", help="Which hosts. Without one, list them.", show_default=False),
]
OfProject = Annotated[
    bool, typer.Option("--project", help="The file of the project in the current folder, not the person's.")
]


def install(
    flags: dict[str, Any],
    hosts: Hosts = None,
    http: Annotated[
        str, typer.Option(metavar="URL", help="Connect to this server over HTTP instead of launching one.")
    ] = "",
    key_file: Annotated[str, typer.Option(help="The file that holds the key for --http.")] = "",
    project: OfProject = False,
    capture: Annotated[
        bool, typer.Option("--capture", help="Hooks, too: the host shows what is remembered, and stores what is said.")
    ] = False,
    projects: Annotated[
        bool,
        typer.Option("--projects", help="A memory for each project, of the folder that the host is opened in."),
    ] = False,
    print_: Annotated[bool, typer.Option("--print", help="Only print what would be written, and where.")] = False,
) -> int:
    """Add this server to the configuration of hosts, such as claude-code or cursor; `all` adds it to each host that is
    here.

    The launch options that are given (--agent, --resource, --data-dir ...) become those of the host's server."""
    if key_file and not http:
        return fail("install: --key-file goes with --http", 2)
    behind = load_module("hosts.command")
    options = {name: value for name, value in flags.items() if isinstance(value, str)}
    asked = behind.InstallRequest(tuple(hosts or ()), options, http, key_file, project, capture, projects)
    settings = read_settings(flags)
    done: int = behind.show(settings, asked) if print_ else behind.install(settings, asked)
    return done


def uninstall(flags: dict[str, Any], hosts: Hosts = None, project: OfProject = False) -> int:
    """Take back from hosts' files exactly what `install` wrote; without a host, from all. The memory stays."""
    behind = load_module("hosts.command")
    taken: int = behind.uninstall(read_settings(flags), behind.InstallRequest(tuple(hosts or ()), {}, project=project))
    return taken


def project(
    flags: dict[str, Any],
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Use the name that its repository's configuration gives it.")
    ] = False,
) -> int:
    """Show which project the current folder belongs to, as `--project auto` finds it."""
    shown: int = load_module("cli.owner").show_project(read_settings(flags), confirm=confirm)
    return shown
