"""Settings: defaults < a TOML file < the environment (``LAYERLORE_*``, nested with ``__``) < flags.

Only the composition root reads them. Unknown keys are errors that name the nearest known one; no error repeats a
value that may be a secret.
"""

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import platformdirs
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource

from layerlore.server.bridge_settings import BridgeSettings
from layerlore.server.database_url import check as check_url
from layerlore.server.document_settings import check_format, read_schema
from layerlore.server.entry_settings import EntrySettings
from layerlore.server.http_settings import HttpSettings
from layerlore.server.jwt_settings import JwtSettings
from layerlore.server.llm_settings import LlmSettings, spelled_out
from layerlore.server.observation_settings import ObservationSettings
from layerlore.server.rate_settings import WAITING_AT_ONCE, RateSettings
from layerlore.server.recall_settings import RecallSettings
from layerlore.server.settings_section import Name, distinct, list_of, one_line
from layerlore.server.settings_section import Section as _Section
from layerlore.server.window_settings import Profiles, WindowSettings
from layerlore.storage.errors import LayerloreError

PREFIX = "LAYERLORE_"
CONFIG_VARIABLE = "LAYERLORE_CONFIG"
_TESTS = "TEST_"  # LAYERLORE_TEST_POSTGRES and the like

Toolset = Literal["core", "threads", "runs", "curation", "admin"]
TOOLSETS: tuple[Toolset, ...] = get_args(Toolset)
DEFAULT_TOOLSETS: tuple[Toolset, ...] = ("core", "threads", "curation")


class SettingsError(LayerloreError):
    """Settings are unknown or wrong; the text, one line, says which, where they came from, and what is allowed."""


def _toolset_names(value: Any) -> Any:
    names = list_of(value)
    return list(TOOLSETS) if isinstance(names, list) and "all" in names else names


def _on_or_off(value: Any) -> Any:
    """TOML's ``memory = false``, and what a variable may say for it."""
    return {"true": "on", "false": "off"}.get(str(value).lower(), value)


def _known_form(value: SecretStr) -> SecretStr:
    check_url(value.get_secret_value())
    return value


def _of_postgres(value: SecretStr) -> SecretStr:
    if value.get_secret_value().startswith("sqlite:"):
        raise ValueError("must be a postgresql:// URL")
    return value


def _absolute(value: Path) -> Path:
    try:
        return value.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(f"its ~ names no known home folder ({error})") from None


class SqliteSettings(_Section):
    """FULL survives a power cut; NORMAL is faster and may then lose the last commits, never the file."""

    synchronous: Literal["FULL", "NORMAL"] = Field(default="FULL", description="FULL survives a power cut.")
    readers: int = Field(default=3, ge=1, le=16, description="Reading connections, each with its thread.")


class PostgresSettings(_Section):
    owner_url: Annotated[SecretStr, AfterValidator(_known_form), AfterValidator(_of_postgres)] = Field(
        default=SecretStr(""), description="URL of the role that owns the tables: `migrate` and `journal` use it."
    )
    listen_url: Annotated[SecretStr, AfterValidator(_known_form), AfterValidator(_of_postgres)] = Field(
        default=SecretStr(""), description="URL past a pooler, for the one connection that listens."
    )
    pool_size: int = Field(default=10, ge=1, le=200, description="Connections at most.")


class RetentionSettings(_Section):
    deleted_days: int = Field(
        default=30, ge=0, le=3650, description="Days in which a delete can be undone; 0 erases at once."
    )


class PlanSettings(_Section):
    """The plan tool. The phases are n8n's; the first is where a new plan begins."""

    phases: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=64), AfterValidator(one_line)]],
        BeforeValidator(list_of),
        AfterValidator(distinct),
    ] = Field(
        default=["build", "execute", "inspect", "evaluate", "debug"],
        min_length=1,
        description="Phases of a plan; a new one begins in the first.",
    )


