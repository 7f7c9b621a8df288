"""Stored answers that are the same at every launch of a client. A host gets them while the server is still starting."""

import contextlib
import json
import os
from collections.abc import Mapping

from layerlore.server.process.version import VERSION
from layerlore.server.relay.hook_events import is_captured
from layerlore.server.relay.launch import Launch

METHODS = ("initialize", "server/discover", "tools/list", "prompts/list")
MOST_ANSWERS = 32
"""The oldest answers beyond this number are dropped."""
PROTOCOL_META = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_META = "io.modelcontextprotocol/clientCapabilities"
CLIENT_META = "io.modelcontextprotocol/clientInfo"
# The instructions depend on the client: hooks may store its conversations.
_OF_CLIENT = ("initialize", "server/discover")
PAGES = "io.modelcontextprotocol/ui"
ANY_CLIENT = ""
"""The client name of the answers for clients without answers of their own."""


class KeptAnswers:
    """The answers of servers of this version with these settings, in a file beside the socket.

    ``cold``: read the stored answers at once. Otherwise answers are only stored if no file exists yet.
    """

    __slots__ = ("_answers", "_hooks", "_own", "_pages", "_path", "_reads")

    def __init__(self, launch: Launch, *, cold: bool) -> None:
        self._path = f"{launch.base}-{VERSION}.answers"
        self._hooks = launch.hooks
        # The answers depend on nothing else of a launch: another project or agent has the same tools.
        settings = {name: launch.own_setting(name) for name in ("toolsets", "thread")}
        self._own = [settings["toolsets"], bool(settings["thread"])]
        # A warm client leaves an existing file alone, since reading it would only delay the host.
        self._reads = cold or not os.path.exists(self._path)
        self._answers: dict[str, str] = self._read() if self._reads else {}
        self._pages = False  # whether the host said at the beginning that it shows pages

    def find(self, method: str, params: object) -> str | None:
        """The result, as JSON, of an earlier request like this one."""
        own = self._answers.get(self._key(method, params))
        if own is None:
            return self._answers.get(self._key(method, params, name=ANY_CLIENT))
        return own

    def keep(self, method: str, params: object, result: str) -> bool:
        """Keep the result that a server gave. Returns whether it differs from what was stored. Raises nothing."""
        if not self._reads:
            return False
        key = self._key(method, params)
        before = self._answers.get(key)
        if before != result:
            # Read again, since other clients write the same file.
            others = {name: value for name, value in self._read().items() if name != key}
            # The new answer goes to the end, so that the oldest are dropped.
            self._answers = dict([*others.items(), (key, result)][-MOST_ANSWERS:])
            self._write()
        return before is not None and before != result

    def _key(self, method: str, params: object, *, name: object = None) -> str:
        """The key of a request. ``name``: replaces the client's own name."""
        if isinstance(params, Mapping):
            given = params
        else:
            given = {}
        meta = given.get("_meta")
        protocol = given.get("protocolVersion") or (meta.get(PROTOCOL_META) if isinstance(meta, Mapping) else None)
        if method == "initialize":
            self._pages = _shows_pages(given.get("capabilities"))
        # The older protocol says this once in initialize, the newer one in each request.
        pages = self._pages or (isinstance(meta, Mapping) and _shows_pages(meta.get(CAPABILITIES_META)))
        client = given.get("clientInfo") or (meta.get(CLIENT_META) if isinstance(meta, Mapping) else None)
        if method in _OF_CLIENT and isinstance(client, Mapping):
            own = client.get("name")
            # The instructions tell a client with such hooks not to store messages, from its first session on.
            named = [own if name is None else name, is_captured(self._hooks, str(own))]
        else:
            named = []
        return json.dumps([method, protocol, given.get("cursor"), *(["pages"] if pages else []), *named, self._own])

    def _read(self) -> dict[str, str]:
        try:
            with open(self._path, encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(found, dict):
            return {}
        return {name: value for name, value in found.items() if isinstance(value, str)}

    def _write(self) -> None:
        # Each process writes its own new file, since two clients may write at the same time.
        new = f"{self._path}.{os.getpid()}"
        with contextlib.suppress(OSError):
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                json.dump(self._answers, file)
            os.replace(new, self._path)


def _shows_pages(capabilities: object) -> bool:
    """Whether a host with these capabilities shows pages."""
    if isinstance(capabilities, Mapping):
        extensions = capabilities.get("extensions")
    else:
        extensions = None
    return isinstance(extensions, Mapping) and PAGES in extensions
