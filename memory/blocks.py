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
_TAG = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(_OURS)})(?![\w-]))", re.IGNORECASE)


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
