"""Usage as providers and agent libraries write it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.rules.validation import Limits
from layerlore.memory.usage.model_usage import MOST_TOKENS, ModelUsage, read_usage, snake_case
from layerlore.storage.core.errors import InvalidInput, LimitExceeded
from layerlore.storage.core.records import Json

OPENAI_CHAT = {
    "prompt_tokens": 100,
    "completion_tokens": 40,
    "total_tokens": 140,
    "prompt_tokens_details": {"cached_tokens": 60, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 10, "audio_tokens": 0, "accepted_prediction_tokens": 0},
}
OPENAI_RESPONSES = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60},
    "output_tokens": 40,
    "output_tokens_details": {"reasoning_tokens": 10},
    "total_tokens": 140,
}
ANTHROPIC = {
    "input_tokens": 40,
    "cache_creation_input_tokens": 30,
    "cache_read_input_tokens": 60,
    "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
    "output_tokens": 40,
    "service_tier": "standard",
}
GEMINI = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 60,
    "candidatesTokenCount": 30,
    "thoughtsTokenCount": 10,
    "totalTokenCount": 140,
}
BEDROCK = {"inputTokens": 40, "outputTokens": 40, "totalTokens": 140, "cacheReadInputTokens": 60}
LITELLM = {
    "prompt_tokens": 130,
    "completion_tokens": 40,
    "total_tokens": 170,
    "cache_creation_input_tokens": 30,
    "cache_read_input_tokens": 60,
}
LANGCHAIN = {
    "input_tokens": 100,
    "output_tokens": 40,
    "total_tokens": 140,
    "input_token_details": {"cache_read": 60},
    "output_token_details": {"reasoning": 10},
}
AI_SDK = {"inputTokens": 100, "outputTokens": 40, "totalTokens": 140, "reasoningTokens": 10, "cachedInputTokens": 60}
VOLTAGENT = {"promptTokens": 100, "completionTokens": 40, "totalTokens": 140, "cachedInputTokens": 60}
N8N = {"promptTokens": 100, "completionTokens": 40, "totalTokens": 140, "inputTokenDetails": {"cacheRead": 60}}
OPENROUTER = {**OPENAI_CHAT, "cost": 0.00123, "is_byok": False, "cost_details": {"upstream_inference_cost": None}}
XAI = {
    "prompt_tokens": 100,
    "completion_tokens": 30,
    "total_tokens": 140,
    "completion_tokens_details": {"reasoning_tokens": 10},
}

WHOLE = ModelUsage(input=100, output=40, cached=60, reasoning=10)
SHAPES: list[tuple[str, Json, ModelUsage]] = [
    ("OpenAI's chat interface", OPENAI_CHAT, WHOLE),
    ("OpenAI's responses interface", OPENAI_RESPONSES, WHOLE),
    ("Anthropic", ANTHROPIC, ModelUsage(input=130, output=40, cached=60, written=30, written_long=10)),
    ("Gemini", GEMINI, WHOLE),
    ("Bedrock", BEDROCK, ModelUsage(input=100, output=40, cached=60)),
    ("litellm", LITELLM, ModelUsage(input=130, output=40, cached=60, written=30)),
    ("LangChain", LANGCHAIN, WHOLE),
    ("the AI SDK", AI_SDK, WHOLE),
    ("VoltAgent", VOLTAGENT, replace(WHOLE, reasoning=0)),
    ("n8n", N8N, replace(WHOLE, reasoning=0)),
    ("OpenRouter", OPENROUTER, replace(WHOLE, cost_nano_usd=1_230_000)),
    ("xAI, which counts reasoning beside the output", XAI, ModelUsage(input=100, output=40, reasoning=10)),
]


def read(raw: Any) -> ModelUsage | None:
    return read_usage(raw, "steps[0].usage", Limits())


@pytest.mark.parametrize(("raw", "expected"), [shape[1:] for shape in SHAPES], ids=[shape[0] for shape in SHAPES])
def test_the_shapes_of_providers_and_libraries_come_to_the_same(raw: Json, expected: ModelUsage) -> None:
    assert read(raw) == expected
    assert read({**raw, "something_new": {"deep": [1]}}) == expected


@given(st.integers(0, MOST_TOKENS), st.integers(0, MOST_TOKENS))
def test_every_spelling_of_the_two_counts_is_read(entered: int, left: int) -> None:
    for input_name in ("input_tokens", "inputTokens", "prompt_tokens", "promptTokens"):
        for output_name in ("output_tokens", "outputTokens", "completion_tokens", "completionTokens"):
            assert read({input_name: entered, output_name: left}) == ModelUsage(entered, left)
            assert read({input_name: float(entered), output_name: left, "total_tokens": entered + left}) == ModelUsage(
                entered, left
            )


def test_what_a_total_leaves_is_the_count_that_is_missing() -> None:
    assert read({"input_tokens": 7, "total_tokens": 10}) == ModelUsage(7, 3)
    assert read({"completion_tokens": 7, "total_tokens": 10}) == ModelUsage(3, 7)
    assert read({"prompt_tokens": 7, "total_tokens": 7}) == ModelUsage(7, 0)
    assert read({"inputTokens": None, "outputTokens": None, "totalTokens": 10}) == ModelUsage(10, 0, plain=False)


@pytest.mark.parametrize("raw", [{}, {"input_tokens": None}, {"promptTokens": None, "cost": None}, {"model": "m"}])
def test_usage_that_says_nothing_is_none(raw: Json) -> None:
    assert read(raw) is None


def test_the_cost_is_read_under_its_names_and_to_the_billionth_of_a_dollar() -> None:
    for name in ("cost", "cost_usd", "costUsd", "total_cost", "totalCost"):
        assert read({name: 0.000000001}) == ModelUsage(cost_nano_usd=1)
    assert read({"cost": 0}) == ModelUsage(cost_nano_usd=0)
    assert read({"cost": 10_000}) == ModelUsage(cost_nano_usd=10**13)
    assert read({"cost": 0.1}) == ModelUsage(cost_nano_usd=10**8)
    assert read({"cost": 2.5e-10}) == ModelUsage(cost_nano_usd=0)


@pytest.mark.parametrize(
    "raw",
    [
        {"input_tokens": 1, "service_tier": "batch"},
        {"prompt_tokens": 1, "prompt_tokens_details": {"audio_tokens": 1}},
        {"completion_tokens": 1, "completion_tokens_details": {"audio_tokens": 1}},
        {"total_tokens": 1},
    ],
)
def test_what_has_another_price_than_text_is_marked(raw: Json) -> None:
    usage = read(raw)
    assert usage is not None
    assert not usage.plain


def test_the_model_is_read_beside_the_counts() -> None:
    assert read({"input_tokens": 1, "model": "gpt-4o"}) == ModelUsage(1, model="gpt-4o")
    assert read({"input_tokens": 1, "model": ""}) == ModelUsage(1)


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ([1], "must be an object"),
        ("12", "must be an object"),
        ({"tokens": 5}, "input_tokens and output_tokens"),
        ({"input_tokens": -1}, "input_tokens: must be a whole number of tokens, 0 or more, not -1"),
        ({"input_tokens": 1.5}, "not 1.5"),
        ({"inputTokens": "12"}, "input_tokens: must be a whole number of tokens, 0 or more, not '12'"),
        ({"input_tokens": True}, "not a boolean"),
        ({"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": -1}}, "cached_tokens"),
        ({"cost": -0.1}, "cost: must be a number of US dollars, 0 or more"),
        ({"cost": "0.1"}, "US dollars"),
        ({"cost": {"total": 1}}, "not an object"),
        ({"cost": True}, "not a boolean"),
        ({"input_tokens": 1, "model": 5}, "model: must be a string"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(raw: Any, told: str) -> None:
    with pytest.raises(InvalidInput, match=r"^steps\[0\]\.usage") as refused:
        read(raw)
    assert told in str(refused.value)


@pytest.mark.parametrize("raw", [{"input_tokens": MOST_TOKENS + 1}, {"cost": 10_000.01}, {"output_tokens": 1e300}])
def test_more_than_a_step_can_use_is_refused(raw: Json) -> None:
    with pytest.raises(LimitExceeded, match="are allowed in one step"):
        read(raw)


COUNTED = st.none() | st.integers(0, 1000)
NAMES = st.sampled_from(
    [key for _, raw, _ in SHAPES for key, value in raw.items() if type(value) is int] + ["total_tokens", "cachedTokens"]
)


@given(st.dictionaries(NAMES, COUNTED))
def test_whatever_the_mixture_the_parts_are_never_more_than_the_whole(raw: Json) -> None:
    usage = read(raw)
    if usage is not None:
        assert 0 <= usage.cached + usage.written <= usage.input
        assert 0 <= usage.written_long <= usage.written
        assert 0 <= usage.reasoning <= usage.output


def test_names_are_spelled_in_snake_case() -> None:
    for name in ("promptTokens", "prompt_tokens", "PromptTokens"):
        assert snake_case(name) == "prompt_tokens"
    assert snake_case("ephemeral1hInputTokens") == "ephemeral1h_input_tokens"
