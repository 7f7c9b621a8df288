"""Hosts as people install them, each run without a terminal against a model of the tests, in a home of its own."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from scripted_model import Call, Json, ScriptedModel

from layerlore.server.relay.launch import hook_folder
from layerlore.server.relay.spool import list_waiting

from .conversation import PROGRAM

FOLDER = Path(__file__).with_name("hosts")
MODULES = FOLDER / "node_modules"
PATIENCE = 120  # seconds for what takes a few on an idle machine
TRIES = 3
"""On a busy machine a host may begin without the tools of a server that is still starting, and does not wait for a slow hook."""
LAST_WORDS = "I have written that down."
DATA = ".local/share/layerlore"
"""Our data folder in a home."""


@dataclass(frozen=True)
class HostProgram:
    """``files``: its settings in a home, as they are before the install, with MODEL_URL for the model's. ``hooks``: whether
    `install --capture` gives it some. ``gives_id``: whether it names its conversation to a server that it launches."""

    name: str
    program: str
    arguments: tuple[str, ...]
    files: Mapping[str, str]
    environment: Mapping[str, str]
    hooks: bool = True
    gives_id: bool = True


HOSTS = (
    HostProgram(
        "claude-code",
        "@anthropic-ai/claude-code-linux-x64/claude",
        ("-p", "--allowedTools", "mcp__layerlore", "--output-format", "json", "--"),
        {".claude/settings.json": '{ "includeCoAuthoredBy": false }\n'},
        {
            "ANTHROPIC_BASE_URL": "MODEL_URL",
            "ANTHROPIC_API_KEY": "sk-ant-test",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
    HostProgram(
        "codex",
        "codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        (
            *("exec", "--json", "--skip-git-repo-check"),
            *("--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust", "--"),
        ),
        {
            ".codex/config.toml": '# Mine.\nmodel = "gpt-5"\nmodel_provider = "scripted" # for a test\n\n'
            '[model_providers.scripted]\nname = "Scripted"\nbase_url = "MODEL_URL/v1"\nwire_api = "responses"\n'
        },
        {},
    ),
    HostProgram(
        "gemini-cli",
        "@google/gemini-cli/bundle/gemini.js",
        ("--model", "gemini-2.5-flash", "--yolo", "--output-format", "json", "--prompt"),
        {
            ".gemini/settings.json": "{\n  // Mine.\n"
            '  "security": {"auth": {"selectedType": "gemini-api-key"}},\n'
            '  "general": {"enableAutoUpdate": false},\n'
            '  "privacy": {"usageStatisticsEnabled": false}\n}\n'
        },
        {"GOOGLE_GEMINI_BASE_URL": "MODEL_URL", "GEMINI_API_KEY": "test", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        gives_id=False,
    ),
    HostProgram(
        "opencode",
        "opencode-linux-x64-baseline/bin/opencode",
        ("run", "--format", "json", "--"),
        {
            ".config/opencode/opencode.json": "{\n  // Mine.\n"
            '  "$schema": "https://opencode.ai/config.json",\n'
            '  "share": "disabled", "autoupdate": false,\n'
            '  "model": "anthropic/claude-sonnet-4-5",\n'
            '  "provider": {"anthropic": {"options": {"baseURL": "MODEL_URL/v1", "apiKey": "test"}}}\n}\n'
        },
        {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"},
        hooks=False,
        gives_id=False,
    ),
)


@dataclass(frozen=True)
class Session:
    """``id``: the host's own. ``requests``: all that its model was asked."""

    id: str
    requests: list[Json]

    @property
    def opening(self) -> str:
        """The first request that offers our tools, without the tools: what is shown before any is called."""
        offering = next(request for request in self.requests if "recall_memory" in json.dumps(request))
        return json.dumps({key: value for key, value in offering.items() if key != "tools"}, ensure_ascii=False)

    @property
    def result(self) -> str:
        """The result of the last tool that the model called."""
        said = next(self.requests[-1][key] for key in ("messages", "input", "contents") if key in self.requests[-1])
        return json.dumps(said[-1], ensure_ascii=False)


def skip_unless_installed() -> None:
    made_from = MODULES / ".made-from"
    if not made_from.exists() or made_from.read_bytes() != (FOLDER / "package-lock.json").read_bytes():
        pytest.skip("the hosts are not installed; `make interop` installs them on Linux (x64) if npm can be reached")


def remove_home(folder: Path) -> None:
    """Remove it as soon as nothing writes to it any more. The process that unpacks the embedder's tables outlives the server
    that began it, so that a host which ends after two seconds has them the next time."""
    until = time.monotonic() + PATIENCE
    while folder.exists():
        try:
            shutil.rmtree(folder)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


@dataclass(frozen=True)
class Home:
    """A person's folder with one host, its model, and a project that it is opened in. ``node`` runs a host that is a script."""

    host: HostProgram
    folder: Path
    model: ScriptedModel
    node: Path

    @property
    def project(self) -> Path:
        return self.folder / "work"

    def settle(self) -> None:
        """Write the host's own settings."""
        self.project.mkdir(parents=True, exist_ok=True)
        for path, text in self.host.files.items():
            place = self.folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text.replace("MODEL_URL", self.model.url), encoding="utf-8")

    def layerlore(self, *arguments: str) -> str:
        return self._run(PROGRAM, *arguments)

    def talk(self, prompt: str, *calls: Call) -> Session:
        """One session of the host: a prompt, the calls that its model then makes, and its last words."""
        program = MODULES / self.host.program
        interpreter = [str(self.node)] if program.suffix == ".js" else []
        variables = {name: value.replace("MODEL_URL", self.model.url) for name, value in self.host.environment.items()}
        self.model.script.extend(calls)
        for _ in range(TRIES):
            self.model.searched = None
            before = len(self.model.requests)
            told = self._run(*interpreter, str(program), *self.host.arguments, prompt, **variables)
            self._await_hooks()
            named = re.search(r'"(?:session_id|thread_id|sessionID)":\s*"([^"]+)"', told)
            assert named, told
            if self.model.made == len(self.model.script):
                return Session(named[1], self.model.requests[before:])
        raise AssertionError("a tool that the model wanted to call was not offered")

    def _await_hooks(self) -> None:
        """Wait until what hooks handed over is stored. An event of a hook that met no server waits for the next session."""
        hooks = hook_folder(str(self.folder / DATA), "")
        until = time.monotonic() + 10
        while list_waiting(hooks) and time.monotonic() < until:
            time.sleep(0.01)

    def files(self) -> dict[str, bytes]:
        """All files of the home but ours and the project's, by path."""
        paths = [path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink()]
        found = {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}
        return {name: text for name, text in found.items() if not name.startswith((DATA, ".cache/layerlore/", "work/"))}

    def _run(self, *command: str, **variables: str) -> str:
        nowhere = "http://127.0.0.1:9"
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "work"),
            "HTTP_PROXY": nowhere,
            "HTTPS_PROXY": nowhere,
            "NO_PROXY": "127.0.0.1,localhost",
        }
        done = subprocess.run(
            command,
            env=environment | variables,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-5_000:]
        return done.stdout
