"""How an answer of a schema is asked for."""

from typing import Any

import pytest

from layerlore.extraction.chat.chat_port import AnswerForm, WrongAnswer, choose_form, describe_schema, read_answer

CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}


class Knowing:
    """What litellm says of models: which take a schema, and which parameters their providers have."""

    def __init__(self, schema: bool, params: list[str] | None) -> None:
        self.schema, self.params = schema, params

    def supports_response_schema(self, model: str) -> bool:
        return self.schema

    def get_supported_openai_params(self, model: str) -> list[str] | None:
        return self.params


def sent(schema: Any) -> Any:
    form = choose_form(Knowing(True, None), "x/y", schema).response_format
    assert form is not None
    return form["json_schema"]


def test_words_are_added_where_the_provider_does_not_see_to_it() -> None:
    held = choose_form(Knowing(True, ["response_format"]), "x/y", CLOSED)
    assert held.response_format is not None
    assert held.words == ""
    perhaps = choose_form(Knowing(False, ["response_format"]), "x/y", CLOSED)
    assert perhaps == AnswerForm(held.response_format, describe_schema(CLOSED).words)
    assert choose_form(Knowing(False, ["stop"]), "x/y", CLOSED) == describe_schema(CLOSED)
    assert choose_form(Knowing(False, None), "x/y", CLOSED) == describe_schema(CLOSED)


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        (OPEN, False),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": CLOSED}}}, True),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": OPEN}}}, False),
        ({**CLOSED, "properties": {"a": {"anyOf": [{"type": "null"}, OPEN]}}}, False),
        ({**CLOSED, "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": OPEN}}, False),
        ({"type": "object"}, False),
    ],
)
def test_strict_is_asked_for_only_where_it_can_be(schema: Any, strict: bool) -> None:
    assert sent(schema)["strict"] is strict


def test_only_what_every_provider_knows_is_sent() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "maxItems": {"type": "array", "maxItems": 3, "items": {"type": "string", "pattern": "x", "enum": ["x"]}},
            "either": {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 1}]},
        },
        "required": ["maxItems"],
        "additionalProperties": False,
    }
    assert sent(schema)["schema"] == {
        "type": "object",
        "properties": {
            "maxItems": {"type": "array", "items": {"type": "string", "enum": ["x"]}},
            "either": {"anyOf": [{"type": "null"}, {"type": "integer"}]},
        },
        "required": ["maxItems"],
        "additionalProperties": False,
    }


def test_a_violation_is_told_to_the_model_in_full_and_to_others_by_its_place() -> None:
    free = {"type": "object", "properties": {"by": {"type": "object", "additionalProperties": {"type": "integer"}}}}
    with pytest.raises(WrongAnswer) as caught:
        read_answer('{"by": {"Ada": "is sad"}}', free)
    assert str(caught.value) == "it does not fit its schema at answer.by"
    assert "answer.by.Ada: must be an integer, not 'is sad'" in caught.value.for_model
