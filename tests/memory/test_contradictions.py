"""Entries that contradict each other are both shown, the newer first, until one takes the other's place."""

from collections.abc import AsyncIterator, Callable

import pytest
from told_embedder import ToldEmbedder

from layerlore.extraction.jobs.attempt import attempt
from layerlore.extraction.kinds.corrections import CorrectionDecider
from layerlore.memory.embedding.port import EmbeddingFailed
from layerlore.memory.embedding.sentence_encoder import UseEmbedder
from layerlore.memory.embedding.service import EmbeddingService
from layerlore.memory.entries.contradictions import contradicts
from layerlore.memory.parts.tokens import load_counter
from layerlore.memory.recall.recall import RecallRequest, recall
from layerlore.memory.recall.recall_text import render_text
from layerlore.storage.jobs import jobs
from layerlore.storage.jobs.jobs import Claim

from .entry_memory import ANA, DAY, NOW, Memory

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("new", "known"),
    [
        ("Ana lives in Linz.", "Ana lives in Graz."),
        ("The user moved to Linz.", "Ana lives in Graz."),
        ("The gate code is 1234.", "The gate code is 4711."),
        ("Ana wohnt in Linz.", "Ana wohnt in Graz."),
        ("The laptop does not reach the printer.", "The laptop reaches the printer."),
        ("Пользователь живёт в Казани.", "Пользователь живёт в Москве."),
    ],
)
def test_another_value_of_the_same_contradicts(new: str, known: str) -> None:
    assert contradicts(new, known)
    assert contradicts(known, new)


@pytest.mark.parametrize(
    ("new", "known"),
    [
        ("Ana lives in Graz.", "Ana lives in Graz since 2020."),
        ("Ben lives in Graz.", "Ana lives in Graz."),
        ("Staging is on port 8443.", "Production is on port 9443."),
        ("Gate 1", "Gate 2"),
        ("Ana likes tea.", "The deployment failed."),
        ("The user lives in Graz.", "Ana lives in Graz."),
    ],
)
def test_more_of_the_same_and_what_is_of_another_contradicts_nothing(new: str, known: str) -> None:
    assert not contradicts(new, known)


def test_one_other_word_contradicts_only_where_the_vectors_see_a_repetition() -> None:
    tea, coffee = "Ana drinks tea in the morning.", "Ana drinks coffee in the morning."
    assert not contradicts(tea, coffee)
    assert contradicts(tea, coffee, alike=True)


async def test_both_are_shown_with_their_days_and_the_newer_first_until_the_old_one_is_superseded(
    memory: Memory,
) -> None:
    await memory.say("main", "I live in Graz.")
    old = await memory.remember("Ana lives in Graz.", evidence="I live in Graz", source="user_assertion")
    memory.now += 3 * DAY
    new = await memory.remember("Ana lives in Linz.")
    assert (new["status"], new["contradicts"]) == ("kept", [old["id"]])
    assert 'kind="correction"' in new["note"]
    for query in ("Where does Ana live?", "Graz", "Linz"):
        shown = await _recalled(memory, query)
        assert shown.index("Ana lives in Linz.") < shown.index("Ana lives in Graz."), query
        assert "a newer entry says otherwise" in shown
    assert await memory.block("Graz") == [
        "- [assistant] Ana lives in Linz. (2025-06-18; newer than what says otherwise)",
        "- Ana lives in Graz. (2025-06-15; a newer entry says otherwise)",
    ]
    await memory.say("main", "I live in Linz now.")
    memory.now += 1
    told = await memory.remember(
        "Ana lives in Linz.", evidence="I live in Linz now", source="user_assertion", kind="correction"
    )
    assert told["superseded"] == [old["id"]]
    assert await memory.block("Linz") == ["- Ana lives in Linz. (today)"]


async def test_another_word_for_what_somebody_is_is_kept_though_the_vectors_see_a_repetition(
    memory_of: Callable[..., Memory], use: UseEmbedder
) -> None:
    service = EmbeddingService(use, patience_ms=10_000)
    memory = memory_of(service)
    old = await memory.remember("Ana is vegetarian.")
    again = await memory.remember("Ana is a vegetarian.")
    assert (again["status"], again["id"]) == ("similar", old["id"])
    memory.now += DAY
    new = await memory.remember("Ana is vegan.")
    assert (new["status"], new.get("contradicts")) == ("kept", [old["id"]])
    await service.close()


