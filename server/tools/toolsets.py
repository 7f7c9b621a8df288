"""Which tools a server lists."""

from collections.abc import Callable, Collection, Mapping

from layerlore.server.access.credentials import Right
from layerlore.server.settings.settings import Settings, ToolChoice
from layerlore.server.tools import (
    context,
    curation,
    entries,
    erasure,
    explorer,
    messages,
    plan,
    recall,
    runs,
    steps,
    threads,
    working_memory,
)
from layerlore.server.tools.declaration import Declaration

DECLARATIONS: tuple[Declaration, ...] = tuple(
    declared
    for module in (
        *(messages, context, recall, entries, working_memory, plan),
        *(threads, runs, steps, curation, erasure),
    )
    for declared in vars(module).values()
    if isinstance(declared, Declaration)
)
"""Every tool: in the order of these modules, and in each of them in the order in which they stand."""

OF_PAGES: tuple[Declaration, ...] = tuple(each for each in vars(explorer).values() if isinstance(each, Declaration))
"""The tools that only pages are listed."""

PRESETS: Mapping[ToolChoice, frozenset[Declaration]] = {
    # A client that can delete can also undo.
    "core": frozenset({curation.undo}),
    "chat": frozenset({each for each in DECLARATIONS if each.toolset == "core"} - {context.get_context})
    | {threads.list_threads, curation.undo},
    "agent": frozenset(each for each in DECLARATIONS if each.toolset in ("core", "threads", "runs"))
    | {curation.memory_status, curation.undo},
}

ALL_TOOLS = frozenset(each.name for each in (*DECLARATIONS, *OF_PAGES))
_WRITERS = (working_memory.update_working_memory, working_memory.clear_working_memory)


def choose_tools(settings: Settings) -> list[Declaration]:
    """The tools of the toolsets and presets that the settings name; with memory off, only the one that says so."""
    if settings.memory == "off":
        return [curation.memory_status]
    # A preset must not bring back a tool that another setting has switched off.
    unlisted = _switched_off(settings)
    preset = frozenset().union(*(tools for name, tools in PRESETS.items() if name in settings.toolsets))
    chosen = [each for each in DECLARATIONS if each.toolset in settings.toolsets or each in preset]
    return [each for each in chosen if each not in unlisted and _may_be_called(each, settings)]


def _may_be_called(tool: Declaration, settings: Settings) -> bool:
    """Whether the mode of the memory leaves a way to call the tool."""
    # A tool with several uses stays as long as one of them only reads.
    return settings.memory == "on" or not all(map(tool.changes, tool.ways))


def choose_for_pages(settings: Settings) -> list[Declaration]:
    """The tools that a page has beside those: of every toolset, since no model pays for them."""
    if settings.memory == "off":
        return []
    # A model's list costs tokens in each call; a page's does not.
    taken = {*choose_tools(settings), *_switched_off(settings)}
    return [each for each in (*DECLARATIONS, *OF_PAGES) if each not in taken and _may_be_called(each, settings)]


def choose_declared(settings: Settings) -> list[Declaration]:
    """The tools that a server has for some agent or other."""
    return _of_any_agent(settings, choose_tools)


def choose_declared_for_pages(settings: Settings) -> list[Declaration]:
    """The tools that a server has beside those, for the pages of some agent or other."""
    return _of_any_agent(settings, choose_for_pages)


def _of_any_agent(settings: Settings, choose: Callable[[Settings], list[Declaration]]) -> list[Declaration]:
    chosen = {each for agent in ("", *settings.agents) for each in choose(settings.for_agent(agent))}
    # In the order of the declarations, so that the list is the same for every client.
    return [each for each in (*DECLARATIONS, *OF_PAGES) if each in chosen]


def _switched_off(settings: Settings) -> set[Declaration]:
    return {
        *(_WRITERS if settings.working_memory.read_only else ()),
        *(() if settings.entries.enabled else (entries.remember,)),
    }


def list_callable(settings: Settings, rights: Collection[Right]) -> frozenset[str]:
    """The names of those that a credential with these rights can call."""
    return frozenset(each.name for each in choose_tools(settings) if each.open_to(rights))


def list_writers() -> frozenset[str]:
    """The names of all tools that may write, listed or not."""
    return frozenset(each.name for each in (*DECLARATIONS, *OF_PAGES) if not each.annotations.read_only_hint)
