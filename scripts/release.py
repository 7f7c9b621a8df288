"""Makes a release up to its upload: `make release VERSION=x.y.z`.

Everything is built and checked before anything is written; then the changelog's section, one commit and one signed tag. It
refuses a checkout that differs from its commit, another branch, another version than the program's, and a tag that is
there. Nothing leaves the machine unless --upload is given: the commands that do it are printed.
"""

import argparse
import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / ".interop" / "release" / ("Scripts" if os.name == "nt" else "bin")
CHANGELOG = ROOT / "CHANGELOG.md"
PACKED = ("server", "memory", "extraction", "storage", "prompts", "tests/conformance")
OTHERS = {"layerlore/__init__.py", "layerlore/__main__.py", "layerlore/py.typed"}


def say(text: str) -> None:
    print(f"release: {text}", flush=True)


def refuse(text: str) -> None:
    sys.exit(f"release: {text}")


def run(*words: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    """What a program prints. Ends this one with its last lines if it fails."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        refuse(
            f"{Path(str(words[0])).name} {' '.join(map(str, words[1:3]))} failed:\n{(done.stdout + done.stderr)[-2000:]}"
        )
    return done.stdout.strip()


def look_first(version: str, branch: str, signed: bool) -> None:
    """Refuses what cannot become this release."""
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        refuse(f"VERSION must be like 1.2.3 or 1.2.3rc1, not {version!r}")
    if changed := run("git", "status", "--porcelain"):
        refuse(f"the checkout differs from its commit:\n{changed}")
    if (here := run("git", "branch", "--show-current")) != branch:
        refuse(f"this is branch {here!r}; releases are made on {branch!r}")
    written = (ROOT / "server" / "process" / "version.py").read_text(encoding="utf-8")
    if f'VERSION = "{version}"' not in written:
        refuse(f"server/process/version.py says another version: write {version} there, run `make docs`, and commit")
    if run("git", "tag", "--list", f"v{version}"):
        refuse(f"the tag v{version} is there already")
    if signed:
        look_at_signing(version)


def look_at_signing(version: str) -> None:
    """Refuses where git cannot sign. A key that it cannot read gives a tag without a signature, and no error."""
    key = subprocess.run(["git", "config", "user.signingkey"], cwd=ROOT, capture_output=True, text=True, check=False)
    if not key.stdout.strip():
        refuse("git has no user.signingkey to sign the tag with; --unsigned makes a tag without a signature")
    trial = f"trial-of-v{version}"
    made = ["git", "tag", "--force", "--sign", "--message", "trial", trial]
    told = subprocess.run(made, cwd=ROOT, capture_output=True, text=True, check=False)
    worked = told.returncode == 0 and is_signed(trial)
    subprocess.run(["git", "tag", "--delete", trial], cwd=ROOT, capture_output=True, check=False)
    if not worked:
        refuse(f"git cannot sign with {key.stdout.strip()}:\n{told.stderr}")


def is_signed(tag: str) -> bool:
    return bool(re.search(r"^-----BEGIN (PGP|SSH) SIGNATURE-----$", run("git", "cat-file", "tag", tag), re.MULTILINE))


def section(version: str, day: str) -> tuple[str, str]:
    """The changelog with what is unreleased under the version's heading, and that section's text."""
    text = CHANGELOG.read_text(encoding="utf-8")
    before, heading, rest = text.partition("## Unreleased\n")
    body, _, older = rest.partition("\n## ")
    if not heading or not re.search(r"^- ", body, re.MULTILINE):
        refuse("CHANGELOG.md has nothing under `## Unreleased`")
    moved = f"{before}## Unreleased\n\n## {version} - {day}\n{body}" + (f"\n## {older}" if older else "")
    return moved, body.strip()


def build(moment: str, folder: Path) -> list[Path]:
    """The wheel and the source archive, built here and from a copy of the commit: their bytes must be the same."""
    here, elsewhere, copied = folder / "here", folder / "elsewhere", folder / "copied"
    copied.mkdir()
    run("git", "archive", "--output", folder / "copied.tar", "HEAD")
    run("tar", "--extract", "--file", folder / "copied.tar", "--directory", copied)
    for source, target in ((ROOT, here), (copied, elsewhere)):
        run(sys.executable, "-m", "hatchling", "build", "-d", target, cwd=source, SOURCE_DATE_EPOCH=moment)
    made = sorted(here.iterdir())
    for file in made:
        if file.read_bytes() != (elsewhere / file.name).read_bytes():
            refuse(f"{file.name} differs between two builds of one commit")
    return made


def check(made: list[Path], version: str, folder: Path) -> None:
    """The wheel holds exactly the commit's files of our folders, and runs as this version; both have valid metadata."""
    (wheel,) = [file for file in made if file.suffix == ".whl"]
    (sdist,) = [file for file in made if file.name.endswith(".tar.gz")]
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    names = run("git", "ls-files", *PACKED).splitlines()
    # The published tests lie beside the other folders in the wheel.
    tracked = {f"layerlore/{name.removeprefix('tests/')}" for name in names} | OTHERS
    if packed != tracked:
        refuse(f"the wheel does not hold what the commit does: {sorted(packed ^ tracked)[:10]}")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    if missing := {"pyproject.toml", "README.md", "LICENSE", "server/process/version.py"} - held:
        refuse(f"the source archive lacks {sorted(missing)}")
    run(TOOLS / "twine", "check", "--strict", *made)
    zipfile.ZipFile(wheel).extractall(folder / "unpacked")
    shown = run(sys.executable, "-m", "layerlore", "--version", cwd=folder, PYTHONPATH=str(folder / "unpacked"))
    if shown != f"layerlore {version}":
        refuse(f"the wheel's program says {shown!r}")


def write_bill(version: str, folder: Path, target: Path) -> int:
    """The bill of materials of the locked packages (CycloneDX, JSON, validated): how many they are."""
    told = (
        (ROOT / "pyproject.toml").read_text(encoding="utf-8").replace('dynamic = ["version"]', f'version = "{version}"')
    )
    (folder / "pyproject.toml").write_text(told, encoding="utf-8")
    options = ["--pyproject", folder / "pyproject.toml", "--output-reproducible", "--validate", "--of", "JSON"]
    words = [TOOLS / "python", "-W", "ignore", "-m", "cyclonedx_py", "requirements", "requirements-server.txt"]
    run(*words, *options, "-o", target)
    written = json.loads(target.read_text(encoding="utf-8"))
    if written["metadata"]["component"].get("version") != version:
        refuse("the bill of materials is of another version")
    return len(written["components"])


def keep(made: list[Path], dist: Path) -> None:
    """Puts the files into dist/, with their hashes."""
    dist.mkdir(exist_ok=True)
    for file in made:
        shutil.copy(file, dist / file.name)
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in made)
    (dist / "SHA256SUMS").write_text(sums, encoding="utf-8")


