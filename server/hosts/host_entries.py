"""The entry of a server in the form of each host: a command to launch, or the URL of one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

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
    """How a host reaches the memory: the program and its arguments, or, with a ``url``, a server over HTTP."""

    command: tuple[str, ...]
    url: str = ""


Write = Callable[[HostLaunch], Json]
"""A launch as the value that stands in a host's file."""


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
