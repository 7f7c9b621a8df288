"""What models may take for a tenant's work in a day: then it waits for the next, and nobody else's does."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio
import pytest
from scripted_chat import ScriptedChat

from layerlore.storage.audit import usage_rows
from layerlore.storage.audit.usage_rows import day_of, next_day
from layerlore.storage.core.records import Tenant
from layerlore.storage.core.transaction import Database

from ..working import ANA, START, Counting, Work

pytestmark = pytest.mark.anyio

OURS = Tenant(ANA.tenant_id)
EVE = replace(ANA, tenant_id="globex")


@pytest.fixture
async def work(database: Database) -> Work:
    return await Work(database).begin()


def observing() -> ScriptedChat:
    return ScriptedChat(observe={})


async def test_a_tenant_that_has_spent_its_tokens_waits_for_the_next_day(
    work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    chat, day = observing(), day_of(START)
    spends = chat.spends.input_tokens + chat.spends.output_tokens
    with caplog.at_level(logging.WARNING, "layerlore.extraction.jobs.budget"):
        async with work.working([Counting()], chat, tenant_daily_tokens=2 * spends, concurrency=1):
            for number in range(5):
                await work.ask(f"t{number}")
            await work.until_effects(2)
            await work.ask("eve", scope=EVE)
            assert ("observe", "eve", 1, chat.name, "observe/1") in await work.until_effects(3)
            await work.until(lambda: caplog.records)
            rows = (await work.waiting()).values()
            assert {(row.due_at, row.attempts, row.error) for row in rows} == {(next_day(START), 0, None)}
            await work.ask("t9")
            await work.until(_put_off(work, "t9"))
            assert len(chat.request) == 3
            assert await work.database.read(usage_rows.read_of_tenant, OURS, day) == 2 * spends
            (said,) = [record.getMessage() for record in caplog.records]
            told = f"its {2 * spends:,} tokens are spent ({2 * spends:,})"
            assert said == f"no model is asked for tenant 'local' until the next day (UTC): {told}"
            work.now = next_day(START)
            await work.until_effects(5)


def _put_off(work: Work, thread: str) -> Callable[[], Awaitable[bool]]:
    async def is_put_off() -> bool:
        row = (await work.waiting()).get((thread, "observe"))
        return row is not None and row.due_at == next_day(START)

    return is_put_off


async def test_what_needs_no_model_goes_on(work: Work) -> None:
    await work.database.write(usage_rows.add_of_tenant, OURS, 1_000_000, now=START)
    kinds = [Counting(), Counting("digest", own_answer={})]
    async with work.working(kinds, observing(), tenant_daily_tokens=10):
        await work.ask("t")
        await work.ask("t", kind="digest")
        assert [effect[0] for effect in await work.until_effects(1)] == ["digest"]
        await work.until(_put_off(work, "t"))


async def test_without_an_allowance_nothing_is_put_off(work: Work) -> None:
    await work.database.write(usage_rows.add_of_tenant, OURS, 10**12, now=START)
    async with work.working([Counting()], observing()):
        await work.ask()
        await work.until_effects(1)


async def test_what_failed_keeps_its_failures_while_it_is_put_off(work: Work) -> None:
    chat = ScriptedChat(observe={"wrong": 1})
    async with work.working([Counting()], chat, tenant_daily_tokens=1):
        await work.ask()
        await work.until_failed(1)
        work.now += 3_600_000
        with anyio.fail_after(120):
            await work.until(_put_off(work, "t"))
        assert (await work.waiting())["t", "observe"].attempts == 1
