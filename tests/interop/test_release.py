"""`make release` in a clone of this checkout, up to the upload, with the checkers that others wrote."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from composed import ROOT

from .python_environments import REQUIRED

TOOLS = ROOT / ".interop" / "release"
PATIENCE = 300


class Clone:
    """A clone on its branch main, whose program says version 9.9.9, with a key to sign with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "clone"
        self.home = folder
        subprocess.run(["git", "clone", "--quiet", ROOT, self.folder], check=True)
        self.git("checkout", "--quiet", "-B", "main")
        # The program as it is now, committed or not.
        shutil.copy(ROOT / "scripts" / "release.py", self.folder / "scripts" / "release.py")
        (self.folder / ".interop").mkdir()
        (self.folder / ".interop" / "release").symlink_to(TOOLS)
        version = self.folder / "server" / "process" / "version.py"
        text = re.sub(r'VERSION = "[^"]+"', 'VERSION = "9.9.9"', version.read_text(encoding="utf-8"))
        version.write_text(text, encoding="utf-8")
        changelog = self.folder / "CHANGELOG.md"
        if "## Unreleased\n\n## " in changelog.read_text(encoding="utf-8"):
            self.write(
                "CHANGELOG.md",
                changelog.read_text(encoding="utf-8").replace("## Unreleased\n", "## Unreleased\n\n- New.\n", 1),
            )
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True)
        allowed = (folder / "key.pub").read_text(encoding="utf-8")
        (folder / "allowed").write_text(f"ana@example.com {allowed}", encoding="utf-8")
        for name, value in {
            "user.name": "Ana",
            "user.email": "ana@example.com",
            "gpg.format": "ssh",
            "user.signingkey": str(folder / "key.pub"),
            "gpg.ssh.allowedSignersFile": str(folder / "allowed"),
        }.items():
            self.git("config", name, value)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Version 9.9.9")

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "LAYERLORE_"))}
        return {**kept, "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"}

    def release(self, *words: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "scripts/release.py", *words]
        return subprocess.run(
            program,
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def state(self) -> tuple[str, str, str]:
        return self.git("rev-parse", "HEAD"), self.git("tag"), self.git("status", "--porcelain")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    missing = [name for name in ("git", "ssh-keygen") if shutil.which(name) is None]
    if missing or not TOOLS.exists():
        message = (
            f"{', '.join(missing) or 'twine'} is not installed; `make interop` installs what Python packages bring"
        )
        if os.environ.get(REQUIRED):
            pytest.fail(message)
        pytest.skip(message)
    return Clone(tmp_path)


def test_make_release_is_that_program() -> None:
    words = ["make", "--no-print-directory", "--dry-run", "release", "VERSION=1.2.3"]
    done = subprocess.run(words, check=True, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.splitlines()[-1].strip() == ".venv/bin/python scripts/release.py 1.2.3"


def test_a_release_is_made_up_to_its_upload(clone: Clone) -> None:
    unreleased = (clone.folder / "CHANGELOG.md").read_text(encoding="utf-8").partition("## Unreleased\n")[2]
    done = clone.release("9.9.9")
    assert done.returncode == 0, done.stderr
    dist = clone.folder / "dist"
    names = {"layerlore-9.9.9-py3-none-any.whl", "layerlore-9.9.9.tar.gz", "layerlore-9.9.9.cdx.json"}
    assert {file.name for file in dist.iterdir()} == {*names, "SHA256SUMS"}
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=dist, check=True)
    bill = json.loads((dist / "layerlore-9.9.9.cdx.json").read_text(encoding="utf-8"))
    assert (bill["bomFormat"], bill["metadata"]["component"]["version"]) == ("CycloneDX", "9.9.9")
    assert {"mcp", "sqlalchemy", "numpy"} <= {each["name"] for each in bill["components"]}
    head, dated = (
        (clone.folder / "CHANGELOG.md").read_text(encoding="utf-8").split("## Unreleased\n", 1)[1].split("\n", 2)[1:]
    )
    assert re.fullmatch(r"## 9\.9\.9 - \d{4}-\d\d-\d\d", head)
    assert dated == unreleased
    assert 'Good "git" signature for ana@example.com' in clone.git("verify-tag", "v9.9.9")
    assert "SOURCE_DATE_EPOCH=" in clone.git("tag", "--list", "--format=%(contents)", "v9.9.9")
    assert clone.git("log", "-1", "--format=%s").strip() == "Release 9.9.9"
    assert "nothing has left this machine" in done.stdout
    assert re.search(r"twine upload \S+9\.9\.9-py3-none-any\.whl \S+9\.9\.9\.tar\.gz$", done.stdout, re.MULTILINE)
    assert "git push origin main v9.9.9" in done.stdout
    again = clone.release("9.9.9")
    assert (again.returncode, "is there already" in again.stderr) == (1, True)


def test_what_cannot_be_released_is_refused_and_nothing_is_written(clone: Clone) -> None:
    def refused(reason: str, *words: str) -> None:
        before = clone.state()
        done = clone.release(*words)
        assert (done.returncode, reason in done.stderr) == (1, True), done.stderr
        assert clone.state() == before
        assert not (clone.folder / "dist").exists()

    refused("must be like 1.2.3", "nine")
    refused("says another version", "9.9.8")
    clone.git("checkout", "--quiet", "-b", "side")
    refused("releases are made on 'main'", "9.9.9")
    clone.git("checkout", "--quiet", "main")
    clone.git("config", "--unset", "user.signingkey")
    refused("no user.signingkey", "9.9.9")
    # git itself makes a tag without a signature of that, and reports no error.
    clone.git("config", "user.signingkey", str(clone.home / "lost"))
    refused("git cannot sign with", "9.9.9")
    clone.git("config", "user.signingkey", str(clone.home / "key.pub"))
    clone.write("more.txt", "not committed")
    refused("differs from its commit", "9.9.9")
    (clone.folder / "more.txt").unlink()
    clone.write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n## 0.1.0 - 2026-01-01\n\n- First.\n")
    clone.git("commit", "--quiet", "--all", "--message", "Nothing new")
    refused("nothing under", "9.9.9")
