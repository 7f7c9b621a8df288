"""The shares of a context: how many tokens its blocks, notes, memories and messages may take.

Every share is a function of the room alone that never falls, and never grows by more than the room does: so a larger
context shows all that a smaller one shows."""

from collections.abc import Mapping
from dataclasses import dataclass

from layerlore.memory.window.runs import ASKED_SHARE

ORDER = (
    "user-profile",
    "session-memory",
    "current-task",
    "plan",
    "previous-attempts",
    "open-work",
    "predefined-messages",
)
"""The blocks that need only so much, the most important first."""

# Of what these blocks leave, notes may take this share where not every message is shown, and so many tokens more, but
# no more than the larger share.
_NOTES = 0.3
_MORE_NOTES = 400
_MOST_NOTES = 0.45
# The same in the shapes of providers, where a window keeps its start: till it moves on, it needs room to grow.
_NOTES_BESIDE_SETTLED = 0.25


def share_blocks(needs: Mapping[str, int], room: int, others: int) -> dict[str, int]:
    """What each block may take of what it needs: together half of the room, or what ``others`` leave of it. Each takes at
    most half of what those before it left; what is left then goes to them in their order."""
    left = max(0, room // 2, room - _round_up(others))
    wanted = [name for name in ORDER if needs.get(name)]
    given: dict[str, int] = {}
    for name in wanted:
        given[name] = min(needs[name], left // 2)
        left -= given[name]
    for name in wanted:
        more = min(needs[name] - given[name], left)
        given[name] += more
        left -= more
    return given


def _round_up(tokens: int) -> int:
    """Round up by an eighth at most: a block that is cut keeps its bytes while messages come that are longer or
    shorter."""
    step = 1 << max(0, tokens.bit_length() - 4)
    return -(-tokens // step) * step


@dataclass(frozen=True, slots=True)
class MemoryClaim:
    """What memories may claim: ``most`` tokens, and no more than is said in all threads (``outside``), or in others where
    all messages of this one are shown (``elsewhere``). It depends on what is stored, not on what is asked."""

    most: int = 0
    outside: int = 0
    elsewhere: int = 0

    def within(self, room: int) -> int:
        """The tokens that are set aside where not all messages are shown: at most half of what blocks leave."""
        return max(0, min(self.most, self.outside, room // 2))

    @property
    def beside_all(self) -> int:
        """The tokens that are set aside where all messages are shown."""
        return min(self.most, self.elsewhere)


@dataclass(frozen=True, slots=True)
class ContextShares:
    """Tokens beside the blocks: the ``room`` for messages, ``notes`` and ``memory``; so many as are ``settled`` the messages
    have whatever is noted and recalled."""

    room: int
    notes: int
    memory: int
    settled: int


def share_rest(room: int, claim: MemoryClaim, messages: int, asked: int, *, keeps_start: bool) -> ContextShares:
    """Share out what the blocks leave. ``messages``: what all of them would take that may be shown; ``asked``: what the
    user's newest takes, for which notes make room within a half of all."""
    memory = claim.within(room)
    notes = int(min(room * _MOST_NOTES, room * _NOTES + _MORE_NOTES))
    if keeps_start:
        notes = int(room * _NOTES_BESIDE_SETTLED)
    settled = room - memory - notes
    if not keeps_start:
        notes = min(notes, room - memory - min(int(asked / ASKED_SHARE) + 1, room // 2))
    return ContextShares(room, max(notes, room - memory - messages), memory, settled)
