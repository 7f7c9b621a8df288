"""A server over HTTP as this machine's programs reach it: its URL, the key, and the headers that say whose memory it is."""

import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2

from layerlore.server.access.caller import AGENT_HEADER, PROJECT_HEADER, RESOURCE_HEADER, THREAD_HEADER
from layerlore.server.access.exposure import is_loopback
from layerlore.server.access.issuer_keys import load_trusted
from layerlore.server.settings.settings import Settings, SettingsError

MCP = "/mcp"


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote server: its endpoint, the headers of every request, and the TLS context."""

    url: httpx2.URL
    headers: Sequence[tuple[bytes, bytes]]
    tls: ssl.SSLContext

    @property
    def uses_proxies(self) -> bool:
        """Whether proxies of the environment count: requests to this machine use none."""
        return self.url.scheme == "https"


def find_remote(settings: Settings, url: str, key: str) -> Remote:
    """The server at ``url``; without a key for one that needs none. Agent, resource, project and thread are sent to it if
    the settings name them. Raises SettingsError."""
    credential = [(b"Authorization", b"Bearer " + key.encode())] if key else []
    headers = (*credential, *((name.encode(), value.encode()) for name, value in _scope_headers(settings)))
    return Remote(parse_endpoint(url), headers, load_trusted(settings.bridge.ca_file, "bridge.ca_file"))


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


def read_key_file(file: str) -> str:
    """The text of a file with a key. Raises SettingsError."""
    try:
        # Editors on Windows may begin the file with a byte order mark.
        return Path(file).expanduser().read_text(encoding="utf-8-sig")
    except (OSError, RuntimeError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is not UTF-8 text"
        raise SettingsError(f"bridge.key_file: {file} cannot be read: {why}") from None


def check_key(text: str) -> str:
    """The key in a text. Raises SettingsError if the text is not a key."""
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
