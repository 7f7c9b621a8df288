"""Which launches share a server: those that ask the same of its process, whatever they ask for themselves."""

import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest

from layerlore.server.relay.channels import Foreign, connect, listen, prepare_folder
from layerlore.server.relay.kept_answers import MOST_ANSWERS, KeptAnswers
from layerlore.server.relay.launch import data_folder, read_launch

HOME = {"HOME": "/home/ana", "LAYERLORE_DATA_DIR": "/data"}


def base(flags: dict[str, str] | None = None, **variables: str) -> str:
    launch = read_launch(flags or {}, {**HOME, **variables})
    assert launch is not None
    return launch.base


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        ({"agent": "cook", "resource": "ana", "thread": "t", "toolsets": "chat"}, {}),
        ({}, {"LAYERLORE_AGENT": "cook", "LAYERLORE_TOOLSETS": "all"}),
        ({"data_dir": "/data"}, {}),
        ({"agent": "${AGENT}"}, {"LAYERLORE_REDACTION": ""}),
        ({}, {"TERM": "xterm", "OPENAI_API_KEY": "k", "PWD": "/somewhere"}),
    ],
)
def test_whom_a_host_serves_and_what_the_process_does_not_read_change_no_server(
    flags: dict[str, str], variables: dict[str, str]
) -> None:
    assert base(flags, **variables) == base()


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        ({"data_dir": "/other"}, {}),
        ({"redaction": "off"}, {}),
        ({"database": "postgresql://me@db/x"}, {}),
        ({}, {"LAYERLORE_LLM_MODEL": "openai/gpt-5"}),
        ({}, {"LAYERLORE_RECALL__FLOOR": "0.2"}),
        ({}, {"PGPASSWORD": "x"}),
    ],
)
def test_what_the_process_reads_makes_another_server(flags: dict[str, str], variables: dict[str, str]) -> None:
    assert base(flags, **variables) != base()


def test_where_a_model_is_asked_its_keys_make_another_server() -> None:
    asks = {"LAYERLORE_LLM_MODEL": "openai/gpt-5"}
    assert base(**asks, OPENAI_API_KEY="one") != base(**asks, OPENAI_API_KEY="two")


def test_where_a_model_is_asked_what_a_host_hands_to_each_session_makes_no_other_server() -> None:
    asks = {"LAYERLORE_LLM_MODEL": "openai/gpt-5"}
    first, second = ({**asks, "CLAUDE_CODE_MESSAGING_TOKEN": token} for token in ("one", "two"))
    assert base(**first) == base(**second)


def test_a_settings_file_counts_by_what_it_says(tmp_path: Path) -> None:
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    for file in (first, second):
        file.write_text('redaction = "derived"\n')
    named = [base({"config": str(file)}) for file in (first, first, second)]
    assert named[0] == named[1] != base()
    first.write_text('redaction = "off"\n')
    assert base({"config": str(first)}) != named[0]


def test_a_relative_path_means_another_server_in_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        found.append((base(), base({"database": "sqlite://notes.db"})))
    (plain, relative), (plain_there, relative_there) = found
    assert plain == plain_there
    assert relative != relative_there


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        ({"--alone": "true"}, {}),
        ({}, {"LAYERLORE_LOCAL__SHARE": "false"}),
        ({"database": "sqlite://:memory:"}, {}),
        ({"memory": "off"}, {}),
        ({"config": "/nowhere/settings.toml"}, {}),
    ],
)
def test_a_launch_that_shares_nothing_has_a_process_of_its_own(
    flags: dict[str, str], variables: dict[str, str]
) -> None:
    assert read_launch(flags, {**HOME, **variables}) is None


def test_a_settings_file_may_switch_sharing_off(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("[local]\nshare = false\n")
    assert read_launch({"config": str(tmp_path / "settings.toml")}, HOME) is None


def test_the_data_folder_is_the_one_of_the_settings() -> None:
    assert data_folder(os.environ) == platformdirs.user_data_dir("layerlore", appauthor=False)


def test_beside_a_folder_for_temporary_files_that_is_too_long_as_well_the_socket_is_in_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / ("long" * 30)))
    found = base({"data_dir": str(tmp_path / ("long" * 30))})
    assert found.startswith(f"/tmp/layerlore-{os.getuid()}/")


