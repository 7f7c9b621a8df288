"""An event of any host as a hook handed it over, and the current conversation of each host process."""

from collections.abc import Mapping
from dataclasses import dataclass

from cachetools import LRUCache

from layerlore.server.capture.host_lines import as_object, as_texts
from layerlore.server.relay.hook_events import MEMORY_FILES, ONE_AT_A_TIME, HookEvent, find_event
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json

_SESSION = ("session_id", "sessionId", "conversation_id", "trajectory_id")
_TRANSCRIPT = ("transcript_path", "transcriptPath", "agent_transcript_path")
_PROMPT = ("prompt", "user_prompt")
_REPLY = ("text", "response", "prompt_response")


@dataclass(frozen=True, slots=True)
class HookCall:
    """An event of a host. ``name``: of its file in the spool. ``source``: why a session starts. ``by_subagent``: a
    sub-agent's model would see the answer. ``host_process``: a name of the host's process. ``flags`` and ``variables``:
    the launch's own settings, such as the agent's name. ``memory_files``: synchronize with the host's own memory files.
    ``url`` and ``key_file``: of the server over HTTP that stores the event; "" for this machine's memory."""

    name: str
    host: str
    event: HookEvent
    session: str
    transcript: str
    folder: str
    prompt: str
    reply: str
    source: str
    by_subagent: bool
    host_process: str
    flags: Mapping[str, str]
    variables: Mapping[str, str]
    memory_files: bool = False
    url: str = ""
    key_file: str = ""


def read_call(name: str, handed: Json) -> HookCall:
    """The event in a file of the spool. Characters that cannot be stored are replaced. Raises InvalidInput."""
    host, given = str(handed.get("host")), as_object(handed.get("given"))
    if host == "claude-code" and "sessionId" in given and "session_id" not in given:
        host = "vscode"  # it also calls the hooks in Claude Code's settings
    event = find_event(host, str(handed.get("event")))
    if event is None:
        raise InvalidInput(f"no event of a host: {host!r}, {str(handed.get('event'))!r}")
    more = as_object(given.get("tool_info"))
    roots = given.get("workspace_roots")
    # Cursor names no current folder in its events, only the roots of the workspace.
    folder = _first(given, ("cwd",)) or (str(roots[0]) if isinstance(roots, list) and roots else "")
    return HookCall(
        name,
        host,
        event,
        session=_mend(_first(given, _SESSION)),
        transcript=_first(given, _TRANSCRIPT),
        folder=folder or str(handed.get("folder") or ""),
        prompt=_mend(_first(given, _PROMPT) or _first(more, _PROMPT)),
        reply=_mend(_first(given, _REPLY) or _first(more, _REPLY)),
        source=_first(given, ("source", "trigger")),
        by_subagent=bool(given.get("agent_id")),
        host_process=str(handed.get("host_process") or ""),
        flags=as_texts(handed.get("flags")),
        variables=as_texts(handed.get("variables")),
        memory_files=handed.get(MEMORY_FILES) is True,
        url=str(handed.get("url") or ""),
        key_file=str(handed.get("key_file") or ""),
    )


def _first(given: Json, names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := given.get(name), str) and value), "")


def _mend(text: str) -> str:
    # A host may cut a text in the middle of a character.
    return text.encode("utf-8", "replace").decode()


_MOST_KEPT = 1_000


class CurrentConversations:
    """The current conversation of each host process. A host names a conversation at most when it launches a server; only
    its hooks notice when the user changes to another one."""

    def __init__(self) -> None:
        self._kept = LRUCache[str, tuple[str, str]](_MOST_KEPT)

    def note(self, call: HookCall) -> None:
        """Note the conversation of an event. If events come out of order, the newest one counts."""
        if call.host not in ONE_AT_A_TIME or not call.host_process or not call.session:
            return
        # The name of an event begins with its time.
        newest, _ = self._kept.get(call.host_process, ("", ""))
        if call.name > newest:
            self._kept[call.host_process] = call.name, call.session

    def find(self, host_process: str) -> str:
        """The conversation of a host's process; "" if no hook has named it."""
        _, session = self._kept.get(host_process, ("", ""))
        return session
