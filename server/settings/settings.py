"""Settings: defaults < a TOML file < the environment (``LAYERLORE_*``, nested with ``__``) < flags.

Only the composition root reads them. Unknown keys are errors that name the nearest known one; no error repeats a
value that may be a secret.
"""

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import platformdirs
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from layerlore.memory.rules.time_zones import LONGEST_NAME, local_zone, read_zone
from layerlore.memory.rules.validation import Limits, is_blank
from layerlore.memory.settings.context_settings import (
    ContextRules,
    EmbeddingSettings,
    MemoryChoice,
    Name,
    RecallRules,
    Section,
    Unit,
    WindowProfiles,
    WindowSettings,
    describe_closed,
    distinct,
    list_of,
    one_line,
)
from layerlore.memory.settings.note_settings import (
    EntryRules,
    LlmSettings,
    ObservationRules,
    RetentionRules,
    TitleRules,
    WorkingMemoryRules,
)
from layerlore.server.settings.http import WAITING_AT_ONCE, HttpSettings, JwtSettings, MetricsSettings, RateSettings
from layerlore.server.settings.launch import ALONE
from layerlore.server.settings.project import choose_project
from layerlore.server.settings.sections import AgentProfiles, AgentSettings, CaptureSettings, ShardList, ShardSettings
from layerlore.storage.core.errors import InvalidInput, LayerloreError
from layerlore.storage.core.records import Scope
from layerlore.storage.drivers.dialect import check as check_url
from layerlore.storage.drivers.dialect import check_roles

PREFIX = "LAYERLORE_"
CONFIG_VARIABLE = "LAYERLORE_CONFIG"
_TESTS = "TEST_"  # LAYERLORE_TEST_POSTGRES and the like
# The number of names that an error lists if none is near.
_NEAREST = 3
# The usual spelling of the one variable that most people set.
_SHORT = {"LAYERLORE_LLM_MODEL": "LAYERLORE_LLM__MODEL"}

Toolset = Literal["core", "threads", "runs", "curation", "admin"]
TOOLSETS: tuple[Toolset, ...] = get_args(Toolset)
Preset = Literal["chat", "agent"]
"""Tools of several toolsets, for those who need not know them: chat for a host whose model keeps its own memory, agent for
programs that call models."""
PRESETS: tuple[Preset, ...] = get_args(Preset)
ToolChoice = Literal[Toolset, Preset]
DEFAULT_TOOLSETS: tuple[Toolset, ...] = ("core", "threads", "curation")


class SettingsError(LayerloreError):
    """Settings are unknown or wrong; the text, one line, says which, where they came from, and what is allowed."""


def _toolset_names(value: Any) -> Any:
    names = list_of(value)
    if not isinstance(names, list):
        return names
    # "all" is expanded here, so that the rest of the code knows real toolsets only.
    if "all" in names:
        return list(TOOLSETS)
    known = (*TOOLSETS, *PRESETS)
    if any(name not in known for name in names):
        raise ValueError(f"each must be one of {', '.join(known)}, all")
    return names


def _time_zone(value: str) -> str:
    if value:
        try:
            read_zone(value)
        except InvalidInput as error:
            raise ValueError(str(error).partition(": ")[2]) from None
    return value


def _known_form(value: SecretStr) -> SecretStr:
    check_url(value.get_secret_value())
    return value


def _of_postgres(value: SecretStr) -> SecretStr:
    check_roles(value.get_secret_value())
    return value


def _absolute(value: Path) -> Path:
    try:
        return value.expanduser().absolute()
    # Path.expanduser raises for a user without a home, such as in a container.
    except RuntimeError as error:
        raise ValueError(f"its ~ names no known home folder ({error})") from None


class SqliteSettings(Section):
    """SQLite, where no other database is named."""

    synchronous: Literal["FULL", "NORMAL"] = Field(
        default="FULL",
        description="FULL survives a power cut. NORMAL is faster and may then lose the last writes, never the file.",
    )
    readers: int = Field(
        default=3, ge=1, le=16, description="Connections that read beside the one that writes, each with its thread."
    )


