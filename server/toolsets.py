"""Which tools a server lists."""

from collections.abc import Collection

from layerlore.server.access.principal import Right
from layerlore.server.settings import Settings
from layerlore.server.tools import (
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
from layerlore.server.tools.declaring import Declaration

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

ALL_TOOLS = frozenset(each.signature.__name__ for each in DECLARATIONS)


def chosen(settings: Settings) -> list[Declaration]:
    """The tools of the toolsets that the settings name; with memory off, only the one that says so."""
    if settings.memory == "off":
        return [curation.STATUS]
    unlisted = working_memory.WRITERS if settings.working_memory.read_only else ()
    return [each for each in DECLARATIONS if each.toolset in settings.toolsets and each not in unlisted]


def listed(settings: Settings) -> frozenset[str]:
    """The names of the same: what a model can call."""
    return frozenset(each.signature.__name__ for each in chosen(settings))


def callable_tools(settings: Settings, rights: Collection[Right]) -> frozenset[str]:
    """The names of those that a credential with these rights can call."""
    return frozenset(each.signature.__name__ for each in chosen(settings) if each.open_to(rights))


def writing() -> frozenset[str]:
    """The names of all tools that may write, listed or not."""
    return frozenset(each.signature.__name__ for each in DECLARATIONS if not each.annotations.read_only_hint)
