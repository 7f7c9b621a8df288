"""What completes an id that somebody is typing."""

from layerlore.memory.acceptance import check_text
from layerlore.server.actions.call import Call
from layerlore.storage import completion

# As many as the protocol allows in one answer.
MOST = 100


async def thread_ids(call: Call, typed: str) -> tuple[list[str], int]:
    """Ids of the caller's threads, those updated last first, and how many begin so in all."""
    return await call.engine.database.read(completion.thread_ids, call.scope, check_text(typed, "thread_id"), most=MOST)


async def run_ids(call: Call, typed: str) -> tuple[list[str], int]:
    """The same of the caller's runs."""
    return await call.engine.database.read(completion.run_ids, call.scope, check_text(typed, "run_id"), most=MOST)
