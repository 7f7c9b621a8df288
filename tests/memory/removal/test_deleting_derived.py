"""What was made from messages goes with them, everywhere that the tools look, and comes back with them."""

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from scripted_chat import ScriptedChat

from layerlore.extraction.jobs.worker import attempt
from layerlore.extraction.kinds.entries import EntryExtractor
from layerlore.extraction.kinds.kind import JobKind, Material
from layerlore.extraction.kinds.profile import ProfileWriter
from layerlore.extraction.kinds.session_memory import SessionMemoryWriter
from layerlore.extraction.kinds.titles import TitleWriter
from layerlore.memory.engine.engine import Engine, Sent
from layerlore.memory.removal import undo
from layerlore.server.runtime.runtime import close_engine, open_engine
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.records import Json, Origin, Scope
from layerlore.storage.jobs import job_rows

from ...conftest import SettingsFor
from ...server.tools.calling import Tools

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

SCOPE = Scope("local", "default", "default")
KINDS: list[JobKind] = [EntryExtractor(), ProfileWriter(), SessionMemoryWriter(), TitleWriter()]
LATER_MS = 60_000
COLOURS = ("teal", "mauve", "ochre", "khaki", "umber")


def wish(colour: str) -> str:
    return f"I want the kitchen wall painted {colour} please."


def named(value: Any) -> list[str]:
    return [colour for colour in COLOURS if colour in str(value)]


def answers() -> ScriptedChat:
    """A model that tells which colours are wanted, in every kind of memory."""
    chat = ScriptedChat()

    def of(material: Material) -> Json:
        content: Json = json.loads(material.content)
        return content

    def entries(material: Material) -> Json:
        return {
            "entries": [
                {"content": f"Wants {each}", "source": "user_assertion", "evidence": wish(each), "corrects": None}
                for each in named(of(material)["messages"])
            ]
        }

    def profile(material: Material) -> Json:
        new = named(of(material)["messages"])
        known = named(of(material)["profile"])
        text = "\n".join(f"- likes {each}" for each in dict.fromkeys([*known, *new]))
        return {"changed": bool(new), "evidence": wish(new[0]) if new else "", "document": text}

    def session(material: Material) -> Json:
        content = of(material)
        if "already_noted" in content:
            notes = [{"category": "state", "text": f"asked for {each}"} for each in named(content["messages"])]
            return {"notes": notes, "nothing_to_note": not notes}
        return {"document": "\n".join(f"- to paint {each}" for each in named(content))}

    for kind, reply in (("entries", entries), ("profile", profile), ("session_memory", session)):
        chat.tell(kind, reply)
    chat.tell("title", lambda material: {"title": f"Painting it {named(material.content)[0]}"})
    return chat


class Background:
    """What does the jobs, beside the server."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.chat = engine, answers()

    async def work(self) -> None:
        kinds = {kind.name: kind for kind in KINDS}
        while True:
            later = self.engine.now() + LATER_MS
            claim = await self.engine.database.write_installation(
                job_rows.claim, list(kinds), holder="t", now=later, lease_ms=LATER_MS
            )
            if claim is None:
                return
            await attempt(self.engine, kinds[claim.kind], claim, self.chat)

    async def restore(self, undo_id: str) -> None:
        await undo.undo(self.engine, SCOPE, undo_id, sent=Sent(Origin("test", "undo")))


@pytest.fixture
async def background(settings_for: Callable[..., Settings]) -> AsyncIterator[Background]:
    engine = await open_engine(settings_for())
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(close_engine, engine)
        yield Background(engine)


async def tell(tools: Tools, thread: str, *colours: str) -> None:
    """A turn for each colour; the user's message has its name as its id."""
    for colour in colours:
        said = {"role": "user", "content": wish(colour), "id": colour}
        await tools.add(thread, said, {"role": "assistant", "content": "Noted."})


async def shown(tools: Tools, thread: str = "main") -> dict[str, list[str]]:
    """The colours that are told of, by whoever tells."""
    listed = (await tools("list_threads"))["threads"]
    return {
        "messages": named(await tools.messages(thread)),
        "entries": [name for name in COLOURS if f"Wants {name}" in await tools.found(f"wants {name}")],
        "profile": named(await tools("get_working_memory", scope="resource")),
        "session": named(await tools("get_working_memory", scope="thread", thread_id=thread)),
        "title": named([each.get("title") for each in listed]),
        "context": named(await tools("get_context", thread_id=thread)),
        "forgettable": named(await tools("forget", query="kitchen wall painted likes wants asked paint")),
    }


