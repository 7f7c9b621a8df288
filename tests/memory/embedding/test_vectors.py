"""Vectors follow what is stored: nothing waits for them, none is of a text that is gone, and the status says how far."""

from collections.abc import Callable, Iterator

import anyio
import anyio.to_thread
import pytest
from told_embedder import WORDS, ToldEmbedder

from layerlore.memory.embedding import choice as embedding_choice
from layerlore.memory.engine.engine import Sent
from layerlore.memory.removal import undo
from layerlore.server.runtime.runtime import close_engine, open_engine
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.records import Origin, Scope
from layerlore.storage.index import vectors

from ...server.tools.calling import Connect, Json, Tools

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

PATIENCE = 60.0  # seconds: only a hang takes so long
SECRET = "sk-ant-api03-" + "aB3dE5fG7hI9" * 5


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> Iterator[ToldEmbedder]:
    """What every server of the test embeds with; it pauses shortly after a failure."""
    made = ToldEmbedder()
    monkeypatch.setattr(embedding_choice, "make_embedder", lambda choice, **_: made)
    monkeypatch.setattr("layerlore.server.runtime.runtime.LOAD_AFTER_SECONDS", 0)
    monkeypatch.setattr("layerlore.memory.recall.vector_writer.AGAIN_SECONDS", 0.01)
    monkeypatch.setattr("layerlore.memory.embedding.service.FIRST_PAUSE", 0.02)
    yield made
    made.gate.set()


async def held(tools: Tools) -> Json:
    found: Json = (await tools("memory_status"))["vectors"]
    return found


async def settled(tools: Tools, pending: int = 0) -> Json:
    """The status once no more than ``pending`` texts lack a vector."""
    with anyio.fail_after(PATIENCE):
        while (found := await held(tools))["pending"] > pending:
            await anyio.sleep(0.01)
    return found


async def becomes(tools: Tools, state: str) -> None:
    """The embedder's state, once it is this: a failure may be heard of after the query gave up waiting."""
    with anyio.fail_after(PATIENCE):
        while (await held(tools))["state"] != state:
            await anyio.sleep(0.01)


async def refused(tools: Tools, count: int) -> None:
    with anyio.fail_after(PATIENCE):
        while (await held(tools)).get("refused") != count:
            await anyio.sleep(0.01)


async def begun(embedder: ToldEmbedder) -> None:
    assert await anyio.to_thread.run_sync(embedder.begun.wait, PATIENCE)


async def cosines(tools: Tools, query: str) -> dict[str, float | None]:
    """How near each hit's vector is to the query's, by the hit's text."""
    hits = await tools.hits(query, explain=True, neighbours=False, limit=50)
    return {hit["text"]: hit["parts"]["cosine"] for hit in hits}


async def stored(settings: Settings, model: str = "told") -> int:
    """How many vectors of a model there are in all scopes."""
    engine = await open_engine(settings)
    try:
        return (await engine.database.read_installation(vectors.progress_everywhere, model)).done
    finally:
        await close_engine(engine)


async def test_what_is_said_gets_its_vector_in_the_background(tools: Tools, embedder: ToldEmbedder) -> None:
    await tools.say("main", "an apple", "a pear", "apple and pear")
    assert await settled(tools) == {
        "model": "told",
        "dimension": embedder.dimension,
        "total": 3,
        "pending": 0,
        "state": "ready",
        "languages": "seven words",
    }
    found = await cosines(tools, "apple")
    assert found["an apple"] == pytest.approx(1, abs=0.01)
    assert found["apple and pear"] == pytest.approx(0.5**0.5, abs=0.01)
    assert (await tools("memory_status"))["recall"] == {"signals": ["lexical", "semantic"]}
    assert (await tools("memory_status"))["degraded"] == []


async def test_every_piece_of_a_long_message_gets_a_vector(tools: Tools, embedder: ToldEmbedder) -> None:
    await tools.say("main", "tea " * 1000 + "medlar")
    assert (await settled(tools))["total"] == 6
    assert len(embedder.texts) == 6
    assert "medlar" in embedder.texts[-1]
    assert max(map(len, embedder.texts)) < 900


async def test_a_store_and_a_recall_by_words_never_wait_for_the_embedder(tools: Tools, embedder: ToldEmbedder) -> None:
    embedder.hold()
    await tools.say("main", "an apple")
    await begun(embedder)
    await tools.say("main", "a violin")
    answer = await tools("recall_memory", query="violin", format="json")
    assert answer["hits"][0]["text"] == "a violin"
    assert answer["signals"] == ["lexical"]
    assert answer["degraded"]
    assert (await held(tools))["pending"] == 2
    embedder.gate.set()
    await settled(tools)


