"""The explorer's page: one file that the wheel holds, which loads nothing and may ask nobody but its own server."""

import base64
import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

_INLINE = re.compile(rb"<(script|style)\b[^>]*>(.*?)</\1\s*>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ExplorerPage:
    """The file, the same packed with gzip, its entity tag, and what a browser is told to hold it to."""

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


def write_policy(html: bytes) -> str:
    """The Content-Security-Policy of a page: the scripts and styles that stand in it run, by their hashes, and no others."""
    hashes: dict[str, list[str]] = {"script": [], "style": []}
    for kind, text in _INLINE.findall(html):
        digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
        hashes[kind.lower().decode()].append(f"'sha256-{digest}'")
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
