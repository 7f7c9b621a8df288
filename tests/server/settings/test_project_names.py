"""Which project a folder belongs to."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from layerlore.memory.rules.validation import Limits, check_id
from layerlore.server.settings import project
from layerlore.server.settings.project import MOST_CHARS, choose_project, confirm_project, name_remote, project_resource

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The person's home folder."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    return folder


def git(folder: Path, *arguments: str) -> None:
    own = ["-c", "user.name=Ana", "-c", "user.email=ana@example.org", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *own, *arguments], cwd=folder, check=True, capture_output=True)


def find_project(folder: str) -> str:
    """The name of a folder's project, for a user who has confirmed no name."""
    return project.find_project(folder, "").name


def repository(folder: Path, remote: str = "") -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "Begin")
    if remote:
        git(folder, "remote", "add", "origin", remote)
    return folder


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/Ana/Tea.git",
        "https://ana:ghp_secret@github.com/ana/tea",
        "git@github.com:ana/tea.git",
        "ssh://git@ssh.github.com:443/ana/tea.git/",
        "git://GitHub.com//ana/tea?token=secret#x",
        " git+ssh://git@github.com/ana/tea.GIT ",
    ],
)
def test_all_forms_of_a_remote_are_one_project_and_no_credential_is_in_its_name(url: str) -> None:
    assert name_remote(url) == "github.com/ana/tea"


def test_hosts_that_tell_cases_apart_keep_them() -> None:
    assert name_remote("https://Git.Example.org:8443/Ana/Tea%20pot.git") == "git.example.org/Ana/Tea pot"
    assert name_remote("git@ssh.dev.azure.com:v3/ana/tea/pot") == name_remote("https://dev.azure.com/ana/tea/_git/pot")


@pytest.mark.parametrize(
    "url", ["/srv/tea.git", "../tea", "C:\\src\\tea", "C:/src/tea", "file:///srv/tea.git", "", "./a:b"]
)
def test_a_path_is_no_remote(url: str) -> None:
    assert name_remote(url) == ""


def test_clones_worktrees_and_folders_inside_are_one_project(home: Path) -> None:
    first = repository(home / "first", "git@github.com:ana/tea.git")
    second = repository(home / "second", "https://token@github.com/ana/tea")
    git(first, "worktree", "add", "-q", str(home / "beside"))
    inside = second / "src" / "deep"
    inside.mkdir(parents=True)
    found = {find_project(str(each)) for each in (first, second, home / "beside", inside, first / ".git")}
    assert found == {"github.com/ana/tea"}


def test_without_a_remote_the_worktrees_of_a_repository_are_one_project(home: Path) -> None:
    first, other = repository(home / "tea"), repository(home / "work" / "tea")
    git(first, "worktree", "add", "-q", str(home / "beside"))
    assert find_project(str(first)) == find_project(str(home / "beside"))
    assert find_project(str(first)).startswith("tea-")
    assert find_project(str(first)) != find_project(str(other))


def test_a_clone_of_a_folder_is_the_project_of_that_folder(home: Path) -> None:
    first = repository(home / "first", "git@github.com:ana/tea.git")
    lonely = repository(home / "lonely")
    git(home, "clone", "-q", str(first), "clone")
    git(home, "clone", "-q", f"file://{home / 'clone'}", "again")
    git(home, "clone", "-q", str(lonely), "beside")
    assert find_project(str(home / "again")) == "github.com/ana/tea"
    assert find_project(str(home / "beside")) == find_project(str(lonely))


def test_a_submodule_is_a_project_of_its_own(home: Path) -> None:
    outer, inner = repository(home / "outer", "git@github.com:ana/tea.git"), repository(home / "inner")
    git(outer, "submodule", "add", "-q", str(inner), "cups")
    git(outer / "cups", "remote", "set-url", "origin", "https://github.com/ana/cups.git")
    assert find_project(str(outer / "cups")) == "github.com/ana/cups"


def test_the_worktrees_of_a_bare_repository_are_one_project(home: Path) -> None:
    git(home, "clone", "-q", "--bare", str(repository(home / "tea")), "tea.git")
    git(home / "tea.git", "remote", "set-url", "origin", "ssh://git.example.org/tea.git")
    git(home / "tea.git", "worktree", "add", "-q", str(home / "tree"))
    git(home / "tea.git", "worktree", "add", "-q", str(home / "other"))
    assert find_project(str(home / "other")) == find_project(str(home / "tree")) == "git.example.org/tea"


def test_a_bare_repository_inside_a_clone_names_no_project(home: Path) -> None:
    clone = repository(home / "clone", "git@github.com:eve/tools.git")
    git(clone, "init", "-q", "--bare", "docs")
    git(clone / "docs", "config", "remote.origin.url", "git@github.com:ana/tea.git")
    (clone / "docs" / "inner").mkdir()
    for folder in (clone / "docs", clone / "docs" / "inner"):
        assert find_project(str(folder)) == "github.com/eve/tools"


