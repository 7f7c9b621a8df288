"""The protocol's official client for TypeScript, in both of its lines and both eras of the protocol."""

import json
from pathlib import Path

import pytest

from .conftest import RunNode
from .conversation import GOAL, PROGRAM, SCRIPT, TEXTS, memory

THREAD = "dinner-in-lisbon"
CLIENTS = [("v1", "legacy"), ("v2", "legacy"), ("v2", "modern")]
# What a program adds to a model's calls, to get a structure.
STRUCTURED = {"get_messages": {"format": "json"}}


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize(("sdk", "era"), CLIENTS)
def test_a_conversation_is_whole_in_the_thread_that_its_calls_name(
    sdk: str, era: str, transport: str, run_node: RunNode, tmp_path: Path
) -> None:
    with memory("on_stdio" if transport == "stdio" else "over_http", tmp_path) as empty:
        ended = run_node(
            *("official_client.mjs", sdk, era, transport, THREAD),
            input=json.dumps([(step.tool, step.arguments | STRUCTURED.get(step.tool, {})) for step in SCRIPT]),
            MEMORY_URL=empty.url,
            MEMORY_KEY=empty.key,
            MEMORY_PROGRAM=PROGRAM,
        )
        assert ended.returncode == 0, ended.stderr
        kept = empty.seen()
    found = json.loads(ended.stdout)
    assert sorted(found["tools"]) == sorted(kept.tools)
    assert {"memory://profile", "memory://threads", "memory://status"} <= set(found["resources"])
    assert "load_memory" in found["prompts"]
    assert [answer for answer in found["answers"] if answer.get("isError")] == []
    _, _, recalled, context, plan, messages = (answer["content"][0]["text"] for answer in found["answers"])
    assert "I never eat meat" in recalled
    assert all(text in context for _, text in TEXTS)
    assert GOAL in plan
    assert [each["seq"] for each in json.loads(messages)["messages"]] == [1, 2, 3]
    assert kept.threads == {THREAD: TEXTS}
