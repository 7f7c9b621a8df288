"""Completion: the caller's own ids that begin with what was typed, newest first."""

from collections.abc import Sequence

import pytest
from mcp import MCPError
from mcp.types import INVALID_PARAMS, Completion, PromptReference, ResourceTemplateReference

from layerlore.server.resources.kinds import TEMPLATED
from layerlore.server.resources.requests import template_of

from ..tools.calling import Connect, Tools

pytestmark = pytest.mark.anyio


THREADED = [template_of(kind) for kind in TEMPLATED if "{thread_id}" in template_of(kind)]
THREAD = THREADED[0]


async def completed(tools: Tools, typed: str, ref: str = THREAD, argument: str = "thread_id") -> Completion:
    """What completes an argument of a template, or of a prompt where ``ref`` is no URI."""
    reference = ResourceTemplateReference(uri=ref) if "://" in ref else PromptReference(name=ref)
    return (await tools.client.complete(reference, {"name": argument, "value": typed})).completion


async def ids(tools: Tools, typed: str, ref: str = THREAD) -> Sequence[str]:
    return (await completed(tools, typed, ref)).values


async def refused(tools: Tools, ref: str, argument: str = "thread_id") -> str:
    with pytest.raises(MCPError) as raised:
        await completed(tools, "", ref, argument)
    assert raised.value.error.code == INVALID_PARAMS
    return raised.value.error.message


@pytest.mark.eras
async def test_the_server_says_that_it_completes(tools: Tools) -> None:
    capabilities = tools.client.server_capabilities
    assert capabilities
    assert capabilities.completions is not None


@pytest.mark.databases
async def test_thread_ids_that_begin_so_come_newest_first_for_templates_and_the_prompt(tools: Tools) -> None:
    for thread_id in ("tea", "teapot", "coffee", "team", "Tea", "t_a", "t%"):
        await tools("update_thread", thread_id=thread_id, title="x")
    await tools.say("tea", "hello")
    for ref in (*THREADED, "resume_work"):
        assert await ids(tools, "te", ref) == ["tea", "team", "teapot"]
        assert await ids(tools, "", ref) == ["tea", "t%", "t_a", "Tea", "team", "coffee", "teapot"]
    assert await ids(tools, "teapot") == ["teapot"]
    assert await ids(tools, "T") == ["Tea"]
    assert await ids(tools, "t_") == ["t_a"]
    assert await ids(tools, "t%") == ["t%"]
    assert await ids(tools, "nothing") == []


@pytest.mark.databases
async def test_run_ids_that_begin_so_come_newest_first(connect: Connect) -> None:
    async with connect(toolsets=["all"]) as tools, connect(resource="ben") as other:
        for run_id, thread_id in (("deploy/1", "main"), ("deploy/2", "main"), ("build", "main"), ("deploy/3", "gone")):
            await tools("suspend_run", run_id=run_id, state={}, thread_id=thread_id)
        await tools("delete_thread", thread_id="gone")
        for typed, found in (("de", ["deploy/2", "deploy/1"]), ("", ["build", "deploy/2", "deploy/1"]), ("x", [])):
            completion = await completed(tools, typed, template_of("run"), "run_id")
            assert (list(completion.values), completion.total, completion.has_more) == (found, len(found), False)
            assert (await completed(other, typed, template_of("run"), "run_id")).values == []


async def test_ids_are_completed_as_they_are_not_as_a_uri_has_them(tools: Tools) -> None:
    for thread_id in ("日本/a b", "日本🍵", "😀"):
        await tools.say(thread_id, "hello")
    assert await ids(tools, "日本") == ["日本🍵", "日本/a b"]
    assert await ids(tools, "日本/a ") == ["日本/a b"]
    assert await ids(tools, "😀") == ["😀"]


@pytest.mark.databases
async def test_at_most_a_hundred_are_given_and_how_many_there_are(tools: Tools) -> None:
    for number in range(101):
        await tools("update_thread", thread_id=f"t{number}", title="x")
        if number == 99:
            full = await completed(tools, "t")
            assert (len(full.values), full.total, full.has_more) == (100, 100, False)
    found = await completed(tools, "t")
    assert (len(found.values), found.total, found.has_more) == (100, 101, True)
    assert list(found.values) == [f"t{number}" for number in reversed(range(1, 101))]
    few = await completed(tools, "t10")
    assert (list(few.values), few.total, few.has_more) == (["t100", "t10"], 2, False)


async def test_deleted_and_foreign_threads_are_never_completed(connect: Connect) -> None:
    async with connect() as tools, connect(resource="ben") as other:
        await tools.say("theirs", "hello")
        await tools.say("gone", "hello")
        await tools("delete_thread", thread_id="gone")
        assert await ids(tools, "") == ["theirs"]
        assert await ids(other, "") == await ids(other, "theirs") == []


async def test_an_argument_without_known_values_is_completed_by_nothing(tools: Tools) -> None:
    await tools.say("5", "hello")
    found = await completed(tools, "5", template_of("messages"), "limit")
    assert (list(found.values), found.total, found.has_more) == ([], 0, False)


@pytest.mark.eras
async def test_what_does_not_exist_is_told_what_does(tools: Tools) -> None:
    assert "'memory://nothing'" in await refused(tools, "memory://nothing")
    assert THREAD in await refused(tools, "memory://nothing")
    assert "did you mean 'resume_work'?" in await refused(tools, "resume_works")
    assert "allowed: thread_id, limit, before" in await refused(tools, template_of("messages"), "thread")
    assert "it takes no arguments" in await refused(tools, "review_memory")


@pytest.mark.eras
async def test_what_no_id_can_hold_is_refused(tools: Tools) -> None:
    with pytest.raises(MCPError) as raised:
        await completed(tools, "\x00")
    assert raised.value.error.message.startswith("thread_id: character 0 is NUL")


@pytest.mark.eras
async def test_with_memory_off_nothing_is_completed(connect: Connect) -> None:
    async with connect(memory="off") as tools:
        assert "memory is switched off" in await refused(tools, THREAD)
