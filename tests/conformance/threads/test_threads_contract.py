"""Threads: described with merge patches, and found by their name."""

import asyncio
import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.storage.core.errors import LimitExceeded, NotFound
from layerlore.storage.core.records import Json, Scope, Thread
from layerlore.storage.core.transaction import Database
from layerlore.storage.removal import deletions
from layerlore.storage.threads import threads
from layerlore.storage.threads.threads import Description, merge_patch

from ..building import ANA, MINUTE, NOW, draft, examples, new_scope, only, say, uid

pytestmark = pytest.mark.anyio

scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("abé", max_size=3)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("kl", max_size=2), inner), max_leaves=8
)
objects = st.dictionaries(st.text("kl", max_size=2), values, max_size=4)


async def describe(
    database: Database,
    thread_id: str,
    *,
    title: str | None = None,
    patch: Json | None = None,
    window_policy: str | None = None,
    scope: Scope = ANA,
    now: int = NOW,
) -> Thread:
    change = Description(title, patch, window_policy)
    return await database.write(
        threads.describe, scope, thread_id, change, new_uid=uid(), now=now, check=lambda _: None
    )


async def test_a_description_makes_a_thread_that_is_absent(database: Database) -> None:
    made = await describe(database, "main", title="Plans", patch={"topic": "trip"})
    assert (made.thread_id, made.title, made.metadata) == ("main", "Plans", {"topic": "trip"})
    assert (made.created_at, made.updated_at, made.message_count, made.next_seq) == (NOW, NOW, 0, 1)
    assert await database.read(threads.find, ANA, "main") == made


async def test_a_description_leaves_what_it_does_not_name(database: Database) -> None:
    await say(database, "main", draft(tokens=4))
    await describe(database, "main", title="Plans", patch={"topic": "trip", "stage": 1})
    changed = await describe(database, "main", patch={"stage": 2}, now=NOW + MINUTE)
    assert (changed.title, changed.metadata) == ("Plans", {"topic": "trip", "stage": 2})
    assert (changed.created_at, changed.updated_at) == (NOW, NOW + MINUTE)
    assert (changed.message_count, changed.token_count, changed.next_seq) == (1, 4, 2)
    changed = await describe(database, "main", title="Other")
    assert (changed.title, changed.metadata) == ("Other", {"topic": "trip", "stage": 2})


async def test_an_empty_title_removes_the_title(database: Database) -> None:
    await describe(database, "main", title="Plans")
    assert (await describe(database, "main", title="")).title is None


async def test_the_windows_policy_is_kept_as_it_is_given_until_an_empty_one_removes_it(database: Database) -> None:
    assert (await describe(database, "main", title="Plans")).window_policy is None
    policy = '{"limit":"messages","max_messages":8}'
    assert (await describe(database, "main", window_policy=policy)).window_policy == policy
    described = await describe(database, "main", title="Other", patch={"topic": "trip"})
    assert (described.title, described.window_policy) == ("Other", policy)
    assert (await say(database, "main", draft())).thread.window_policy == policy
    assert (await database.read(threads.find, ANA, "main")).window_policy == policy
    assert (await describe(database, "main", window_policy="")).window_policy is None


async def test_metadata_that_is_refused_changes_nothing_and_makes_no_thread(database: Database) -> None:
    def refuse(metadata: Json) -> None:
        if len(metadata) > 1:
            raise LimitExceeded("metadata may have 1 key")

    async def patch(thread_id: str, change: Json) -> Thread:
        description = Description("New", change)
        return await database.write(threads.describe, ANA, thread_id, description, new_uid=uid(), now=NOW, check=refuse)

    await patch("main", {"a": 1})
    with pytest.raises(LimitExceeded):
        await patch("main", {"b": 2})
    assert (await database.read(threads.find, ANA, "main")).metadata == {"a": 1}
    with pytest.raises(LimitExceeded):
        await patch("other", {"a": 1, "b": 2})
    with pytest.raises(NotFound):
        await database.read(threads.find, ANA, "other")


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_do_what_the_examples_of_rfc_7396_say(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value


@given(target=values, patch=values)
def test_a_merge_patch_applied_twice_is_applied_once_and_changes_neither_argument(target: Any, patch: Any) -> None:
    before = copy.deepcopy((target, patch))
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once
    assert (target, patch) == before


@given(target=objects, patch=objects)
def test_a_merge_patch_removes_nulls_replaces_scalars_and_leaves_the_rest(target: Json, patch: Json) -> None:
    result = merge_patch(target, patch)
    for key in target.keys() | patch.keys():
        if key not in patch:
            assert result[key] == target[key]
        elif patch[key] is None:
            assert key not in result
        elif not isinstance(patch[key], dict):
            assert result[key] == patch[key]
        elif not isinstance(target.get(key), dict):
            assert result[key] == _without_nulls(patch[key])
        else:
            assert result[key] == merge_patch(target[key], patch[key])


@examples(30)
@given(patches=st.lists(objects, min_size=1, max_size=4))
async def test_stored_metadata_is_what_the_patches_make_of_it(database: Database, patches: list[Json]) -> None:
    scope = new_scope()
    expected: Json = {}
    for patch in patches:
        expected = merge_patch(expected, patch)
        described = await describe(database, "main", patch=patch, scope=scope)
        assert described.metadata == expected
    assert (await database.read(threads.find, scope, "main")).metadata == expected


async def test_names_differ_when_one_character_differs(database: Database) -> None:
    names = ["main", "Main", "main ", "maın", "e\u0301", "\u00e9", "%", "_", "a'b", 'a"b', "x" * 255]
    made = {name: await describe(database, name, title=f"title {n}") for n, name in enumerate(names)}
    assert len({thread.thread_uid for thread in made.values()}) == len(names)
    for name in names:
        assert (await database.read(threads.find, ANA, name)).title == made[name].title


async def test_looking_for_a_thread_makes_none(database: Database) -> None:
    for look in (threads.find, threads.lock):
        with pytest.raises(NotFound, match="there is no thread 'main'"):
            await database.write(look, ANA, "main")
    with pytest.raises(NotFound):
        await database.read(threads.find, ANA, "main")


async def test_a_thread_that_others_delete_all_the_while_can_be_written_to(database: Database) -> None:
    deleted = 0

    async def delete() -> None:
        nonlocal deleted
        for _ in range(60):
            with contextlib.suppress(NotFound):
                await database.write(deletions.delete_thread, ANA, "main", deletion_uid=uid(), erase=False, now=NOW)
                deleted += 1

    async def write() -> None:
        for _ in range(60):
            await say(database, "main", draft())

    await asyncio.gather(*(each() for each in (write, delete) * 3))
    assert deleted
    assert await only(database, "SELECT count(*) FROM messages") == 180
