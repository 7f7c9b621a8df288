"""Which tools a server lists."""

from collections.abc import Collection

from memstrata.server.tools import curation, messages, recall, threads
from memstrata.server.tools.declaring import Declaration

DECLARATIONS: tuple[Declaration, ...] = (*messages.TOOLS, *recall.TOOLS, *threads.TOOLS, *curation.TOOLS)


def chosen(toolsets: Collection[str], *, memory_on: bool) -> list[Declaration]:
    """The tools of the toolsets; with memory off, only the one that says so."""
    if not memory_on:
        return list(curation.TOOLS)
    return [declaration for declaration in DECLARATIONS if declaration.toolset in toolsets]
