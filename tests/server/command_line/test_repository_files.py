"""What a cloned repository brings is never written through, and keeps nobody waiting."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from layerlore.server.process.safe_files import UnsafeFile, read_regular, replace_file

from ..hosts.test_install_command import home  # noqa: F401 - a fixture
from .test_moving_commands import call

Cli = Callable[..., tuple[int, str, str]]
SECRET = '{"auths": {"registry": {"auth": "c2VjcmV0"}}}'


@pytest.fixture(autouse=True)
def _alone(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """No installation starts a server."""
    monkeypatch.setenv("LAYERLORE_LOCAL__SHARE", "false")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that somebody else made, as the current folder, beside files of the person's."""
    folder = tmp_path / "clone"
    (folder / ".git").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "config.json").write_text(SECRET)
    monkeypatch.chdir(folder)
    return folder


def list_outside(clone: Path) -> dict[str, str]:
    return {each.name: each.read_text() for each in (clone.parent / "outside").iterdir()}


LINKS = {
    "the file": "layerlore.jsonl",
    "the file's part": "layerlore.jsonl.part",
}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("target", ["config.json", "not-there"])
def test_a_shared_file_is_written_through_no_link(clone: Path, cli: Cli, link: str, target: str) -> None:
    (clone / LINKS[link]).symlink_to(f"../outside/{target}")
    call(clone.parent / "data", "remember", {"content": "The build runs with make."}, resource="project:shop")
    code, _, err = cli(f"--data-dir={clone.parent / 'data'}", "export", "--project", "shop", ".")
    assert list_outside(clone) == {"config.json": SECRET}
    if link == "the file":
        assert code != 0
        assert "it is a link" in err
    else:
        assert code == 0
        assert "make" in (clone / "layerlore.jsonl").read_text()


def test_a_shared_file_in_a_folder_that_leads_out_is_refused(clone: Path, cli: Cli) -> None:
    (clone / "docs").symlink_to("../outside")
    call(clone.parent / "data", "remember", {"content": "The build runs with make."}, resource="project:shop")
    code, _, err = cli(f"--data-dir={clone.parent / 'data'}", "export", "--project", "shop", "docs/layerlore.jsonl")
    assert code != 0
    assert "is a link" in err
    assert list_outside(clone) == {"config.json": SECRET}


@pytest.mark.parametrize("name", ["all.jsonl", "all.jsonl.part"])
def test_an_export_is_written_through_no_link(clone: Path, cli: Cli, name: str) -> None:
    (clone / name).symlink_to("../outside/not-there")
    call(clone.parent / "data", "remember", {"content": "The build runs with make."}, resource="ana")
    code, _, _ = cli(f"--data-dir={clone.parent / 'data'}", "--resource=ana", "export", "all.jsonl")
    assert code == (5 if name == "all.jsonl" else 0) or code != 0
    assert list_outside(clone) == {"config.json": SECRET}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("target", ["config.json", "not-there"])
def test_a_projects_file_of_a_host_that_is_a_link_stays_as_it_is(clone: Path, cli: Cli, target: str) -> None:
    (clone / ".mcp.json").symlink_to(f"../outside/{target}")
    code, told, _ = cli("install", "claude-code", "--project")
    assert code == 1
    assert "it is a link" in told
    assert list_outside(clone) == {"config.json": SECRET}
    assert not [each for each in clone.iterdir() if each.name not in (".git", ".mcp.json")]


@pytest.mark.usefixtures("home")
def test_a_projects_backup_is_written_through_no_link(clone: Path, cli: Cli) -> None:
    (clone / ".mcp.json").write_text('{"mcpServers": {"other": {"command": "x"}}}')
    (clone / ".mcp.json.layerlore-backup").symlink_to("../outside/not-there")
    assert cli("install", "claude-code", "--project")[0] == 0
    assert list_outside(clone) == {"config.json": SECRET}
    assert (clone / ".mcp.json.layerlore-backup-2").read_text() == '{"mcpServers": {"other": {"command": "x"}}}'
    assert cli("uninstall", "--project")[0] == 0
    assert json.loads((clone / ".mcp.json").read_text()) == {"mcpServers": {"other": {"command": "x"}}}