class PostgresSettings(Section):
    """Postgres, where `database` is its URL."""

    owner_url: Annotated[SecretStr, AfterValidator(_known_form), AfterValidator(_of_postgres)] = Field(
        default=SecretStr(""),
        description="URL of the same database as the role that owns the tables, where the server's own role does not: "
        "only `layerlore migrate`, `layerlore journal` and `layerlore tenants move` use it. Better given as `LAYERLORE_POSTGRES__OWNER_URL` where "
        "those are run.",
    )
    listen_url: Annotated[SecretStr, AfterValidator(_known_form), AfterValidator(_of_postgres)] = Field(
        default=SecretStr(""),
        description="URL past a pooler that shares connections between transactions, for the one connection that listens "
        "for the changes of other servers. The URL through the pooler, `database`, then ends in "
        "`?statement_cache_size=0`.",
    )
    pool_size: int = Field(default=10, ge=1, le=200, description="Connections of one server at most.")
    idle_seconds: float = Field(
        default=3,
        ge=0,
        le=3600,
        description="After so many seconds without a statement Postgres ends a transaction, so that a server that is "
        "stopped in the middle of one holds up no other. 0: never.",
    )
    lock_seconds: float = Field(
        default=8,
        ge=0,
        le=3600,
        description="After so many seconds Postgres ends a wait for a lock, and the call is tried again or refused as "
        "busy. 0: never.",
    )


class PlanSettings(Section):
    """The plan tool."""

    # The default is n8n's.
    phases: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=64), AfterValidator(one_line)]],
        BeforeValidator(list_of),
        AfterValidator(distinct),
    ] = Field(
        default=["build", "execute", "inspect", "evaluate", "debug"],
        min_length=1,
        description="The usual phases of a plan, distinct names. A new plan begins in the first; any other text is a phase, too.",
    )


class LocalSettings(Section):
    """The one server of this machine that all hosts of a person share when they launch `layerlore`: over stdio each of
    them gets a small client, and the server keeps the database and the embedder once. Where it cannot be had, a host gets
    a server of its own."""

    share: bool = Field(
        default=True,
        description="Share the server. false, or the flag --alone: each host has a server of its own, as with "
        "`sqlite://:memory:`.",
    )
    idle_minutes: Annotated[float, Unit("minutes")] = Field(
        default=10.0, ge=0.01, le=10_080.0, description="How long the server stays when no host is connected."
    )


