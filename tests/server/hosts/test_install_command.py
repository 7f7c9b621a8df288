"""``layerlore install`` and ``uninstall`` in hosts' own files, in the shapes that the hosts document."""

import base64
import errno
import itertools
import json
import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path, PureWindowsPath
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launch_environment import own_environment
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from ruamel.yaml import YAML

from layerlore.server.capture.memory_notes import put_section
from layerlore.server.hosts.catalog import BY_NAME, HOSTS, Places
from layerlore.server.hosts.hook_files import find_hooks
from layerlore.server.hosts.host_file import HostFile, drop_json, parse_json, set_json
from layerlore.server.hosts.installation import is_evictable
from layerlore.server.relay.hook_events import HOOK_EVENTS

from ..command_line.test_command_line import Cli, program

pytestmark = pytest.mark.anyio

JSONC = """// Mine.
{
  "theme": "dark", // at night
  %s: {
    /* the files here */
    "files": {"command": "npx", "args": ["-y", "files"],},
  },
  "é": 1e3
}
"""
TOML = """# Mine.
model = "o5" # the good one

[mcp_servers.files]
command = "npx"
args = ["-y", "files"]

[profiles.fast]
model = "o5-mini"
"""
YAML_TEXT = """# Mine.
GOOSE_MODEL: gpt-5  # the good one
extensions:
  developer:
    enabled: true
    type: builtin
    name: developer
GOOSE_MODE: 'auto'
"""
ENTRY = {
    "claude-code": {"type": "stdio"},
    "vscode": {"type": "stdio"},
    "cline": {"disabled": False},
    "copilot-cli": {"type": "stdio", "tools": ["*"]},
    "zed": {"source": "custom", "env": {}},
}


@pytest.fixture
def home(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's folder without any host, and a data folder of its own. The command line has cleared the variables first."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLINE_DIR", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("LAYERLORE_DATA_DIR", str(tmp_path / "data"))
    # Else each installation would start a server.
    monkeypatch.setenv("LAYERLORE_LOCAL__SHARE", "false")
    return folder


def fixture_of(host: Any) -> str:
    if host.format == "json":
        return JSONC % json.dumps(host.keys[0])
    return TOML if host.format == "toml" else YAML_TEXT


def read(host: Any, text: str) -> Any:
    if host.format == "json":
        return parse_json(text)
    return tomllib.loads(text) if host.format == "toml" else YAML(typ="safe").load(text)


def place(host: Any, text: str) -> Path:
    path = host.find_file(Places())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_a_host_is_told_in_its_own_shape_and_all_else_stays_and_it_is_taken_back_to_the_byte(
    host: Any, home: Path, cli: Cli
) -> None:
    before = fixture_of(host)
    path = place(host, before)
    path.chmod(0o640)
    code, told, _ = cli("install", host.name, "--agent", "helper")
    assert code == 0
    assert f"{host.title}: added to {path}" in told
    after = path.read_text(encoding="utf-8")
    found = read(host, after)
    entry = found[host.keys[0]].pop("layerlore")
    assert found == read(host, before)
    for line in (line for line in before.splitlines() if "//" in line or "#" in line or "/*" in line):
        assert line in after
    if host.name in ("opencode", "goose"):
        command = entry["command"] if host.name == "opencode" else [entry["cmd"], *entry["args"]]
        assert entry["type"] == ("local" if host.name == "opencode" else "stdio")
        assert entry["enabled"] is True
    else:
        command = [entry.pop("command"), *entry.pop("args")]
        assert entry == ENTRY.get(host.name, {})
    assert Path(command[0]).is_absolute()
    assert command[-2:] == ["--agent", "helper"]
    assert path.stat().st_mode & 0o777 == 0o640
    (backup,) = path.parent.glob("*.layerlore-backup")
    assert backup.read_text(encoding="utf-8") == before

    assert cli("install", host.name, "--agent", "helper")[1].startswith(f"{host.title}: unchanged")
    assert path.read_text(encoding="utf-8") == after
    assert cli("uninstall", host.name)[0] == 0
    assert path.read_text(encoding="utf-8") == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["cursor", "codex", "goose"])
