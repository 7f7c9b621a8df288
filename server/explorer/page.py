"""The explorer's page: one file that the wheel holds, which loads nothing and may call only its own server."""

import base64
import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from importlib import resources


@dataclass(frozen=True, slots=True)
class ExplorerPage:
    """The file, the same packed with gzip, its entity tag, and the policy that a browser enforces."""

    html: bytes
    packed: bytes
    etag: str
    policy: str


@cache
def read_page() -> ExplorerPage:
    """The page, read once."""
    html = resources.files("layerlore.server.explorer").joinpath("explorer.html").read_bytes()
    return ExplorerPage(
        html,
        gzip.compress(html, mtime=0),
        f'"{hashlib.sha256(html).hexdigest()[:32]}"',
        write_policy(html),
    )


class _InlineReader(HTMLParser):
    """Keeps the content of scripts and styles, in ``found``."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[tuple[str, str]] = []
        self._kind = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._kind = tag if tag in ("script", "style") else ""
        if self._kind:
            self.found.append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        self._kind = ""

    def handle_data(self, data: str) -> None:
        if self._kind:
            self.found[-1] = (self._kind, self.found[-1][1] + data)


def _read_inline(html: bytes) -> list[tuple[str, bytes]]:
    reader = _InlineReader()
    reader.feed(html.decode())
    reader.close()
    return [(kind, text.encode()) for kind, text in reader.found]


def write_policy(html: bytes) -> str:
    """The Content-Security-Policy of a page: the scripts and styles that stand in it run, by their hashes, and no others."""
    hashes: dict[str, list[str]] = {"script": [], "style": []}
    for kind, text in _read_inline(html):
        digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
        hashes[kind].append(f"'sha256-{digest}'")
    allowed = {kind: " ".join(each) or "'none'" for kind, each in hashes.items()}
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {allowed['script']}",
            f"style-src {allowed['style']}",
            "connect-src 'self'",
            "img-src data: blob:",
            "media-src data: blob:",
            "base-uri 'none'",
            "frame-ancestors 'none'",
            "form-action 'self'",
        )
    )
