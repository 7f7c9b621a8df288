"""What frameworks that nobody here wrote do with this server, built as docs/clients.md says, with a scripted model."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_model import ScriptedModel, scripted_model

from .conversation import GOAL, SCRIPT, TEXTS, Memory, memory, talk
from .python_environments import REQUIRED, TALKING, environment

ALL = pytest.mark.skipif(os.environ.get(REQUIRED) != "all", reason="`make interop-all` runs every framework")
MORE = [
    pytest.param(framework, marks=ALL)
    for framework in ("agno", "google-adk", "google-genai", "llama-index", "smolagents", "strands")
]
# How an agent's framework wants its model: what ends a run, and whether every argument is required.
MODELS: dict[str, dict[str, Any]] = {"smolagents": {"last_tool": "final_answer", "gives_all": True}}
THREAD, PROMPT, LAST_WORDS = "dinner-in-lisbon", "Where shall we eat?", "The place at the river has no meat."
# What an add answers, however a framework shows it to its model.
COUNTED = re.compile(r"stored\W+(\d+)\W+seqs\W+([\d-]+)")


@pytest.fixture(params=["on_stdio", "over_http"])
def empty_memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    with memory(request.param, tmp_path) as empty:
        yield empty


@pytest.fixture
def served_memory(tmp_path: Path) -> Iterator[Memory]:
    with memory("over_http", tmp_path) as empty:
        yield empty


def has_talked(snippet: str, memory: Memory, thread: str) -> ScriptedModel:
    """The model of an agent that went through the script, with the answer as it has to be."""
    framework = snippet.partition("/")[0]
    python = environment(framework)
    with scripted_model(*SCRIPT, last_words=LAST_WORDS, **MODELS.get(framework, {})) as model:
        assert talk(python, snippet, memory, thread, PROMPT, model).strip() == LAST_WORDS
    return model


@pytest.mark.parametrize("framework", [*TALKING, *MORE])
def test_an_agent_of_a_framework_uses_the_tools_and_its_conversation_is_whole(
    framework: str, empty_memory: Memory
) -> None:
    model = has_talked(f"{framework}/snippet.py", empty_memory, THREAD)
    kept = empty_memory.seen()
    assert set(model.tools) >= set(kept.tools)
    assert kept.threads == {THREAD: TEXTS}
    added, added_too, recalled, context, planned, read = model.results
    assert COUNTED.findall(added)[0] == ("2", "1-2")
    assert COUNTED.findall(added_too)[0] == ("1", "3")
    assert TEXTS[0][1] in recalled
    assert all(text in context for _, text in TEXTS)
    assert GOAL in planned
    assert THREAD in read
    assert all(text in read for _, text in TEXTS)


@pytest.mark.parametrize("framework", ["autogen", "langchain"])
def test_tools_that_open_a_session_for_each_call_keep_one_conversation(framework: str, served_memory: Memory) -> None:
    has_talked(f"{framework}/session_per_call.py", served_memory, THREAD)
    assert served_memory.seen().threads == {THREAD: TEXTS}


@pytest.mark.parametrize("framework", ["autogen", "openai-agents", "pydantic-ai"])
def test_an_agent_that_names_no_thread_over_http_is_told_which_one_each_call_used(
    framework: str, served_memory: Memory
) -> None:
    model = has_talked(f"{framework}/snippet.py", served_memory, "")
    threads = served_memory.seen().threads
    assert sorted(text for said in threads.values() for text in said) == sorted(TEXTS)
    for added in model.results[:2]:
        assert any(thread in added for thread in threads)


@pytest.mark.parametrize("client", ["mcp", *(pytest.param(client, marks=ALL) for client in ("mcp1", "fastmcp"))])
def test_a_client_without_an_agent_stores_a_prompt_and_gets_the_context_of_the_next_call(
    client: str, empty_memory: Memory
) -> None:
    with scripted_model(last_words="") as nobody:
        context = talk(environment(client), f"{client}/snippet.py", empty_memory, THREAD, PROMPT, nobody)
    assert context == [{"role": "user", "content": PROMPT}]
    assert empty_memory.seen().threads == {THREAD: [("user", PROMPT)]}
