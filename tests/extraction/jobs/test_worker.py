"""The worker: what is due is done once, whatever the model, the budget, the clock or the end of the process do."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import anyio
import pytest
from scripted_chat import ScriptedChat

from layerlore.extraction.chat.chat_port import ChatFailed
from layerlore.extraction.jobs.budget import FIRST_MS, LONGEST_MS, OUTAGE, DailyBudget, retry_pause_ms
from layerlore.extraction.jobs.worker import MOST_STALE, Pace, attempt
from layerlore.extraction.kinds.entries import EntryExtractor
from layerlore.extraction.kinds.kind import EXTRACTIVE, Stale
from layerlore.memory.secrets.redaction import Redactor
from layerlore.storage.audit import usage_rows
from layerlore.storage.audit.usage_rows import OfDay, UsageSums, day_of, next_day
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import MOST_FAILURES, Claim, Kind

from ..working import ANA, PATIENCE, START, Counting, Work

pytestmark = pytest.mark.anyio

DAY = 86_400_000


@pytest.fixture
async def work(database: Database) -> Work:
    return await Work(database).begin()


def fails(**options: Any) -> ChatFailed:
    return ChatFailed("it is down", **{"retryable": True, **options})


def raises(error: Exception, times: int = 10**9) -> Any:
    left = iter(range(times))

    def hook() -> None:
        if next(left, None) is not None:
            raise error

    return hook


async def test_a_job_is_done_once_by_the_model_that_is_named_with_it(work: Work) -> None:
    chat = ScriptedChat(observe={})
    async with work.working([Counting()], chat):
        await work.ask("t", 3)
        assert await work.until_effects(1) == [("observe", "t", 3, chat.name, "observe/1")]
        await work.until_done()
    assert len(chat.request) == 1
    lines = await work.database.read(usage_rows.of_resource, ANA)
    assert [(line.model, line.source, line.spent) for line in lines] == [(chat.name, "observe", chat.spends)]


async def test_a_write_wakes_the_worker_before_its_next_look(work: Work) -> None:
    async with work.working([Counting(own_answer={})], pace=Pace(poll_seconds=3600, gather_seconds=0)):
        await work.ask("t", 1)
        work.engine.wake.notify()
        await work.until_effects(1)


async def test_a_job_that_is_due_later_is_begun_when_it_is_due(work: Work) -> None:
    await work.database.write(job_rows.request, ANA, "t", "observe", 1, due_at=START + 60, now=START)
    async with work.working([Counting(own_answer={})]):
        await work.ask("other")
        await work.until_effects(1)
        work.now += 60
        assert len(await work.until_effects(2)) == 2


async def test_without_a_model_the_digest_answers_and_what_has_none_waits_for_the_host(work: Work) -> None:
    await work.ask(kind="observe")
    await work.ask(kind="entries")
    async with work.working([Counting("observe", own_answer={}), Counting("entries")]):
        assert await work.until_effects(1) == [("observe", "t", 1, EXTRACTIVE, "observe/1")]

        async def free() -> bool:
            return (await work.waiting())["t", "entries"].state == "waiting"

        await work.until(free)
        await work.ask("other")
        await work.until_effects(2)
    claim = await work.database.write(job_rows.claim_in, ANA, ["entries"], holder="host", now=START, lease_ms=1)
    assert claim is not None
    assert claim.attempts == 0
    assert claim.epoch < 6, "it was not taken up again and again"


async def test_jobs_that_only_a_model_can_do_are_never_in_the_hands_of_a_worker_without_one(work: Work) -> None:
    await work.ask(kind="entries")
    await work.ask(kind="observe")
    async with work.working([EntryExtractor(), Counting(own_answer={})]):
        await work.until_effects(1)
        await work.ask("other")
        await work.until_effects(2)
    claim = await work.database.write(job_rows.claim_in, ANA, ["entries"], holder="host", now=START, lease_ms=1)
    assert claim is not None
    assert claim.epoch == 1, "the host is the first to have it"


async def test_kinds_that_the_chat_has_no_model_for_are_digested(work: Work) -> None:
    chat = ScriptedChat(observe={})
    for kind in ("observe", "title", "digest"):
        await work.ask(kind=kind)
    async with work.working([Counting(), Counting("title", own_answer={}), Counting("digest", own_answer={})], chat):
        assert [(row[0], row[3]) for row in await work.until_effects(3)] == [
            ("digest", EXTRACTIVE),
            ("observe", chat.name),
            ("title", EXTRACTIVE),
        ]


async def test_a_refused_answer_is_asked_for_again_and_at_last_the_job_is_dead(work: Work) -> None:
    chat = ScriptedChat(observe={"wrong": "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"})
    async with work.working([Counting()], chat):
        await work.ask()
        for failures in range(1, MOST_FAILURES + 1):
            row = await work.until_failed(failures)
            assert row.error is not None
            assert row.error.startswith("there may be no 'wrong'")
            assert "abcdefghijkl" not in row.error, "secrets are masked"
            assert row.due_at == work.now + retry_pause_ms(failures, 0.0)
            work.now = row.due_at
        await work.ask("other", kind="observe")
        await work.until_failed(1, "other")
    assert (await work.waiting())["t", "observe"].state == "dead"
    assert len(chat.request) == MOST_FAILURES + 1
    assert await work.effects() == []


async def test_one_bad_job_ends_dead_and_all_others_are_done(work: Work) -> None:
    bad = Counting("observe", own_answer={}, on_commit=raises(ValueError("secret words")))
    await work.ask("bad", kind="observe")
    for n in range(30):
        await work.ask(f"t{n}", kind="title")
    async with work.working([bad, Counting("title", own_answer={})]):
        await work.until_effects(30)
        for failures in range(1, MOST_FAILURES + 1):
            row = await work.until_failed(failures, "bad")
            work.now = row.due_at
    row = (await work.waiting())["bad", "observe"]
    assert (row.state, row.error) == ("dead", "an unexpected error (ValueError), see the log")


async def test_a_failure_that_no_retry_mends_ends_the_job_at_once(work: Work) -> None:
    async with work.working([Counting()], ScriptedChat(observe=fails(retryable=False))):
        await work.ask()
        assert (await work.until_failed(1)).state == "dead"


async def test_a_provider_that_wants_to_be_left_alone_is_and_the_worker_says_so(work: Work) -> None:
    chat = ScriptedChat(observe=fails(retry_after_ms=90_000))
    chat.tell("observe", {})
    async with work.working([Counting(), Counting("digest", own_answer={})], chat) as worker:
        await work.ask()
        assert (await work.until_failed(1)).due_at == START + 90_000
        await work.ask("other")
        await work.ask("other", kind="digest")
        await work.until_effects(1)
        assert worker.pause is not None
        assert (worker.pause.reason, worker.pause.until) == ("it is down", START + 90_000)
        assert len(chat.request) == 1
        work.now += 90_000
        await work.until_effects(3)
        assert worker.pause is None


async def test_no_model_is_asked_through_a_pause_that_begins_while_a_job_is_claimed(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = ScriptedChat(observe={})
    worker = work.worker([Counting()], chat)
    claim, claimed = job_rows.claim, []

    async def claim_as_another_attempt_fails(tx: Tx, kinds: Collection[Kind], **options: Any) -> Claim | None:
        found = await claim(tx, kinds, **options)
        if found is not None and not claimed:
            worker._pauses.note_failure(fails(retry_after_ms=90_000), work.now)
        claimed.append(found)
        return found

    monkeypatch.setattr(job_rows, "claim", claim_as_another_attempt_fails)
    await work.ask()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker.run)

        async def handed_back() -> bool:
            return bool(claimed) and (await work.waiting())["t", "observe"].state == "waiting"

        await work.until(handed_back)
        assert chat.request == []
        assert (await work.waiting())["t", "observe"].attempts == 0
        work.now += 90_000
        assert len(await work.until_effects(1)) == 1
        tasks.cancel_scope.cancel()


async def test_when_the_provider_may_be_asked_again_the_worker_does_not_wait_for_its_next_look(work: Work) -> None:
    chat = ScriptedChat(observe=fails(retry_after_ms=60))
    chat.tell("observe", {})
    await work.ask()
    async with work.working([Counting()], chat, pace=Pace(poll_seconds=3600, gather_seconds=0)):
        await work.until_failed(1)
        work.now += FIRST_MS
        await work.until_effects(1)


async def test_a_wrong_setup_is_no_jobs_fault(work: Work) -> None:
    chat = ScriptedChat(observe=fails(of_setup=True, retry_after_ms=1000))
    chat.tell("observe", fails(of_setup=True), {})
    async with work.working([Counting()], chat) as worker:
        await work.ask()
        await work.until(lambda: worker.pause)
        work.now += 1000
        await work.until(lambda: worker.pause and worker.pause.until == START + 1000 + LONGEST_MS)
        assert (await work.waiting())["t", "observe"].attempts == 0
        work.now += LONGEST_MS
        await work.until_effects(1)


async def test_a_model_that_fails_again_and_again_is_left_alone_whatever_the_job(work: Work) -> None:
    chat = ScriptedChat(observe=fails())
    for n in range(10):
        await work.ask(f"t{n}")
    async with work.working([Counting()], chat, concurrency=1) as worker:
        await work.until(lambda: worker.pause)
        assert len(chat.request) == OUTAGE
        assert len(await work.waiting()) == 10


async def test_a_spent_budget_stops_the_models_until_the_next_day_and_nothing_else(work: Work) -> None:
    chat = ScriptedChat(observe={})
    each = chat.spends.input_tokens + chat.spends.output_tokens
    kinds = [Counting(), Counting("digest", own_answer={})]
    async with work.working(kinds, chat, budget=DailyBudget(daily_tokens=2 * each), concurrency=1) as worker:
        for n in range(5):
            await work.ask(f"t{n}")
        await work.until(lambda: worker.pause)
        await work.ask("t9", kind="digest")
        await work.until_effects(3)
        assert len(chat.request) == 2
        assert worker.pause is not None
        assert worker.pause.reason == f"today's budget of {2 * each} tokens is spent ({2 * each})"
        assert worker.pause.until == next_day(START)
        work.now = next_day(START)
        await work.until_effects(5)
        assert day_of(work.now) != day_of(START)


async def test_money_is_a_budget_too(work: Work) -> None:
    chat = ScriptedChat(observe={})
    chat.spends = UsageSums(1, 1, 1, 30_000_000)
    async with work.working([Counting()], chat, budget=DailyBudget(daily_usd=0.05), concurrency=1) as worker:
        for n in range(4):
            await work.ask(f"t{n}")
        await work.until(lambda: worker.pause)
        assert worker.pause is not None
        assert worker.pause.reason == "today's budget of $0.05 is spent ($0.0600)"
        assert len(chat.request) == 2


@pytest.mark.parametrize("how", ["an answer that is refused", "no answer"])
async def test_what_an_answer_cost_is_counted_whether_or_not_it_can_be_used(work: Work, how: str) -> None:
    chat = ScriptedChat(observe={"wrong": 1} if how != "no answer" else fails(spent=UsageSums(1, 100, 20, 3_000)))
    async with work.working([Counting()], chat):
        await work.ask()
        await work.until_failed(1)
    assert await work.database.read_installation(usage_rows.read_of_day, day_of(START)) == OfDay(120, 3_000)
    (line,) = await work.database.read(usage_rows.of_resource, ANA)
    assert (line.model, line.spent) == (chat.name, chat.spends)


async def test_jobs_under_way_are_handed_back_when_the_worker_ends(work: Work) -> None:
    chat = ScriptedChat(observe={})
    chat.hold()
    for n in range(3):
        await work.ask(f"t{n}")
    with anyio.fail_after(PATIENCE):
        async with work.working([Counting()], chat, concurrency=2):
            await work.until(lambda: len(chat.request) == 2)
    rows = (await work.waiting()).values()
    assert {(row.state, row.attempts) for row in rows} == {("waiting", 0)}
    async with work.working([Counting(own_answer={})]):
        await work.until_effects(3)


async def test_no_more_calls_at_a_time_than_allowed_and_what_needs_no_model_goes_on(work: Work) -> None:
    chat = ScriptedChat(observe={})
    chat.hold()
    for n in range(6):
        await work.ask(f"t{n}")
    await work.ask("t", kind="digest")
    async with work.working([Counting(), Counting("digest", own_answer={})], chat, concurrency=2):
        await work.until_effects(1)
        await work.until(lambda: len(chat.request) == 2)
        chat.release()
        await work.until_effects(7)


async def test_the_lease_is_prolonged_while_a_model_thinks(work: Work) -> None:
    chat = ScriptedChat(observe={})
    chat.hold()
    async with work.working([Counting()], chat):
        await work.ask()
        await chat.begun.wait()
        for _ in range(3):
            work.now += 20_000

            async def prolonged() -> bool:
                return (
                    await work.database.read_installation(job_rows.find_soonest, ["observe"], now=work.now)
                    == work.now + 30_000
                )

            await work.until(prolonged)
        chat.release()
        await work.until_effects(1)


async def test_who_loses_the_lease_stops_and_stores_nothing(work: Work) -> None:
    chat = ScriptedChat(observe={})
    chat.hold()
    async with work.working([Counting()], chat, pace=Pace(beat_seconds=0.02, poll_seconds=3600)):
        await work.ask()
        work.engine.wake.notify()
        await chat.begun.wait()

        async def other() -> Claim | None:
            late = work.now + 31_000
            return await work.database.write_installation(
                job_rows.claim, ["observe"], holder="other", now=late, lease_ms=30_000
            )

        taken = await other()
        assert taken is not None
        await work.database.write(job_rows.finish, taken, now=work.now)
        chat.release()
        await work.ask("next")
        work.engine.wake.notify()
        assert [row[1] for row in await work.until_effects(1)] == ["next"]


async def test_an_answer_to_a_job_that_somebody_else_has_is_not_stored(work: Work) -> None:
    await work.ask()
    claims = [
        await work.database.write_installation(
            job_rows.claim, ["observe"], holder="x", now=START + n * 40_000, lease_ms=30_000
        )
        for n in range(2)
    ]
    first, second = claims
    assert first is not None
    assert second is not None
    with pytest.raises(job_rows.Fenced):
        await attempt(work.engine, Counting(own_answer={}), first, None)
    assert await work.effects() == []
    await attempt(work.engine, Counting(own_answer={}), second, None)
    with pytest.raises(job_rows.Fenced):
        await attempt(work.engine, Counting(own_answer={}), second, None)
    assert len(await work.effects()) == 1


async def test_changed_material_is_tried_again_at_once_and_not_for_ever(work: Work) -> None:
    async with work.working([Counting(own_answer={}, on_commit=raises(Stale("the cursor moved"), MOST_STALE - 1))]):
        await work.ask()
        await work.until_effects(1)
    assert len(await work.effects()) == 1, "what was not stored is undone"
    async with work.working([Counting("title", own_answer={}, on_commit=raises(Stale("the cursor moved")))]):
        await work.ask(kind="title")
        row = await work.until_failed(1, kind="title")
        assert row.error == "its material kept changing: the cursor moved"
        assert row.due_at > work.now


@pytest.mark.parametrize("how", ["nothing to do", "the thread is deleted"])
async def test_a_job_without_anything_to_do_is_done(work: Work, how: str) -> None:
    chat = ScriptedChat(observe={})
    gone = raises(NotFound("no thread")) if how != "nothing to do" else lambda: None
    async with work.working([Counting(nothing=True, on_prepare=gone)], chat):
        await work.ask()
        await work.until_done()
    assert (chat.request, await work.effects()) == ([], [])


async def test_two_workers_share_the_jobs(work: Work) -> None:
    kinds: list[Kind] = ["observe", "title", "summary"]
    for n in range(60):
        await work.ask(f"t{n // 3}", kind=kinds[n % 3])
    every = [Counting(kind, own_answer={}) for kind in kinds]
    async with work.working(every, holder="one"), work.working(every, holder="two"):
        found = await work.until_effects(60)
        await work.until_done()
    assert len(set(found)) == len(found) == 60


def test_pauses_grow_from_a_second_to_five_minutes_with_some_chance() -> None:
    pauses = [retry_pause_ms(failures, 0.0) for failures in range(1, MOST_FAILURES)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (FIRST_MS, LONGEST_MS)
    assert retry_pause_ms(50, 0.0) == LONGEST_MS
    assert retry_pause_ms(1, 1.0) == FIRST_MS * 1.25
    assert retry_pause_ms(1, 0.0, 60_000) == 60_000
    assert retry_pause_ms(4, 0.0, 60_000) == LONGEST_MS


class Broken(Redactor):
    def text(self, text: str) -> tuple[str, int]:
        raise RuntimeError("a defect")


async def test_a_defect_at_the_end_of_a_job_ends_neither_the_worker_nor_its_other_jobs(work: Work) -> None:
    work.engine = replace(work.engine, redactor=Broken(b"k" * 32))
    await work.ask("one")
    async with work.working([Counting("observe", own_answer={"wrong": "it"}), Counting("title", own_answer={})]):
        await work.ask("other", kind="title")
        assert len(await work.until_effects(1)) == 1
        assert (await work.waiting())["one", "observe"].state == "running"  # until its lease has run out
