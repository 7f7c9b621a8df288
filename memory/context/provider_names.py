"""Names of tools and ids of calls that a provider's API takes, in place of those that it would refuse."""

import hashlib
import re
from collections import Counter

_REFUSED = re.compile(r"[^a-zA-Z0-9_-]")


def tool_name(name: str, most: int) -> str:
    """The name, or one of at most ``most`` (12 or more) letters, digits, _ and - that is made of it: what can stay, and
    a digest, so that no two names become one."""
    if len(name) <= most and not _REFUSED.search(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"{_REFUSED.sub('_', name)[: most - 11]}_{digest}"


class CallIds:
    """The ids of one request's calls, each given once.

    An id that the API takes stays as it is. One that it would refuse, or that an earlier call had (some models count
    their calls anew in each turn, and Anthropic refuses an id that comes twice), is replaced by a digest of it and of
    how often it was replaced before, so that the same messages give the same ids whatever stands after them.
    """

    def __init__(self, allowed: re.Pattern[str]) -> None:
        self._allowed = allowed
        self._replaced: Counter[str] = Counter()
        self._given: set[str] = set()

    def fresh(self, call_id: str) -> str:
        """The id for the next call, whose own id is ``call_id``."""
        found = call_id if self._allowed.fullmatch(call_id) else self._made(call_id)
        while found in self._given:
            found = self._made(call_id)
        self._given.add(found)
        return found

    def _made(self, call_id: str) -> str:
        self._replaced[call_id] += 1
        digest = hashlib.sha256(f"{self._replaced[call_id]} {call_id}".encode()).hexdigest()
        return f"call_{digest[:24]}"
