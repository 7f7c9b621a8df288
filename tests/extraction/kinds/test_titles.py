"""A conversation is called by what its user first asked, once, and never over what a caller called it."""

import pytest

from layerlore.extraction.kinds.kind import AnswerRefused, Fenced, Stale
from layerlore.extraction.kinds.titles import TitleWriter, clean_title, is_trivial, shorten
from layerlore.memory.messages.threads import update_thread
from layerlore.memory.settings.note_settings import TitleRules
from layerlore.storage.core.transaction import Database
from layerlore.storage.threads import events

from ..talking import SENT
from ..turning import Turns

pytestmark = pytest.mark.anyio

MOST_CHARS = TitleRules().max_length

ASKED = "How do I bake bread without an oven?"


@pytest.fixture
def turns(database: Database) -> Turns:
    return Turns.on(database, TitleWriter())


async def title_of(turns: Turns) -> tuple[str | None, str | None]:
    thread = await turns.talk.found()
    return thread.title, thread.title_by


async def call_it(turns: Turns, title: str) -> None:
    await update_thread(turns.talk.engine, turns.talk.scope, "main", title=title, metadata=None, sent=SENT)


async def without_model(turns: Turns) -> None:
    claim = await turns.claim()
    assert claim is not None
    await turns.attempt(claim, None)


async def test_the_first_message_that_says_something_gives_the_title(turns: Turns) -> None:
    await turns.turn("Hi!")
    assert await turns.work({"title": "never"}) == []
    await turns.turn("Good morning")
    await turns.turn(ASKED)
    (given,) = await turns.work({"title": '## "Bread without an oven."'})
    assert given == {"message": ASKED}
    assert await title_of(turns) == ("Bread without an oven", "scripted/one")
    assert await turns.waiting() == []
    log = await turns.talk.engine.database.read(
        events.read_page, turns.talk.scope, "main", after=0, types=["thread_updated"], limit=9
    )
    assert [event.payload for event in log.events] == [
        {"changed": ["title"], "model": "scripted/one", "prompt": "title/2"}
    ]


async def test_a_title_is_given_once(turns: Turns) -> None:
    await turns.turn(ASKED)
    await turns.work({"title": "Bread"})
    await turns.turn("And how do I make butter at home?")
    assert await turns.work({"title": "Butter"}) == []
    assert await title_of(turns) == ("Bread", "scripted/one")


@pytest.mark.parametrize("title", ["Mine", ""])
@pytest.mark.parametrize("meanwhile", [False, True])
async def test_a_title_that_a_caller_set_or_took_away_stays_so(turns: Turns, title: str, meanwhile: bool) -> None:
    if not meanwhile:
        await call_it(turns, title)
    await turns.turn(ASKED)
    if meanwhile:
        engine, claim = turns.talk.engine, await turns.claim()
        assert claim is not None
        material = await engine.database.read(turns.kind.prepare, claim, engine)
        assert material is not None
        await call_it(turns, title)
        await turns.answer(claim, material, {"title": "Bread"})
    assert await turns.work({"title": "Bread"}) == []
    assert await title_of(turns) == (title or None, "caller")


async def test_without_a_model_the_message_is_cut_at_a_word(turns: Turns) -> None:
    await turns.turn(
        "Please **explain** why `memory.db` grows after each of the nightly imports; see ```x = 1``` below."
    )
    await without_model(turns)
    title, by = await title_of(turns)
    assert (title, by) == ("Please explain why memory.db grows after each of the…", "extractive")


async def test_secrets_do_not_enter_a_title(turns: Turns) -> None:
    turns.set(redaction="derived")
    await turns.turn("My key ghp_abcdefghijklmnopqrstuvwxyz0123456789 does not work here")
    await without_model(turns)
    title, _ = await title_of(turns)
    assert title is not None
    assert "abcdefgh" not in title


@pytest.mark.parametrize("wrong", [{}, {"title": 1}, {"title": ""}, {"title": "<think>hm"}, {"title": "«…»"}], ids=str)
async def test_a_title_without_a_word_is_refused(turns: Turns, wrong: dict[str, object]) -> None:
    await turns.turn(ASKED)
    with pytest.raises(AnswerRefused, match="title"):
        await turns.work(wrong)
    assert await title_of(turns) == (None, None)


async def test_a_message_deleted_meanwhile_gives_no_title(turns: Turns) -> None:
    await turns.talk.add({"role": "user", "content": ASKED, "id": "a"})
    await turns.talk.say("So.", role="assistant")
    engine, claim = turns.talk.engine, await turns.claim()
    assert claim is not None
    material = await engine.database.read(turns.kind.prepare, claim, engine)
    assert material is not None
    await turns.talk.delete("a")
    with pytest.raises((Stale, Fenced)):
        await turns.answer(claim, material, {"title": "Bread"})
    assert await title_of(turns) == (None, None)


@pytest.mark.parametrize(
    ("text", "trivial"),
    [
        ("Hi", True),
        ("hello there you", True),
        ("internationalisation please now", True),
        ("a b c d e f g", True),
        ("why is it so slow", False),
        ("你好", True),
        ("怎么在没有烤箱的情况下烤面包", False),
        ("ทำขนมปังโดยไม่ใช้เตาอบ", False),
        ("", True),
        ("?!? ... !!! ??? ---", True),
    ],
)
def test_what_is_too_short_to_be_what_a_conversation_is_about(text: str, trivial: bool) -> None:
    assert is_trivial(text) is trivial


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("<think>The user wants\nbread</think>\nBread", "Bread"),
        ("```\nBread\n```", "Bread"),
        ("```text\nBread\n```", "Bread"),
        ("# Title: **Bread** at home.", "Bread at home"),
        ("“Bread”", "Bread"),
        ("Bread\n\nat   home!?", "Bread at home"),
        ("[Bread](https://x.org) at *home*", "Bread at home"),
        ("2 * 3 * 4 is what", "2 * 3 * 4 is what"),
        ("Learn C#", "Learn C#"),
        (".env files", ".env files"),
        ("面包。", "面包"),
    ],
)
def test_a_title_is_cleaned(written: str, title: str) -> None:
    assert clean_title(written) == title


def test_a_long_title_is_cut_at_a_word_if_that_leaves_enough() -> None:
    assert shorten("word " * 30, MOST_CHARS) == ("word " * 12).rstrip() + "…"
    assert shorten("x" * 100, MOST_CHARS) == "x" * (MOST_CHARS - 1) + "…"
    assert shorten("short " + "x" * 100, MOST_CHARS) == "short…"
    assert shorten("x" * MOST_CHARS, MOST_CHARS) == "x" * MOST_CHARS
