"""What a credential's rights allow: every tool, every method of the protocol, and what is listed."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
from mcp import MCPError
from mcp.types import INVALID_PARAMS, PromptReference
from mcp_types.methods import CacheableMethod

from layerlore.server.access.caller import join_rights
from layerlore.server.access.credentials import RIGHTS, Right
from layerlore.server.prompts.prompts import PROMPTS
from layerlore.server.relay.hook_events import SHOW_METHOD, STORE_METHOD
from layerlore.server.resources.kinds import TEMPLATED
from layerlore.server.tools.toolsets import DECLARATIONS

from ..gated_server import (
    ACCEPT,
    ANA,
    LISTEN,
    MODERN,
    PATIENCE,
    PING,
    Told,
    answer,
    connected,
    http_client,
    served,
    settings_in,
)

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

SETS: dict[str, frozenset[Right]] = {
    "reader": frozenset({"read"}),
    "writer": frozenset({"write"}),
    "forgetter": frozenset({"forget"}),
    "admin": frozenset({"admin"}),
    "most": frozenset({"read", "write"}),
    "all": frozenset(RIGHTS),
}
DECLARED = {declaration.name: declaration for declaration in DECLARATIONS}
NEEDS = {name: declaration.right for name, declaration in DECLARED.items()}
MODES = ["auto", "legacy"]


def everybody() -> Told:
    return Told(**{name: replace(ANA, name=f"key:{name}", rights=rights) for name, rights in SETS.items()})


def test_rights_are_as_the_annotations_say() -> None:
    for declaration in DECLARATIONS:
        hints, name = declaration.annotations, declaration.name
        only_reads = declaration.right == "read" or declaration.of_tenant
        assert only_reads is bool(hints.read_only_hint), name
        if declaration.right == "forget":
            assert hints.destructive_hint, name
    forgetting = {"delete_messages", "delete_thread", "forget", "clear_working_memory"}
    assert {name for name, right in NEEDS.items() if right == "forget"} == forgetting
    assert NEEDS.keys() >= {"get_messages", "recall_memory", "get_context", "get_briefing", "memory_status"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("endpoint", ["mcp", "sse"])
async def test_a_tool_is_listed_and_answers_only_to_whom_it_is_allowed(
    tmp_path: Path, mode: str, endpoint: str
) -> None:
    async with served(settings_in(tmp_path), everybody()) as url:
        for name, rights in SETS.items():
            async with connected(url, name, mode, endpoint) as client:
                listed = [tool.name for tool in (await client.list_tools()).tools]
                assert listed == [tool for tool, declared in DECLARED.items() if declared.open_to(rights)]
                for tool, declared in DECLARED.items():
                    needed = declared.needs({})
                    # What is refused is not looked at: neither are wrong arguments told.
                    result = await client.call_tool(tool, {"no_such_argument": 1})
                    assert result.is_error
                    text = result.content[0].text  # type: ignore[union-attr]
                    refused = text.startswith(f"{tool} needs the right")
                    assert refused is not (needed <= rights), (name, tool)
                    assert all(right in text for right in needed) or not refused
                    assert f"this credential has {join_rights(rights)}" in text or not refused


@pytest.mark.parametrize("mode", MODES)
async def test_a_plan_is_reviewed_with_the_right_to_read_and_changed_with_the_right_to_write(
    tmp_path: Path, mode: str
) -> None:
    create: dict[str, Any] = {"action": "create", "plan": {"goal": "tea"}, "thread_id": "main"}
    review: dict[str, Any] = {"action": "review", "thread_id": "main"}
    async with (
        served(settings_in(tmp_path), everybody()) as url,
        connected(url, "reader", mode) as reader,
        connected(url, "writer", mode) as writer,
    ):
        for arguments in (create, {**create, "action": "update"}, {**create, "action": ["review"]}, {"action": None}):
            refused = await reader.call_tool("plan", arguments)
            assert refused.content[0].text == "plan needs the right write; this credential has read"  # type: ignore[union-attr]
        assert not (await writer.call_tool("plan", create)).is_error
        assert not (await reader.call_tool("plan", review)).is_error
        refused = await writer.call_tool("plan", review)
        assert refused.content[0].text == "plan needs the right read; this credential has write"  # type: ignore[union-attr]


@contextlib.contextmanager
def needs_read(method: str) -> Iterator[None]:
    with pytest.raises(MCPError) as raised:
        yield
    assert raised.value.error.message == f"{method} needs the right read; this credential has write"
    assert raised.value.error.code == INVALID_PARAMS


@pytest.mark.parametrize("mode", MODES)
async def test_resources_prompts_and_completion_are_for_those_who_may_read(tmp_path: Path, mode: str) -> None:
    uris = [f"memory://{alone}" for alone in ("profile", "entries", "threads", "status", "recall?query=tea")]
    uris += (unknown := ["memory://runs/r", "memory://runs/r/state", "memory://entries/e"])
    kinds = ("", "/messages", "/observations", "/session-memory", "/plan", "/runs", "/events")
    uris += [f"memory://threads/main{kind}" for kind in kinds]
    assert len(uris) == 4 + len(TEMPLATED)
    hello = {"messages": [{"role": "user", "content": "tea"}], "thread_id": "main"}
    async with served(settings_in(tmp_path), everybody()) as url:
        async with connected(url, "writer", mode) as writer:
            await answer(writer, "add_messages", **hello)
            assert (await writer.list_resources()).resources == []
            assert (await writer.list_resource_templates()).resource_templates == []
            assert (await writer.list_prompts()).prompts == []
            for uri in uris:
                with needs_read("resources/read"):
                    await writer.read_resource(uri)
            for prompt in PROMPTS:
                with needs_read("prompts/get"):
                    await writer.get_prompt(
                        prompt, {"thread_id": "main"} if prompt in ("load_memory", "resume_work") else {}
                    )
            ref = PromptReference(name="load_memory")
            with needs_read("completion/complete"):
                await writer.complete(ref, {"name": "thread_id", "value": "m"})
        async with connected(url, "reader", mode) as reader:
            assert len((await reader.list_resources()).resources) >= 4
            assert len((await reader.list_resource_templates()).resource_templates) == len(TEMPLATED)
            assert len((await reader.list_prompts()).prompts) == len(PROMPTS)
            for uri in uris:
                if uri not in unknown:
                    await reader.read_resource(uri)


async def test_listening_and_subscribing_are_for_those_who_may_read(tmp_path: Path) -> None:
    async with served(settings_in(tmp_path), everybody()) as url:
        async with http_client(base_url=url, headers={**ACCEPT, **MODERN}) as client:
            for wanted in ({"resourceSubscriptions": ["memory://profile"]}, {"resourcesListChanged": True}, {}):
                body = {**LISTEN, "params": {**LISTEN["params"], "notifications": wanted}}  # type: ignore[dict-item]
                reply = await client.post("/mcp", json=body, headers={"X-API-Key": "writer"})
                assert reply.json()["error"]["message"] == (
                    "subscriptions/listen needs the right read; this credential has write"
                )
                opening = client.stream("POST", "/mcp", json=body, headers={"X-API-Key": "reader"})
                async with opening as stream:
                    assert stream.headers["content-type"].startswith("text/event-stream")
        async with connected(url, "writer", "legacy") as writer, connected(url, "most", "legacy") as most:
            with needs_read("resources/subscribe"):
                await writer.subscribe_resource("memory://profile")
            await most.subscribe_resource("memory://profile")


async def test_who_may_not_read_never_hears_that_the_list_of_resources_changed(tmp_path: Path) -> None:
    heard: list[str] = []
    changed = anyio.Event()

    def hearing(name: str) -> Any:
        async def take(message: Any) -> None:
            if getattr(message, "method", "") == "notifications/resources/list_changed":
                heard.append(name)
                changed.set()

        return take

    async with (
        served(settings_in(tmp_path), everybody()) as url,
        connected(url, "writer", "legacy", "sse", hearing=hearing("writer")) as writer,
        connected(url, "most", "legacy", "sse", hearing=hearing("most")) as most,
    ):
        for client in (writer, most):
            await client.list_resources()
        for thread in ("new", "newer"):
            await answer(writer, "update_thread", thread_id=thread, title="New")
            with anyio.fail_after(PATIENCE):
                await changed.wait()
            changed = anyio.Event()
    assert set(heard) == {"most"}


METHODS: dict[str, dict[str, Any]] = {
    "server/discover": {},
    "tools/list": {},
    "prompts/list": {},
    "prompts/get": {"name": "review_memory"},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "memory://profile"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "load_memory"},
        "argument": {"name": "thread_id", "value": ""},
    },
    "tools/call": {"name": "memory_status", "arguments": {}},
}


async def test_no_result_may_be_kept_for_others(tmp_path: Path) -> None:
    assert set(get_args(CacheableMethod)) <= METHODS.keys()
    meta = LISTEN["params"]["_meta"]  # type: ignore[index]
    async with served(settings_in(tmp_path), everybody()) as url:
        for token in ("reader", "all"):
            headers = {"X-API-Key": token, **ACCEPT, "mcp-protocol-version": "2026-07-28"}
            async with http_client(base_url=url, headers=headers) as client:
                for method, params in METHODS.items():
                    named = params.get("name") or params.get("uri")
                    routing = {"mcp-method": method, **({"mcp-name": named} if named else {})}
                    body = {**PING, "method": method, "params": {**params, "_meta": meta}}
                    with anyio.fail_after(PATIENCE):
                        reply = await client.post("/mcp", json=body, headers=routing)
                    result = reply.json()["result"]
                    assert result.get("cacheScope", "private") == "private", method
                    assert ("cacheScope" in result) is (method in get_args(CacheableMethod)), method


HOOKS: dict[str, tuple[Right, dict[str, Any]]] = {
    STORE_METHOD: (
        "write",
        {
            "messages": [
                {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Tea at four."}], "created_at": None}
            ]
        },
    ),
    SHOW_METHOD: ("read", {"question": "When is tea?", "maxTokens": 800}),
}


@pytest.mark.parametrize("method", HOOKS)
async def test_a_hook_stores_with_the_right_to_write_and_shows_with_the_right_to_read(
    tmp_path: Path, method: str
) -> None:
    needed, given = HOOKS[method]
    params = {"host": "claude-code", "threadId": "main", **given, "_meta": LISTEN["params"]["_meta"]}
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {**ACCEPT, **MODERN, "mcp-method": method}
    async with served(settings_in(tmp_path), everybody()) as url, http_client() as http:
        for name, rights in SETS.items():
            sent = {**headers, "Authorization": f"Bearer {name}"}
            found = (await http.post(f"{url}/mcp", json=request, headers=sent)).json()
            if needed in rights:
                assert "result" in found, found
            else:
                expected = f"{method} needs the right {needed}; this credential has {join_rights(rights)}"
                assert found["error"]["message"] == expected
        assert (await http.post(f"{url}/mcp", json=request, headers=headers)).status_code == 401


async def test_a_message_that_cannot_be_stored_keeps_no_other_out(tmp_path: Path) -> None:
    sound = HOOKS[STORE_METHOD][1]["messages"][0]
    broken: list[dict[str, Any]] = [
        *({**sound, "id": id_} for id_ in (None, 7, "", "a\0b", "x" * 10_000)),
        *({**sound, "id": f"at-{at}", "created_at": at} for at in ("soon", True, 10**40)),
        *({**sound, "id": f"role-{role}", "role": role} for role in (None, 7, "nobody")),
        {**sound, "id": "parts", "parts": [{"type": "text", "text": 7}]},
        {},
    ]
    params = {"host": "codex", "threadId": "main", "messages": [*broken, sound], "_meta": LISTEN["params"]["_meta"]}
    request = {"jsonrpc": "2.0", "id": 1, "method": STORE_METHOD, "params": params}
    headers = {**ACCEPT, **MODERN, "mcp-method": STORE_METHOD, "Authorization": "Bearer ana"}
    async with served(settings_in(tmp_path), Told(ana=ANA)) as url, http_client() as http:
        assert (await http.post(f"{url}/mcp", json=request, headers=headers)).json()["result"]["added"] == 1
        request["params"] = {**params, "host": "nobody"}
        refused = (await http.post(f"{url}/mcp", json=request, headers=headers)).json()["error"]
        assert "claude-code" in refused["message"]


async def test_messages_of_hooks_are_refused_while_the_quota_is_used_up(tmp_path: Path) -> None:
    text = {"type": "text", "text": "Tea at four, with scones and clotted cream. " * 20}
    messages = [{"id": str(number), "role": "user", "parts": [text], "created_at": None} for number in range(20)]
    params = {"host": "codex", "threadId": "main", "messages": messages, "_meta": LISTEN["params"]["_meta"]}
    request = {"jsonrpc": "2.0", "id": 1, "method": STORE_METHOD, "params": params}
    headers = {**ACCEPT, **MODERN, "mcp-method": STORE_METHOD, "Authorization": "Bearer ana"}
    settings = settings_in(tmp_path, rates={"resource_stored_bytes": 2_000})
    async with served(settings, Told(ana=ANA)) as url, http_client() as http:
        # An error, since a hook takes any answer as the word that its messages are stored.
        error = (await http.post(f"{url}/mcp", json=request, headers=headers)).json()["error"]
        assert "bytes stored" in error["message"]


async def test_hooks_of_one_user_are_shown_nothing_of_another(tmp_path: Path) -> None:
    told = Told(ana=ANA, ben=replace(ANA, name="key:ben", resource="ben"))
    shown: dict[str, str] = {}
    async with served(settings_in(tmp_path), told) as url, http_client() as http:

        async def call(method: str, name: str, thread: str) -> Any:
            params = {"host": "codex", "threadId": thread, **HOOKS[method][1], "_meta": LISTEN["params"]["_meta"]}
            request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            headers = {**ACCEPT, **MODERN, "mcp-method": method, "Authorization": f"Bearer {name}"}
            return (await http.post(f"{url}/mcp", json=request, headers=headers)).json()["result"]

        await call(STORE_METHOD, "ana", "first")
        for name in ("ana", "ben"):
            shown[name] = (await call(SHOW_METHOD, name, "second"))["text"]
    assert "Tea at four." in shown["ana"]
    assert shown["ben"] == ""
