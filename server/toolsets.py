"""Which tools a server lists."""

from memstrata.server.settings import Settings
from memstrata.server.tools import (
    attempts,
    context,
    curation,
    entries,
    erasing,
    messages,
    plan,
    recall,
    runs,
    steps,
    threads,
    working_memory,
)
from memstrata.server.tools.declaring import Declaration

DECLARATIONS: tuple[Declaration, ...] = (
    *messages.TOOLS,
    *context.TOOLS,
    *recall.TOOLS,
    *entries.TOOLS,
    *working_memory.TOOLS,
    *plan.TOOLS,
    *threads.TOOLS,
    *runs.TOOLS,
    *steps.TOOLS,
    *attempts.TOOLS,
    *curation.TOOLS,
    *erasing.TOOLS,
)


def chosen(settings: Settings) -> list[Declaration]:
    """The tools of the toolsets that the settings name; with memory off, only the one that says so."""
    if settings.memory == "off":
        return [curation.STATUS]
    unlisted = working_memory.WRITERS if settings.working_memory.read_only else ()
    return [each for each in DECLARATIONS if each.toolset in settings.toolsets and each not in unlisted]


def listed(settings: Settings) -> frozenset[str]:
    """The names of the same: what a model can call."""
    return frozenset(each.signature.__name__ for each in chosen(settings))


def writing() -> frozenset[str]:
    """The names of all tools that may write, listed or not."""
    return frozenset(each.signature.__name__ for each in DECLARATIONS if not each.annotations.read_only_hint)
