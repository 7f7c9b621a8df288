"""The service around an embedder: whatever that does, a query comes back in time and says why it is without a vector."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import anyio
import numpy as np
import pytest

from layerlore.memory.embedding.port import EmbeddingFailed, Vectors
from layerlore.memory.embedding.sentence_encoder import UseEmbedder
from layerlore.memory.embedding.service import (
    CACHED_QUERIES,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    SLICE_CHARACTERS,
    Backoff,
    EmbeddingService,
    Worker,
    WorkerStopped,
)
from layerlore.storage.core.records import Scope

pytestmark = pytest.mark.anyio
PATIENCE = 120.0  # seconds: only a hang takes so long


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
async def service(model: Model, clock: Clock) -> AsyncIterator[EmbeddingService]:
    embedding = EmbeddingService(model, patience_ms=5000, now=clock)
    yield embedding
    await embedding.close()


def hasty(model: Model, patience_ms: int = 50) -> EmbeddingService:
    return EmbeddingService(model, patience_ms=patience_ms)


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.sleep(0.005)


@pytest.fixture
def others() -> set[threading.Thread]:
    """The threads that other tests left behind, inside a model that hangs."""
    return set(threading.enumerate())


def embedding_threads(others: set[threading.Thread]) -> list[str]:
    """The threads of this test's embedders."""
    running = threading.enumerate()
    return [thread.name for thread in running if thread.name.startswith("embed-") and thread not in others]


async def test_a_query_gets_its_vector_and_the_next_time_from_memory(service: EmbeddingService, model: Model) -> None:
    found, reason = await service.query("abcd")
    assert found is not None
    assert (found.model, found.vector.tolist(), reason) == ("model", [4, 1, 0], "")
    assert not found.vector.flags.writeable
    assert (await service.query("abcd"))[0] is found
    assert model.seen == [["abcd"]]
    model.name = "another"
    assert (await service.query("abcd"))[0] is not found


async def test_what_a_query_said_is_forgotten_with_any_scope(service: EmbeddingService, model: Model) -> None:
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


async def test_only_the_newest_queries_are_remembered(service: EmbeddingService, model: Model) -> None:
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
    assert await service.query("slow") == (None, "the embedder took longer than 50 ms")
    gate.set()
    await until(lambda: service._find_cached("slow") is not None)
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
    await until(lambda: service._queries.wait_turn(0))
    assert model.seen == [["query 0"]]
    await service.close()


async def test_queries_that_wait_for_a_local_model_are_embedded_together(
    service: EmbeddingService, model: Model, gate: threading.Event
) -> None:
    await service.query("loaded")
    model.embeds = lambda texts: gate.wait(PATIENCE)
    found: dict[str, Any] = {}

    async def ask(text: str) -> None:
        found[text] = await service.query(text)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "first")
        await until(lambda: ["first"] in model.seen)
        for text in ("second", "third", "fourth", "third"):
            tasks.start_soon(ask, text)
        await until(lambda: len(service._waiting) == 5)
        gate.set()
    assert model.seen[-1] == ["second", "third", "fourth"]
    assert all(made.vector.tolist() == [len(text) % 5, 1, 0] for text, (made, _) in found.items())


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
    await until(lambda: service._queries.wait_turn(0))
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


async def test_the_first_queries_wait_together_until_a_local_model_is_loaded(
    model: Model, gate: threading.Event
) -> None:
    model.loads = lambda: gate.wait(PATIENCE)
    service = EmbeddingService(model, patience_ms=5000, load_patience_ms=60_000)
    found = []

    async def ask(text: str) -> None:
        found.append(await service.query(text))

    async with anyio.create_task_group() as tasks:
        for text in ("one", "two", "three"):
            tasks.start_soon(ask, text)
        await until(lambda: bool(service._queries._began))
        assert found == []
        gate.set()
    assert [reason for vector, reason in found if vector is None] == []
    await service.close()


async def test_a_model_that_loads_for_too_long_is_waited_for_once(model: Model, gate: threading.Event) -> None:
    model.loads = lambda: gate.wait(PATIENCE)
    service = EmbeddingService(model, patience_ms=1, load_patience_ms=50)
    assert await service.query("x") == (None, "the embedder is loading")
    service._load_patience_ms = 600_000
    with anyio.fail_after(PATIENCE):
        assert await service.query("y") == (None, "the embedder is loading")
    gate.set()
    await until(lambda: service.status().state == "ready")
    # A busy machine takes longer than a millisecond for the vector itself.
    service._patience_ms = 600_000
    assert (await service.query("x"))[0] is not None
    await service.close()