class BridgeSettings(Section):
    """`layerlore bridge URL`, which launches as a stdio server and passes everything on to one that is served
    elsewhere."""

    # The key is never an argument: others on the machine see those.
    key: SecretStr = Field(
        default=SecretStr(""), description="The key of that server, better given as `LAYERLORE_BRIDGE__KEY`."
    )
    key_file: Name = Field(default="", description="A file with the key and nothing else, in place of the key itself.")
    ca_file: Name = Field(
        default="",
        description="A PEM file of the private authority that vouches for that server. Empty: the system's authorities.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> "BridgeSettings":
        if self.key.get_secret_value() and self.key_file:
            raise ValueError("key and key_file are two ways to give one key: one of them is allowed")
        return self


class Settings(BaseSettings):
    """Everything that can be set.

    Made directly, it takes its arguments and defaults; ``load_settings`` reads the other sources.
    """

    model_config = SettingsConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, case_sensitive=True)

    agent: Name = Field(
        default="default",
        min_length=1,
        description="The assistant whose memory this is. What is stored and found belongs to one agent and one resource; "
        "nobody else sees it.",
    )
    resource: Name = Field(
        default="default", min_length=1, description="The person (or thing) that the assistant serves."
    )
    project: Name = Field(
        default="",
        description="The project whose memory is used beside the person's: auto (that of the folder the host starts in: its "
        "git remote or repository, else the folder itself), or a name. Conversations, plans and runs, and what is no fact "
        "about the person, are then the project's. Empty or none: there is none. It is for launches over stdio, hooks and "
        "commands; over HTTP a request names it.",
    )
    thread: Name = Field(
        default="",
        description="The conversation for calls that name none. Empty: a new one for each start over stdio and for each "
        "session; where the protocol has no sessions (HTTP since 2026-07-28), one for each agent and resource, called "
        "main.",
    )
    time_zone: Annotated[str, AfterValidator(_time_zone)] = Field(
        default="",
        max_length=LONGEST_NAME,
        description="The user's time zone, by its IANA name such as Europe/Berlin: *yesterday*, ages and the days above remembered "
        "lines are counted in it. Empty: that of this machine over stdio and for commands; over HTTP UTC, unless a request names one.",
    )
    memory: MemoryChoice = Field(
        default="on",
        description="on; read-only: reads work, and every write is refused; or off: nothing is stored, and the only tool "
        "that is left says so.",
    )
    database: Annotated[SecretStr, AfterValidator(_known_form)] = Field(
        default=SecretStr(""),
        description="URL of the database: sqlite://PATH, sqlite://:memory: or postgresql://...; else the file memory.db in "
        "the data folder, made with mode 0600. `sqlite:///home/me/notes.db` is an absolute path, `sqlite:///~/notes.db` one in the home folder; with "
        "`sqlite://:memory:` nothing is kept when the server ends. `postgresql://user@host:5432/name` is a Postgres "
        "database that the user owns: the tables are made at the first start, and any number of servers may share it. A "
        "password is better given in `LAYERLORE_DATABASE`, which holds the whole URL, or in `PGPASSWORD` or ~/.pgpass. "
        "Special characters in a URL's password are percent-encoded: `p%40ss` for `p@ss`.",
    )
    data_dir: Annotated[Path, AfterValidator(_absolute)] = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("layerlore", appauthor=False)),
        description="The data folder, made with mode 0700. The default is the platform's: ~/.local/share/layerlore on "
        "Linux, ~/Library/Application Support/layerlore on macOS, %LOCALAPPDATA%\\layerlore on Windows.",
        examples=["~/.local/share/layerlore"],
    )
    toolsets: Annotated[list[ToolChoice], BeforeValidator(_toolset_names)] = Field(
        default=list(DEFAULT_TOOLSETS),
        min_length=1,
        description="Which tools a client sees: core (messages, recall, working memory, plan), threads, runs (runs, steps "
        "and events of agents, attempts, briefings), curation (status, background jobs), admin (erasing for good), or "
        "all; or for whom they are: chat (what a chat model needs), agent (what a program that calls models needs).",
    )
    redaction: Literal["all", "derived", "off"] = Field(
        default="all",
        description="Where secrets (keys, tokens, passwords in URLs) are masked: all (before anything is stored), derived "
        "(in what is made from messages, such as the search index, while the messages stay as sent), or off.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="warning",
        description="Which lines are logged: debug, info, warning or error. Logs are lines of JSON on standard error.",
    )
    http: HttpSettings = HttpSettings()
    jwt: JwtSettings = JwtSettings()
    metrics: MetricsSettings = MetricsSettings()
    sqlite: SqliteSettings = SqliteSettings()
    postgres: PostgresSettings = PostgresSettings()
    shards: ShardList = Field(
        default=[],
        description="More Postgres clusters, each with a name, a url and, as for `postgres`, an owner_url and a listen_url. "
        "Tenants are on the cluster of `database` until `layerlore tenants move` moves them (docs/scaling.md). All servers "
        "of an installation need the same list. In a variable, as JSON.",
        examples=["[[shards]]", 'name = "eu-2"', 'url = "postgresql://layerlore@db2:5432/layerlore"'],
    )
    retention: RetentionRules = RetentionRules()
    recall: RecallRules = RecallRules()
    working_memory: WorkingMemoryRules = WorkingMemoryRules()
    plan: PlanSettings = PlanSettings()
    window: WindowSettings = WindowSettings()
    windows: WindowProfiles = Field(
        default={},
        description='Other policies of the window by name, which update_thread(window="short") sets for one '
        "conversation. What a profile does not name is as by default, whatever [window] says. In a variable, as JSON.",
        examples=["[windows.short]", 'limit = "messages"', "max_messages = 8"],
    )
    agents: AgentProfiles = Field(
        default={},
        description="What single agents of this server have otherwise, by their names: memory (on, read-only, "
        "off), and any setting of window, working_memory, entries, recall and context. What is not given there is the server's; a conversation's own "
        "window (update_thread) goes before both. A document of working memory (thread, resource) is given as a whole. In "
        "a variable, as JSON.",
        examples=["[agents.support.window]", 'limit = "messages"', "[agents.support.entries]", "enabled = false"],
    )
    embedding: EmbeddingSettings = EmbeddingSettings()
    context: ContextRules = ContextRules()
    observation: ObservationRules = ObservationRules()
    entries: EntryRules = EntryRules()
    titles: TitleRules = TitleRules()
    llm: LlmSettings = LlmSettings()
    limits: Limits = Limits()
    rates: RateSettings = RateSettings()
    local: LocalSettings = LocalSettings()
    capture: CaptureSettings = CaptureSettings()
    bridge: BridgeSettings = BridgeSettings()

    @field_validator("shards")
    @classmethod
    def _of_roles(cls, shards: list[ShardSettings], info: ValidationInfo) -> list[ShardSettings]:
        database: SecretStr | None = info.data.get("database")
        if shards and database is not None:
            url = database.get_secret_value()
            if not url:
                raise ValueError("they need a home cluster: `database` must be a postgresql:// URL")
            check_roles(url)
        return shards

    @field_validator("jwt")
    @classmethod
    def _has_audience(cls, jwt: JwtSettings, info: ValidationInfo) -> JwtSettings:
        http: HttpSettings | None = info.data.get("http")
        # The same issuer makes tokens for other services. Only the audience distinguishes them.
        if jwt.issuer and not jwt.audience and http is not None and not http.public_url:
            raise ValueError(
                "issuer needs audience or http.public_url: without them, tokens that were made for others would be accepted"
            )
        return jwt

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # Without this, pydantic would read the environment each time that a settings object is made.
        return (init_settings,)

    @property
    def zone(self) -> tzinfo:
        """The user's time zone: that of the settings, else this machine's."""
        if self.time_zone:
            return read_zone(self.time_zone)
        return local_zone()

    def scope_in(self, tenant: str) -> Scope:
        """The scope that these settings mean in a tenant: the person's or, in a project, the project's beside it."""
        if self.project:
            return Scope(tenant, self.agent, self.project, person=self.resource)
        return Scope(tenant, self.agent, self.resource)

    def for_agent(self, agent: str) -> "Settings":
        """These settings, as they are for an agent."""
        own = self.agents.get(agent)
        if own is None:
            # Most agents have no settings of their own, and copying would cost time in each call.
            return self
        return self.model_copy(update=own.over(self))

    def describe_closed(self, agent: str) -> str:
        """Why a call of the agent is refused by the mode of its memory; for the settings as they are for the agent."""
        own = self.agents.get(agent)
        is_own = own is not None and own.memory == self.memory and "memory" in own.model_fields_set
        return describe_closed(self.memory, agent if is_own else "")

    @property
    def rates_to_hold(self) -> RateSettings:
        """[rates], with more calls at once where a remote model makes the vectors, without a setting: they wait,
        mostly."""
        chosen = "tenant_calls_at_once" in self.rates.model_fields_set
        if chosen or not self.embedding.is_remote:
            return self.rates
        return self.rates.model_copy(update={"tenant_calls_at_once": WAITING_AT_ONCE})

    @property
    def title_rules(self) -> TitleRules:
        """[titles], switched off where no model may make titles."""
        if self.llm.models.title == "none":
            return self.titles.model_copy(update={"enabled": False})
        return self.titles

    @property
    def database_file(self) -> Path:
        """The SQLite file when no database is named."""
        return self.data_dir / "memory.db"


