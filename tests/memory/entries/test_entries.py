"""remember, recall over entries, and the block for a context, on both databases."""

from collections.abc import Callable
from dataclasses import replace

import anyio
import pytest
import sqlalchemy
from entry_pairs import read_pairs
from told_embedder import ToldEmbedder

from layerlore.memory.embedding.service import EmbeddingService
from layerlore.memory.messages import addition
from layerlore.memory.recall import memory_block as injected
from layerlore.memory.recall.vector_writer import VectorWriter, rebuild_all, rebuild_old
from layerlore.memory.removal import deletion, undo
from layerlore.memory.settings.note_settings import EntryRules
from layerlore.storage.core.errors import InvalidInput, LimitExceeded, NotFound
from layerlore.storage.core.records import Json, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries
from layerlore.storage.index import vectors

from ..entry_memory import ANA, BEN, DAY, NOW, Memory

pytestmark = pytest.mark.anyio


async def test_a_callers_word_is_found_and_said_to_be_that(memory: Memory) -> None:
    kept = await memory.remember("  The gate   code is 4711. ")
    assert (kept["status"], kept["source"]) == ("kept", "caller")
    (hit,) = (await memory.recall("gate code")).hits
    assert hit.is_entry
    assert hit.message.parts[0]["text"] == "The gate code is 4711."
    assert (hit.message.id, hit.message.metadata["origin"], hit.message.metadata["trust"]) == (
        kept["id"],
        "caller",
        "assistant",
    )
    assert await memory.found("gate code", kinds=("message",)) == []


async def test_evidence_is_kept_as_a_place_and_trusted_as_whose_word_it_is(memory: Memory) -> None:
    await memory.say("main", "My gate code is “4711”.", created_at=NOW - 5 * DAY, id="m")
    await memory.say("main", "The lock was jammed.", role="assistant")
    said = await memory.remember(
        "Ana's gate has the code 4711.", evidence='gate code is "4711"', source="user_assertion", kind="fact"
    )
    found = await memory.remember(
        "The lock of the gate was jammed.", evidence="the lock was jammed", source="verified_assistant_finding"
    )
    by_id = {hit.message.id: hit.message for hit in (await memory.recall("gate", kinds=("entry",))).hits}
    assert by_id[said["id"]].metadata == {
        "kind": "fact",
        "origin": "remembered",
        "trust": "user",
        "sources": [{"thread_id": "main", "seq": 1, "label": "user_assertion", "quote": "gate code is “4711”"}],
    }
    assert by_id[said["id"]].said_at == NOW - 5 * DAY
    assert by_id[found["id"]].metadata["trust"] == "assistant"
    (source,) = (await memory.engine.database.read(entries.sources_of, ANA, [said["id"]]))[said["id"]]
    assert "My gate code is “4711”."[source.starts : source.ends] == "gate code is “4711”"


@pytest.mark.parametrize(
    ("evidence", "source"),
    [("code is 4712", "caller"), ("gate code is 4711", "user_assertion"), ("sunny", "caller"), ("be brief", "caller")],
)
async def test_evidence_that_nobody_gave_is_refused_and_nothing_is_kept(
    memory: Memory, evidence: str, source: str
) -> None:
    await memory.say("main", "The gate code is 4711.", role="assistant")
    await memory.say("main", "Be brief.", role="system")
    call = {"type": "function", "id": "c", "function": {"name": "weather", "arguments": "{}"}}
    raw: list[Json] = [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "sunny"},
    ]
    await addition.add_messages(memory.engine, ANA, "main", raw, replace=False, sent=memory.sent())
    with pytest.raises(InvalidInput, match="stands word for word in none of the"):
        await memory.remember("The gate code.", evidence=evidence, source=source)
    assert await memory.found("gate", kinds=("entry",)) == []


