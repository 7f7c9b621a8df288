"""The documentation as a site; that it builds without a warning, `make site` says."""

import re
from pathlib import Path

from ruamel.yaml import YAML
from source_tree import ROOT

MKDOCS = YAML(typ="safe").load(ROOT / "mkdocs.yml")


def test_every_document_has_one_place_on_the_site() -> None:
    entries = [entry for section in MKDOCS["nav"] for pages in section.values() for entry in pages]
    shown = [page for entry in entries for page in (entry.values() if isinstance(entry, dict) else [entry])]
    hook = (ROOT / "docs" / "site_pages.py").read_text(encoding="utf-8")
    beside = dict(re.findall(r'^    "([\w/]+\.md)": "(\w+\.md)",$', hook, re.MULTILINE))
    assert sorted(shown) == sorted([*beside.values(), *(path.name for path in (ROOT / "docs").glob("*.md"))])
    assert set(beside) >= {path.name for path in ROOT.glob("*.md")}
    assert all((ROOT / source).exists() for source in beside)


def test_the_site_is_made_of_what_is_here() -> None:
    assert MKDOCS["theme"]["font"] is False
    assert [Path(hook).name for hook in MKDOCS["hooks"]] == ["site_pages.py"]
    addresses = re.findall(r"https?://", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert addresses == []
