"""A host that shows MCP Apps."""

from typing import Any

from mcp.client.extension import ClientExtension
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID


class ShowsApps(ClientExtension):
    """What such a host announces: it is listed what pages have."""

    identifier = EXTENSION_ID

    def settings(self) -> dict[str, Any]:
        return {"mimeTypes": [APP_MIME_TYPE]}
