"""Runs through a client: suspended here, resumed anywhere, by one; and errors that say how to go on."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ...server.tools.calling import TEXTS, Connect, Json, Tools, examples

pytestmark = pytest.mark.anyio


KEY = "layerlore/idempotency-key"
SECRET = f"sk-ant-api03-{'aB3dE5fG7hI9' * 5}"
APPROVAL = {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}
CALL = {"tool_call_id": "c1", "tool_name": "sail", "suspended": True, "resume_schema": APPROVAL}
STATE = {
    "status": "suspended",
    "messageList": {
        "messages": [{"id": "m1", "role": "user", "content": f"my key is {SECRET}"}],
        "historyIds": ["m9", "m1"],
        "inputIds": [],
        "responseIds": ["m2"],
    },
    "zebra": 1.0,
    "apple": 10**30,
}


@pytest.fixture
async def runs(connect: Connect) -> AsyncIterator[Tools]:
    async with connect(toolsets="runs") as tools:
        yield tools


@pytest.mark.databases
async def test_a_run_is_suspended_here_and_resumed_in_another_process_without_its_thread(connect: Connect) -> None:
    async with connect(toolsets="runs") as tools:
        suspended = await tools("suspend_run", run_id="r1", state=STATE, pending_tool_calls=[CALL], reason="approval")
    async with connect(toolsets="runs") as tools:
        (row,) = (await tools("list_runs", status="suspended"))["runs"]
        assert row["waiting"] == [{"tool_call_id": "c1", "tool_name": "sail"}]
        assert (await tools("get_run", run_id="r1"))["pending_tool_calls"] == [CALL]
        resumed = await tools("resume_run", run_id="r1", data={"approved": False})
        assert (resumed["state"], list(resumed["state"])) == (STATE, list(STATE))
        assert resumed["thread_id"] == suspended["thread_id"]
        assert [(each["tool_call_id"], each["data"]) for each in resumed["resumed"]] == [("c1", {"approved": False})]
        again = await tools("suspend_run", run_id="r1", state={"step": 2}, claim=resumed["claim"])
        assert again == {"run_id": "r1", "thread_id": suspended["thread_id"], "status": "suspended"}
        claim = (await tools("resume_run", run_id="r1"))["claim"]
        await tools("complete_run", run_id="r1", claim=claim, status="cancelled", output={"approved": False})
        row = await tools("get_run", run_id="r1")
        assert (row["status"], row["output"]) == ("cancelled", {"approved": False})


async def test_what_stands_in_a_run_is_never_found_and_only_its_describing_words_are_masked(connect: Connect) -> None:
    async with connect(toolsets="all") as tools:
        answer = await tools(
            "suspend_run",
            run_id="r1",
            state={"text": "quokka", "key": SECRET},
            pending_tool_calls=[{**CALL, "suspend_payload": SECRET}],
            metadata={"token": SECRET},
            reason=f"with {SECRET}",
            thread_id="main",
        )
        assert answer["masked"] == 3
        assert "quokka" not in str(await tools("recall_memory", query="quokka"))
        seen = (await tools("get_run", run_id="r1", with_state=True))["state"]
        assert seen["text"] == "quokka"
        assert seen["key"].startswith("[masked:")
        resumed = await tools("resume_run", run_id="r1", data={"approved": True, "key": SECRET})
        assert resumed["state"] == {"text": "quokka", "key": SECRET}
        assert resumed["resumed"][0]["data"]["key"] == SECRET
        assert SECRET not in resumed["reason"] + str([resumed["metadata"], resumed["pending_tool_calls"]])
        done = await tools("complete_run", run_id="r1", claim=resumed["claim"], output=[SECRET])
        assert done["masked"] == 1
        assert SECRET not in str(await tools("get_run", run_id="r1"))
        events = (await tools("list_events", thread_id="main"))["events"]
        assert [(event["type"], event["payload"]) for event in events] == [
            ("run_suspended", {"run_id": "r1"}),
            ("run_resumed", {"run_id": "r1", "tool_call_id": "c1"}),
            ("run_completed", {"run_id": "r1"}),
        ]


async def test_secrets_are_masked_in_pending_calls_their_names_and_schemas_and_in_workflow_ids(runs: Tools) -> None:
    schema = {"type": "object", "properties": {"password": {"type": "string", "default": "falcon2867"}}}
    call = {
        "tool_call_id": SECRET,
        "tool_name": SECRET,
        "args": {"user": "bob", "password": "falcon-2867"},
        "resume_schema": schema,
    }
    given = {"run_id": "r1", "state": {}, "workflow_id": SECRET, "pending_tool_calls": [call]}
    answer = await runs("suspend_run", **given)
    assert answer["masked"] == 5
    assert (await runs("suspend_run", **given))["unchanged"]
    (shown,) = (await runs("list_runs", workflow_id=SECRET))["runs"]
    assert shown["workflow_id"].startswith("[masked:anthropic-key:")
    told = await runs("get_run", run_id="r1")
    resumed = await runs("resume_run", run_id="r1", data={"password": "x"}, tool_call_id=SECRET)
    answers = str([shown, told, resumed["pending_tool_calls"]])
    assert not [secret for secret in (SECRET, "falcon2867", "falcon-2867") if secret in answers]
    (pending,) = resumed["pending_tool_calls"]
    assert pending["args"]["user"] == "bob"
    assert pending["resume_schema"]["properties"]["password"]["type"] == "string"


async def test_text_that_looks_like_json_is_a_state_like_any_other(runs: Tools) -> None:
    for state in ('{"a": 1}', "[1]", "null", "", " ", '"x"', None, False, 0, [], {}):
        name = uuid.uuid4().hex
        await runs("suspend_run", run_id=name, state=state)
        back = (await runs("resume_run", run_id=name))["state"]
        assert (type(back), back) == (type(state), state)


NUMBERS = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | st.just(10**100)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.databases
@examples(25)
@given(state=VALUES)
@example(state="a\x00b")
async def test_every_state_comes_back_as_it_was(runs: Tools, state: Any) -> None:
    name = uuid.uuid4().hex
    await runs("suspend_run", run_id=name, state=state)
    back = (await runs("resume_run", run_id=name))["state"]
    assert repr(back) == repr(state)


@pytest.mark.databases
async def test_errors_say_where_the_run_is_who_has_it_and_what_is_allowed(runs: Tools) -> None:
    await runs("suspend_run", run_id="r1", state=1, pending_tool_calls=[CALL, {**CALL, "tool_call_id": "c2"}])
    assert "is suspended since" in await runs.refused("suspend_run", run_id="r1", state=2)
    assert "running, with resume_run" in await runs.refused("complete_run", run_id="r1", claim="1.x")
    first = await runs("resume_run", run_id="r1")
    told = await runs.refused("resume_run", run_id="r1")
    assert "run 'r1' is running: mcp 0.1.0 resumed it at " in told
    assert first["claimed_until"] in told
    assert "the claim '1.x' is not the newest" in await runs.refused("complete_run", run_id="r1", claim="1.x")
    assert "allowed from running: suspended, completed, failed, cancelled" in await runs.refused(
        "suspend_run", run_id="r1", state=2
    )
    await runs("complete_run", run_id="r1", claim=first["claim"])
    assert "another run needs another run_id" in await runs.refused("resume_run", run_id="r1")
    unknown = "there is no run 'r2'; list_runs shows the ones there are"
    assert await runs.refused("resume_run", run_id="r2") == unknown
    assert await runs.refused("complete_run", run_id="r2", claim="x") == unknown
    assert await runs.refused("get_run", run_id="r2") == unknown


WRONG: list[tuple[str, Json, str]] = [
    ("suspend_run", {"run_id": "r"}, "state: Field required"),
    ("suspend_run", {"run_id": "", "state": 1}, "run_id: "),
    ("suspend_run", {"run_id": "r" * 256, "state": 1}, "255 are allowed"),
    ("suspend_run", {"run_id": "r\x00", "state": 1}, "run_id: character 1 is NUL"),
    (
        "suspend_run",
        {"run_id": "r", "state": 1, "ttl_seconds": -1},
        "ttl_seconds must be 1 to 315,360,000, or left out",
    ),
    (
        "suspend_run",
        {"run_id": "r", "state": 1, "ttl_seconds": 10**4000},
        "ttl_seconds must be 1 to 315,360,000, or left out",
    ),
    ("suspend_run", {"run_id": "r", "state": "x" * 2**20}, "1,048,578 bytes of JSON; at most 1,048,576 are allowed"),
    ("suspend_run", {"run_id": "r", "state": "half \ud83d"}, "U+D83D"),
    ("suspend_run", {"run_id": "r", "state": 1, "pending_tool_calls": "c1"}, "must be a list of tool calls"),
    (
        "suspend_run",
        {"run_id": "r", "state": 1, "pending_tool_calls": [{"tool_call_id": "c", "x": "y" * 2**18}]},
        "262,",
    ),
    ("suspend_run", {"run_id": "r", "state": 1, "pending_tool_calls": [{**CALL, "resume_schema": 1}]}, "JSON Schema"),
    ("suspend_run", {"run_id": "r", "state": 1, "metadata": {"k": "x" * 16384}}, "metadata: "),
    (
        "suspend_run",
        {"run_id": "r", "state": 1, "reason": "x" * 16385},
        "reason: 16,385 bytes; at most 16,384 are allowed",
    ),
    ("suspend_run", {"run_id": "r", "state": 1, "workflow_id": "w\n"}, "workflow_id: "),
    ("resume_run", {"run_id": "given", "lease_seconds": -1}, "lease_seconds: "),
    ("resume_run", {"run_id": "given", "lease_seconds": 86_401}, "lease_seconds: "),
    ("resume_run", {"run_id": "given", "data": "x" * 2**16}, "data: 65,538 bytes of JSON; at most 65,536 are allowed"),
    ("resume_run", {"run_id": "given", "tool_call_id": "c1"}, "give data, too, or leave both out"),
    ("resume_run", {"run_id": "given", "tool_call_id": "c2", "data": 1}, "those that do: 'c1'"),
    ("resume_run", {"run_id": "given", "data": {"approved": "yes"}}, "data.approved: must be true or false"),
    ("complete_run", {"run_id": "given"}, "allowed from suspended: running, with resume_run"),
    ("complete_run", {"run_id": "given", "claim": "x", "workflow_id": "w"}, "only where complete_run makes the run"),
    ("start_run", {"run_id": "given"}, "is suspended; take it over with resume_run, or give another run_id"),
    ("start_run", {"run_id": "r", "parent_run_id": "x"}, "there is no run 'x'"),
    ("start_run", {"run_id": "r", "parent_run_id": "r"}, "a run is not its own parent"),
    ("update_run", {"run_id": "given"}, "claim: Field required"),
    ("update_run", {"run_id": "given", "claim": "x", "steps": [{"type": "text"}]}, "steps[0]: says nothing"),
    ("decide_run", {"run_id": "given", "decisions": []}, "decisions: must be a list such as"),
    (
        "decide_run",
        {"run_id": "given", "decisions": [{}]},
        "decisions[0]: give decision (approve or deny), data, or both",
    ),
    ("decide_run", {"run_id": "given", "decisions": [{"decision": "yes"}]}, "allowed: approve, deny, answer"),
    ("decide_run", {"run_id": "given", "decisions": [{"data": {"approved": "yes"}}]}, "must be true or false"),
    (
        "decide_run",
        {"run_id": "given", "decisions": [{"decision": "deny", "data": {"approved": True}}]},
        "whose approved, if any, says the same",
    ),
    ("decide_run", {"run_id": "given", "decisions": [{"tool_call_id": "c9", "data": 1}]}, "those that do: 'c1'"),
    ("decide_run", {"run_id": "given", "decisions": [{"decision": "deny"}] * 2}, "'c1' is answered twice"),
    ("complete_run", {"run_id": "given", "claim": "x", "status": "suspended"}, "'completed', 'failed' or 'cancelled'"),
    ("complete_run", {"run_id": "given", "claim": "x", "output": "x" * 2**16}, "output: 65,538 bytes"),
    ("list_runs", {"status": "nearly"}, "status[0]: Input should be 'running', 'suspended', 'completed'"),
    ("list_runs", {"since": "soon"}, "since: must be an ISO 8601 time"),
    ("list_runs", {"since": "2025-03-02", "until": "2025-03-01"}, "since: it is later than until"),
    ("list_runs", {"cursor": "x"}, "cursor: not one that list_runs gave"),
    ("list_runs", {"metadata": 1}, "metadata: "),
]


async def test_a_wrong_value_is_refused_by_name_with_what_is_allowed_and_changes_nothing(runs: Tools) -> None:
    await runs("suspend_run", run_id="given", state=1, pending_tool_calls=[CALL])
    before = await runs("list_runs")
    for tool, arguments, told in WRONG:
        refusal = await runs.refused(tool, **arguments)
        assert told in refusal, (tool, arguments)
        assert len(refusal) < 400
    assert await runs("list_runs") == before


async def test_sizes_just_at_their_limits_are_taken(runs: Tools) -> None:
    state, data = "x" * (2**20 - 2), "y" * (2**16 - 2)
    await runs("suspend_run", run_id="r1", state=state, ttl_seconds=315_360_000)
    resumed = await runs("resume_run", run_id="r1", data=data, lease_seconds=86_400)
    assert (resumed["state"], resumed["resumed"][0]["data"]) == (state, data)
    await runs("complete_run", run_id="r1", claim=resumed["claim"], output=data)
    assert (await runs("get_run", run_id="r1"))["output"] == data


async def test_arguments_that_a_client_fills_in_empty_say_nothing(runs: Tools) -> None:
    empty = {"workflow_id": "", "metadata": {}, "pending_tool_calls": [], "reason": "", "claim": "", "thread_id": ""}
    await runs("suspend_run", run_id="r1", state=1, **empty)
    resumed = await runs("resume_run", run_id="r1", tool_call_id="", data="", lease_seconds=300)
    assert resumed["resumed"] == []
    await runs("complete_run", run_id="r1", claim=resumed["claim"], status="completed", output="")
    listed = await runs(
        "list_runs", status=[], workflow_id="", thread_id="", since="", until="", metadata={}, cursor=""
    )
    assert "output" not in listed["runs"][0]


async def test_null_and_empty_text_are_given_unless_a_call_names_every_argument(runs: Tools) -> None:
    for value in (None, ""):
        started = await runs("start_run", state=value)
        shown = await runs("get_run", run_id=started["run_id"], with_state=True)
        assert ("state" in shown, shown["state"]) == (True, value)
        await runs("update_run", run_id=started["run_id"], claim=started["claim"], state={"turn": 1})
        waits = {"claim": started["claim"], "pending_tool_calls": [{"id": "c1"}]}
        await runs("suspend_run", run_id=started["run_id"], state=1, **waits)
        resumed = await runs("resume_run", run_id=started["run_id"], data=value)
        assert [each["data"] for each in resumed["resumed"]] == [value]
        whole = {"state": value, "pending_tool_calls": [], "lease_seconds": 0}
        await runs("update_run", run_id=started["run_id"], claim=resumed["claim"], **whole)
        assert (await runs("get_run", run_id=started["run_id"], with_state=True))["state"] == 1


async def test_pending_calls_take_the_shapes_of_sdks_and_come_back_as_they_were(runs: Tools) -> None:
    calls: list[Json] = [
        {"id": "c1", "name": "sail", "arguments": {"to": "Lima"}},
        {"id": "c2", "type": "function", "function": {"name": "row", "arguments": "{}"}},
        {"type": "tool_use", "id": "c3", "name": "swim", "input": {}},
        {"type": "tool-call", "toolCallId": "c4", "toolName": "walk", "input": {}},
        {"type": "function_call", "id": "fc_9", "call_id": "c5", "name": "ride", "arguments": "{}"},
        {"id": "c6", "name": "rest", "arguments": {}, "result": "done"},
    ]
    await runs("suspend_run", run_id="r1", state=1, pending_tool_calls=calls)
    shown = await runs("get_run", run_id="r1")
    assert shown["pending_tool_calls"] == calls
    names = ["sail", "row", "swim", "walk", "ride"]
    assert [(each["tool_call_id"], each["tool_name"]) for each in shown["waiting"]] == [
        (f"c{number}", name) for number, name in enumerate(names, 1)
    ]


async def test_a_schema_that_wants_every_key_leaves_room_for_an_answer_without_a_decision(runs: Tools) -> None:
    await runs("suspend_run", run_id="r1", state=1, pending_tool_calls=[{"id": "c1"}, {"id": "c2"}])
    decisions = [
        {"tool_call_id": "c1", "decision": "answer", "data": ""},
        {"tool_call_id": "c2", "decision": "approve", "data": ""},
    ]
    await runs("decide_run", run_id="r1", decisions=decisions)
    assert [each["data"] for each in (await runs("get_run", run_id="r1"))["resumed"]] == ["", {"approved": True}]


async def test_lists_and_objects_may_come_as_json_text(runs: Tools) -> None:
    await runs(
        "suspend_run", run_id="r1", state=1, pending_tool_calls='{"c1": {"toolName": "sail"}}', metadata='{"k": 1}'
    )
    assert (await runs("list_runs", metadata='{"k": 1}', status='["suspended"]'))["runs"][0]["waiting"]
    resumed = await runs("resume_run", run_id="r1", data='{"approved": true}')
    assert resumed["resumed"][0]["data"] == {"approved": True}


@pytest.mark.databases
async def test_a_day_alone_as_until_means_the_whole_day(runs: Tools) -> None:
    await runs("suspend_run", run_id="r1", state=1)
    made = (await runs("list_runs"))["runs"][0]["created_at"]
    for request in ({"until": made[:10]}, {"since": made[:10]}, {"since": made, "until": made}):
        assert len((await runs("list_runs", **request))["runs"]) == 1
    assert (await runs("list_runs", until="2025-01-01"))["runs"] == []


async def test_each_write_sent_again_with_its_key_gets_the_first_answer_and_changes_nothing(connect: Connect) -> None:
    async with connect(toolsets="runs") as tools:
        first = [await tools("suspend_run", meta={KEY: "k1"}, run_id="r1", state=STATE)]
        first.append(await tools("resume_run", meta={KEY: "k2"}, run_id="r1", data=1))
    end = {"run_id": "r1", "claim": first[1]["claim"], "output": 1}
    async with connect(toolsets="runs") as tools:
        assert await tools("suspend_run", meta={KEY: "k1"}, run_id="r1", state=STATE) == first[0]
        assert await tools("resume_run", meta={KEY: "k2"}, run_id="r1", data=1) == first[1]
        first.append(await tools("complete_run", meta={KEY: "k3"}, **end))
        assert await tools("complete_run", meta={KEY: "k3"}, **end) == first[2]
        for tool, key, body in (
            ("suspend_run", "k1", {"run_id": "r1", "state": 2}),
            ("resume_run", "k2", {"run_id": "r1", "data": 2}),
            ("resume_run", "k2", {"run_id": "r1"}),
            ("complete_run", "k3", {**end, "output": 2}),
        ):
            assert "new key" in await tools.refused(tool, meta={KEY: key}, **body)
        assert len((await tools("list_events", thread_id=first[0]["thread_id"]))["events"]) == 3


async def test_runs_are_no_default_tools(connect: Connect) -> None:
    async with connect() as tools:
        assert "no tool 'suspend_run'" in await tools.unknown("suspend_run", run_id="r", state=1)
