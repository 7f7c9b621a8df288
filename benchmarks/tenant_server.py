"""layerlore over HTTP with tenants that need no keys made for them, for measuring.

``python tenant_server.py PORT`` takes the settings from the environment; the token ``tenant-x.1`` is a credential of
tenant ``x`` with all rights, ``tenant-x.2`` another.
"""

import sys

from layerlore.server.access.credentials import RIGHTS, Principal
from layerlore.server.access.exposure import allowed
from layerlore.server.http.transport import serve_http
from layerlore.server.limits.throttle import make_gate
from layerlore.server.process.logs import configure_logging
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

PREFIX = "tenant-"


class TenantTokens:
    """Accepts every token ``tenant-NAME.NUMBER``."""

    async def principal(self, token: str) -> Principal | None:
        name = token.removeprefix(PREFIX)
        tenant, _, _ = name.partition(".")
        return Principal(f"key:{name}", tenant, frozenset({"default"}), "user", frozenset(RIGHTS)) if tenant else None


def main() -> None:
    settings = load_settings()
    configure_logging(settings.log_level)
    server = build_server(settings)
    gate = make_gate(server, settings.rates_to_hold, TenantTokens())
    sys.exit(serve_http(server, "127.0.0.1", int(sys.argv[1]), allowed(settings), gate))


if __name__ == "__main__":
    main()
