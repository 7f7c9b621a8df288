"""What a context is made of, read in one transaction, and what of it there is room for."""

from dataclasses import replace

from memstrata.memory.context.loading import load
from memstrata.memory.context.pieces import Piece, of_attempts, of_document, of_plan
from memstrata.memory.context.placing import Gathered, Said, placed
from memstrata.memory.engine import Engine
from memstrata.memory.window.choosing import policy_of
from memstrata.memory.window.view import window_of
from memstrata.memory.working_memory import Document
from memstrata.storage import attempts, plans, threads, windows, working_memory
from memstrata.storage.errors import NotFound
from memstrata.storage.records import Scope, Thread
from memstrata.storage.transaction import Tx

FEWEST_TOKENS = 500
MOST_TOKENS = 200_000
# Set aside for the line that says what is in the context, and for the frames of the conversation's blocks.
REPORT_TOKENS = 200
# The newest attempts of a thread that are shown.
MOST_ATTEMPTS = 20
# Of what falls out of the window, its first and its newest messages are summarised.
SUMMARISED_FIRST = 10
SUMMARISED_NEWEST = 50


async def gather(
    tx: Tx, engine: Engine, scope: Scope, thread_id: str, *, max_tokens: int, may_be_new: bool
) -> Gathered:
    """Read a context and share ``max_tokens`` out. ``may_be_new``: an unknown thread is one in which nothing was said
    yet. Raises NotFound."""
    thread = await _found(tx, scope, thread_id, may_be_new)
    policy, note = (
        policy_of(engine.windows, thread, engine.tokens, engine.limits) if thread else (engine.windows.default, "")
    )
    pieces = await _pieces(tx, engine, scope, thread, thread_id)
    room = max_tokens - REPORT_TOKENS
    if thread is None:
        return placed(thread_id, policy, note, pieces, None, room, max_tokens, engine.tokens)
    loaded = await load(tx, scope, thread, policy, room, engine.tokens)
    window = window_of([*loaded.lead, *loaded.run], policy, engine.tokens, older=loaded.older)
    made = placed(thread_id, policy, note, pieces, Said(thread, loaded, window), room, max_tokens, engine.tokens)
    if not made.left_out.summary_tokens:
        return made
    first, newest = await windows.between(
        tx, scope, thread, after=0, before=made.left_out.before, first=SUMMARISED_FIRST, newest=SUMMARISED_NEWEST
    )
    inside = {message.seq for message in made.window}
    sample = tuple(message for message in (*first, *newest) if message.seq not in inside)
    return replace(made, left_out=replace(made.left_out, sample=sample))


async def _found(tx: Tx, scope: Scope, thread_id: str, may_be_new: bool) -> Thread | None:
    try:
        return await threads.find(tx, scope, thread_id)
    except NotFound:
        if not may_be_new:
            raise
        return None


async def _pieces(tx: Tx, engine: Engine, scope: Scope, thread: Thread | None, thread_id: str) -> list[Piece]:
    counter, rules = engine.tokens, engine.working_memory
    pieces: list[Piece] = []
    profile = Document("resource", "", rules.of("resource"), await working_memory.newest(tx, scope, None))
    if profile.content:
        pieces.append(of_document(profile, "user-profile", counter))
    if thread is None:
        return pieces
    kept = Document("thread", thread_id, rules.of("thread"), await working_memory.newest(tx, scope, thread))
    if kept.content:
        pieces.append(of_document(kept, "session-memory", counter))
    open_plan = await plans.newest(tx, scope, thread)
    if open_plan is not None:
        pieces.append(of_plan(open_plan.plan, counter))
    logged = await attempts.newest(tx, scope, thread, task_key="", limit=MOST_ATTEMPTS)
    if logged.attempts:
        pieces.append(of_attempts(logged, counter))
    return pieces
