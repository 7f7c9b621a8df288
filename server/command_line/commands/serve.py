"""``layerlore serve``: Streamable HTTP, SSE and the health routes, behind credentials."""

import asyncio
import importlib
import ipaddress
import logging
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from layerlore.server.access.credentials import (
    LOCAL_TENANT,
    ApiKeys,
    ByForm,
    Credentials,
    LocalKey,
    NoCredentials,
    local_principal,
)
from layerlore.server.access.exposure import ServedClients, allowed, reached_by_others, refusal, warning
from layerlore.server.access.gate import METADATA, ProtectedResource
from layerlore.server.access.issuer_keys import JwtTokens, KeySet
from layerlore.server.access.protocol_errors import refuse_registration
from layerlore.server.command_line.known_database import open_or_create_database
from layerlore.server.command_line.options import fail, read_settings
from layerlore.server.explorer.routes import Explorer
from layerlore.server.http.connections import THIS_MACHINE, ConnectionLimits
from layerlore.server.http.http_worker import WorkerLink
from layerlore.server.http.request_guards import describe_listening
from layerlore.server.http.supervisor import supervise
from layerlore.server.http.transport import serve_http
from layerlore.server.limits.throttle import make_gate
from layerlore.server.process.logs import configure_logging
from layerlore.server.process.sdk_private import lifespan_state
from layerlore.server.process.shutdown import StopRequest
from layerlore.server.relay.hook_client import run_hook
from layerlore.server.relay.hook_events import MEMORY_FILES_FLAG, REMOTE_FLAGS
from layerlore.server.runtime.process import STARTING, Process
from layerlore.server.runtime.tool_server import ToolServer, build_server
from layerlore.server.settings.http import HttpSettings
from layerlore.server.settings.launch import FLAGS
from layerlore.server.settings.local_key import key_file, read_or_make_key
from layerlore.server.settings.settings import Settings
from layerlore.storage.audit import api_keys
from layerlore.storage.core.records import ApiKey

log = logging.getLogger(__name__)


def look_up_served(settings: Settings) -> ServedClients:
    """Read from the database which clients may be served, before a server listens; create it if necessary. Raises
    StorageUnavailable, DatabaseTooNew or InvalidInput."""
    if settings.memory != "off":
        return asyncio.run(_look_up_served(settings))
    return ServedClients(False)


async def _look_up_served(settings: Settings) -> ServedClients:
    async with open_or_create_database(settings) as database:
        now = time.time_ns() // 1_000_000
        any_key = await database.read_installation(api_keys.any_usable, now)
        # Only credentials of other tenants make the role of the database matter.
        others = bool(settings.jwt.issuer) or await database.read_installation(api_keys.any_usable, now, LOCAL_TENANT)
        return ServedClients(any_key, database.unfit if others else "")


