"""Notes of a file that others change: what it says now stands, on either database."""

import pytest

from layerlore.memory.moving.foreign_notes import ForeignNote, put_notes
from layerlore.memory.moving.line_forms import ImportReport

from ..entry_memory import ANA, Memory

pytestmark = pytest.mark.anyio

FILE = "~/.claude/projects/-shop/memory/MEMORY.md"


async def put(memory: Memory, *texts: str, file: str = FILE) -> ImportReport:
    """Store the notes of a file, which was changed just now."""
    memory.now += 1_000
    report = ImportReport()
    notes = [ForeignNote(text, memory.now, file=file) for text in texts]
    await put_notes(memory.engine, ANA, notes, "merge", report, memory.sent("import"), source="claude-memory")
    return report


async def test_a_file_that_returns_to_an_earlier_text_says_the_earlier_text_again(memory: Memory) -> None:
    await put(memory, "The shop is deployed to Hetzner.")
    await put(memory, "The shop is deployed to Fly.")
    assert await memory.found("shop deployed") == ["The shop is deployed to Fly."]
    report = await put(memory, "The shop is deployed to Hetzner.")
    assert dict(report.counts["entry"]) == {"replaced": 1, "superseded": 1}
    assert await memory.found("shop deployed") == ["The shop is deployed to Hetzner."]


async def test_a_line_that_was_only_removed_stays_and_other_files_keep_theirs(memory: Memory) -> None:
    await put(memory, "The shop sells pears.", "The shop sells plums.")
    await put(memory, "The shop sells figs.", file="~/other.md")
    await put(memory, "The shop sells pears.")
    assert len(await memory.found("shop sells")) == 3


async def test_what_the_user_said_too_is_not_replaced_by_a_change_of_the_file(memory: Memory) -> None:
    await put(memory, "Ana never eats meat.")
    await memory.say("main", "Ana never eats meat.")
    memory.now += 1_000
    await memory.remember("Ana never eats meat.", evidence="Ana never eats meat.", source="user_assertion")
    await put(memory, "Ana never eats meat.")
    await put(memory, "Ana eats fish on Fridays.")
    assert "Ana never eats meat." in await memory.found("Ana eats meat", kinds=("entry",))


async def test_what_was_forgotten_stays_forgotten_though_the_file_still_says_it(memory: Memory) -> None:
    await put(memory, "Ana never eats meat.")
    (hit,) = (await memory.recall("Ana meat")).hits
    memory.now += 10_000
    await memory.forget(hit.message.id)
    memory.now -= 9_000
    report = await put(memory, "Ana never eats meat.")
    assert [each.why for each in report.skipped] == ["it was forgotten here, and stays so"]
    assert await memory.found("Ana meat") == []
