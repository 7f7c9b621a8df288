"""What docs/clients.md shows of the Python frameworks is what the tests of the clients run."""

import re
import runpy
import tomllib

import pytest
from source_tree import ROOT

CLIENTS = ROOT / "tests" / "interop"
GUIDE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
SNIPPETS = sorted((CLIENTS / "python").glob("*/snippet.py"))
# Title, address, star, package and version of each row of the table that is about a Python package.
ROWS = re.findall(r"^\| \[([^]]+)\]\((#[\w-]+)\)( \\\*)? \| `([\w-]+)` ([\d.]+) \|", GUIDE, re.MULTILINE)


def section(title: str) -> str:
    return GUIDE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_guide_shows_every_snippet_as_it_runs() -> None:
    shown = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert sorted(shown) == sorted(path.read_text(encoding="utf-8") for path in SNIPPETS)


@pytest.mark.parametrize(("title", "address", "star", "package", "version"), ROWS)
def test_a_row_of_the_guide_names_the_version_that_its_snippet_runs_with(
    title: str, address: str, star: str, package: str, version: str
) -> None:
    assert address == "#" + re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")
    (snippet,) = [path for path in SNIPPETS if path.read_text(encoding="utf-8") in section(title)]
    framework = snippet.parent.name
    assert f"{package}=={version}" in locked(framework)
    environments = runpy.run_path(str(CLIENTS / "python_environments.py"))
    assert bool(star) == (framework in environments["TALKING"])


def test_the_guide_has_a_row_for_every_snippet() -> None:
    assert len(ROWS) == len(SNIPPETS)


def locked(framework: str) -> list[str]:
    """The packages and versions of a framework's environment; without a lock of its own it is ours."""
    lock = CLIENTS / "python" / framework / "requirements.txt"
    if lock.exists():
        return re.findall(r"^[\w-]+==[^ ]+", lock.read_text(encoding="utf-8"), re.MULTILINE)
    packages = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    return [f"{package['name']}=={package.get('version')}" for package in packages]