class DocumentSettings(_Section):
    """A document of working memory."""

    format: Literal["text", "markdown", "json"] = Field(default="text", description="text, markdown or json.")
    template: str = Field(default="", description="The form of a Markdown document.")
    json_schema: Annotated[dict[str, Any], BeforeValidator(read_schema)] = Field(
        default={}, description="The JSON Schema of a JSON document: a table, JSON, or the path of a .json file."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> "DocumentSettings":
        check_format(self.format, self.template, self.json_schema)
        return self


class WorkingMemorySettings(_Section):
    """The documents that an agent keeps current: of a conversation, and about whom it serves."""

    max_bytes: int = Field(default=16 * 1024, ge=1, le=1024 * 1024, description="The largest document, in bytes.")
    read_only: bool = Field(default=False, description="Whether the tools that change a document are left out.")
    thread: DocumentSettings = DocumentSettings()
    resource: DocumentSettings = DocumentSettings()


class EmbeddingSettings(_Section):
    """What makes vectors of texts, so that recall finds what was said in other words."""

    embedder: Name = Field(
        default="use", min_length=1, description="use, english, none, or an embedding model by its litellm name."
    )
    dimensions: int = Field(default=0, ge=0, le=16_000, description="Of a remote model's vectors; 0: its own.")
    api_base: Name = Field(default="", description="URL of a remote model, else its provider's.")
    batch_size: int = Field(default=64, ge=1, le=2048, description="Texts in one request to a remote model.")
    timeout_seconds: float = Field(default=30.0, gt=0, le=600, description="Seconds for one request.")
    query_patience_ms: int = Field(
        default=300, ge=1, le=60_000, description="Milliseconds for a query's vector; then words alone serve."
    )

    @property
    def is_remote(self) -> bool:
        """Whether texts leave this machine for their vectors."""
        return self.embedder not in ("use", "english", "none")


class LimitSettings(_Section):
    """How much a caller may send, and be sent: bytes of UTF-8, characters, counts."""

    message_text_bytes: int = Field(default=256 * 1024, ge=1, description="Text of one message, in bytes.")
    message_media_bytes: int = Field(
        default=3 * 1024 * 1024, ge=0, description="Images and files inside one message, in bytes."
    )
    messages_per_call: int = Field(default=100, ge=1, le=10_000, description="Messages in one add_messages.")
    metadata_bytes: int = Field(
        default=16 * 1024, ge=2, description="Metadata of a message or thread, in bytes of JSON."
    )
    json_depth: int = Field(default=64, ge=1, le=64, description="Nesting of any JSON.")
    query_bytes: int = Field(default=2048, ge=1, description="A recall query, in bytes.")
    run_state_bytes: int = Field(default=1024 * 1024, ge=2, description="A run's state, in bytes of JSON.")
    run_pending_bytes: int = Field(default=256 * 1024, ge=2, description="Its pending tool calls, in bytes of JSON.")
    run_data_bytes: int = Field(
        default=64 * 1024, ge=2, description="Data for resume_run and the output of a run, in bytes of JSON."
    )
    steps_per_call: int = Field(default=100, ge=1, le=10_000, description="Steps and events in one record_steps.")
    step_bytes: int = Field(default=64 * 1024, ge=2, description="One step or event, in bytes of JSON.")
    answer_bytes: int = Field(
        default=1024 * 1024,
        ge=256 * 1024,
        le=64 * 1024 * 1024,
        description="One answer, in bytes; what is longer is cut and `next` goes on.",
    )


class Settings(BaseSettings):
    """Everything that can be set; ``configs/sqlite.toml`` shows each with its meaning.

    Made directly, it takes what it is given and defaults; ``load_settings`` reads the other sources.
    """

    model_config = ConfigDict(  # type: ignore[assignment]
        extra="forbid", frozen=True, hide_input_in_errors=True
    )

    agent: Name = Field(default="default", min_length=1, description="The assistant whose memory this is.")
    resource: Name = Field(default="default", min_length=1, description="The person (or thing) that it serves.")
    thread: Name = Field(
        default="",
        description="The conversation, where a call names none; else a new one each session, main where there is none.",
    )
    memory: Annotated[Literal["on", "off"], BeforeValidator(_on_or_off)] = Field(
        default="on", description="on, or off: nothing is stored, and the server says so."
    )
    database: Annotated[SecretStr, AfterValidator(_known_form)] = Field(
        default=SecretStr(""),
        description="sqlite://PATH, sqlite://:memory: or postgresql://...; else memory.db in the data folder.",
    )
    data_dir: Annotated[Path, AfterValidator(_absolute)] = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("layerlore", appauthor=False)),
        description="The data folder; else the platform's.",
    )
    toolsets: Annotated[list[Toolset], BeforeValidator(_toolset_names)] = Field(
        default=list(DEFAULT_TOOLSETS),
        min_length=1,
        description=f"Which tools are listed: {','.join(TOOLSETS)}, or all.",
    )
    redaction: Literal["all", "derived", "off"] = Field(
        default="all", description="Where secrets are masked: all, derived (in the search index only), or off."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="warning", description="debug, info, warning or error; logs go to standard error."
    )
    http: HttpSettings = HttpSettings()
    jwt: JwtSettings = JwtSettings()
    sqlite: SqliteSettings = SqliteSettings()
    postgres: PostgresSettings = PostgresSettings()
    retention: RetentionSettings = RetentionSettings()
    recall: RecallSettings = RecallSettings()
    working_memory: WorkingMemorySettings = WorkingMemorySettings()
    plan: PlanSettings = PlanSettings()
    window: WindowSettings = WindowSettings()
    windows: Profiles = Field(default={}, description="Named policies of the window.")
    embedding: EmbeddingSettings = EmbeddingSettings()
    observation: ObservationSettings = ObservationSettings()
    entries: EntrySettings = EntrySettings()
    llm: LlmSettings = LlmSettings()
    limits: LimitSettings = LimitSettings()
    rates: RateSettings = RateSettings()
    bridge: BridgeSettings = BridgeSettings()

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)

    @property
    def on_postgres(self) -> bool:
        """Whether the database is Postgres."""
        return self.database.get_secret_value().startswith("postgres")

    @property
    def rates_to_hold(self) -> RateSettings:
        """[rates], with more calls at once where a remote model makes the vectors, if nobody chose: they wait, mostly."""
        chosen = "tenant_calls_at_once" in self.rates.model_fields_set
        if chosen or not self.embedding.is_remote:
            return self.rates
        return self.rates.model_copy(update={"tenant_calls_at_once": WAITING_AT_ONCE})

    @property
    def database_file(self) -> Path:
        """The SQLite file when no database is named."""
        return self.data_dir / "memory.db"


