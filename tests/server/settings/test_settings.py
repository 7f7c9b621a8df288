"""What the settings are when several sources give them, and what is said when one is wrong."""

import json
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from pydantic import BaseModel

from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import Settings, SettingsError, load_settings, setting_names

CONFIGS = Path(__file__).parents[3] / "configs"
SOURCES = ("file", "environment", "flags")


def problem(flags: dict[str, Any] | None = None, *, environ: dict[str, str] | None = None, config: Any = None) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(flags, environ=environ or {}, config=str(config) if config else None)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def toml(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        (tmp_path / "settings.toml").write_text(text, encoding="utf-8")
        return str(tmp_path / "settings.toml")

    return write


@given(
    st.dictionaries(st.sampled_from(SOURCES), st.text("abcxyz", min_size=1)),
    st.dictionaries(st.sampled_from(SOURCES), st.integers(0, 65535)),
    st.dictionaries(st.sampled_from(SOURCES), st.integers(1, 2000)),
)
def test_each_setting_comes_from_the_source_that_counts_most(
    agents: dict[str, str], ports: dict[str, int], sessions: dict[str, int]
) -> None:
    environ: dict[str, str] = {}
    flags: dict[str, Any] = {"http": {}}
    agent_line = f"agent = '{agents['file']}'\n" if "file" in agents else ""
    lines = [
        f"{name} = {given['file']}" for name, given in (("port", ports), ("max_sessions", sessions)) if "file" in given
    ]
    for name, given_values in (("AGENT", agents), ("HTTP__PORT", ports), ("HTTP__MAX_SESSIONS", sessions)):
        if "environment" in given_values:
            environ[f"LAYERLORE_{name}"] = str(given_values["environment"])
    if "flags" in agents:
        flags["agent"] = agents["flags"]
    for name, numbers in (("port", ports), ("max_sessions", sessions)):
        if "flags" in numbers:
            flags["http"][name] = numbers["flags"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "settings.toml")
        file.write_text(agent_line + "[http]\n" + "\n".join(lines))
        loaded = load_settings(flags, environ=environ, config=str(file))

    def strongest(values: dict[str, Any], default: Any) -> Any:
        return next((values[source] for source in reversed(SOURCES) if source in values), default)

    assert loaded.agent == strongest(agents, "default")
    assert loaded.http.port == strongest(ports, 8765)
    assert loaded.http.max_sessions == strongest(sessions, 2000)


def test_a_variable_names_the_file_and_a_flag_names_another(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"agent = '{name}'")
    environ = {"LAYERLORE_CONFIG": str(tmp_path / "one")}
    assert load_settings(environ=environ).agent == "one"
    assert load_settings(environ=environ, config=str(tmp_path / "two")).agent == "two"


def test_settings_made_directly_read_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AGENT", "LAYERLORE_AGENT"):
        monkeypatch.setenv(name, "from the environment")
    assert Settings().agent == "default"
    assert load_settings().agent == "from the environment"


@pytest.mark.parametrize("blank", ["", "${MEMORY_AGENT}", "${UNSET:-}"])
def test_what_a_host_left_empty_or_did_not_expand_counts_as_not_given(blank: str, toml: Any) -> None:
    environ = {"LAYERLORE_AGENT": blank, "LAYERLORE_HTTP__PORT": blank, "LAYERLORE_CONFIG": blank}
    loaded = load_settings({"agent": blank, "resource": blank}, environ=environ, config=blank)
    assert (loaded.agent, loaded.resource, loaded.http.port) == ("default", "default", 8765)
    assert load_settings({"agent": blank}, environ=environ, config=toml("agent = 'file'")).agent == "file"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("agnt = 'x'", "agnt (from FILE): no such setting; did you mean agent?"),
        ("[http]\nprot = 1", "http.prot (from FILE): no such setting; did you mean http.port?"),
        ("[htpt]\nport = 1", "htpt (from FILE): no such setting"),
        ("[http]\nport = 'x'", "http.port (from FILE): Input should be a valid integer"),
        ("http = 5", "http (from FILE): Input should be a valid dictionary"),
        ("agent = ''", "agent (from FILE): String should have at least 1 character"),
        ("agent = ", "FILE is not valid TOML"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong_in_it(toml: Any, lines: str, told: str) -> None:
    path = toml(lines)
    assert told.replace("FILE", path) in problem(config=path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path}/none.toml: No such file or directory" in problem(config=tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("LAYERLORE_AGNET", "x", "LAYERLORE_AGNET: no such setting; did you mean LAYERLORE_AGENT?"),
        ("LAYERLORE_HTTP_PORT", "1", "did you mean LAYERLORE_HTTP__PORT?"),
        ("LAYERLORE_CONFIGS", "x", "did you mean LAYERLORE_CONFIG?"),
        ("LAYERLORE_HTTP", "{}", "LAYERLORE_HTTP: no such setting"),
        ("LAYERLORE_ZZZ", "${ZZZ}", "LAYERLORE_ZZZ: no such setting; the nearest are LAYERLORE_"),
        ("LAYERLORE_PORT", "1", "LAYERLORE_HTTP__PORT"),
        ("LAYERLORE_BOGUS", "1", ", and docs/settings.md has all"),
        (
            "LAYERLORE_HTTP__PORT",
            "65536",
            "http.port (from LAYERLORE_HTTP__PORT): Input should be less than or equal to",
        ),
        (
            "LAYERLORE_TOOLSETS",
            "core,cor",
            "each must be one of core, threads, runs, curation, admin, chat, agent, all",
        ),
        ("LAYERLORE_PLAN__PHASES", "think,do,think", "every name may come once"),
        ("LAYERLORE_PLAN__PHASES", " , ", "at least 1 item"),
        ("LAYERLORE_PLAN__PHASES", "x" * 65, "at most 64 characters"),
    ],
)
def test_a_wrong_variable_is_named_with_what_is_allowed(name: str, value: str, told: str) -> None:
    assert told in problem(environ={name: value})


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"agnt": "x"}, "agnt (from flag --agnt): no such setting; did you mean agent?"),
        ({"data_dir": "~nobody-has-this-name/x"}, "data_dir (from flag --data-dir): its ~ names no known home folder"),
        ({"agent": "a\nb"}, "agent (from flag --agent): a name without control characters is needed"),
        ({"thread": "x" * 256}, "thread (from flag --thread): String should have at most 255 characters"),
        ({"memory": "of"}, "memory (from flag --memory): Input should be 'on', 'read-only' or 'off'"),
        ({"toolsets": ","}, "toolsets (from flag --toolsets): List should have at least 1 item"),
    ],
)
def test_a_wrong_flag_is_named_with_what_is_allowed(flags: dict[str, Any], told: str) -> None:
    assert told in problem(flags)


