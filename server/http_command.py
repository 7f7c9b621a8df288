"""``memstrata serve``: Streamable HTTP, SSE and the health routes, on loopback, behind the local key."""

import hashlib
import hmac
import sys

from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from memstrata.server.building import build_server
from memstrata.server.http_transport import serve_http
from memstrata.server.local_key import key_file, read_or_make_key
from memstrata.server.logs import configure_logging
from memstrata.server.sdk_private import lifespan_state
from memstrata.server.settings import Settings
from memstrata.server.stopping import StopRequest
from memstrata.server.tool_server import ToolServer


class LocalKeyVerifier:
    """Accepts one key. Digests are compared, so that the time taken says nothing of the key."""

    def __init__(self, key: str) -> None:
        self._digest = hashlib.sha256(key.encode()).digest()

    async def verify_token(self, token: str) -> AccessToken | None:
        if not hmac.compare_digest(hashlib.sha256(token.encode()).digest(), self._digest):
            return None
        return AccessToken(token="checked", client_id="local-key", scopes=[])  # noqa: S106 - not the key


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    return host in ("127.0.0.1", "::1", "localhost")


def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code: 2 for a setting that is refused."""
    configure_logging(settings.log_level)
    http = settings.http
    if not is_loopback(http.host):
        sys.stderr.write(
            f"memstrata: http.host: {http.host} can be reached from other machines, and this version has no "
            "credentials for them; allowed are 127.0.0.1, ::1 and localhost\n"
        )
        return 2
    key = read_or_make_key(settings.data_dir) if http.auth else None
    stop = StopRequest()
    server = build_server(settings, stop=stop, **_credentials(key))
    _add_health_routes(server)

    def told(host: str, port: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        sys.stderr.write(f"memstrata listens on http://{shown}:{port}/mcp (SSE: /sse)\n")
        if key is not None:
            sys.stderr.write(f"its key is in {key_file(settings.data_dir)}; send it as Authorization: Bearer KEY\n")
        sys.stderr.flush()

    return serve_http(
        server,
        http.host,
        http.port,
        security(settings),
        on_listening=told,
        stop=stop,
        max_sessions=http.max_sessions,
        session_idle_timeout=http.session_idle_seconds,
    )


def _credentials(key: str | None) -> dict[str, object]:
    if key is None:
        return {}
    # The issuer is required and unused: there is no authorization server, only the key.
    auth = AuthSettings(issuer_url=AnyHttpUrl("http://localhost"), resource_server_url=None, required_scopes=[])
    return {"token_verifier": LocalKeyVerifier(key), "auth": auth}


def security(settings: Settings) -> TransportSecuritySettings:
    """Which Host and Origin headers are served: this machine's names, and those that the settings add."""
    names = ["127.0.0.1", "localhost", "[::1]"]
    hosts = [*names, *(f"{name}:*" for name in names), *settings.http.allowed_hosts]
    origins = [f"http://{name}{port}" for name in names for port in ("", ":*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[*origins, *settings.http.allowed_origins],
    )


def _add_health_routes(server: ToolServer) -> None:
    async def health(_: Request) -> Response:
        """The process answers."""
        return JSONResponse({"status": "ok"})

    async def ready(_: Request) -> Response:
        """The database is open and migrated."""
        is_ready = lifespan_state(server).ready
        return JSONResponse({"status": "ready" if is_ready else "starting"}, status_code=200 if is_ready else 503)

    server.custom_route("/health", methods=["GET"])(health)
    server.custom_route("/ready", methods=["GET"])(ready)
