"""``layerlore bridge``: a remote memory for hosts that launch a command and cannot set headers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import httpx2
import typer

from layerlore.server.access.caller import AGENT_HEADER, PROJECT_HEADER, RESOURCE_HEADER, THREAD_HEADER
from layerlore.server.access.exposure import is_loopback
from layerlore.server.access.issuer_keys import load_trusted
from layerlore.server.bridge.remote_server import Remote, run_bridge
from layerlore.server.command_line.options import read_settings
from layerlore.server.process.standard_streams import claim_stdio
from layerlore.server.settings.settings import Settings, SettingsError

MCP = "/mcp"


def connect_bridge(settings: Settings, url: str) -> int:
    """Pass messages between standard input and output and the server at ``url`` until the host leaves. Returns the
    exit code. Agent, resource, project and thread are sent to the server if the settings name them.

    Raises SettingsError for an unusable URL, key or file, without repeating a key.
    """
    endpoint = parse_endpoint(url)
    headers = (
        (b"Authorization", b"Bearer " + _read_key(settings).encode()),
        *((name.encode(), value.encode()) for name, value in _scope_headers(settings)),
    )
    return run_bridge(Remote(endpoint, headers, load_trusted(settings.bridge.ca_file, "bridge.ca_file")), claim_stdio())


def parse_endpoint(given: str) -> httpx2.URL:
    """The address of a server's MCP endpoint. Raises SettingsError for any other text, or one that would send a key
    unencrypted."""
    try:
        url = httpx2.URL(given)
    except httpx2.InvalidURL:
        url = httpx2.URL("")
    # A key over plain HTTP could be read on its way by anyone in the network.
    secured = url.scheme == "https" or (url.scheme == "http" and is_loopback(url.host))
    # A query or a user in the URL would end up in logs of proxies.
    if not (secured and url.host) or url.userinfo or url.query or url.fragment:
        raise SettingsError(
            "bridge: give the URL of a server, such as https://mem.example.com/mcp, without a user, a query or a "
            "fragment; http:// only to 127.0.0.1, ::1 or localhost, since others could read the key on its way"
        )
    if url.path in ("", "/"):
        return url.copy_with(path=MCP)
    return url


def _read_key(settings: Settings) -> str:
    given, file = settings.bridge.key.get_secret_value(), settings.bridge.key_file
    try:
        # Editors on Windows may begin the file with a byte order mark.
        key = (Path(file).expanduser().read_text(encoding="utf-8-sig") if file else given).strip()
    except (OSError, RuntimeError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is not UTF-8 text"
        raise SettingsError(f"bridge.key_file: {file} cannot be read: {why}") from None
    if not key:
        raise SettingsError("bridge: a key is missing: use --key-file FILE, or the variable LAYERLORE_BRIDGE__KEY")
    return check_key(key)


def check_key(text: str) -> str:
    """The key in a text. Raises SettingsError for a text that is no key."""
    key = text.strip()
    # Such a key cannot be sent in a header, and a file with several lines is most likely another file.
    if not (key and key.isascii() and key.isprintable()) or " " in key:
        raise SettingsError("the key must be one word of printable ASCII, with nothing beside it")
    return key


def _scope_headers(settings: Settings) -> Iterator[tuple[str, str]]:
    """The headers for what the settings name; the key decides the rest."""
    headers = {
        "agent": AGENT_HEADER,
        "resource": RESOURCE_HEADER,
        "project": PROJECT_HEADER,
        "thread": THREAD_HEADER,
    }
    # Defaults are left out: the key on the server knows its own agent and resource.
    named = {name: getattr(settings, name) for name in headers if name in settings.model_fields_set}
    return ((headers[name], value) for name, value in named.items() if value)


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
