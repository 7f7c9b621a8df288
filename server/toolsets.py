"""Which tools a server lists."""

from collections.abc import Collection

from memstrata.server.tools import attempts, curation, messages, plan, recall, runs, steps, threads, working_memory
from memstrata.server.tools.declaring import Declaration

DECLARATIONS: tuple[Declaration, ...] = (
    *messages.TOOLS,
    *recall.TOOLS,
    *working_memory.TOOLS,
    *plan.TOOLS,
    *threads.TOOLS,
    *runs.TOOLS,
    *steps.TOOLS,
    *attempts.TOOLS,
    *curation.TOOLS,
)


def chosen(toolsets: Collection[str], *, memory_on: bool, working_memory_read_only: bool = False) -> list[Declaration]:
    """The tools of the toolsets; with memory off, only the one that says so."""
    if not memory_on:
        return list(curation.TOOLS)
    unlisted = working_memory.WRITERS if working_memory_read_only else ()
    return [each for each in DECLARATIONS if each.toolset in toolsets and each not in unlisted]
