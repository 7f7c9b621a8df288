"""The part of the person's own memory that a context in a project takes: the profile, and what fits the question."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from layerlore.memory.engine.engine import Engine
from layerlore.memory.recall.memory_block import RecalledMemory, find_memory, prepare_memory
from layerlore.memory.recall.recall import PreparedRecall
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, subjects, working_memory
from layerlore.storage.derived.working_memory import Version
from layerlore.storage.threads import threads


@dataclass(frozen=True, slots=True)
class PersonMemory:
    """``tokens``: the number in all of the person's own threads; ``entries``: how many are stored."""

    profile: Version | None = None
    recalled: RecalledMemory = field(default_factory=RecalledMemory)
    tokens: int = 0
    entries: int = 0


async def read_person(engine: Engine, scope: Scope, questions: Sequence[str], subject: str = "") -> PersonMemory | None:
    """The person's memories for a thread with the ``subject``, beside those of a project; None if the scope is not a
    project's.

    Raises LimitExceeded for a question that is too long.
    """
    if not scope.person:
        return None
    prepared = await prepare_memory(engine, scope.of_person, questions, subject=subject)
    return await engine.database.read(_read, scope.of_person, engine, prepared, subject)


async def read_subject(engine: Engine, scope: Scope, thread_id: str) -> str:
    """The subject of a project's thread, by which the person's memory is narrowed too; "" where the scope is no
    project's."""
    if scope.person:
        return await engine.database.read(subjects.read_subject, scope, thread_id)
    return ""


async def _read(tx: Tx, scope: Scope, engine: Engine, prepared: PreparedRecall | None, subject: str) -> PersonMemory:
    _, _, tokens = await threads.count_live(tx, scope)
    return PersonMemory(
        await working_memory.read_newest(tx, scope, None),
        await find_memory(tx, engine, scope, prepared, subject),
        tokens,
        await entries.count(tx, scope),
    )
