"""``memstrata`` without a subcommand: one client on standard input and output."""

import os
import sys

from memstrata.server.building import build_server
from memstrata.server.logs import configure_logging
from memstrata.server.settings import SettingsError, load_settings
from memstrata.server.stdio_transport import run_stdio
from memstrata.server.stopping import StopRequest


def serve(flags: dict[str, str], fds: tuple[int, int]) -> int:
    """Serve until the client leaves. Returns the exit code: 2 for settings that are wrong."""
    try:
        settings = load_settings(
            {name: value for name, value in flags.items() if name != "config"}, config=flags.get("config")
        )
    except SettingsError as error:
        sys.stderr.write(f"memstrata: {error}\n")
        return 2
    configure_logging(settings.log_level)
    if os.isatty(fds[0]):
        sys.stderr.write("memstrata speaks MCP on stdin and stdout; hosts launch it. Try `memstrata demo`.\n")
    stop = StopRequest()
    return run_stdio(build_server(settings, stop=stop), fds, stop=stop)
