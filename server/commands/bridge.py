"""``layerlore bridge``: a memory that is served elsewhere, for hosts that launch a command and can set no headers."""

from collections.abc import Iterator
from pathlib import Path

import httpx2

from layerlore.server.bridging import run_bridge
from layerlore.server.caller import AGENT_HEADER, RESOURCE_HEADER, THREAD_HEADER
from layerlore.server.certificates import trusted
from layerlore.server.exposure import is_loopback
from layerlore.server.remote_server import Remote
from layerlore.server.settings import Settings, SettingsError
from layerlore.server.standard_streams import claim_stdio

MCP = "/mcp"


def bridge(settings: Settings, url: str) -> int:
    """Pass messages between standard input and output and the server at ``url`` until the host leaves. Returns the
    exit code. Agent, resource and thread are named to the server where the settings name them.

    Raises SettingsError for a URL, a key or a file that will not do; none of its texts repeats a key.
    """
    endpoint = _endpoint(url)
    headers = (
        (b"Authorization", b"Bearer " + _key(settings).encode()),
        *((name.encode(), value.encode()) for name, value in _named(settings)),
    )
    return run_bridge(Remote(endpoint, headers, trusted(settings.bridge.ca_file, "bridge.ca_file")), claim_stdio())


def _endpoint(given: str) -> httpx2.URL:
    try:
        url = httpx2.URL(given)
    except httpx2.InvalidURL:
        url = httpx2.URL("")
    secured = url.scheme == "https" or (url.scheme == "http" and is_loopback(url.host))
    if not (secured and url.host) or url.userinfo or url.query or url.fragment:
        raise SettingsError(
            "bridge: the URL of a server is needed, such as https://mem.example.com/mcp, without a user, a query or a "
            "fragment; http:// only to 127.0.0.1, ::1 or localhost: the key would be read on its way"
        )
    return url.copy_with(path=MCP) if url.path in ("", "/") else url


def _key(settings: Settings) -> str:
    given, file = settings.bridge.key.get_secret_value(), settings.bridge.key_file
    try:
        key = (Path(file).expanduser().read_text(encoding="utf-8-sig") if file else given).strip()
    except (OSError, RuntimeError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is no text in UTF-8"
        raise SettingsError(f"bridge.key_file: {file} cannot be read: {why}") from None
    if not key:
        raise SettingsError("bridge: a key is needed: --key-file FILE, or the variable LAYERLORE_BRIDGE__KEY")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise SettingsError("bridge: the key must be one word of printable ASCII, alone in its file")
    return key


def _named(settings: Settings) -> Iterator[tuple[str, str]]:
    """What the launch names; what it leaves out, the key decides."""
    headers = {"agent": AGENT_HEADER, "resource": RESOURCE_HEADER, "thread": THREAD_HEADER}
    return ((headers[name], getattr(settings, name)) for name in headers if name in settings.model_fields_set)
