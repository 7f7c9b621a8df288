"""Imports inside functions: a thread makes them before the first call, so that the event loop never waits for one.

They are read from the compiled functions: a list beside them would say everything twice, and could lack one.
"""

import dis
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import anyio.to_thread

_loaded: set[Callable[..., Any]] = set()


async def load_for(function: Callable[..., Any]) -> None:
    """Make, in a thread, the imports that are written inside a function and inside those of its module that it calls."""
    if function not in _loaded:
        # abandon_on_cancel: a caller that leaves need not wait for the import, which goes on.
        await anyio.to_thread.run_sync(_import_for, function, abandon_on_cancel=True)
        _loaded.add(function)


def _import_for(function: Callable[..., Any]) -> None:
    for module, name in sorted(find_imports(function)):
        # The name may be a submodule, which only an import with a fromlist loads.
        __import__(module, fromlist=[name])


def find_imports(function: Callable[..., Any]) -> set[tuple[str, str]]:
    """The imports that ``load_for`` makes, as ("a.b", "c") for ``from a.b import c``."""
    found: set[tuple[str, str]] = set()
    seen: set[Callable[..., Any]] = set()
    waiting = [function]
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        for code in _code_of(function.__code__):
            found.update(_imports_of(code))
            for name in code.co_names:
                used = function.__globals__.get(name)
                # Functions of other modules make their imports themselves, or at their own import.
                if isinstance(used, FunctionType) and used.__module__ == function.__module__:
                    waiting.append(used)
    return found


def _code_of(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of what is defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_of(constant)


def _imports_of(code: CodeType) -> Iterator[tuple[str, str]]:
    module = ""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            module = instruction.argval
        elif instruction.opname == "IMPORT_FROM":
            yield module, instruction.argval
