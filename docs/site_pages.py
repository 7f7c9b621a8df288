"""A hook of MkDocs: what a page needs beyond its Markdown, so that the same files are read on a forge and as a site.

Pages beside docs/ become pages of the site, links to them are followed, links to other files become plain text, lists are
set in as Python-Markdown wants them, headings get the anchors that GitHub gives them, and a page that would ask another
machine for a script, a style, an image or a font ends the build.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
BESIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "configs/README.md": "configs.md",
    "examples/README.md": "examples.md",
}
# Long lists that would bury the pages of the user's guide among the results of a search.
UNSEARCHED = ("benchmarks.md", "changelog.md", "decisions.md")
SHOWN = (".md", ".svg", ".png", ".webp")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
ITEM = re.compile(r"( *)([-*]|\d+\.)( +)(?=\S)")
ASSET = re.compile(
    r"""<(?:script|img|iframe|link|source|object)\b[^>]*?(?:src|href|data)=["']?((?:https?:)?//[^"'\s>]+)|"""
    r"""(?:url\(|@import )["']?((?:https?:)?//[^"')\s]+)"""
)
# What `rel` says: no browser fetches it.
UNFETCHED = re.compile(r"""<link\b[^>]*rel=["']?(?:canonical|next|prev)[^>]*>""")


def on_config(config: Any) -> Any:
    config["mdx_configs"].setdefault("toc", {})["slugify"] = anchor
    return config


def on_files(files: Any, config: Any) -> Any:
    for source, page in BESIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    beside = {name: source for source, name in BESIDE.items()}
    source = ROOT / beside.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    if page.file.src_uri in UNSEARCHED:
        page.meta["search"] = {"exclude": True}
    return set_in(
        outside_fences(markdown, lambda text: LINK.sub(lambda link: followed(link, source, page.file.src_uri), text))
    )


def on_post_build(config: Any) -> None:
    request = {
        f"{path.name}: {found[1] or found[2]}"
        for path in Path(config["site_dir"]).rglob("*")
        if path.suffix in (".html", ".css")
        for found in ASSET.finditer(UNFETCHED.sub("", path.read_text(encoding="utf-8")))
    }
    if request:
        raise PluginError("pages ask other machines for: " + ", ".join(sorted(request)))


def anchor(heading: str, separator: str) -> str:
    """The name that GitHub gives a heading."""
    return re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", separator)


def outside_fences(markdown: str, change: Any) -> str:
    parts = re.split(r"(^ *```.*?^ *```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if number % 2 else change(part) for number, part in enumerate(parts))


def followed(link: re.Match[str], source: Path, page: str) -> str:
    """A page's link as the site has it: to one of its pages, else its text alone. Its target is a file of the checkout."""
    mark, text, target = link.groups()
    name, hash_, heading = target.partition("#")
    if not name or re.match(r"[a-z]+:", name):
        return link[0]
    found = (source.parent / name).resolve()
    path = found.relative_to(ROOT).as_posix() if found.is_relative_to(ROOT) else name
    site = BESIDE.get(path) or (
        path.removeprefix("docs/") if path.startswith("docs/") and found.suffix in SHOWN else None
    )
    if not site:
        return text
    relative = posixpath.relpath(site, posixpath.dirname(page) or ".")
    return f"{mark}[{text}]({relative}{hash_}{heading})"


def set_in(markdown: str) -> str:
    """Lists whose items are set in by four spaces, whatever the width of their marks, and begin after an empty line."""
    lines: list[str] = []
    widths: list[int] = []
    fenced = False
    for line in markdown.splitlines():
        bare = line.lstrip(" ")
        indent = len(line) - len(bare)
        if not bare:
            lines.append("")
            continue
        while widths and indent < widths[-1] and not fenced:
            widths.pop()
        item = None if fenced else ITEM.match(line)
        inside = widths[-1] if widths else 0
        if item and indent - inside < 4:
            if not widths and lines and lines[-1] and not ITEM.match(lines[-1]) and not lines[-1].startswith(" "):
                lines.append("")
            lines.append(" " * 4 * len(widths) + item[2] + " " + line[item.end() :])
            widths.append(item.end())
        else:
            lines.append(" " * 4 * len(widths) + line[min(indent, inside) :])
        fenced ^= bare.startswith("```")
    return "\n".join(lines) + "\n"
