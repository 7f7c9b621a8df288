"""The interface of a chat, and the models that jobs ask.

A chat answers a job's material with one JSON object, or fails and says what to do next. Conversations are sent to a
provider only if a setting says so. ``auto`` is such a setting: it takes a small model of the first provider in the table
whose key is in the environment. Keys that a host happens to pass on do nothing by themselves.
"""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict

from layerlore.extraction.kinds.kind import MODEL_KINDS, JsonSchema, ModelAnswer
from layerlore.memory.rules.json_schema import check_against
from layerlore.memory.rules.validation import check_json
from layerlore.prompts import render
from layerlore.storage.audit.usage_rows import UsageSums
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput, LayerloreError
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Json

if TYPE_CHECKING:
    from layerlore.extraction.kinds.kind import Material

NOTHING = UsageSums()


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """``json`` fits the material's schema; ``usage`` includes the requests that failed before it."""

    json: Json
    model: str
    usage: UsageSums


class ChatFailed(LayerloreError):
    """No answer came. The text says why; it can be stored and shown, since it repeats no texts and no keys.

    ``retryable``: a later attempt may succeed, not before ``retry_after_ms`` if that is set.
    ``spent``: what the failed requests cost.
    ``of_setup``: no job can succeed until a key, a name or an account is corrected.
    """

    def __init__(
        self,
        text: str,
        *,
        retryable: bool,
        retry_after_ms: int | None = None,
        spent: UsageSums = NOTHING,
        of_setup: bool = False,
    ) -> None:
        super().__init__(text)
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms
        self.spent = spent
        self.of_setup = of_setup


class Chat(Protocol):
    """A chat is used by one event loop. It answers any number of jobs at a time; the caller limits them."""

    def model(self, kind: str) -> str:
        """The model for a kind of job; empty: none."""

    async def answer(self, kind: str, material: "Material") -> ChatAnswer:
        """Ask for one answer. Raises ChatFailed, and InvalidInput for an invalid schema."""


AUTO = "auto"
NONE = "none"

TABLE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("gemini/gemini-2.5-flash", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    ("openai/gpt-5.4-mini", ("OPENAI_API_KEY",)),
    ("anthropic/claude-haiku-5-5", ("ANTHROPIC_API_KEY",)),
    ("mistral/mistral-small-latest", ("MISTRAL_API_KEY",)),
    ("groq/openai/gpt-oss-120b", ("GROQ_API_KEY",)),
    ("openrouter/google/gemini-2.5-flash", ("OPENROUTER_API_KEY",)),
)
"""Models by litellm's names, and the variables that hold their provider's key, in order of preference."""

VARIABLES = tuple(variable for _, variables in TABLE for variable in variables)


@dataclass(frozen=True, slots=True)
class AutomaticModel:
    """The model that ``auto`` takes, and the variable that decided."""

    model: str
    variable: str


@dataclass(frozen=True, slots=True)
class Models:
    """The model of each kind of job, empty if it has none. ``auto``: the model that ``auto`` takes, or would take."""

    by_kind: Mapping[str, str] = field(default_factory=dict)
    auto: AutomaticModel | None = None
    asked_for_auto: bool = False

    @property
    def distinct(self) -> list[str]:
        """Every model in use, in the order of the kinds."""
        return list(dict.fromkeys(model for model in self.by_kind.values() if model))


def pick_automatic(environ: Mapping[str, str]) -> AutomaticModel | None:
    """The model that ``auto`` takes with these variables; None without a known key."""
    found = (AutomaticModel(model, name) for model, names in TABLE for name in names if environ.get(name, "").strip())
    return next(found, None)


def choose_models(model: str, by_kind: Mapping[str, str], environ: Mapping[str, str]) -> Models:
    """The model of each kind. Names are litellm's, ``auto`` or ``none``. An empty ``model`` means ``none``; an empty name
    of a kind means ``model``."""
    auto = pick_automatic(environ)
    named = {kind: by_kind.get(kind) or model for kind in MODEL_KINDS}
    meant = {AUTO: auto.model if auto else "", NONE: ""}
    return Models({kind: meant.get(name, name) for kind, name in named.items()}, auto, AUTO in named.values())


def describe_models(chosen: Models) -> str:
    """The models in use, in one line for people."""
    parts = [_describe(model, chosen) for model in chosen.distinct]
    if parts:
        return f"{'; '.join(parts)}: conversations are sent to {'it' if len(parts) == 1 else 'them'}"
    if chosen.asked_for_auto:
        return f"auto, which finds no key: none of {', '.join(VARIABLES)} is set, so no model is asked"
    if chosen.auto is None:
        return "none: nothing is sent anywhere (auto would find no key)"
    return f"none: nothing is sent anywhere (auto would take {chosen.auto.model}, by {chosen.auto.variable})"


