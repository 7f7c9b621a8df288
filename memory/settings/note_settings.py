"""The settings of everything made from messages: documents, entries, observations, titles, and for how long."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from layerlore.memory.settings.context_settings import Bytes, Characters, Messages, Name, Seconds, Section, Tokens, Unit

DocumentScope = Literal["thread", "resource"]
Format = Literal["text", "markdown", "json"]

# With another format these would have no effect, which is a mistake of the operator.
_OF_FORMAT = {"template": "markdown", "json_schema": "json"}


def _read_schema(value: Any) -> Any:
    """A JSON Schema from a table of TOML, from JSON, or from the path of a .json file. Raises ValueError."""
    if not isinstance(value, str):
        return value
    text, where = value.strip(), "it"
    # An empty variable means that no schema is set.
    if not text:
        return {}
    if not text.startswith("{"):
        if not text.lower().endswith(".json"):
            raise ValueError("a table, JSON that begins with {, or the path of a .json file is needed")
        where = f"the file {text}"
        try:
            # Editors on Windows begin a file with a byte order mark, which JSON does not allow.
            text = Path(text).expanduser().read_text(encoding="utf-8-sig")
        except OSError as error:
            raise ValueError(f"{where} cannot be read: {error.strerror}") from None
        # A ValueError means a file that is not UTF-8 or a path with NUL, a RuntimeError that "~" has no home.
        except (ValueError, RuntimeError) as error:
            raise ValueError(f"{where} cannot be read: {error}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not valid JSON: {error}") from None


class DocumentRules(Section):
    """The limits of one document of working memory."""

    format: Format = Field(
        default="text",
        description="text: free text. markdown: text that follows a template. json: an object, which may have a schema.",
    )
    template: str = Field(
        default="", description="The form of a Markdown document, which an agent fills in; markdown needs one."
    )
    json_schema: Annotated[dict[str, Any], BeforeValidator(_read_schema)] = Field(
        default={},
        description="The JSON Schema of a JSON document: a table, JSON in a string, or the path of a .json file. Empty: "
        "any object will do.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> "DocumentRules":
        given = {"template": bool(self.template), "json_schema": bool(self.json_schema)}
        for name, belongs in _OF_FORMAT.items():
            if given[name] and self.format != belongs:
                raise ValueError(f"{name} belongs to format = {belongs!r}, and the format is {self.format!r}")
        if self.format == "markdown" and not self.template.strip():
            raise ValueError("format = 'markdown' needs a template, which must not be empty; 'text' needs none")
        return self


class WorkingMemoryRules(Section):
    """Working memory: the documents that an agent keeps current, one of each conversation (thread) and one about the
    person it serves (resource)."""

    max_bytes: Bytes = Field(
        default=16 * 1024, ge=1, le=1024 * 1024, description="The largest document; JSON counts as written compactly."
    )
    read_only: bool = Field(
        default=False, description="true: agents read the documents, and no tool that changes one is listed."
    )
    idle_minutes: Annotated[int, Unit("minutes")] = Field(
        default=5,
        ge=1,
        le=10_080,
        description="When a conversation rests for so long, the notes that wait are written into its session memory, however "
        "few they are.",
    )
    thread: DocumentRules = DocumentRules()
    resource: DocumentRules = DocumentRules()

    @property
    def idle_ms(self) -> int:
        """Milliseconds without a new note after which a conversation rests."""
        return self.idle_minutes * 60_000

    def of(self, scope: DocumentScope) -> DocumentRules:
        """The rules of the thread's or of the resource's document."""
        if scope == "thread":
            return self.thread
        return self.resource


class EntryRules(Section):
    """Entries: notes that stay for later conversations, each with the words that prove it."""

    enabled: bool = Field(
        default=True,
        description="false: none are made, by remember or in the background, and those that are kept are neither recalled nor "
        "shown in a context; they stay, and `forget` ends them. Who turns it on again has them back, and what was said "
        "meanwhile is looked at, too.",
    )
    max_entry_length: Characters = Field(default=2000, ge=40, le=20_000, description="Length of one entry at most.")
    max_entries_per_turn: int = Field(default=5, ge=1, le=50, description="Entries of one turn at most.")
    dedupe_similarity: float = Field(
        default=0.86,
        ge=0,
        le=1,
        description="Cosine from which on an answer names another entry as similar. Two entries are one only if their words say "
        "the same; 0: only if their texts are equal.",
    )
    auto_inject: bool = Field(
        default=True, description="Whether a context has the entries that fit its newest message."
    )
    auto_inject_top_k: int = Field(default=12, ge=1, le=50, description="Entries in a context at most.")
    preferences_top_k: int = Field(
        default=8,
        ge=0,
        le=50,
        description="So many of the user's own preferences (`kind` preference), the newest, are in every context, whatever it is "
        "about. 0: they are there as other entries are.",
    )

    @property
    def injected(self) -> bool:
        """Whether a context has entries."""
        return self.enabled and self.auto_inject


# As much as an observer gets at once when more than a step has come together (Mastra's maxTokensPerBatch).
_BATCH = 10_000


class ObservationRules(Section):
    """When a conversation is noted in the background, by a model or in extracts."""

    message_tokens: Tokens = Field(
        default=30_000,
        ge=200,
        le=2_000_000,
        description="When so much is not yet covered by notes, notes take the place of all but the newest messages.",
    )
    buffer_share: float = Field(
        default=0.2, ge=0.01, le=1, description="Share of message_tokens that is noted ahead at a time."
    )
    keep_share: float = Field(
        default=0.2, ge=0, lt=1, description="Share of message_tokens that stays raw: the newest messages."
    )
    stand_in: float = Field(
        default=1.2,
        ge=1,
        le=10,
        description="At so many times message_tokens, extracts stand in for notes that no model has made. At so many "
        "times reflect_tokens, the least important notes are dropped, and never critical ones.",
    )
    reflect_tokens: Tokens = Field(
        default=40_000, ge=200, le=2_000_000, description="When the notes are so long, they are made fewer."
    )

    @model_validator(mode="after")
    def _leaves_something(self) -> "ObservationRules":
        if self.buffer_share + self.keep_share > 1:
            raise ValueError("buffer_share and keep_share are at most 1 together: what is kept raw is not yet replaced")
        return self

    @property
    def step(self) -> int:
        """Tokens that are noted ahead at a time."""
        return max(1, int(self.message_tokens * self.buffer_share))

    @property
    def keep(self) -> int:
        """Tokens of the newest messages that stay raw."""
        return int(self.message_tokens * self.keep_share)

    @property
    def batch(self) -> int:
        """The most tokens that one call of a model gets."""
        # A call takes one step at least, or the notes would never catch up.
        return max(self.step, min(_BATCH, self.message_tokens))

    @property
    def stand_in_tokens(self) -> int:
        """Tokens of messages from which on extracts stand in for notes."""
        return int(self.message_tokens * self.stand_in)

    @property
    def reflect_stand_in_tokens(self) -> int:
        """Tokens of notes from which on the least important are dropped."""
        return int(self.reflect_tokens * self.stand_in)


class TitleRules(Section):
    """Titles of conversations, made once from what the user first asks. `update_thread` sets another at any time."""

    enabled: bool = Field(
        default=True,
        description="false: no title is made, by a model or without one; `llm.models.title` = none says the same.",
    )
    instructions: str = Field(
        default="",
        max_length=2000,
        description="What a title is to be like, for the model that makes it. Empty: a noun phrase of 2 to 6 words in the "
        "user's language.",
    )
    max_length: Characters = Field(default=60, ge=20, le=255, description="A longer title is cut at a word.")


class LlmModels(Section):
    """Other models for single kinds of background work. Empty: the model for all. none: no model for this kind."""

    observe: Name = Field(default="", description="Observations of a conversation.")
    reflect: Name = Field(default="", description="Fewer observations from many.")
    entries: Name = Field(default="", description="Entries with their evidence.")
    profile: Name = Field(default="", description="The user profile.")
    session_memory: Name = Field(default="", description="The session memory.")
    title: Name = Field(default="", description="Titles of conversations. none: no titles, also not without a model.")
    summary: Name = Field(default="", description="Summaries of trimmed messages.")


class LlmSettings(Section):
    """Background work: observations, entries, the user profile, titles and summaries."""

    model: Name = Field(
        default="",
        description="Whose model does the background work. Empty or none: no model, and nothing is sent anywhere; the "
        "host's own model may do it, and observations and titles are cut from what was said. auto: a small model of the "
        "first provider whose key is in the environment (Gemini, OpenAI, Anthropic, Mistral, Groq, OpenRouter); "
        "`layerlore doctor` says which one. Anything else is a chat model by its litellm name, as "
        "`gemini/gemini-2.5-flash` or `ollama_chat/NAME`. With a model, conversations are SENT to its provider. The "
        "variable `LAYERLORE_LLM_MODEL` is this setting, too.",
    )
    api_base: Name = Field(
        default="",
        description="URL of the model. Empty: its provider's. A server of your own: `openai/NAME` with its `api_base`.",
    )
    api_key: SecretStr = Field(
        default=SecretStr(""),
        description="Key of the model, better given as `LAYERLORE_LLM__API_KEY`. Empty: the provider's usual variable, as "
        "`GEMINI_API_KEY`.",
    )
    timeout_seconds: Seconds = Field(
        default=60.0, gt=0, le=600, description="Time for one request; an answer takes three of them at most."
    )
    concurrency: int = Field(
        default=2, ge=1, le=64, description="Jobs that a model is asked for at a time, in this process."
    )
    daily_tokens: Tokens = Field(
        default=0,
        ge=0,
        description="What one day (UTC) may take, of all servers on this database; then the work waits. 0: no bound.",
    )
    daily_usd: Annotated[float, Unit("US dollars")] = Field(
        default=0.0,
        ge=0,
        description="What one day (UTC) may cost; then the work waits. What has no known price costs nothing here. 0: no "
        "bound.",
    )
    max_answer_tokens: Tokens = Field(
        default=16_384,
        ge=256,
        le=1_000_000,
        description="Length of one answer at most, or as many as the model can, if that is fewer.",
    )
    models: LlmModels = LlmModels()

    @model_validator(mode="after")
    def _fits_together(self) -> "LlmSettings":
        # "auto" follows the keys in the environment, so an address or a key would belong to another provider.
        if "auto" in (self.model, *self.by_kind.values()) and (self.api_base or self.api_key.get_secret_value()):
            raise ValueError("auto chooses the provider: api_base and api_key belong to a model that is named")
        return self

    @property
    def by_kind(self) -> dict[str, str]:
        """The models of single kinds; empty where none is named."""
        return self.models.model_dump()


class RetentionRules(Section):
    """The time for which a delete can be undone, and whether old messages are erased by themselves, which they are
    not by default."""

    deleted_days: Annotated[int, Unit("days")] = Field(
        default=30,
        ge=0,
        le=3650,
        description="Time in which `layerlore undo` can undo a delete; then what was deleted is erased for good. 0 "
        "erases at once.",
    )
    thread_messages: Messages = Field(
        default=0,
        ge=0,
        description="Of each conversation the newest so many messages are kept, and older ones are deleted once an hour. "
        "0: all are kept.",
    )
    resource_messages: Messages = Field(
        default=0,
        ge=0,
        description="The same for all conversations of an agent with a resource together. 0: all are kept.",
    )
    message_days: Annotated[int, Unit("days")] = Field(
        default=0,
        ge=0,
        le=36500,
        description="Messages that were said longer ago are deleted. 0: none are.",
    )
    distilled: Literal["delete", "keep"] = Field(
        default="delete",
        description="What becomes of what was made from messages that go by one of these three rules. `delete`: it goes "
        "with them, as with every delete, and both can be restored for `deleted_days`. `keep`: it stays, entries with "
        "the messages that they rest on; the others are erased at once, and cannot be restored.",
    )

    @property
    def deletes(self) -> bool:
        """Whether any messages go by themselves."""
        return bool(self.thread_messages or self.resource_messages or self.message_days)
