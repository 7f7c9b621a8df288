"""The conversation that each process of a host is in now, as its hooks last said."""

from typing import TYPE_CHECKING

from cachetools import LRUCache

from layerlore.server.relay.hook_events import ONE_AT_A_TIME

if TYPE_CHECKING:
    from layerlore.server.capture.host_events import HookCall

_MOST_KEPT = 1_000


class CurrentConversations:
    """A host names a conversation when it launches a server, if at all. The user may go on with another one in the same
    process, and only the hooks see that."""

    def __init__(self) -> None:
        self._kept = LRUCache[str, tuple[str, str]](_MOST_KEPT)

    def note(self, call: "HookCall") -> None:
        """Note the conversation of an event. The events of one process may come out of order: the newest counts."""
        if call.host not in ONE_AT_A_TIME or not call.host_process or not call.session:
            return
        # The name of an event begins with its time.
        newest, _ = self._kept.get(call.host_process, ("", ""))
        if call.name > newest:
            self._kept[call.host_process] = call.name, call.session

    def find(self, host_process: str) -> str:
        """The conversation of a host's process; "" if no hook told of it."""
        _, session = self._kept.get(host_process, ("", ""))
        return session
