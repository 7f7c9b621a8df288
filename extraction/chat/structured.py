"""Holding a model to a JSON Schema: by the provider where it can, by words, and by a check of what came."""

import itertools
from dataclasses import dataclass
from typing import Any

from layerlore.extraction.chat.repair import Unreadable, read_object
from layerlore.memory.json_schema import check_against
from layerlore.prompts import render
from layerlore.storage.errors import InvalidInput
from layerlore.storage.json_text import to_json
from layerlore.storage.records import Json

ANSWER = "answer"

# What every provider's constrained decoding knows; the rest of a schema is checked here, when the answer has come.
_KEPT = frozenset(
    {"type", "properties", "required", "items", "enum", "anyOf", "additionalProperties", "description", "$ref", "$defs"}
)
_SCHEMAS_BY_NAME = ("properties", "$defs")


class Wrong(Exception):
    """What a model wrote is no answer. ``told`` is for the model, which may read its own words; the text itself
    repeats nothing of them."""

    def __init__(self, text: str, told: str) -> None:
        super().__init__(text)
        self.told = told


@dataclass(frozen=True, slots=True)
class Form:
    """How an answer is asked for: a ``response_format`` (None: without), and words after the instructions."""

    response_format: Json | None
    words: str


def in_words(schema: Json) -> Form:
    """For a provider that takes no schema, or has refused one."""
    return Form(None, "\n\n" + render("json_answer", schema=schema).text)


def form_for(litellm: Any, model: str, schema: Json) -> Form:
    """The schema for models that litellm says can be held to one; the words alone for those that cannot; and both where
    litellm knows the provider but not the model, such as a server of one's own."""
    if litellm.supports_response_schema(model=model):
        return Form(_response_format(schema), "")
    words = in_words(schema)
    known = litellm.get_supported_openai_params(model=model) or ()
    return Form(_response_format(schema), words.words) if "response_format" in known else words


def _response_format(schema: Json) -> Json:
    portable = _portable(schema)
    return {
        "type": "json_schema",
        "json_schema": {"name": ANSWER, "schema": portable, "strict": _may_be_strict(portable)},
    }


def _portable(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    kept: Json = {}
    for key, value in schema.items():
        if key in _SCHEMAS_BY_NAME:
            kept[key] = {name: _portable(inner) for name, inner in value.items()}
        elif key == "anyOf":
            kept[key] = [_portable(inner) for inner in value]
        elif key in _KEPT:
            kept[key] = _portable(value) if key in ("items", "additionalProperties") else value
    return kept


def _may_be_strict(schema: Any) -> bool:
    """Whether OpenAI's strict mode takes it: every object is closed, and requires all that it has."""
    if isinstance(schema, list):
        return all(_may_be_strict(inner) for inner in schema)
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    of_object = schema.get("type") == "object" or properties is not None
    if of_object and (
        schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties or ())
    ):
        return False
    inner = [value for name in _SCHEMAS_BY_NAME for value in schema.get(name, {}).values()]
    return _may_be_strict([*inner, schema.get("items"), *schema.get("anyOf", ())])


def read_answer(text: str, schema: Json) -> Json:
    """The answer in a model's text. Raises Wrong."""
    try:
        answer = read_object(text)
    except Unreadable as error:
        raise Wrong(str(error), str(error)) from None
    try:
        check_against(answer, schema, ANSWER)
    except InvalidInput as error:
        raise Wrong(f"it does not fit its schema at {_place(str(error), schema)}", str(error)) from None
    return answer


def _place(violation: str, schema: Json) -> str:
    """Where a violation is, as far as the names are the schema's own and not of the model's choice."""
    known = to_json(schema)
    names = violation.partition(":")[0].split(".")
    return ".".join(
        itertools.takewhile(
            lambda name: name.partition("[")[0] == ANSWER or f'"{name.partition("[")[0]}"' in known, names
        )
    )
