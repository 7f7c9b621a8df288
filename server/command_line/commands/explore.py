"""``layerlore explore``: the explorer of this machine's memory, in a browser."""

import contextlib
import json
import os
import secrets
import sys
import threading
import time
import webbrowser
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from layerlore.server.access.credentials import EXPLORING, LOCAL_TENANT, RIGHTS, LocalKey, Principal, local_principal
from layerlore.server.access.exposure import AllowedHeaders
from layerlore.server.command_line.options import fail, read_settings
from layerlore.server.explorer.routes import LINK_SECONDS, PAGE, Explorer, OneTimeLinks
from layerlore.server.http.transport import serve_http
from layerlore.server.limits.throttle import make_gate
from layerlore.server.process.shutdown import StopRequest
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import Settings

HOST = "127.0.0.1"


def choose_principal(settings: Settings, tenant: str, *, everybody: bool, named: Collection[str]) -> Principal:
    """Whom the page serves: the person of this launch; or an operator, who looks at the memories of a tenant, or of all.
    ``named``: which of ``agent`` and ``resource`` the launch names, and so keeps to."""
    if not tenant and not everybody:
        return local_principal(settings.agent, settings.resource)
    return Principal(
        EXPLORING,
        tenant or LOCAL_TENANT,
        frozenset({settings.agent}) if "agent" in named else None,
        settings.resource if "resource" in named else None,
        frozenset(RIGHTS),
        every_tenant=everybody,
    )


def run_explorer(
    settings: Settings, *, opens: bool, tenant: str = "", everybody: bool = False, named: Collection[str] = ()
) -> int:
    """Serve the page to this machine until SIGINT or SIGTERM, and open it where ``opens``. Returns the exit code.

    It has a port of its own, for as long as it is open, and a credential that no file holds. With a ``tenant``, or
    for ``everybody``, it is an operator's, and each look is in the journal.
    """
    # One stop for the signal handlers and the server, which both end it.
    stop = StopRequest()
    server = build_server(settings, stop=stop)
    # The credential exists in this process only, so a link that leaks is worthless after the end.
    credential = secrets.token_urlsafe(32)
    links = OneTimeLinks(credential)
    person = choose_principal(settings, tenant, everybody=everybody, named=named)
    gate = make_gate(server, settings.rates_to_hold, LocalKey(credential, person))
    Explorer(links=links).add_to(server, gate)

    # A name of its own, since several explorers may be open at once.
    door = settings.data_dir / f"explore-{secrets.token_hex(8)}.html"

    def show(host: str, port: int) -> None:
        link = _print_link(links, f"http://{host}:{port}")
        if opens:  # in a thread, since a browser in the terminal runs until the user leaves it
            _write_door(door, link)
            threading.Thread(target=webbrowser.open, args=(door.as_uri(),), daemon=True).start()
            expiry = threading.Timer(LINK_SECONDS, _remove_door, args=(door,))
            expiry.daemon = True
            expiry.start()
        # Without a terminal, reading would return at once.
        if sys.stdin is not None and sys.stdin.isatty():
            threading.Thread(target=_print_more, args=(links, f"http://{host}:{port}"), daemon=True).start()

    allowed = AllowedHeaders(hosts=[f"{HOST}:*"], own_pages=True)
    try:
        return serve_http(server, HOST, 0, allowed, gate, on_listening=show, stop=stop)
    finally:
        _remove_door(door)


def _write_door(door: Path, link: str) -> None:
    """Write the local page that leads the browser to the link. Raises OSError.

    Every user of the machine can read the command line of the browser, and could use a link there first. Only the owner
    can read this file.
    """
    door.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in door.parent.glob("explore-*.html"):  # of a process that was killed
        # Another explorer may run, whose page must stay until its own link is too old.
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > LINK_SECONDS:
                old.unlink()
    page = (
        f"<!doctype html><meta name=referrer content=no-referrer><script>location.replace({json.dumps(link)})</script>"
    )
    with os.fdopen(os.open(door, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(page)


def _remove_door(door: Path) -> None:
    with contextlib.suppress(OSError):
        door.unlink()


def _print_link(links: OneTimeLinks, url: str) -> str:
    """Print a link that signs in once. Its word stands behind #, which no server and no log is sent."""
    word = secrets.token_urlsafe(24)
    links.add(word)
    link = f"{url}{PAGE}#once={word}"
    sys.stdout.write(f"{link}\n")
    sys.stdout.flush()
    sys.stderr.write(f"It works once, within {LINK_SECONDS:.0f} seconds. Enter prints another one, Ctrl-C ends.\n")
    sys.stderr.flush()
    return link


def _print_more(links: OneTimeLinks, url: str) -> None:
    while sys.stdin.readline():
        _print_link(links, url)


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
    """Show what is remembered in a browser, and correct it there. Ctrl-C ends it."""
    if tenant and everybody:
        return fail("explore takes --tenant or --everybody, not both", 2)
    return run_explorer(
        read_settings(flags), opens=not no_browser, tenant=tenant, everybody=everybody, named=flags.keys()
    )
