"""``layerlore local``: the servers that this person's hosts share on this machine."""

import contextlib
import json
import sys
from typing import Any

from layerlore.server.command_line.options import AsJson, read_settings
from layerlore.server.command_line.tables import print_table
from layerlore.server.relay.server_query import ask, find_servers

_NOBODY = "no shared server runs for this data folder: the next host that launches layerlore starts one"


def status(flags: dict[str, Any], as_json: AsJson = False) -> int:
    """Show the shared servers that run for the data folder, and how many hosts are connected."""
    settings = read_settings(flags)
    found = [told for _, told in find_servers(str(settings.data_dir))]
    if as_json:
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
    elif found:
        _show(found)
    else:
        sys.stdout.write(_NOBODY + "\n")
    return 0


def stop(flags: dict[str, Any]) -> int:
    """Stop them after the calls that are under way. A host that is connected starts another when it needs one."""
    settings = read_settings(flags)
    stopped = []
    # A list first: stopping a server changes the folder that is searched.
    for base, told in list(find_servers(str(settings.data_dir))):
        # A server may end by itself between the search and the request.
        with contextlib.suppress(OSError, ValueError):
            ask(base, "stop")
            stopped.append(told)
    for told in stopped:
        sys.stdout.write(f"stopped the server with pid {told['pid']}; hosts connected: {told['hosts']}\n")
    if not stopped:
        sys.stdout.write(_NOBODY + "\n")
    return 0


def _show(found: list[dict[str, object]]) -> None:
    names = ("pid", "version", "hosts", "seconds", "idle_minutes")
    print_table(
        ("pid", "version", "hosts", "runs for (s)", "ends after (idle min)"),
        [[str(told.get(name, "")) for name in names] for told in found],
        numbers=("pid", "hosts", "runs for (s)", "ends after (idle min)"),
    )
