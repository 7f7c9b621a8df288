"""Recall from end to end on both databases, with an embedder whose vectors a test can reckon with."""

import hashlib
import threading
from collections.abc import AsyncIterator, Callable, Sequence

import numpy as np
import pytest

from layerlore.memory.embedding.port import EmbeddingFailed, Vectors
from layerlore.memory.embedding.relevance import USE_MULTILINGUAL, Calibration
from layerlore.memory.embedding.service import EmbeddingService
from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.entries import remember_requests
from layerlore.memory.entries.remember_requests import RememberRequest
from layerlore.memory.language.search_words import split_words
from layerlore.memory.messages import addition
from layerlore.memory.parts.tokens import load_counter
from layerlore.memory.recall.candidates import MOST_ROWS, match_words
from layerlore.memory.recall.ranking import compute_idf
from layerlore.memory.recall.recall import NOT_ALL_EMBEDDED, RecallRequest, recall
from layerlore.memory.recall.results import RecallResult
from layerlore.memory.rules.validation import Limits
from layerlore.memory.secrets.redaction import Redactor
from layerlore.memory.settings.context_settings import RecallRules
from layerlore.storage.core.records import Origin, Scope
from layerlore.storage.core.transaction import Database
from layerlore.storage.index import vectors
from layerlore.storage.index.vectors import make_vector
from layerlore.storage.messages import indexed_rows

pytestmark = pytest.mark.anyio

SCOPE = Scope("tenant", "agent", "resource")
COUNTER = load_counter()
# Words that mean the same.
MEANINGS = (("dog", "hund", "puppy"), ("surgery", "operiert", "operation"), ("bakery", "bread"), ("rent", "miete"))
DIMENSION = 512


class StubEmbedder:
    """A text is the sum of what its words mean; words without a meaning here are weak noise."""

    name = "stub"
    dimension = DIMENSION
    languages = "some"
    weight = 0.5
    squeezed = False

    def __init__(self, calibration: Calibration | None = USE_MULTILINGUAL) -> None:
        self.calibration = calibration
        self.local = True
        self.failing = False
        self.gate = threading.Event()
        self.gate.set()

    def load(self) -> None:
        self.gate.wait(10)

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self.failing:
            raise EmbeddingFailed("the stub is broken")
        sums = np.array([np.sum([_meaning(word) for word in split_words(text)], axis=0) for text in texts], np.float32)
        unit: Vectors = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        return unit


def _meaning(word: str) -> Vectors:
    shared = next((group[0] for group in MEANINGS if word in group), "")
    seed = int.from_bytes(hashlib.sha256((shared or word).encode()).digest()[:4], "big")
    vector = np.random.default_rng(seed).normal(size=DIMENSION).astype(np.float32)
    return vector * (3 if shared else 0.3)


@pytest.fixture
def stub() -> StubEmbedder:
    return StubEmbedder()


@pytest.fixture
async def embedding(stub: StubEmbedder) -> AsyncIterator[EmbeddingService]:
    opened = EmbeddingService(stub, patience_ms=200)
    yield opened
    stub.gate.set()
    await opened.close()


MakeEngine = Callable[..., Engine]


@pytest.fixture
def engine_of(database: Database) -> MakeEngine:
    ids = iter(f"{number:032}" for number in range(10_000))

    def made(embedding: EmbeddingService | None, rules: RecallRules | None = None) -> Engine:
        return Engine(
            database=database,
            tokens=COUNTER,
            redactor=Redactor(b"k" * 32),
            hmac_key=b"k" * 32,
            limits=Limits(),
            redaction="off",
            deleted_days=30,
            now=lambda: 1_700_000_000_000,
            new_id=lambda: next(ids),
            recall=rules or RecallRules(),
            embedding=embedding,
        )

    return made


async def say(engine: Engine, thread: str, *texts: str, role: str = "user", embedded: bool = True) -> None:
    raw = [{"role": role, "content": text} for text in texts]
    sent = WriteRequest(Origin("test", "add_messages"))
    await addition.add_messages(engine, SCOPE, thread, raw, replace=False, sent=sent)
    if not embedded:
        return
    pending = await engine.database.read_installation(vectors.pending, "stub", after=0, most=1000)
    places = [(row.thread_uid, row.seq) for row in pending]
    messages = await engine.database.read(indexed_rows.messages_of, SCOPE, places)
    made = [
        (row.row_id, StubEmbedder().embed([engine.embedded_texts_of(messages[place])[row.chunk]])[0])
        for row, place in zip(pending, places, strict=True)
    ]
    new = [make_vector(row_id, each) for row_id, each in made]
    await engine.database.write(vectors.put, SCOPE, "stub", DIMENSION, new)


TOLD = (
    "our dog Biscuit had surgery on his leg",
    "she opened a bakery in Lisbon",
    "the landlord put up our rent",
    "we watched a film about trains",
    "the weather was awful all week",
)


