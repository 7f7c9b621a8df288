"""The worker notes a conversation while it goes on: nobody waits, the block only grows, and what is read is told."""

import itertools

import anyio
import pytest
from scripted_chat import ScriptedChat

from layerlore.extraction.jobs.worker import JobWorker, Pace
from layerlore.extraction.kinds.kind import JobKind
from layerlore.memory.observations.observation_text import CLOSING, render_observations
from layerlore.storage.core.transaction import Database

from ..talking import COUNTER, KINDS, SMALL, Talk, one_each, words

pytestmark = pytest.mark.anyio

PATIENCE = 120.0  # seconds: only a hang takes so long


async def wait_until_observed(talk: Talk) -> None:
    """Until nothing is due to be observed."""
    with anyio.fail_after(PATIENCE):
        while (await talk.found()).raw_tokens >= 1000 or "observe" in await talk.waiting():
            await anyio.sleep(0.01)


async def test_the_block_of_a_growing_thread_is_a_prefix_of_the_later_one(database: Database) -> None:
    talk = Talk.on(database, SMALL.model_copy(update={"reflect_tokens": 100_000, "stand_in": 10}))
    kinds: list[JobKind] = list(KINDS.values())
    chat = ScriptedChat(observe=one_each)
    worker = JobWorker(talk.engine, kinds, chat, holder="one", pace=Pace(poll_seconds=0.05, gather_seconds=0.0))
    blocks: list[str] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker.run)
        for number in range(1, 61):
            await talk.say(words(f"m{number}"))
            blocks.append(render_observations(await talk.rows(), COUNTER))
            if number % 30 == 0:
                await wait_until_observed(talk)
                blocks.append(render_observations(await talk.rows(), COUNTER))
        tasks.cancel_scope.cancel()
    for earlier, later in itertools.pairwise(blocks):
        assert later.encode().startswith(earlier.removesuffix(CLOSING).encode())
    assert len(set(blocks)) >= 3
    thread = await talk.found()
    assert await talk.texts() == [f"m{n}" for n in range(1, thread.observed_seq + 1)]
    assert thread.observed_seq >= 40