def test_what_somebody_else_changed_meanwhile_stays_when_it_is_taken_back(name: str, home: Path, cli: Cli) -> None:
    host = BY_NAME[name]
    path = place(host, fixture_of(host))
    cli("install", name)
    cli("install", name, "--agent", "other")
    written = path.read_text(encoding="utf-8")
    path.write_text(written.replace("Mine.", "Mine, and changed."), encoding="utf-8")
    assert f"{host.title}: removed" in cli("uninstall")[1]
    left = path.read_text(encoding="utf-8")
    assert "Mine, and changed." in left
    assert "layerlore" not in left
    assert read(host, left) == read(host, fixture_of(host))


@pytest.mark.parametrize(
    ("name", "added"),
    [
        # As Codex writes that its user trusts a hook.
        ("codex", '\n[hooks.state."/home/ana/.codex/hooks.json:stop:0:0"]\ntrusted_hash = "sha256:1"\n'),
        ("goose", "GOOSE_MODEL: gpt-5\n"),
    ],
)
def test_what_the_host_added_to_a_file_of_ours_alone_is_all_that_stays(
    name: str, added: str, home: Path, cli: Cli
) -> None:
    host = BY_NAME[name]
    cli("install", name, "--capture")
    path = host.find_file(Places())
    path.write_text(path.read_text(encoding="utf-8") + added, encoding="utf-8")
    code, told, _ = cli("uninstall")
    assert (code, f"{host.title}: removed from {path}" in told) == (0, True)
    assert read(host, path.read_text(encoding="utf-8")) == read(host, added)


@pytest.mark.parametrize("name", [host.name for host in HOSTS])
def test_a_file_that_was_not_there_is_gone_again_with_its_folders(name: str, home: Path, cli: Cli) -> None:
    assert cli("install", name)[0] == 0
    assert BY_NAME[name].find_file(Places()).exists()
    assert cli("uninstall", name)[0] == 0
    assert not any(home.iterdir())


@pytest.mark.parametrize(
    "text", ["{", '{"mcpServers": ', "[]", '{"mcpServers": []}', '{"mcpServers": {"layerlore": {"command": "else"}}}']
)
def test_a_file_that_cannot_be_changed_safely_stays_and_the_other_hosts_are_told(
    text: str, home: Path, cli: Cli
) -> None:
    kept = place(BY_NAME["cursor"], text)
    (home / ".claude").mkdir()
    code, told, _ = cli("install", "all")
    assert code == 1
    assert f"Cursor: refused: {kept}" in told
    assert "Claude Code: added" in told
    assert kept.read_text(encoding="utf-8") == text
    assert [each.name for each in kept.parent.iterdir()] == [kept.name]