async def request(engine: Engine, query: str, **more: object) -> RecallResult:
    return await recall(engine, SCOPE, RecallRequest([query], **more))  # type: ignore[arg-type]


def texts(found: RecallResult) -> list[str]:
    return [hit.message.parts[0]["text"] for hit in found.hits]


async def told(engine: Engine, *, embedded: bool = True) -> None:
    for number, text in enumerate(TOLD):
        await say(engine, f"thread {number}", text, embedded=embedded)


async def test_a_question_that_shares_no_word_with_its_answer_finds_it(
    engine_of: MakeEngine, embedding: EmbeddingService
) -> None:
    engine = engine_of(embedding)
    await told(engine)
    found = await request(engine, "wann wurde unser hund operiert?")
    assert texts(found)[0] == TOLD[0]
    assert (found.signals, found.degraded) == (("lexical", "semantic"), ())
    best = found.hits[0]
    assert best.explain().words == ()
    assert best.explain().cosine is not None
    assert best.explain().cosine > 0.5
    assert 0.3 < best.score <= 1
    alone = await request(engine_of(None), "wann wurde unser hund operiert?")
    assert (alone.hits, alone.signals, alone.degraded) == ([], ("lexical",), ())


async def test_an_operators_floor_holds_back_what_is_less_relevant_and_counts_it(
    engine_of: MakeEngine, embedding: EmbeddingService
) -> None:
    engine = engine_of(embedding, RecallRules(floor=1))
    await told(engine)
    query = "the schedule of the bakery lecture"
    found = await request(engine, query)
    assert (found.hits, found.confidence) == ([], "nothing")
    assert found.held_back > 0
    assert len((await request(engine_of(embedding), query)).hits) == found.held_back


async def test_a_query_without_a_common_word_finds_nothing_by_words_alone(engine_of: MakeEngine) -> None:
    engine = engine_of(None)
    await told(engine)
    found = await request(engine, "quantum chromodynamics lecture schedule")
    assert (found.hits, found.confidence, found.held_back) == ([], "nothing", 0)


async def test_below_the_sure_bound_hits_are_shown_and_called_not_sure(
    engine_of: MakeEngine, embedding: EmbeddingService
) -> None:
    engine = engine_of(embedding, RecallRules(sure=1))
    await told(engine)
    found = await request(engine, "the schedule of the bakery lecture")
    assert TOLD[1] in texts(found)
    assert (found.confidence, found.held_back) == ("unsure", 0)


async def test_a_filter_makes_nothing_less_relevant(engine_of: MakeEngine, embedding: EmbeddingService) -> None:
    engine = engine_of(embedding)
    await told(engine)
    every = await request(engine, TOLD[0])
    alone = await request(engine, TOLD[0], thread_id="thread 0")
    assert (every.confidence, alone.confidence) == ("sure", "sure")
    assert alone.hits[0].score == pytest.approx(every.hits[0].score)
    for thread in range(1, len(TOLD)):
        assert (await request(engine, TOLD[0], thread_id=f"thread {thread}")).confidence != "sure"


async def test_an_embedder_that_fails_degrades_to_words_and_says_why(
    engine_of: MakeEngine, embedding: EmbeddingService, stub: StubEmbedder
) -> None:
    engine = engine_of(embedding)
    await told(engine)
    stub.failing = True
    found = await request(engine, "the bakery in Lisbon")
    assert texts(found)[0] == TOLD[1]
    assert found.signals == ("lexical",)
    assert found.degraded == ("the stub is broken",)


async def test_an_embedder_that_loads_too_long_degrades_to_words(
    engine_of: MakeEngine, embedding: EmbeddingService, stub: StubEmbedder
) -> None:
    engine = engine_of(embedding)
    await told(engine)
    stub.gate.clear()
    found = await request(engine, "the bakery in Lisbon")
    assert (texts(found)[0], found.signals) == (TOLD[1], ("lexical",))
    (reason,) = found.degraded
    assert "loading" in reason


async def test_what_was_just_stored_is_found_by_its_meaning_at_once(
    engine_of: MakeEngine, embedding: EmbeddingService
) -> None:
    engine = engine_of(embedding)
    await told(engine)
    await say(engine, "new", "the puppy of my sister is called Rex", embedded=False)
    found = await request(engine, "hund")
    assert "the puppy of my sister is called Rex" in texts(found)
    assert (found.signals, found.degraded) == (("lexical", "semantic"), ())


async def test_many_messages_without_a_vector_are_found_by_their_words_for_now(
    engine_of: MakeEngine, embedding: EmbeddingService
) -> None:
    engine = engine_of(embedding)
    await told(engine)
    others = [f"the piano lesson number {number}" for number in range(MOST_ROWS)]
    await say(engine, "new", *others, "the violin lesson moved to Tuesday", embedded=False)
    found = await request(engine, "violin lesson")
    assert texts(found)[0] == "the violin lesson moved to Tuesday"
    assert found.hits[0].explain().cosine is None
    assert found.degraded == (NOT_ALL_EMBEDDED,)
    newest = await request(engine, "hund", thread_id="new")
    assert (newest.newest_only, newest.degraded) == (True, (NOT_ALL_EMBEDDED,))
    # Where nothing passes the filters, vectors would find nothing more.
    for filters in ({"thread_id": "unknown"}, {"until": 1}):
        nothing = await request(engine, "hund", **filters)
        assert (nothing.hits, nothing.degraded) == ([], ())


