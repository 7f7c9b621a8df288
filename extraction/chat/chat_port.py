"""The interface of a chat: it answers a job's material with one JSON object, or fails and says what to do next."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from layerlore.storage.audit.usage_rows import Spent
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.core.records import Json

if TYPE_CHECKING:
    from layerlore.extraction.kinds.kind import Material

NOTHING = Spent()


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """``json`` fits the material's schema; ``usage`` includes the requests that failed before it."""

    json: Json
    model: str
    usage: Spent


class ChatFailed(LayerloreError):
    """No answer came. The text says why; it can be stored and shown, since it repeats no texts and no keys.

    ``retryable``: a later attempt may succeed, not before ``retry_after_ms`` if that is set.
    ``spent``: what the failed requests cost.
    ``of_setup``: no job can succeed until a key, a name or an account is corrected.
    """

    def __init__(
        self,
        text: str,
        *,
        retryable: bool,
        retry_after_ms: int | None = None,
        spent: Spent = NOTHING,
        of_setup: bool = False,
    ) -> None:
        super().__init__(text)
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms
        self.spent = spent
        self.of_setup = of_setup


class Chat(Protocol):
    """A chat is used by one event loop. It answers any number of jobs at a time; the caller limits them."""

    def model(self, kind: str) -> str:
        """The model for a kind of job; empty: none."""

    async def answer(self, kind: str, material: "Material") -> ChatAnswer:
        """Ask for one answer. Raises ChatFailed, and InvalidInput for an invalid schema."""
