"""The settings of contexts, windows, recall and embedding."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.fields import FieldInfo

from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a number, as the generated documents show it."""

    name: str


Bytes = Annotated[int, Unit("bytes")]
Characters = Annotated[int, Unit("characters")]
Tokens = Annotated[int, Unit("tokens")]
Messages = Annotated[int, Unit("messages")]
Seconds = Annotated[float, Unit("seconds")]


def bounds(field: FieldInfo) -> tuple[Any, Any]:
    """The least and the most that a field's number may be; None where no such bound exists."""
    least = [bound for each in field.metadata if (bound := getattr(each, "ge", None)) is not None]
    most = [bound for each in field.metadata if (bound := getattr(each, "le", None)) is not None]
    return (least or [None])[0], (most or [None])[0]


class Section(BaseModel):
    """A table of the settings file and a prefix of the variables. Unknown keys are errors, and no error repeats a value.

    A subclass is the only declaration of its settings: the code takes the object itself, and the settings files and
    documents are generated from the docstring (the text of the table) and from each field's type, default, bounds and
    description.
    """

    # No input in errors: a value may be a key, and errors end up in logs.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def one_line(value: str) -> str:
    """The value itself. Raises ValueError for control characters."""
    if any(character < " " or character == "\x7f" for character in value):
        raise ValueError("a name without control characters is needed")
    return value


def read_json(value: Any) -> Any:
    """JSON in a string, as a variable has it; anything else as it is. Raises ValueError."""
    # A variable holds text; the settings file gives the value itself.
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not valid JSON: {error}") from None


def list_of(value: Any) -> Any:
    """A list from names with commas between them, as flags and variables have them; anything else as it is."""
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return value


def distinct(value: list[str]) -> list[str]:
    """The value itself. Raises ValueError for a name that comes twice."""
    if len(set(value)) < len(value):
        raise ValueError("every name may come once")
    return value


Name = Annotated[str, Field(max_length=255), AfterValidator(one_line)]

MemoryMode = Literal["on", "read-only", "off"]

# TOML's ``memory = false``, and the spellings of other systems.
_SPELLED = {"true": "on", "false": "off", "readonly": "read-only", "read_only": "read-only"}


def _read_mode(value: Any) -> Any:
    # TOML gives a boolean, a variable a text.
    return _SPELLED.get(str(value).lower(), value)


MemoryChoice = Annotated[MemoryMode, BeforeValidator(_read_mode)]
"""A memory's mode as a setting."""


class MemoryClosed(InvalidInput):
    """The mode of the memory does not allow the call; the text names the setting."""


def describe_closed(mode: MemoryMode, agent: str) -> str:
    """Why a call is refused. ``agent`` is the name of the agent whose own setting says so; "" if it is the server's."""
    if agent:
        setting = f"agents.{agent}.memory = {mode}"
        whose = "for this agent "
    else:
        setting = f"memory = {mode}"
        whose = ""
    if mode == "off":
        return f"memory is switched off {whose}({setting}): nothing is stored and nothing is recalled"
    return f"memory is read-only {whose}({setting}): nothing is stored, changed or deleted; reads work"


class ContextRules(Section):
    """The memories of other conversations in a context, and of its own conversation beyond the window: the block
    `<memory>`."""

    memory: bool = Field(
        default=True,
        description="Whether a context has the entries, and the lines of earlier messages, that fit the query or the newest "
        "user message.",
    )
    memory_share: float = Field(
        default=0.25,
        ge=0,
        le=0.5,
        description="Share of max_tokens that is left to memories where a window would take all. They always have what the "
        "window leaves.",
    )


# Seed 001's.
SUMMARY_PROMPT = "Summarize the key points of the removed messages, preserving important context and decisions made."
MOST = 100_000
PREDEFINED = 50
PROMPT_CHARS = 4_000

_PROFILE_NAME = linear_re.compile(r"[A-Za-z0-9_-]{1,64}")