def _describe(model: str, chosen: Models) -> str:
    """A model, whether ``auto`` chose it, and its kinds if it has not all of them."""
    name = model
    if chosen.asked_for_auto and chosen.auto is not None and chosen.auto.model == model:
        name = f"{model} (auto, by {chosen.auto.variable})"
    kinds = [kind for kind in MODEL_KINDS if chosen.by_kind.get(kind) == model]
    if len(kinds) == len(MODEL_KINDS):
        return name
    return f"{name} ({', '.join(kinds)})"


DEPTH = 64
# Each try scans the rest of the text, which a model may fill with brackets.
_MOST_TRIES = 50

# Models without a field for reasoning write it in front of the answer.
_THOUGHTS = linear_re.compile(
    "|".join(rf"\A\s*<{name}>.*?</{name}>" for name in ("think", "thinking", "thought", "reasoning")), linear_re.DOTALL
)
_FENCE = linear_re.compile(r"```[a-zA-Z0-9]*[ \t]*\n(.*?)```", linear_re.DOTALL)
_STRING = r'"[^"\\]*(?:\\.?[^"\\]*)*(?P<shut>")?'
_TOKEN = linear_re.compile(_STRING + r"|[{}\[\]]", linear_re.DOTALL)
_NEEDLESS_COMMA = linear_re.compile(_STRING + r"|,(?=\s*[}\]])", linear_re.DOTALL)
_CLOSING = {"{": "}", "[": "]"}
# Ends of values that are complete; a number may lack digits.
_ENDED = ('"', "null", "true", "false")
# Not strict: small models do not escape line breaks in strings.
_decoder = json.JSONDecoder(strict=False)


class Unreadable(Exception):
    """A text holds no usable JSON object. The error says why, without quoting the text."""


def read_object(text: str) -> ModelAnswer:
    """The object in a text. Raises Unreadable."""
    bare = _THOUGHTS.sub("", text.lstrip("\ufeff")).strip()
    found = next((value for value in _readings(bare) if isinstance(value, dict)), None)
    if found is None:
        raise Unreadable(_why_none(bare))
    try:
        check_json(found, "the answer", depth=DEPTH)
    except InvalidInput:
        raise Unreadable(
            f"it holds NUL, half of a surrogate pair, a number that is not finite, or more than {DEPTH} levels of nesting"
        ) from None
    return found


def _readings(text: str) -> Iterator[Any]:
    """The possible readings of a text, the simplest first."""
    yield _decoded(text)
    for fenced in _FENCE.findall(text):
        yield _decoded(fenced)
    yield _longest_within(text)
    yield _decoded(_closed(text[max(0, text.find("{")) :]))


def _decoded(text: str) -> Any:
    """The value of a whole text; None if it is not JSON."""
    # Small models leave commas before closing brackets.
    for each in (text, _NEEDLESS_COMMA.sub(lambda found: "" if found[0] == "," else found[0], text)):
        try:
            return _decoder.decode(each)
        except (ValueError, RecursionError):
            continue
    return None


def _longest_within(text: str) -> Any:
    """The longest of the objects in a text."""
    best: Any = None
    length = 0
    start = text.find("{")
    for _ in range(_MOST_TRIES):
        if start >= 0:
            end = _end(text, start)
        else:
            end = -1
        if end < 0:
            break
        # The answer is longer than the examples around it, so shorter objects are not decoded.
        if end - start > length:
            value = _decoded(text[start:end])
        else:
            value = None
        if value is not None:
            best, length = value, end - start
        start = text.find("{", end)
    return best


def _end(text: str, start: int) -> int:
    """The index after the bracket that closes the one at ``start``; -1 if none does."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    return -1


def _closed(text: str) -> str:
    """Add the closing brackets that a text lacks at its end; return it unchanged if more than brackets may be missing."""
    awaited: list[str] = []
    for token in _TOKEN.finditer(text):
        if token[0] in _CLOSING:
            awaited.append(_CLOSING[token[0]])
        elif token[0] in ("}", "]"):
            if not awaited or awaited.pop() != token[0]:
                return text
        elif token["shut"] is None:
            return text
    # An answer that was cut off may begin in a code fence.
    bare = text.rstrip().removesuffix("```").rstrip()
    whole = bare.endswith(("}", "]")) or (len(awaited) == 1 and bare.endswith(_ENDED))
    if whole:
        return bare + "".join(reversed(awaited))
    return text


def _why_none(text: str) -> str:
    start = text.find("{")
    if start < 0:
        return "it is not a JSON object"
    if _end(text, start) >= 0:
        return "its JSON is invalid"
    return "its JSON ends before it is complete"


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
    # litellm knows the provider, but not whether this model enforces a schema.
    known = litellm.get_supported_openai_params(model=model) or ()
    if "response_format" in known:
        return AnswerForm(_response_format(schema), words.words)
    return words


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
