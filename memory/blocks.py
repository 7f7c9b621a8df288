"""Blocks of text for a model: ``<user-profile>``, ``<session-memory>`` and the like, as n8n's agents lay them out.

What is inside one is somebody's text: whatever in it looks like a tag of ours is escaped, so that nothing a person or
a model once wrote can close a block or open another.
"""

import re
from typing import Literal

Tag = Literal["user-profile", "session-memory", "memory", "observations", "plan", "previous-attempts", "conversation"]

_OURS = (
    *("user-profile", "session-memory", "memory", "observations", "plan", "previous-attempts", "conversation"),
    *("description", "value", "task", "briefing"),
)
# What a reader does not see: a tag with such characters in it looks like one without.
_UNSEEN = "\u00ad\u034f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff"
_GAP = rf"[\s{_UNSEEN}]*"
_NAMES = "|".join(f"[{_UNSEEN}]*".join(name) for name in _OURS)
# Each place can be matched in one way only: a long run of spaces takes time in proportion to it, not to its square.
_TAG = re.compile(rf"<(?={_GAP}(?:/{_GAP})?(?:{_NAMES})(?![\w-]))", re.IGNORECASE)


def escaped(text: str) -> str:
    """The text, with ``&lt;`` for the ``<`` of whatever looks like a tag of ours."""
    return _TAG.sub("&lt;", text)


def block(tag: Tag, value: str, description: str = "") -> str:
    """A block around somebody's text; the description is our own."""
    inside = (
        f"<description>\n{description}\n</description>\n<value>\n{escaped(value)}\n</value>"
        if description
        else escaped(value)
    )
    return f"<{tag}>\n{inside}\n</{tag}>"


def one_line(text: str) -> str:
    """A text without the breaks of its lines."""
    return " ".join(text.split())