class WindowFields(Section):
    """A window's policy without its predefined messages."""

    limit: Literal["observed", "messages", "tokens"] = Field(
        default="observed",
        description="`observed`: as many of the newest as there is room for, with notes on those before them. `messages`: "
        "a number of messages. `tokens`: a budget.",
    )
    last_messages: Messages = Field(
        default=20, ge=1, le=MOST, description="`observed`: how many of the newest are in, cut if need be."
    )
    trim: Literal["continuous", "threshold"] = Field(
        default="continuous",
        description="`messages`: `continuous` keeps the newest `max_messages`. `threshold` lets the window grow until it "
        "would hold `threshold` messages, cuts it to `target`, and lets it grow again: between two cuts it starts at the same "
        "message, so that a provider's prompt cache serves.",
    )
    max_messages: Messages = Field(default=20, ge=1, le=MOST, description="`continuous`: how many messages are in.")
    threshold: Messages = Field(default=500, ge=1, le=MOST, description="`threshold`: how many the window never holds.")
    target: Messages = Field(default=100, ge=1, le=MOST, description="`threshold`: what a cut leaves.")
    max_tokens: Tokens = Field(
        default=2000,
        ge=1,
        le=MOST,
        description="`tokens`: the budget. In a context it is for all that is shown, what is recalled too.",
    )
    min_messages: Messages = Field(
        default=0,
        ge=0,
        le=MOST,
        description="`tokens`: so many of the newest are in, and whole, even beyond the budget.",
    )
    drop: Literal["oldest", "middle"] = Field(
        default="oldest", description="`oldest`: the newest messages stay. `middle`: the first `keep_first` stay, too."
    )
    # It is read whatever the window's budget is.
    keep_first: Messages = Field(
        default=2,
        ge=0,
        le=100,
        description="`middle`: how many of the first stay. With `tokens` each gets at most its share of half the room that "
        "the newest message leaves, and more only where all others fit.",
    )
    blank_tool_results: bool = Field(
        default=False,
        description="Whether results of tools become empty before anything is counted; calls, arguments and errors stay.",
    )
    spare_tool_results: int = Field(
        default=0, ge=0, le=MOST, description="So many of the newest results of tools keep their content all the same."
    )
    max_images: int = Field(
        default=1,
        ge=0,
        le=MOST,
        description="So many of the newest images stay, those in results of tools included; the others become a note "
        "with the caption and the URL. 0: none stays.",
    )
    summarise: bool = Field(default=False, description="Whether a summary takes the place of what was trimmed.")
    summary_prompt: str = Field(
        default=SUMMARY_PROMPT, max_length=PROMPT_CHARS, description="What a model is asked to put in the summary."
    )
    summary_tokens: Tokens = Field(
        default=200, ge=20, le=MOST, description="Length of a summary. With `tokens` it is a part of `max_tokens`."
    )


class WindowSettings(WindowFields):
    """The part of a conversation that a model sees: the window. Nothing is deleted by it."""

    predefined: Annotated[list[dict[str, Any]], BeforeValidator(read_json)] = Field(
        default=[],
        max_length=PREDEFINED,
        description="Messages in front of every conversation's (examples, a persona), as add_messages takes them. They "
        "count toward `max_messages`, `threshold` and `max_tokens` like the conversation's own, and are trimmed as its "
        "oldest: `drop=oldest` takes them first, with `middle` they are the first of `keep_first`. `observed` has no such "
        "limit: they go, the first ones first, only where get_context has no room. In a variable, as JSON.",
        examples=['[{role = "user", content = "How do I ...?"}, {role = "assistant", content = "You ..."}]'],
    )


