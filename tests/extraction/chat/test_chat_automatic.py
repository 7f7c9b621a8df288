"""Which model is asked, and that none is unless a setting says so."""

import json
from collections.abc import Mapping

import anyio.to_thread
import pytest
from pydantic import SecretStr

from layerlore.extraction.chat.chat_port import (
    TABLE,
    VARIABLES,
    AutomaticModel,
    choose_models,
    describe_models,
    pick_automatic,
)
from layerlore.extraction.chat.litellm_chat import open_chat
from layerlore.extraction.kinds.kind import MODEL_KINDS
from layerlore.memory.embedding.remote import load_litellm
from layerlore.memory.settings.note_settings import LlmModels, LlmSettings
from layerlore.memory.usage.model_usage import find_shipped_prices
from layerlore.server.settings.settings import SettingsError, load_settings

ALL = dict.fromkeys(VARIABLES, "key")
GEMINI = "gemini/gemini-2.5-flash"


def test_the_first_provider_whose_key_is_there_is_taken() -> None:
    left = dict(ALL)
    for model, variables in TABLE:
        for variable in variables:
            assert pick_automatic(left) == AutomaticModel(model, variable)
            left[variable] = " "
    assert pick_automatic(left) is None


@pytest.mark.anyio
async def test_every_model_of_the_table_is_one_that_litellm_knows_and_that_can_be_held_to_a_schema() -> None:
    path = find_shipped_prices()
    assert path is not None
    listed = json.loads(path.read_bytes())
    litellm = await anyio.to_thread.run_sync(load_litellm)
    for model, _ in TABLE:
        assert litellm.supports_response_schema(model=model), model
        bare = model.partition("/")[2]
        entry = listed.get(model) or listed.get(bare) or listed[bare.replace("google/", "gemini/")]
        assert (entry["mode"], entry.get("deprecation_date")) == ("chat", None), model


@pytest.mark.parametrize("name", ["", "none"])
def test_keys_alone_ask_nobody(name: str) -> None:
    chosen = choose_models(name, {}, ALL)
    assert chosen.distinct == []
    assert open_chat(LlmSettings(model=name), ALL) is None
    assert describe_models(chosen) == f"none: nothing is sent anywhere (auto would take {GEMINI}, by GEMINI_API_KEY)"


def test_a_kind_may_have_a_model_of_its_own_or_none() -> None:
    settings = LlmSettings(model="auto", models=LlmModels(title="none", observe="openai/big", reflect="auto"))
    request = open_chat(settings, {"GOOGLE_API_KEY": "key"})
    assert request is not None
    found = {kind: request.model(kind) for kind in MODEL_KINDS}
    assert found == dict.fromkeys(MODEL_KINDS, GEMINI) | {"title": "", "observe": "openai/big"}
    only_titles = open_chat(LlmSettings(models=LlmModels(title="openai/small")), {})
    assert only_titles is not None
    assert [kind for kind in MODEL_KINDS if only_titles.model(kind)] == ["title"]


@pytest.mark.parametrize(
    ("settings", "environ", "line"),
    [
        (LlmSettings(), {}, "none: nothing is sent anywhere (auto would find no key)"),
        (LlmSettings(model="openai/x"), ALL, "openai/x: conversations are sent to it"),
        (
            LlmSettings(model="auto"),
            {"GROQ_API_KEY": "key"},
            "groq/openai/gpt-oss-120b (auto, by GROQ_API_KEY): conversations are sent to it",
        ),
        (
            LlmSettings(model="auto"),
            {},
            f"auto, which finds no key: none of {', '.join(VARIABLES)} is set, so no model is asked",
        ),
        (
            LlmSettings(models=LlmModels(title="openai/x", observe="openai/y")),
            {},
            "openai/y (observe); openai/x (title): conversations are sent to them",
        ),
    ],
)
def test_who_thinks_is_told_in_a_line(settings: LlmSettings, environ: Mapping[str, str], line: str) -> None:
    assert describe_models(choose_models(settings.model, settings.by_kind, environ)) == line


def test_the_variable_that_most_people_set_may_be_spelled_in_two_ways() -> None:
    assert load_settings(environ={"LAYERLORE_LLM_MODEL": "auto"}).llm.model == "auto"
    assert load_settings(environ={"LAYERLORE_LLM__MODEL": "auto"}).llm.model == "auto"
    both = {"LAYERLORE_LLM__MODEL": "full/one", "LAYERLORE_LLM_MODEL": "short/one"}
    assert load_settings(environ=both).llm.model == "full/one"
    of_kind = load_settings(environ={"LAYERLORE_LLM__MODELS__TITLE": "openai/x"}).llm
    assert of_kind.by_kind == dict.fromkeys(MODEL_KINDS, "") | {"title": "openai/x"}


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"LAYERLORE_LLM__MODELS__TITLES": "x"}, "did you mean LAYERLORE_LLM__MODELS__TITLE?"),
        ({"LAYERLORE_LLM_MODELL": "x"}, "did you mean LAYERLORE_LLM__MODEL"),
        ({"LAYERLORE_LLM__MODEL": "auto", "LAYERLORE_LLM__API_BASE": "http://x"}, "auto chooses the provider"),
        ({"LAYERLORE_LLM__MODELS__TITLE": "auto", "LAYERLORE_LLM__API_KEY": "sk-x"}, "auto chooses the provider"),
        ({"LAYERLORE_LLM__CONCURRENCY": "0"}, "greater than or equal to 1"),
        ({"LAYERLORE_LLM__DAILY_USD": "-1"}, "greater than or equal to 0"),
    ],
)
def test_a_wrong_setting_is_named(environ: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ=environ)
    assert message in str(caught.value)
    assert "sk-x" not in str(caught.value)


def test_the_key_is_printed_nowhere() -> None:
    settings = LlmSettings(model="openai/x", api_key=SecretStr("sk-secret"))
    assert "sk-secret" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
