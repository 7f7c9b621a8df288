"""Modules that are loaded once they are needed: a host waits for the first answer, and importing takes most of it."""

import importlib
from typing import Any

import anyio.to_thread

_loaded: dict[str, Any] = {}


async def load(name: str) -> Any:
    """Import a module in a thread."""
    module = _loaded.get(name)
    if module is None:
        module = await anyio.to_thread.run_sync(importlib.import_module, name, abandon_on_cancel=True)
        _loaded[name] = module
    return module
