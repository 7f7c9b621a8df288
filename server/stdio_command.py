"""``layerlore`` without a subcommand: one client on standard input and output."""

import os
import sys

from layerlore.server.building import build_server
from layerlore.server.former_store import adopt_former_store
from layerlore.server.logs import configure_logging
from layerlore.server.program import shell_command
from layerlore.server.settings import SettingsError, load_settings
from layerlore.server.stdio_transport import run_stdio
from layerlore.server.stopping import StopRequest
from layerlore.storage.errors import StorageUnavailable


def serve(flags: dict[str, str], fds: tuple[int, int]) -> int:
    """Serve until the client leaves. Returns the exit code: 2 for settings that are wrong."""
    try:
        settings = load_settings(
            {name: value for name, value in flags.items() if name != "config"}, config=flags.get("config")
        )
    except SettingsError as error:
        sys.stderr.write(f"layerlore: {error}\n")
        return 2
    try:
        adopt_former_store(settings)
    except StorageUnavailable as error:
        sys.stderr.write(f"layerlore: {error}\n")
        return 1
    configure_logging(settings.log_level)
    if os.isatty(fds[0]):
        tried = f"`{shell_command('demo')}`, or `{shell_command('--help')}`"
        sys.stderr.write(f"layerlore speaks MCP on stdin and stdout; hosts launch it. Try {tried}.\n")
    stop = StopRequest()
    return run_stdio(build_server(settings, stop=stop), fds, stop=stop)
