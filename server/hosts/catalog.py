"""The hosts whose configuration can name this server: their files, and the entry of a server in the form of each host: a
command to launch, or the URL of one.

Read in public sources: the hosts' own documentation, and installers that others publish.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from layerlore.server.process.safe_files import is_there
from layerlore.server.relay.hook_events import COMMAND, HOOK_EVENTS
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json

NAME = "layerlore"
"""The name of the server in every host's file."""
GOOSE_TIMEOUT_SECONDS = 300
_OUR_HOOK = linear_re.compile(
    rf"{NAME}.*\s{COMMAND}\s+(?:{'|'.join(HOOK_EVENTS)})\s", linear_re.IGNORECASE | linear_re.DOTALL
)


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """How a host reaches the memory: by a program with arguments, or, with a ``url``, a server over HTTP."""

    command: tuple[str, ...]
    url: str = ""


Write = Callable[[HostLaunch], Json]
"""Makes the value for a host's file from a launch."""


def plain(launch: HostLaunch) -> Json:
    """The commonest shape: ``command`` and ``args``, or ``url``."""
    if launch.url:
        return {"url": launch.url}
    return _command(launch)


def typed(launch: HostLaunch) -> Json:
    """With ``type``: Claude Code and VS Code."""
    if launch.url:
        return {"type": "http", "url": launch.url}
    return {"type": "stdio", **_command(launch)}


def gemini(launch: HostLaunch) -> Json:
    if launch.url:
        return {"httpUrl": launch.url}
    return _command(launch)


def windsurf(launch: HostLaunch) -> Json:
    if launch.url:
        return {"serverUrl": launch.url}
    return _command(launch)


def zed(launch: HostLaunch) -> Json:
    return {"source": "custom", **({"url": launch.url} if launch.url else {**_command(launch), "env": {}})}


def opencode(launch: HostLaunch) -> Json:
    if launch.url:
        return {"type": "remote", "url": launch.url, "enabled": True}
    return {"type": "local", "command": list(launch.command), "enabled": True}


def cline(launch: HostLaunch) -> Json:
    if launch.url:
        return {"type": "streamableHttp", "url": launch.url, "disabled": False}
    return {**_command(launch), "disabled": False}


def goose(launch: HostLaunch) -> Json:
    reached = {"type": "streamable_http", "uri": launch.url, "headers": {}}
    if not launch.url:
        reached = {"type": "stdio", "cmd": launch.command[0], "args": list(launch.command[1:]), "envs": {}}
    return {
        "name": NAME,
        "description": "What is remembered of the user and of earlier work",
        **reached,
        "enabled": True,
        "timeout": GOOSE_TIMEOUT_SECONDS,
    }


def copilot(launch: HostLaunch) -> Json:
    return {**typed(launch), "tools": ["*"]}


def is_ours(entry: object) -> bool:
    """Whether an entry of a host's file launches this program, whatever its shape: what an update may replace."""
    return NAME in str(entry).lower()


def launches_us(entry: object) -> bool:
    """Whether an entry launches this program, by its name or as a module: a path among its arguments may have our name,
    too."""
    if not isinstance(entry, dict):
        return False
    given = [entry.get(name) for name in ("command", "cmd", "args")]
    words = [str(word) for part in given for word in (part if isinstance(part, list) else [part] if part else [])]
    return bool(words) and (Path(words[0]).stem == NAME or f"{NAME}.server" in words)


def without_our_hooks(items: Sequence[object]) -> list[object]:
    """A host's list of hooks without those that call this program's ``hook``. The other hooks of a group stay."""
    return [kept for item in items for kept in _keep_others(item)]


def _keep_others(item: object) -> Iterator[object]:
    if isinstance(item, dict):
        hooks = item.get("hooks")
    else:
        hooks = None
    if not isinstance(item, dict) or not isinstance(hooks, list):
        if not _calls_us(item):
            yield item
        return
    others = [hook for hook in hooks if not _calls_us(hook)]
    if others == hooks:
        yield item
    elif others:
        yield {**item, "hooks": others}


