"""The plugins, the marketplaces, server.json and the bundle: made from the program's own tables, in the documented shapes."""

import base64
import json
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from ruamel.yaml import YAML
from source_tree import ROOT

from layerlore.server.process.version import VERSION
from layerlore.server.relay.hook_events import HOOK_EVENTS
from layerlore.server.settings.settings import Settings, load_settings
from layerlore.server.tools.toolsets import choose_tools

PLUGINS = ROOT / "plugins"
BY_HAND = {"plugins/make_bundle.py", "plugins/skills/curate-memory/SKILL.md", "plugins/skills/use-memory/SKILL.md"}
HOSTS = ("claude-code", "codex", "gemini-cli")
LAUNCH = {"command": "layerlore", "args": []}
NAMED = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def run(*command: str | Path, **options: Any) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def test_what_is_made_for_hosts_and_registries_is_what_its_program_makes(tmp_path: Path) -> None:
    run(sys.executable, "docs/generate_plugins.py", tmp_path)
    made = {
        str(path.relative_to(tmp_path)): path.read_text(encoding="utf-8")
        for path in tmp_path.rglob("*.*")
        if path.is_file()
    }
    listed = run(
        "git", "ls-files", "--cached", "--others", "--exclude-standard", "plugins", ".claude-plugin", ".agents"
    )
    kept = {*listed.split(), "server.json", "docs/hosts.md"} - BY_HAND
    assert {path: (ROOT / path).read_text(encoding="utf-8") for path in kept} == made


@pytest.mark.parametrize("skill", sorted(PLUGINS.rglob("SKILL.md")), ids=lambda path: str(path.relative_to(PLUGINS)))
def test_a_skill_has_the_head_that_hosts_read_and_is_short(skill: Path) -> None:
    _, head, text = skill.read_text(encoding="utf-8").split("---\n", 2)
    told = YAML(typ="safe").load(head)
    assert told.keys() == {"name", "description", "license"}
    assert told["name"] == skill.parent.name
    assert NAMED.fullmatch(told["name"])
    assert len(told["description"]) < 500  # 1,024 are allowed; each conversation reads it
    assert len(text.split()) < 650


def test_the_plugins_have_their_documented_shapes_and_the_version_of_the_program() -> None:
    claude = read("plugins/claude-code/.claude-plugin/plugin.json")
    codex = read("plugins/codex/.codex-plugin/plugin.json")
    gemini = read("plugins/gemini-cli/gemini-extension.json")
    shared = read("plugins/agent-plugins/plugin.json")
    for manifest in (claude, codex, gemini, shared):
        assert (manifest["name"], manifest["version"]) == ("layerlore", VERSION)
    assert read("plugins/claude-code/.mcp.json") == {"mcpServers": {"layerlore": {"type": "stdio", **LAUNCH}}}
    assert read("plugins/codex/.mcp.json") == {"mcpServers": {"layerlore": LAUNCH}}
    assert gemini["mcpServers"] == {"layerlore": LAUNCH}
    assert (PLUGINS / "gemini-cli" / gemini["contextFileName"]).is_file()
    for place in ("skills", "mcpServers", "hooks"):
        assert codex[place].startswith("./")
        assert (PLUGINS / "codex" / codex[place]).exists()
    # Agent Plugins' schemas are closed: they allow no other member.
    assert shared.keys() == {"$schema", "name", "version", "description", "author", "license", "keywords"}
    assert read("plugins/agent-plugins/mcp.json")["mcpServers"] == {"layerlore": {"type": "stdio", **LAUNCH}}
    assert {shared["$schema"], read("plugins/agent-plugins/mcp.json")["$schema"]} == {
        f"https://agent-plugins.org/schemas/1.0.0/{name}.schema.json" for name in ("plugin", "mcp")
    }


def test_the_marketplaces_name_the_folders_of_their_plugins() -> None:
    claude, codex = read(".claude-plugin/marketplace.json"), read(".agents/plugins/marketplace.json")
    assert {"name", "owner", "plugins"} <= claude.keys()
    (named,), (local,) = claude["plugins"], codex["plugins"]
    assert (ROOT / named["source"] / ".claude-plugin" / "plugin.json").is_file()
    assert local["source"]["source"] == "local"
    assert (ROOT / local["source"]["path"] / ".codex-plugin" / "plugin.json").is_file()
    assert named["name"] == local["name"] == "layerlore"


