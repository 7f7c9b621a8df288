"""``layerlore`` without a subcommand: one client on standard input and output."""

import os
import sys

from layerlore.server.process.interpreter import shell_command
from layerlore.server.process.logs import configure_logging
from layerlore.server.process.standard_streams import StopRequest
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
    return run_stdio(build_server(settings, stop=stop), fds, stop=stop)
