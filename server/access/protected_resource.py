"""This server as an OAuth resource: where clients learn who issues tokens for it, and for which URLs (RFC 9728)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from layerlore.server.access.exposure import is_own_name
from layerlore.server.access.protocol_errors import SCOPES

METADATA = "/.well-known/oauth-protected-resource"
Endpoint = Literal["/mcp", "/sse"]


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """The endpoints of this server, as resources of an issuer. ``public_url`` and its path ``public_path`` may be empty:
    then only clients of this machine learn about the issuer, by the URL that they call."""

    issuer: str
    public_url: str = ""
    public_path: str = ""

    @property
    def audiences(self) -> list[str]:
        """The URLs that a token for this server may name, as clients spell them."""
        if not self.public_url:
            return []
        urls = [self.public_url, f"{self.public_url}/mcp", f"{self.public_url}/sse"]
        return [spelled for url in urls for spelled in (url, f"{url}/")]

    def metadata_url(self, endpoint: Endpoint, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Where the metadata of an endpoint is; "" for a client that this server has no safe URL for."""
        base = self._base(headers)
        if not base:
            return ""
        # RFC 9728, 3.1: the well-known name stands between the host and the path of the resource.
        origin = base.removesuffix(self.public_path)
        return f"{origin}{METADATA}{self.public_path}{endpoint}"

    def describe(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> dict[str, Any] | None:
        """The metadata at a path below the well-known name; None if there is no such resource.

        The name alone stands for ``/mcp``: clients look there last. A proxy may cut the public path off.
        """
        base = self._base(headers)
        endpoint = path.rstrip("/").removeprefix(self.public_path) or "/mcp"
        if not base or endpoint not in ("/mcp", "/sse"):
            return None
        return {
            "resource": base + endpoint,
            "authorization_servers": [self.issuer],
            "scopes_supported": SCOPES.split(),
            "bearer_methods_supported": ["header"],
            "resource_name": "layerlore",
        }

    def _base(self, headers: Iterable[tuple[bytes, bytes]]) -> str:
        if self.public_url:
            return self.public_url
        host = next((value.decode("latin-1") for name, value in headers if name == b"host"), "")
        # A name that others can use needs https, and this server does not know which proxy speaks it.
        if is_own_name(host):
            return f"http://{host}"
        return ""
