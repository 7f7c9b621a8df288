"""Work on long texts: one at a time, in a thread of its own.

A pattern that goes over a text holds the interpreter meanwhile, as most steps in C do. While there is one such thread, a
short call waits for one step of it, and not for a step of each of many.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")

_THREAD = ThreadPoolExecutor(1, thread_name_prefix="long-texts")


async def work_on_long_text(function: Callable[_Given, _Made], *args: _Given.args, **named: _Given.kwargs) -> _Made:
    """The result or the error of the function, once the earlier long texts are done."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_THREAD, lambda: function(*args, **named))