def test_all_that_is_wrong_is_told_at_once() -> None:
    told = problem({"memory": "of"}, environ={"LAYERLORE_HTTP__PORT": "x"})
    assert "memory (from flag --memory)" in told
    assert "http.port (from LAYERLORE_HTTP__PORT)" in told


def test_lists_are_names_with_commas_or_arrays(toml: Any) -> None:
    environ = {"LAYERLORE_TOOLSETS": "core, threads", "LAYERLORE_HTTP__ALLOWED_HOSTS": "a.test,b.test:*"}
    loaded = load_settings(environ=environ)
    assert (loaded.toolsets, loaded.http.allowed_hosts) == (["core", "threads"], ["a.test", "b.test:*"])
    loaded = load_settings(environ={}, config=toml("toolsets = ['core']\n[http]\nallowed_origins = ['http://a.test']"))
    assert (loaded.toolsets, loaded.http.allowed_origins) == (["core"], ["http://a.test"])


def test_all_is_every_toolset(toml: Any) -> None:
    assert Settings().toolsets == ["core", "threads", "curation"]
    everything = ["core", "threads", "runs", "curation", "admin"]
    assert load_settings({"toolsets": "all"}, environ={}).toolsets == everything
    assert load_settings(environ={"LAYERLORE_TOOLSETS": "core,all"}).toolsets == everything
    assert load_settings(environ={}, config=toml("toolsets = ['all']")).toolsets == everything
    assert load_settings(environ={}, config=toml("toolsets = 'all'")).toolsets == everything


def test_memory_can_be_switched_off_with_false(toml: Any) -> None:
    assert load_settings(environ={}, config=toml("memory = false")).memory == "off"
    assert load_settings(environ={}, config=toml("memory = true")).memory == "on"
    assert load_settings(environ={"LAYERLORE_MEMORY": "False"}).memory == "off"


def test_the_data_folder_may_begin_with_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    loaded = load_settings({"data_dir": "~/kept"}, environ={})
    assert loaded.data_dir == tmp_path / "kept"
    assert loaded.database_file == tmp_path / "kept" / "memory.db"
    monkeypatch.chdir(tmp_path)
    assert load_settings({"data_dir": "here"}, environ={}).data_dir == tmp_path / "here"


