"""How the tokens of a context are shared out.

The window has the first claim: half of the room, or as many eighths as it needs. What it leaves goes to the other
blocks, in the order of ``ORDER``; where they need more than that, each takes at most half of what those before it left.
What they leave goes back to the window.
"""

from collections.abc import Mapping

ORDER = (
    "observations",
    "user-profile",
    "memory",
    "session-memory",
    "current-task",
    "plan",
    "previous-attempts",
    "predefined-messages",
)
"""The blocks that share what the window leaves, the most important first."""

STEPS = 16
"""The window's budget is a whole number of these parts of ``max_tokens``, and its start lies on a grid of half of that
budget: so it stays where it is while the thread grows by a few messages, and a prompt cache can keep what follows."""
_GRID = 2
# A window's claim is a whole number of these parts of the room: a block that is cut keeps its bytes while messages that
# are longer or shorter come and go.
_CLAIMS = 8
_SUMMARY_SHARE = 8
FEWEST_SUMMARY_TOKENS = 40


def shares(needs: Mapping[str, int], window: int, room: int) -> dict[str, int]:
    """The tokens that each block may take, of those it needs. ``window``: what the window would take as a whole."""
    step = max(1, room // _CLAIMS)
    left = max(0, room - min(-(-window // step) * step, room // 2))
    wanted = [name for name in ORDER if needs.get(name)]
    if sum(needs[name] for name in wanted) <= left:
        return {name: needs[name] for name in wanted}
    given: dict[str, int] = {}
    for name in wanted:
        given[name] = min(needs[name], left // 2)
        left -= given[name]
    return given


def summary_tokens(wanted: int, room: int) -> int:
    """How long the summary of what falls out may be; 0 where there is no room for one worth reading."""
    given = min(wanted, room // _SUMMARY_SHARE)
    return given if given >= FEWEST_SUMMARY_TOKENS else 0


def window_budget(left: int, max_tokens: int) -> int:
    """What a window may take that does not fit as a whole into what is left for it."""
    step = max(1, max_tokens // STEPS)
    return left // step * step if left >= step else max(0, left)


def grid(budget: int) -> int:
    """The distance of the places where such a window may start, in tokens of the thread."""
    return max(1, budget // _GRID)