def serve_process(settings: Settings, look: Callable[[], ServedClients], place: tuple[int, int] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code: 2 for settings that are refused.

    ``look`` opens the database and returns the clients that it may serve. ``place``: the index of this worker, and the
    descriptor of its connection to the parent. Raises what ``look`` raises, SettingsError for [jwt], and OSError or KeyUnusable for the file of
    the local key.
    """
    configure_logging(settings.log_level)
    http = settings.http
    # Cached, because the answer may be needed twice and opening the database is slow.
    if refused := refusal(settings, cache(look)):
        return fail(refused, 2)
    # The local key is for this machine only; a server that others reach must not accept it.
    if http.auth and not reached_by_others(settings):
        key = read_or_make_key(settings.data_dir)
    else:
        key = None
    try:
        lines = _open_metrics(settings, 0 if place is None else place[0])
    except (ImportError, OSError) as error:
        sys.stderr.write(f"layerlore: metrics.address: {_describe_metrics_failure(error)}\n")
        return 2
    stop = StopRequest()
    server = build_server(settings, stop=stop)
    resource = _protected_resource(settings)
    _add_open_routes(server, resource)

    if key is not None:
        lines += f"its key is in {key_file(settings.data_dir)}; send it as Authorization: Bearer KEY\n"
    if warned := warning(settings):
        lines += warned + "\n"

    def report_listening(host: str, port: int) -> None:
        sys.stderr.write(describe_listening(host, port) + lines)
        sys.stderr.flush()

    async def opened() -> str:
        """Wait until the database is open. Returns what people are shown. Raises StorageUnavailable."""
        process: Process = lifespan_state(server)
        # Workers wait here, so that the supervisor sees a database that cannot be opened.
        await process.runtime()
        return lines

    gate = make_gate(
        server,
        settings.rates_to_hold,
        _credentials(server, settings, key, resource),
        resource=resource,
        public_origin=http.public_origin,
    )
    if http.explore:
        Explorer(public_origin=http.public_origin, open_to_all=not http.auth).add_to(server, gate)
    return serve_http(
        server,
        http.host,
        http.port,
        allowed(settings),
        gate,
        on_listening=report_listening,
        stop=stop,
        max_sessions=http.max_sessions,
        session_idle_timeout=http.session_idle_seconds,
        limits=_limits(http),
        public_path=http.public_path,
        worker=None if place is None else WorkerLink(*place, stop, opened),
    )


def _open_metrics(settings: Settings, worker: int) -> str:
    """Serve the page of metrics if the settings have its address. Returns a line with its URL. Raises ImportError,
    OSError."""
    if not settings.metrics.address:
        return ""
    # By name, since not every installation has the extra.
    page = importlib.import_module("layerlore.server.http.metrics_page")
    host, port = settings.metrics.place(worker)
    port = page.open_metrics_page(host, port, worker)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{port}/metrics"
    # Only the first worker's line is shown.
    log.info("the metrics of worker %d are at %s", worker, url)
    return f"its metrics are at {url}\n"


def _describe_metrics_failure(error: ImportError | OSError) -> str:
    if isinstance(error, ImportError):
        return "the extra is missing: install layerlore[metrics], or leave the address out"
    return f"it cannot be listened on: {error.strerror or error}"


def _limits(http: HttpSettings) -> ConnectionLimits:
    return ConnectionLimits(
        head_seconds=http.head_seconds,
        body_seconds=http.body_seconds,
        write_seconds=http.write_seconds,
        most=http.max_connections,
        most_of_address=http.max_connections_per_address,
        exempt=(*THIS_MACHINE, *(ipaddress.ip_network(each) for each in http.trusted_proxies)),
    )


def _protected_resource(settings: Settings) -> ProtectedResource | None:
    if not settings.jwt.issuer:
        return None
    return ProtectedResource(settings.jwt.issuer, settings.http.public_url, settings.http.public_path)


def _credentials(
    server: ToolServer, settings: Settings, key: str | None, resource: ProtectedResource | None
) -> Credentials:
    person = local_principal(settings.agent, settings.resource)
    if not settings.http.auth:
        return NoCredentials(person)

    async def find(digest: str) -> ApiKey | None:
        # Looked up at each call: the engine opens after the server listens.
        process: Process = lifespan_state(server)
        return await (await process.runtime()).api_key(digest)

    if resource is None:
        tokens = None
    else:
        tokens = JwtTokens(settings.jwt, settings.agent, KeySet(settings.jwt), resource.audiences)
    return ByForm(
        keys=ApiKeys(find, lambda: time.time_ns() // 1_000_000),
        jwt=tokens,
        local=None if key is None else LocalKey(key, person),
    )


def _add_open_routes(server: ToolServer, resource: ProtectedResource | None) -> None:
    async def health(_: Request) -> Response:
        """The process is running."""
        return JSONResponse({"status": "ok"})

    async def ready(_: Request) -> Response:
        """This server can serve: its database is open, and a fault of it is not this server's own."""
        process = lifespan_state(server)
        why_not = await process.unready()
        if not why_not:
            status = {"status": "ready"}
            if fault := await process.find_database_fault():
                # All servers have this fault, so a proxy must not move the load from one to the next.
                status |= {"database": "unavailable", "reason": fault}
            return JSONResponse(status)
        # A start is not a failure, and load balancers treat the two differently.
        if why_not == STARTING:
            status = {"status": why_not}
        else:
            status = {"status": "unavailable", "reason": why_not}
        return JSONResponse(status, status_code=503)

    async def database(_: Request) -> Response:
        """The database can be written."""
        process = lifespan_state(server)
        fault = await process.find_database_fault() or await process.unready()
        if fault:
            return JSONResponse({"status": "unavailable", "reason": fault}, status_code=503)
        return JSONResponse({"status": "available"})

    server.custom_route("/health", methods=["GET"])(health)
    server.custom_route("/ready", methods=["GET"])(ready)
    server.custom_route("/database", methods=["GET"])(database)

    async def register(_: Request) -> Response:
        """The reason why no client can be registered. Clients look here after a 401 if no issuer is named."""
        return refuse_registration("" if resource is None else resource.issuer)

    server.custom_route("/register", methods=["POST"])(register)
    if resource is None:
        return

    async def metadata(request: Request) -> Response:
        """The issuer of tokens for an endpoint (RFC 9728)."""
        described = resource.describe(request.path_params["path"], request.scope["headers"])
        if described is None:
            return PlainTextResponse("Not Found", 404)
        return JSONResponse(described)

    server.custom_route(METADATA + "{path:path}", methods=["GET"])(metadata)


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
    settings = read_settings({**flags, "http": given}, serves=True)
    # A worker has the hidden option and must not become a supervisor itself.
    if settings.http.workers > 1 and worker is None:
        return int(supervise(settings, sys.argv[1:]))
    return serve_process(settings, lambda: look_up_served(settings), worker)


def hook(
    flags: dict[str, Any],
    host: Annotated[str, typer.Argument(help="Such as claude-code.", show_default=False)],
    event: Annotated[str, typer.Argument(help="As the host names it, such as Stop.", show_default=False)],
    memory_files: Annotated[
        bool, typer.Option(MEMORY_FILES_FLAG, help="Keep the host's own memory files in step.")
    ] = False,
    http: Annotated[str, typer.Option(metavar="URL", help="Use the memory of this server over HTTP.")] = "",
    key_file: Annotated[str, typer.Option(help="The file that holds the key for --http.")] = "",
) -> int:
    """Hosts call this with an event on standard input: it stores what was said, and shows what is known about it."""
    launch = [f"{flag}={flags[setting]}" for flag, setting in FLAGS.items() if setting in flags]
    given = {"url": http, "key_file": key_file}
    remote = [f"{flag}={given[name]}" for flag, name in REMOTE_FLAGS.items() if given[name]]
    run_hook((host, event, *launch, *remote, *([MEMORY_FILES_FLAG] if memory_files else [])), os.environ)
    return 0