class _Environment(EnvSettingsSource):
    """Variables as they are: text, which the settings themselves take apart."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        super().__init__(Settings, env_prefix=PREFIX, env_nested_delimiter="__", case_sensitive=False)
        # pydantic looks for names in lower case where their case is ignored.
        self.env_vars = {name.lower(): value for name, value in variables.items()}

    def decode_complex_value(self, field_name: str, field: Any, value: Any) -> Any:
        # The settings parse lists and objects themselves, since a host passes plain text.
        return value


@dataclass(frozen=True, slots=True)
class _Source:
    """The sources of settings, the spelling of a setting there, and the values."""

    spelled: str
    given: PydanticBaseSettingsSource

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
    # Checked by hand: pydantic ignores unknown variables, and a typing mistake would have no effect.
    given = _spelled_out(os.environ if environ is None else environ)
    _check_variables(given)
    variables, flags = _without_blanks(given), _without_blanks(flags or {})
    path = _without_blanks({"config": config}).get("config") or variables.get(CONFIG_VARIABLE)
    # The first counts most; pydantic-settings merges them, setting by setting.
    sources = [
        _Source("flag --{flag}", InitSettingsSource(Settings, flags)),
        _Source(PREFIX + "{variable}", _Environment(variables)),
    ]
    if path:
        sources.append(_Source(path.replace("{", "{{").replace("}", "}}"), InitSettingsSource(Settings, _read(path))))
    try:
        found = Settings(_build_sources=(tuple(source.given for source in sources), {}))  # type: ignore[call-arg]
    except ValidationError as error:
        raise SettingsError("; ".join(_explained(error, sources))) from None
    # Resolved once, so that every part of the process means the same project.
    project = choose_project(found.project, os.curdir, str(found.data_dir))
    return found.model_copy(update={"project": project})


def load_launched(flags: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of a launch, among whose flags are those that are no settings: the file's name, and ``--alone``. Raises
    SettingsError."""
    given = {name: value for name, value in flags.items() if name not in ("config", ALONE)}
    return load_settings(given, config=flags.get("config"), environ=environ)


