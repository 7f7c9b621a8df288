"""The policy of a thread's window, set with update_thread."""

import json
from typing import Any

import pytest

from ...server.tools.calling import Connect, Json, Tools

pytestmark = pytest.mark.anyio

SHORT = {"limit": "messages", "max_messages": 8}
SERVER: Json = {"window": {"limit": "tokens", "max_tokens": 900}, "windows": {"short": SHORT, "long_one": {}}}
HELLO = {"role": "user", "content": "hello"}
HELLO_KEPT = {"role": "user", "parts": [{"type": "text", "text": "hello"}]}


async def shown(tools: Tools, thread_id: str = "main") -> Any:
    (row,) = (await tools("list_threads", thread_id=thread_id))["threads"]
    return row.get("window")


async def set_window(tools: Tools, window: Any) -> Any:
    answer = await tools("update_thread", thread_id="main", window=window)
    assert answer.get("window") == await shown(tools)
    return answer.get("window")


async def test_a_thread_has_no_window_of_its_own_until_one_is_set(tools: Tools) -> None:
    await tools.say("main", "hello")
    assert await shown(tools) is None
    assert await set_window(tools, SHORT) == SHORT
    assert (await tools("update_thread", thread_id="main", title="Tea"))["window"] == SHORT


@pytest.mark.parametrize("nothing", ["", " "])
async def test_an_empty_window_removes_it(tools: Tools, nothing: str) -> None:
    await set_window(tools, SHORT)
    assert await set_window(tools, nothing) is None
    assert await set_window(tools, nothing) is None


async def test_a_window_makes_a_thread_that_is_absent(tools: Tools) -> None:
    answer = await tools("update_thread", thread_id="new", window=SHORT)
    assert (answer["window"], answer["messages"]) == (SHORT, 0)


async def test_a_profile_is_kept_by_its_name(connect: Connect) -> None:
    async with connect(**SERVER) as tools:
        for name in ("short", "long_one", "default"):
            assert await set_window(tools, name) == name
        error = await tools.refused("update_thread", thread_id="main", window="shrot")
        assert error == "window: unknown profile 'shrot'; allowed: default, short, long_one; did you mean 'short'?"
        assert await shown(tools) == "default"


async def test_an_object_is_kept_whole_over_the_servers_default_or_over_a_profile(connect: Connect) -> None:
    async with connect(**SERVER) as tools:
        assert await set_window(tools, {"max_images": 0}) == {"limit": "tokens", "max_tokens": 900, "max_images": 0}
        assert await set_window(tools, {"profile": "short", "max_images": 0}) == {**SHORT, "max_images": 0}
        assert await set_window(tools, {"profile": "default"}) == {"limit": "tokens", "max_tokens": 900}
        assert await set_window(tools, {"profile": "long_one"}) == {"limit": "observed"}
        assert await set_window(tools, {}) == {"limit": "tokens", "max_tokens": 900}
    async with connect() as tools:
        assert await shown(tools) == {"limit": "tokens", "max_tokens": 900}


async def test_a_second_object_does_not_merge_with_the_first(tools: Tools) -> None:
    await set_window(tools, {"limit": "messages", "max_messages": 8, "blank_tool_results": True})
    assert await set_window(tools, {"max_images": 3}) == {"limit": "observed", "max_images": 3}


async def test_an_object_may_come_as_json_text(tools: Tools) -> None:
    assert await set_window(tools, json.dumps(SHORT)) == SHORT
    assert await set_window(tools, f" {json.dumps({**SHORT, 'predefined': json.dumps([HELLO])})} ") == {
        **SHORT,
        "predefined": [HELLO_KEPT],
    }


async def test_predefined_messages_may_have_any_shape_and_are_shown_in_ours(tools: Tools) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "hi"}], "tool_calls": [call]}
    kept = await set_window(tools, {"predefined": [{**HELLO, "name": "Ana", "metadata": {"k": 1}}, answer]})
    assert kept["predefined"] == [
        {**HELLO_KEPT, "name": "Ana"},
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "text": "hi"},
                {"type": "tool_call", "id": "c", "name": "f", "arguments": {"a": 1}},
            ],
        },
    ]
    assert await set_window(tools, kept) == kept


@pytest.mark.parametrize(
    ("window", "fields"),
    [
        ({"threshold": 100}, ("target", "threshold")),
        ({"limit": "messages", "drop": "middle", "keep_first": 30}, ("keep_first", "max_messages")),
        ({"trim": "threshold"}, ("trim", "limit")),
        ({"limit": "tokens", "summarise": True, "summary_tokens": 2000}, ("summary_tokens", "max_tokens")),
    ],
)
async def test_what_cannot_be_had_together_is_refused_by_both_names_and_changes_nothing(
    tools: Tools, window: Json, fields: tuple[str, str]
) -> None:
    await set_window(tools, SHORT)
    error = await tools.refused("update_thread", thread_id="main", window=window, title="New")
    assert error.startswith("window: ")
    assert all(name in error for name in fields)
    (row,) = (await tools("list_threads"))["threads"]
    assert (row["window"], "title" in row) == (SHORT, False)


async def test_a_wrong_predefined_message_is_named_with_its_place(tools: Tools) -> None:
    error = await tools.refused("update_thread", window={"predefined": [HELLO, {"role": "usr", "content": "x"}]})
    assert error.startswith("window.predefined")
    assert "messages[1].role" in error
    assert "did you mean 'user'?" in error
    assert "50 are allowed" in await tools.refused("update_thread", window={"predefined": [HELLO] * 51})


async def test_a_secret_that_makes_the_prompt_too_long_when_it_is_masked_is_refused(tools: Tools) -> None:
    secret = f"AKIA{'QWERTYUIOPASDFGH'}"
    prompt = " ".join([secret] * 190)
    assert len(prompt) < 4000
    error = await tools.refused("update_thread", thread_id="main", window={"summary_prompt": prompt})
    assert error.startswith("window.summary_prompt: ")
    assert error.endswith("4,000 are allowed")


async def test_the_log_tells_that_the_window_changed_and_not_what_it_is(all_tools: Tools) -> None:
    await all_tools("update_thread", thread_id="main", window=SHORT, title="Tea")
    await all_tools("update_thread", thread_id="main", window="")
    (first, second) = (await all_tools("list_events", thread_id="main"))["events"]
    assert (first["payload"], second["payload"]) == ({"changed": ["title", "window"]}, {"changed": ["window"]})


async def test_a_deleted_thread_takes_its_window_with_it(tools: Tools) -> None:
    await set_window(tools, SHORT)
    await tools("delete_thread", thread_id="main")
    await tools.say("main", "anew")
    assert await shown(tools) is None
