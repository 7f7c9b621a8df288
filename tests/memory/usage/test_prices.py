"""Prices: found by a model's name, applied to each kind of token, and never guessed."""

import logging
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.usage import model_usage
from layerlore.memory.usage.model_usage import (
    ModelUsage,
    PriceList,
    load_prices,
    load_prices_in_thread,
    present_lines,
    present_spent,
    price_call,
)
from layerlore.storage.audit.usage_rows import UsageLine, UsageSums

LIST = PriceList(
    {
        "sample_spec": {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0, "litellm_provider": "one of"},
        "gpt-x": {"input_cost_per_token": 2e-6, "output_cost_per_token": 8e-6, "litellm_provider": "openai"},
        "ft:gpt-x": {"input_cost_per_token": 3e-6, "output_cost_per_token": 9e-6, "litellm_provider": "openai"},
        "claude-y-4-5": {
            "input_cost_per_token": 3e-6,
            "output_cost_per_token": 15e-6,
            "cache_read_input_token_cost": 3e-7,
            "cache_creation_input_token_cost": 3.75e-6,
            "cache_creation_input_token_cost_above_1hr": 6e-6,
            "input_cost_per_token_above_200k_tokens": 6e-6,
            "output_cost_per_token_above_200k_tokens": 22.5e-6,
            "litellm_provider": "anthropic",
        },
        "gemini/gemini-z": {
            "input_cost_per_token": 1e-7,
            "output_cost_per_token": 4e-7,
            "output_cost_per_reasoning_token": 6e-7,
            "litellm_provider": "gemini",
        },
        "gemini-z": {
            "input_cost_per_token": 2e-7,
            "output_cost_per_token": 4e-7,
            "litellm_provider": "vertex_ai-models",
        },
        "us.anthropic.claude-y-v1:0": {
            "input_cost_per_token": 4e-6,
            "output_cost_per_token": 16e-6,
            "litellm_provider": "bedrock_converse",
        },
        "xai/grok-w": {"input_cost_per_token": 5e-6, "output_cost_per_token": 7e-6, "litellm_provider": "xai"},
        "cheap/free": {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0, "litellm_provider": "cheap"},
        "embed": {"input_cost_per_token": 1.3e-7, "litellm_provider": "openai"},
        "picture": {"output_cost_per_image": 0.04, "litellm_provider": "openai"},
        "odd": {"input_cost_per_token": "free", "output_cost_per_token": -1, "litellm_provider": "openai"},
    }
)
THOUSAND = ModelUsage(1000, 100)


@pytest.mark.parametrize(
    ("model", "nano"),
    [
        ("gpt-x", 2_800_000),
        ("GPT-X", 2_800_000),
        ("openai/gpt-x", 2_800_000),
        ("openai:gpt-x", 2_800_000),
        ("gpt-x-2031-12-24", 2_800_000),
        ("openai/gpt-x-2031-12-24", 2_800_000),
        ("gpt-x-latest", 2_800_000),
        ("ft:gpt-x:our-org:name:id", 3_900_000),
        ("anthropic/claude-y-4-5", 4_500_000),
        ("claude-y-4-5-20311224", 4_500_000),
        ("anthropic/claude-y-4.5", 4_500_000),
        ("claude-y-4-5@20311224", 4_500_000),
        ("gemini/gemini-z", 140_000),
        ("google/gemini-z", 140_000),
        ("models/gemini-z", 140_000),
        ("google_genai:gemini-z", 140_000),
        ("gemini-z", 240_000),
        ("vertex_ai/gemini-z", 240_000),
        ("bedrock/us.anthropic.claude-y-v1:0", 5_600_000),
        ("us.anthropic.claude-y-v1:0", 5_600_000),
        ("grok-w", 5_700_000),
        ("x-ai/grok-w", 5_700_000),
        ("cheap/free", 0),
    ],
)
def test_a_model_is_found_under_the_names_that_it_goes_by(model: str, nano: int) -> None:
    assert LIST.cost(model, THOUSAND) == nano


@pytest.mark.parametrize(
    "model",
    [
        *("", "gpt", "gpt-xx", "gpt-x-mini", "azure/gpt-x", "openrouter/openai/gpt-x", "free", "picture", "odd"),
        *("sample_spec", "gpt-x-20311224x", "ft:gpt-y:org", "/", ":", "a:b:c", "unknown"),
    ],
)
def test_a_name_that_is_not_in_the_list_has_no_price(model: str) -> None:
    assert LIST.cost(model, THOUSAND) is None


def test_each_kind_of_token_has_its_price() -> None:
    cached = ModelUsage(input=1000, output=100, cached=400, written=300, written_long=100)
    assert LIST.cost("claude-y-4-5", cached) == 300 * 3000 + 400 * 300 + 200 * 3750 + 100 * 6000 + 100 * 15000
    assert LIST.cost("gemini/gemini-z", ModelUsage(0, 100, reasoning=40)) == 60 * 400 + 40 * 600
    # Without a price of its own it has that of all input, or output.
    assert LIST.cost("gpt-x", cached) == 1000 * 2000 + 100 * 8000
    assert LIST.cost("gpt-x", ModelUsage(0, 100, reasoning=40)) == 100 * 8000