async def test_what_was_made_from_a_deleted_message_goes_at_once_is_made_again_and_comes_back(
    tools: Tools, background: Background
) -> None:
    await tell(tools, "main", *COLOURS)
    await background.work()
    before = await shown(tools)
    for what in ("messages", "entries", "profile", "session", "context"):
        assert sorted(before[what]) == sorted(COLOURS), what
    assert before["title"] == ["teal"]
    deleted = await tools("delete_messages", which="ids", ids=["teal", "khaki"], thread_id="main")
    after = await shown(tools)
    left = [colour for colour in COLOURS if colour not in ("teal", "khaki")]
    for what, told in after.items():
        assert set(told) <= set(left), what
    assert (after["messages"], after["entries"], after["title"]) == (left, left, [])
    assert (after["profile"], after["session"]) == ([], []), "each was made of all of them at once"
    await background.work()
    again = await shown(tools)
    assert (again["profile"], again["title"]) == (left, ["mauve"])
    await background.restore(deleted["undo"])
    await background.work()
    back = await shown(tools)
    assert (back["messages"], back["entries"], sorted(back["profile"])) == (
        list(COLOURS),
        list(COLOURS),
        sorted(COLOURS),
    )


async def test_a_delete_that_is_undone_before_anything_was_made_again_leaves_documents_as_they_were(
    tools: Tools, background: Background
) -> None:
    await tell(tools, "main", *COLOURS)
    await background.work()
    before = await shown(tools)
    deleted = await tools("delete_messages", which="last_turn", thread_id="main")
    assert "umber" not in str(await shown(tools))
    await background.restore(deleted["undo"])
    after = await shown(tools)
    for what in ("messages", "entries", "profile", "session", "context"):
        assert after[what] == before[what], what


async def test_a_deleted_thread_takes_along_what_was_made_from_it(tools: Tools, background: Background) -> None:
    await tell(tools, "main", "teal", "mauve")
    await background.work()
    await tell(tools, "other", "ochre")
    await background.work()
    deleted = await tools("delete_thread", thread_id="other")
    after = await shown(tools)
    assert after["entries"] == after["profile"] == ["teal", "mauve"]
    assert "ochre" not in str(after)
    await background.restore(deleted["undo"])
    assert (await shown(tools))["profile"] == ["teal", "mauve", "ochre"]
    deleted = await tools("delete_thread", thread_id="main")
    assert named(await tools("get_working_memory", scope="resource")) == []
    await background.work()
    assert named(await tools("get_working_memory", scope="resource")) == ["ochre"], "what remains was read again"


async def test_forgetting_what_a_preview_showed_takes_along_what_was_made_from_it(
    tools: Tools, background: Background
) -> None:
    await tell(tools, "main", "teal", "mauve")
    await background.work()
    preview = await tools("forget", query="wants kitchen teal")
    token = preview.partition('confirm="')[2].partition('"')[0]
    await tools("forget", confirm=token)
    after = await shown(tools)
    assert "teal" not in str(after)
    await background.work()
    assert "teal" not in str(await shown(tools))


async def test_without_retention_what_was_made_from_a_message_is_erased_at_once(
    connect: Any, settings_for: SettingsFor, background: Background
) -> None:
    async with connect(retention={"deleted_days": 0}) as tools:
        await tell(tools, "main", "teal")
        await background.work()
        await tell(tools, "main", "mauve")
        await background.work()
        assert (await shown(tools))["profile"] == ["teal", "mauve"]
        await tools("delete_messages", which="ids", ids=["mauve"], thread_id="main")
        assert "mauve" not in str(await shown(tools))
        assert (await shown(tools))["profile"] == ["teal"]
        versions = await tools("get_working_memory", scope="resource", format="json")
        assert "mauve" not in str(versions)


async def test_a_receipt_counts_what_goes_with_a_forgotten_message(tools: Tools, background: Background) -> None:
    await tell(tools, "main", "teal")
    await background.work()
    before = await shown(tools)
    assert (before["entries"], before["title"]) == (["teal"], ["teal"])
    preview = await tools("forget", query="teal")
    assert "- entry " in preview
    assert "- message #1 of thread main" in preview
    told = await tools("forget", confirm=preview.partition('confirm="')[2].partition('"')[0])
    counted = told.split(" Erased for good")[0]
    assert counted.startswith("Forgotten: 1 entry, 1 message")
    assert counted.endswith("1 title.")
    assert "Not changed" not in told
    after = await shown(tools)
    assert (after["messages"], after["entries"], after["title"]) == ([], [], [])


async def test_a_receipt_counts_an_entry_that_only_its_message_is_about(tools: Tools) -> None:
    said = "The kettle of brass was dear."
    await tools.say("main", f"The samovar came from Tula. {said}")
    await tools("remember", content=said, evidence=said, thread_id="main", source="user_assertion")
    preview = await tools("forget", query="samovar from Tula")
    assert "- entry " not in preview
    told = await tools("forget", confirm=preview.partition('confirm="')[2].partition('"')[0])
    assert told.startswith("Forgotten: 1 entry, 1 message.")


async def test_background_work_makes_nothing_of_a_memory_that_is_read_only(
    tools: Tools, settings_for: Callable[..., Settings]
) -> None:
    await tell(tools, "main", "teal")
    engine = await open_engine(settings_for(agents={SCOPE.agent_id: {"memory": "read-only"}}))
    try:
        await Background(engine).work()
    finally:
        await close_engine(engine)
    after = await shown(tools)
    assert (after["messages"], after["entries"], after["profile"], after["title"]) == (["teal"], [], [], [])