async def test_forgetting_the_old_one_takes_along_no_newer_one(memory: Memory) -> None:
    await memory.remember("Ana lives in Graz.")
    memory.now += DAY
    await memory.remember("Ana lives in Linz.")
    preview = await memory.forget(query="Graz")
    assert "Graz" in preview
    assert "Linz" not in preview


async def test_what_was_said_earlier_is_the_older_one_whenever_it_is_kept(memory: Memory) -> None:
    await memory.say("main", "I live in Graz.")
    memory.now += DAY
    await memory.remember("Ana lives in Linz.")
    memory.now += DAY
    await memory.remember("Ana lives in Graz.", evidence="I live in Graz", source="user_assertion")
    assert [line.split(" (")[0] for line in await memory.block("Graz")] == [
        "- [assistant] Ana lives in Linz.",
        "- Ana lives in Graz.",
    ]


async def test_a_recall_says_what_an_entry_quotes_where_and_as_what(memory: Memory) -> None:
    await memory.say("main", "My gate code is 4711, please keep it.")
    await memory.say("main", "The lock of the gate was jammed.", role="assistant")
    await memory.remember("Ana's gate code is 4711.", evidence="gate code is 4711", source="user_assertion")
    await memory.remember(
        "The lock of the gate was jammed.", evidence="lock of the gate was jammed", source="verified_assistant_finding"
    )
    shown = await _recalled(memory, "gate", kinds=("entry",))
    assert 'user\'s words in thread main #1: "gate code is 4711"]' in shown
    assert 'assistant\'s words in thread main #2 (found): "lock of the gate was jammed"]' in shown


async def test_a_correction_without_evidence_says_that_what_a_user_said_stands(memory: Memory) -> None:
    await memory.say("main", "I live in Graz, near the river.")
    old = await memory.remember("Ana lives in Graz.", evidence="I live in Graz", source="user_assertion")
    memory.now += 1
    new = await memory.remember("Ana lives in Linz.", kind="correction")
    assert new["stands"] == [old["id"]]
    assert "superseded" not in new
    assert "stands" in new["note"]
    assert 'source="user_assertion"' in new["note"]
    assert len(await memory.block("Where does Ana live?")) == 2


@pytest.fixture
async def slow() -> AsyncIterator[tuple[ToldEmbedder, EmbeddingService]]:
    embedder = ToldEmbedder()
    service = EmbeddingService(embedder, patience_ms=20)
    yield embedder, service
    embedder.gate.set()
    await service.close()


async def _claim(memory: Memory) -> Claim | None:
    return await memory.engine.database.write_installation(
        jobs.claim, ["corrections"], holder="test", now=memory.now, lease_ms=30_000
    )


async def test_a_correction_that_could_not_be_compared_corrects_once_the_embedder_is_there(
    memory_of: Callable[..., Memory], slow: tuple[ToldEmbedder, EmbeddingService]
) -> None:
    embedder, service = slow
    memory = memory_of(service)
    said = "The apple tree and the pear tree stand behind the old barn of my uncle."
    await memory.say("main", said)
    old = await memory.remember(said.replace("my", "Ana's"), evidence=said, source="user_assertion")
    memory.now += DAY
    embedder.hold()
    await memory.say("main", "Apple and pear, all felled by the storm.")
    told = {"evidence": "apple and pear, all felled by the storm", "source": "user_assertion", "kind": "correction"}
    new = await memory.remember("Apple and pear were felled by a storm.", **told)
    assert "superseded" not in new
    assert "is looked for again" in new["degraded"]

    embedder.failure = "no model"
    embedder.gate.set()
    claim = await _claim(memory)
    assert claim is not None
    with pytest.raises(EmbeddingFailed):
        await attempt(memory.engine, CorrectionDecider(), claim, None)
    now = memory.now
    await memory.engine.database.write(jobs.fail, claim, error="no model", retry_at=now, dead=False, now=now)

    embedder.failure = ""
    ready = EmbeddingService(embedder, patience_ms=10_000)
    object.__setattr__(memory.engine, "embedding", ready)
    again = await _claim(memory)
    assert again is not None
    await attempt(memory.engine, CorrectionDecider(), again, None)
    found = await memory.recall("apple pear", kinds=("entry",))
    await ready.close()
    assert [hit.message.id for hit in found.hits] == [new["id"]] != [old["id"]]
    assert await _claim(memory) is None


async def _recalled(memory: Memory, query: str, **given: object) -> str:
    found = await recall(memory.engine, ANA, RecallRequest([query], **given))  # type: ignore[arg-type]
    return render_text(found, load_counter(), now=NOW, detail="low", max_tokens=1500)
