"""What a kind of background work is: how a job's material is read, what a model's answer must be, how it is stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from layerlore.memory.engine import Engine
from layerlore.memory.quoting import without_turns
from layerlore.storage.jobs import Claim, Fenced, Kind
from layerlore.storage.records import Json
from layerlore.storage.transaction import Tx

__all__ = ["WITHOUT_MODEL", "Claim", "Fenced", "JobKind", "Kind", "Material", "Readied", "Refused", "Stale", "Thinker"]

EXTRACTIVE = "extractive"
"""The model's name of what was made without one."""

WITHOUT_MODEL: frozenset[Kind] = frozenset({"digest"})
"""Kinds whose answer is always ``digested``: no model is asked, and no budget stops them."""


class Refused(Exception):
    """An answer is not stored. The text says what was wrong and what is allowed: it goes back to whoever answered."""


class Stale(Exception):
    """What the answer was made from has changed meanwhile: nothing is stored, and the job is tried again at once."""


@dataclass(frozen=True, slots=True)
class Thinker:
    """Who made an answer: ``extractive``, a litellm name or ``host:<client>``; and with which prompt."""

    model: str
    prompt: str


@dataclass(frozen=True, slots=True)
class Material:
    """What a model needs for one job.

    ``instructions`` is the rendered prompt (system text), ``content`` JSON text that is data and never instructions,
    ``schema`` the JSON Schema of the answer (an object), ``prompt`` the prompt's name and version (``observe/1``).
    ``basis`` is what the kind needs when it stores the answer: it is kept in memory, or read again from the claim.
    ``beside`` names what of the content only helps to understand the rest: an answer holds though that has changed.
    ``silent``: nothing was said in it that a model could say something of, so that none is asked.
    """

    instructions: str
    content: str
    schema: Json
    prompt: str
    basis: Any
    beside: frozenset[str] = frozenset()
    silent: bool = False

    def __post_init__(self) -> None:
        # Whoever serves the model may read the signs of its chat template in what it is given.
        object.__setattr__(self, "content", without_turns(self.content))


class JobKind(Protocol):
    """One kind of background work. Usage is recorded under its name."""

    @property
    def name(self) -> Kind: ...

    @property
    def source(self) -> str:
        """The source that usage is recorded under: the name."""
        ...

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """Read what the job is about, in a transaction of its own. None: there is nothing to do, the job is done."""
        ...

    def read(self, answer: Json, material: Material) -> Any:
        """Check what a model, or the digest, answered. Raises Refused."""
        ...

    async def commit(
        self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: Any, by: Thinker
    ) -> int | None:
        """Store the result and move the cursor, in the transaction that also ends the job. It awaits nothing but
        ``tx``: ids, times and vectors are in the result. Locks the thread, if there is one, before anything else, as
        every writer does. Returns how far the job is done, if not up to ``claim.seq``: with that seq it is finished,
        and so stays due. Raises Stale."""
        ...

    def digested(self, material: Material) -> Json | None:
        """The answer without a model, in the same shape. None: this kind waits for a model."""
        ...


@runtime_checkable
class Readied(Protocol):
    """A kind that does something between reading an answer and storing it, such as embedding."""

    async def ready(self, engine: Engine, material: Material, result: Any) -> Any:
        """The result, with ids, times and vectors; outside of any transaction. Raises Refused, Stale."""
        ...


@runtime_checkable
class InPart(Protocol):
    """An answer as it was read, of which parts cannot be stored: why, in words that repeat nothing of them."""

    @property
    def refused(self) -> Sequence[str]: ...
