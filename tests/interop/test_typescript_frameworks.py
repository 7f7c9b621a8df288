"""Agents of frameworks for TypeScript, as docs/clients.md builds them, with a model that follows a script."""

import json
from pathlib import Path

import pytest
from scripted_model import Call, scripted_model

from .conftest import RunNode
from .conversation import PROGRAM, SCRIPT, TEXTS, Memory, memory

# What each framework puts before the names of the tools.
PREFIXES = {"langchain": "", "openai-agents": "", "mastra": "memory_", "vercel-ai-sdk": ""}
THREAD, PROMPT = "dinner-in-lisbon", "Where shall we eat?"
LAST_WORDS = "The place at the river has no meat."
TOLD_TO_NOBODY = {
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "MASTRA_TELEMETRY_DISABLED": "1",
    "LANGSMITH_TRACING": "false",
    "AI_SDK_LOG_WARNINGS": "false",
}


def reaching(to: Memory) -> dict[str, str]:
    """The variables that a snippet reads."""
    return {"MEMORY_PROGRAM": PROGRAM} | ({"MEMORY_URL": to.url, "MEMORY_KEY": to.key} if to.url else {})


@pytest.mark.parametrize("transport", ["onStdio", "overHttp"])
@pytest.mark.parametrize("framework", PREFIXES)
def test_an_agent_of_a_framework_uses_the_tools_and_its_conversation_is_whole(
    framework: str, transport: str, run_node: RunNode, tmp_path: Path
) -> None:
    prefix = PREFIXES[framework]
    script = [Call(prefix + call.tool, call.arguments) for call in SCRIPT]
    with (
        memory("on_stdio" if transport == "onStdio" else "over_http", tmp_path) as empty,
        scripted_model(*script, last_words=LAST_WORDS) as model,
    ):
        given = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": f"{model.url}/v1", **TOLD_TO_NOBODY}
        ended = run_node("run_snippet.mjs", framework, transport, THREAD, PROMPT, **given, **reaching(empty))
        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout.splitlines()[-1]) == LAST_WORDS
        kept = empty.seen()
    assert set(model.tools) == {prefix + tool for tool in kept.tools}
    assert kept.threads == {THREAD: TEXTS}


@pytest.mark.parametrize("transport", ["onStdio", "overHttp"])
def test_a_client_of_the_official_sdk_gets_the_context_of_its_thread(
    transport: str, run_node: RunNode, tmp_path: Path
) -> None:
    with memory("on_stdio" if transport == "onStdio" else "over_http", tmp_path) as empty:
        ended = run_node("run_snippet.mjs", "official-sdk", transport, THREAD, PROMPT, **reaching(empty))
        assert ended.returncode == 0, ended.stderr
        context = json.loads(json.loads(ended.stdout.splitlines()[-1]))
        kept = empty.seen()
    assert PROMPT in context["messages"][-1]["content"]
    assert kept.threads == {THREAD: [("user", PROMPT)]}