class _Environment(EnvSettingsSource):
    """Variables as they are: text, which the settings themselves take apart."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        super().__init__(Settings, env_prefix=PREFIX, env_nested_delimiter="__")
        self.env_vars = {name.lower(): value for name, value in variables.items()}

    def decode_complex_value(self, field_name: str, field: Any, value: Any) -> Any:
        return value


@dataclass(frozen=True, slots=True)
class _Source:
    """Where settings were given, how a setting is spelled there, and what was given."""

    spelled: str
    values: Mapping[str, Any]

    def names(self, path: Sequence[str]) -> str:
        return self.spelled.format(flag=path[-1].replace("_", "-"), variable="__".join(path).upper())


def load_settings(
    flags: Mapping[str, Any] | None = None,
    *,
    config: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Read all sources. ``flags`` may be nested; ``config`` is a TOML file's path (else ``LAYERLORE_CONFIG``).

    A variable or flag that is empty, or begins with ``${`` since a host passed on what it did not expand, counts as
    not given.

    Raises SettingsError.
    """
    given = spelled_out(os.environ if environ is None else environ)
    _check_variables(given)
    variables, flags = _without_blanks(given), _without_blanks(flags or {})
    path = _without_blanks({"config": config}).get("config") or variables.get(CONFIG_VARIABLE)
    sources = [_Source("flag --{flag}", flags), _Source(PREFIX + "{variable}", _Environment(variables)())]
    if path:
        sources.append(_Source(path.replace("{", "{{").replace("}", "}}"), _read(path)))
    values: dict[str, Any] = {}
    for source in reversed(sources):
        values = _merged(values, source.values)
    try:
        return Settings(**values)
    except ValidationError as error:
        raise SettingsError("; ".join(_explained(error, sources))) from None


def _without_blanks(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value not in (None, "") and not str(value).startswith("${")}


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two nested sources as one, of which the second counts more."""
    result = dict(below)
    for name, value in above.items():
        nested = isinstance(value, Mapping) and isinstance(result.get(name), Mapping)
        result[name] = _merged(result[name], value) if nested else value
    return result


def _read(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).expanduser().read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"cannot read the configuration file {path}: {error.strerror}") from None
    except (ValueError, RuntimeError) as error:
        raise SettingsError(f"the configuration file {path} is not valid TOML in UTF-8: {error}") from None


def _check_variables(environ: Mapping[str, str]) -> None:
    known = [name.upper() for name in ("config", *setting_names("__"))]
    for name in environ:
        bare = name.upper().removeprefix(PREFIX)
        if name.upper().startswith(PREFIX) and not bare.startswith(_TESTS) and bare not in known:
            raise SettingsError(f"{name}: no such setting{_meant(bare, known, PREFIX)}")


def setting_names(separator: str = ".") -> list[str]:
    """Every setting's name, those of sections with it: ``http.port``."""
    return list(_names(Settings, "", separator))


def _names(model: type[BaseModel], prefix: str, separator: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, _Section):
            yield from _names(section, f"{prefix}{name}{separator}", separator)
        else:
            yield prefix + name


def _explained(error: ValidationError, sources: Sequence[_Source]) -> Iterator[str]:
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        path = [part for part in problem["loc"] if isinstance(part, str)]
        name, where = ".".join(path), _given_in(path, sources)
        if problem["type"] == "extra_forbidden":
            yield f"{name}{where}: no such setting{_meant(name, _known_beside(path))}"
        else:
            yield f"{name}{where}: {problem['msg'].removeprefix('Value error, ')}"


def _known_beside(path: Sequence[str]) -> list[str]:
    """The names that could have been meant: a profile's fields, or all settings."""
    if path[0] == "windows" and len(path) == 3:
        return [f"windows.{path[1]}.{field}" for field in WindowSettings.model_fields]
    return setting_names()


def _given_in(path: Sequence[str], sources: Sequence[_Source]) -> str:
    for source in sources:
        value: Any = source.values
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            return f" (from {source.names(path)})"
    return ""


def _meant(name: str, known: Sequence[str], prefix: str = "") -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return (
        f"; did you mean {prefix}{near[0]}?" if near else f"; allowed are {', '.join(prefix + each for each in known)}"
    )
