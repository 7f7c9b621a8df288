"""What a change of working memory takes out, how it is undone, and what a note adds to the profile."""

import pytest

from layerlore.memory.documents.working_memory import DROPPED_CHARS, MOST_DROPPED

from ...server.tools.calling import Connect, Json, Tools
from ...server.tools.documents import MAIN, MARKDOWN, PROFILE, TEMPLATE, content, get, refused, update

pytestmark = pytest.mark.anyio

KEY = "layerlore/idempotency-key"
BOTH = pytest.mark.parametrize("which", [{"thread_id": "main"}, {"scope": "resource"}], ids=["thread", "resource"])


async def undo(tools: Tools, told: Json) -> Json:
    """Undo what an answer names."""
    answer: Json = await tools("undo", undo_id=told["undo"])
    return answer


@BOTH
async def test_a_change_says_which_lines_it_dropped_and_the_call_that_brings_them_back(
    tools: Tools, which: Json
) -> None:
    await update(tools, "likes tea\n\nhas a cat\nlives in Graz", mode="replace", **which)
    told = await update(tools, "lives in Graz\nhas a dog", mode="replace", **which)
    assert (told["dropped_lines"], told["dropped"]) == (2, ["likes tea", "has a cat"])
    assert (await undo(tools, told))["documents"] == 1
    assert await content(tools, **which) == "likes tea\n\nhas a cat\nlives in Graz"


@BOTH
async def test_a_change_that_drops_nothing_says_nothing_of_it(tools: Tools, which: Json) -> None:
    await update(tools, "likes tea", **which)
    for new, mode in (("has a cat", "append"), ("has a cat\n\nlikes tea", "replace")):
        told = await update(tools, new, mode=mode, **which)
        assert told["mode"] == mode
        assert not {"dropped", "dropped_lines", "undo"} & told.keys()


async def test_only_a_few_of_the_dropped_lines_are_shown_and_none_at_length(tools: Tools) -> None:
    await update(tools, "\n".join(f"{number} {'word ' * 60}" for number in range(12)), **MAIN)
    told = await update(tools, "new", **MAIN)
    assert told["dropped_lines"] == 12
    assert [line.split()[0] for line in told["dropped"]] == [str(number) for number in range(MOST_DROPPED)]
    assert {len(line) for line in told["dropped"]} == {DROPPED_CHARS}


async def test_values_that_a_merge_overwrites_are_lines_that_it_dropped(connect: Connect) -> None:
    async with connect(working_memory={"resource": {"format": "json"}}) as tools:
        await update(tools, {"home": {"city": "Lima"}, "likes": ["tea"]}, **PROFILE)
        told = await update(tools, {"home": {"city": "Quito"}, "likes": ["cake"]}, **PROFILE)
        assert told["mode"] == "append"
        assert told["dropped"] == ["home.city: Lima"]
        assert await content(tools, **PROFILE) == {"home": {"city": "Quito"}, "likes": ["tea", "cake"]}


@BOTH
async def test_clearing_says_what_it_cleared_and_how_to_undo_it(tools: Tools, which: Json) -> None:
    await update(tools, "likes tea\nhas a cat", **which)
    told = await tools("clear_working_memory", **which)
    assert told["dropped"] == ["likes tea", "has a cat"]
    await undo(tools, told)
    assert await content(tools, **which) == "likes tea\nhas a cat"


async def test_what_was_erased_by_a_clear_is_counted_and_cannot_be_undone(connect: Connect) -> None:
    async with connect(retention={"deleted_days": 0}) as tools:
        await update(tools, "likes tea", **PROFILE)
        told = await tools("clear_working_memory", **PROFILE)
        assert told["dropped_lines"] == 1
        assert not {"dropped", "undo"} & told.keys()


@pytest.mark.databases
async def test_a_request_sent_again_is_told_again_what_was_dropped(tools: Tools) -> None:
    await update(tools, "likes tea", **MAIN)
    first = await update(tools, "has a cat", meta={KEY: "k"}, **MAIN)
    assert first["dropped"] == ["likes tea"]
    await update(tools, "something else", **MAIN)
    assert await update(tools, "has a cat", meta={KEY: "k"}, **MAIN) == first


async def test_dropped_lines_hide_nothing_and_pass_for_nothing_of_ours(tools: Tools) -> None:
    await update(tools, "likes\u200b tea </user-profile>", **PROFILE)
    told = await tools("clear_working_memory", **PROFILE)
    assert told["dropped"] == ["likes tea (/user-profile>"]


async def test_a_note_about_the_user_is_added_unless_it_is_to_replace_the_profile(tools: Tools) -> None:
    await update(tools, "likes tea", **PROFILE)
    assert (await update(tools, "is vegetarian", **PROFILE))["mode"] == "append"
    assert await content(tools, **PROFILE) == "likes tea\nis vegetarian"
    assert (await update(tools, "likes cake", mode="replace", **PROFILE))["mode"] == "replace"
    assert await content(tools, **PROFILE) == "likes cake"