@pytest.mark.parametrize("host", HOSTS)
def test_each_event_that_a_host_has_calls_its_hook(host: str) -> None:
    hooks = read(f"plugins/{host}/hooks/hooks.json")["hooks"]
    called = {}
    for event, ((hook,),) in ((event, [group["hooks"] for group in groups]) for event, groups in hooks.items()):
        assert hook["type"] == "command"
        called[event] = [hook["command"], *hook["args"]] if "args" in hook else shlex.split(hook["command"])
    assert called == {each.name: ["layerlore", "hook", host, each.name] for each in HOOK_EVENTS[host]}


def test_the_entry_for_the_registry_has_the_limits_of_its_schema() -> None:
    """The schema of 2025-12-11: https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json."""
    entry = read("server.json")
    assert entry.keys() == {"$schema", "name", "title", "description", "version", "packages"}
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert len(entry["description"]) <= 100
    (package,) = entry["packages"]
    assert package.pop("environmentVariables")
    assert package == {
        "registryType": "pypi",
        "registryBaseUrl": "https://pypi.org",
        "identifier": "layerlore",
        "version": VERSION,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
    }
    assert entry["version"] == VERSION
    # The registry takes a package only if its page names the entry.
    assert f"<!-- mcp-name: {entry['name']} -->" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_what_a_form_asks_for_are_settings_that_may_stay_empty() -> None:
    manifest = read("plugins/claude-desktop/manifest.json")
    request = {f"LAYERLORE_{name.upper()}": each["default"] for name, each in manifest["user_config"].items()}
    assert manifest["server"]["mcp_config"]["env"] == {
        variable: f"${{user_config.{variable.removeprefix('LAYERLORE_').lower()}}}" for variable in request
    }
    assert load_settings({}, environ=request) == load_settings({}, environ={})
    declared = {each["name"] for each in read("server.json")["packages"][0]["environmentVariables"]}
    assert declared == {*request, "LAYERLORE_DATABASE"}
    assert [each["name"] for each in manifest["tools"]] == [each.name for each in choose_tools(Settings())]


@pytest.mark.programs
def test_the_bundle_has_our_wheel_and_a_version_for_all_that_it_needs(tmp_path: Path) -> None:
    bundle = Path(run(sys.executable, "plugins/make_bundle.py", tmp_path).strip())
    first = bundle.read_bytes()
    packed = zipfile.ZipFile(bundle)
    packed.extractall(tmp_path / "bundle")
    project = tomllib.loads(packed.read("pyproject.toml").decode())
    wheel = project["tool"]["uv"]["sources"]["layerlore"]["path"]
    assert {"manifest.json", "main.py", "LICENSE", wheel} <= set(packed.namelist())
    fixed = {re.split(r"[=\[]", each)[0] for each in project["tool"]["uv"]["constraint-dependencies"]}
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    assert {re.split(r"[<>=;\[ ]", each)[0].replace(".", "-") for each in needed} <= fixed
    zipfile.ZipFile(tmp_path / "bundle" / wheel).extractall(tmp_path / "site")
    shown = run(
        sys.executable, tmp_path / "bundle" / "main.py", "--version", env={"PYTHONPATH": str(tmp_path / "site")}
    )
    assert shown == f"layerlore {VERSION}\n"
    assert Path(run(sys.executable, "plugins/make_bundle.py", tmp_path).strip()).read_bytes() == first


@pytest.mark.programs
def test_the_source_distribution_has_the_plugins(tmp_path: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path)
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"server.json", *BY_HAND, "plugins/claude-code/hooks/hooks.json", "plugins/codex/.mcp.json"} <= names


def test_the_links_of_the_page_add_a_server_that_is_found_by_its_name() -> None:
    page = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
    links = re.findall(r"^(\w+:\S+)$", page.partition("## Links")[2].partition("\n## ")[0], re.MULTILINE)
    cursor, vscode, lm_studio, goose = map(urlsplit, links)
    for link in (cursor, lm_studio):
        given = parse_qs(link.query)
        assert given["name"] == ["layerlore"]
        assert json.loads(base64.b64decode(given["config"][0])) == LAUNCH
    assert json.loads(unquote(vscode.query)) == {"name": "layerlore", "type": "stdio", **LAUNCH}
    assert parse_qs(goose.query)["cmd"] == ["layerlore"]
    assert [link.scheme for link in (cursor, vscode, lm_studio, goose)] == ["cursor", "vscode", "lmstudio", "goose"]