def _calls_us(hook: object) -> bool:
    """Whether a hook's command is ours: a path of another program may contain our name."""
    if not isinstance(hook, dict):
        return False
    arguments = hook.get("args")
    words = [hook.get("command"), hook.get("bash"), *(arguments if isinstance(arguments, list) else ())]
    return _OUR_HOOK.search(" ".join(map(str, words))) is not None


def _command(launch: HostLaunch) -> Json:
    return {"command": launch.command[0], "args": list(launch.command[1:])}


Platform = Literal["linux", "darwin", "win32"]


def _everywhere(variable: str, usual: str) -> dict[Platform, tuple[tuple[str, ...], str]]:
    names = (variable,) if variable else ()
    return {"linux": (names, usual), "darwin": (names, usual), "win32": (names, usual)}


def _read_platform() -> Platform:
    found: dict[str, Platform] = {"darwin": "darwin", "win32": "win32"}
    return found.get(sys.platform, "linux")


# The first parts of paths in the catalog: the variables that name such a folder, and its path without them.
_ROOTS: dict[str, dict[Platform, tuple[tuple[str, ...], str]]] = {
    "HOME": _everywhere("", ""),
    "CONFIG": {
        "linux": (("XDG_CONFIG_HOME",), ".config"),
        "darwin": (("XDG_CONFIG_HOME",), ".config"),
        "win32": (("APPDATA",), "AppData/Roaming"),
    },
    "APPS": {
        "linux": (("XDG_CONFIG_HOME",), ".config"),
        "darwin": ((), "Library/Application Support"),
        "win32": (("APPDATA",), "AppData/Roaming"),
    },
    "LOCAL": {
        "linux": ((), ".local/share"),
        "darwin": ((), "Library/Application Support"),
        "win32": (("LOCALAPPDATA",), "AppData/Local"),
    },
    "CODEX": _everywhere("CODEX_HOME", ".codex"),
    "CLINE": _everywhere("CLINE_DIR", ".cline"),
    "COPILOT": _everywhere("COPILOT_HOME", ".copilot"),
}


@dataclass(frozen=True, slots=True)
class Places:
    """One person's folders, by default those of this process."""

    platform: Platform = field(default_factory=_read_platform)
    home: Path = field(default_factory=Path.home)
    variables: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def find(self, written: str) -> Path:
        """The path that ``ROOT/rest`` stands for, such as ``APPS/Claude/claude_desktop_config.json``."""
        root, _, rest = written.partition("/")
        names, usual = _ROOTS[root][self.platform]
        given = next((self.variables[name] for name in names if self.variables.get(name)), "")
        if given:
            base = Path(given)
        else:
            base = self.home / usual
        return base / rest


Format = Literal["json", "toml", "yaml"]


@dataclass(frozen=True, slots=True)
class Host:
    """A program that launches MCP servers.

    ``files``: the possible paths of its file with servers, in the form of ``Places.find``; the first that exists counts,
    else the first with a folder among ``signs``. ``keys``: the path of the object with the servers inside the file.
    ``project``: the file of one project, as a path inside it. ``signs``: files and folders that show that the host is
    installed; without them, the folder of its file. ``url``: whether its entry may have a URL. ``headers``: the key of the
    headers beside the URL. ``opens_folders``: whether people open it in the folder that they work in.
    """

    name: str
    title: str
    files: tuple[str, ...]
    keys: tuple[str, ...]
    write: Write
    format: Format = "json"
    project: str = ""
    signs: tuple[str, ...] = ()
    url: bool = True
    headers: str = "headers"
    opens_folders: bool = True
    elsewhere: Mapping[Platform, tuple[str, ...]] = field(default_factory=dict)

    def find_file(self, places: Places) -> Path:
        """The file to write, whether or not it exists."""
        found = [places.find(written) for written in self.elsewhere.get(places.platform, self.files)]
        signs = [places.find(written) for written in self.signs]
        # A link that leads nowhere counts as a file, so that no other one is written in its place.
        there = [path for path in found if is_there(str(path))]
        # One program may come in two forms, of which only one is installed and has not written its file yet.
        expected = [path for path in found if any(path.is_relative_to(sign) and is_there(str(sign)) for sign in signs)]
        return [*there, *expected, *found][0]

    def is_installed(self, places: Places) -> bool:
        signs = [places.find(written) for written in self.signs] or [self.find_file(places).parent]
        return any(is_there(str(sign)) for sign in (*signs, self.find_file(places)))


