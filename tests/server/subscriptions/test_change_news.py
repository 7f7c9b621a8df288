"""Changes reach the clients that watch for them, in both eras, on both databases, wherever they were made."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp.types import INVALID_PARAMS

from layerlore.server.resources.requests import uri_of, uri_of_entry, uri_of_run
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

from ..subscribing import ENTRIES, MAIN, PROFILE, STATUS, THREADS, Subscriber, subscriber
from ..subscribing import LIST as THE_LIST

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("layerlore.storage.drivers.sqlite.database.POLL_SECONDS", 0.005)
    monkeypatch.setattr("layerlore.storage.drivers.postgres.hints.BATCH_SECONDS", 0.005)
    monkeypatch.setattr("layerlore.server.subscriptions.watcher.LOOK_SECONDS", 0.005)


@pytest.fixture(params=["modern", "legacy"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# Databases tell of commits, eras tell clients: neither does it in another way for the other.
EACH_ONCE = pytest.mark.parametrize(
    ("database_url", "era"), [("sqlite", "legacy"), ("postgres", "modern")], indirect=True
)


def serving(database_url: str, **flags: Any) -> Any:
    return build_server(
        load_settings({"database": database_url, "embedding": {"embedder": "none"}, **flags}, environ={})
    )


Change = Callable[[Subscriber], Awaitable[Any]]
CHANGES: dict[str, tuple[Change, set[str]]] = {
    "messages": (lambda by: by.say("main"), {MAIN["messages"], MAIN["messages"] + "?limit=5"}),
    "plan": (
        lambda by: by.call(
            "plan", action="create", thread_id="main", plan={"goal": "g", "steps": [{"description": "s"}]}
        ),
        {MAIN["plan"]},
    ),
    "session memory": (
        lambda by: by.call("update_working_memory", content="# x", thread_id="main"),
        {MAIN["session-memory"]},
    ),
    "run": (
        lambda by: by.call("suspend_run", run_id="r", state={"a": 1}, thread_id="main"),
        {MAIN["runs"], uri_of_run("r"), uri_of_run("r") + "/state"},
    ),
    "attempt": (
        lambda by: by.call("log_attempt", task_key="t", action="a", result="r", thread_id="main"),
        set(),
    ),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_each_tool_that_changes_a_thread_is_told_to_who_watches_that(what: str, era: str, tmp_path: Path) -> None:
    change, told = CHANGES[what]
    every = {uri for _, uris in CHANGES.values() for uri in uris} | {MAIN["events"], MAIN["thread"], THREADS, STATUS}
    database = f"sqlite:///{tmp_path}/memory.db"
    async with subscriber(serving(database), era) as first:
        await first.say("main")
    async with subscriber(serving(database, toolsets=["all"]), era, sorted(every)) as watching:
        await change(watching)
        expected = told | {MAIN["events"], MAIN["thread"], THREADS, STATUS}
        assert set(await watching.until(*expected)) == expected


@EACH_ONCE
async def test_entries_that_come_and_go_are_told_to_who_watches_them_or_what_a_recall_finds(
    database_url: str, era: str
) -> None:
    found = uri_of("recall") + "?query=tea"
    async with subscriber(serving(database_url), era) as by:
        await by.say("main", "I only drink green tea.")
        kept = await by.call("remember", content="Ana has an allergy to nuts.")
        one = uri_of_entry(kept["id"])
        uris = [PROFILE, ENTRIES, STATUS, one, found]
        async with subscriber(serving(database_url), era, uris) as watching:
            said = {"content": "Ana only drinks green tea.", "evidence": "I only drink green tea.", "thread_id": "main"}
            other = await by.call("remember", **said, source="user_assertion")
            assert set(await watching.until(ENTRIES, found, STATUS)) == {ENTRIES, found, STATUS}
            await by.call("forget", ids=[kept["id"]])
            assert set(await watching.until(one, ENTRIES, found, STATUS)) == {one, ENTRIES, found, STATUS}
            await by.call("update_working_memory", content="x", scope="resource")
            assert set(await watching.until(PROFILE, found, STATUS)) == {PROFILE, found, STATUS}
        # What rests on messages goes with them, and comes back with them.
        async with subscriber(serving(database_url), era, [uri_of_entry(other["id"]), ENTRIES, PROFILE]) as watching:
            changes = {"delete_messages": {"thread_id": "main", "which": "all"}, "undo": {"undo_id": "last"}}
            for tool, arguments in changes.items():
                await by.call(tool, **arguments)
                assert set(await watching.until(uri_of_entry(other["id"]), ENTRIES)) == {
                    uri_of_entry(other["id"]),
                    ENTRIES,
                }


@EACH_ONCE
async def test_notes_that_a_job_makes_are_told(database_url: str, era: str) -> None:
    rules = {"message_tokens": 200, "stand_in": 1}
    async with subscriber(serving(database_url, observation=rules), era, [MAIN["observations"]]) as watching:
        await watching.say("main", "We met Ben on Monday and decided to move the office to Lisbon. " * 40)
        assert await watching.next() == MAIN["observations"]


# What a process changes itself it hears without its database.
@pytest.mark.parametrize(
    ("database_url", "era", "by"),
    [
        ("sqlite", "modern", "itself"),
        ("sqlite", "legacy", "itself"),
        ("sqlite", "legacy", "another process"),
        ("postgres", "modern", "another process"),
    ],
    indirect=["database_url", "era"],
)
async def test_fifty_of_fifty_changes_arrive(database_url: str, era: str, by: str) -> None:
    async with (
        subscriber(serving(database_url), era, [MAIN["messages"]]) as watching,
        subscriber(serving(database_url), era) as other,
    ):
        for _ in range(50):
            await (watching if by == "itself" else other).say("main")
            assert await watching.next() == MAIN["messages"]
        assert watching.waiting == 0


@EACH_ONCE
async def test_the_list_is_told_of_when_threads_come_go_or_get_a_title(database_url: str, era: str) -> None:
    async with (
        subscriber(serving(database_url), era, lists=True) as watching,
        subscriber(serving(database_url), era, [PROFILE, MAIN["thread"]]) as other,
    ):
        await other.say("main")
        assert await watching.next() == THE_LIST
        await other.until(MAIN["thread"])
        await other.say("main")
        await other.until(MAIN["thread"])
        await other.call("update_thread", thread_id="main", title="A title")
        assert await watching.next() == THE_LIST
        await other.call("delete_thread", thread_id="main")
        assert await watching.next() == THE_LIST


@EACH_ONCE
async def test_a_scope_hears_nothing_of_another(database_url: str, era: str) -> None:
    uris = [PROFILE, MAIN["messages"], THREADS, STATUS]
    async with (
        subscriber(serving(database_url, resource="ana"), era, uris, lists=True) as ana,
        subscriber(serving(database_url, resource="ben"), era, uris, lists=True) as ben,
    ):
        await ben.say("main")
        assert set(await ben.until(MAIN["messages"], THREADS, STATUS, THE_LIST)) == {
            MAIN["messages"],
            THREADS,
            STATUS,
            THE_LIST,
        }
        assert ana.waiting == 0
        await ana.call("update_working_memory", content="x", scope="resource")
        assert set(await ana.until(PROFILE, STATUS)) == {PROFILE, STATUS}


# The older protocol has a code of its own for a resource that does not exist.
RESOURCE_NOT_FOUND = -32002
UNKNOWN_SAYS = ("memory://profile", "memory://threads/{thread_id}", "session-memory")


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("memory://nothing", "memory://profile"),
        ("file:///etc/passwd", "memory://threads/{thread_id}"),
        ("memory://threads/main/secrets", "session-memory"),
        ("memory://threads/main/messages?page=2", "limit"),
        ("memory://threads/%00/plan", "NUL"),
        ("memory://threads/" + "x" * 300, "255"),
    ],
)
async def test_what_is_no_resource_cannot_be_subscribed_to_and_what_there_is_is_said(
    uri: str, says: str, era: str
) -> None:
    server = serving("sqlite://:memory:")
    with pytest.raises((MCPError, BaseExceptionGroup)) as refused:
        async with subscriber(server, era, [PROFILE, uri]):
            pass
    error: Any = refused.value
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    unknown = says in UNKNOWN_SAYS and era == "legacy"
    assert error.code == (RESOURCE_NOT_FOUND if unknown else INVALID_PARAMS)
    assert says in error.message


@EACH_ONCE
async def test_whether_a_thread_is_there_or_anothers_is_not_told_by_subscribing(database_url: str, era: str) -> None:
    async with subscriber(serving(database_url, resource="ben"), era) as ben:
        await ben.say("bens")
        async with subscriber(
            serving(database_url, resource="ana"), era, [uri_of("plan", "bens"), MAIN["plan"]]
        ) as ana:
            await ben.say("bens")
            await ben.say("main")
            await anyio.sleep(0.05)
            assert ana.waiting == 0


async def test_servers_announce_that_resources_and_their_list_can_be_watched(era: str) -> None:
    async with subscriber(serving("sqlite://:memory:"), era) as client:
        capabilities = client.client.server_capabilities.resources
        assert capabilities is not None
        assert (capabilities.subscribe, capabilities.list_changed) == (True, True)