@pytest.mark.usefixtures("home")
def test_a_folder_of_a_projects_file_that_leads_out_is_refused(clone: Path, cli: Cli) -> None:
    (clone / ".vscode").symlink_to("../outside")
    code, told, _ = cli("install", "vscode", "--project")
    assert code == 1
    assert "is a link" in told
    assert list_outside(clone) == {"config.json": SECRET}


@pytest.mark.usefixtures("home")
def test_a_persons_own_file_is_changed_where_its_link_leads(cli: Cli, tmp_path: Path) -> None:
    dotfiles = tmp_path / "home" / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "claude.json").write_text("{}")
    (tmp_path / "home" / ".claude.json").symlink_to("dotfiles/claude.json")
    assert cli("install", "claude-code")[0] == 0
    assert (tmp_path / "home" / ".claude.json").is_symlink()
    assert "layerlore" in (dotfiles / "claude.json").read_text()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_what_is_no_file_is_neither_read_nor_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(OSError, match=r"no regular file|directory"):
            read_regular(str(tmp_path / name), 100)
        with pytest.raises(UnsafeFile, match="no regular file"):
            replace_file(str(tmp_path / name), b"", top=str(tmp_path))


def test_a_file_that_cannot_be_written_whole_stays_and_nothing_is_left_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"before")

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("layerlore.server.process.safe_files.os.fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        replace_file(str(tmp_path / "file"), b"after")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"before"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files to others")
def test_the_mode_and_the_owner_of_a_file_stay(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"before")
    file.chmod(0o640)
    os.chown(file, 12345, 12345)
    replace_file(str(file), b"after")
    found = file.stat()
    assert (found.st_mode & 0o777, found.st_uid, found.st_gid) == (0o640, 12345, 12345)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("command", [("project", "--confirm"), ("install", "claude-code", "--project")])
def test_a_name_in_a_repositorys_configuration_waits_for_the_user_who_confirms_it_once(
    clone: Path, cli: Cli, command: tuple[str, ...]
) -> None:
    for name in ("objects", "refs"):
        (clone / ".git" / name).mkdir()
    (clone / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (clone / ".git" / "config").write_text("[layerlore]\n\tproject = github.com/ana/secret\n")
    data = f"--data-dir={clone.parent / 'data'}"
    _, out, _ = cli(data, "project")
    assert out.startswith("clone-")
    assert "github.com/ana/secret" in cli(data, "doctor")[1]
    assert cli(data, *command)[0] == 0
    assert cli(data, "project")[1] == "github.com/ana/secret\n"
    assert "confirm" not in cli(data, "doctor")[1]


@pytest.mark.usefixtures("home")
def test_what_is_taken_back_is_removed_through_no_link(clone: Path, cli: Cli) -> None:
    assert cli("install", "vscode", "--project")[0] == 0
    written = (clone / ".vscode" / "mcp.json").read_text()
    (clone / ".vscode" / "mcp.json").unlink()
    (clone / ".vscode").rmdir()
    (clone / ".vscode").symlink_to("../outside")
    (clone.parent / "outside" / "mcp.json").write_text(written)
    code, told, _ = cli("uninstall", "vscode", "--project")
    assert code == 1
    assert "is a link" in told
    assert list_outside(clone) == {"config.json": SECRET, "mcp.json": written}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
@pytest.mark.parametrize("name", ["a.jsonl", "a.md"])
def test_an_import_passes_over_what_is_no_file(clone: Path, cli: Cli, name: str) -> None:
    os.mkfifo(clone / name)
    for request in ((".",), (name,), (name, "--from", "codex"), (name, "--from", "chatgpt")):
        _, out, err = cli(f"--data-dir={clone.parent / 'data'}", "import", *request)
        assert "no regular file" in out + err


@pytest.mark.parametrize("name", ["a.jsonl", "a.md"])
def test_an_import_of_a_folder_follows_no_link_out_of_it(clone: Path, cli: Cli, name: str) -> None:
    (clone.parent / "outside" / name).write_text(f"- [fact] {SECRET}\n")
    (clone / name).symlink_to(f"../outside/{name}")
    data = f"--data-dir={clone.parent / 'data'}"
    _, out, err = cli(data, "import", ".")
    assert f"{name}: it is a link" in out + err
    _, kept, _ = cli(data, "export", "-")
    assert SECRET not in kept
