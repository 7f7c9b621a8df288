"""`layerlore doctor` and `layerlore usage --hooks`: what hooks did, and whether they have fallen silent."""

import asyncio
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from layerlore.server.capture.hook_sessions import Session, Sessions
from layerlore.server.command_line.hook_check import check_hooks
from layerlore.server.hosts.catalog import Places
from layerlore.server.relay.launch import hook_folder
from layerlore.server.relay.spool import hand_over
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.records import Scope

DAY = 86_400_000
NOW = time.time_ns() // 1_000_000
Cli = Callable[..., tuple[int, str, str]]


@dataclass
class Hooked:
    """A person's home, and what the hooks of its hosts did."""

    home: Path
    data: Path

    @property
    def hooks(self) -> str:
        return hook_folder(str(self.data), "")

    def set_up(self, at: int = NOW) -> None:
        file = self.home / ".claude" / "settings.json"
        file.parent.mkdir(exist_ok=True)
        hook = {"type": "command", "command": "/bin/layerlore", "args": ["hook", "claude-code", "Stop"]}
        file.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}}, indent=2))
        os.utime(file, (at / 1000, at / 1000))

    def fire(self, session: str, at: int, *, messages: int = 0, tokens: int = 0) -> None:
        known = Session(session=session)
        known.note_event("claude-code", "Stop", at)
        known.note_captured(messages, at)
        if tokens:
            known.note_shown(tokens, at)
        asyncio.run(Sessions(self.hooks).write(known, Scope("local", "default", "default")))

    def use(self, at: int) -> None:
        transcript = self.home / ".claude" / "projects" / "p" / "s.jsonl"
        transcript.parent.mkdir(parents=True, exist_ok=True)
        transcript.touch()
        os.utime(transcript, (at / 1000, at / 1000))

    def find(self, **settings: Any) -> dict[str, tuple[str, str]]:
        found = check_hooks(Settings(data_dir=self.data, **settings), Places("linux", self.home, {}))
        return {each.name: (each.state, each.value) for each in found}


@pytest.fixture
def hooked(tmp_path: Path) -> Hooked:
    home = tmp_path / "home"
    home.mkdir()
    return Hooked(home, tmp_path / "data")


def test_a_host_that_is_not_here_is_not_spoken_of_and_one_without_hooks_can_have_them(hooked: Hooked) -> None:
    assert hooked.find() == {}
    (hooked.home / ".claude").mkdir()
    ((state, value),) = hooked.find().values()
    assert state == "ok"
    assert value.startswith("it is installed and calls no hook; ")


UNFIRED = "they are set up, and have not fired yet: it was not seen in use since"


def test_hooks_that_never_fired_are_warned_of_once_their_host_was_used(hooked: Hooked) -> None:
    hooked.set_up()
    assert hooked.find()["Claude Code"] == ("ok", UNFIRED)
    hooked.use(NOW - DAY)
    assert hooked.find()["Claude Code"] == ("ok", UNFIRED)
    hooked.use(NOW + 60_000)
    assert hooked.find()["Claude Code"] == ("degraded", "they are set up, and have never fired")


def test_hooks_of_a_host_whose_use_nothing_shows_are_warned_of_after_two_weeks(hooked: Hooked) -> None:
    hooked.set_up(NOW - 13 * DAY)
    assert hooked.find()["Claude Code"] == ("ok", UNFIRED)
    hooked.set_up(NOW - 15 * DAY)
    assert hooked.find()["Claude Code"] == ("degraded", "they are set up, and have never fired")


def test_hooks_that_fire_are_told_with_what_they_kept_and_showed(hooked: Hooked) -> None:
    hooked.set_up()
    hooked.fire("one", NOW - 3 * 3_600_000, messages=40, tokens=900)
    hooked.fire("two", NOW - DAY, messages=1)
    hooked.use(NOW)
    assert hooked.find() == {
        "Claude Code": (
            "ok",
            "last fired 3 hours ago (Stop); 2 sessions, 41 messages kept, 450 tokens shown a session",
        )
    }


def test_hooks_that_fell_silent_are_warned_of(hooked: Hooked) -> None:
    hooked.set_up()
    hooked.fire("one", NOW - 20 * DAY, messages=1)
    state, value = hooked.find()["Claude Code"]
    assert state == "degraded"
    assert value.endswith("; silent since")
    hooked.use(NOW - 3_600_000 * 2)
    state, value = hooked.find()["Claude Code"]
    assert state == "degraded"
    assert value.endswith("; silent since, though it was used 2 hours ago")
    (hooked.home / ".claude" / "settings.json").unlink()
    assert hooked.find()["Claude Code"][1].endswith("; they are no longer set up")