def test_a_path_that_is_too_long_for_a_socket_has_its_socket_elsewhere(tmp_path: Path) -> None:
    found = base({"data_dir": str(tmp_path / ("long" * 30))})
    assert len(f"{found}.sock") < 104


@pytest.mark.skipif(sys.platform == "win32", reason="no owners")
def test_a_folder_that_somebody_else_made_or_linked_has_no_socket_for_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, link = tmp_path / "ours", tmp_path / "link"
    ours.mkdir(mode=0o755)
    link.symlink_to(ours)
    seen = os.lstat

    def as_if_linked_by_another(path: str) -> os.stat_result:
        found = list(seen(path))
        found[stat.ST_UID] += os.fspath(path) == str(link)
        return os.stat_result(found)

    monkeypatch.setattr(os, "lstat", as_if_linked_by_another)
    for reach in (prepare_folder, connect):
        with pytest.raises(Foreign):
            reach(str(link / "name"))
    assert stat.S_IMODE(ours.stat().st_mode) == 0o755
    prepare_folder(str(ours / "name"))
    assert stat.S_IMODE(ours.stat().st_mode) == 0o700


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's address."""
    with tempfile.TemporaryDirectory(prefix="layerlore-", dir="/tmp" if sys.platform != "win32" else None) as folder:
        yield Path(folder)


def test_kept_answers_stay_few_and_what_is_no_answer_is_not_given(short_folder: Path) -> None:
    launch = read_launch({}, {**HOME, "LAYERLORE_DATA_DIR": str(short_folder)})
    assert launch is not None
    prepare_folder(launch.base)
    kept = KeptAnswers(launch, cold=True)
    for number in range(MOST_ANSWERS + 1):
        kept.keep("tools/list", {"cursor": str(number)}, "{}")
    (file,) = short_folder.glob("*/*.answers")
    assert len(json.loads(file.read_text())) == MOST_ANSWERS
    assert kept.find("tools/list", {"cursor": "0"}) is None
    assert kept.find("tools/list", {"cursor": str(MOST_ANSWERS)}) == "{}"
    file.write_text(json.dumps(dict.fromkeys(json.loads(file.read_text()), 7)))
    assert KeptAnswers(launch, cold=True).find("tools/list", {"cursor": "1"}) is None


def test_a_host_that_shows_pages_gets_its_own_kept_answers(short_folder: Path) -> None:
    launch = read_launch({}, {**HOME, "LAYERLORE_DATA_DIR": str(short_folder)})
    assert launch is not None
    prepare_folder(launch.base)
    shows = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
    modern = {"_meta": {"io.modelcontextprotocol/clientCapabilities": shows}}
    plain, pages = KeptAnswers(launch, cold=True), KeptAnswers(launch, cold=True)
    pages.keep("initialize", {"capabilities": shows}, "{}")
    pages.keep("tools/list", {}, '{"tools": "those of pages"}')
    plain.keep("tools/list", {}, '{"tools": "those of models"}')
    for found in (KeptAnswers(launch, cold=True), KeptAnswers(launch, cold=True)):
        assert found.find("tools/list", {}) == '{"tools": "those of models"}'
        assert found.find("tools/list", modern) == '{"tools": "those of pages"}'
        assert found.find("initialize", {"capabilities": {}}) is None
        assert found.find("initialize", {"capabilities": shows}) == "{}"
        assert found.find("tools/list", {}) == '{"tools": "those of pages"}'


@pytest.mark.parametrize("unix", [True, False], ids=["socket", "port"])
def test_a_server_is_found_until_it_withdraws(tmp_path: Path, unix: bool) -> None:
    base = str(tmp_path / "l" / "name")
    prepare_folder(base)
    with pytest.raises(OSError, match=r"No such file|refused"):
        connect(base, unix=unix)
    listener = listen(base, unix=unix)
    connection, key = connect(base, unix=unix)
    assert key == listener.key
    assert bool(key) != unix
    connection.close()
    later = listen(base, unix=unix)
    assert not listener.is_current
    listener.withdraw()
    assert later.is_current, "who withdraws takes nothing from its successor"
    later.withdraw()
    with pytest.raises(OSError, match=r"No such file|refused"):
        connect(base, unix=unix)
    for each in (listener, later):
        each.socket.close()