def _named(value: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in value:
        if name == "default":
            raise ValueError("the profile 'default' is the section [window]; another name is needed")
        if not _PROFILE_NAME.fullmatch(name):
            raise ValueError("a profile's name is 1 to 64 letters, digits, _ and -")
    return value


WindowProfiles = Annotated[dict[str, WindowSettings], BeforeValidator(read_json), AfterValidator(_named)]
"""Named policies, each over the defaults that are built in."""


class RecallRules(Section):
    """How recall_memory finds candidates, ranks them and marks unsure answers. The defaults were measured, and the
    ranking changes little around them."""

    candidates: int = Field(
        default=30, ge=1, le=500, description="How many are ranked of each list: by words, and by vectors."
    )
    rescored: int = Field(
        default=200,
        ge=1,
        le=5000,
        description="How many of the rows with the nearest bit codes are compared in full: several times `candidates` "
        "make up for what the bits lose.",
    )
    rows_per_word: int = Field(
        default=20_000,
        ge=1,
        le=1_000_000,
        description="A word that more rows have says little: only its newest rows are searched.",
    )
    context_chars: Characters = Field(
        default=320, ge=0, description="Longest message that is given a context, and longest message in a context."
    )
    half_life_days: Annotated[float, Unit("days")] = Field(
        default=180.0, gt=0, description="Age at which an entry counts half."
    )
    recency_floor: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="What an old entry counts at least, so that an exact one stays ahead of new noise.",
    )
    floor: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Hold back every answer of less relevance (0 to 1) than this. 0 holds nothing back: an answer that "
        "may not be about the query says so, and the model decides.",
    )
    sure: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description='Relevance from which on an answer counts as surely about the query. Below it the answer says "not '
        'sure".',
    )
    lexical_sure: float = Field(
        default=0.25,
        ge=0,
        le=1,
        description="The bound `sure` where words alone decide: without an embedder, or with one that has no calibration.",
    )

    def for_limit(self, limit: int) -> "RecallRules":
        """These rules with at least as many candidates as hits are requested."""
        # With fewer candidates than hits, an answer could never be full.
        if limit <= self.candidates:
            return self
        return self.model_copy(update={"candidates": limit, "rescored": max(self.rescored, limit)})


class EmbeddingSettings(Section):
    """Vectors, by which recall finds messages in other words. Text is stored and found by its words at once; its
    vector follows in the background. A new embedder makes new vectors while the old ones still serve."""

    embedder: Name = Field(
        default="use",
        min_length=1,
        description="use: 16 languages, on this machine. english: better at English, useless elsewhere, on this machine; "
        "`scripts/setup` installs it. none: words alone. Anything else is an embedding model by its litellm name, as "
        "`openai/text-embedding-3-small`: what is stored and asked is then SENT to that provider, whose key is in its "
        "usual variable (`OPENAI_API_KEY`). A server of your own: `openai/NAME` with its `api_base`.",
    )
    dimensions: int = Field(
        default=0, ge=0, le=16_000, description="Length of a remote model's vectors. 0: the model's own."
    )
    api_base: Name = Field(default="", description="URL of a remote model. Empty: its provider's.")
    batch_size: int = Field(default=64, ge=1, le=2048, description="Texts in one request to a remote model.")
    timeout_seconds: Seconds = Field(
        default=30.0,
        gt=0,
        le=600,
        description="Time for one request to a remote model; up to three are made where another may help.",
    )
    query_patience_ms: Annotated[int, Unit("milliseconds")] = Field(
        default=300,
        ge=1,
        le=60_000,
        description="Time for a query's vector. After that recall goes by words alone, and its answer says so.",
    )

    load_patience_ms: Annotated[int, Unit("milliseconds")] = Field(
        default=3000,
        ge=0,
        le=60_000,
        description="Time that the first calls of a process wait for a local embedder to be loaded, once: what the first "
        "recall finds by words alone would else be little. A remote embedder is never waited for.",
    )

    @property
    def is_remote(self) -> bool:
        """Whether texts leave this machine for their vectors."""
        # Every other name is a model of litellm, which is reached over the network.
        return self.embedder not in ("use", "english", "none")
