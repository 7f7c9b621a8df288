"""Addresses of resources: what is written is read again, and what cannot be read says why."""

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.uri_template import UriTemplate

from layerlore.server.resources.kinds import OF_A_THREAD, Address, Kind
from layerlore.server.resources.requests import address_of, parse, template_of, uri_of, uri_of_entry, uri_of_run
from layerlore.storage.core.errors import InvalidInput, NotFound

IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
PLAIN: tuple[Kind, ...] = ("profile", "entries", "threads", "status")
THREADED: tuple[Kind, ...] = ("thread", *OF_A_THREAD)
NUMBERS = st.integers(min_value=0, max_value=10**19 - 1).map(str)
QUERIES: dict[Kind, tuple[str, ...]] = {"messages": ("limit", "before"), "events": ("after",)}
AWKWARD = ("a/b", "..", ".", "%", "%2F", "#", "?limit=1", "a b", "x:y", "C:\\x", "ü", "日本", "a+b", "&=", "'\"", "//")


def refusal(uri: str) -> str:
    assert parse(uri) is None
    with pytest.raises((InvalidInput, NotFound)) as raised:
        address_of(uri)
    return str(raised.value)


def test_there_is_a_kind_for_every_address_and_no_other() -> None:
    assert sorted((*PLAIN, "recall", *THREADED, "run", "run-state", "entry")) == sorted(get_args(Kind))


@pytest.mark.parametrize("kind", PLAIN)
def test_what_belongs_to_no_thread_is_read_as_written(kind: Kind) -> None:
    assert uri_of(kind) == template_of(kind) == f"memory://{kind}"
    assert address_of(uri_of(kind)) == parse(uri_of(kind)) == Address(kind)


@given(st.sampled_from(THREADED), IDS)
def test_any_thread_id_is_read_as_written(kind: Kind, thread_id: str) -> None:
    uri = uri_of(kind, thread_id)
    assert re.fullmatch(r"memory://threads/[\w.~%-]+(/[a-z-]+)?", uri, re.ASCII)
    assert address_of(uri) == parse(uri) == Address(kind, thread_id)


@given(IDS)
def test_any_id_of_a_run_or_an_entry_is_read_as_written(id_: str) -> None:
    assert address_of(uri_of_run(id_)) == Address("run", run_id=id_)
    assert address_of(f"{uri_of_run(id_)}/state") == Address("run-state", run_id=id_)
    assert address_of(uri_of_entry(id_)) == Address("entry", entry_id=id_)


@pytest.mark.parametrize("thread_id", AWKWARD)
@pytest.mark.parametrize("kind", THREADED)
def test_an_awkward_thread_id_is_read_as_written(kind: Kind, thread_id: str) -> None:
    assert address_of(uri_of(kind, thread_id)) == Address(kind, thread_id)


@given(st.sampled_from(THREADED), IDS, st.data())
def test_what_a_client_makes_of_a_template_is_the_same_address(kind: Kind, thread_id: str, data: st.DataObject) -> None:
    query = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(QUERIES.get(kind, ()), NUMBERS)))
    uri = UriTemplate.parse(template_of(kind)).expand({"thread_id": thread_id, **query})
    assert address_of(uri) == Address(kind, thread_id, query)
    assert query or uri == uri_of(kind, thread_id)


@given(IDS, st.none() | NUMBERS)
def test_any_question_is_read_as_the_template_of_recall_has_it(question: str, limit: str | None) -> None:
    given_ = {"query": question} | ({"limit": limit} if limit else {})
    uri = UriTemplate.parse(template_of("recall")).expand(given_)
    assert uri.startswith("memory://recall?query=")
    assert address_of(uri) == Address("recall", query=given_)


@given(IDS)
def test_the_template_of_a_run_or_an_entry_leads_to_it(id_: str) -> None:
    assert UriTemplate.parse(template_of("run")).expand({"run_id": id_}) == uri_of_run(id_)
    assert UriTemplate.parse(template_of("entry")).expand({"entry_id": id_}) == uri_of_entry(id_)


@given(
    st.one_of(
        st.text(),
        st.text().map("memory://{}".format),
        st.text("/?&=%0alimtbefor", max_size=30).map("memory://threads/{}".format),
    )
)
def test_any_text_is_an_address_or_is_refused(uri: str) -> None:
    address = parse(uri)
    if address is None:
        assert refusal(uri)
    else:
        assert address_of(uri) == address


@pytest.mark.parametrize(
    "uri",
    [
        *("", "memory:", "memory://", "memory://x", "memory:///profile", "memory://profile/", "MEMORY://profile"),
        *("memory://threads/", "memory://threads//plan", "memory://threads/a/b/plan", "memory://threads/a/plan/x"),
        *("memory://runs", "memory://runs/", "memory://runs/a/b", "file:///etc/passwd", "memory://profilex"),
    ],
)
def test_what_is_no_resource_is_told_all_there_are(uri: str) -> None:
    text = refusal(uri)
    assert text.startswith(f"there is no resource {uri!r}; there are memory://profile, ")
    for kind in get_args(Kind):
        assert template_of(kind) in text


def test_an_unknown_resource_of_a_thread_is_told_the_nearest() -> None:
    assert refusal("memory://threads/a/plans").endswith(
        "allowed: messages, observations, session-memory, plan, runs, events; did you mean 'plan'?"
    )


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("memory://profile?limit=1", "unknown query 'limit'; this resource takes no query"),
        ("memory://threads/a?limit=1", "unknown query 'limit'; this resource takes no query"),
        (
            "memory://threads/a/messages?limits=1",
            "unknown query 'limits'; allowed: limit, before, part; did you mean 'limit'?",
        ),
        ("memory://threads/a/events?limit=1", "unknown query 'limit'; allowed: after"),
        ("memory://threads/a/messages?limit=1&limit=2", "limit: comes twice; once is allowed"),
        *(
            (f"memory://threads/a/messages?limit={wrong}", "limit: must be a whole number of at most 19 digits")
            for wrong in ("abc", "", "-1", "1.5", "+1", "%201", "null", "true", "٣", "9" * 20, "9" * 5000)
        ),
        ("memory://threads/a/messages?limit", "limit: must be a whole number of at most 19 digits"),
        ("memory://threads/%FF/plan", "'%FF' is not percent-encoded UTF-8"),
        ("memory://recall?query=%FF", "'query=%FF' is not percent-encoded UTF-8"),
        ("memory://recall?q=tea", "unknown query 'q'; allowed: query, limit"),
        ("memory://recall?query=tea&limit=x", "limit: must be a whole number of at most 19 digits"),
        ("memory://runs/%E4", "'%E4' is not percent-encoded UTF-8"),
    ],
)
def test_a_wrong_query_or_id_is_told_what_is_allowed(uri: str, told: str) -> None:
    assert refusal(uri).startswith(told)


@given(st.text(min_size=1000))
def test_an_error_repeats_little_of_a_long_address(text: str) -> None:
    for uri in (
        text,
        f"memory://threads/a/{text}",
        f"memory://recall?limit={text}",
        f"memory://threads/a/plan?{text}=1",
        f"memory://threads/%FF{text}",
    ):
        if parse(uri) is None:
            assert len(refusal(uri)) < 2000
