"""The form of an answer: its JSON Schema as the provider enforces it, as words in the prompt, and as a check afterwards."""

import itertools
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from layerlore.extraction.chat.repair import Unreadable, read_object
from layerlore.extraction.kinds.kind import JsonSchema, ModelAnswer
from layerlore.memory.rules.json_schema import check_against
from layerlore.prompts import render
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.json_text import to_json

ANSWER = "answer"

# The keywords that every provider enforces; the rest of a schema is checked here, when the answer has come.
_KEPT = frozenset(
    {"type", "properties", "required", "items", "enum", "anyOf", "additionalProperties", "description", "$ref", "$defs"}
)
_SCHEMAS_BY_NAME = ("properties", "$defs")


class WrongAnswer(Exception):
    """A model's text is not a valid answer. ``for_model`` explains it to the model and may quote its words; the text of
    the error quotes nothing."""

    def __init__(self, text: str, for_model: str) -> None:
        super().__init__(text)
        self.for_model = for_model


class NamedSchema(TypedDict):
    name: str
    schema: JsonSchema
    strict: bool


class ResponseFormat(TypedDict):
    """The schema of an answer, as OpenAI's API takes it."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """How a request states its schema: a ``response_format`` (None: without), and words after the instructions."""

    response_format: ResponseFormat | None
    words: str


def describe_schema(schema: JsonSchema) -> AnswerForm:
    """The schema in words, for a provider that takes no schema or has refused one."""
    return AnswerForm(None, "\n\n" + render("json_answer", schema=schema).text)


def choose_form(litellm: Any, model: str, schema: JsonSchema) -> AnswerForm:
    """The schema alone for models that can enforce it, according to litellm; words alone for those that cannot; both if
    litellm knows the provider but not the model, such as on a private server."""
    if litellm.supports_response_schema(model=model):
        return AnswerForm(_response_format(schema), "")
    words = describe_schema(schema)
    known = litellm.get_supported_openai_params(model=model) or ()
    return AnswerForm(_response_format(schema), words.words) if "response_format" in known else words


def _response_format(schema: JsonSchema) -> ResponseFormat:
    portable = _portable(schema)
    return {
        "type": "json_schema",
        "json_schema": {"name": ANSWER, "schema": portable, "strict": _may_be_strict(portable)},
    }


def _portable(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    kept: JsonSchema = {}
    for key, value in schema.items():
        if key in _SCHEMAS_BY_NAME:
            kept[key] = {name: _portable(inner) for name, inner in value.items()}
        elif key == "anyOf":
            kept[key] = [_portable(inner) for inner in value]
        elif key in _KEPT:
            kept[key] = _portable(value) if key in ("items", "additionalProperties") else value
    return kept


def _may_be_strict(schema: Any) -> bool:
    """Whether OpenAI's strict mode takes a schema: every object is closed, and all its properties are required."""
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


def read_answer(text: str, schema: JsonSchema) -> ModelAnswer:
    """The answer in a model's text. Raises WrongAnswer."""
    try:
        answer = read_object(text)
    except Unreadable as error:
        raise WrongAnswer(str(error), str(error)) from None
    check_answer(answer, schema)
    return answer


def check_answer(answer: ModelAnswer, schema: JsonSchema) -> None:
    """Raises WrongAnswer unless an answer fits its schema."""
    try:
        check_against(answer, schema, ANSWER)
    except InvalidInput as error:
        raise WrongAnswer(f"it does not fit its schema at {_place(str(error), schema)}", str(error)) from None


def _place(violation: str, schema: JsonSchema) -> str:
    """Where a violation is, in names of the schema only: other names are the model's."""
    known = to_json(schema)
    names = violation.partition(":")[0].split(".")
    return ".".join(
        itertools.takewhile(
            lambda name: name.partition("[")[0] == ANSWER or f'"{name.partition("[")[0]}"' in known, names
        )
    )