async def test_a_model_that_cannot_be_loaded_is_not_waited_for(model: Model) -> None:
    model.loads = fails("no weights")
    service = EmbeddingService(model, patience_ms=5000, load_patience_ms=600_000)
    with anyio.fail_after(PATIENCE):
        assert await service.query("x") == (None, "no weights")
        assert (await service.query("y"))[1].startswith("no weights; tried again in")
    await service.close()


async def test_a_loaded_model_that_hangs_has_the_time_of_a_query_alone(model: Model, gate: threading.Event) -> None:
    model.embeds = lambda texts: gate.wait(PATIENCE)
    service = EmbeddingService(model, patience_ms=50, load_patience_ms=600_000)
    with anyio.fail_after(PATIENCE):
        assert await service.query("x") == (None, "the embedder took longer than 50 ms")
    gate.set()
    await service.close()


async def test_a_remote_model_is_never_waited_for_longer_than_a_query_may_take(gate: threading.Event) -> None:
    model = Model(local=False)
    model.loads = lambda: gate.wait(PATIENCE)
    service = EmbeddingService(model, patience_ms=50, load_patience_ms=600_000)
    with anyio.fail_after(PATIENCE):
        assert await service.query("x") == (None, "the embedder is loading")
    gate.set()
    await service.close()


async def test_a_load_that_failed_is_tried_again_after_pauses_that_grow(
    service: EmbeddingService, model: Model, clock: Clock
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
    service: EmbeddingService, model: Model, clock: Clock, error: Exception, told: str
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


async def test_a_query_that_is_refused_does_not_stop_others(service: EmbeddingService, model: Model) -> None:
    model.embeds = fails("the request was refused", refused=True)
    assert await service.query("bad") == (None, "the request was refused")
    model.embeds = lambda texts: None
    assert (await service.query("good"))[0] is not None


async def test_where_nothing_may_be_sent_only_what_is_at_hand_is_used(clock: Clock) -> None:
    model = Model(local=False)
    service = EmbeddingService(model, patience_ms=5000, now=clock)
    found, reason = await service.query("x", at_hand=True)
    assert (found, model.seen) == (None, [])
    assert "no vector of this query is at hand" in reason
    made, _ = await service.query("x")
    assert await service.query("x", at_hand=True) == (made, "")
    await service.close()
    local = EmbeddingService(Model(), patience_ms=5000)
    assert (await local.query("x", at_hand=True))[0] is not None
    await local.close()


async def test_batches_keep_their_order_and_are_cut_into_slices(service: EmbeddingService, model: Model) -> None:
    texts = ["a" * 900, "b" * 900, "c" * 900, "d" * 5000, "", "e"]
    vectors = await service.embed(texts)
    assert [row.tolist() for row in vectors if row is not None] == [[len(text) % 5, 1, 0] for text in texts]
    assert [text for some in model.seen for text in some] == texts
    assert all(len(some) == 1 or sum(map(len, some)) <= SLICE_CHARACTERS for some in model.seen)
    assert len(model.seen) == 4
    assert await service.embed([]) == []


async def test_a_text_that_is_refused_costs_only_its_own_vector(service: EmbeddingService, model: Model) -> None:
    def embeds(texts: Sequence[str]) -> None:
        if len(texts) > 4 or any("bad" in text for text in texts):
            fails("the request was refused", refused=True)()

    model.embeds = embeds
    texts = [f"text {number}" for number in range(9)] + ["bad"] + ["last"]
    vectors = await service.embed(texts)
    assert [row is None for row in vectors] == ["bad" in text for text in texts]
    assert (await service.embed(["bad"])) == [None]
    assert service.status().state == "ready"


async def test_a_model_that_refuses_everything_has_failed(
    service: EmbeddingService, model: Model, clock: Clock
) -> None:
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


async def test_a_query_does_not_stand_behind_a_batch(
    service: EmbeddingService, model: Model, gate: threading.Event
) -> None:
    model.embeds = lambda texts: gate.wait(PATIENCE) if texts == ["batch"] else None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service.embed, ["batch"])
        await until(lambda: model.seen == [["batch"]])
        assert (await service.query("query"))[0] is not None
        gate.set()


