"""``layerlore local``: the server that the hosts of this machine share."""

from typing import Any

from layerlore.server.cli.options import AsJson
from layerlore.server.commands.running import load_module, read_settings


def status(flags: dict[str, Any], as_json: AsJson = False) -> int:
    """Show the shared servers that run for the data folder, and how many hosts are connected."""
    return int(load_module("cli.local").status(read_settings(flags), as_json=as_json))


def stop(flags: dict[str, Any]) -> int:
    """Stop them after the calls that are under way. A host that is connected starts another when it needs one."""
    return int(load_module("cli.local").stop(read_settings(flags)))