def test_a_file_that_cannot_be_written_stays_whole_and_the_other_hosts_are_told(
    home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = [OSError(28, "No space left on device")]

    def sync(_: int) -> None:
        if fail:
            raise fail.pop()

    monkeypatch.setattr("layerlore.server.process.safe_files.os.fsync", sync)
    code, told, _ = cli("install", "claude-code", "cursor")
    assert code == 1
    assert "Claude Code: refused: " in told
    assert "cannot be written: No space left on device" in told
    assert "Cursor: added to " in told
    assert [each.name for each in home.iterdir()] == [".cursor"]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("cursor", '{\r\n  "mcpServers": {\r\n    "a": {"command": "x"}\r\n  }\r\n}\r\n'),
        ("codex", TOML),
        ("goose", YAML_TEXT),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_file_of_windows_keeps_its_line_ends_and_its_mark(
    name: str, shape: str, mark: str, home: Path, cli: Cli
) -> None:
    host = BY_NAME[name]
    path = host.find_file(Places())
    path.parent.mkdir(parents=True)
    before = (mark + "\r\n".join(shape.splitlines()) + "\r\n").encode()
    path.write_bytes(before)
    assert cli("install", name)[0] == 0
    written = path.read_bytes().decode()
    assert written.startswith(mark)
    assert "layerlore" in str(read(host, written.removeprefix("\ufeff")))
    assert written.count("\n") == written.count("\r\n") > before.count(b"\n")
    path.write_bytes(written.replace("\r\n", "\r\n\r\n", 1).encode())
    assert cli("uninstall", name)[0] == 0
    left = path.read_bytes().decode()
    assert read(host, left.removeprefix("\ufeff")) == read(host, before.decode().removeprefix("\ufeff"))
    assert left.count("\n") == left.count("\r\n")


@pytest.mark.parametrize("linked", ["mcp.json", "."])
def test_a_link_that_leads_nowhere_stays_and_nothing_is_made_where_it_leads(
    linked: str, home: Path, cli: Cli, tmp_path: Path
) -> None:
    link = home / ".cursor" / linked
    link.parent.mkdir(exist_ok=True)
    nowhere = tmp_path / "dotfiles" / "there"
    link.symlink_to(nowhere)
    code, told, _ = cli("install", "cursor")
    assert code == 1
    assert f"refused: {link} is a link to {nowhere}, which does not exist" in told
    assert link.is_symlink()
    assert not nowhere.parent.exists()
    assert cli("uninstall")[0] == 0
    assert link.is_symlink()


def test_a_file_that_was_put_elsewhere_with_a_link_to_it_stays_there_when_it_is_taken_back(
    home: Path, cli: Cli, tmp_path: Path
) -> None:
    cli("install", "cursor")
    file, moved = home / ".cursor" / "mcp.json", tmp_path / "dotfiles.json"
    file.rename(moved)
    file.symlink_to(moved)
    assert "Cursor: removed from" in cli("uninstall")[1]
    assert file.is_symlink()
    assert json.loads(moved.read_text(encoding="utf-8")) == {}


@pytest.mark.parametrize("odd", ["pipe", "folder", "device", "loop"])
def test_what_is_no_file_stays_and_the_reason_is_said(odd: str, home: Path, cli: Cli) -> None:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    if odd == "pipe":
        os.mkfifo(path)
    elif odd == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if odd == "device" else path.name)
    before = path.lstat().st_mode, path.lstat().st_ino
    code, told, _ = cli("install", "cursor")
    assert code == 1
    assert f"Cursor: refused: {path} cannot be read: " in told
    assert (path.lstat().st_mode, path.lstat().st_ino) == before
    assert "its file cannot be read" in cli("install")[1]
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_file_that_cannot_be_replaced_leaves_no_backup_and_no_record(
    home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = place(BY_NAME["cursor"], "{}")
    with monkeypatch.context() as patched:

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted", ".mcp.json.1.part")

        # An immutable file refuses just this.
        patched.setattr("layerlore.server.process.safe_files.os.rename", refuse)
        code, told, _ = cli("install", "cursor", "codex")
    assert code == 1
    why = "cannot be written: Operation not permitted; it may be locked or immutable"
    assert f"Cursor: refused: {path} {why}" in told
    assert f"Codex: refused: {home / '.codex' / 'config.toml'} {why}" in told
    assert path.read_text(encoding="utf-8") == "{}"
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert [each.name for each in home.iterdir()] == [".cursor"]
    assert json.loads((tmp_path / "data" / "hosts.json").read_text(encoding="utf-8")) == {}


def test_nothing_is_written_that_could_not_be_taken_back(home: Path, cli: Cli, tmp_path: Path) -> None:
    path = place(BY_NAME["cursor"], "{}")
    (tmp_path / "data" / "hosts.json.new").mkdir(parents=True)
    code, told, _ = cli("install", "cursor")
    assert code == 1
    assert "hosts.json.new cannot be written" in told
    assert path.read_text(encoding="utf-8") == "{}"
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_hooks_of_vs_code_do_not_pass_for_copilot_cli(home: Path, cli: Cli) -> None:
    place(BY_NAME["vscode"], "{}")
    assert cli("install", "all", "--capture")[0] == 0
    assert (home / ".copilot/hooks/layerlore.json").is_file()
    assert "Copilot CLI" not in cli("install", "all", "--capture")[1]
    assert "Copilot CLI" not in cli("doctor")[1]
    (home / ".copilot/config.json").touch()
    assert "Copilot CLI: added to" in cli("install", "all")[1]


def test_clines_file_is_that_of_its_form_which_is_here(home: Path, cli: Cli) -> None:
    settings = home / ".cline" / "data"
    settings.mkdir(parents=True)
    assert cli("install", "cline")[0] == 0
    written = settings / "settings" / "cline_mcp_settings.json"
    assert "layerlore" in json.loads(written.read_text(encoding="utf-8"))["mcpServers"]
    assert not (home / ".config").exists()
    assert cli("uninstall")[0] == 0
    extension = home / ".config" / "Code" / "User" / "globalStorage" / "saoudrizwan.claude-dev"
    extension.mkdir(parents=True)
    cli("install", "cline")
    assert (extension / "settings" / "cline_mcp_settings.json").exists()


def test_only_hosts_that_are_here_are_told_by_all_and_a_list_says_which_they_are(home: Path, cli: Cli) -> None:
    (home / ".claude").mkdir()
    (home / ".codex").mkdir()
    assert cli("install", "all")[1].count("added") == 2
    rows = {line.split()[0]: line for line in cli("install")[1].splitlines() if line.strip()}
    assert "knows this server" in rows["codex"]
    assert " no " in rows["zed"]
    assert "no host is named 'emacs'; there are: claude-desktop" in cli("install", "emacs")[2]


def test_an_entry_of_ours_under_another_name_is_named(home: Path, cli: Cli) -> None:
    mine = {"notes": {"command": "npx", "args": ["/src/layerlore"]}, "memory": {"command": "/opt/bin/layerlore"}}
    path = place(BY_NAME["cursor"], json.dumps({"mcpServers": mine}))
    code, told, _ = cli("install", "cursor")
    assert code == 0
    assert f"{path} also names this server as 'memory'" in told
    assert "'notes'" not in told
    assert json.loads(path.read_text(encoding="utf-8"))["mcpServers"].keys() == {"notes", "memory", "layerlore"}


def test_what_would_be_written_is_printed_with_a_link_and_nothing_is_written(home: Path, cli: Cli) -> None:
    code, printed, _ = cli("install", "cursor", "vscode", "lm-studio", "goose", "--print")
    assert code == 0
    assert not any(home.iterdir())
    links = {line.split(": ", 1)[1] for line in printed.splitlines() if line.startswith("  or open: ")}
    by_scheme = {link.partition(":")[0]: link for link in links}
    for scheme in ("cursor", "lmstudio"):
        (config,) = parse_qs(urlsplit(by_scheme[scheme]).query)["config"]
        assert json.loads(base64.b64decode(config))["args"] == []
    assert json.loads(unquote(by_scheme["vscode"].partition("?")[2]))["name"] == "layerlore"
    assert Path(parse_qs(urlsplit(by_scheme["goose"]).query)["cmd"][0]).is_absolute()


def test_a_server_over_http_is_told_the_project_of_the_folder_that_the_file_is_in(
    home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "shop"
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    remote = ("remote", "add", "origin", "https://github.com/ana/shop.git")
    subprocess.run(["git", "-C", str(folder), *remote], check=True)
    monkeypatch.chdir(folder)
    over_http = ("--http", "https://mem.example.com/mcp", "--projects")
    for name, key in (("claude-code", "headers"), ("codex", "http_headers"), ("gemini-cli", "headers")):
        assert cli("install", name, "--project", *over_http)[0] == 0
        host = BY_NAME[name]
        written = read(host, (folder / host.project).read_text(encoding="utf-8"))[host.keys[0]]["layerlore"]
        assert written[key] == {"Layerlore-Project": "github.com/ana/shop"}
    code, _, told = cli("install", "claude-code", *over_http)
    assert code == 2
    assert "--projects with a URL needs --project" in told
    assert cli("install", "claude-code", *over_http, "--key-file", "~/key")[0] == 0
    arguments = json.loads((home / ".claude.json").read_text(encoding="utf-8"))["mcpServers"]["layerlore"]["args"]
    assert arguments[-2:] == ["--project", "auto"]


def test_a_server_over_http_is_named_by_its_url_and_with_a_key_by_the_bridge(home: Path, cli: Cli) -> None:
    url = "https://127.0.0.1:1/mcp"
    for name, key in (("gemini-cli", "httpUrl"), ("windsurf", "serverUrl"), ("goose", "uri"), ("codex", "url")):
        assert cli("install", name, "--http", url)[0] == 0
        host = BY_NAME[name]
        path = host.find_file(Places())
        assert read(host, path.read_text(encoding="utf-8"))[host.keys[0]]["layerlore"][key] == url
    assert "--key-file" in cli("install", "claude-desktop", "--http", url)[2]
    assert cli("install", "claude-desktop", "--http", url, "--key-file", "~/key")[0] == 0
    written = json.loads((home / ".config/Claude/claude_desktop_config.json").read_text(encoding="utf-8"))
    assert written["mcpServers"]["layerlore"]["args"] == ["bridge", url, "--key-file", str(home / "key")]
    assert cli("install", "cursor", "--http", "http://mem.example.com")[0] == 2


def test_a_project_has_files_of_its_own(home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("install", "claude-code", "codex", "--project")[0] == 0
    assert "layerlore" in (tmp_path / ".mcp.json").read_text(encoding="utf-8")
    assert "layerlore" in (tmp_path / ".codex" / "config.toml").read_text(encoding="utf-8")
    assert "has no file for one project" in cli("install", "goose", "--project")[2]
    assert cli("uninstall", "--project")[0] == 0
    assert not (tmp_path / ".mcp.json").exists()
    assert not (tmp_path / ".codex").exists()


def test_a_plain_uninstall_finds_the_files_of_projects_too(
    home: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        monkeypatch.chdir(folder)
        assert cli("install", "claude-code", "codex", "--project", "--capture")[0] == 0
    cli("install", "cursor")
    monkeypatch.chdir(tmp_path)
    elsewhere = folders[0] / ".codex"
    elsewhere.rename(tmp_path / "moved")
    elsewhere.symlink_to(tmp_path / "moved")
    code, told, _ = cli("uninstall")
    # A link in a project may be another person's.
    assert code == 1
    assert told.count("is a link") == 2
    assert f"Claude Code: removed from {folders[0] / '.mcp.json'}" in told
    assert f"Cursor: removed from {home}" in told
    assert [each.name for each in folders[0].iterdir()] == [".codex"]
    assert not any(folders[1].iterdir())


LINT = {"command": "/src/layerlore/lint.sh"}
OTHERS = {"hooks": {"%s": [LINT, {"matcher": "", "hooks": [LINT]}], "Other": []}, "mine": 1}


@pytest.mark.parametrize("name", list(HOOK_EVENTS))
def test_hooks_stand_beside_others_and_are_taken_back_alone(name: str, home: Path, cli: Cli) -> None:
    (written, *_), first = find_hooks(name, ())[0], HOOK_EVENTS[name][0].name
    path = Places().find(written.file)
    path.parent.mkdir(parents=True, exist_ok=True)
    before = (json.dumps(OTHERS) + "\n") % first
    path.write_text(before, encoding="utf-8")
    assert cli("install", name, "--capture")[0] == 0
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["mine"] == 1
    assert found["hooks"][first][:-1] == OTHERS["hooks"]["%s"]  # type: ignore[index]
    for event in HOOK_EVENTS[name]:
        ours = json.dumps(found["hooks"][event.name][-1]).replace('", "', " ")
        assert f"hook {name} {event.name}" in ours
    assert "added" not in cli("install", name, "--capture")[1]
    path.write_text(path.read_text(encoding="utf-8").replace('"mine": 1', '"mine": 2'), encoding="utf-8")
    assert cli("uninstall", name)[0] == 0
    left = json.loads(path.read_text(encoding="utf-8"))
    assert left.pop("version", 1) == 1
    assert left == json.loads(before) | {"mine": 2}


def test_a_group_keeps_the_hooks_of_others_and_what_is_no_list_of_hooks_stays(home: Path, cli: Cli) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    ours = {"command": "/old/python", "args": ["-m", "layerlore.server", "hook", "claude-code", "Stop"]}
    path.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [LINT, ours]}, {"hooks": [ours]}]}}), encoding="utf-8")
    assert cli("install", "claude-code", "--capture")[0] == 0
    kept, new = json.loads(path.read_text(encoding="utf-8"))["hooks"]["Stop"]
    assert kept == {"hooks": [LINT]}
    assert new["hooks"][0]["args"][-2:] == ["claude-code", "Stop"]
    for odd in ({"Stop": LINT}, {"Stop": 7}):
        path.write_text(before := json.dumps({"hooks": odd}), encoding="utf-8")
        code, told, _ = cli("install", "claude-code", "--capture")
        assert (code, "hooks.Stop is no list of hooks" in told) == (1, True)
        assert path.read_text(encoding="utf-8") == before


