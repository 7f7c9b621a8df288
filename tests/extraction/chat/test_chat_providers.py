"""Each provider's own wire, replayed to litellm itself; and that nothing but the provider is spoken to."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_providers import SPENT, WIRES, FakeProvider, Said, Wire, fake_provider

from layerlore.extraction.chat.chat_port import TABLE, VARIABLES, ChatAnswer, ChatFailed, Models
from layerlore.extraction.chat.litellm_chat import LitellmChat
from layerlore.extraction.kinds.kind import Material

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string", "maxLength": 80}},
    "required": ["title"],
    "additionalProperties": False,
}
GOOD = {"title": "Tea"}
MATERIAL = Material("Give it a title.", "I like tea.", SCHEMA, "title/1", None)
TOLD_IN_WORDS = json.dumps(SCHEMA)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    for variable in VARIABLES:
        monkeypatch.setenv(variable, "key-1")
    with fake_provider() as server:
        yield server


@pytest.fixture(params=WIRES)
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def wire(model: str) -> Wire:
    return WIRES[model]


def chat(fake: FakeProvider, model: str) -> LitellmChat:
    return LitellmChat(Models({"title": model}), api_base=fake.url, timeout_seconds=20.0)


async def answered(fake: FakeProvider, model: str, *said: Said) -> ChatAnswer:
    fake.said.extend(said)
    return await chat(fake, model).answer("title", MATERIAL)


async def failure(fake: FakeProvider, model: str, *said: Said) -> ChatFailed:
    with pytest.raises(ChatFailed) as caught:
        await answered(fake, model, *said)
    assert str(caught.value).startswith(f"{model}: ")
    return caught.value


def good(wire: Wire) -> Said:
    return Said(wire.answer(json.dumps(GOOD), False))


async def test_there_is_a_wire_for_each_model_that_auto_takes() -> None:
    assert {named for named, _ in TABLE} <= set(WIRES)


async def test_the_schema_goes_where_the_provider_looks_for_it(fake: FakeProvider, model: str, wire: Wire) -> None:
    answer = await answered(fake, model, good(wire))
    assert (answer.json, answer.usage.calls) == (GOOD, 1)
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == SPENT
    ((path, headers, request),) = fake.requests
    assert path == wire.path
    if wire.key_in:
        assert "key-1" in {name.lower(): value for name, value in headers.items()}[wire.key_in.lower()]
    assert wire.schema(request)["required"] == ["title"]
    assert MATERIAL.instructions in wire.system(request)
    assert (TOLD_IN_WORDS in wire.system(request)) is wire.in_words_too


async def test_where_the_schema_is_refused_it_is_told_in_words(fake: FakeProvider, model: str, wire: Wire) -> None:
    assert (await answered(fake, model, wire.refusal, good(wire))).json == GOOD
    first, second = (request for _, _, request in fake.requests)
    assert wire.schema(first)
    assert wire.schema(second) is None
    assert TOLD_IN_WORDS in wire.system(second)


async def test_a_limit_of_rates_is_passed_on_with_its_pause(fake: FakeProvider, model: str, wire: Wire) -> None:
    error = await failure(fake, model, wire.limit)
    assert str(error) == f"{model}: too many requests"
    assert (error.retryable, error.retry_after_ms, len(fake.requests)) == (True, wire.pause_ms, 1)


async def test_an_empty_answer_is_none_and_is_counted(fake: FakeProvider, model: str, wire: Wire) -> None:
    error = await failure(fake, model, Said(wire.answer("", False)))
    assert str(error) == f"{model}: its answer is empty"
    assert (error.retryable, error.spent.input_tokens, len(fake.requests)) == (True, SPENT[0], 1)


async def test_an_answer_that_was_cut_off_is_none(fake: FakeProvider, model: str, wire: Wire) -> None:
    cut = Said(wire.answer('{"ti', True))
    error = await failure(fake, model, cut, cut)
    told = "its answer was cut off" if wire.tells_cut else "its JSON ends before it is complete"
    assert told in str(error)
    assert (error.retryable, error.spent.calls, len(fake.requests)) == (True, *[1 if wire.tells_cut else 2] * 2)


async def test_an_error_that_comes_with_200_is_none_the_less_one(fake: FakeProvider) -> None:
    said = Said({"error": {"code": 502, "message": "Provider returned error", "metadata": {}}})
    assert (await failure(fake, "openrouter/google/gemini-2.5-flash", said)).retryable


async def test_a_server_of_ones_own_without_an_address_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for model in ("lm_studio/qwen3", "hosted_vllm/qwen3", "litellm_proxy/x", "xinference/x"):
        with pytest.raises(ChatFailed, match=r"it has no address: set llm.api_base") as caught:
            await LitellmChat(Models({"title": model})).answer("title", MATERIAL)
        assert caught.value.of_setup


# Told to a process of its own, since what watches it cannot be taken back: with an address of the fake's, which answers,
# and without one, where the provider's own may be looked up and nothing can be reached.
WATCHED = """
import concurrent.futures, json, os, sys
reached, told = set(), json.loads(sys.argv[1])
class Refused(OSError):
    pass
def watch(event, arguments):
    if event == "socket.getaddrinfo":
        reached.add(str(arguments[0]))
        if arguments[0] != "127.0.0.1":
            raise Refused(f"{arguments[0]} is not to be reached")
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        reached.add(f"{arguments[1][0]}:{arguments[1][1]}")
        if arguments[1][0] != "127.0.0.1":
            raise Refused("it is not to be reached")