def test_what_waits_or_cannot_be_stored_or_served_is_told(hooked: Hooked) -> None:
    hooked.set_up()
    name = hand_over(hooked.hooks, {"host": "claude-code"})
    spool = Path(hooked.hooks) / "spool"
    (spool / f"{name}.unfit").touch()
    found = hooked.find(local={"share": False})
    assert found["waiting"] == ("ok", "1 event that no server has stored yet")
    assert found["set aside"][0] == "degraded"
    assert found["server"][1] == "no server is shared (local.share = false): hooks keep and show nothing"
    (spool / name).rename(spool / f"{(NOW - DAY) * 1_000_000:020d}-a.json")
    assert hooked.find()["waiting"][0] == "degraded"


def test_usage_shows_each_day_newest_first(hooked: Hooked, cli: Cli) -> None:
    run = ("--data-dir", str(hooked.data), "usage", "--hooks")
    assert cli(*run)[1].startswith("no hook has kept or shown anything yet")
    hooked.fire("one", 1_763_899_200_000, messages=40, tokens=900)
    hooked.fire("two", 1_763_899_200_000 + DAY, messages=2)
    code, out, err = cli(*run, "--json")
    assert (code, err) == (0, "")
    first, second = json.loads(out)["days"]
    assert first == {
        "day": "2025-11-24",
        "host": "claude-code",
        "sessions": 1,
        "messages": 2,
        "shown": 0,
        "tokens": 0,
    }
    assert (second["day"], second["tokens"]) == ("2025-11-23", 900)
    assert "claude-code" in cli(*run)[1]


@pytest.mark.parametrize(
    ("name", "file", "on", "off"),
    [
        (
            "Claude Code",
            ".claude/settings.json",
            '{"enabledPlugins": {"layerlore@layerlore": true}}',
            '{"enabledPlugins": {"layerlore@layerlore": false, "other@layerlore": true}}',
        ),
        (
            "Codex",
            ".codex/config.toml",
            '[plugins."layerlore@layerlore"]\n# Mine.\nenabled = true\n',
            '[plugins."layerlore@layerlore"]\nenabled = false\n\n[plugins."other@x"]\nenabled = true\n',
        ),
        (
            "Gemini CLI",
            ".gemini/extensions/layerlore/hooks/hooks.json",
            '{"hooks": {"SessionStart": [{"hooks": [{"command": "layerlore hook gemini-cli SessionStart"}]}]}}',
            "{}",
        ),
    ],
)
def test_the_hooks_of_a_plugin_count_as_set_up_while_it_is_on(
    hooked: Hooked, name: str, file: str, on: str, off: str
) -> None:
    path = hooked.home / file
    path.parent.mkdir(parents=True)
    for text, told in ((on, "they are set up, and have not fired yet"), (off, "it is installed and calls no hook; ")):
        path.write_text(text)
        assert hooked.find()[name][1].startswith(told)


def test_what_keeps_hooks_from_running_is_said(hooked: Hooked) -> None:
    hooked.set_up()
    hooked.fire("one", NOW, messages=1)
    path = hooked.home / ".claude" / "settings.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"disableAllHooks": True}))
    assert hooked.find()["Claude Code"] == ("degraded", f"no hook runs: disableAllHooks = true in {path}")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"disableAllHooks": False}))
    assert hooked.find()["Claude Code"][0] == "ok"


def test_hooks_of_codex_run_only_once_they_are_trusted(hooked: Hooked) -> None:
    folder = hooked.home / ".codex"
    folder.mkdir()
    hook = {"type": "command", "command": "/bin/layerlore hook codex Stop"}
    (folder / "hooks.json").write_text(json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}}))
    config = folder / "config.toml"
    other = '[hooks.state."/elsewhere/hooks.json:stop:0:0"]\ntrusted_hash = "sha256:1"\n'
    for text in ("", other, f'[hooks.state."{folder}/hooks.json:stop:0:0"]\nenabled = true\n'):
        config.write_text(text)
        assert hooked.find()["Codex"] == ("degraded", "they are set up, and it does not trust them yet")
    config.write_text(f'{other}[hooks.state."{folder}/hooks.json:stop:0:0"]\ntrusted_hash = "sha256:2"\n')
    assert hooked.find()["Codex"] == ("ok", UNFIRED)
    config.write_text(config.read_text() + "[features]\nhooks = false\n")
    assert hooked.find()["Codex"] == ("degraded", f"no hook runs: features.hooks = false in {config}")


def test_hooks_that_are_set_up_twice_are_told(hooked: Hooked) -> None:
    hooked.set_up()
    path = hooked.home / ".claude" / "settings.json"
    both = json.loads(path.read_text()) | {"enabledPlugins": {"layerlore@layerlore": True}}
    path.write_text(json.dumps(both))
    assert hooked.find()["Claude Code"] == ("degraded", "its own file and our plugin both call the hooks")
