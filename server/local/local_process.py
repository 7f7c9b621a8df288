"""The shared server's process: its settings, its signals and its end."""

import contextlib
import importlib.util
import json
import signal
import sys

import anyio

from layerlore.server.local.server import LocalServer
from layerlore.server.process.logs import configure_logging
from layerlore.server.process.standard_streams import ExitDeadline, StopRequest
from layerlore.server.relay.channels import Listener
from layerlore.server.settings.settings import SettingsError, load_launched

EXIT_SECONDS = 15.0
"""How long ending may take: as long as the calls that are under way."""
_GREETING_SECONDS = 1.0
_GREETING_BYTES = 256 * 1024


def serve(base: str, flags: dict[str, str], listener: Listener) -> int:
    """Serve until no host has been connected for a while, or a stop is requested. Returns the exit code: 2 for invalid
    settings."""
    try:
        settings = load_launched(flags)
    except SettingsError as error:
        sys.stderr.write(f"layerlore: {error}\n")
        _refuse(listener, str(error))
        return 2
    configure_logging(settings.log_level, file=f"{base}.log")
    stop = StopRequest()
    deadline = ExitDeadline(stop, EXIT_SECONDS)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.ask())
    server = LocalServer(base, flags, settings, listener, stop)
    try:
        anyio.run(server.run, backend_options={"use_uvloop": importlib.util.find_spec("uvloop") is not None})
        deadline.served = True
    finally:
        # Other clients must no longer find this server.
        listener.withdraw()
        stop.ask(1)  # without effect unless the lifespan has failed
    return stop.exit_code


def _refuse(listener: Listener, why: str) -> None:
    """Send the hosts that have connected the reason why they are not served: each further server would end alike."""
    # Withdrawn first, so that no further client connects to a server that only refuses.
    listener.withdraw()
    listener.socket.setblocking(False)
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.socket.accept()
            with connection, contextlib.suppress(OSError):
                connection.settimeout(_GREETING_SECONDS)
                # The greeting is read first: closing with unread bytes would reset the connection and lose the answer.
                connection.recv(_GREETING_BYTES)
                connection.sendall(json.dumps({"error": why}).encode() + b"\n")
