"""``layerlore`` without a subcommand: one client on standard input and output."""

import os
import sys

from layerlore.server.limits.turns import Turns
from layerlore.server.process.logs import configure_logging
from layerlore.server.process.program import shell_command
from layerlore.server.process.sdk_private import add_middleware
from layerlore.server.process.shutdown import StopRequest
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import SettingsError, load_launched
from layerlore.server.stdio.stdio_transport import run_stdio


def serve(flags: dict[str, str], fds: tuple[int, int]) -> int:
    """Serve until the client leaves. Returns the exit code: 2 for invalid settings."""
    try:
        settings = load_launched(flags)
    except SettingsError as error:
        sys.stderr.write(f"layerlore: {error}\n")
        return 2
    configure_logging(settings.log_level)
    # A person who starts the program in a terminal would otherwise see nothing.
    if os.isatty(fds[0]):
        commands = f"`{shell_command('demo')}`, or `{shell_command('--help')}`"
        sys.stderr.write(f"layerlore speaks MCP on stdin and stdout; hosts launch it. Try {commands}.\n")
    stop = StopRequest()
    server = build_server(settings, stop=stop)
    add_middleware(server, Turns(settings.rates))
    return run_stdio(server, fds, stop=stop)
