"""The interface of a chat, and the models that jobs ask.

A chat answers a job's material with one JSON object, or fails and says what to do next. Conversations are sent to a
provider only if a setting says so. ``auto`` is such a setting: it takes a small model of the first provider in the table
whose key is in the environment. Keys that a host happens to pass on do nothing by themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from layerlore.extraction.kinds.kind import MODEL_KINDS
from layerlore.storage.audit.usage_rows import Spent
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.core.records import Json

if TYPE_CHECKING:
    from layerlore.extraction.kinds.kind import Material

NOTHING = Spent()


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """``json`` fits the material's schema; ``usage`` includes the requests that failed before it."""

    json: Json
    model: str
    usage: Spent


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
        spent: Spent = NOTHING,
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
