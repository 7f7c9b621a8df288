"""The commands as a person or a script calls them: what they print, where, and with which exit code."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from launch_environment import own_environment
from mcp import Client

from layerlore.server.command_line.app import ENTRIES, load_all
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.launch import FLAGS
from layerlore.server.settings.settings import load_settings
from layerlore.storage.drivers.migrations.runner import latest_version
from layerlore.storage.drivers.sqlite import driver

PATIENCE = 120.0  # seconds: only a hang takes so long
COMMANDS = (
    *("serve", "demo", "doctor", "show", "migrate", "restore", "usage", "recall", "reindex", "jobs", "journal", "keys"),
    *("export", "import", "erase", "redact", "bridge"),
)
HELLO = [{"role": "user", "content": "the ferry leaves at nine"}, {"role": "assistant", "content": "noted"}]

Cli = Callable[..., tuple[int, str, str]]


def program(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = own_environment()
    return subprocess.run(
        [sys.executable, "-m", "layerlore.server", *arguments],
        env=kept | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def loaded_by(code: str) -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint('LOADED', *sys.modules)"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return set(shown.stdout.rpartition("LOADED")[2].split())


def test_stdio_loads_no_command_line_and_no_database() -> None:
    loaded = loaded_by("import layerlore.server.__main__, layerlore.server.stdio.stdio_transport")
    assert {"mcp", "layerlore.server.tools.toolsets"} <= loaded
    assert not {"layerlore.memory.engine.engine", "layerlore.memory.text.quotation"} & loaded
    assert not loaded & {"typer", "rich", "sqlalchemy", "tiktoken", "asyncpg", "layerlore.server.command_line.app"}


def test_the_version_and_the_help_load_no_server() -> None:
    for option in ("--version", "--help"):
        loaded = loaded_by(f"import layerlore.server.command_line.app as c; sys.argv[1:] = ['{option}']; c.run()")
        assert not loaded & {"mcp", "sqlalchemy", "tiktoken", "asyncpg"}


def test_the_list_of_commands_says_of_each_what_its_own_help_begins_with() -> None:
    for name, command in load_all().commands.items():
        begin = " ".join((command.help or "").split("\n\n")[0].split())
        assert ENTRIES[name].help == begin, name


def test_the_version_is_printed() -> None:
    shown = program("--version")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, f"layerlore {version('layerlore')}\n", "")


def test_the_help_shows_every_command_and_every_flag(cli: Cli) -> None:
    for arguments in ((), *((command,) for command in COMMANDS)):
        code, out, err = cli(*arguments, "--help")
        assert (code, err) == (0, "")
        assert all(re.search(rf"{flag}\b", out) for flag in FLAGS), arguments
    assert all(command in cli("--help")[1] for command in COMMANDS)
    assert all(option in cli("serve", "--help")[1] for option in ("--host", "--port", "--no-auth"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["doctr"], "Did you mean 'doctor'"),
        (["doctor", "--agnt", "x"], "No such option: --agnt"),
        (["--agnt", "x"], "No such option: --agnt"),
        (["--agent"], "--agent"),
        (["--thread", "--agent"], "Missing command"),
        (["serve", "--port", "x"], "Invalid value for '--port'"),
        (["restore", "id", "--from", "x"], "unexpected extra argument"),
        (["restore"], "--from"),
        (["restore", "--from", "x", "--tenant", "acme"], "--tenant"),
        (["restore", "--from", "x", "--agent", "a"], "everybody's memory"),
        (["doctor", "--memory", "of"], "memory (from flag --memory): Input should be 'on', 'read-only' or 'off'"),
        (["serve", "--port", "65536"], "http.port (from flag --port)"),
        (["migrate", "--config", "/nowhere.toml"], "cannot read the configuration file /nowhere.toml"),
        (["migrate", "--database", "mysql://u:S3CRET@h/d"], "the URL is of no known form; allowed: "),
    ],
)
def test_a_wrong_command_line_is_exit_code_2_and_said_on_standard_error(
    cli: Cli, arguments: list[str], told: str
) -> None:
    code, out, err = cli(*arguments)
    assert (code, out) == (2, "")
    assert told in " ".join(err.split())
    assert "Traceback" not in err
    assert "S3CRET" not in err


def test_flags_show_no_type_in_the_help_of_any_command(cli: Cli) -> None:
    for arguments in ((), *((command,) for command in COMMANDS), ("keys", "create"), ("keys", "list")):
        shown = cli(*arguments, "--help")[1]
        assert "bool" not in shown, arguments
    assert re.search(r"--explain +Show how each hit got its", cli("recall", "--help")[1])


def test_json_is_asked_for_in_one_way(cli: Cli) -> None:
    for command in ("doctor", "recall", "erase", "redact", "usage", "jobs", "journal", "keys list", "keys create"):
        shown = cli(*command.split(), "--help")[1]
        assert re.search(r"--json +Print JSON", shown), command
        assert "--format" not in shown, command


def test_keys_load_neither_the_sdk_nor_an_engine() -> None:
    loaded = loaded_by("import layerlore.server.command_line.app, layerlore.server.command_line.commands.keys")
    assert not loaded & {"mcp", "tiktoken", "layerlore.memory.engine.engine", "layerlore.server.runtime.runtime"}


def test_a_look_at_the_memory_does_not_load_the_sdk() -> None:
    commands = ", ".join(
        f"layerlore.server.command_line.commands.{command}" for command in ("show", "recall", "forget")
    )
    loaded = loaded_by(f"import layerlore.server.command_line.app, {commands}")
    assert not loaded & {"mcp", "mcp_types", "litellm", "starlette", "httpx2"}


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_table_is_as_wide_as_the_terminal_and_breaks_no_word(
    cli: Cli, spender: "Memory", monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, err = cli("usage", *spender.flags)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= columns
    assert {"harbour", "(deleted)", "my-own", "1.25", "total"} <= set(out.split())
    if columns == 40:
        assert re.search(r"^thread +harbour\nmodel +my-own\nfor +steps\ncalls +1\ninput +1,000$", out, re.MULTILINE)
    else:
        assert re.search(r"^ +harbour +my-own +steps +1 +1,000 ", out, re.MULTILINE)


def test_a_table_that_goes_elsewhere_has_a_line_a_row_however_long(cli: Cli, tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    spend(memory, "t" * 250, "m" * 200, 1000)
    out = cli("usage", *memory.flags)[1]
    assert re.search(r"^ +t{250} +m{200} +steps +1 +1,000 ", out, re.MULTILINE)


def test_stdio_says_what_is_wrong_with_its_settings_in_one_line() -> None:
    shown = program("--database", "postgre://u:S3CRET@h/d", LAYERLORE_HTTP__PORT="x")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert re.fullmatch(r"layerlore: database \(from .*\): .*; http\.port \(from .*\): .*\n", shown.stderr)
    assert "S3CRET" not in shown.stderr


def test_launch_flags_count_before_and_after_the_command_and_those_after_it_more(cli: Cli, tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    assert f"{one}/memory.db" in cli("--data-dir", one, "migrate")[1]
    assert f"{two}/memory.db" in cli("migrate", f"--data-dir={two}")[1]
    assert f"{two}/memory.db" in cli("--data-dir", one, "--agent", "x", "migrate", "--data-dir", two)[1]


def test_migrate_brings_the_tables_up_to_date_once(cli: Cli, tmp_path: Path) -> None:
    where = ("migrate", "--data-dir", str(tmp_path))
    state = f"sqlite database {tmp_path}/memory.db: version {latest_version('sqlite')}"
    assert cli(*where) == (0, f"{state}, brought up from version 0\n", "")
    assert cli(*where) == (0, f"{state}, was up to date\n", "")


def test_migrate_refuses_a_newer_database(cli: Cli, tmp_path: Path) -> None:
    where = ("migrate", "--data-dir", str(tmp_path))
    cli(*where)
    connection = driver.connect(str(tmp_path / "memory.db"), synchronous="FULL")
    connection.execute("INSERT INTO schema_migrations VALUES (99, 'later', 0)")
    connection.close()
    code, out, err = cli(*where)
    assert (code, out) == (1, "")
    assert re.fullmatch(r"layerlore: .*schema version 99.*\n", err)


def test_a_database_that_cannot_be_reached_is_one_line_without_its_password(cli: Cli, tmp_path: Path) -> None:
    url = "postgresql://me:S3CRET@127.0.0.1:1/db"
    for command in (["migrate"], ["undo"], ["usage"], ["reindex"], ["recall", "tea"], ["jobs"]):
        code, out, err = cli(*command, "--database", url)
        assert (code, out) == (1, "")
        assert re.fullmatch(r"layerlore: cannot connect to Postgres: .*\n", err)
        assert "S3CRET" not in err
    (tmp_path / "file").write_text("")
    code, _, err = cli("migrate", "--data-dir", str(tmp_path / "file" / "folder"))
    assert code == 1
    assert re.fullmatch(r"layerlore: .*\n", err)


def test_a_path_that_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    shown = program("migrate", "--data-dir", str(tmp_path / "Zoë"), PYTHONIOENCODING="ascii")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"/Zo\\xeb/memory.db: version {latest_version('sqlite')}" in shown.stdout


def test_output_that_nobody_reads_any_more_ends_the_command_quietly(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "layerlore.server", "migrate", "--data-dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(PATIENCE) == 1
        assert process.stderr.read() == ""


class Memory:
    """What a client does in one scope of the database in a folder."""

    def __init__(self, folder: Path, agent: str = "default", resource: str = "default") -> None:
        self.flags = ("--data-dir", str(folder), "--agent", agent, "--resource", resource)
        flags = {"data_dir": str(folder), "agent": agent, "resource": resource, "toolsets": "all"}
        self._settings = load_settings({**flags, "embedding": {"embedder": "none"}}, environ={})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        async def called() -> dict[str, Any]:
            async with Client(build_server(self._settings)) as client:
                result = await client.call_tool(tool, arguments)
                assert not result.is_error, result.content
                assert result.structured_content is not None
                return result.structured_content

        return asyncio.run(called())

    def count(self, thread: str) -> int:
        return len(self.call("get_messages", format="json", thread_id=thread)["messages"])


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    """Two threads, of which one lost its last turn and the other is deleted."""
    memory = Memory(tmp_path)
    for thread in ("harbour", "island"):
        memory.call("add_messages", thread_id=thread, messages=HELLO)
    memory.call("delete_messages", thread_id="harbour", which="last_turn")
    memory.call("delete_thread", thread_id="island")
    return memory


def list_undo_ids(cli: Cli, *flags: str) -> list[str]:
    return re.findall(r"\bu_\w{8}\b", cli("undo", *flags)[1])


def test_undo_without_an_argument_lists_what_can_be_undone_newest_first(cli: Cli, memory: Memory) -> None:
    code, out, err = cli("undo", *memory.flags)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    first, second = (line.strip() for line in lines if " u_" in line)
    assert re.fullmatch(r"u_\w{8} +conversation 'island' deleted +delete_thread +.*", first)
    assert re.fullmatch(r"u_\w{8} +messages of 'harbour' deleted +delete_messages +.*", second)
    assert "undoes one; `last` is the newest" in lines[-1]


def test_undo_undoes_the_delete_that_it_is_given(cli: Cli, memory: Memory) -> None:
    island = list_undo_ids(cli, *memory.flags)[0]
    undone = f"undid {island} (delete_thread); back: 2 messages\n"
    assert cli("undo", island, *memory.flags) == (0, undone, "")
    assert memory.count("island") == 2
    again = f"{island} (delete_thread) is undone already\n"
    assert cli("undo", island, *memory.flags) == (0, again, "")
    code, _, err = cli("undo", "u_unknown1", *memory.flags)
    assert code == 1
    assert err.startswith("layerlore: there is nothing to undo under 'u_unknown1': it is unknown")


def test_undo_last_undoes_the_newest_first(cli: Cli, memory: Memory) -> None:
    memory.call("add_messages", thread_id="harbour", messages=HELLO[:1])
    memory.call("delete_messages", thread_id="harbour", which="last_turn")
    for back, thread, there in (("1 message", "harbour", 1), ("2 messages", "island", 2), ("2 messages", "harbour", 3)):
        code, out, _ = cli("undo", "last", *memory.flags)
        assert (code, out.endswith(f"back: {back}\n")) == (0, True)
        assert memory.count(thread) == there
    code, _, err = cli("undo", "last", *memory.flags)
    assert code == 1
    assert "there is nothing to undo" in err


def test_undo_sees_only_its_own_scope(cli: Cli, memory: Memory, tmp_path: Path) -> None:
    island = list_undo_ids(cli, *memory.flags)[0]
    other = Memory(tmp_path, agent="other").flags
    assert cli("undo", *other) == (0, "nothing to undo for agent 'other' and resource 'default'\n", "")
    assert cli("undo", island, *other)[0] == 1
    assert cli("undo", "last", *other)[0] == 1


def test_undo_makes_no_database(cli: Cli, tmp_path: Path) -> None:
    code, out, err = cli("undo", "--data-dir", str(tmp_path / "none"))
    assert (code, out) == (1, "")
    assert err == f"layerlore: nothing was done: there is no database at {tmp_path}/none/memory.db\n"
    assert not (tmp_path / "none").exists()
    assert "memory is off" in cli("undo", "--data-dir", str(tmp_path), "--memory", "off")[2]


def spend(memory: Memory, thread: str, model: str, tokens: int, **cost: float) -> None:
    step = {"type": "text", "operation_id": "op", "model": model, "usage": {"input_tokens": tokens, **cost}}
    memory.call("record_steps", thread_id=thread, steps=[step])


@pytest.fixture
def spender(tmp_path: Path) -> Memory:
    """What was spent in two threads, one of them deleted, by another resource, and by another agent."""
    memory = Memory(tmp_path)
    spend(memory, "harbour", "my-own", 1000)
    spend(memory, "harbour", "paid", 10, cost=0.5)
    spend(memory, "island", "paid", 20, cost=1.25)
    memory.call("delete_thread", thread_id="island")
    spend(Memory(tmp_path, resource="ben"), "harbour", "paid", 3, cost=0.000000001)
    spend(Memory(tmp_path, agent="coach"), "harbour", "", 4, cost=0.1)
    return memory


def usage_of(cli: Cli, memory: Memory, by: str) -> Any:
    code, out, err = cli("usage", "--by", by, "--json", *memory.flags)
    assert (code, err) == (0, "")
    shown = json.loads(out)
    assert shown["by"] == by
    return shown


def test_usage_by_thread_shows_the_launch_scope_and_what_is_gone_without_its_name(cli: Cli, spender: Memory) -> None:
    shown = usage_of(cli, spender, "thread")
    rows = sorted(shown["rows"], key=lambda row: (row["thread"] or "", row["model"]))
    assert rows == [
        {"thread": None, "source": "steps", "model": "paid", "calls": 1, **tokens(20, 1.25)},
        {"thread": "harbour", "source": "steps", "model": "my-own", "calls": 1, **tokens(1000, 0), "unpriced_calls": 1},
        {"thread": "harbour", "source": "steps", "model": "paid", "calls": 1, **tokens(10, 0.5)},
    ]
    assert shown["total"] == {"calls": 3, **tokens(1030, 1.75), "unpriced_calls": 1}


def tokens(entered: int, cost: float) -> dict[str, Any]:
    return {"input_tokens": entered, "output_tokens": 0, "cost_usd": cost}


def test_usage_by_resource_and_by_agent_looks_across_scopes(cli: Cli, spender: Memory) -> None:
    rows = usage_of(cli, spender, "resource")["rows"]
    assert [(row["resource"], row["model"], row["cost_usd"]) for row in rows] == [
        ("ben", "paid", 1e-9),
        ("default", "my-own", 0),
        ("default", "paid", 1.75),
    ]
    shown = usage_of(cli, spender, "agent")
    assert [(row["agent"], row.get("model"), row["calls"]) for row in shown["rows"]] == [
        ("coach", None, 1),
        ("default", "my-own", 1),
        ("default", "paid", 3),
    ]
    assert shown["total"]["cost_usd"] == 1.850000001


def test_usage_is_a_table_for_people(cli: Cli, spender: Memory) -> None:
    code, out, err = cli("usage", *spender.flags)
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines() if line.strip(" ─")]
    assert lines[0] == ["thread", "model", "for", "calls", "input", "output", "US", "dollars", "unpriced"]
    assert ["harbour", "my-own", "steps", "1", "1,000", "0", "0.00", "1"] in lines
    assert ["harbour", "paid", "steps", "1", "10", "0", "0.50"] in lines
    assert ["(deleted)", "paid", "steps", "1", "20", "0", "1.25"] in lines
    assert lines[-1] == ["total", "3", "1,030", "0", "1.75", "1"]
    out = cli("usage", "--by", "agent", *spender.flags)[1]
    assert "1.750000001" in out
    assert "1.850000001" in out
    assert "(none named)" in out


def test_usage_says_when_there_is_none_and_makes_no_database(cli: Cli, memory: Memory, tmp_path: Path) -> None:
    for by, whose in (("thread", "and resource"), ("resource", "agent 'default'"), ("agent", "any agent")):
        code, out, _ = cli("usage", "--by", by, *memory.flags)
        assert code == 0
        assert re.fullmatch(rf"nothing was spent: no step with usage was recorded for .*{whose}.*\n", out)
    code, out, err = cli("usage", "--data-dir", str(tmp_path / "none"))
    assert (code, out, "there is no database at" in err) == (1, "", True)
    assert not (tmp_path / "none").exists()
    assert "memory is off" in cli("usage", "--data-dir", str(tmp_path), "--memory", "off")[2]
    assert cli("usage", "--by", "person")[0] == 2