sys.addaudithook(watch)
import anyio
from layerlore.extraction.chat.chat_port import Models
from layerlore.extraction.chat.litellm_chat import LitellmChat
from layerlore.extraction.chat.chat_port import ChatFailed
from layerlore.extraction.kinds.kind import Material
from layerlore.memory.embedding.port import EmbeddingFailed
from layerlore.memory.embedding.remote import RemoteEmbedder
before = [name for name in ("litellm", "jinja2", "openai") if name in sys.modules]
material = Material("i", "c", told["schema"], "title/1", None)
found = {}
async def ask(name, **options):
    reached.clear()
    try:
        said = (await LitellmChat(Models({"title": name}), **options).answer("title", material)).json
    except ChatFailed as error:
        said = str(error)
    found["chat", name, bool(options)] = sorted(reached), said
def embed(name, **options):
    reached.clear()
    try:
        RemoteEmbedder(name, retry_pauses=(), **options).embed(["text"])
        said = "embedded"
    except EmbeddingFailed as error:
        said = str(error)
    found["embed", name, bool(options)] = sorted(reached), said
async def all_of_it():
    for name in told["served"]:
        await ask(name, api_base=told["url"])
    for name in told["chats"]:
        await ask(name)
anyio.run(all_of_it)
with concurrent.futures.ThreadPoolExecutor(1) as threads:
    threads.submit(embed, told["embeds_served"], api_base=told["url"]).result()
    for name in told["embedders"]:
        threads.submit(embed, name).result()
report = {"before": before, "found": [[*key, *value] for key, value in found.items()]}
report["from_a_file"] = os.environ.get("FROM_A_FILE")
print("REPORT" + json.dumps(report), file=sys.stderr)
"""

# Who may be looked up when no address is set: the provider, and nobody else.
OWN_HOSTS = {
    "gemini/gemini-2.5-flash": ["generativelanguage.googleapis.com"],
    "openai/gpt-5.4-mini": ["api.openai.com"],
    "openai/a-model-that-nobody-lists": ["api.openai.com"],
    "anthropic/claude-haiku-5-5": ["api.anthropic.com"],
    "anthropic/a-model-that-nobody-lists": ["api.anthropic.com"],
    "mistral/mistral-small-latest": ["api.mistral.ai"],
    "groq/openai/gpt-oss-120b": ["api.groq.com"],
    "openrouter/google/gemini-2.5-flash": ["openrouter.ai"],
    "ollama/llama3.2": ["localhost"],
    "ollama_chat/llama3.2": ["localhost"],
    "huggingface/org/model": ["router.huggingface.co"],
    "replicate/org/model": ["api.replicate.com"],
    "together_ai/org/model": ["api.together.ai"],
    "lm_studio/model": [],
    "nonsense": [],
    "nobody/knows-it": [],
}
OWN_HOSTS_OF_EMBEDDERS = {
    "openai/text-embedding-3-small": ["api.openai.com"],
    "gemini/gemini-embedding-001": ["generativelanguage.googleapis.com"],
    "mistral/mistral-embed": ["api.mistral.ai"],
    "openrouter/openai/text-embedding-3-small": ["openrouter.ai"],
    "ollama/nomic-embed-text": ["localhost"],
    "voyage/voyage-3": ["api.voyageai.com"],
    "huggingface/org/model": ["router.huggingface.co"],
    "hosted_vllm/model": [],
    "nonsense": [],
}


@pytest.mark.programs
async def test_litellm_is_loaded_late_and_speaks_to_nobody_but_the_provider(
    fake: FakeProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a host may happen to pass on.
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "False")
    monkeypatch.setenv("LITELLM_MODE", "DEV")
    monkeypatch.setenv("CUSTOM_TIKTOKEN_CACHE_DIR", str(tmp_path / "encodings"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("REPLICATE_API_KEY", "HUGGINGFACE_API_KEY", "TOGETHER_AI_API_KEY", "VOYAGE_API_KEY"):
        monkeypatch.setenv(variable, "key-1")
    (tmp_path / ".env").write_text("FROM_A_FILE=read\n")
    told: dict[str, Any] = {
        "url": fake.url,
        "schema": SCHEMA,
        "served": list(WIRES),
        "chats": list(OWN_HOSTS),
        "embeds_served": "ollama/nomic-embed-text",
        "embedders": list(OWN_HOSTS_OF_EMBEDDERS),
    }
    fake.said.extend(good(wire) for wire in WIRES.values())
    vector = Said({"model": "served", "embeddings": [[0.1, 0.2, 0.3]], "prompt_eval_count": 3})
    fake.said.append(vector)
    (tmp_path / "program.py").write_text(WATCHED)
    done = subprocess.run(
        [sys.executable, "program.py", json.dumps(told)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == ""
    report = json.loads(next(line for line in done.stderr.splitlines() if line.startswith("REPORT"))[6:])
    assert (report["before"], report["from_a_file"]) == ([], None)
    found = {(kind, name, served): (hosts, said) for kind, name, served, hosts, said in report["found"]}
    only = sorted(["127.0.0.1", fake.url.partition("//")[2]])
    expected = {("chat", name, True): (only, GOOD) for name in WIRES}
    expected["embed", "ollama/nomic-embed-text", True] = (only, "embedded")
    assert {key: value for key, value in found.items() if key[2]} == expected
    assert {
        name: hosts for (kind, name, served), (hosts, _) in found.items() if kind == "chat" and not served
    } == OWN_HOSTS
    assert {
        name: hosts for (kind, name, served), (hosts, _) in found.items() if kind == "embed" and not served
    } == OWN_HOSTS_OF_EMBEDDERS
