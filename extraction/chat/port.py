"""What answers a job: instructions and material in, one JSON object out, or a failure that says what to do next."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from layerlore.storage.errors import LayerloreError
from layerlore.storage.records import Json
from layerlore.storage.usage import Spent

if TYPE_CHECKING:
    from layerlore.extraction.kind import Material

NOTHING = Spent()


@dataclass(frozen=True, slots=True)
class Answer:
    """``json`` fits the material's schema; ``usage`` is all that it took, with the requests that went before it."""

    json: Json
    model: str
    usage: Spent


class ThinkingFailed(LayerloreError):
    """No answer, and why: fit to be kept and shown, since it repeats no texts and no keys.

    ``retryable``: a later try of the same may succeed, not before ``retry_after_ms`` where that is given.
    ``spent``: what it cost all the same.
    ``of_setup``: not this job failed: no job can succeed until a key, a name or an account is put right.
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
    """Used by one event loop; any number of answers at a time, which whoever asks has to bound."""

    def model(self, kind: str) -> str:
        """The model that jobs of a kind are given to; empty: none."""

    async def answer(self, kind: str, material: "Material") -> Answer:
        """Ask for one answer. Raises ThinkingFailed, and InvalidInput for a schema that is none."""
