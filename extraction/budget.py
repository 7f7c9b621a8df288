"""What background work may cost in a day."""

from dataclasses import dataclass

from layerlore.memory.usage_shapes import NANO
from layerlore.storage.spending import OfDay


@dataclass(frozen=True, slots=True)
class Budget:
    """Of the whole installation, for a UTC day: tokens, in and out together, and dollars. 0 is no limit.

    A call that has begun is finished: the sum may pass the limit by as many calls as run at a time.
    """

    daily_tokens: int = 0
    daily_usd: float = 0.0

    @property
    def limited(self) -> bool:
        return bool(self.daily_tokens or self.daily_usd)

    def spent_up(self, spent: OfDay) -> str:
        """Why no more is spent today, in words; empty while there is something left."""
        if self.daily_tokens and spent.tokens >= self.daily_tokens:
            return f"today's budget of {self.daily_tokens:,} tokens is spent ({spent.tokens:,})"
        dollars = spent.cost_nano_usd / NANO
        if self.daily_usd and dollars >= self.daily_usd:
            return f"today's budget of ${self.daily_usd:g} is spent (${dollars:.4f})"
        return ""
