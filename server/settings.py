"""Settings: defaults < a TOML file < the environment (``MEMSTRATA_*``, nested with ``__``) < flags.

Only the composition root reads them. Unknown keys are errors that name the nearest known one.
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, InitSettingsSource, PydanticBaseSettingsSource
from pydantic_settings.sources import TomlConfigSettingsSource

PREFIX = "MEMSTRATA_"
# Read before the settings are, or by the tests.
_OTHER_VARIABLES = ("MEMSTRATA_CONFIG", "MEMSTRATA_TEST_")

Toolset = Literal["core", "threads", "curation"]
DEFAULT_TOOLSETS: tuple[Toolset, ...] = ("core", "threads", "curation")


class SettingsError(Exception):
    """A setting is unknown or wrong; the text says which, where it came from, and what is allowed."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HttpSettings(_Section):
    """``memstrata serve``."""

    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=0, le=65535)
    auth: bool = True
    allowed_hosts: list[str] = []
    allowed_origins: list[str] = []
    max_sessions: int = Field(default=2000, ge=1)
    session_idle_seconds: int = Field(default=1800, ge=1)


class SqliteSettings(_Section):
    """FULL survives a power cut; NORMAL is faster and may then lose the last commits, never the file."""

    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    readers: int = Field(default=2, ge=1, le=16)


class PostgresSettings(_Section):
    pool_size: int = Field(default=10, ge=1, le=200)


class RetentionSettings(_Section):
    """How long a delete can be undone, in days; 0 erases at once."""

    deleted_days: int = Field(default=30, ge=0, le=3650)


class LimitSettings(_Section):
    """How much a caller may send: bytes of UTF-8, characters, counts."""

    message_text_bytes: int = Field(default=256 * 1024, ge=1)
    message_media_bytes: int = Field(default=3 * 1024 * 1024, ge=0)
    messages_per_call: int = Field(default=100, ge=1, le=10_000)
    metadata_bytes: int = Field(default=16 * 1024, ge=2)
    json_depth: int = Field(default=64, ge=1, le=100)
    query_bytes: int = Field(default=2048, ge=1)


class Settings(BaseSettings):
    """Everything that can be set. ``configs/sqlite.toml`` shows each with its meaning."""

    model_config = ConfigDict(extra="forbid", frozen=True)  # type: ignore[assignment]

    agent: str = Field(default="default", min_length=1, max_length=255)
    resource: str = Field(default="default", min_length=1, max_length=255)
    thread: str = Field(default="", max_length=255)
    memory: Literal["on", "off"] = "on"
    database: SecretStr = SecretStr("")
    data_dir: Path = Field(default_factory=lambda: Path(platformdirs.user_data_dir("memstrata", appauthor=False)))
    toolsets: list[Toolset] = list(DEFAULT_TOOLSETS)
    redaction: Literal["all", "derived", "off"] = "all"
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    http: HttpSettings = HttpSettings()
    sqlite: SqliteSettings = SqliteSettings()
    postgres: PostgresSettings = PostgresSettings()
    retention: RetentionSettings = RetentionSettings()
    limits: LimitSettings = LimitSettings()

    @field_validator("toolsets", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """Names in one string, with commas, as flags and variables have them; ``all`` is every toolset."""
        names = [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value
        return list(DEFAULT_TOOLSETS) if names == ["all"] else names

    @field_validator("data_dir")
    @classmethod
    def _home(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @property
    def database_file(self) -> Path:
        """The SQLite file when no database is named."""
        return self.data_dir / "memory.db"


class _Environment(EnvSettingsSource):
    """The environment, where text is text: toolsets need not be written as JSON."""

    def decode_complex_value(self, field_name: str, field: Any, value: Any) -> Any:
        return value if field_name in ("toolsets",) else super().decode_complex_value(field_name, field, value)


def load_settings(
    flags: Mapping[str, Any] | None = None,
    *,
    config: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Read all sources. ``flags`` may be nested; ``config`` is a TOML file's path (else ``MEMSTRATA_CONFIG``).

    Raises SettingsError.
    """
    given_variables = os.environ if environ is None else environ
    path = config or given_variables.get("MEMSTRATA_CONFIG") or None
    _check_file(path)
    _check_variables(given_variables)

    class Loaded(Settings):
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *_: PydanticBaseSettingsSource, **__: PydanticBaseSettingsSource
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            variables = _Environment(settings_cls, env_prefix=PREFIX, env_nested_delimiter="__")
            # A host that does not expand ${NAME} passes it on as it stands: that is no value.
            variables.env_vars = {
                name.lower(): value for name, value in given_variables.items() if value and not value.startswith("${")
            }
            given = InitSettingsSource(settings_cls, init_kwargs=dict(flags or {}))
            return given, variables, TomlConfigSettingsSource(settings_cls, path)

    try:
        loaded = Loaded()
    except ValidationError as error:
        raise SettingsError("\n".join(_explained(error))) from None
    except ValueError as error:
        raise SettingsError(str(error)) from None
    return loaded


def _check_file(path: str | None) -> None:
    if path is None:
        return
    try:
        tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read the configuration file {path}: {error.strerror}") from None
    except ValueError as error:
        raise SettingsError(f"the configuration file {path} is not valid TOML: {error}") from None


def _check_variables(environ: Mapping[str, str]) -> None:
    known = [PREFIX + name.upper() for name in setting_names("__")]
    for name in environ:
        upper = name.upper()
        if not upper.startswith(PREFIX) or upper.startswith(_OTHER_VARIABLES) or upper in known:
            continue
        raise SettingsError(f"{name}: no such setting{_meant(upper, known)}")


def setting_names(separator: str = ".") -> list[str]:
    """Every setting's name, sections first: ``http.port``."""
    return list(_names(Settings, "", separator))


def _names(model: type[BaseModel], prefix: str, separator: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, _Section):
            yield from _names(section, f"{prefix}{name}{separator}", separator)
        else:
            yield prefix + name


def _explained(error: ValidationError) -> Iterator[str]:
    for problem in error.errors(include_url=False, include_input=False):
        name = ".".join(str(part) for part in problem["loc"] if not isinstance(part, int))
        if problem["type"] == "extra_forbidden":
            yield f"{name}: no such setting{_meant(name, setting_names())}"
        else:
            yield f"{name}: {problem['msg']}"


def _meant(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else "; configs/sqlite.toml lists them all"
