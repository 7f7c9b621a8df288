"""What is read for a context: no more than there is room for, whatever the policy wants to keep."""

import pytest

from layerlore.memory.context.caches import WindowMessages
from layerlore.memory.context.window_loader import load_window
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.window.policy import WindowPolicy
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.threads import threads

from ...conformance.building import ANA, draft, say

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "policy",
    [WindowPolicy(last_messages=100_000), WindowPolicy(limit="tokens", max_tokens=1, min_messages=100_000)],
)
async def test_a_policy_that_keeps_more_than_there_is_room_for_reads_no_more_the_longer_the_thread_is(
    database: Database, policy: WindowPolicy
) -> None:
    await say(database, "main", *(draft() for _ in range(400)))

    async def read(tx: Tx, scope: Scope) -> tuple[int, int]:
        thread = await threads.find(tx, ANA, "main")
        loaded = await load_window(tx, ANA, thread, policy, 500, TokenCounter(None), WindowMessages())
        return len(loaded.run), loaded.older

    given, older = await database.read(read, ANA)
    assert 50 <= given < 150
    assert given + older == 400
