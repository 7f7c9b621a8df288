"""The opening of a connection's first answer: what a model has to know of its user and of open work, if it asks for nothing
else."""

from layerlore.memory.context.material import find_thread, make_pieces
from layerlore.memory.context.person import PersonMemory
from layerlore.memory.context.shares import share_blocks
from layerlore.memory.engine.engine import Engine
from layerlore.memory.work.plan_rules import is_open
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import working_memory
from layerlore.storage.work import plans

OPENING_TOKENS = 250
"""The most that an opening takes."""


async def make_opening(engine: Engine, scope: Scope, thread_id: str, max_tokens: int) -> str:
    """The profile, the thread's open plan and the work that is open, as the blocks of a context, cut to ``max_tokens``; "" if there
    is nothing of these."""
    person = None
    if scope.person:
        person = PersonMemory(await engine.database.read(working_memory.read_newest, scope.of_person, None))
    return await engine.database.read(_gather, scope, engine, thread_id, person, max_tokens)


async def _gather(
    tx: Tx, scope: Scope, engine: Engine, thread_id: str, person: PersonMemory | None, max_tokens: int
) -> str:
    thread = await find_thread(tx, scope, thread_id)
    pieces = await make_pieces(tx, engine, scope, thread, person, now=engine.now())
    kept = await plans.read_newest(tx, scope, thread) if thread else None
    # A context shows a plan that is done, too: what comes unasked is what is still open.
    open_plan = ["plan"] if kept is not None and is_open(kept.plan) else []
    chosen = [piece for piece in pieces if piece.name in ("user-profile", *open_plan, "open-work")]
    shares = share_blocks({piece.name: piece.tokens for piece in chosen}, max_tokens, 0)
    shown = [piece.within(shares.get(piece.name, 0), engine.tokens) for piece in chosen]
    return "\n".join(block.text for block in shown if block.text)
