"""What a context holds and in which order, before it takes the shape that one of the providers wants."""

from dataclasses import dataclass

from layerlore.storage.core.records import Message


@dataclass(frozen=True, slots=True)
class ContextLayout:
    """A context, what changes least first.

    ``stable`` and ``volatile`` are rendered blocks: user profile, observations and summary; session memory, plan,
    previous attempts, open work and recalled memory. ``before`` is the window up to the newest user message, ``turn`` that message
    and what came after it; a thread in which no user has spoken has no turn.
    """

    predefined: tuple[Message, ...] = ()
    stable: tuple[str, ...] = ()
    before: tuple[Message, ...] = ()
    volatile: tuple[str, ...] = ()
    turn: tuple[Message, ...] = ()

    @property
    def stable_text(self) -> str:
        return "\n\n".join(filter(None, self.stable))

    @property
    def volatile_text(self) -> str:
        return "\n\n".join(filter(None, self.volatile))