def test_hosts_that_open_folders_are_told_to_find_the_project_their_hooks_too(home: Path, cli: Cli) -> None:
    assert cli("install", "claude-code", "claude-desktop", "--capture", "--projects")[0] == 0
    told = json.loads((home / ".claude.json").read_text(encoding="utf-8"))["mcpServers"]["layerlore"]
    assert told["args"][-2:] == ["--project", "auto"]
    hooks = json.loads((home / ".claude" / "settings.json").read_text(encoding="utf-8"))["hooks"]
    assert hooks["Stop"][0]["hooks"][0]["args"][-4:] == ["claude-code", "Stop", "--project", "auto"]
    assert "--project" not in BY_NAME["claude-desktop"].find_file(Places()).read_text(encoding="utf-8")


def test_memory_files_are_kept_in_step_if_asked_and_uninstall_takes_our_sections_back(home: Path, cli: Cli) -> None:
    notes = home / ".claude" / "projects" / "-work-shop" / "memory"
    notes.mkdir(parents=True)
    (home / ".codex").mkdir()
    code, told, _ = cli("install", "claude-code", "codex", "cursor", "--memory-files")
    assert (code, "memory files of these are kept in step: Claude Code, Codex." in told) == (0, True)
    hooks = json.loads((home / ".claude" / "settings.json").read_text(encoding="utf-8"))["hooks"]
    assert hooks["Stop"][0]["hooks"][0]["args"][-3:] == ["claude-code", "Stop", "--memory-files"]
    assert "--memory-files" in (home / ".codex" / "hooks.json").read_text(encoding="utf-8")
    assert "--memory-files" not in (home / ".cursor" / "hooks.json").read_text(encoding="utf-8")
    before = {
        home / ".claude" / "CLAUDE.md": b"# Mine\r\nObey.",
        notes / "MEMORY.md": b"- Index.\n",
        home / ".codex" / "AGENTS.md": None,
    }

    def write_sections() -> None:
        for path, content in before.items():
            text = None if content is None else content.decode()
            path.write_bytes(put_section(text, ["- Ana likes pears."], "0a1b2c3d").encode())

    for command in (("install", "--capture"), ("uninstall",)):
        write_sections()
        code, told, _ = cli(command[0], "claude-code", "codex", *command[1:])
        assert (code, f"Claude Code: removed from {notes / 'MEMORY.md'}" in told) == (0, True)
        assert {path: path.read_bytes() if path.exists() else None for path in before} == before
    code, _, err = cli("install", "claude-code", "--project", "--memory-files")
    assert (code, "your own files" in err) == (2, True)


