"""``layerlore explore``: the explorer of this machine's memory, in a browser."""

import secrets
import sys
import threading
import webbrowser

from layerlore.server.access.credentials import LocalKey, local_principal
from layerlore.server.access.host_guard import Allowed
from layerlore.server.explorer.routes import LINK_SECONDS, PAGE, Explorer, OneTimeLinks
from layerlore.server.http.transport import serve_http
from layerlore.server.limits.limiter import make_gate
from layerlore.server.process.shutdown import StopRequest
from layerlore.server.runtime.server_builder import build_server
from layerlore.server.settings.settings import Settings

HOST = "127.0.0.1"


def explore(settings: Settings, *, opens: bool) -> int:
    """Serve the page to this machine until SIGINT or SIGTERM, and open it where ``opens``. Returns the exit code.

    It has a port of its own, for as long as it is looked at, and a credential that no file holds.
    """
    stop = StopRequest()
    server = build_server(settings, stop=stop)
    credential = secrets.token_urlsafe(32)
    links = OneTimeLinks(credential)
    person = local_principal(settings.agent, settings.resource)
    gate = make_gate(server, settings.rates_to_hold, LocalKey(credential, person))
    Explorer(links=links).add_to(server, gate)

    def show(host: str, port: int) -> None:
        link = _print_link(links, f"http://{host}:{port}")
        if opens:  # a browser on a terminal takes until it is left
            threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()
        if sys.stdin is not None and sys.stdin.isatty():
            threading.Thread(target=_print_more, args=(links, f"http://{host}:{port}"), daemon=True).start()

    return serve_http(server, HOST, 0, Allowed(hosts=[f"{HOST}:*"], own_pages=True), gate, on_listening=show, stop=stop)


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
