"""``layerlore bridge``: a remote memory for hosts that launch a command and cannot set headers."""

from typing import Annotated, Any

import typer

from layerlore.server.access.remote_endpoint import check_key, find_remote, parse_endpoint, read_key_file
from layerlore.server.bridge.remote_server import run_bridge
from layerlore.server.command_line.options import read_settings
from layerlore.server.process.standard_streams import claim_stdio
from layerlore.server.relay.launch import hook_folder
from layerlore.server.settings.settings import Settings, SettingsError


def connect_bridge(settings: Settings, url: str) -> int:
    """Pass messages between standard input and output and the server at ``url`` until the host leaves. Returns the
    exit code. Agent, resource, project and thread are sent to the server if the settings name them.

    Raises SettingsError for an unusable URL, key or file, without repeating a key.
    """
    # The URL is checked before the key, so that a mistake in it is what a user reads.
    parse_endpoint(url)
    remote = find_remote(settings, url, _read_key(settings))
    hooks = hook_folder(str(settings.data_dir), settings.database.get_secret_value())
    return run_bridge(remote, claim_stdio(), hooks)


def _read_key(settings: Settings) -> str:
    file = settings.bridge.key_file
    key = (read_key_file(file) if file else settings.bridge.key.get_secret_value()).strip()
    if not key:
        raise SettingsError("bridge: a key is missing: use --key-file FILE, or the variable LAYERLORE_BRIDGE__KEY")
    return check_key(key)


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
    return connect_bridge(read_settings({**flags, "bridge": given}), url)