async def test_who_makes_way_waits_for_the_queries_that_are_there_and_for_none_that_come_later(
    service: EmbeddingService, model: Model, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where queries come all the time, there is none that is the last."""
    monkeypatch.setattr("layerlore.memory.embedding.service._YIELD", PATIENCE)
    first = threading.Event()
    model.embeds = lambda texts: {"first": first, "later": gate}[texts[0]].wait(PATIENCE)
    made_way: list[bool] = []

    async def make_way() -> None:
        await service.make_way()
        made_way.append(True)

    with anyio.fail_after(PATIENCE / 2):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(service.query, "first")
            await until(lambda: model.seen == [["first"]])
            tasks.start_soon(make_way)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(service.query, "later")
            await until(lambda: bool(service._queries._queue))
            assert made_way == []
            first.set()
            await until(lambda: bool(made_way))
            gate.set()


async def test_nobody_makes_way_where_there_are_no_queries_or_a_remote_model(
    service: EmbeddingService, model: Model, gate: threading.Event
) -> None:
    with anyio.fail_after(PATIENCE):
        await service.make_way()
        model.local = False
        model.embeds = lambda texts: gate.wait(PATIENCE)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(service.query, "query")
            await until(lambda: model.seen == [["query"]])
            await service.make_way()
            gate.set()


async def test_a_text_that_was_asked_is_not_embedded_again(service: EmbeddingService, model: Model) -> None:
    request = (await service.query("asked"))[0]
    assert request is not None
    vectors = await service.embed(["one", "asked", "three"])
    assert model.seen == [["asked"], ["one", "three"]]
    assert [row.tolist() for row in vectors if row is not None] == [[3, 1, 0], request.vector.tolist(), [0, 1, 0]]


async def test_whoever_waits_can_be_cancelled(service: EmbeddingService, model: Model, gate: threading.Event) -> None:
    model.embeds = lambda texts: gate.wait(PATIENCE)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service.query, "running")
        tasks.start_soon(service.query, "waiting")
        tasks.start_soon(service.embed, ["batch"])
        await until(lambda: len(model.seen) == 2)
        tasks.cancel_scope.cancel()
    gate.set()
    model.embeds = lambda texts: None
    assert (await service.query("after"))[0] is not None
    assert len(await service.embed(["after"])) == 1
    assert ["waiting"] not in model.seen


async def test_closing_ends_the_threads_and_what_waits(
    model: Model, gate: threading.Event, others: set[threading.Thread]
) -> None:
    service = EmbeddingService(model, patience_ms=5000)
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
    await until(lambda: not embedding_threads(others))
    await service.close()


async def test_closing_does_not_wait_for_what_hangs(
    model: Model, gate: threading.Event, others: set[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layerlore.memory.embedding.service._LINGER", 0.1)
    service = hasty(model)
    model.loads = lambda: gate.wait(PATIENCE)
    service.start()
    assert (await service.query("x"))[0] is None
    await service.close()
    assert embedding_threads(others), "what hangs hangs still"
    gate.set()
    await until(lambda: not embedding_threads(others))


async def test_closing_while_the_real_model_loads_leaves_no_thread(others: set[threading.Thread]) -> None:
    service = EmbeddingService(UseEmbedder())
    service.start()
    await until(lambda: embedding_threads(others) != [])
    await service.close()
    await until(lambda: not embedding_threads(others))


async def test_the_built_in_embedder_serves_both_ways(use: UseEmbedder) -> None:
    service = EmbeddingService(use, patience_ms=10_000)
    texts = [f"{word} is a word about animals" for word in ("cat", "dog", "horse")] * 20
    rows = await service.embed(texts)
    found, _ = await service.query("a feline")
    assert found is not None
    assert all(row is not None for row in rows)
    near = [float(row @ found.vector) for row in rows[:3] if row is not None]
    assert near.index(max(near)) == 0
    await service.close()


def test_one_service_works_in_one_event_loop_after_the_other(model: Model) -> None:
    service = EmbeddingService(model, patience_ms=5000)
    for text in ("first", "second"):
        found, reason = asyncio.run(service.query(text))
        assert found is not None, reason
        assert len(asyncio.run(service.embed([text]))) == 1
    asyncio.run(service.close())


def test_the_pause_after_failures_doubles_up_to_a_limit(clock: Clock) -> None:
    backoff = Backoff(clock)
    pauses = []
    for _ in range(10):
        backoff.note_failure("broken")
        backoff.note_failure("broken as well")
        pauses.append(backoff._until - clock.now)
        clock.now += pauses[-1]
        assert backoff.barred == ""
    assert pauses == [min(FIRST_PAUSE * 2**number, LONGEST_PAUSE) for number in range(10)]
    backoff.note_success()
    backoff.note_failure("again")
    assert backoff.barred == "again; tried again in 5 s"


def test_a_worker_passes_on_whatever_its_work_raises() -> None:
    worker = Worker("embed-test")

    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        worker.submit(leave).result(PATIENCE)
    assert worker.submit(lambda: 1).result(PATIENCE) == 1
    worker.stop()
    with pytest.raises(WorkerStopped):
        worker.submit(lambda: 1).result(PATIENCE)
    assert worker.join(PATIENCE)