HOSTS = (
    Host(
        "claude-desktop",
        "Claude Desktop",
        ("APPS/Claude/claude_desktop_config.json",),
        ("mcpServers",),
        plain,
        url=False,
        opens_folders=False,
        elsewhere={
            # The build of the Microsoft Store has a folder of its own.
            "win32": (
                "LOCAL/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude/claude_desktop_config.json",
                "APPS/Claude/claude_desktop_config.json",
            )
        },
        signs=("APPS/Claude", "LOCAL/Packages/Claude_pzs8sxrjxfjjc"),
    ),
    Host(
        "claude-code",
        "Claude Code",
        ("HOME/.claude.json",),
        ("mcpServers",),
        typed,
        project=".mcp.json",
        signs=("HOME/.claude",),
    ),
    Host(
        "cursor",
        "Cursor",
        ("HOME/.cursor/mcp.json",),
        ("mcpServers",),
        plain,
        project=".cursor/mcp.json",
    ),
    Host(
        "vscode",
        "VS Code",
        ("APPS/Code/User/mcp.json",),
        ("servers",),
        typed,
        project=".vscode/mcp.json",
    ),
    Host(
        "codex",
        "Codex",
        ("CODEX/config.toml",),
        ("mcp_servers",),
        plain,
        format="toml",
        headers="http_headers",
        project=".codex/config.toml",
    ),
    Host(
        "gemini-cli",
        "Gemini CLI",
        ("HOME/.gemini/settings.json",),
        ("mcpServers",),
        gemini,
        project=".gemini/settings.json",
    ),
    Host(
        "windsurf",
        "Windsurf",
        ("HOME/.codeium/windsurf/mcp_config.json",),
        ("mcpServers",),
        windsurf,
    ),
    Host(
        "zed",
        "Zed",
        ("CONFIG/zed/settings.json",),
        ("context_servers",),
        zed,
        project=".zed/settings.json",
        elsewhere={"win32": ("APPS/Zed/settings.json",)},
    ),
    Host(
        "opencode",
        "opencode",
        ("HOME/.config/opencode/opencode.json", "HOME/.config/opencode/opencode.jsonc"),
        ("mcp",),
        opencode,
        project="opencode.json",
    ),
    Host(
        "cline",
        "Cline",
        (
            "APPS/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            "CLINE/data/settings/cline_mcp_settings.json",
        ),
        ("mcpServers",),
        cline,
        signs=("APPS/Code/User/globalStorage/saoudrizwan.claude-dev", "CLINE/data"),
    ),
    Host(
        "goose",
        "Goose",
        ("CONFIG/goose/config.yaml",),
        ("extensions",),
        goose,
        format="yaml",
        elsewhere={"win32": ("APPS/Block/goose/config/config.yaml",)},
    ),
    Host(
        "lm-studio",
        "LM Studio",
        ("HOME/.lmstudio/mcp.json",),
        ("mcpServers",),
        plain,
        opens_folders=False,
    ),
    Host(
        "copilot-cli",
        "Copilot CLI",
        ("COPILOT/mcp-config.json",),
        ("mcpServers",),
        copilot,
        project=".github/mcp.json",
        # VS Code reads hooks in the same folder, so the folder alone says nothing.
        signs=("COPILOT/config.json", "COPILOT/settings.json", "COPILOT/session-state", "COPILOT/logs"),
    ),
)
"""The hosts in the order of lists."""
BY_NAME = {host.name: host for host in HOSTS}