def test_long_prompts_have_the_price_of_long_prompts() -> None:
    assert LIST.cost("claude-y-4-5", ModelUsage(200_000, 10)) == 200_000 * 3000 + 10 * 15000
    assert LIST.cost("claude-y-4-5", ModelUsage(200_001, 10, cached=1)) == 200_000 * 6000 + 300 + 10 * 22500


def test_a_kind_of_token_without_any_price_makes_the_call_unpriced() -> None:
    assert LIST.cost("embed", ModelUsage(1000)) == 130_000
    assert LIST.cost("embed", ModelUsage(1000, 1)) is None
    assert LIST.cost("gpt-x", ModelUsage(1000, plain=False)) is None


@given(st.integers(0, 10**8), st.integers(0, 10**8))
def test_costs_are_exact(entered: int, left: int) -> None:
    assert LIST.cost("gpt-x", ModelUsage(entered, left)) == entered * 2000 + left * 8000
    assert LIST.cost("embed", ModelUsage(entered)) == entered * 130


def test_a_given_cost_wins_and_what_has_no_price_is_counted_as_such() -> None:
    assert price_call(THOUSAND, "gpt-x", LIST) == UsageLine("gpt-x", "steps", UsageSums(1, 1000, 100, 2_800_000, 0))
    given_cost = ModelUsage(1000, 100, cost_nano_usd=5)
    assert price_call(given_cost, "gpt-x", LIST).spent == UsageSums(1, 1000, 100, 5, 0)
    assert price_call(given_cost, "unknown", LIST).spent == UsageSums(1, 1000, 100, 5, 0)
    assert price_call(THOUSAND, "unknown", LIST).spent == UsageSums(1, 1000, 100, 0, 1)
    assert price_call(THOUSAND, "gpt-x", LIST, source="observer").source == "observer"


def test_sums_are_shown_in_dollars_and_by_model_the_dearest_first() -> None:
    assert present_spent(UsageSums(1, 2, 3, 1_230_000, 0)) == {
        "input_tokens": 2,
        "output_tokens": 3,
        "cost_usd": 0.00123,
    }
    lines = [UsageLine(f"m{n:02}", "steps", UsageSums(1, n, 0, n * 10**9)) for n in range(25)]
    shown = present_lines(
        [
            *lines,
            UsageLine("m24", "observer", UsageSums(1, 1, 1, 0, 1)),
            UsageLine("", "steps", UsageSums(1, 9, 9, 0, 1)),
        ]
    )
    assert (shown["calls"], shown["cost_usd"], shown["unpriced_calls"]) == (27, 300.0, 2)
    assert [each["model"] for each in shown["models"][:2]] == ["m24", "m23"]
    assert shown["models"][0] == {
        "model": "m24",
        "calls": 2,
        "input_tokens": 25,
        "output_tokens": 1,
        "cost_usd": 24.0,
        "unpriced_calls": 1,
    }
    assert (len(shown["models"]), shown["more_models"]) == (20, 6)
    assert present_lines([UsageLine("", "steps", UsageSums(1, 9, 9))])["models"][0]["calls"] == 1
    assert present_lines([]) == {"calls": 0, "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0, "models": []}


def test_the_list_that_litellm_ships_is_read_without_importing_it() -> None:
    program = (
        "import sys\n"
        "from layerlore.memory.usage.model_usage import load_prices\n"
        "from layerlore.memory.usage.model_usage import ModelUsage\n"
        "assert load_prices().cost('gpt-4o', ModelUsage(1)) > 0\n"
        "assert 'litellm' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_every_price_in_the_shipped_list_is_that_of_a_token() -> None:
    shipped = load_prices()
    for model in ("gpt-4o", "openai/gpt-4o-mini", "anthropic/claude-haiku-4-5", "gemini/gemini-2.5-flash"):
        rates = shipped.rates(model)
        assert rates is not None, model
        assert all(Decimal(0) <= Decimal(rate) < Decimal("0.01") for rate in rates.values())
    assert shipped.rates("sample_spec") is None


@pytest.mark.anyio
async def test_the_list_is_read_once() -> None:
    assert await load_prices_in_thread() is await load_prices_in_thread()


@pytest.mark.parametrize("content", [None, b"{", b"[1, 2]"], ids=["missing", "broken", "no object"])
def test_a_list_that_cannot_be_read_leaves_everything_unpriced(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    package = tmp_path / "litellm"
    package.mkdir()
    (package / "__init__.py").touch()
    if content is not None:
        (package / model_usage.PRICE_FILE).write_bytes(content)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    with caplog.at_level(logging.WARNING):
        found = load_prices.__wrapped__()
    assert (len(found), found.cost("gpt-4o", THOUSAND)) == (0, None)
    assert "price" in caplog.text