# Without vowels, so that none is a part of a setting's name.
PASSWORDS = st.text("BCDFGHJKLMNPQRSTVWXYZ23456789", min_size=8)


@given(PASSWORDS)
def test_the_password_is_in_nothing_that_is_printed_by_accident(password: str) -> None:
    loaded = load_settings({"database": f"postgresql://me:{password}@db.test/x"}, environ={})
    assert password in loaded.database.get_secret_value()
    for shown in (repr(loaded), str(loaded), f"{loaded.model_dump()}", loaded.model_dump_json(), repr(loaded.database)):
        assert password not in shown


@given(
    PASSWORDS,
    st.sampled_from(
        [
            "postgre://me:{}@db.test/x",
            "{}",
            "postgresql:me:{}@db.test",
            "postgresql://me:{}[@db.test/x",
            "postgresql://me:{}/tail@db.test/x",
            "postgresql://me:{}?tail@db.test/x",
            "postgresql://me:{}#tail@db.test/x",
        ]
    ),
    st.sampled_from(["flags", "environment", "file", "number"]),
)
def test_the_password_is_in_no_error_about_its_url(password: str, form: str, source: str) -> None:
    url = form.format(password)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "settings.toml")
        file.write_text(f"database = {json.dumps([url] if source == 'number' else url)}")
        if source == "flags":
            told = problem({"database": url})
        elif source == "environment":
            told = problem(environ={"LAYERLORE_DATABASE": url})
        else:
            told = problem(config=file)
    assert told.startswith("database (from ")
    assert password not in told


@pytest.mark.parametrize(
    "url",
    [
        "",
        "sqlite://:memory:",
        "sqlite:///tmp/x.db",
        "sqlite://relative.db",
        "postgres://h/d",
        "postgresql://u:p%40ss@h:5432/d?sslmode=require",
        "postgresql://u:@/d?host=/run/postgresql",
        "postgresql://u:p@h1:5432,h2:5433/d",
        "postgresql://u:p@[::1]:5432/d",
    ],
)
def test_every_form_of_database_is_accepted(url: str) -> None:
    assert load_settings({"database": url}, environ={}).database.get_secret_value() == url


def names_in(table: dict[str, Any], section: str = "") -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from names_in(value, f"{section}{key}.")
        else:
            yield section + key


