"""Resources: listed for each caller, read as what the tools answer, refused in words that say what is allowed."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.shared.uri_template import UriTemplate
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, Resource, TextResourceContents

from layerlore.server.resources.kinds import OF_A_THREAD, TEMPLATED
from layerlore.server.resources.requests import template_of, uri_of, uri_of_entry, uri_of_run
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import Settings, load_settings

from ..tools.calling import Connect, Json, Tools
from ..tools.test_errors import spoil

pytestmark = [pytest.mark.anyio, pytest.mark.eras]


KEY = f"sk-ant-api03-{'aB3dE5fG7hI9' * 5}"
AWKWARD = ("a/b", "..", "%2F", "#", "?limit=1", "a b", "x:y", "日本 ü", "a+b&c=d")
FIXED = ["memory://profile", "memory://entries", "memory://threads", "memory://status"]


async def read(tools: Tools, uri: str, meta: Any = None) -> str:
    """The one text of a resource."""
    (content,) = (await tools.client.read_resource(uri, meta=meta)).contents
    assert isinstance(content, TextResourceContents)
    assert content.uri == uri
    return content.text


async def read_json(tools: Tools, uri: str, meta: Any = None) -> Json:
    found: Json = json.loads(await read(tools, uri, meta))
    return found


def unknown_in(era: str) -> int:
    """The code of an unknown resource."""
    return INVALID_PARAMS if era == "modern" else -32002


async def refused(tools: Tools, uri: str, code: int = INVALID_PARAMS) -> str:
    """The text of a reading that must fail."""
    with pytest.raises(MCPError) as raised:
        await tools.client.read_resource(uri)
    assert raised.value.error.code == code
    assert raised.value.error.data == {"uri": uri}
    return raised.value.error.message


async def listed(tools: Tools, meta: Any = None) -> list[Resource]:
    """Every page."""
    found: list[Resource] = []
    cursor = None
    while True:
        page = await tools.client.list_resources(cursor=cursor, meta=meta)
        found += page.resources
        cursor = page.next_cursor
        if cursor is None:
            return found


async def uris(tools: Tools, meta: Any = None) -> list[str]:
    return [resource.uri for resource in await listed(tools, meta)]


async def test_the_list_has_what_is_always_there_then_the_current_thread_then_all_threads(connect: Connect) -> None:
    async with connect(thread="now") as tools:
        await tools.say("old", "hello")
        await tools("update_thread", thread_id="new", title="Tea")
        own = [uri_of(kind, "now") for kind in OF_A_THREAD]
        assert await uris(tools) == [*FIXED, *own, "memory://threads/new", "memory://threads/old"]
        await tools.say("now", "hello")
        await tools.say("old", "again")
        threads = [uri_of("thread", thread_id) for thread_id in ("old", "now", "new")]
        assert await uris(tools) == [*FIXED, *own, *threads]


async def test_everything_listed_says_what_it_is_and_can_be_read(tools: Tools) -> None:
    await tools("update_thread", thread_id="a/b", title="Tea")
    found = await listed(tools)
    for resource in found:
        assert resource.name
        assert resource.description
        assert resource.annotations
        assert resource.annotations.audience
        (content,) = (await tools.client.read_resource(resource.uri)).contents
        assert content.mime_type == resource.mime_type
    assert (found[-1].name, found[-1].title) == ("a/b", "Tea")
    assert found[-1].annotations
    assert found[-1].annotations.last_modified == (await read_json(tools, found[-1].uri))["updated_at"]
    assert len({resource.uri for resource in found}) == len(found)


async def test_a_long_list_comes_in_pages_of_fifty_each_thread_once(tools: Tools) -> None:
    for number in range(101):
        await tools("update_thread", thread_id=f"t{number}", title="x")
    pages = []
    cursor = None
    while not pages or cursor:
        page = await tools.client.list_resources(cursor=cursor)
        pages.append([resource.uri for resource in page.resources])
        cursor = page.next_cursor
    own = len(FIXED) + len(OF_A_THREAD)
    assert [len(page) for page in pages] == [own + 50, 50, 1]
    assert [uri for page in pages for uri in page][own:] == [f"memory://threads/t{n}" for n in reversed(range(101))]


async def test_a_cursor_that_was_never_given_is_refused(tools: Tools) -> None:
    for cursor in ("nonsense", "é", "WzVd"):
        with pytest.raises(MCPError) as raised:
            await tools.client.list_resources(cursor=cursor)
        assert raised.value.error.code == INVALID_PARAMS
        assert raised.value.error.message.startswith("cursor: not one that resources/list gave")


async def test_the_current_thread_is_the_one_that_meta_names(tools: Tools) -> None:
    meta = {"layerlore/thread": "a/b"}
    assert [uri for uri in await uris(tools, meta) if uri.startswith("memory://threads/")] == [
        f"memory://threads/a%2Fb/{kind}" for kind in OF_A_THREAD
    ]
    assert (await read_json(tools, "memory://threads/a%2Fb/messages", meta))["messages"] == []


async def test_an_unfit_thread_in_meta_is_refused(tools: Tools) -> None:
    for name in ("x\x00", "x" * 256, 5):
        with pytest.raises(MCPError) as raised:
            await tools.client.list_resources(meta={"layerlore/thread": name})
        assert raised.value.error.code == INVALID_PARAMS


async def test_the_templates_are_there_and_what_they_lead_to_can_be_read(tools: Tools) -> None:
    await tools.say("a/b ü", "hello")
    templates = (await tools.client.list_resource_templates()).resource_templates
    assert [template.uri_template for template in templates] == [template_of(kind) for kind in TEMPLATED]
    for template in templates:
        assert template.name
        assert template.title
        assert template.description
        if "thread_id" in template.uri_template:
            uri = UriTemplate.parse(template.uri_template).expand({"thread_id": "a/b ü"})
            (content,) = (await tools.client.read_resource(uri)).contents
            assert content.mime_type == template.mime_type


async def test_lists_and_readings_are_private_and_never_kept_by_a_client(tools: Tools, era: str) -> None:
    client = tools.client
    for result in (await client.list_resources(), await client.read_resource("memory://status")):
        sent = {"ttl_ms", "cache_scope"} & result.model_fields_set
        assert sent == ({"ttl_ms", "cache_scope"} if era == "modern" else set())
        assert (result.ttl_ms, result.cache_scope) == (0, "private")
    templates = await client.list_resource_templates()
    if era == "modern":
        assert (templates.ttl_ms, templates.cache_scope) == (3_600_000, "private")


async def test_a_resource_is_what_its_tool_answers(tools: Tools) -> None:
    await tools.say("main", "one", "two", "three")
    await tools("update_thread", thread_id="main", title="Tea", metadata={"k": [1, "ü"]})
    place = "memory://threads/main"
    assert await read_json(tools, "memory://threads") == await tools("list_threads", limit=100)
    assert await read_json(tools, place) == (await tools("list_threads", thread_id="main"))["threads"][0]
    assert await read_json(tools, "memory://status") == await tools("memory_status")
    for query, arguments in (("", {}), ("?limit=1", {"limit": 1}), ("?limit=1&before=2", {"limit": 1, "before": 2})):
        assert await read_json(tools, f"{place}/messages{query}") == await tools.page("main", **arguments)


async def test_a_recall_is_read_as_the_tool_answers_it_as_json(tools: Tools) -> None:
    await tools.say("main", "green tea & cake", "a violin", "tea at noon")
    uri = UriTemplate.parse(template_of("recall")).expand({"query": "tea & violin", "limit": "2"})
    answer = await read_json(tools, uri)
    assert answer == await tools("recall_memory", query="tea & violin", limit=2, format="json")
    assert len(answer["hits"]) == 2
    assert all(0 <= hit["score"] <= 1 for hit in answer["hits"])
    assert (await read_json(tools, "memory://recall?query=submarine"))["hits"] == []


async def test_a_recall_that_is_read_holds_as_many_hits_as_it_was_asked_for(tools: Tools) -> None:
    await tools.say("main", *(f"violin lesson {number}: {'scales and arpeggios ' * 10}" for number in range(60)))
    answer = await read_json(tools, "memory://recall?query=violin%20lesson&limit=50")
    assert (len(answer["hits"]), answer.get("cut")) == (50, None)


@pytest.mark.databases
async def test_entries_are_read_with_their_words_and_what_they_took_the_place_of(connect: Connect, era: str) -> None:
    async with connect() as tools, connect(resource="ben") as other:
        await tools.say("main", "I have a peanut allergy.", "No, it is a sesame allergy.")
        old = await tools("remember", content="Ana has a peanut allergy.", evidence="I have a peanut allergy.",
                          source="user_assertion", thread_id="main")  # fmt: skip
        own = await tools("remember", content="Deploys go through the staging host first.")
        new = await tools("remember", content="Ana has a sesame allergy, not a peanut allergy.", kind="correction",
                          evidence="No, it is a sesame allergy.", source="user_assertion", thread_id="main")  # fmt: skip
        assert [each["id"] for each in new["replaced"]] == [old["id"]]
        listed = (await read_json(tools, "memory://entries"))["entries"]
        assert [row["id"] for row in listed] == [new["id"], own["id"]]
        assert listed[0]["kind"] == "correction"
        assert listed[0]["sources"] == [
            {"thread_id": "main", "seq": 2, "label": "user_assertion", "quote": "No, it is a sesame allergy."}
        ]
        (before,) = listed[0]["superseded"]
        assert (before["id"], before["content"], before["superseded_by"]) == (
            old["id"],
            "Ana has a peanut allergy.",
            new["id"],
        )
        assert (listed[1]["origin"], listed[1]["sources"]) == ("caller", [])
        # Of what was replaced that stands which took its place.
        for id_ in (old["id"], new["id"]):
            assert await read_json(tools, uri_of_entry(id_)) == listed[0]
        assert (await read_json(other, "memory://entries")) == {"entries": []}
        foreign = await refused(other, uri_of_entry(own["id"]), unknown_in(era))
        assert foreign.replace(own["id"], "x") == await refused(other, uri_of_entry("x"), unknown_in(era))
        # Who forgets an entry does not find what stood before it.
        await tools("forget", ids=[new["id"]])
        for id_ in (old["id"], new["id"]):
            await refused(tools, uri_of_entry(id_), unknown_in(era))
        assert [row["id"] for row in (await read_json(tools, "memory://entries"))["entries"]] == [own["id"]]


async def test_a_long_list_of_entries_goes_on_with_its_cursor(tools: Tools) -> None:
    for number in range(103):
        await tools("remember", content=f"Server number{number} stands in rack r{number * 7}.")
    first = await read_json(tools, "memory://entries")
    rest = await read_json(tools, f"memory://entries?cursor={first['next_cursor']}")
    assert (len(first["entries"]), len(rest["entries"]), rest.get("next_cursor")) == (100, 3, None)
    assert len({row["id"] for page in (first, rest) for row in page["entries"]}) == 103
    assert "cursor: not one that this list gave" in await refused(tools, "memory://entries?cursor=nonsense")


async def test_a_recall_is_of_the_reader_only(connect: Connect) -> None:
    async with connect() as tools, connect(resource="ben") as other:
        await tools.say("main", "a secret garden")
        assert (await read_json(tools, "memory://recall?query=garden"))["hits"]
        assert (await read_json(other, "memory://recall?query=garden"))["hits"] == []


async def test_what_an_agent_keeps_of_a_thread_is_read_as_its_tools_answer(connect: Connect) -> None:
    async with connect(toolsets=["all"]) as tools:
        for thread_id in ("main", "other"):
            plan = {"goal": f"tea in {thread_id}", "steps": [{"description": "boil water"}]}
            await tools("plan", action="create", plan=plan, thread_id=thread_id)
            await tools("update_working_memory", content=f"likes tea in {thread_id}", thread_id=thread_id)
            await tools("suspend_run", run_id=f"run/{thread_id}", state={"secret": "garden"}, thread_id=thread_id)
        await tools("update_working_memory", content="called Ana", scope="resource")
        place = "memory://threads/main"
        reviewed = await tools.raw("plan", action="review", format="json", thread_id="main")
        assert await read_json(tools, f"{place}/plan") == reviewed.structured_content
        assert await read(tools, f"{place}/session-memory") == await tools("get_working_memory", thread_id="main")
        assert "likes tea in main" in await read(tools, f"{place}/session-memory")
        assert await read(tools, "memory://profile") == await tools("get_working_memory", scope="resource")
        assert "called Ana" in await read(tools, "memory://profile")
        events = await read_json(tools, f"{place}/events")
        assert events == await tools("list_events", thread_id="main")
        second = await read_json(tools, f"{place}/events?after=1")
        assert second == await tools("list_events", thread_id="main", after=1)
        assert second["events"] == events["events"][1:]
        assert len(events["events"]) > 1


async def test_runs_are_read_without_their_state_unless_it_is_asked_for_and_only_of_their_thread(
    connect: Connect, era: str
) -> None:
    async with connect(toolsets=["all"], thread="now") as tools:
        for run_id, thread_id in (("run/a", "main"), ("run b", "main"), ("run c", "other")):
            await tools("suspend_run", run_id=run_id, state={"secret": "garden"}, thread_id=thread_id)
        runs = await read(tools, "memory://threads/main/runs")
        assert json.loads(runs) == await tools("list_runs", thread_id="main")
        assert [row["run_id"] for row in json.loads(runs)["runs"]] == ["run b", "run/a"]
        one = await read(tools, uri_of_run("run/a"))
        assert json.loads(one) == await tools("get_run", run_id="run/a")
        assert "garden" not in runs + one
        state = await read_json(tools, uri_of_run("run/a") + "/state")
        assert state == {**json.loads(one), "state": {"secret": "garden"}}
        # The current thread has none, and shows none of the others'.
        assert await read_json(tools, "memory://threads/now/runs") == {"runs": []}
        async with connect(resource="ben") as other:
            foreign, unknown = [await refused(other, uri_of_run(run), unknown_in(era)) for run in ("run/a", "run/z")]
            assert foreign.replace("run/a", "run/z") == unknown


async def test_any_thread_id_is_read_percent_encoded(tools: Tools) -> None:
    for thread_id in AWKWARD:
        await tools.say(thread_id, f"in {thread_id}")
    for thread_id in AWKWARD:
        assert (await read_json(tools, uri_of("thread", thread_id)))["thread_id"] == thread_id
        (message,) = (await read_json(tools, uri_of("messages", thread_id)))["messages"]
        assert message["parts"][0]["text"] == f"in {thread_id}"
    assert {uri_of("thread", thread_id) for thread_id in AWKWARD} <= set(await uris(tools))


@pytest.mark.parametrize("current", ["main", "another"])
async def test_a_thread_without_anything_is_empty(connect: Connect, current: str) -> None:
    async with connect(thread=current) as tools:
        place = "memory://threads/main"
        assert await read_json(tools, place) == {"thread_id": "main", "messages": 0, "tokens": 0}
        assert await read_json(tools, f"{place}/messages?limit=5") == {"thread_id": "main", "messages": [], "total": 0}
        assert await read_json(tools, f"{place}/plan") == {"thread_id": "main", "plan": None}
        assert await read_json(tools, f"{place}/runs") == {"runs": []}
        no_events = await read_json(tools, f"{place}/events?after=0")
        assert no_events == {"events": [], "next": 0, "last_seq": 0, "more": False}
        nothing = {"thread_id": "main", "observations": [], "observed_seq": 0, "tokens": 0}
        assert await read_json(tools, f"{place}/observations") == nothing
        assert await read(tools, f"{place}/session-memory") == await tools("get_working_memory", thread_id="main")
        assert await uris(tools) == [*FIXED, *(uri_of(kind, current) for kind in OF_A_THREAD)]


async def test_a_foreign_thread_is_as_unknown_as_one_that_does_not_exist(connect: Connect) -> None:
    async with connect() as tools, connect(resource="ben") as other:
        await tools.say("theirs", "a secret garden")
        for kind in ("thread", *OF_A_THREAD):
            foreign = await read(other, uri_of(kind, "theirs"))
            unknown = await read(other, uri_of(kind, "nobody"))
            assert foreign.replace("theirs", "nobody") == unknown == await read(tools, uri_of(kind, "nobody"))
        assert "memory://threads/theirs" not in await uris(other)
        assert (await read_json(other, "memory://threads"))["threads"] == []


async def test_an_unknown_resource_is_told_as_its_era_tells_it_and_what_there_is(tools: Tools, era: str) -> None:
    for uri, told in (
        ("memory://nothing", "there is no resource 'memory://nothing'; there are memory://profile, "),
        ("file:///etc/passwd", "there is no resource 'file:///etc/passwd'; there are "),
        ("memory://threads/main/plans", "did you mean 'plan'?"),
        ("memory://runs/r1", "there is no run 'r1'"),
    ):
        assert told in await refused(tools, uri, unknown_in(era)), uri


async def test_a_wrong_query_or_id_is_told_what_is_allowed(tools: Tools) -> None:
    await tools.say("main", "hello")
    place = "memory://threads/main"
    for uri, told in (
        (f"{place}/messages?limit=abc", "limit: must be a whole number"),
        (f"{place}/messages?limit=201", "limit: Input should be less than or equal to 200"),
        (f"{place}/messages?before=9999999999999999999", "before must be at most 9,223,372,036,854,775,807"),
        (f"{place}/messages?after=1", "unknown query 'after'; allowed: limit, before"),
        ("memory://recall", "query: give a question or some words to look for"),
        ("memory://recall?limit=5", "query: give a question or some words to look for"),
        ("memory://recall?query=tea&limit=101", "limit: Input should be less than or equal to 100"),
        ("memory://status?x=1", "unknown query 'x'; this resource takes no query"),
        (f"memory://threads/{'x' * 256}", "thread_id: 256 characters; at most 255 are allowed"),
        ("memory://threads/x%00", "thread_id: character 1 is NUL"),
    ):
        assert told in await refused(tools, uri), uri


async def test_no_error_repeats_a_secret(tools: Tools) -> None:
    await tools("memory_status")  # the patterns are there
    with pytest.raises(MCPError) as raised:
        await tools.client.read_resource(f"memory://runs/{KEY}")
    assert "no run" in raised.value.error.message
    assert KEY not in repr(raised.value.error)


async def test_resources_are_there_whatever_tools_are_listed(connect: Connect) -> None:
    async with connect(toolsets=["curation"]) as tools:
        assert (await read_json(tools, "memory://threads"))["threads"] == []
        assert len(await listed(tools)) == len(FIXED) + len(OF_A_THREAD)


async def test_with_memory_off_only_the_status_is_there_and_says_so(connect: Connect) -> None:
    async with connect(memory="off") as tools:
        assert await uris(tools) == ["memory://status"]
        assert (await tools.client.list_resource_templates()).resource_templates == []
        assert (await read_json(tools, "memory://status"))["memory"] == "off"
        for uri in ("memory://threads", "memory://profile", "memory://recall?query=tea", "memory://threads/main/plan"):
            assert "memory is switched off" in await refused(tools, uri)


async def test_an_unexpected_failure_says_so_and_nothing_of_what_it_was(
    tools: Tools, settings_for: Callable[..., Settings], caplog: pytest.LogCaptureFixture
) -> None:
    await tools.say("main", "hello")
    await spoil(settings_for())
    with caplog.at_level(logging.ERROR):
        text = await refused(tools, "memory://threads/main", INTERNAL_ERROR)
    assert text == "resources/read failed unexpectedly; the server's log says why"
    assert [record.exc_info for record in caplog.records if record.name == "layerlore.server.access.protocol_errors"]


async def test_a_memory_that_cannot_be_opened_is_an_error_without_its_password() -> None:
    settings = load_settings({"database": "postgresql://ana:hunter2@127.0.0.1:1/memory"}, environ={})
    async with Client(build_server(settings)) as client:
        text = await refused(Tools(client), "memory://profile", INTERNAL_ERROR)
        assert text.startswith("the memory cannot be opened: ")
        assert "hunter2" not in text