def test_hooks_alone_leave_nothing_behind_and_a_host_without_them_is_named(home: Path, cli: Cli) -> None:
    assert "so their models must call the tools: Zed." in cli("install", "zed", *HOOK_EVENTS, "--capture")[1]
    assert tomllib.loads((home / ".codex" / "config.toml").read_text(encoding="utf-8"))["features"] == {"hooks": True}
    assert cli("uninstall")[0] == 0
    assert not any(home.iterdir())
    assert "leave --http out" in cli("install", "codex", "--memory-files", "--http", "https://mem.example.com")[2]


@pytest.mark.parametrize(
    ("name", "file", "text", "said"),
    [
        ("claude-code", ".claude/settings.json", '{"disableAllHooks": true}', "disableAllHooks = true in "),
        ("codex", ".codex/config.toml", "[features]\nhooks = false\n", "features.hooks = false in "),
        (
            "gemini-cli",
            ".gemini/settings.json",
            '{"hooksConfig": {"enabled": false}}',
            "hooksConfig.enabled = false in ",
        ),
        ("copilot-cli", ".copilot/settings.json", '{"disableAllHooks": true}', "disableAllHooks = true in "),
    ],
)
def test_a_setting_that_switches_hooks_off_is_named_and_stays(
    name: str, file: str, text: str, said: str, home: Path, cli: Cli
) -> None:
    assert "no hook runs" not in cli("install", name, "--capture")[1]
    cli("uninstall")
    path = home / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    assert f"no hook runs, and nothing is stored, because of {said}{path}" in cli("install", name, "--capture")[1]
    assert "no hook runs" not in cli("install", name)[1]
    assert cli("uninstall")[0] == 0
    assert path.read_text(encoding="utf-8") == text