async def test_nothing_is_embedded_for_a_recall_where_that_takes_a_request(
    engine_of: MakeEngine, stub: StubEmbedder
) -> None:
    stub.local = False
    embedding = EmbeddingService(stub, patience_ms=5000)
    engine = engine_of(embedding)
    await told(engine, embedded=False)
    found = await request(engine, "the bakery in Lisbon")
    assert (texts(found)[0], found.signals) == (TOLD[1], ("lexical",))
    assert found.degraded == (NOT_ALL_EMBEDDED,)
    assert (await request(engine, "hund operation")).degraded == (NOT_ALL_EMBEDDED,)
    await embedding.close()


async def test_a_text_that_the_embedder_refuses_is_not_waited_for_again(
    engine_of: MakeEngine, embedding: EmbeddingService
) -> None:
    engine = engine_of(embedding)
    await told(engine)
    await say(engine, "new", "the puppy is called Rex", embedded=False)
    (pending,) = await engine.database.read_installation(vectors.pending, "stub", after=0, most=1000)
    embedding.refused[SCOPE] = {pending.row_id}
    found = await request(engine, "hund operiert")
    assert (texts(found)[0], found.degraded) == (TOLD[0], ())


async def test_an_entry_without_a_vector_yet_counts_like_a_message(
    engine_of: MakeEngine, embedding: EmbeddingService, stub: StubEmbedder
) -> None:
    engine = engine_of(embedding)
    stub.failing = True
    sent = WriteRequest(Origin("test", "remember"))
    await remember_requests.remember(engine, SCOPE, "", RememberRequest("The puppy is called Rex."), sent=sent)
    stub.failing = False
    found = await recall(engine_of(EmbeddingService(stub, patience_ms=5000)), SCOPE, RecallRequest(["hund"]))
    assert (texts(found), found.degraded) == (["The puppy is called Rex."], ())


async def test_filters_narrow_what_is_near_as_they_do_what_has_the_words(
    engine_of: MakeEngine, embedding: EmbeddingService
) -> None:
    engine = engine_of(embedding)
    await told(engine)
    await say(engine, "vet", "the puppy needs an operation", role="assistant")
    query = "hund operiert"
    assert set(texts(await request(engine, query))[:2]) == {TOLD[0], "the puppy needs an operation"}
    assert texts(await request(engine, query, roles=["assistant"])) == ["the puppy needs an operation"]
    assert TOLD[0] == texts(await request(engine, query, thread_id="thread 0"))[0]
    assert texts(await request(engine, query, thread_id="nowhere")) == []
    assert texts(await request(engine, query, until=1)) == []


async def test_several_queries_are_judged_apart_and_merged(engine_of: MakeEngine, embedding: EmbeddingService) -> None:
    engine = engine_of(embedding)
    await told(engine)
    request = RecallRequest(["hund operiert", "quantum chromodynamics lecture", "miete"], limit=2)
    found = await recall(engine, SCOPE, request)
    assert sorted(texts(found)) == sorted([TOLD[0], TOLD[2]])
    assert {hit.explain().query for hit in found.hits} == {0, 2}
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)


async def test_as_many_hits_as_asked_for_however_few_candidates_the_settings_want(
    engine_of: MakeEngine, embedding: EmbeddingService
) -> None:
    engine = engine_of(embedding, RecallRules(candidates=1, rescored=1))
    for number in range(7):
        await say(engine, f"thread {number}", f"the dog had surgery {number}")
    assert len((await request(engine, "dog surgery", limit=1)).hits) == 1
    assert len((await request(engine, "dog surgery", limit=5)).hits) == 5


async def test_entries_alone_find_no_message(engine_of: MakeEngine) -> None:
    engine = engine_of(None)
    await told(engine, embedded=False)
    assert (await request(engine, "bakery", kinds=["entry"])).hits == []


async def test_a_word_weighs_what_it_is_worth_among_the_rows_that_are_searched(engine_of: MakeEngine) -> None:
    engine = engine_of(None)
    await told(engine, embedded=False)
    found = await engine.database.read(match_words, SCOPE, ["rent"], None, RecallRules())
    assert found.size == len(TOLD)
    assert found.weights == {"rent": compute_idf(1, len(TOLD))}
    alone = await engine.database.read(match_words, SCOPE, ["rent"], None, RecallRules(), ["entry"])
    assert (alone.size, alone.postings["rent"].tolist()) == (0, [])