async def test_a_message_that_is_replaced_while_its_vector_is_made_gets_that_of_its_new_text(
    tools: Tools, embedder: ToldEmbedder
) -> None:
    embedder.hold()
    await tools.add("main", {"role": "user", "content": "apple or apple", "id": "m"})
    await begun(embedder)
    await tools.add("main", {"role": "user", "content": "pear or apple", "id": "m"}, replace=True)
    embedder.gate.set()
    assert (await settled(tools))["total"] == 1
    assert await cosines(tools, "pear apple") == {"pear or apple": pytest.approx(1, abs=0.01)}


async def test_a_message_that_is_deleted_while_its_vector_is_made_leaves_none(
    tools: Tools, embedder: ToldEmbedder, settings_for: Callable[..., Settings]
) -> None:
    embedder.hold()
    await tools.add("main", {"role": "user", "content": "an apple", "id": "m"}, {"role": "user", "content": "plum"})
    await tools.say("gone", "a fig")
    await begun(embedder)
    await tools("delete_messages", which="ids", ids=["m"], thread_id="main")
    await tools("delete_thread", thread_id="gone")
    embedder.gate.set()
    await tools.say("main", "a pear")
    assert (await settled(tools))["total"] == 2
    assert await stored(settings_for()) == 2


async def test_what_a_server_did_not_come_to_is_embedded_by_the_next(connect: Connect, embedder: ToldEmbedder) -> None:
    embedder.hold()
    with anyio.fail_after(PATIENCE):
        async with connect() as tools:
            await tools.say("main", "an apple")
            await begun(embedder)
    async with connect() as tools:
        assert (await held(tools))["pending"] == 1
        embedder.gate.set()
        await settled(tools)
        assert await cosines(tools, "apple") == {"an apple": pytest.approx(1, abs=0.01)}


async def test_an_embedder_that_fails_is_told_of_and_loses_nothing(tools: Tools, embedder: ToldEmbedder) -> None:
    embedder.failure = "out of order"
    await tools.say("main", "an apple", "a violin")
    with anyio.fail_after(PATIENCE):
        while (found := await held(tools))["state"] != "failed":
            await anyio.sleep(0.01)
    assert (found["pending"], found["reason"]) == (2, "out of order")
    status = await tools("memory_status")
    assert status["degraded"] == ["recall finds words only for now, since the embedder failed: out of order"]
    assert status["recall"] == {"signals": ["lexical"]}
    assert (await tools.found("violin"))[0] == "a violin"
    embedder.failure = ""
    await settled(tools)
    await tools.found("violin")
    assert (await held(tools))["state"] == "ready"


async def test_the_status_says_how_much_is_found_by_words_alone_until_its_vectors_are_made(
    tools: Tools, embedder: ToldEmbedder
) -> None:
    embedder.hold()
    await tools.say("main", "an apple", "a violin")
    await begun(embedder)
    (told,) = (await tools("memory_status"))["degraded"]
    assert "2 of 2 texts by words only for now" in told
    embedder.gate.set()
    await settled(tools)
    assert (await tools("memory_status"))["degraded"] == []


async def test_what_is_remembered_while_the_embedder_fails_says_that_it_was_compared_by_words(
    tools: Tools, embedder: ToldEmbedder
) -> None:
    assert "degraded" not in await tools("remember", content="The user likes apples.")
    embedder.failure = "out of order"
    kept = await tools("remember", content="The user likes pears.")
    assert (kept["status"], kept["degraded"]) == ("kept", "compared with other entries by words alone: out of order")


async def test_a_context_says_first_that_memories_may_be_missing(tools: Tools, embedder: ToldEmbedder) -> None:
    await tools.say("main", "an apple")
    await settled(tools)
    assert "degraded" not in await tools("get_context", query="apple", thread_id="new")
    embedder.failure = "out of order"
    context = await tools("get_context", query="quince", thread_id="new")
    assert context.startswith("[degraded: out of order")
    assert "nothing that is remembered fits" not in context
    for shape in ("openai", "anthropic", "json"):
        report = (await tools("get_context", query=f"fig {shape}", thread_id="new", format=shape))["report"]
        assert report["degraded"][0].startswith("out of order")


async def test_nothing_relevant_is_never_said_by_words_alone(connect: Connect, embedder: ToldEmbedder) -> None:
    embedder.hold()
    async with connect() as tools:
        await tools.say("main", "an apple", "a violin")
        answer = await tools("recall_memory", query="fruit")
        assert "nothing relevant" not in answer.lower()
        assert "[degraded: " in answer.splitlines()[0]
        # Nothing can be compared, so the newest messages are shown.
        assert "#1 user: an apple" in answer
        embedder.gate.set()
        await settled(tools)
        answer = await tools("recall_memory", query="fruit")
        assert "an apple" in answer
        assert "degraded" not in answer