def sections(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for field in model.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from (field.annotation, *sections(field.annotation))


@pytest.mark.parametrize("section", [Settings, *dict.fromkeys(sections(Settings))])
def test_every_section_and_every_setting_says_what_it_is(section: type[BaseModel]) -> None:
    inside = set(sections(section))
    assert section.__doc__
    assert [
        name for name, field in section.model_fields.items() if field.annotation not in inside and not field.description
    ] == []


def every_line_in_force(name: str, folder: Path) -> Path:
    """A shipped file in which every line that is a setting is one."""
    text = (CONFIGS / name).read_text(encoding="utf-8")
    (folder / name).write_text(re.sub(r"(?m)^#(?=\w+ = )", "", text), encoding="utf-8")
    return folder / name


@pytest.mark.parametrize("name", ["sqlite.toml", "postgres.toml"])
def test_the_shipped_files_load_as_they_are_and_with_every_line_as_the_defaults(name: str, tmp_path: Path) -> None:
    own = {"data_dir"} if name == "sqlite.toml" else {"data_dir", "database"}
    for path in (CONFIGS / name, every_line_in_force(name, tmp_path)):
        loaded = load_settings(environ={}, config=str(path))
        assert loaded.model_dump(exclude=own) == Settings().model_dump(exclude=own)
        assert loaded.database.get_secret_value().startswith("postgresql://" if name == "postgres.toml" else "")


def test_the_shipped_files_hold_every_setting_and_the_one_for_postgres_only_what_differs(tmp_path: Path) -> None:
    held = [
        set(names_in(tomllib.loads(every_line_in_force(name, tmp_path).read_text(encoding="utf-8"))))
        for name in ("sqlite.toml", "postgres.toml")
    ]
    assert held[0] | held[1] == set(setting_names())
    assert held[0] & held[1] == {"database"}
    assert {name for name in held[1] if not name.startswith("postgres.")} == {"database", "shards"}


def test_the_examples_in_the_shipped_file_load(toml: Any) -> None:
    text = (CONFIGS / "sqlite.toml").read_text(encoding="utf-8")
    examples = re.findall(r"(?m)^#   (?!layerlore )(.*)$", text)
    loaded = load_settings(environ={}, config=toml("\n".join(["[window]", *examples])))
    assert [each["role"] for each in loaded.window.predefined] == ["user", "assistant"]
    assert (loaded.windows["short"].limit, loaded.windows["short"].max_messages) == ("messages", 8)


def test_the_table_of_settings_from_elsewhere_names_only_settings_that_there_are() -> None:
    text = (CONFIGS / "README.md").read_text(encoding="utf-8")
    sections = "|".join({name.partition(".")[0] for name in setting_names() if "." in name})
    named = set(re.findall(rf"`((?:{sections})\.(?!toml)[\w.]+)`", text))
    assert named
    assert named <= set(setting_names())
    variables = (
        *("LAST_MESSAGES", "EMBEDDER_MODEL", "SEMANTIC_RECALL_TOP_K", "OBSERVER_MODEL", "OBSERVER_MESSAGE_TOKENS"),
        "REFLECTOR_OBSERVATION_TOKENS",
    )
    assert all(f"| `N8N_INSTANCE_AI_{variable}` |" in text for variable in variables)


def defaults(model: Any, above: str = "") -> Iterator[tuple[str, str]]:
    """Each setting and its default, as a document writes it."""
    for name, value in model:
        if isinstance(value, BaseModel):
            yield from defaults(value, f"{above}{name}.")
        else:
            told = f"{value:g}" if isinstance(value, float) else str(value)
            yield above + name, told.lower() if isinstance(value, bool) else told or "empty"


def test_the_table_of_settings_from_elsewhere_shows_their_defaults_and_nothing_as_planned() -> None:
    text, known = (CONFIGS / "README.md").read_text(encoding="utf-8"), dict(defaults(Settings()))
    assert "planned" not in text.lower()
    compared = set()
    for row in re.findall(r"^\| [^|]+ \| [^|]* \| ([^|]+) \| ([^|]*) ?\|$", text, re.MULTILINE):
        here, told = ((cell or "").strip() for cell in row)
        named = [name for name in re.findall(r"`([\w.]+)`", here) if name in known]
        values = [value.split(":")[0].strip("` ") for value in re.split(r"[,;] ", told)]
        if named and len(values) == len(named) and all(re.fullmatch(r"[\w.]+", value) for value in values):
            assert values == [known[name] for name in named], row
            compared.update(named)
    assert len(compared) > 25


@pytest.mark.anyio
async def test_memory_switched_off_offers_only_what_says_so(tmp_path: Path) -> None:
    settings = load_settings({"memory": False, "data_dir": str(tmp_path / "none")}, environ={})
    async with Client(build_server(settings)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["memory_status"]
        assert "switched off" in (client.instructions or "")
        status = (await client.call_tool("memory_status", {})).structured_content
        assert (status["memory"], status["counts"]["messages"]) == ("off", 0)
        refused = await client.call_tool("add_messages", {"messages": [{"role": "user", "content": "x"}]})
        assert refused.is_error
    assert not (tmp_path / "none").exists()


@pytest.mark.anyio
async def test_only_the_chosen_toolsets_are_listed() -> None:
    settings = load_settings({"toolsets": "threads", "database": "sqlite://:memory:"}, environ={})
    async with Client(build_server(settings)) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert listed == {"list_threads", "update_thread", "delete_thread"}
        assert (await client.call_tool("list_threads", {})).structured_content == {"threads": []}


@pytest.mark.parametrize(
    ("environ", "at_once"),
    [
        ({}, 2),
        ({"LAYERLORE_EMBEDDING__EMBEDDER": "none"}, 2),
        ({"LAYERLORE_EMBEDDING__EMBEDDER": "openai/text-embedding-3-small"}, 8),
        ({"LAYERLORE_EMBEDDING__EMBEDDER": "openai/x", "LAYERLORE_RATES__TENANT_CALLS_AT_ONCE": "2"}, 2),
        ({"LAYERLORE_EMBEDDING__EMBEDDER": "openai/x", "LAYERLORE_RATES__TENANT_CALLS_AT_ONCE": "0"}, 0),
    ],
)
def test_more_calls_at_once_are_held_where_they_wait_for_a_remote_embedder_unless_a_number_was_chosen(
    environ: dict[str, str], at_once: int
) -> None:
    settings = load_settings({}, environ=environ)
    assert settings.rates_to_hold.tenant_calls_at_once == at_once
    assert settings.rates_to_hold.tenant_calls_per_second == settings.rates.tenant_calls_per_second
