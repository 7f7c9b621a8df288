"""The observations of the threads that are asked for again and again: read and laid out once, until others are active."""

from collections import OrderedDict
from collections.abc import Sequence

from layerlore.memory.observations_text import block_of
from layerlore.memory.tokens import TokenCounter
from layerlore.storage import observations
from layerlore.storage.observations import Observation
from layerlore.storage.records import Scope
from layerlore.storage.transaction import Tx

# A thread has up to 48,000 tokens of them, half a megabyte.
_THREADS = 16
_BLOCKS = 8


class Noted:
    """A thread's active observations, and the blocks that were made of them."""

    def __init__(self, rows: Sequence[Observation], tokens: int) -> None:
        self.tokens = tokens
        self._rows = rows
        self._blocks: dict[int, str] = {}

    def block(self, counter: TokenCounter, most: int) -> str:
        """The block in at most so many tokens; all of them where that is enough."""
        made = self._blocks.get(most)
        if made is None:
            if len(self._blocks) >= _BLOCKS:
                self._blocks.clear()
            made = self._blocks[most] = block_of(self._rows, counter, most)
        return made


class NotedThreads:
    """Of the threads asked for last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, ...], Noted] = OrderedDict()

    async def of(self, tx: Tx, scope: Scope, thread_uid: str) -> Noted | None:
        """The active observations of a thread; None where there are none. What they are is asked each time, themselves
        only when they are others."""
        state = await observations.state(tx, scope, thread_uid)
        count, tokens, *_ = state
        if not count:
            return None
        key = (scope, thread_uid, state)
        noted = self._kept.get(key)
        if noted is None:
            noted = Noted(await observations.listed(tx, scope, thread_uid, "active"), tokens)
            self._kept[key] = noted
        self._kept.move_to_end(key)
        while len(self._kept) > _THREADS:
            self._kept.popitem(last=False)
        return noted

    def forget(self, scope: Scope) -> None:
        """Forget the threads of a scope."""
        for key in [key for key in self._kept if key[0] == scope]:
            del self._kept[key]
