"""Packs the bundle for Claude Desktop: our wheel, and versions for all that it needs. ``make_bundle.py [FOLDER]``, default dist."""

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from layerlore.server.process.version import VERSION

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "plugins" / "claude-desktop"
LOCKED = ROOT / "requirements-server.txt"
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the bundle, so that the same files make the same bundle."""


def read_locked() -> list[str]:
    """The locked versions of all that we depend on, with their markers."""
    text = LOCKED.read_text(encoding="utf-8")
    return re.findall(r"^([\w.-]+==[^\\\n]*?) *\\?$", text, re.MULTILINE)


def collect(wheel: Path) -> dict[str, bytes]:
    """Every file of the bundle by its name."""
    files = {path.name: path.read_bytes() for path in (*SOURCE.iterdir(), ROOT / "LICENSE", ROOT / "README.md", wheel)}
    constraints = f"[tool.uv]\nconstraint-dependencies = {json.dumps(read_locked(), indent=4)}\n"
    project = files["pyproject.toml"].decode().replace("[tool.uv]\n", constraints)
    return {**files, "pyproject.toml": project.encode()}


def make_bundle(folder: Path) -> Path:
    """The bundle's path. Raises subprocess.CalledProcessError if the wheel cannot be built."""
    folder.mkdir(parents=True, exist_ok=True)
    bundle = folder / f"layerlore-{VERSION}.mcpb"
    with tempfile.TemporaryDirectory() as built:
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", built],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        (wheel,) = Path(built).glob("*.whl")
        files = collect(wheel)
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, EARLIEST)
            entry.external_attr = 0o644 << 16
            packed.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return bundle


if __name__ == "__main__":
    sys.stdout.write(f"{make_bundle(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / 'dist')}\n")
