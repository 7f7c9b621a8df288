"""Cuts a long text into overlapping pieces that are indexed, embedded and ranked each for itself."""

import re

# In characters. The study's figures: longer chunks blur what a vector stands for.
SIZE = 800
OVERLAP = 100
# A cut looks this far back for a space.
SEARCHED = 200

_SPACE = re.compile(r"\s")


def chunks(text: str) -> list[str]:
    """The pieces of a text, in order: of at most SIZE characters, each beginning with about the last OVERLAP of the one
    before it, cut at white space where there is some. No text gives no chunk."""
    found: list[str] = []
    start = 0
    while len(text) - start > SIZE:
        end = _last_space(text, start + SIZE - SEARCHED, start + SIZE) or start + SIZE
        found.append(text[start:end])
        space = _SPACE.search(text, end - OVERLAP, end)
        start = space.end() if space else end - OVERLAP
    return [*found, text[start:]] if text else []


def _last_space(text: str, start: int, end: int) -> int | None:
    """Where the last white space between two places is."""
    for at in range(end, start, -1):
        if text[at - 1].isspace():
            return at - 1
    return None