def test_a_file_in_place_of_a_git_folder_names_no_repository_that_does_not_know_it(home: Path) -> None:
    tea = repository(home / "tea", "git@github.com:ana/tea.git")
    unpacked = home / "unpacked"
    unpacked.mkdir()
    (unpacked / ".git").write_text(f"gitdir: {tea / '.git'}\n")
    assert find_project(str(unpacked)).startswith("unpacked-")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files to others")
def test_a_repository_of_another_user_is_a_folder_like_others(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = repository(home / "theirs", "git@github.com:ana/tea.git")
    os.chown(theirs / ".git", 12345, 12345)
    assert find_project(str(theirs)).startswith("theirs-")
    monkeypatch.setenv("SUDO_UID", "12345")
    assert find_project(str(theirs)) == "github.com/ana/tea"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_in_place_of_a_configuration_keeps_nobody_waiting(home: Path) -> None:
    tea = repository(home / "tea", "git@github.com:ana/tea.git")
    (tea / ".git" / "config").unlink()
    os.mkfifo(tea / ".git" / "config")
    assert find_project(str(tea)).startswith("tea-")


def test_a_name_that_a_repository_gives_itself_counts_once_the_user_has_confirmed_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, data = repository(home / "first", "git@github.com:ana/tea.git"), str(home / "data")
    git(first, "worktree", "add", "-q", str(home / "beside"))
    git(first, "config", "layerlore.project", 'the "tea"; shop # 1')
    assert choose_project("auto", str(first), data) == "project:github.com/ana/tea"
    assert "is not confirmed" in capsys.readouterr().err
    assert confirm_project(str(home / "beside"), data) == 'the "tea"; shop # 1'
    assert confirm_project(str(first), data) == ""
    for folder in (first, home / "beside"):
        assert choose_project("auto", str(folder), data) == 'project:the "tea"; shop # 1'
    assert choose_project("auto", str(first), str(home / "other data")) == "project:github.com/ana/tea"
    capsys.readouterr()
    git(first, "config", "layerlore.project", "github.com/eve/other")
    assert choose_project("auto", str(first), data) == "project:github.com/ana/tea"
    assert "github.com/eve/other" in capsys.readouterr().err


def test_a_repository_that_shares_the_files_of_any_other_is_itself(home: Path) -> None:
    tea = repository(home / "tea", "git@github.com:ana/tea.git")
    unpacked = repository(home / "unpacked")
    (unpacked / ".git" / "commondir").write_text(str(tea / ".git"))
    assert find_project(str(unpacked)).startswith("unpacked-")


def test_another_remote_counts_where_none_is_called_origin(home: Path) -> None:
    first = repository(home / "first")
    git(first, "remote", "add", 'up"stream', "git@github.com:ana/tea.git")
    assert find_project(str(first)) == "github.com/ana/tea"


def test_a_folder_without_git_is_known_by_its_path(home: Path) -> None:
    for name in ("plans", "a  b\n", "ö" * 80, "-x"):
        (home / name).mkdir()
        found = project_resource(find_project(str(home / name)))
        assert check_id(found, "project", Limits.id_chars) == found
    assert find_project(str(home / "plans")).startswith("plans-")
    (home / "link").symlink_to(home / "plans")
    assert find_project(str(home / "link")) == find_project(str(home / "plans"))


@pytest.mark.parametrize("text", ["", "gitdir: /nowhere/at/all", "gitdir:", "\udcff", "gitdir: \x00"])
def test_what_names_no_repository_leaves_the_folder(home: Path, text: str) -> None:
    broken = home / "tea"
    (broken / "src").mkdir(parents=True)
    (broken / ".git").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert find_project(str(broken / "src")) == find_project(str(broken)) != ""


def test_the_folders_above_a_persons_files_are_no_project(home: Path) -> None:
    git(home, "init", "-q")
    git(home, "remote", "add", "origin", "git@github.com:ana/dotfiles.git")
    (home / "notes").mkdir()
    for folder in (str(home), str(home.parent), "/", "", str(home / "missing")):
        assert find_project(folder) == ""
    assert find_project(str(home / "notes")).startswith("notes-")
    if sys.platform != "win32":
        assert find_project("/usr/bin") == ""


def test_a_launch_chooses_its_project(home: Path) -> None:
    first = str(repository(home / "first", "git@github.com:ana/tea.git"))
    assert choose_project("auto", first, str(home)) == "project:github.com/ana/tea"
    assert choose_project(" tea\nshop ", first, str(home)) == "project:tea shop"
    assert choose_project("project:tea", "/", str(home)) == "project:tea"
    assert {
        choose_project("none", first, str(home)),
        choose_project("", first, str(home)),
        choose_project("auto", "/", str(home)),
    } == {""}
    assert len(choose_project("x" * 500, first, str(home))) <= MOST_CHARS + len("project:")
