"""The service around an embedder: whatever that does, a query comes back in time and says why it is without a vector."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import anyio
import numpy as np
import pytest

from layerlore.memory.embedding.backoff import FIRST_PAUSE, LONGEST_PAUSE, Backoff
from layerlore.memory.embedding.port import EmbeddingFailed, Vectors
from layerlore.memory.embedding.service import CACHED_QUERIES, SLICE_CHARACTERS, Embedding
from layerlore.memory.embedding.use import UseEmbedder
from layerlore.memory.embedding.worker import Stopped, Worker
from layerlore.storage.records import Scope

pytestmark = pytest.mark.anyio
PATIENCE = 20.0  # seconds for what happens at once on an idle machine


class Model:
    """A model as it may be: what ``loads`` and ``embeds`` do can raise and wait. Texts are kept as they come."""

    dimension = 3
    languages = "none"
    weight = 0.5
    squeezed = False
    calibration = None

    def __init__(self, *, local: bool = True) -> None:
        self.name = "model"
        self.local = local
        self.seen: list[list[str]] = []
        self.loads: Callable[[], Any] = lambda: None
        self.embeds: Callable[[Sequence[str]], Any] = lambda texts: None

    def load(self) -> None:
        self.loads()

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.seen.append(list(texts))
        self.embeds(texts)
        return np.array([[len(text) % 5, 1, 0] for text in texts], dtype=np.float32)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def fails(reason: str = "it is broken", **options: Any) -> Callable[..., None]:
    def fail(*_: Any) -> None:
        raise EmbeddingFailed(reason, **options)

    return fail


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a model may wait for; it opens at the end."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
async def service(model: Model, clock: Clock) -> AsyncIterator[Embedding]:
    embedding = Embedding(model, patience_ms=5000, now=clock)
    yield embedding
    await embedding.close()


def hasty(model: Model, patience_ms: int = 50) -> Embedding:
    return Embedding(model, patience_ms=patience_ms)


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.sleep(0.005)


def embedding_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("embed-")]


async def test_a_query_gets_its_vector_and_the_next_time_from_memory(service: Embedding, model: Model) -> None:
    found, reason = await service.query("abcd")
    assert found is not None
    assert (found.model, found.vector.tolist(), reason) == ("model", [4, 1, 0], "")
    assert not found.vector.flags.writeable
    assert (await service.query("abcd"))[0] is found
    assert model.seen == [["abcd"]]
    model.name = "another"
    assert (await service.query("abcd"))[0] is not found


async def test_what_a_query_said_is_forgotten_with_any_scope(service: Embedding, model: Model) -> None:
    """A query does not say whose it was: so all of them are forgotten when somebody is."""
    ana, ben = Scope("acme", "bot", "ana"), Scope("acme", "bot", "ben")
    service.refused = {ana: {1}, ben: {2}}
    for _ in range(2):
        await service.query("abcd")
    assert model.seen == [["abcd"]]
    service.forget(ana)
    await service.query("abcd")
    assert model.seen == [["abcd"], ["abcd"]]
    assert service.refused == {ben: {2}}


async def test_only_the_newest_queries_are_remembered(service: Embedding, model: Model) -> None:
    for number in range(CACHED_QUERIES + 1):
        await service.query(f"query {number}")
    await service.query(f"query {CACHED_QUERIES}")
    assert len(model.seen) == CACHED_QUERIES + 1
    await service.query("query 0")
    assert len(model.seen) == CACHED_QUERIES + 2


async def test_a_slow_answer_is_not_waited_for_but_serves_the_next_time(model: Model, gate: threading.Event) -> None:
    service = hasty(model)
    assert (await service.query("first"))[0] is not None
    model.embeds = lambda texts: gate.wait(PATIENCE)
    began = time.monotonic()
    assert await service.query("slow") == (None, "the embedder took longer than 50 ms")
    assert time.monotonic() - began < 2
    gate.set()
    await until(lambda: service._made_before("slow") is not None)
    assert (await service.query("slow"))[0] is not None
    await service.close()


async def test_queries_that_nobody_waits_for_any_more_are_not_embedded(model: Model, gate: threading.Event) -> None:
    service = hasty(model)
    model.embeds = lambda texts: gate.wait(PATIENCE)
    for number in range(50):
        assert (await service.query(f"query {number}"))[0] is None
        if number == 2:
            service._patience_ms = 1
    assert len(service._queries._queue) <= 2
    gate.set()
    await until(lambda: service._queries.wait_idle(0))
    assert model.seen == [["query 0"]]
    await service.close()


async def test_an_embedder_that_hangs_is_soon_not_waited_for(
    model: Model, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = hasty(model, 100)
    await service.query("first")
    model.embeds = lambda texts: gate.wait(PATIENCE)
    assert (await service.query("hangs"))[0] is None
    monkeypatch.setattr("layerlore.memory.embedding.service._STALLED", 0.05)
    service._patience_ms = 60_000
    with anyio.fail_after(PATIENCE):
        assert (await service.query("next"))[0] is None
    gate.set()
    await until(lambda: service._queries.wait_idle(0))
    assert (await service.query("later"))[0] is not None
    await service.close()


async def test_while_it_loads_a_query_says_so(model: Model, gate: threading.Event) -> None:
    service = hasty(model)
    model.loads = lambda: gate.wait(PATIENCE)
    service.start()
    assert service.status().state == "loading"
    assert await service.query("x") == (None, "the embedder is loading")
    gate.set()
    await until(lambda: service.status().state == "ready")
    assert (await service.query("x"))[0] is not None
    await service.close()


async def test_a_load_that_failed_is_tried_again_after_pauses_that_grow(
    service: Embedding, model: Model, clock: Clock
) -> None:
    tries = []
    model.loads = lambda: (tries.append(1), fails("no weights")())
    service.start()
    await until(lambda: service.status().state == "failed")
    assert service.status().reason == "no weights"
    for pause in (FIRST_PAUSE, 2 * FIRST_PAUSE):
        assert await service.query("x") == (None, f"no weights; tried again in {pause:.0f} s")
        with pytest.raises(EmbeddingFailed, match="no weights; tried again in"):
            await service.embed(["x"])
        clock.now += pause
        assert await service.query("x") == (None, "no weights")
    assert len(tries) == 3
    model.loads = lambda: None
    clock.now += LONGEST_PAUSE
    assert (await service.query("x"))[0] is not None
    assert (service.status().state, service.status().reason) == ("ready", "")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (EmbeddingFailed("too many requests"), "too many requests"),
        (ValueError("with secrets"), "the embedder failed (ValueError)"),
        (MemoryError(), "the embedder failed (MemoryError)"),
    ],
)
async def test_a_failed_query_pauses_queries_and_hides_nothing_but_secrets(
    service: Embedding, model: Model, clock: Clock, error: Exception, told: str
) -> None:
    def fail(_: Any) -> None:
        raise error

    model.embeds = fail
    assert await service.query("x") == (None, told)
    assert (await service.query("y"))[1].startswith(f"{told}; tried again in 5 s")
    assert (service.status().state, service.status().reason) == ("failed", told)
    assert len(model.seen) == 1
    model.embeds = lambda texts: None
    assert [row is not None for row in await service.embed(["z"])] == [True]
    clock.now += FIRST_PAUSE
    assert (await service.query("y"))[0] is not None
    assert service.status().state == "ready"


async def test_a_query_that_is_refused_does_not_stop_others(service: Embedding, model: Model) -> None:
    model.embeds = fails("the request was refused", refused=True)
    assert await service.query("bad") == (None, "the request was refused")
    model.embeds = lambda texts: None
    assert (await service.query("good"))[0] is not None


async def test_where_nothing_may_be_sent_only_what_is_at_hand_is_used(clock: Clock) -> None:
    model = Model(local=False)
    service = Embedding(model, patience_ms=5000, now=clock)
    found, reason = await service.query("x", at_hand=True)
    assert (found, model.seen) == (None, [])
    assert "no vector of this query is at hand" in reason
    made, _ = await service.query("x")
    assert await service.query("x", at_hand=True) == (made, "")
    await service.close()
    local = Embedding(Model(), patience_ms=5000)
    assert (await local.query("x", at_hand=True))[0] is not None
    await local.close()


async def test_batches_keep_their_order_and_are_cut_into_slices(service: Embedding, model: Model) -> None:
    texts = ["a" * 900, "b" * 900, "c" * 900, "d" * 5000, "", "e"]
    vectors = await service.embed(texts)
    assert [row.tolist() for row in vectors if row is not None] == [[len(text) % 5, 1, 0] for text in texts]
    assert [text for some in model.seen for text in some] == texts
    assert all(len(some) == 1 or sum(map(len, some)) <= SLICE_CHARACTERS for some in model.seen)
    assert len(model.seen) == 4
    assert await service.embed([]) == []


async def test_a_text_that_is_refused_costs_only_its_own_vector(service: Embedding, model: Model) -> None:
    def embeds(texts: Sequence[str]) -> None:
        if len(texts) > 4 or any("bad" in text for text in texts):
            fails("the request was refused", refused=True)()

    model.embeds = embeds
    texts = [f"text {number}" for number in range(9)] + ["bad"] + ["last"]
    vectors = await service.embed(texts)
    assert [row is None for row in vectors] == ["bad" in text for text in texts]
    assert (await service.embed(["bad"])) == [None]
    assert service.status().state == "ready"


async def test_a_model_that_refuses_everything_has_failed(service: Embedding, model: Model, clock: Clock) -> None:
    model.embeds = fails("the request was refused", refused=True)
    with pytest.raises(EmbeddingFailed, match="refused"):
        await service.embed(["a", "b", "c"])
    assert len(model.seen) == 2
    with pytest.raises(EmbeddingFailed, match="refused; tried again in 5 s"):
        await service.embed(["a"])
    assert len(model.seen) == 2
    model.embeds = lambda texts: None
    clock.now += FIRST_PAUSE
    assert len(await service.embed(["a"])) == 1


async def test_a_query_does_not_stand_behind_a_batch(service: Embedding, model: Model, gate: threading.Event) -> None:
    model.embeds = lambda texts: gate.wait(PATIENCE) if texts == ["batch"] else None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service.embed, ["batch"])
        await until(lambda: model.seen == [["batch"]])
        assert (await service.query("query"))[0] is not None
        gate.set()


async def test_a_batch_of_a_local_model_makes_way_for_a_query(
    service: Embedding, model: Model, gate: threading.Event
) -> None:
    model.embeds = lambda texts: gate.wait(0.5) if texts == ["query"] else None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service.query, "query")
        await until(lambda: model.seen == [["query"]])
        tasks.start_soon(service.embed, ["batch"])
        await anyio.sleep(0.05)
        assert model.seen == [["query"]]
        gate.set()
    assert model.seen == [["query"], ["batch"]]


async def test_whoever_waits_can_be_cancelled(service: Embedding, model: Model, gate: threading.Event) -> None:
    model.embeds = lambda texts: gate.wait(PATIENCE)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service.query, "running")
        tasks.start_soon(service.query, "waiting")
        tasks.start_soon(service.embed, ["batch"])
        await until(lambda: len(model.seen) == 1)
        tasks.cancel_scope.cancel()
    gate.set()
    model.embeds = lambda texts: None
    assert (await service.query("after"))[0] is not None
    assert len(await service.embed(["after"])) == 1
    assert ["waiting"] not in model.seen


async def test_closing_ends_the_threads_and_what_waits(model: Model, gate: threading.Event) -> None:
    service = Embedding(model, patience_ms=5000)
    model.embeds = lambda texts: gate.wait(PATIENCE)
    answers: list[Any] = []

    async def ask(text: str) -> None:
        answers.append(await service.query(text))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "running")
        await until(lambda: len(model.seen) == 1)
        tasks.start_soon(ask, "waiting")
        await until(lambda: len(service._queries._queue) == 1)
        tasks.start_soon(service.close)
        await until(lambda: answers != [])
        assert answers == [(None, "the embedder has been closed")]
        gate.set()
    assert service.status().state == "closed"
    assert (await service.query("new")) == (None, "the embedder has been closed")
    with pytest.raises(EmbeddingFailed, match="has been closed"):
        await service.embed(["new"])
    await until(lambda: not embedding_threads())
    await service.close()


async def test_closing_does_not_wait_for_what_hangs(
    model: Model, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layerlore.memory.embedding.service._LINGER", 0.1)
    service = hasty(model)
    model.loads = lambda: gate.wait(PATIENCE)
    service.start()
    assert (await service.query("x"))[0] is None
    began = time.monotonic()
    await service.close()
    assert time.monotonic() - began < PATIENCE / 4
    gate.set()
    await until(lambda: not embedding_threads())


async def test_closing_while_the_real_model_loads_leaves_no_thread() -> None:
    service = Embedding(UseEmbedder())
    service.start()
    await until(lambda: embedding_threads() != [])
    began = time.monotonic()
    await service.close()
    assert time.monotonic() - began < PATIENCE / 4
    await until(lambda: not embedding_threads())


async def test_the_built_in_embedder_serves_both_ways(use: UseEmbedder) -> None:
    service = Embedding(use, patience_ms=10_000)
    texts = [f"{word} is a word about animals" for word in ("cat", "dog", "horse")] * 20
    rows = await service.embed(texts)
    found, _ = await service.query("a feline")
    assert found is not None
    assert all(row is not None for row in rows)
    near = [float(row @ found.vector) for row in rows[:3] if row is not None]
    assert near.index(max(near)) == 0
    await service.close()


def test_one_service_works_in_one_event_loop_after_the_other(model: Model) -> None:
    service = Embedding(model, patience_ms=5000)
    for text in ("first", "second"):
        found, reason = asyncio.run(service.query(text))
        assert found is not None, reason
        assert len(asyncio.run(service.embed([text]))) == 1
    asyncio.run(service.close())


def test_the_pause_after_failures_doubles_up_to_a_limit(clock: Clock) -> None:
    backoff = Backoff(clock)
    pauses = []
    for _ in range(10):
        backoff.failed("broken")
        backoff.failed("broken as well")
        pauses.append(backoff._until - clock.now)
        clock.now += pauses[-1]
        assert backoff.barred == ""
    assert pauses == [min(FIRST_PAUSE * 2**number, LONGEST_PAUSE) for number in range(10)]
    backoff.worked()
    backoff.failed("again")
    assert backoff.barred == "again; tried again in 5 s"


def test_a_worker_passes_on_whatever_its_work_raises() -> None:
    worker = Worker("embed-test")

    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        worker.submit(leave).result(PATIENCE)
    assert worker.submit(lambda: 1).result(PATIENCE) == 1
    worker.stop()
    with pytest.raises(Stopped):
        worker.submit(lambda: 1).result(PATIENCE)
    assert worker.join(PATIENCE)
