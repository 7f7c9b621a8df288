"""The documentation as a site; that it builds without a warning, `make site` says."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from source_tree import ROOT

MKDOCS = YAML(typ="safe").load(ROOT / "mkdocs.yml")


def pages_of(entry: Any) -> Iterator[str]:
    """The pages of a part of the navigation, whatever its depth."""
    if isinstance(entry, str):
        yield entry
    else:
        for each in entry.values() if isinstance(entry, dict) else entry:
            yield from pages_of(each)


def test_every_document_has_one_place_on_the_site() -> None:
    shown = list(pages_of(MKDOCS["nav"]))
    hook = (ROOT / "docs" / "site_pages.py").read_text(encoding="utf-8")
    beside = dict(re.findall(r'^    "([\w/]+\.md)": "(\w+\.md)",$', hook, re.MULTILINE))
    docs = ROOT / "docs"
    own = [path.relative_to(docs).as_posix() for path in docs.rglob("*.md")]
    assert sorted(shown) == sorted([*beside.values(), *own])
    # The site begins with docs/index.md. The README is for those who read the repository.
    assert set(beside) >= {path.name for path in ROOT.glob("*.md")} - {"README.md"}
    assert all((ROOT / source).exists() for source in beside)


def test_the_site_is_made_of_what_is_here() -> None:
    assert MKDOCS["theme"]["font"] is False
    assert [Path(hook).name for hook in MKDOCS["hooks"]] == ["site_pages.py"]
    addresses = re.findall(r"https?://", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert addresses == []
