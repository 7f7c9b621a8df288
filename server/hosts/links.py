"""Links that add this server to a host with one click."""

import base64
import json
from urllib.parse import quote, urlencode

from layerlore.server.hosts.catalog import Host
from layerlore.server.hosts.host_entries import NAME, HostLaunch


def make_link(host: Host, launch: HostLaunch) -> str:
    """The link for a host, or an empty string where it knows none."""
    entry = json.dumps(host.write(launch), separators=(",", ":"))
    encoded = quote(base64.b64encode(entry.encode()).decode(), safe="")
    if host.name == "cursor":
        return f"cursor://anysphere.cursor-deeplink/mcp/install?name={NAME}&config={encoded}"
    if host.name == "lm-studio":
        return f"lmstudio://add_mcp?name={NAME}&config={encoded}"
    if host.name == "vscode":
        named = json.dumps({"name": NAME, **host.write(launch)}, separators=(",", ":"))
        return f"vscode:mcp/install?{quote(named, safe='')}"
    if host.name == "goose" and not launch.url:
        command, *rest = launch.command
        described = str(host.write(launch)["description"])
        told = [("cmd", command), *(("arg", each) for each in rest), ("id", NAME), ("name", NAME)]
        return f"goose://extension?{urlencode([*told, ('description', described)])}"
    return ""