def load_served(flags: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of a launch that serves agents, and so stores under its names. Commands take any name, since people read
    and erase with them what an older version stored. Raises SettingsError."""
    found = load_launched(flags, environ)
    for name, value in (("agent", found.agent), ("resource", found.resource), ("thread", found.thread)):
        # The empty thread is none.
        if value and is_blank(value):
            raise SettingsError(
                f"{name}: has blanks and invisible characters only; at least one character must be visible"
            )
    return found


def _spelled_out(environ: Mapping[str, Any]) -> dict[str, Any]:
    """Variables under their full names; if both are set, the full one counts."""
    short = {_SHORT[name.upper()]: value for name, value in environ.items() if name.upper() in _SHORT}
    return short | {name: value for name, value in environ.items() if name.upper() not in _SHORT}


def _without_blanks(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value not in (None, "") and not str(value).startswith("${")}


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
        if isinstance(section, type) and issubclass(section, Section):
            yield from _names(section, f"{prefix}{name}{separator}", separator)
        else:
            yield prefix + name


def _explained(error: ValidationError, sources: Sequence[_Source]) -> Iterator[str]:
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        # Positions in lists are left out: a setting is known by its name.
        path = [part for part in problem["loc"] if isinstance(part, str)]
        name, where = ".".join(path), _given_in(path, sources)
        if problem["type"] == "extra_forbidden":
            yield f"{name}{where}: no such setting{_meant(name, _known_beside(path))}"
        else:
            yield f"{name}{where}: {problem['msg'].removeprefix('Value error, ')}"


def _known_beside(path: Sequence[str]) -> list[str]:
    """The names that could have been meant: a profile's fields, or all settings."""
    if path[0] == "agents" and len(path) > 2:
        return list(_names(AgentSettings, f"agents.{path[1]}.", "."))
    if path[0] == "windows" and len(path) == 3:
        return [f"windows.{path[1]}.{field}" for field in WindowSettings.model_fields]
    return setting_names()


def _given_in(path: Sequence[str], sources: Sequence[_Source]) -> str:
    for source in sources:
        value: Any = source.given()
        for part in path:
            if isinstance(value, Mapping):
                value = value.get(part)
            else:
                value = None
        if value is not None:
            return f" (from {source.names(path)})"
    return ""


def _meant(name: str, known: Sequence[str], prefix: str = "") -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean {prefix}{near[0]}?"
    nearest = difflib.get_close_matches(name, known, n=_NEAREST, cutoff=0.0)
    return f"; the nearest are {', '.join(prefix + each for each in nearest)}, and docs/settings.md has all"