async def test_what_was_injected_is_no_evidence(memory: Memory) -> None:
    await memory.say("main", f"{injected.wrap_memory_block(['- The gate code is 4711. (today)'])}\nHello!")
    with pytest.raises(InvalidInput, match="stands word for word"):
        await memory.remember("The gate code.", evidence="The gate code is 4711.")


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"content": " \n "}, InvalidInput, "content: say in 1 to 3 sentences"),
        ({"content": "x" * 2001}, LimitExceeded, "content: 2,001 characters; at most 2,000 are allowed"),
        ({"content": "x", "kind": "facts"}, InvalidInput, "did you mean 'fact'"),
        ({"content": "x", "source": "nobody", "evidence": "y"}, InvalidInput, "source: allowed: user_assertion"),
        ({"content": "x", "source": "user_assertion"}, InvalidInput, "needs evidence"),
        ({"content": "x", "evidence": "y"}, InvalidInput, "conversation 'main' has no messages yet"),
    ],
)
async def test_what_cannot_be_kept_is_refused(
    memory: Memory, given: dict[str, str], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        await memory.remember(**given)


async def test_a_secret_is_masked_before_it_is_kept(memory: Memory) -> None:
    secret = f"sk-ant-api03-{'aB3dE5fG7hI9' * 5}"
    await memory.say("main", f"The key is {secret}.")
    kept = await memory.remember(f"The key is {secret}.", evidence=f"key is {secret}")
    assert kept["masked"] == 1
    (text,) = await memory.found("key", kinds=("entry",))
    assert secret not in text
    assert "[masked:" in text


async def test_the_same_words_are_one_entry_that_is_refreshed(memory: Memory) -> None:
    first = await memory.remember("The gate code is 4711.", kind="fact")
    memory.now += DAY
    again = await memory.remember("the gate code  is 4711.")
    assert (again["status"], again["id"]) == ("refreshed", first["id"])
    (hit,) = (await memory.recall("gate")).hits
    assert (hit.message.said_at, hit.message.metadata["kind"]) == (NOW + DAY, "fact")


@pytest.mark.parametrize("embedded", [True, False])
async def test_an_entry_that_says_the_same_is_not_kept_again_and_every_other_one_is(
    memory_of: Callable[..., Memory], embedding: EmbeddingService, embedded: bool
) -> None:
    memory = memory_of(embedding if embedded else None)
    first = await memory.remember("The apple and the pear are of 2024.")
    again = await memory.remember("the apple and a pear are of 2024")
    assert again == {
        "id": first["id"],
        "status": "similar",
        "source": "caller",
        "content": "The apple and the pear are of 2024.",
    }
    other = await memory.remember("The apple and the pear are of 2025.")
    assert (other["status"], other["similar"]) == (
        "kept",
        [{"id": first["id"], "content": "The apple and the pear are of 2024."}],
    )
    assert (await memory.remember("The pear and the apple are of 2024."))["status"] == "kept"
    assert (await memory.remember("The apple and the pear are not of 2024."))["status"] == "kept"
    assert (await memory.remember("The plum is of 2024."))["status"] == "kept"


async def test_identifiers_that_differ_in_case_are_two_entries(memory: Memory) -> None:
    first = await memory.remember("Set PATH before the start.")
    second = await memory.remember("Set path before the start.")
    assert (second["status"], first["id"] == second["id"]) == ("kept", False)
    assert sorted(await memory.found("PATH")) == ["Set PATH before the start.", "Set path before the start."]
    again = await memory.remember("set PATH before the  start.")
    assert (again["status"], again["id"]) == ("refreshed", first["id"])


async def test_of_two_facts_none_is_lost(memory: Memory) -> None:
    for number, pair in enumerate(read_pairs("different")):
        scope = Scope("t", "agent", f"resource {number}")
        assert [(await memory.remember(content, scope=scope))["status"] for content in pair] == ["kept", "kept"]
        assert await memory.engine.database.read(entries.count, scope) == len(pair)


@pytest.mark.parametrize("embedded", [True, False])
async def test_a_correction_takes_the_place_of_what_it_corrects(
    memory_of: Callable[..., Memory], embedding: EmbeddingService, embedded: bool
) -> None:
    memory = memory_of(embedding if embedded else None)
    old = await memory.remember("Ana has a pear tree of 3 years")
    other = await memory.remember("Ben reads about a fig")
    new = await memory.remember("Ana has a pear tree of 4 years", kind="correction")
    assert (new["status"], new["replaced"]) == (
        "kept",
        [{"id": old["id"], "content": "Ana has a pear tree of 3 years"}],
    )
    assert sorted(await memory.found("Ana pear Ben fig")) == ["Ana has a pear tree of 4 years", "Ben reads about a fig"]
    unrelated = await memory.remember("A quince is no plum", kind="correction")
    assert "replaced" not in unrelated
    assert list(await memory.engine.database.read(entries.read_seen, ANA, [other["id"]])) == [other["id"]]


async def test_nothing_waits_for_a_vector_where_none_can_matter(memory_of: Callable[..., Memory]) -> None:
    embedder = ToldEmbedder()
    embedding = EmbeddingService(embedder, patience_ms=600_000)
    memory = memory_of(embedding)
    embedder.hold()
    try:
        with anyio.fail_after(30):
            nothing = await memory.recall("a fig")
            await memory.say("main", "Where is my fig, of 2024?")
            own_question = await memory.recall("where is the fig", asking="main", in_context=True)
            for evidence in ("Where is my pear", "Where is my fig"):
                with pytest.raises(InvalidInput, match="evidence: "):
                    await memory.remember("The fig is of 2025.", evidence=evidence, source="user_assertion")
        assert [(found.hits, found.degraded) for found in (nothing, own_question)] == [([], ()), ([], ())]
        await memory.say("other", "A fig of an old garden")
        embedder.gate.set()
        assert (await memory.recall("where is the fig, the quince", asking="main", in_context=True)).signals == (
            "lexical",
            "semantic",
        )
    finally:
        embedder.gate.set()
        await embedding.close()


async def test_an_entry_is_found_by_its_meaning_at_once(
    memory_of: Callable[..., Memory], embedding: EmbeddingService
) -> None:
    memory = memory_of(embedding)
    await memory.remember("quince of an old garden")
    (hit,) = (await memory.recall("a quince?", kinds=("entry",))).hits
    assert hit.explain().cosine is not None
    assert hit.explain().cosine > 0.9


async def test_an_old_entry_counts_less_than_a_new_one_and_never_less_than_the_floor(memory: Memory) -> None:
    rules = memory.engine.recall
    for age, text in ((4000, "gate one"), (180, "gate two"), (0, "gate three")):
        memory.now = NOW - age * DAY
        await memory.remember(text)
    memory.now = NOW
    hits = (await memory.recall("gate")).hits
    assert [hit.message.parts[0]["text"] for hit in hits] == ["gate three", "gate two", "gate one"]
    assert [hit.explain().recency for hit in hits] == pytest.approx([1.0, 0.5, rules.recency_floor])
    await memory.say("main", "gate", created_at=NOW - 4000 * DAY, id="old")
    messages = (await memory.recall("gate", kinds=("message",))).hits
    assert [hit.explain().recency for hit in messages] == [1.0]


async def test_an_entry_that_has_no_vector_yet_gets_one_behind_it(
    memory: Memory, memory_of: Callable[..., Memory], embedding: EmbeddingService
) -> None:
    await memory.remember("quince of an old garden")
    later = memory_of(embedding)
    model = embedding.embedder.name
    assert await later.engine.database.read(vectors.progress, ANA, model) == vectors.Progress(1, 0)
    assert await VectorWriter(later.engine, embedding, "writer").scan()
    assert await later.engine.database.read(vectors.progress, ANA, model) == vectors.Progress(1, 1)
    assert (await later.recall("a sloe, a quince?", kinds=("entry",))).hits[0].explain().cosine is not None


async def test_entries_are_indexed_anew_like_messages(memory: Memory) -> None:
    kept = await memory.remember("The gate code is 4711.")
    dropped = await memory.remember("The gate is green.")
    await memory.forget(dropped["id"])
    await memory.remember("The gate code is 1234.", scope=BEN)
    assert await rebuild_all(memory.engine) == 2
    assert [hit.message.id for hit in (await memory.recall("gate")).hits] == [kept["id"]]

    async def outdate(tx: Tx, scope: Scope) -> None:
        await tx.run(sqlalchemy.text("UPDATE search_rows SET text_version = 1"))

    await memory.engine.database.write(outdate, ANA)
    assert await rebuild_old(memory.engine) == 2
    assert await rebuild_old(memory.engine) == 0


async def test_another_scopes_entries_are_not_there(memory: Memory) -> None:
    kept = await memory.remember("The gate code is 4711.", scope=BEN)
    assert await memory.found("gate code") == []
    with pytest.raises(NotFound, match="there is no entry"):
        await memory.forget(kept["id"])


async def test_the_block_has_what_fits_newest_first_with_ages(
    memory_of: Callable[..., Memory], embedding: EmbeddingService
) -> None:
    memory = memory_of(embedding)
    for age, text in (
        (15, "apple 1 of spring"),
        (2, "apple 2\nof summer"),
        (0, "plum of autumn"),
        (5, "apple 3 of winter"),
    ):
        memory.now = NOW - age * DAY
        await memory.remember(text)
    memory.now = NOW
    lines = [line for line in await memory.block("which apple?") if "plum" not in line]
    assert lines == [
        "- [assistant] apple 2 of summer (2 days ago)",
        "- [assistant] apple 3 of winter (5 days ago)",
        "- [assistant] apple 1 of spring (2 weeks ago)",
    ]
    assert await memory.block("") == []
    few = Memory(replace(memory.engine, entries=EntryRules(auto_inject_top_k=1)))
    assert len(await few.block("which apple?")) == 1
    off = Memory(replace(memory.engine, entries=EntryRules(auto_inject=False)))
    assert await off.block("which apple?") == []


async def test_the_block_has_what_only_the_vector_finds(
    memory_of: Callable[..., Memory], embedding: EmbeddingService
) -> None:
    memory = memory_of(embedding)
    await memory.remember("apple of spring")
    await memory.remember("plum of autumn")
    lines = await memory.block("pineapples")
    assert "- [assistant] apple of spring (today)" in lines
    assert await memory_of().block("pineapples") == []


async def test_an_entry_is_hidden_from_recall_and_block_with_its_thread_and_comes_back_with_it(memory: Memory) -> None:
    await memory.say("main", "The gate code is 4711.")
    await memory.remember("Code of the gate: 4711", evidence="gate code is 4711")
    gone = await deletion.delete_thread(memory.engine, ANA, "main", sent=memory.sent())
    assert await memory.found("gate") == []
    assert await memory.block("gate") == []
    await undo.undo(memory.engine, ANA, gone["undo"], sent=memory.sent())
    assert await memory.found("gate", kinds=("entry",)) == ["Code of the gate: 4711"]
    assert await memory.block("gate") == ["- Code of the gate: 4711 (today)"]


def test_the_block_begins_with_what_it_is() -> None:
    block = injected.wrap_memory_block(["- the gate code is 4711"])
    assert injected.DESCRIPTION in block
    assert block.index(injected.DESCRIPTION) < block.index("- the gate code is 4711")
    assert injected.wrap_memory_block([]) == ""