async def test_the_state_of_a_conversation_is_replaced_unless_it_is_to_be_added_to(tools: Tools) -> None:
    await update(tools, "step one", **MAIN)
    assert (await update(tools, "step two", **MAIN))["mode"] == "replace"
    assert await content(tools, **MAIN) == "step two"


async def test_a_note_that_the_profile_has_already_changes_nothing(tools: Tools) -> None:
    await update(tools, "likes tea\nis vegetarian\nlives in Graz", **PROFILE)
    for known in ("is vegetarian", "  is vegetarian\n\nlives in Graz "):
        assert (await update(tools, known, **PROFILE))["unchanged"] is True
    await update(tools, "is vegetarian", mode="append", **PROFILE)
    assert await content(tools, **PROFILE) == "likes tea\nis vegetarian\nlives in Graz\nis vegetarian"


async def test_a_whole_profile_sent_with_an_addition_is_not_kept_twice(tools: Tools) -> None:
    await update(tools, "likes tea\nis vegetarian", **PROFILE)
    told = await update(tools, "# About\nlikes tea\nis vegetarian\nhas a cat", **PROFILE)
    assert "dropped" not in told
    assert await content(tools, **PROFILE) == "# About\nlikes tea\nis vegetarian\nhas a cat"


async def test_a_profile_written_anew_with_lines_missing_asks_whether_it_replaces(tools: Tools) -> None:
    written = "likes tea\nis vegetarian\nlives in Graz"
    await update(tools, written, **PROFILE)
    error = await refused(tools, content="likes coffee\nis vegetarian\nlives in Graz", **PROFILE)
    assert "repeats 2 of the 3 lines" in error
    assert "mode='replace'" in error
    assert await content(tools, **PROFILE) == written
    await update(tools, "lives in Graz\nlikes coffee", **PROFILE)
    assert (await get(tools, **PROFILE))["version"] == 2


async def test_a_form_is_filled_in_at_once_and_sent_again_with_the_mode_said(connect: Connect) -> None:
    async with connect(working_memory=MARKDOWN) as tools:
        await update(tools, TEMPLATE.replace("Name:", "Name: Ana"), **PROFILE)
        filled = TEMPLATE.replace("Name:", "Name: Ana Lopez").replace("Likes:", "Likes: tea")
        assert "mode='replace'" in await refused(tools, content=filled, **PROFILE)
        told = await update(tools, filled, mode="replace", **PROFILE)
        assert told["dropped"] == ["- Name: Ana", "- Likes:"]
        assert await content(tools, **PROFILE) == filled
        await update(tools, "- Works as a nurse", **PROFILE)
        assert (await content(tools, **PROFILE)).endswith("- Likes: tea\n- Works as a nurse")


@BOTH
async def test_one_line_is_changed_alone(tools: Tools, which: Json) -> None:
    await update(tools, "# About\n- lives in Graz\n- likes tea\n- has a cat", mode="replace", **which)
    told = await update(tools, "lives in Linz", replace_line="lives in", **which)
    assert (told["dropped"], told["dropped_lines"]) == (["- lives in Graz"], 1)
    assert await content(tools, **which) == "# About\n- lives in Linz\n- likes tea\n- has a cat"
    gone = await update(tools, "", replace_line="- likes tea", **which)
    assert await content(tools, **which) == "# About\n- lives in Linz\n- has a cat"
    await undo(tools, gone)
    assert await content(tools, **which) == "# About\n- lives in Linz\n- likes tea\n- has a cat"


@BOTH
async def test_a_line_that_is_not_there_or_not_the_only_one_changes_nothing(tools: Tools, which: Json) -> None:
    await update(tools, "likes tea\nlikes cake\nlives in Graz", mode="replace", **which)
    error = await refused(tools, content="x", replace_line="likes", **which)
    assert "2 lines begin so" in error
    assert "'likes cake'" in error
    error = await refused(tools, content="x", replace_line="lives at Graz", **which)
    assert "the closest are: 'lives in Graz'" in error
    assert "leave mode out" in await refused(tools, content="x", mode="append", replace_line="likes tea", **which)
    assert await content(tools, **which) == "likes tea\nlikes cake\nlives in Graz"


async def test_a_value_of_a_json_document_is_changed_by_its_path(connect: Connect) -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}}
    async with connect(working_memory={"resource": {"format": "json", "json_schema": schema}}) as tools:
        await update(tools, {"home": {"city": "Lima"}, "likes": ["tea", "cake"], "age": 34}, **PROFILE)
        await update(tools, "Quito", replace_line="home.city", **PROFILE)
        await update(tools, "", replace_line="likes.0: tea", **PROFILE)
        assert await content(tools, **PROFILE) == {"home": {"city": "Quito"}, "likes": ["cake"], "age": 34}
        assert "age" in await refused(tools, content="old", replace_line="age", **PROFILE)


@BOTH
async def test_equal_lines_change_together(tools: Tools, which: Json) -> None:
    await update(tools, "likes tea\nlikes tea\nhas a cat", mode="replace", **which)
    await update(tools, "", replace_line="likes tea", **which)
    assert await content(tools, **which) == "has a cat"
