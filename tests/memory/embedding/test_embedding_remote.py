"""Remote embedders: litellm itself, against a server that answers as told."""

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
import pytest
from fake_openai import FakeOpenAI, Refused, fake_openai, hashed_vector

from layerlore.memory.embedding.port import EmbeddingFailed, Vectors
from layerlore.memory.embedding.remote import MOST_CHARACTERS, RemoteEmbedder
from layerlore.memory.embedding.service import EmbeddingService

MODEL = "openai/text-embedding-3-small"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with fake_openai() as server:
        yield server


class InAThread(RemoteEmbedder):
    """Called as the service does: in the main thread litellm makes an event loop, and leaves it open."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(super().embed, texts).result()


def remote(fake: FakeOpenAI, model: str = MODEL, **options: Any) -> RemoteEmbedder:
    chosen: dict[str, Any] = {"retry_pauses": (0.0, 0.0), "timeout_seconds": 20.0, "api_base": fake.url} | options
    return InAThread(model, **chosen)


def expected(texts: list[str], dimension: int = 8) -> Any:
    vectors = np.array([hashed_vector(text, dimension) for text in texts])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def refusal(embedder: RemoteEmbedder, texts: list[str] | None = None) -> EmbeddingFailed:
    with pytest.raises(EmbeddingFailed) as caught:
        embedder.embed(texts or ["text"])
    return caught.value


def data(**changes: Any) -> Any:
    """A fault: the first vector of the answer is another."""
    return lambda answer: {**answer, "data": [{**answer["data"][0], **changes}, *answer["data"][1:]]}


def test_texts_are_sent_in_batches_and_come_back_in_order(fake: FakeOpenAI) -> None:
    texts = [f"text {number}" for number in range(10)]
    fake.most_inputs = 4
    embedder = remote(fake, batch_size=4)
    assert np.allclose(embedder.embed(texts), expected(texts), atol=1e-6)
    assert [len(request["input"]) for request in fake.requests] == [4, 4, 2]
    assert embedder.dimension == 8
    assert embedder.embed([]).shape == (0, 8)


def test_the_answers_own_numbers_say_which_vector_is_whose(fake: FakeOpenAI) -> None:
    fake.faults.append(lambda answer: {**answer, "data": answer["data"][::-1]})
    assert np.allclose(remote(fake).embed(["a", "b", "c"]), expected(["a", "b", "c"]), atol=1e-6)


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_what_may_pass_is_tried_again(fake: FakeOpenAI, status: int) -> None:
    fake.faults.extend([status, status])
    assert remote(fake).embed(["a"]).shape == (1, 8)
    assert len(fake.requests) == 3


@pytest.mark.parametrize("status", [429, 500])
def test_it_is_tried_three_times_at_most(fake: FakeOpenAI, status: int) -> None:
    fake.faults.extend([status] * 9)
    assert not refusal(remote(fake)).refused
    assert len(fake.requests) == 3


@pytest.mark.parametrize(
    ("status", "told", "refused"),
    [
        (401, "its key is missing or was refused", False),
        (403, "APIError 403", False),
        (404, "no such model there", False),
        (400, "the request was refused", True),
        (422, "the request was refused", True),
    ],
)
def test_what_cannot_pass_is_not_tried_again(fake: FakeOpenAI, status: int, told: str, refused: bool) -> None:
    fake.faults.append(status)
    error = refusal(remote(fake))
    assert str(error) == f"{MODEL}: {told}"
    assert error.refused is refused
    assert len(fake.requests) == 1


def test_a_server_that_does_not_answer_is_given_up(fake: FakeOpenAI) -> None:
    fake.faults.extend([fake.hang] * 3)
    assert str(refusal(remote(fake, timeout_seconds=0.2))) == f"{MODEL}: no answer in time"
    assert len(fake.requests) == 3


def test_a_server_that_is_not_there_is_told(fake: FakeOpenAI) -> None:
    assert "no connection" in str(refusal(remote(fake, api_base="http://127.0.0.1:9/v1", retry_pauses=())))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (lambda answer: {**answer, "data": answer["data"][:1]}, "1 vectors for 2 texts"),
        (lambda answer: {**answer, "data": []}, "0 vectors for 2 texts"),
        (lambda answer: {}, "holds no vectors"),
        (data(index=1), "which vector belongs to which text"),
        (data(index=7), "which vector belongs to which text"),
        (data(embedding=[float("nan")] * 8), "no direction"),
        (data(embedding=[0.0] * 8), "no direction"),
        (data(embedding=[1.0] * 7), "different lengths"),
    ],
    ids=["too few", "none", "no list", "twice", "unknown", "NaN", "zeros", "short"],
)
def test_an_answer_that_is_wrong_is_no_answer(fake: FakeOpenAI, fault: Any, told: str) -> None:
    fake.faults.append(fault)
    assert told in str(refusal(remote(fake), ["a", "b"]))


def test_an_answer_that_is_no_json_is_no_answer(fake: FakeOpenAI) -> None:
    fake.faults.extend([lambda answer: b"<html>"] * 3)
    assert "error there" in str(refusal(remote(fake)))


def test_a_model_that_changes_its_dimension_is_refused(fake: FakeOpenAI) -> None:
    embedder = remote(fake)
    embedder.embed(["a"])
    fake.dimension = 16
    assert "16 dimensions, expected are 8" in str(refusal(embedder))


def test_the_wanted_dimension_is_asked_for_and_insisted_on(fake: FakeOpenAI) -> None:
    for model in (MODEL, "openai/a-model-of-ones-own"):
        assert remote(fake, model, dimensions=4).embed(["a"]).shape == (1, 4)
        assert fake.requests[-1]["dimensions"] == 4
    fake.faults.append(data(embedding=[1.0] * 8))
    assert "8 dimensions, expected are 4" in str(refusal(remote(fake, dimensions=4)))


def test_texts_are_made_such_that_a_provider_takes_them(fake: FakeOpenAI) -> None:
    assert remote(fake).embed(["", " \n", "a\ud800", "x" * 20_000]).shape == (4, 8)
    assert fake.requests[0]["input"] == ["-", "-", "a\ufffd", "x" * MOST_CHARACTERS]


def test_a_missing_key_and_an_unknown_name_are_told(fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert str(refusal(remote(fake))) == f"{MODEL}: its key is missing or was refused"
    assert "use, english, none, or PROVIDER/MODEL" in str(refusal(InAThread("englsh")))
    assert fake.requests == []


def test_a_key_in_an_error_reaches_the_log_only(fake: FakeOpenAI, caplog: pytest.LogCaptureFixture) -> None:
    fake.faults.append(lambda answer: refuse("Incorrect API key provided: sk-abc"))
    with caplog.at_level(logging.WARNING):
        assert "sk-" not in str(refusal(remote(fake)))
    assert "sk-abc" in caplog.text


def refuse(message: str) -> Any:
    raise Refused(401, message)


@pytest.mark.anyio
async def test_a_remote_model_that_hangs_costs_a_query_its_patience_only(fake: FakeOpenAI) -> None:
    embedder = remote(fake, retry_pauses=(), timeout_seconds=20.0)
    await anyio.to_thread.run_sync(embedder.load)
    service = EmbeddingService(embedder, patience_ms=100)
    fake.faults.append(fake.hang)
    assert await service.query("x") == (None, "the embedder took longer than 100 ms")
    service._patience_ms = 10_000
    found, reason = await service.query("y")
    assert found is not None, reason
    fake.closing.set()
    await service.close()
