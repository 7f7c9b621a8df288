"""Which changes are news to whom, and what stays marked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.subscriptions import ResourceUpdated

from layerlore.server.resources.kinds import OF_A_THREAD
from layerlore.server.resources.requests import uri_of, uri_of_entry, uri_of_run
from layerlore.server.subscriptions.notifications import LIST
from layerlore.server.subscriptions.watcher import ScopeWatch, changes_of_resource, kinds_of
from layerlore.storage.core.records import Json
from layerlore.storage.threads.events import ThreadMark, WatchRequest, WatchResult

from ..subscribing import MAIN, PROFILE, STATUS, THREADS

RECALL = uri_of("recall") + "?query=tea"
EVERYTHING = {"profile", "entries", "entry", "recall", "threads", None}


@pytest.mark.parametrize(
    ("types", "kinds"),
    [
        (["messages_added", "messages_deleted"], {"messages"}),
        (["observations_activated"], {"observations"}),
        (["working_memory_updated"], {"session-memory"}),
        (["plan_created"], {"plan"}),
        (["run_suspended"], {"runs"}),
        (["plan_updated", "run_resumed"], {"plan", "runs"}),
        (["attempt_logged", "steps_recorded", "AgentStart", "thread_updated", "never_heard_of"], set()),
        (["memory_redacted"], set(OF_A_THREAD)),
        (None, set(OF_A_THREAD)),
    ],
)
def test_types_of_events_say_which_resources_of_a_thread_changed(types: list[str] | None, kinds: set[str]) -> None:
    assert kinds_of(types) == kinds | {"thread", "events"}


@pytest.mark.parametrize(
    ("type_", "payload", "changed"),
    [
        ("profile_updated", {}, {"profile", "recall"}),
        ("entries_changed", {"ids": ["e"]}, {"entries", "entry", "recall"}),
        ("never_heard_of", {}, EVERYTHING),
        ("thread_created", {"thread_id": "a"}, {"threads", None}),
        ("thread_deleted", {}, {"threads", None}),
        ("thread_restored", {"thread_id": "a"}, {"threads", None}),
        ("thread_updated", {"changed": ["title", "metadata"]}, {"threads", None}),
        ("thread_updated", {"changed": ["metadata"]}, {"threads"}),
        ("memory_redacted", {"what": "entries", "rows": 1}, EVERYTHING),
    ],
)
def test_events_of_the_resource_say_whether_profile_threads_or_the_list_changed(
    type_: str, payload: Json, changed: set[str | None]
) -> None:
    assert {kind for kind, _ in changes_of_resource([(type_, payload)])} == changed | {"status"}
    assert changes_of_resource([]) == set()
    assert {kind for kind, _ in changes_of_resource(None)} == EVERYTHING | {"status"}


def test_what_a_recall_finds_may_have_changed_with_any_thread() -> None:
    watch = ScopeWatch()
    watch.add(RECALL)
    request = watch.unmarked()
    assert request is not None
    watch.mark(request, WatchResult({}, {}, {}, 0, [], (1, 2)))
    assert watch.news(watch.marked(), WatchResult({}, {}, {}, 0, [], (1, 2))) == []
    (told,) = watch.news(watch.marked(), WatchResult({}, {}, {}, 0, [], (1, 3)))
    assert told == ResourceUpdated(uri=RECALL)


URIS = st.sampled_from(
    [
        LIST,
        PROFILE,
        THREADS,
        STATUS,
        *MAIN.values(),
        MAIN["messages"] + "?limit=5",
        RECALL,
        uri_of("plan", "b"),
        uri_of_run("r"),
        uri_of_entry("e"),
    ]
)


def test_an_entry_is_told_of_by_its_id_or_when_any_may_have_changed() -> None:
    for changed, told in (({"ids": ["e"]}, True), ({"ids": ["f"]}, False), ({"count": 900}, True)):
        watch = ScopeWatch()
        watch.add(uri_of_entry("e"))
        watch.mark(WatchRequest(resource=True), WatchResult({}, {}, {}, 0, [], (0, 0)))
        news = watch.news(watch.marked(), WatchResult({}, {}, {}, 1, [("entries_changed", changed)], (0, 0)))
        assert news == ([ResourceUpdated(uri=uri_of_entry("e"))] if told else [])


@given(st.lists(URIS, unique=True), st.data())
def test_what_is_dropped_leaves_no_mark_and_what_stays_keeps_its_own(uris: list[str], data: st.DataObject) -> None:
    watch = ScopeWatch()
    for uri in uris:
        watch.add(uri)
    request = watch.unmarked()
    if request is not None:
        found = {thread_id: ThreadMark("u", 3) for thread_id in request.threads}
        watch.mark(request, WatchResult(found, {}, {"r": (1,)}, 5, [], (1, 2)))
    assert watch.unmarked() is None
    dropped = data.draw(st.sets(st.sampled_from(uris))) if uris else set()
    for uri in dropped:
        watch.drop(uri)
    assert watch.unmarked() is None
    only = ScopeWatch()
    for uri in set(uris) - dropped:
        only.add(uri)
    wanted = only.unmarked() or WatchRequest()
    kept = watch.marked()
    assert set(kept.threads) == set(wanted.threads)
    assert set(kept.run_ids) == set(wanted.run_ids)
    assert (kept.resource, kept.totals) == (wanted.resource, wanted.totals)
    assert bool(watch) == bool(set(uris) - dropped)
