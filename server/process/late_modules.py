"""Modules that are imported once they are needed: a host waits for the first answer, and importing takes most of it."""

import importlib
from collections.abc import Callable
from typing import Any

import anyio.to_thread

_loaded: dict[str, Any] = {}
_ready: set[Callable[..., Any]] = set()


class LateModule:
    """Stands for a module of this name, which is imported with the first use of what it holds."""

    def __init__(self, name: str) -> None:
        self.module_name = name

    def __getattr__(self, attribute: str) -> Any:
        module = _loaded.get(self.module_name)
        if module is None:
            module = _loaded[self.module_name] = importlib.import_module(self.module_name)
        return getattr(module, attribute)


async def load(name: str) -> Any:
    """Import a module in a thread, once."""
    module = _loaded.get(name)
    if module is None:
        module = await anyio.to_thread.run_sync(importlib.import_module, name, abandon_on_cancel=True)
        _loaded[name] = module
    return module


async def load_for(function: Callable[..., Any]) -> None:
    """Import in a thread every late module that the function's own module uses, so that the function never waits."""
    if function in _ready:
        return
    for used in tuple(function.__globals__.values()):
        if isinstance(used, LateModule) and used.module_name not in _loaded:
            await load(used.module_name)
    _ready.add(function)
