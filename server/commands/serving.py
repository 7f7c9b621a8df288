"""The commands that serve, and that show and check how: ``serve``, ``explore``, ``demo``, ``doctor``, ``bridge``, ``hook``."""

import os
import sys
from typing import Annotated, Any

import typer

from layerlore.server.cli.options import AsJson
from layerlore.server.commands.running import fail, load_module, read_settings
from layerlore.server.settings.launch import FLAGS


def serve(
    flags: dict[str, Any],
    host: Annotated[str | None, typer.Option(help="Address to listen on. Other machines need credentials.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 picks a free one.")] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Require no credential from this machine.")] = False,
    workers: Annotated[int | None, typer.Option(help="Processes that serve on this port together.")] = None,
    worker: Annotated[tuple[int, int] | None, typer.Option(hidden=True)] = None,
) -> int:
    """Serve MCP over HTTP: /mcp, /sse, /health and /ready on 127.0.0.1:8765."""
    http: dict[str, Any] = {"host": host, "port": port, "auth": False if no_auth else None, "workers": workers}
    given = {name: value for name, value in http.items() if value is not None}
    settings = read_settings({**flags, "http": given})
    if settings.http.workers > 1 and worker is None:
        return int(load_module("http.supervisor").supervise(settings, sys.argv[1:]))
    served: int = load_module("http.command").serve(
        settings, lambda: load_module("cli.database").look_up_served(settings), worker
    )
    return served


def explore(
    flags: dict[str, Any],
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the link.")] = False,
    tenant: Annotated[
        str, typer.Option(help="As an operator: choose among the memories of this tenant.", show_default=False)
    ] = "",
    everybody: Annotated[
        bool, typer.Option("--everybody", help="As an operator: choose among those of all tenants.")
    ] = False,
) -> int:
    """Show what is remembered in a browser, and mend it there. Ctrl-C ends it."""
    if tenant and everybody:
        return fail("explore takes --tenant or --everybody, not both", 2)
    explored: int = load_module("cli.explore").explore(
        read_settings(flags), opens=not no_browser, tenant=tenant, everybody=everybody, named=flags.keys()
    )
    return explored


def demo(flags: dict[str, Any]) -> int:
    """Show the memory at work in a temporary folder, and how to connect agents to it."""
    return int(load_module("cli.demo").demo(read_settings(flags)))


def doctor(
    flags: dict[str, Any],
    as_json: AsJson = False,
) -> int:
    """Check everything that the memory needs, and say what is degraded and how to fix it. Changes nothing."""
    settings = read_settings(flags)
    hooks = load_module("hosts.hook_check").check_hooks(settings)
    return int(load_module("cli.doctor").doctor(settings, as_json=as_json, more=hooks))


def hook(
    flags: dict[str, Any],
    host: Annotated[str, typer.Argument(help="Such as claude-code.", show_default=False)],
    event: Annotated[str, typer.Argument(help="As the host names it, such as Stop.", show_default=False)],
) -> int:
    """Called by hosts, which tell of the event on standard input: keep what was said, and show what is known about it."""
    launch = [f"{flag}={flags[setting]}" for flag, setting in FLAGS.items() if setting in flags]
    load_module("relay.hooking").run_hook((host, event, *launch), os.environ)
    return 0


def bridge(
    flags: dict[str, Any],
    url: Annotated[
        str, typer.Argument(help="The server's URL, such as https://mem.example.com/mcp.", show_default=False)
    ],
    key_file: Annotated[str | None, typer.Option(help="The file that holds the key.", show_default=False)] = None,
    ca_file: Annotated[
        str | None, typer.Option(help="PEM file of the certificate authorities to trust.", show_default=False)
    ] = None,
) -> int:
    """Serve MCP over stdio for a host that cannot use HTTP itself, and pass everything on to a remote memory."""
    given = {name: value for name, value in {"key_file": key_file, "ca_file": ca_file}.items() if value is not None}
    bridged: int = load_module("cli.bridge").bridge(read_settings({**flags, "bridge": given}), url)
    return bridged
