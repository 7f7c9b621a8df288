"""``layerlore install --http``: whether the server needs a key, and where a typed one is kept."""

import getpass
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from layerlore.server.settings.local_key import key_file

from ..conftest import Cli
from ..http.test_http_command import ServedClients, serving

pytestmark = pytest.mark.programs


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedClients]:
    with serving(tmp_path_factory.mktemp("served") / "data") as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's folder. The command line has cleared the variables first."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LAYERLORE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("LAYERLORE_LOCAL__SHARE", "false")
    return tmp_path


def type_keys(monkeypatch: pytest.MonkeyPatch, *keys: str) -> list[str]:
    """Type these at the questions for a key. Returns the questions, which are added as they come."""
    waiting, questions = list(keys), []

    def answer(question: str) -> str:
        questions.append(question)
        return waiting.pop(0)

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(getpass, "getpass", answer)
    return questions


def written(home: Path) -> dict[str, object]:
    entry: dict[str, object] = json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]["layerlore"]
    return entry


def test_a_person_is_asked_once_for_the_key_and_the_bridge_gets_its_file(
    home: Path, cli: Cli, served: ServedClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = type_keys(monkeypatch, f" {served.key}\n")
    url = f"{served.url}/mcp"
    code, told, error = cli("install", "cursor", "--http", url)
    assert code == 0, error
    assert questions == [f"Key for {url}: "]
    arguments = written(home)["args"]
    assert isinstance(arguments, list)
    *launch, file = arguments
    assert launch[-3:] == ["bridge", url, "--key-file"]
    assert (Path(file).read_text(), Path(file).stat().st_mode & 0o777) == (f"{served.key}\n", 0o600)
    assert file in told
    assert served.key not in told + error + json.dumps(arguments)
    assert cli("install", "cursor", "--http", url)[0] == 0
    assert len(questions) == 1, "the kept key still opens the server"
    other = f"{served.url.replace('127.0.0.1', 'localhost')}/mcp"
    type_keys(monkeypatch, "llk_wrong")
    code, told, error = cli("install", "cursor", "--http", other)
    assert (code, "does not accept this key" in error) == (2, True)
    assert "llk_wrong" not in told + error


@pytest.mark.parametrize("typed", ["", "two words", "é"])
def test_a_text_that_is_no_key_is_refused_before_anything_is_written(
    home: Path, cli: Cli, served: ServedClients, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    type_keys(monkeypatch, typed)
    code, _, error = cli("install", "cursor", "--http", served.url)
    assert (code, "one word of printable ASCII" in error) == (2, True)
    assert not (home / ".cursor").exists()


def test_a_script_is_told_to_give_the_file(home: Path, cli: Cli, served: ServedClients) -> None:
    code, _, error = cli("install", "cursor", "--http", served.url)
    assert code == 2
    assert f"{served.url}/mcp needs a key: give --key-file FILE" in error
    assert not (home / ".cursor").exists()
    (home / "data").mkdir(exist_ok=True)
    key_file(home / "data").write_text("ll_x\n")
    assert str(key_file(home / "data")) in cli("install", "cursor", "--http", served.url)[2]


def test_a_server_that_needs_no_key_is_named_by_its_url(home: Path, cli: Cli, tmp_path: Path) -> None:
    with serving(tmp_path / "open", "--no-auth") as running:
        assert cli("install", "cursor", "--http", running.url)[0] == 0
    assert written(home) == {"url": f"{running.url}/mcp"}


def test_a_server_with_a_sign_in_is_named_by_its_url(home: Path, cli: Cli, tmp_path: Path) -> None:
    issuer = {"LAYERLORE_JWT__ISSUER": "https://login.example.com", "LAYERLORE_JWT__AUDIENCE": "ours"}
    with serving(tmp_path / "tokens", **issuer) as running:
        assert cli("install", "cursor", "--http", running.url)[0] == 0
    assert written(home) == {"url": f"{running.url}/mcp"}


def test_a_server_that_is_down_is_named_by_its_url_and_that_is_said(home: Path, cli: Cli, tmp_path: Path) -> None:
    with serving(tmp_path / "ended") as running:
        pass
    code, told, _ = cli("install", "cursor", "--http", running.url)
    assert (code, "cannot be reached now (ConnectError): if it needs a key" in told) == (0, True)
    assert written(home) == {"url": f"{running.url}/mcp"}