def test_codex_has_to_trust_its_hooks_which_is_said_until_it_does(home: Path, cli: Cli) -> None:
    said = "Codex runs no hook that you have not trusted: open /hooks in it, and trust them."
    assert said in cli("install", "codex", "--capture")[1]
    config = home / ".codex" / "config.toml"
    state = f'\n[hooks.state."{home}/.codex/hooks.json:stop:0:0"]\ntrusted_hash = "sha256:1"\n'
    config.write_text(config.read_text(encoding="utf-8") + state, encoding="utf-8")
    assert said not in cli("install", "codex", "--capture")[1]


@pytest.mark.parametrize(
    ("name", "platform", "expected"),
    [
        ("claude-desktop", "darwin", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", "AppData/Roaming/Claude/claude_desktop_config.json"),
        ("claude-desktop", "linux", ".config/Claude/claude_desktop_config.json"),
        ("vscode", "darwin", "Library/Application Support/Code/User/mcp.json"),
        ("vscode", "win32", "AppData/Roaming/Code/User/mcp.json"),
        ("zed", "darwin", ".config/zed/settings.json"),
        ("zed", "win32", "AppData/Roaming/Zed/settings.json"),
        ("goose", "win32", "AppData/Roaming/Block/goose/config/config.yaml"),
        ("goose", "darwin", ".config/goose/config.yaml"),
        ("codex", "win32", ".codex/config.toml"),
    ],
)
def test_each_platform_has_its_own_places(name: str, platform: Any, expected: str, tmp_path: Path) -> None:
    places = Places(platform, tmp_path, {})
    (tmp_path / expected).parent.mkdir(parents=True)
    (tmp_path / expected).touch()
    assert BY_NAME[name].find_file(places) == tmp_path / expected
    assert BY_NAME[name].is_installed(places)


def test_the_store_build_of_claude_desktop_on_windows_has_a_folder_of_its_own(tmp_path: Path) -> None:
    places = Places("win32", tmp_path, {"LOCALAPPDATA": str(tmp_path / "Local"), "APPDATA": str(tmp_path / "Roaming")})
    path = BY_NAME["claude-desktop"].find_file(places)
    assert PureWindowsPath(path).parts[-5:-2] == ("Claude_pzs8sxrjxfjjc", "LocalCache", "Roaming")


async def test_what_a_host_reads_there_launches_a_server_that_answers(home: Path, cli: Cli) -> None:
    cli("install", "claude-code")
    written = json.loads((home / ".claude.json").read_text(encoding="utf-8"))["mcpServers"]["layerlore"]
    launched = StdioServerParameters(command=written["command"], args=written["args"], env=own_environment())
    async with Client(stdio_client(launched)) as client:
        assert "recall_memory" in {tool.name for tool in (await client.list_tools()).tools}


def test_an_environment_in_a_folder_for_temporary_files_is_not_copied_and_the_user_is_warned(
    home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(Path(sys.prefix).parent))
    assert "lies in a folder for temporary files" in cli("install", "cursor")[1]
    assert not (tmp_path / "data" / "runtime").exists()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert "temporary" not in cli("install", "cursor")[1]


@pytest.mark.programs
def test_a_program_in_a_cache_is_copied_to_where_no_cache_evicts_it(home: Path, tmp_path: Path) -> None:
    cached = tmp_path / "uv" / "archive-v0" / "Xy1"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(cached)
    (packages,) = (cached / "lib").glob("python*/site-packages")
    own = [path for path in sys.path if "site-packages" in path or path.endswith(".dev")]
    (packages / "ours.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in own))
    command = [str(cached / "bin" / "python"), "-m", "layerlore.server"]
    environment = os.environ | own_environment()
    printed = subprocess.run(
        [*command, "install", "cursor", "--print"], env=environment, capture_output=True, check=False
    )
    assert printed.returncode == 0
    assert not [*home.rglob("runtime")]
    done = subprocess.run([*command, "install", "cursor"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    entry = json.loads((home / ".cursor" / "mcp.json").read_text(encoding="utf-8"))["mcpServers"]["layerlore"]
    assert str(cached) not in str(entry)
    assert not is_evictable(Path("/home/me/.local/share/uv/tools/layerlore"))
    shown = subprocess.run([entry["command"], *entry["args"], "--version"], capture_output=True, text=True, check=False)
    assert shown.stdout == program("--version").stdout


GAPS = st.sampled_from(["", " ", "\n  ", ' // a, "b": {}\n', "/* x, } */", "\r\n\t"])
NAMES = st.sampled_from(["a", "mcpServers", "é", "layerlore", 'q"', "//"])


@st.composite
def documents(draw: st.DrawFn, depth: int = 0) -> str:
    """An object with comments and, at times, a trailing comma."""
    members = []
    for name in draw(st.lists(NAMES, unique=True, max_size=4)):
        simple = st.sampled_from(["1", '"// no, comment"', '[1, {"x": 2},]', "null", "{}"])
        value = draw(simple if depth == 2 else st.one_of(simple, documents(depth=depth + 1)))
        members.append(f"{draw(GAPS)}{json.dumps(name)}{draw(GAPS)}:{draw(GAPS)}{value}{draw(GAPS)}")
    comma = "," + draw(GAPS) if members and draw(st.booleans()) else ""
    return "{" + ",".join(members) + comma + draw(GAPS) + "}"


@settings(max_examples=100, deadline=None)
@given(documents(), st.lists(NAMES, min_size=1, max_size=3))
def test_a_value_is_set_in_any_json_with_comments_and_dropped_again_and_no_comment_is_lost(
    text: str, path: list[str]
) -> None:
    before, expected = parse_json(text), parse_json(text)
    inside: Any = expected
    for key in path[:-1]:
        inner = inside.get(key)
        inside[key] = inner if isinstance(inner, dict) else {}
        inside = inside[key]
    known = path[-1] in inside
    inside[path[-1]] = {"command": "c"}
    after = set_json(text, path, {"command": "c"})
    assert parse_json(after) == expected
    if not known and before == parse_json(drop_json(after, path)):
        for comment in ('// a, "b": {}', "/* x, } */"):
            assert drop_json(after, path).count(comment) == text.count(comment)
    del inside[path[-1]]
    assert parse_json(drop_json(after, path)) == expected
    assert HostFile(Path("x"), "json").parse(text) == before


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_what_a_host_writes_at_the_same_time_stays(
    home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    file = home / ".claude.json"
    file.write_text('{"own": 0}')
    if command == "uninstall":
        assert cli("install", "claude-code")[0] == 0
    writes = iter(range(1, 4))

    def write_between(*_: object) -> None:
        """The host writes its file at the last moment, three times."""
        if (number := next(writes, None)) is not None:
            known = json.loads(file.read_text())
            file.write_text(json.dumps({**known, "own": number}))

    read = HostFile.read

    def slow_read(self: HostFile) -> str | None:
        found = read(self)
        if self.path == file:
            write_between()
        return found

    monkeypatch.setattr(HostFile, "read", slow_read)
    assert cli(command, "claude-code")[0] == 0
    left = json.loads(file.read_text())
    assert left["own"] == 3
    assert ("layerlore" in left.get("mcpServers", {})) is (command == "install")


def test_a_file_that_others_change_all_the_time_stays_as_it_is(
    home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = home / ".claude.json"
    file.write_text('{"own": 0}')
    read = HostFile.read
    count = itertools.count(1)

    def slow_read(self: HostFile) -> str | None:
        found = read(self)
        if self.path == file:
            file.write_text(json.dumps({"own": next(count)}))
        return found

    monkeypatch.setattr(HostFile, "read", slow_read)
    code, told, _ = cli("install", "claude-code")
    assert code == 1
    assert "is being changed by others all the time" in told
    assert [each.name for each in home.iterdir()] == [".claude.json"]
    assert json.loads(file.read_text()).keys() == {"own"}
