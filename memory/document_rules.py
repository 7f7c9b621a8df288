"""What a working memory document may be: its format, and the form that it is given."""

from dataclasses import dataclass, field
from typing import Literal

from layerlore.storage.records import Json

DocumentScope = Literal["thread", "resource"]
Format = Literal["text", "markdown", "json"]


@dataclass(frozen=True, slots=True)
class DocumentRules:
    """``template`` is the form of a Markdown document, ``schema`` a checked JSON Schema (None: any object will do)."""

    format: Format = "text"
    template: str = ""
    schema: Json | None = None


@dataclass(frozen=True, slots=True)
class WorkingMemoryRules:
    """The rules of both documents: a thread's session memory and the profile of a resource.

    ``max_bytes`` is the largest document, in bytes of UTF-8, JSON written compactly. ``read_only`` lists no tool that
    changes one.
    """

    max_bytes: int = 16 * 1024
    read_only: bool = False
    thread: DocumentRules = field(default_factory=DocumentRules)
    resource: DocumentRules = field(default_factory=DocumentRules)

    def of(self, scope: DocumentScope) -> DocumentRules:
        return self.thread if scope == "thread" else self.resource