def record(version: str, moved: str, notes: str, moment: str, signed: bool) -> None:
    """One commit with the changelog, and the tag, whose text has what the files are built anew from."""
    CHANGELOG.write_text(moved, encoding="utf-8")
    run("git", "commit", "--quiet", "--message", f"Release {version}", "--", "CHANGELOG.md")
    text = f"layerlore {version}\n\n{notes}\n\nBuilt with SOURCE_DATE_EPOCH={moment}\n"
    words = ["git", "tag", "--sign" if signed else "--annotate", "--cleanup=verbatim", f"v{version}"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False, encoding="utf-8") as file:
        file.write(text)
    tagged = subprocess.run([*words, "--file", file.name], cwd=ROOT, capture_output=True, text=True, check=False)
    Path(file.name).unlink()
    if tagged.returncode or is_signed(f"v{version}") != signed:
        subprocess.run(["git", "tag", "--delete", f"v{version}"], cwd=ROOT, capture_output=True, check=False)
        run("git", "reset", "--quiet", "--hard", "HEAD~1")
        refuse(f"the tag could not be made, and the commit was taken back:\n{tagged.stderr}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="make release")
    parser.add_argument("version")
    parser.add_argument("--branch", default="main")
    parser.add_argument("--unsigned", action="store_true", help="a tag without a signature")
    parser.add_argument("--upload", action="store_true", help="upload it, and push the commit and the tag")
    request = parser.parse_args()
    version, signed = request.version, not request.unsigned
    look_first(version, request.branch, signed)
    today = datetime.datetime.now(datetime.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    moment, day = str(int(today.timestamp())), today.strftime("%Y-%m-%d")
    moved, notes = section(version, day)
    dist = ROOT / "dist"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made = build(moment, folder)
        say(f"built twice with the same bytes: {', '.join(file.name for file in made)}")
        check(made, version, folder)
        say("the wheel holds the commit's files and nothing else; its program and both descriptions are in order")
        bill = folder / f"layerlore-{version}.cdx.json"
        say(f"bill of materials: {write_bill(version, folder, bill)} packages")
        keep([*made, bill], dist)
    record(version, moved, notes, moment, signed)
    say(f"committed, and tagged v{version}" + (" with a signature" if signed else " without a signature"))
    uploads = [
        [str(TOOLS / "twine"), "upload", *(str(dist / file.name) for file in made)],
        ["git", "push", "origin", request.branch, f"v{version}"],
    ]
    if request.upload:
        for words in uploads:
            run(*words)
        say("uploaded")
    else:
        say("nothing has left this machine; to publish it:")
        for words in uploads:
            print("  " + " ".join(words))


if __name__ == "__main__":
    main()