async def test_a_text_that_the_model_refuses_keeps_no_other_from_its_vector(
    tools: Tools, embedder: ToldEmbedder
) -> None:
    embedder.refused_word = "sloe"
    await tools.say("main", "an apple", "a pear")
    await tools.add("main", {"role": "user", "content": "a sloe", "id": "m"})
    await refused(tools, 1)
    embedder.texts.clear()
    await tools.say("main", "a plum")
    found = await settled(tools)
    assert (found["total"], found["pending"], found["refused"]) == (4, 0, 1)
    assert [text for text in embedder.texts if "sloe" in text] == []
    await tools("delete_messages", which="ids", ids=["m"], thread_id="main")
    found = await held(tools)
    assert (found["total"], found["pending"], "refused" in found) == (3, 0, False)


async def test_a_model_that_works_again_is_not_called_failed(tools: Tools, embedder: ToldEmbedder) -> None:
    await tools.say("main", "an apple")
    await settled(tools)
    embedder.failure = "out of order"
    await tools("recall_memory", query="plum")
    await becomes(tools, "failed")
    embedder.failure = ""
    await tools.say("main", "a pear")
    await settled(tools)
    await becomes(tools, "ready")


async def test_vectors_of_another_dimension_are_refused_instead_of_compared(
    connect: Connect, embedder: ToldEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect() as tools:
        await tools.say("main", "an apple")
        await settled(tools)
    monkeypatch.setattr("told_embedder.WORDS", WORDS[:4])
    embedder.dimension = 5
    async with connect() as tools:
        await tools.say("main", "an apple and a pear")
        answer = await tools("recall_memory", query="apple", format="json")
        assert len(answer["hits"]) == 2
        assert answer["signals"] == ["lexical"]
        assert "8: embedding.dimensions = 5 stores them under a name of their own" in answer["degraded"][0]
        found = await held(tools)
        assert (found["state"], found["pending"]) == ("failed", 1)
    monkeypatch.undo()
    embedder.dimension = 8


async def test_what_another_process_restores_gets_its_vectors_again_soon(
    connect: Connect, embedder: ToldEmbedder, settings_for: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layerlore.memory.recall.vector_writer.LOOK_SECONDS", 0.05)
    async with connect() as tools:
        await tools.say("main", "an apple", "a pear")
        await settled(tools)
        undo_id = (await tools("delete_messages", which="all", thread_id="main"))["undo"]
        assert (await held(tools))["total"] == 0
        assert await stored(settings_for()) == 0
        engine = await open_engine(settings_for())
        try:
            scope = Scope("local", settings_for().agent, settings_for().resource)
            await undo.undo(engine, scope, undo_id, sent=Sent(Origin("test", "undo")))
        finally:
            await close_engine(engine)
        found = await settled(tools)
        assert (found["total"], found["pending"]) == (2, 0)


async def test_another_embedder_makes_vectors_of_its_own_and_uses_no_other(
    connect: Connect, embedder: ToldEmbedder, settings_for: Callable[..., Settings]
) -> None:
    async with connect() as tools:
        await tools.say("main", "an apple", "a pear")
        await settled(tools)
    embedder.name = "another"
    embedder.hold()
    async with connect() as tools:
        found = await held(tools)
        assert (found["model"], found["total"], found["pending"]) == ("another", 2, 2)
        embedder.gate.set()
        await settled(tools)
    assert (await stored(settings_for(), "told"), await stored(settings_for(), "another")) == (2, 2)


async def test_no_secret_reaches_an_embedder_where_only_the_derived_is_masked(
    connect: Connect, embedder: ToldEmbedder
) -> None:
    async with connect(redaction="derived") as tools:
        await tools.say("main", f"the key of the apple tree is {SECRET}")
        await settled(tools)
        assert SECRET in (await tools.texts("main"))[0]
    assert any("apple" in text for text in embedder.texts)
    assert not any(SECRET in text for text in embedder.texts)


async def test_one_scope_is_not_told_of_the_vectors_of_another(connect: Connect, embedder: ToldEmbedder) -> None:
    async with connect(resource="ana") as ana, connect(resource="ben") as ben:
        await ana.say("main", "an apple", "a pear")
        await settled(ana)
        assert (await held(ben))["total"] == 0
        assert await ben.found("apple") == []


async def test_without_an_embedder_the_status_says_so(tools: Tools) -> None:
    await tools.say("main", "an apple")
    status = await tools("memory_status")
    assert status["vectors"] == {"model": "", "dimension": 0, "total": 0, "pending": 0, "state": "off"}
    assert status["recall"] == {"signals": ["lexical"]}
    assert status["degraded"] == ["recall finds words only: there is no embedder (embedding.embedder = none)"]


async def test_with_memory_off_nothing_is_embedded(connect: Connect, embedder: ToldEmbedder) -> None:
    async with connect(memory="off") as tools:
        status = await tools("memory_status")
    assert status["vectors"]["state"] == "off"
    assert not any("embedder" in line for line in status["degraded"])
    assert embedder.texts == []
