"""Which policy a thread's window has: its own, a profile of the configuration, or the server's default."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from layerlore.memory.acceptance import load_json, one_of, shown
from layerlore.memory.limits import Limits
from layerlore.memory.tokens import TokenCounter
from layerlore.memory.window.policy import WindowPolicy, policy_from
from layerlore.storage.errors import InvalidInput, LayerloreError
from layerlore.storage.records import Json, Thread

DEFAULT = "default"
"""The name by which the server's default is a profile, too."""


@dataclass(frozen=True, slots=True)
class WindowRules:
    """The policies of the configuration: the server's default, and the profiles by name."""

    default: WindowPolicy = field(default_factory=WindowPolicy)
    named: Mapping[str, WindowPolicy] = field(default_factory=dict)

    def profile(self, name: str, where: str) -> WindowPolicy:
        """The policy of that name. Raises InvalidInput, which lists the ones there are."""
        if name == DEFAULT:
            return self.default
        if name not in self.named:
            raise InvalidInput(f"{where}: unknown profile {shown(name)}; {one_of(name, [DEFAULT, *self.named])}")
        return self.named[name]


def policy_of(rules: WindowRules, thread: Thread, counter: TokenCounter, limits: Limits) -> tuple[WindowPolicy, str]:
    """The policy of a thread's window; and "", or why it is not the one that was set: then the default serves.

    Raises nothing: what was stored under another configuration or version is no caller's mistake.
    """
    if thread.window_policy is None:
        return rules.default, ""
    try:
        kept = load_json(thread.window_policy, "window")
        if isinstance(kept, str):
            return rules.profile(kept, "window"), ""
        return policy_from(kept, "window", WindowPolicy(), counter, limits, _as_stored), ""
    except (LayerloreError, ValueError) as error:
        return rules.default, f"the server's default serves, since the thread's own cannot: {error}"


def _as_stored(parts: list[Json]) -> tuple[list[Json], int]:
    """Secrets were masked when the policy was set."""
    return parts, 0
