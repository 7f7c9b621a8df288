"""A real model behind an OpenAI-compatible server, where one is named: LAYERLORE_TEST_LLM_BASE_URL (as
``http://localhost:11434/v1``), and LAYERLORE_TEST_LLM_MODEL for its name there."""

import json
import os

import pytest

from layerlore.extraction.chat.automatic import Models
from layerlore.extraction.chat.litellm_chat import LitellmChat
from layerlore.extraction.kind import Material

BASE_URL = os.environ.get("LAYERLORE_TEST_LLM_BASE_URL", "")
NAME = os.environ.get("LAYERLORE_TEST_LLM_MODEL", "qwen2.5:0.5b")


@pytest.mark.anyio
@pytest.mark.skipif(not BASE_URL, reason="LAYERLORE_TEST_LLM_BASE_URL names no server")
async def test_a_small_model_answers_in_the_form_that_is_asked_for() -> None:
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string", "minLength": 1, "maxLength": 80}},
        "required": ["title"],
        "additionalProperties": False,
    }
    said = json.dumps([{"seq": 1, "role": "user", "text": "Which trains go from Vienna to Graz on Sunday morning?"}])
    material = Material("Give this conversation a title of a few words.", said, schema, "title/1", None)
    answer = await LitellmChat(Models({"title": f"openai/{NAME}"}), api_base=BASE_URL).answer("title", material)
    assert answer.json["title"]
    assert answer.usage.input_tokens > 0
